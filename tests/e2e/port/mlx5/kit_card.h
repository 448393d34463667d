/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the card under a test can do, by its name in SPW_TEST_CARD (--as of the software ConnectX).
 * Written by hand from docs/060, so that what the port makes of a device is compared with something
 * else than the device's own answers.
 */
#ifndef KIT_CARD_H
#define KIT_CARD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct kit_card {
	const char *name;
	uint16_t queues; /* that RSS spreads over, KIT_QUEUE_MAX at most */
	bool inlines;    /* wants the L2 header inside the WQE */
	bool strides, compresses, stamps;
	bool own_registers;   /* a BlueFlame register for each queue */
	uint32_t strides_min; /* of a receive WQE */
};

static inline const struct kit_card *kit_card(void)
{
	static const struct kit_card cards[] = {
		{"cx6dx", 4, false, true, true, true, true, 8},
		{"cx4lx", 4, true, true, true, true, true, 512},
		{"cx5", 4, false, true, true, true, true, 512},
		{"no-wc", 4, false, true, true, true, false, 8},
		{"real-time", 4, false, true, true, false, true, 8},
		{"poor", 2, true, false, false, false, false, 0},
	};
	const char *name = getenv("SPW_TEST_CARD");

	for (unsigned i = 0; name && i < sizeof(cards) / sizeof(cards[0]); i++)
		if (strcmp(cards[i].name, name) == 0)
			return &cards[i];
	return &cards[0]; /* all others can do the same */
}

#endif
