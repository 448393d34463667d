/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Text from outside (files, peers, names of devices) on its way to a person. A terminal does what
 * it is sent: an escape sequence retitles its window or rewrites a line above, and characters that
 * turn the writing direction show another text than the one that is there. Such characters, and
 * bytes that are no UTF-8, are shown by their number instead:
 *
 *   C0, DEL, C1, line and paragraph separator, bidirectional controls   \u001b
 *   a byte that belongs to no UTF-8 character (RFC 3629)                \xff
 *
 * The first form is also JSON's, so text of a JSON document keeps its value. The result is its own
 * result: nothing is escaped twice.
 *
 *   spw_err, spw_log            each text is shown as one line, here in lib/base
 *   stdout, stderr              app/common/app_program.c: every byte that a program prints
 *   tools/lib/spwtext.py        the same for the tools in Python
 */
#ifndef SPW_BASE_TEXT_H
#define SPW_BASE_TEXT_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_TEXT_SHOWN_BYTES 8u /* the longest form of one character, with its end */

/* Purpose: length of the UTF-8 character at text.
 * Shape: bytes >= 1.
 * Returns: 1 to 4; 0: the byte there belongs to no character; -1: the text ends inside it.
 * Thread: any; pure.
 */
int spw_text_char(const char *text, size_t bytes);

/* Purpose: the first character of text as a terminal may have it. Newline and tab are controls too:
 *   who means them passes them on without asking.
 * Shape: bytes >= 1. shown_out ends with a 0.
 * Returns: bytes of text that it stands for, 1 to 4.
 * Thread: any.
 */
uint32_t spw_text_next(const char *text, size_t bytes, char shown_out[SPW_TEXT_SHOWN_BYTES]);

/* Purpose: text as one line. What has no room is cut, between two characters.
 * Shape: room >= 1; out ends with a 0 and is not text.
 * Thread: any.
 */
void spw_text_show(const char *text, char *out, size_t room);

#ifdef __cplusplus
}
#endif
#endif
