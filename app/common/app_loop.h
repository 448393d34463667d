/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * No silent loop: frames between two functions of one physical port, or from a function to itself,
 * turn round inside the NIC. The run looks fine, and says nothing about a cable. The packet
 * counters of the physical port show it: they stand still.
 */
#ifndef APP_LOOP_H
#define APP_LOOP_H

#include <jansson.h>
#include <stdio.h>

#include "frame/spw_port_event.h"

enum app_loop {
	APP_LOOP_UNKNOWN, /* no such counters, or too few frames to judge by */
	APP_LOOP_CABLE,   /* the physical port counted at least half of the frames */
	APP_LOOP_INSIDE,  /* it did not */
};

/* Purpose: where the frames that a port sent and received went. Other traffic on the same physical
 *   port may hide a loop, never feign one.
 * Thread: any.
 */
enum app_loop app_loop_judge(const struct spw_port_stat *stat);

/* Purpose: prints the packets of the physical port and, if the frames turned round inside the NIC,
 *   one sentence with both figures; nothing if they are unknown.
 * Shape: file is stdout or stderr; indent goes before each line.
 * Thread: main.
 */
void app_loop_print(FILE *file, const char *indent, const struct spw_port_stat *stat);

/* Purpose: the same for programs: {"rx_packets", "tx_packets", "inside_nic": true, false or null};
 *   null where the counters are unknown.
 * Owner: the caller.
 * Thread: main.
 */
json_t *app_loop_json(const struct spw_port_stat *stat);

#endif
