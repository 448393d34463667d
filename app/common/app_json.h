/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Summaries for programs: where they go.
 */
#ifndef APP_JSON_H
#define APP_JSON_H

#include <jansson.h>

/* Purpose: writes top to path ("-": stdout) and drops it. top NULL is "no memory for it". Thread: any.
 * Errors:  -ENOMEM, -EIO with the path. */
int app_json_write(json_t *top, const char *path);

#endif
