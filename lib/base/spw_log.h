/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Log of the control path. Libraries log what they chose and what they had to leave out; the
 * program decides where the lines go. The data path never logs between start and stop.
 */
#ifndef SPW_BASE_LOG_H
#define SPW_BASE_LOG_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ADVICE: this machine will cost latency, and the run is sound. Its text begins with the code that
 * spinwire-doctor has for it, and a colon. */
enum spw_log_level { SPW_LOG_INFO, SPW_LOG_ADVICE, SPW_LOG_WARN, SPW_LOG_ERROR };

/* Receives each line. text is one line that a terminal may have (spw_text.h), and valid during the
 * call only. Any thread may call it; calls never overlap. */
typedef void spw_log_sink(enum spw_log_level level, const char *text, void *arg);

/* Purpose: sets where lines go. NULL, the default, drops them.
 * Lifetime: sink and arg stay valid until they are replaced.
 * Thread: setup.
 */
void spw_log_sink_set(spw_log_sink *sink, void *arg);

/* Purpose: sends one line to the sink.
 * Shape: no newline; a line of more than 1023 bytes is cut.
 * Thread: any; waits for a line of another thread.
 */
void spw_log(enum spw_log_level level, const char *fmt, ...) SPW_PRINTF(2, 3) SPW_COLD;

/* A rate limit for lines of one kind: at most SPW_LOG_BURST a second. All zero to begin with.
 * Owner: the caller. */
#define SPW_LOG_BURST 10u
struct spw_log_limit {
	uint64_t second;     /* of CLOCK_MONOTONIC */
	uint32_t cnt;        /* lines logged in that second */
	uint64_t suppressed; /* lines dropped and not yet reported */
};

/* Purpose: spw_log, unless this second's lines are used up; the line is then counted instead. The
 *   first line of a later second is preceded by the number of lines that were suppressed.
 * Thread: any, one at a time for each limit.
 */
void spw_log_limited(struct spw_log_limit *limit, enum spw_log_level level, const char *fmt, ...)
	SPW_PRINTF(3, 4) SPW_COLD;

/* Purpose: reports the lines suppressed so far. To be called when no more lines will come.
 * Thread: as spw_log_limited.
 */
void spw_log_limit_end(struct spw_log_limit *limit) SPW_COLD;

#define spw_info(...)   spw_log(SPW_LOG_INFO, __VA_ARGS__)
#define spw_advise(...) spw_log(SPW_LOG_ADVICE, __VA_ARGS__)
#define spw_warn(...)   spw_log(SPW_LOG_WARN, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
