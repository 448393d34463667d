/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a program prints, made safe for a terminal.
 */
#ifndef APP_PRINT_H
#define APP_PRINT_H

/* Purpose: replaces stdout and stderr by streams that let no control character through but newline
 *   and tab (base/spw_text.h). They have no descriptor (fileno() is -1); what really moves a cursor
 *   is written to the descriptor itself.
 * Thread: main, before anything is printed.
 */
void app_print_start(void);

#endif
