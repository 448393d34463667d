/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lines to the user, on stderr, where NIXL's own go. NIXL's variable decides which are shown, and
 * its default is the same: warnings.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/spw_log.h"
#include "nixl/agent.h"

static enum spw_log_level nixl_log_least(void)
{
	const char *wish = getenv("NIXL_LOG_LEVEL");
	static const char *const more[] = {"INFO", "DEBUG", "TRACE"};

	for (size_t i = 0; wish && i < SPW_ARRAY_CNT(more); i++)
		if (!strcasecmp(wish, more[i]))
			return SPW_LOG_INFO;
	if (wish && (!strcasecmp(wish, "ERROR") || !strcasecmp(wish, "FATAL")))
		return SPW_LOG_ERROR;
	return SPW_LOG_ADVICE;
}

/* One writev(2), so that lines of several processes on one terminal are not mixed. */
static void nixl_log_sink(enum spw_log_level level, const char *text, void *arg SPW_UNUSED)
{
	static const char head[] = "NIXL/spinwire: ";
	const struct iovec part[] = {{(void *)(uintptr_t)head, sizeof(head) - 1},
				     {(void *)(uintptr_t)text, strlen(text)},
				     {(void *)(uintptr_t) "\n", 1}};

	if (level >= nixl_log_least() && writev(STDERR_FILENO, part, SPW_ARRAY_CNT(part)) < 0)
		return; /* nobody listens */
}

void nixl_log_start(void)
{
	spw_log_sink_set(nixl_log_sink, NULL);
}
