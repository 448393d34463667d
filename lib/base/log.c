/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One sink for the log lines of all libraries (spw_log.h); a program installs it (app/common).
 *
 * A line is formatted before the lock is taken, so a slow sink delays other lines but not their
 * formatting. Without a sink lines are dropped. No lcore logs between start and stop: the lock, and
 * whatever the sink does, may block.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/spw_log.h"
#include "base/spw_text.h"

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static spw_log_sink *log_sink;
static void *log_arg;

void spw_log_sink_set(spw_log_sink *sink, void *arg)
{
	pthread_mutex_lock(&log_lock);
	log_sink = sink;
	log_arg = arg;
	pthread_mutex_unlock(&log_lock);
}

/* The sink is called under the lock: calls never overlap, and spw_log_sink_set returns only when
 * the old sink is no longer running. */
static void log_va(enum spw_log_level level, const char *fmt, va_list ap)
{
	char raw[1024], text[1024];

	vsnprintf(raw, sizeof(raw), fmt, ap);
	spw_text_show(raw, text, sizeof(text));
	pthread_mutex_lock(&log_lock);
	if (log_sink)
		log_sink(level, text, log_arg);
	pthread_mutex_unlock(&log_lock);
}

void spw_log(enum spw_log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(level, fmt, ap);
	va_end(ap);
}

/* ---- limits ---- */

/* A second is one of CLOCK_MONOTONIC, not the last 1000 ms: simple, and at most twice the rate at
 * its boundary. */
void spw_log_limited(struct spw_log_limit *limit, enum spw_log_level level, const char *fmt, ...)
{
	struct timespec now;
	va_list ap;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (limit->second != (uint64_t)now.tv_sec) {
		spw_log_limit_end(limit);
		limit->second = (uint64_t)now.tv_sec;
		limit->cnt = 0;
	}
	if (limit->cnt == SPW_LOG_BURST) {
		limit->suppressed++;
		return;
	}
	limit->cnt++;
	va_start(ap, fmt);
	log_va(level, fmt, ap);
	va_end(ap);
}

void spw_log_limit_end(struct spw_log_limit *limit)
{
	if (limit->suppressed)
		spw_info("%llu more lines like these were suppressed",
			 (unsigned long long)limit->suppressed);
	limit->suppressed = 0;
}
