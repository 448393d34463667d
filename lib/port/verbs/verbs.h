/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The two modes of verbs are two drivers behind one name; port_verbs_driver only opens.
 */
#ifndef SPW_PORT_VERBS_H
#define SPW_PORT_VERBS_H

#include "port/spw_port.h"

extern const struct spw_port_driver verbs_eth_driver;
extern const struct spw_port_driver verbs_rc_driver;
extern const struct spw_port_keys verbs_eth_keys, verbs_rc_keys;

/* A row of both modes' keys. */
#define VERBS_KEY_PORT                                                          \
	{                                                                       \
		"port", "N", "Port of the device, as in mlx5_0/1.", "1", 1, 255 \
	}

/* As spw_port_driver.open. */
int verbs_eth_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		   struct spw_port **port_out);
int verbs_rc_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		  struct spw_port **port_out);

#endif
