/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 RC through the port interface, over rdma-core's own objects and the software ConnectX:
 * `a` connects, `b` listens and sends back what it gets. Every byte is compared, every slot is
 * counted.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "port/mlx5/rc/rc.h"
#include "kit_card.h"
#include "rc_kit.h"

static struct kit_run run;

static void echoes(const struct rc_kit *k)
{
	rc_kit_open(&run, k);
	run.window = 64;
	kit_pump(&run, 5000);
	rc_kit_check_clean(&run);
	kit_close(&run);
}

static const char *const ops[] = {"send", "write"};

/* Both ways of a message, own and shared receives, both profiles, one and several peers and queues.
 */
static void test_echo(void **state)
{
	(void)state;
	for (unsigned op = 0; op < 2; op++)
		for (unsigned srq = 0; srq < 2; srq++)
			for (unsigned shape = 0; shape < 3; shape++) {
				struct rc_kit k = {.queues = (uint16_t)(1 + (shape == 2)),
						   .peers = shape ? 4 : 1,
						   .op = ops[op],
						   .srq = srq,
						   .profile = shape == 1 ? "throughput"
									 : "latency"};

				echoes(&k);
			}
}

/* As many as one spec has room to name; nobody is forgotten. */
static void test_many_peers(void **state)
{
	(void)state;
	for (unsigned srq = 0; srq < 2; srq++) {
		struct rc_kit k = {
			.queues = 2, .peers = 16, .op = ops[srq], .srq = srq, .profile = "latency"};

		rc_kit_open(&run, &k);
		run.window = 128;
		kit_pump(&run, 5000);
		for (uint32_t i = 0; i < k.peers; i++) {
			uint32_t got =
				mlx5_rc_peer_at(&mlx5_rc_of(run.b.port)->queue[i % 2].q, i / 2)
					->rc.rx.received;

			if (got < 200)
				fail_msg("peer %u brought %u of 5000 messages", i, got);
		}
		rc_kit_check_clean(&run);
		kit_close(&run);
	}
}

/* Was a compressed session taken? */
static bool sessions(const struct mlx5_rc_queue *q)
{
	return (q->session.title[63] >> 2 & 3) == SPW_PRM_CQE_FORMAT_COMPRESSED;
}

/* Profile throughput, op=send: completions come compressed. */
static void test_compressed(void **state)
{
	(void)state;
	for (unsigned srq = 0; srq < 2; srq++) {
		struct rc_kit k = {
			.queues = 1, .peers = 1, .op = "send", .srq = srq, .profile = "throughput"};
		const struct mlx5_rc_queue *q;

		rc_kit_open(&run, &k);
		run.window = 64;
		q = &mlx5_rc_of(run.b.port)->queue[0].q;
		for (unsigned i = 0; i < (kit_card()->compresses ? 20 : 1) && !sessions(q); i++)
			kit_pump(&run, 5000);
		assert_int_equal(q->rc.flags & MLX5_RC_COMPRESSED,
				 kit_card()->compresses ? MLX5_RC_COMPRESSED : 0);
		assert_int_equal(sessions(q) > 0, kit_card()->compresses);
		rc_kit_check_clean(&run);
		kit_close(&run);
	}
}

/* ---- sizes ---- */

static uint8_t size_byte(uint32_t len, uint32_t at)
{
	return (uint8_t)(len * 5 + at + (at >> 8) * 3 + (at >> 16) * 7);
}

static void size_send(uint32_t peer, uint32_t len)
{
	struct spw_port_queue *pq = &run.a.port->queue[0];
	struct spw_desc desc = {.len = len, .peer = peer}, *ptr = &desc;
	double start = kit_seconds();
	uint8_t *p;

	assert_int_equal(spw_port_lend_burst(pq, &desc.slot, 1), 1);
	p = spw_pool_slot_addr(&run.a.pool[0], desc.slot);
	for (uint32_t i = 0; i < len; i++)
		p[i] = size_byte(len, i);
	while (spw_port_tx_burst(pq, &ptr, 1) == 0) { /* out of credits for a moment */
		kit_turn(&run, false);
		if (kit_seconds() - start > KIT_WAIT_S)
			fail_msg("%u bytes were not taken", len);
	}
	run.sent++;
	run.a.taken++;
}

static void size_echo(uint32_t len)
{
	struct spw_port_queue *pq = &run.a.port->queue[0];
	double start = kit_seconds();
	struct spw_desc desc;

	for (;;) {
		if (spw_port_rx_burst(pq, &desc, 1))
			break;
		kit_echo(&run);
		usleep(0);
		if (kit_seconds() - start > KIT_WAIT_S)
			fail_msg("no echo of %u bytes", len);
	}
	run.a.rx[0]++;
	run.echoed++;
	assert_int_equal(desc.len, len);
	for (uint32_t i = 0; i < len; i++) {
		const uint8_t *p = spw_pool_slot_addr(&run.a.pool[0], desc.slot) + desc.offset;

		if (p[i] != size_byte(len, i))
			fail_msg("%u bytes: byte %u differs", len, i);
	}
	spw_port_release_burst(pq, &desc.slot, 1);
}

/* One byte to 64 MiB: inline, one packet, many packets, and each edge. */
static void test_sizes(void **state)
{
	static const uint32_t sizes[] = {1,
					 2,
					 27,
					 28,
					 29,
					 43,
					 44,
					 45,
					 64,
					 1023,
					 1024,
					 1025,
					 4095,
					 4096,
					 4097,
					 65536,
					 1000000,
					 SPW_DESC_LEN_MAX - 1,
					 SPW_DESC_LEN_MAX};

	(void)state;
	for (unsigned op = 0; op < 2; op++) {
		struct rc_kit k = {.queues = 1,
				   .peers = 1,
				   .op = ops[op],
				   .srq = op,
				   .profile = "latency",
				   .extra = ",credits=1",
				   .slots = 9,
				   .slot_bytes = SPW_DESC_LEN_MAX};

		rc_kit_open(&run, &k);
		for (size_t i = 0; i < SPW_ARRAY_CNT(sizes); i++) {
			size_send(0, sizes[i]);
			size_echo(sizes[i]);
		}
		rc_kit_check_clean(&run);
		kit_close(&run);
	}
}

/* Two peers ring one register, whose halves take turns: each peer after itself and after the other.
 * The NIC takes each doorbell before the next one is written, so none escapes the check of
 * with-softhca. */
static void test_one_at_a_time(void **state)
{
	static const uint32_t turn[] = {0, 1, 1, 1, 0, 0, 1};
	struct rc_kit k = {.queues = 1, .peers = 2, .op = "send", .profile = "latency"};
	const struct mlx5_rc_peer *peer;

	(void)state;
	rc_kit_open(&run, &k);
	peer = mlx5_rc_peer_at(&mlx5_rc_of(run.a.port)->queue[0].q, 0);
	assert_ptr_equal(peer[0].bf, peer[1].bf);
	assert_int_equal(peer[0].bf_toggle != 0, kit_card()->own_registers);
	for (uint32_t i = 0; i < 50 * SPW_ARRAY_CNT(turn); i++) {
		size_send(turn[i % SPW_ARRAY_CNT(turn)], 40);
		size_echo(40);
	}
	rc_kit_check_clean(&run);
	kit_close(&run);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_echo),          cmocka_unit_test(test_many_peers),
		cmocka_unit_test(test_compressed),    cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_one_at_a_time),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
