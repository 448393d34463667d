/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slow objects (objects_slow.c), for objects.c.
 */
#ifndef OBJECTS_SLOW_H
#define OBJECTS_SLOW_H

#include "app.h"

/* The way of an object that was judged; null of another. */
json_t *app_object_way_json(const struct app *app, const struct spw_pipe_receipt *r);
/* Of a stream, after the run: causes and the longest; the distribution of all. */
json_t *app_objects_slow_json(const struct app *app, const struct spw_topo_lane *lane);
json_t *app_objects_latency_json(const struct app *app, const struct spw_topo_lane *lane);
void app_objects_slow_print(const struct app *app, const struct spw_topo_lane *lane, bool brief);

#endif
