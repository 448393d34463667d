/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The error text of each thread (spw_err.h). A thread-local buffer, so that no caller allocates,
 * frees or locks.
 *
 * The rule of the control path (CONTRIBUTING.md): a function that fails returns -errno and leaves
 * one sentence here, which names what happened, to what, and the remedy. Callers pass the code on,
 * and may put a context in front (spw_err_ctx). Whoever ends the chain, a program or a test, prints
 * it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_order.h"

static _Thread_local char err_text[SPW_ERR_TEXT_BYTES];

#ifdef SPW_TSAN
uint32_t spw_tsan_word;
#endif

/* Returns -code, so that a failing function can end with "return spw_err(...)". */
int spw_err(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err_text, sizeof(err_text), fmt, ap);
	va_end(ap);
	return -code;
}

/* Puts "context: " in front of the text that is there. The old text is copied first, since it may
 * be an argument. */
int spw_err_ctx(int rc, const char *fmt, ...)
{
	char old[SPW_ERR_TEXT_BYTES];
	va_list ap;
	size_t n;

	memcpy(old, err_text, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(err_text, sizeof(err_text), fmt, ap);
	va_end(ap);
	n = strlen(err_text);
	snprintf(err_text + n, sizeof(err_text) - n, "%s%s", old[0] ? ": " : "", old);
	return rc;
}

const char *spw_err_text(void)
{
	return err_text;
}

void spw_err_clear(void)
{
	err_text[0] = '\0';
}
