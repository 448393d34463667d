/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/spw_log.h"

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

void spw_log(enum spw_log_level level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&log_lock);
	if (log_sink)
		log_sink(level, text, log_arg);
	pthread_mutex_unlock(&log_lock);
}
