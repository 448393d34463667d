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
#include "base/spw_text.h"

static _Thread_local char err_text[SPW_ERR_TEXT_BYTES];

/* Returns -code, so that a failing function can end with "return spw_err(...)". The text may be an
 * argument, so the new one is made beside it. */
int spw_err(int code, const char *fmt, ...)
{
	char text[SPW_ERR_TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	spw_text_show(text, err_text, sizeof(err_text));
	return -code;
}

/* Puts "context: " in front of the text that is there. */
int spw_err_ctx(int rc, const char *fmt, ...)
{
	char text[2 * SPW_ERR_TEXT_BYTES];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	vsnprintf(text, SPW_ERR_TEXT_BYTES, fmt, ap);
	va_end(ap);
	n = strlen(text);
	snprintf(text + n, sizeof(text) - n, "%s%s", err_text[0] ? ": " : "", err_text);
	spw_text_show(text, err_text, sizeof(err_text));
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
