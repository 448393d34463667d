/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NCCL's plugin and its neighbours on the same devices, in one process: messages of the plugin over
 * both rails, in both ends' registered memory, from this thread; UCX and a raw Ethernet port as
 * neighbours.h has them. All that was sent arrives whole and once at whom it was for.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "neighbours.h"
#include "net_pair.h"

#define MESSAGES   400u /* of the plugin, and of UCX */
#define FRAMES     4000u
#define DEPTH      8u
#define SLOT_BYTES (PAIR_BUF_BYTES / DEPTH)
#define LIMIT_MS   80000u

/* One message of the plugin under way. */
struct transfer {
	void *req[2]; /* the receive, the send; NULL: done */
	uint8_t *out, *in;
	size_t bytes;
	bool posted[2], under_way;
};

static struct pair p;
static struct transfer transfer[DEPTH];
static uint64_t passed;

/* ---- the plugin ---- */

static size_t length_of(uint64_t number)
{
	static const size_t length[] = {1, 4096, 300, 131072, 28, 524288, 65537};

	return length[number % SPW_ARRAY_CNT(length)];
}

static void transfer_begin(struct transfer *t, uint64_t number)
{
	const uint64_t at = (uint64_t)(t - transfer) * SLOT_BYTES;

	*t = (struct transfer){
		.out = p.out + at, .in = p.in + at, .bytes = length_of(number), .under_way = true};
	memset(t->in, 0, t->bytes);
}

/* A call that is put off is made again. The tag is the slot: whatever the order of the calls, a
 * message meets its own receive. */
static void transfer_post(struct transfer *t)
{
	const uint64_t at = (uint64_t)(t->in - p.in);
	const int tag = (int)(t - transfer);

	if (!t->posted[0])
		t->posted[0] = (t->req[0] = pair_recv(&p, at, t->bytes, tag)) != NULL;
	if (t->posted[0] && !t->posted[1])
		t->posted[1] = (t->req[1] = pair_send(&p, at, t->bytes, tag)) != NULL;
}

static void transfer_turn(struct transfer *t)
{
	transfer_post(t);
	if (pair_turn(&p, t->req, 2, NULL) || !t->posted[1])
		return;
	assert_memory_equal(t->out, t->in, t->bytes);
	t->under_way = false;
	passed++;
}

/* One turn of all; more: those that are done begin again. Returns: how many are under way. */
static uint32_t plugin_turn(bool more)
{
	static uint64_t begun;
	uint32_t left = 0;

	for (uint32_t i = 0; i < DEPTH; i++) {
		struct transfer *t = &transfer[i];

		if (more && !t->under_way)
			transfer_begin(t, begun++);
		if (t->under_way)
			transfer_turn(t);
		left += t->under_way;
	}
	return left;
}

/* ---- all three ---- */

static void side_by_side(const char *rule)
{
	const uint64_t end = pair_now_ms() + LIMIT_MS, before = passed;
	struct ucx_side_stat its;
	struct neighbours n;

	neighbours_start(&n, rule);
	while (passed - before < MESSAGES || n.run.echoed < FRAMES ||
	       ucx_side_received(n.ucx) < MESSAGES) {
		neighbours_turn(&n);
		plugin_turn(true);
		if (pair_now_ms() > end)
			fail_msg("plugin %" PRIu64 " messages, UCX %" PRIu64 ", %" PRIu64 " frames",
				 passed - before, ucx_side_received(n.ucx), n.run.echoed);
		sched_yield(); /* the NIC's threads want the core too */
	}
	while (plugin_turn(false))
		assert_true(pair_now_ms() < end);
	neighbours_stop(&n, &its);
	print_message("%s: %" PRIu64 " messages of the plugin, %" PRIu64 " of UCX, %" PRIu64
		      " frames and echoes\n",
		      rule, passed - before, its.received, n.run.echoed);
}

static void a_port_for_one_udp_port(void **state SPW_UNUSED)
{
	side_by_side("udp=9");
}

static void a_port_for_all_frames(void **state SPW_UNUSED)
{
	side_by_side("flow=all");
}

static int open_pair(void **state SPW_UNUSED)
{
	pair_open(&p);
	return 0;
}

static int close_pair(void **state SPW_UNUSED)
{
	pair_close(&p);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_for_one_udp_port),
		cmocka_unit_test(a_port_for_all_frames),
	};

	if (!pair_args(argc, argv))
		return 1;
	return cmocka_run_group_tests(tests, open_pair, close_pair);
}
