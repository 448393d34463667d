/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a port counted, and each of its rails, in the JSON summaries; and frames that came to its
 * NIC and not to it.
 */
#ifndef APP_PORT_H
#define APP_PORT_H

#include <jansson.h>

#include "port/spw_port.h"

/* Purpose: a row of "ports": name, driver, frames and bytes of both directions, errors, and
 * "rails", one row for each port that this one is made of. Numbers that the device does not count
 * are null. Shape: stat: the port's, as read by the caller; the rails' are read here. Owner: the
 * caller. Returns: NULL if memory ran out. Thread: main, while the port is open.
 */
json_t *app_port_json(struct spw_port *port, const struct spw_port_stat *stat);

/* Purpose: what a peer must know of a port whose link came up: ", MAC 02:53:57:00:00:01, 100
 *   Gbit/s, MTU 9000", as far as it is known. Thread: main, while the port is open.
 */
#define APP_PORT_LINK_BYTES 80u
void app_port_link_text(struct spw_port *port, char out[APP_PORT_LINK_BYTES]);

/* Purpose: prints one line if the physical port received frames that no queue of this port got,
 * with the address that a frame must have. Shape: indent goes before it. Thread: main.
 */
void app_port_strays_print(const char *indent, const struct spw_port *port,
			   const struct spw_port_stat *stat);

#endif
