/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a program prints, made safe for a terminal.
 */
#ifndef APP_PRINT_H
#define APP_PRINT_H

#include <stdio.h>

/* Purpose: replaces stdout and stderr by streams that let no control character through but newline
 *   and tab (base/spw_text.h). They have no descriptor (fileno() is -1); what really moves a cursor
 *   is written to the descriptor itself.
 * Thread: main, before anything is printed.
 */
void app_print_start(void);

/* Purpose: prints on stderr "PROGRAM: TAG", the tag in a colour where stderr is a terminal that has
 *   colours, unless NO_COLOR (no-color.org) is set. The rest of the line is the caller's.
 * Shape: sgr is a parameter of ECMA-48's SGR: "1;31" is bold red.
 * Thread: any; calls never overlap.
 */
void app_print_tag(const char *program, const char *sgr, const char *tag);

/* Purpose: a stream of the same kind for the one report that goes to fd.
 * Owner: the program, until it ends.
 * Returns: NULL if memory ran out.
 * Thread: main, once.
 */
FILE *app_print_report(int fd);

#endif
