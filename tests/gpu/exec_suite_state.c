/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Handlers that count: the plug-in of SPW_TEST_SYN (examples/handler/syn.c) on every executor. */
#include "exec_suite.h"

#include "../unit/unit_test.h"

#include <stdlib.h>

/* A TCP frame of the port, with these flags. */
static void syn_frame(uint8_t *p, uint16_t port, uint8_t flags)
{
	memset(p, 0, 64);
	p[12] = 0x08;
	p[14] = 0x45;
	p[23] = 6;
	p[36] = (uint8_t)(port >> 8);
	p[37] = (uint8_t)port;
	p[47] = flags;
}

/* Pushes cnt batches of 64 frames to the ring, one in eight of them no SYN; adds to want[port]. */
static void syn_batches(struct rig *rig, uint16_t ring, uint32_t cnt, uint64_t *want)
{
	struct spw_gring *r = spw_exec_ring(rig->exec, ring);
	uint64_t seed = 77u + ring;

	for (uint32_t k = 0; k < cnt; k++) {
		struct spw_gring_batch *b = rig_next(rig, ring);
		uint64_t syns = 0;

		while (b->cnt < 64) {
			uint16_t port = (uint16_t)(suite_random(&seed) % 3 ? 443 : seed >> 20);
			bool syn = suite_random(&seed) % 8;

			syn_frame(rig_add(rig, b, (ring * 64 + b->cnt) * 2048, 64, 0), port,
				  syn ? 0x02 : 0x12);
			want[port] += syn;
			syns += syn;
		}
		spw_gring_push(r, b);
		b = rig_reap(rig, ring);
		assert_int_equal(b->digest, syns);
		spw_gring_retire(r, b);
	}
}

/* What the body of examples/handler/syn.c begins with. */
struct syn {
	uint64_t port, syns[65536], other;
};

/* Two rings of two units: a block for each ring, whose sum is what was sent; then the totals. */
void suite_state_counts_every_frame(void **state)
{
	static struct syn sum;
	static uint64_t want[65536];
	const char *plugin = getenv("SPW_TEST_SYN");
	uint64_t syns = 0;
	struct rig rig;

	if (!plugin)
		skip();
	memset(&sum, 0, sizeof(sum));
	memset(want, 0, sizeof(want));
	rig_open(&rig, *state, plugin,
		 (struct spw_exec_conf){.ring_cnt = 2, .batch_cnt = 16, .cta_per_ring = 2});
	for (uint16_t r = 0; r < 2; r++)
		syn_batches(&rig, r, 200, want);
	for (uint32_t port = 0; port < 65536; port++)
		syns += want[port];
	/* a sample, while the executor still polls */
	assert_int_equal(spw_exec_counters_add(rig.exec, rig.handler, &sum), 0);
	assert_true(sum.other <= 2 * 200 * 64 - syns);
	assert_int_equal(spw_exec_stop(rig.exec, 10000), 0);
	memset(&sum, 0, sizeof(sum));
	assert_int_equal(spw_exec_counters_add(rig.exec, rig.handler, &sum), 0);
	assert_memory_equal(sum.syns, want, sizeof(want));
	assert_int_equal(sum.other, 2 * 200 * 64 - syns);
	assert_int_equal(spw_gring_digest(spw_exec_ring(rig.exec, 0)) +
				 spw_gring_digest(spw_exec_ring(rig.exec, 1)),
			 syns);
	spw_exec_close(rig.exec);
	assert_memory_equal(&((struct syn *)rig.handler->total)->syns, want, sizeof(want));
	spw_handler_close(rig.handler);
}

/* One executor, a handler for each of its rings. */
void suite_rings_of_different_handlers(void **state)
{
	const struct spw_handler *each[2] = {spw_handler_builtin(0), spw_handler_builtin(1)};
	struct spw_gring_batch *b;
	struct rig rig;

	rig_open(&rig, *state, "null",
		 (struct spw_exec_conf){
			 .ring_cnt = 2, .ring_handler = each, .batch_cnt = 16, .cta_per_ring = 2});
	for (uint16_t r = 0; r < 2; r++) {
		b = rig_next(&rig, r);
		memset(rig_add(&rig, b, r * 2048, 64, 0), 3, 64);
		spw_gring_push(spw_exec_ring(rig.exec, r), b);
		b = rig_reap(&rig, r);
		assert_int_equal(b->digest, r ? 3 * 64 : 0);
		spw_gring_retire(spw_exec_ring(rig.exec, r), b);
	}
	rig_close(&rig);
}
