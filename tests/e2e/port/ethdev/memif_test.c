/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two spinwire ports joined by DPDK's net_memif, server and client in one process.
 */
#include "inter_test.h"

#include <stdio.h>
#include <unistd.h>

/* One pair for all tests: net_memif (22.11) leaves the listener of a closed server registered with
 * EAL's interrupt thread, which then frees twice when a second server comes. */
static struct inter_port server, client;
static struct spw_port_stat server_was, client_was;

static int pair_up(void **state SPW_UNUSED)
{
	struct spw_desc desc;
	char spec[256];

	snprintf(spec, sizeof(spec),
		 "ethdev:net_memif0,role=server,socket=/tmp/spw-inter-%d.sock,socket-abstract=no",
		 getpid());
	inter_open(&server, spec, 0, 1, 512);
	snprintf(spec, sizeof(spec),
		 "ethdev:net_memif1,role=client,socket=/tmp/spw-inter-%d.sock,socket-abstract=no",
		 getpid());
	inter_open(&client, spec, 1, 1, 512);
	inter_wait_event(&client, SPW_PORT_EVENT_LINK_UP);
	inter_wait_event(&server, SPW_PORT_EVENT_LINK_UP);
	/* Towards the client the receiver posts the buffers: nothing can be sent to it before it
	 * has looked once. */
	assert_int_equal(spw_port_rx_burst(&client.port->queue[0], &desc, 1), 0);
	return 0;
}

static int pair_down(void **state SPW_UNUSED)
{
	inter_close(&client);
	inter_close(&server);
	return 0;
}

static int set_up(void **state SPW_UNUSED)
{
	spw_port_stat(server.port, &server_was);
	spw_port_stat(client.port, &client_was);
	return 0;
}

static int tear_down(void **state SPW_UNUSED)
{
	assert_int_equal(server.pool[0].free_cnt, server.pool[0].slot_cnt);
	assert_int_equal(client.pool[0].free_cnt, client.pool[0].slot_cnt);
	return 0;
}

static void check_and_echo(struct inter_port *ip, struct spw_desc *d, uint64_t seq)
{
	uint64_t end = inter_now_ms() + INTER_WAIT_MS;

	inter_check_desc(ip, 0, d, seq);
	while (spw_port_tx_burst(&ip->port->queue[0], &d, 1) != 1)
		if (inter_now_ms() > end)
			fail_msg("%s: nothing can be sent", ip->port->name);
}

static uint32_t len_of(uint64_t seq)
{
	return 60 + (uint32_t)(seq * 37 % 1440);
}

/* What the client writes into its slots is what the handler finds in the server's: the PMD copied
 * it once into the very slot that is lent, and nobody copied after it. More frames than slots, so
 * that each slot is used again and again. */
static void frames_arrive_in_the_lent_slots(void **state SPW_UNUSED)
{
	struct spw_port_stat out, in;
	uint64_t sent = 0, bytes = 0;

	for (int lap = 0; lap < 100; lap++) {
		assert_int_equal(inter_send(&client, len_of(sent), sent, 32), 32);
		inter_receive(&server, sent, 32, inter_check_and_release);
		bytes += 32 * len_of(sent);
		sent += 32;
	}
	spw_port_stat(client.port, &out);
	spw_port_stat(server.port, &in);
	assert_int_equal(out.tx_frames - client_was.tx_frames, sent);
	assert_int_equal(out.tx_bytes - client_was.tx_bytes, bytes);
	assert_int_equal(in.rx_frames - server_was.rx_frames, sent);
	assert_int_equal(in.rx_bytes - server_was.rx_bytes, bytes);
	assert_int_equal(in.wire_frames - server_was.wire_frames, sent);
	assert_int_equal(in.port_copies - server_was.port_copies, sent);
	assert_false(in.missed_known);
}

static void echo_goes_back_from_the_same_slot(void **state SPW_UNUSED)
{
	struct spw_port_stat st;
	uint64_t sent = 0;

	for (int lap = 0; lap < 50; lap++) {
		assert_int_equal(inter_send(&client, len_of(sent), sent, 16), 16);
		inter_receive(&server, sent, 16, check_and_echo);
		inter_receive(&client, sent, 16, inter_check_and_release);
		sent += 16;
	}
	spw_port_stat(server.port, &st);
	assert_int_equal(st.tx_frames - server_was.tx_frames, sent);
}

/* Frames that are held: the pool runs dry, nothing is lost or taken twice, and it goes on when they
 * come back. */
static void a_dry_pool_waits_and_goes_on(void **state SPW_UNUSED)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t held[512];
	uint32_t held_cnt = 0;
	uint64_t sent = 0, end = inter_now_ms() + INTER_WAIT_MS;
	struct spw_port_stat st;

	while (held_cnt < 512 && inter_now_ms() < end) {
		uint16_t n;

		sent += inter_send(&client, 64, sent, 32);
		n = spw_port_rx_burst(&server.port->queue[0], desc, SPW_BURST_MAX);
		for (uint16_t i = 0; i < n; i++)
			held[held_cnt++] = desc[i].slot;
		inter_check_slots(&server);
	}
	assert_int_equal(held_cnt, 512);
	assert_int_equal(server.pool[0].free_cnt, 0);
	assert_int_equal(spw_port_rx_burst(&server.port->queue[0], desc, SPW_BURST_MAX), 0);
	spw_port_stat(server.port, &st);
	assert_true(st.err[SPW_PORT_ERR_no_slot] > server_was.err[SPW_PORT_ERR_no_slot]);
	for (uint32_t i = 0; i < held_cnt; i += 64)
		spw_port_release_burst(&server.port->queue[0], held + i, 64);
	inter_receive(&server, held_cnt, sent - held_cnt, inter_check_and_release);
}

/* The counters of net_memif go back to 0 when the peer leaves; the port's do not. */
static void counters_outlive_the_peer(void **state SPW_UNUSED)
{
	struct spw_port_stat st;

	assert_int_equal(inter_send(&client, 100, 0, 32), 32);
	inter_receive(&server, 0, 32, inter_check_and_release);
	assert_int_equal(spw_port_stop(client.port), 0);
	inter_wait_event(&server, SPW_PORT_EVENT_LINK_DOWN);
	spw_port_stat(server.port, &st);
	assert_int_equal(st.wire_frames - server_was.wire_frames, 32);
	assert_int_equal(st.rx_frames - server_was.rx_frames, 32);
	assert_int_equal(st.err[SPW_PORT_ERR_link_down], 1);
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test_setup_teardown(frames_arrive_in_the_lent_slots, set_up, tear_down),
		cmocka_unit_test_setup_teardown(echo_goes_back_from_the_same_slot, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_dry_pool_waits_and_goes_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(counters_outlive_the_peer, set_up,
						tear_down), /* last: the client is stopped */
	};

	inter_eal_init();
	return cmocka_run_group_tests_name("inter-memif", test, pair_up, pair_down);
}
