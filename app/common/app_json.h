/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * JSON summaries: the part that describes the host, and writing them to a file.
 */
#ifndef APP_JSON_H
#define APP_JSON_H

#include <jansson.h>

#include "base/spw_types.h"

/* Purpose: the "host" of a summary: machine, system, DPDK, the tick counter's rate, and boot_id. A
 *   boot has one tick counter: stamps of files with the same boot_id are of the same clock.
 * Owner: the caller.
 * Returns: NULL if memory ran out.
 * Thread: any.
 */
json_t *app_json_host(uint64_t tsc_hz);

/* Purpose: a counter, as an integer of 63 bits: JSON's have a sign.
 * Owner: the caller.
 * Returns: NULL if memory ran out.
 * Thread: any.
 */
json_t *app_json_number(uint64_t v);

/* Purpose: as app_json_number; null where the value is not known.
 */
json_t *app_json_known(bool known, uint64_t v);

/* Purpose: writes top to path, which app_file_take has tried. A file appears whole, by a rename, or
 *   stays as it was; devices and pipes are written in place.
 * Shape: option: that asked for it.
 * Owner: takes over top. NULL stands for a summary that could not be made.
 * Thread: any.
 * Errors: -ENOMEM (top is NULL); -EIO with option and path.
 */
int app_json_write(const char *option, json_t *top, const char *path);

/* Purpose: writes rows, an array of objects that have the same keys in the same order, as CSV: a
 *   line with the keys, and one for each row. Without a row the file is empty.
 * Owner: takes over rows. NULL stands for rows that could not be made.
 * Thread: any.
 * Errors: as app_json_write.
 */
int app_json_csv(json_t *rows, const char *path);

#endif
