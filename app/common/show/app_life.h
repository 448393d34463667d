/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Signs of life, on stderr: what a program does and how far it is, so that stdout has nothing but
 * the result. One line that is rewritten on a terminal, a line every ten seconds elsewhere; and
 * what is printed when Ctrl-C ends it. tools/lib/spwlife.py is the same for the tools.
 */
#ifndef APP_LIFE_H
#define APP_LIFE_H

#include "base/spw_types.h"

/* Purpose: begins to show phases, by a thread of its own, which has four turns a second on a
 *   terminal, and one in ten seconds elsewhere.
 *   Without it, and if no thread can be had, phases are not shown.
 * Thread: main, once, after rights were reduced; program is static.
 */
void app_life_start(const char *program);

/* Purpose: what is done from now on, in place of the phase before; "" is nothing to show. The line
 *   is taken away before this returns.
 * Shape: whole_ns: how long it takes; 0: not known. The text is cut to 127 bytes.
 * Thread: main.
 */
void app_life_phase(uint64_t whole_ns, const char *fmt, ...) SPW_PRINTF(2, 3);

/* Purpose: the same phase, further on: its clock goes on.
 * Shape: whole_ns: how long the phase takes, as is known now.
 * Thread: main.
 */
void app_life_step(uint64_t whole_ns, const char *fmt, ...) SPW_PRINTF(2, 3);

/* Purpose: takes the line away, so that another can be printed; the next turn shows it again.
 * Thread: any.
 */
void app_life_clear(void);

/* Purpose: prints "PROGRAM: interrupted after 2.1 s of 8", in place of a report.
 * Shape: number: of the signal. whole_ns: how long it should have taken; 0: not known.
 * Returns: the exit status, 128 + number: 130 after Ctrl-C.
 * Thread: main.
 */
int app_life_interrupted(const char *program, uint32_t number, uint64_t took_ns, uint64_t whole_ns);

/* Purpose: from now on SIGINT and SIGTERM end the process with that line, of the phase that it is
 *   in, and with status 130 or 143: until app_catch_signals, or for programs that have nothing to
 *   put in order. Also where a shell started the program in the background, with SIGINT ignored.
 * Thread: main, before anything that takes time; program is static.
 */
void app_life_ends(const char *program);

#endif
