/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Where the frames come from and go to.
 */
#ifndef SPW_GEN_ADDRESS_H
#define SPW_GEN_ADDRESS_H

#include <stdio.h>

#include "gen/spw_gen_frame.h"
#include "port/spw_port.h"

#define GEN_MAC_TEXT_BYTES 18u

/* Purpose: a MAC address from its text and to it, "02:00:00:00:00:01".
 * Returns: whether the text is one. Thread: any. */
bool gen_address_parse(const char *text, uint8_t mac_out[ETH_ALEN]);
void gen_address_text(const uint8_t mac[ETH_ALEN], char text_out[GEN_MAC_TEXT_BYTES]);

/* Purpose: sets the MAC addresses that are 0: src_mac to the port's own; dst_mac to that of the
 *   kernel's neighbour with dst_ip, else to 02:00:00:00:00:02, which is logged.
 * Thread: setup, between open and start of the port.
 */
void gen_address_fill(struct gen_frame_conf *frame, const struct spw_port *port);

/* Purpose: looks an IPv4 address up in a table of the form of /proc/net/arp.
 * Shape: ip in CPU order; an incomplete entry is none.
 * Returns: whether mac_out was set.
 * Thread: setup.
 */
bool gen_address_neighbour(FILE *arp, uint32_t ip, uint8_t mac_out[ETH_ALEN]);

#endif
