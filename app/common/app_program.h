/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What all programs share: exit statuses, error and log lines, signals. Needs no DPDK.
 */
#ifndef APP_PROGRAM_H
#define APP_PROGRAM_H

#include "base/spw_log.h"
#include "base/spw_types.h"
#include "opt/spw_opt.h"

/* Exit statuses, shared by every program of spinwire. */
enum app_status { APP_GOOD = 0, APP_USAGE = 1, APP_MACHINE = 2, APP_BALANCE = 3, APP_FAULT = 4 };

/* Purpose: prints "PROGRAM: error: text" with this thread's error text.
 * Returns: the exit status: APP_USAGE for errors in what the user wrote, else APP_MACHINE.
 * Thread: any.
 */
int app_complain(const char *program, int rc);

/* Purpose: the first call of every program. stdout and stderr become streams that a terminal may
 *   have (app_print.h), and the log lines of libraries go to stderr as "PROGRAM: text".
 * Lifetime: program is static.
 * Thread: main, before anything is printed.
 */
void app_program_start(const char *program);

/* Purpose: from now on lines of advice (SPW_LOG_ADVICE) are not printed; the result then names
 *   their codes in one line.
 * Thread: main, before anything is opened.
 */
void app_advice_hold(void);

/* Purpose: the doctor's codes of all advice so far: "hugepages-none, cores-shared"; "" without any.
 * Lifetime: static.
 * Thread: main, when nothing is being opened.
 */
const char *app_advice_codes(void);

/* Purpose: flushes stdout at the end of a program.
 * Returns: status; APP_MACHINE in place of APP_GOOD if stdout did not take everything.
 * Thread: main.
 */
int app_end(const char *program, int status);

/* Purpose: which lines of the log are printed from now on: those of usual or above; with --quiet
 *   warnings and errors, with --verbose all. The caller prints no result with --quiet, and does
 *   not call app_life_start.
 * Thread: main.
 * Errors: -EINVAL both are given.
 */
int app_program_verbosity(const struct spw_opt_verbosity *verbosity, enum spw_log_level usual);

#define APP_SIGNAL_AGAIN (1u << 8)

/* Purpose: sets *stop to the signal's number on SIGINT and SIGTERM, and on SIGHUP unless it is
 *   ignored (nohup). From the second signal on, APP_SIGNAL_AGAIN is set too: stop without waiting.
 *   A third signal ends the process.
 * Thread: main; *stop is read with spw_thr_load_rlx.
 */
void app_catch_signals(uint32_t *stop);

#endif
