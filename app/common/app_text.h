/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Text from outside (paths, device names) in a JSON summary.
 */
#ifndef APP_TEXT_H
#define APP_TEXT_H

#include <jansson.h>

/* Purpose: text as a JSON string. Bytes that are not UTF-8 become U+FFFD: JSON cannot represent
 *   them, and a path may contain any byte.
 * Owner: the caller.
 * Returns: NULL if memory ran out.
 * Thread: any.
 */
json_t *app_json_text(const char *text);

#endif
