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
	spw_port_stat(run.b.port, &stat);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_echo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
