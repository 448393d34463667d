/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Cold-path log. A library says what it chose and what it had to leave; the program decides where that
 * goes. Never called between start and stop of the data path.
 */
#ifndef SPW_BASE_LOG_H
#define SPW_BASE_LOG_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spw_log_level { SPW_LOG_INFO, SPW_LOG_WARN, SPW_LOG_ERROR };

/* text has no newline and is valid during the call only. Called by any thread, one at a time. */
typedef void spw_log_sink(enum spw_log_level level, const char *text, void *arg);

/* Purpose: sets where lines go; NULL (the default) drops them. Thread: setup. */
void spw_log_sink_set(spw_log_sink *sink, void *arg);

/* Purpose: one line to the sink. Thread: any. Lines over 1023 bytes are cut. */
void spw_log(enum spw_log_level level, const char *fmt, ...) SPW_PRINTF(2, 3) SPW_COLD;

#define spw_info(...) spw_log(SPW_LOG_INFO, __VA_ARGS__)
#define spw_warn(...) spw_log(SPW_LOG_WARN, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
