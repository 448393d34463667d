/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the tests against real PMDs share: EAL without hugepages, devices or shared files, and a
 * port with its memory.
 */
#ifndef INTER_TEST_H
#define INTER_TEST_H

#include "../../../unit/unit_test.h"
#include "port/spw_port.h"

#define INTER_QUEUE_MAX 4
#define INTER_WAIT_MS   20000 /* for conditions; generous, since two slow cores must do */

struct inter_port {
	struct spw_port *port;
	struct spw_region region;
	struct spw_pool pool[INTER_QUEUE_MAX];
	uint16_t queue_cnt;
};

/* Once per program. */
void inter_eal_init(void);

/* Opens spec with slot_cnt slots of 2176 B per queue and starts it; fails the test if it cannot. */
void inter_open(struct inter_port *ip, const char *spec, uint16_t index, uint16_t queue_cnt,
		uint32_t slot_cnt);
/* Stops, checks that every slot is in the pool, closes. */
void inter_close(struct inter_port *ip);

/* free + in port + lent + in TX = slots, for each queue. */
void inter_check_slots(struct inter_port *ip);

/* Milliseconds since some start. */
uint64_t inter_now_ms(void);

/* Reads events of queue 0 until one of that kind comes; fails the test after INTER_WAIT_MS. */
void inter_wait_event(struct inter_port *ip, enum spw_port_event_kind kind);

/* Lends cnt empty slots of queue 0, fills each with len bytes that depend on seq + i, and sends
 * them; returns how many went. */
uint16_t inter_send(struct inter_port *ip, uint32_t len, uint64_t seq, uint16_t cnt);
/* Byte i of frame seq. */
uint8_t inter_byte(uint64_t seq, uint32_t i);
/* Checks a frame that inter_send made with that seq. */
void inter_check_frame(const uint8_t *frame, uint32_t len, uint64_t seq);

typedef void inter_use(struct inter_port *ip, struct spw_desc *desc, uint64_t seq);
/* Receives cnt frames on queue 0, which must be first, first + 1, ..., and hands each to use. */
void inter_receive(struct inter_port *ip, uint64_t first, uint64_t cnt, inter_use *use);
/* A descriptor of a frame that inter_send made: all fields, and the bytes, which must lie in the
 * region and in the slot. */
void inter_check_desc(struct inter_port *ip, uint16_t queue, const struct spw_desc *desc,
		      uint64_t seq);
inter_use inter_check_and_release;

/* The bytes that a descriptor names. */
SPW_INLINE uint8_t *inter_bytes(const struct inter_port *ip, uint16_t queue,
				const struct spw_desc *desc)
{
	return spw_pool_slot_addr(&ip->pool[queue], desc->slot) + desc->offset;
}

#endif
