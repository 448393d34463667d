/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * rails over null ports and one pool: opened, marked, closed, and where its slots are.
 */
#ifndef RAILS_KIT_H
#define RAILS_KIT_H

#include "../../unit_test.h"
#include "frame/spw_ident.h"
#include "port/rails/rails.h"

#define SLOT_CNT   512u
#define SLOT_BYTES 2048u

static struct spw_region region;
static struct spw_pool pool;

static SPW_UNUSED int set_up(void **state SPW_UNUSED)
{
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = SLOT_CNT * SLOT_BYTES, .numa_node = -1};

	return spw_region_alloc(&req, &region);
}

static SPW_UNUSED int tear_down(void **state SPW_UNUSED)
{
	spw_region_free(&region);
	return 0;
}

static SPW_UNUSED struct spw_port *open_rails(const char *text)
{
	struct spw_port_queue_conf conf = {.pool = &pool, .numa_node = -1};
	struct spw_port_spec spec;
	struct spw_port *port;

	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	assert_int_equal(spw_pool_init(&pool, &region, 0, SLOT_BYTES, SLOT_CNT), 0);
	if (spw_port_open(&spec, 3, 1, &port) || spw_port_region_attach(port, &region) ||
	    spw_port_queue_setup(port, 0, &conf) || spw_port_start(port))
		fail_msg("%s", spw_err_text());
	return port;
}

static SPW_UNUSED void check_slots(struct spw_port *port, uint32_t lent)
{
	struct spw_port_slots s;

	spw_port_slots(port, 0, &s);
	assert_int_equal(s.lent, lent);
	assert_int_equal(pool.free_cnt + s.in_rx + s.lent + s.in_tx, SLOT_CNT);
}

static SPW_UNUSED void close_rails(struct spw_port *port)
{
	assert_int_equal(spw_port_stop(port), 0);
	check_slots(port, 0);
	spw_port_close(port);
	assert_int_equal(spw_pool_fini(&pool), 0);
}

/* A mark of flow `flow` in an empty slot. */
static SPW_UNUSED void mark(const struct spw_desc *desc, uint16_t flow)
{
	static const uint8_t udp[24] = {[12] = 0x08, [13] = 0, [14] = 0x45, [23] = 17};
	uint8_t *frame = spw_pool_slot_addr(&pool, desc->slot) + desc->offset,
		*at = frame + SPW_IDENT_ETH_OFFSET;

	memset(frame, 0, 64);
	memcpy(frame, udp, sizeof(udp));
	at[0] = SPW_IDENT_MAGIC >> 8;
	at[1] = SPW_IDENT_MAGIC & 0xff;
	at[2] = SPW_IDENT_VERSION;
	at[6] = (uint8_t)(flow >> 8);
	at[7] = (uint8_t)flow;
}

#endif
