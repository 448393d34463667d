/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Summaries for programs: where they come from, and where they go.
 */
#ifndef APP_JSON_H
#define APP_JSON_H

#include <jansson.h>
#include <stdint.h>

/* Purpose: the "host" of a summary: machine, system, DPDK, the tick counter's rate, and boot_id. One boot has one tick counter:
 *          files with the same boot_id speak of the same clock. Owner: the caller. Returns: NULL out of memory. Thread: any. */
json_t *app_json_host(uint64_t tsc_hz);

/* Purpose: writes top to path ("-": stdout) and drops it. top NULL is "no memory for it". Thread: any.
 * Errors:  -ENOMEM, -EIO with the path. */
int app_json_write(json_t *top, const char *path);

#endif
