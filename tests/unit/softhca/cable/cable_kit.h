/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * For the tests of cables: each test has a fresh shm: cable, on which it puts numbered frames.
 */
#ifndef SPW_TESTS_CABLE_KIT_H
#define SPW_TESTS_CABLE_KIT_H

#include <stdio.h>
#include <unistd.h>

#include "base/spw_uid.h"
#include "softhca/cable/shm_impl.h"
#include "unit_test.h"

static char name[64], path[128];

static inline int fresh_name(void **state)
{
	static int turn;

	(void)state;
	snprintf(name, sizeof(name), "unit-%d-%d", (int)getpid(), turn++);
	snprintf(path, sizeof(path), "/dev/shm/spinwire-%u-%s", spw_uid_outer(), name);
	unlink(path);
	return 0;
}

/* func: of a card that several processes use; 0: a card of its own. */
static inline struct cable *join_as(uint64_t func, struct cable_id *id)
{
	struct cable *c = NULL;

	*id = (struct cable_id){.func = func};
	assert_int_equal(cable_shm_open(name, id, &c), 0);
	return c;
}

static inline struct cable *join(struct cable_id *id)
{
	return join_as(0, id);
}

static inline bool put_to(struct cable *c, const uint8_t *dmac, uint32_t dqpn, const uint8_t *smac,
			  uint32_t number, uint32_t len)
{
	uint8_t *p = cable_tx_reserve(c, dmac, dqpn, len);

	if (!p)
		return false;
	memcpy(p, dmac, 6);
	memcpy(p + 6, smac, 6);
	memset(p + 12, (int)(number & 0xff), len - 12);
	memcpy(p + 14, &number, 4);
	cable_tx_commit(c, number & 1);
	return true;
}

static inline bool put(struct cable *c, const uint8_t *dmac, const uint8_t *smac, uint32_t number,
		       uint32_t len)
{
	return put_to(c, dmac, 0, smac, number, len);
}

static inline uint32_t number_of(const struct cable_frame *f)
{
	uint32_t n;

	memcpy(&n, f->data + 14, 4);
	return n;
}

#endif
