/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 RC through the port interface, over rdma-core's own objects and the software ConnectX: `a` connects, `b` listens and
 * sends back what it gets. Every byte is looked at, every slot is counted.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "port/mlx5/mlx5_rc.h"
#include "port_kit.h"

static struct kit_run run;

/* How the two ports are to be: by key of the spec. */
struct rc_kit {
	uint16_t queues;
	uint32_t peers;
	const char *op, *profile, *extra;
	bool srq;
	uint32_t slots, slot_bytes;
};

/* A port number that nobody listens on. */
static uint16_t free_port(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	close(fd);
	return ntohs(addr.sin_port);
}

static bool all_up(struct kit_run *r, void *arg)
{
	uint32_t peers = *(uint32_t *)arg;

	return r->a.events.cnt[SPW_PORT_EVENT_PEER_UP] >= peers && r->b.events.cnt[SPW_PORT_EVENT_PEER_UP] >= peers;
}

/* Turns without messages until every peer is up at both ends. */
static void wait_up(uint32_t peers)
{
	double start = kit_seconds();

	while (!all_up(&run, &peers)) {
		kit_turn(&run, false);
		usleep(100);
		if (kit_seconds() - start > KIT_WAIT_S)
			fail_msg("a has %u peers up, b %u", run.a.events.cnt[SPW_PORT_EVENT_PEER_UP],
				 run.b.events.cnt[SPW_PORT_EVENT_PEER_UP]);
	}
}

static void open_both(const struct rc_kit *k)
{
	struct kit_conf a = {.queues = k->queues, .profile = k->profile, .slots = k->slots, .slot_bytes = k->slot_bytes}, b = a;
	char spec_a[512], spec_b[512];
	uint16_t port = free_port();
	int n = snprintf(spec_a, sizeof(spec_a), "mlx5:mlx5_0,mode=rc,op=%s,srq=%d%s", k->op, k->srq, k->extra ? k->extra : "");

	for (uint32_t i = 0; i < k->peers; i++)
		n += snprintf(spec_a + n, sizeof(spec_a) - (size_t)n, ",connect=127.0.0.1:%u", port);
	snprintf(spec_b, sizeof(spec_b), "mlx5:mlx5_1,mode=rc,op=%s,srq=%d,peer_max=%u,listen=127.0.0.1:%u,peers=127.0.0.1%s",
		 k->op, k->srq, k->peers, port, k->extra ? k->extra : "");
	a.spec = spec_a;
	b.spec = spec_b;
	kit_open(&run, &a, &b);
	run.peers = k->peers;
	wait_up(k->peers);
}

static void check_clean(void)
{
	struct spw_port_stat stat;

	kit_settle(&run);
	assert_int_equal(run.echoed, run.sent);
	assert_int_equal(run.bad, 0);
	for (double start = kit_seconds(); kit_seconds() - start < KIT_WAIT_S; usleep(100)) {
		kit_turn(&run, false); /* acknowledgements are still on their way */
		spw_port_stat(run.b.port, &stat);
		if (stat.tx_frames + stat.tx_flushed == run.sent)
			break;
	}
	assert_int_equal(stat.missed_frames, 0);
	assert_int_equal(stat.wire_frames, run.sent);
	assert_int_equal(stat.tx_frames + stat.tx_flushed, run.sent);
	for (unsigned i = 0; i < SPW_PORT_ERR_CNT; i++)
		if (stat.err[i] && i != SPW_PORT_ERR_no_credit)
			fail_msg("b counts %llu of %s", (unsigned long long)stat.err[i], spw_port_err_name(i));
}

static void echoes(const struct rc_kit *k)
{
	open_both(k);
	run.window = 64;
	kit_pump(&run, 5000);
	check_clean();
	kit_close(&run);
}

static const char *const ops[] = {"send", "write"};

/* Both ways of a message, own and shared receives, both profiles, one and several peers and queues. */
static void test_echo(void **state)
{
	(void)state;
	for (unsigned op = 0; op < 2; op++)
		for (unsigned srq = 0; srq < 2; srq++)
			for (unsigned shape = 0; shape < 3; shape++) {
				struct rc_kit k = {.queues = (uint16_t)(1 + (shape == 2)), .peers = shape ? 4 : 1, .op = ops[op],
						   .srq = srq, .profile = shape == 1 ? "throughput" : "latency"};

				echoes(&k);
			}
}

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

static uint8_t size_byte(uint32_t len, uint32_t at)
{
	return (uint8_t)(len * 5 + at + (at >> 8) * 3 + (at >> 16) * 7);
}

static void size_send(uint32_t len)
{
	struct spw_port_queue *pq = &run.a.port->queue[0];
	struct spw_desc desc = {.len = len}, *ptr = &desc;
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
	static const uint32_t sizes[] = {1, 2, 27, 28, 29, 43, 44, 45, 64, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 1000000,
					 SPW_DESC_LEN_MAX - 1, SPW_DESC_LEN_MAX};

	(void)state;
	for (unsigned op = 0; op < 2; op++) {
		struct rc_kit k = {.queues = 1, .peers = 1, .op = ops[op], .srq = op, .profile = "latency", .extra = ",credits=1",
				   .slots = 9, .slot_bytes = SPW_DESC_LEN_MAX};

		open_both(&k);
		for (size_t i = 0; i < SPW_ARRAY_CNT(sizes); i++) {
			size_send(sizes[i]);
			size_echo(sizes[i]);
		}
		check_clean();
		kit_close(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_echo),
		cmocka_unit_test(test_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
