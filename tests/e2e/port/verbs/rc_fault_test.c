/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The verbs driver's mode=rc under faults of the device and the cable: connections end and come
 * back by themselves, messages go on, and every slot is where it should be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "port/verbs/rc/rc.h"
#include "rc_kit.h"

static const char *const op_name[] = {"send", "write"};

struct pair {
	struct kit_end server, client, *end[2];
	char server_keys[128], client_keys[64];
};

/* more: further keys of the server. timeout: that of an ACK (port key timeout=); 14, the default,
 * but where the retries should end soon: a NIC thread that loses its core must end none. */
static void pair_open(struct pair *p, const char *op, const char *more, unsigned timeout)
{
	struct kit_end_conf server = {.keys = p->server_keys}, client = {.keys = p->client_keys};
	uint16_t port = kit_free_port();

	snprintf(p->server_keys, sizeof(p->server_keys),
		 "peers=127.0.0.1,peer_max=2,timeout=%u,op=%s%s", timeout, op, more);
	snprintf(p->client_keys, sizeof(p->client_keys), "timeout=%u,op=%s", timeout, op);
	kit_server(&p->server, port, &server);
	kit_client(&p->client, port, &client);
	p->end[0] = &p->server;
	p->end[1] = &p->client;
	p->client.lossy = true;
	p->client.bytes_min = sizeof(uint64_t);
	p->client.window = UINT32_MAX; /* what was lost is never echoed */
	kit_pump(p->end, 2, 300);
}

static void pair_close(struct pair *p)
{
	kit_close(&p->client);
	kit_close(&p->server);
}

static bool up_again(struct kit_end *const *end, uint32_t cnt SPW_UNUSED, const void *arg)
{
	const uint32_t *up = arg;

	return end[0]->up >= up[0] && end[1]->up >= up[1];
}

/* Both ends have lost the connection and found it again, and messages go on. */
static void check_back(struct pair *p, uint32_t times)
{
	const uint32_t up[] = {1 + times, 1 + times};

	kit_until(p->end, 2, true, up_again, up, "the connection");
	kit_pump(p->end, 2, 300);
	assert_int_equal(p->client.bad, 0);
}

/* A reliable connection hides what the cable does to frames. */
static void frames_in_trouble(void **state SPW_UNUSED)
{
	for (int i = 0; i < 2; i++) {
		struct pair p = {0};

		pair_open(&p, op_name[i], "", 14);
		p.client.lossy = false;
		p.client.window = 64;
		for (uint32_t dev = 0; dev < 2; dev++)
			kit_control(dev, "fault loss=0.01,dup=0.01,reorder=0.01,corrupt=0.005");
		kit_pump(p.end, 2, 1000);
		for (uint32_t dev = 0; dev < 2; dev++)
			kit_control(dev, "fault loss=0,dup=0,reorder=0,corrupt=0");
		kit_settle(p.end, 2);
		assert_int_equal(p.server.down + p.client.down, 0);
		pair_close(&p);
	}
}

static uint32_t qpn_of(const struct kit_end *e)
{
	const struct verbs_rc_port *vp =
		spw_container_of(e->p.port, struct verbs_rc_port, peers.base);

	for (uint32_t i = 0; i < vp->queue[0].rc.peer_cnt; i++)
		if (spw_peer_state(port_rc_conn_peer(&vp->queue[0].rc, i)) == SPW_PEER_UP)
			return verbs_rc_peer_at(&vp->queue[0], i)->qpn;
	fail_msg("no peer is up");
	return 0;
}

/* A QP fails, at either end, on either kind of receive queue. */
static void a_queue_pair_fails(void **state SPW_UNUSED)
{
	for (int i = 0; i < 4; i++) {
		struct pair p = {0};
		struct spw_port_stat stat;

		pair_open(&p, op_name[i & 1], i >> 1 ? ",srq=1" : "", 14);
		for (uint32_t round = 0; round < 4; round++) {
			const bool at_server = round & 1;

			kit_control(at_server, "qp-error=%u",
				    qpn_of(at_server ? &p.server : &p.client));
			check_back(&p, round + 1);
		}
		kit_stat(&p.server, &stat);
		assert_int_equal(stat.err[SPW_PORT_ERR_peer_gone], 4);
		assert_true(stat.err[SPW_PORT_ERR_queue_reset] >= 4);
		pair_close(&p);
	}
}

/* A QP that fails and flushes nothing: after a while its peer is given up all the same, and it is
 * back. */
static void a_queue_pair_that_flushes_nothing(void **state SPW_UNUSED)
{
	for (int i = 0; i < 4; i++) {
		struct pair p = {0};

		pair_open(&p, op_name[i & 1], i >> 1 ? ",srq=1" : "", 14);
		for (uint32_t dev = 0; dev < 2; dev++)
			kit_control(dev, "fault flush=none");
		kit_control(1, "qp-error=%u", qpn_of(&p.server));
		check_back(&p, 1);
		for (uint32_t dev = 0; dev < 2; dev++)
			kit_control(dev, "fault flush=plain");
		pair_close(&p);
	}
}

/* A turn of which the server's lcore polls nothing. */
static void turn_without_server(struct pair *p, bool send)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	kit_turn(&p->end[1], 1, send);
	kit_end_events(&p->server, 0);
	nanosleep(&nap, NULL);
}

/* Frames that the server's NIC has received. */
static uint64_t server_nic_frames(void)
{
	const char *at = strstr(kit_control(1, "status"), " rx=");

	assert_non_null(at);
	return strtoull(at + 4, NULL, 10);
}

/* Until as many frames as messages have reached the server's NIC; late ACKs are only a few. */
static void send_unread(struct pair *p)
{
	const uint64_t frames = server_nic_frames(), sent = p->client.sent;

	for (double end = kit_seconds() + KIT_WAIT_S;
	     p->client.sent < sent + 32 || server_nic_frames() - frames < p->client.sent - sent;) {
		assert_true(kit_seconds() < end);
		turn_without_server(p, p->client.sent < sent + 32);
	}
}

/* Messages and their flush wait in the CQ meanwhile: they are read and counted before the QP is
 * reset, which would take them out of the CQ. */
static void what_arrived_is_read_late(void **state SPW_UNUSED)
{
	for (int i = 0; i < 4; i++) {
		struct spw_port_stat before, after;
		struct pair p = {0};
		uint32_t qpn;

		pair_open(&p, op_name[i & 1], i >> 1 ? ",srq=1" : "", 14);
		kit_settle(p.end, 2);
		kit_stat(&p.server, &before);
		qpn = qpn_of(&p.server);
		send_unread(&p);
		kit_control(1, "qp-error=%u", qpn);
		for (double end = kit_seconds() + 0.5; kit_seconds() < end;)
			turn_without_server(&p, false); /* longer than a device may flush */
		check_back(&p, 1);
		kit_stat(&p.server, &after);
		assert_true(after.dropped[SPW_PORT_DROP_rx_flushed] >
			    before.dropped[SPW_PORT_DROP_rx_flushed]);
		pair_close(&p);
	}
}

static bool client_lost(struct kit_end *const *end, uint32_t cnt SPW_UNUSED,
			const void *arg SPW_UNUSED)
{
	return end[1]->down > 0;
}

/* The cable is cut for longer than the retries last. */
static void the_link_goes_down(void **state SPW_UNUSED)
{
	for (int i = 0; i < 2; i++) {
		struct pair p = {0};

		pair_open(&p, op_name[i], "", 10);
		kit_control(1, "link-down=2s");
		kit_until(p.end, 2, true, client_lost, NULL, "the retries to end");
		check_back(&p, 1);
		pair_close(&p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_in_trouble),
		cmocka_unit_test(a_queue_pair_fails),
		cmocka_unit_test(a_queue_pair_that_flushes_nothing),
		cmocka_unit_test(what_arrived_is_read_late),
		cmocka_unit_test(the_link_goes_down),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
