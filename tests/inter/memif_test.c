/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two spinwire ports joined by DPDK's net_memif, server and client in one process.
 */
#include "inter_test.h"

#include <stdio.h>
#include <unistd.h>

static struct inter_port server, client;

static int set_up(void **state SPW_UNUSED)
{
	struct spw_desc desc;
	char spec[256];

	snprintf(spec, sizeof(spec), "ethdev:net_memif0,role=server,socket=/tmp/spw-inter-%d.sock,socket-abstract=no", getpid());
	inter_open(&server, spec, 0, 1, 512);
	snprintf(spec, sizeof(spec), "ethdev:net_memif1,role=client,socket=/tmp/spw-inter-%d.sock,socket-abstract=no", getpid());
	inter_open(&client, spec, 1, 1, 512);
	inter_wait_event(&client, SPW_PORT_EVENT_LINK_UP);
	inter_wait_event(&server, SPW_PORT_EVENT_LINK_UP);
	/* Towards the client the receiver posts the buffers: nothing can be sent to it before it has looked once. */
	assert_int_equal(spw_port_rx_burst(&client.port->queue[0], &desc, 1), 0);
	return 0;
}

static int tear_down(void **state SPW_UNUSED)
{
	inter_close(&client);
	inter_close(&server);
	return 0;
}

typedef void use_frame(struct inter_port *ip, struct spw_desc *desc, uint64_t seq);

/* Receives cnt frames, which must be first, first + 1, ... */
static void receive(struct inter_port *ip, uint64_t first, uint64_t cnt, use_frame *use)
{
	uint64_t end = inter_now_ms() + INTER_WAIT_MS, seen = 0;
	struct spw_desc desc[SPW_BURST_MAX];

	while (seen < cnt) {
		uint16_t n = spw_port_rx_burst(&ip->port->queue[0], desc, SPW_BURST_MAX);

		if (n == 0 && inter_now_ms() > end)
			fail_msg("%s: %lu of %lu frames came", ip->port->name, (unsigned long)seen, (unsigned long)cnt);
		inter_check_slots(ip);
		for (uint16_t i = 0; i < n; i++)
			use(ip, &desc[i], first + seen + i);
		seen += n;
	}
	assert_int_equal(seen, cnt);
}

static void check_frame(struct inter_port *ip, struct spw_desc *d, uint64_t seq)
{
	const uint8_t *p = inter_bytes(ip, 0, d);

	assert_true(p >= ip->region.host_va && p + d->len <= ip->region.host_va + ip->region.bytes);
	assert_true(d->offset + d->len <= ip->pool[0].slot_bytes);
	assert_int_equal(d->region, ip->region.id);
	assert_int_equal(d->port, ip->port->index);
	inter_check_frame(p, d->len, seq);
}

static void check_and_release(struct inter_port *ip, struct spw_desc *d, uint64_t seq)
{
	check_frame(ip, d, seq);
	spw_port_release_burst(&ip->port->queue[0], &d->slot, 1);
}

static void check_and_echo(struct inter_port *ip, struct spw_desc *d, uint64_t seq)
{
	uint64_t end = inter_now_ms() + INTER_WAIT_MS;

	check_frame(ip, d, seq);
	while (spw_port_tx_burst(&ip->port->queue[0], &d, 1) != 1)
		if (inter_now_ms() > end)
			fail_msg("%s: nothing can be sent", ip->port->name);
}

static uint32_t len_of(uint64_t seq)
{
	return 60 + (uint32_t)(seq * 37 % 1440);
}

/* What the client writes into its slots is what the handler finds in the server's: the PMD copied it once into the very
 * slot that is lent, and nobody copied after it. More frames than slots, so that each slot is used again and again. */
static void frames_arrive_in_the_lent_slots(void **state SPW_UNUSED)
{
	struct spw_port_stat out, in;
	uint64_t sent = 0, bytes = 0;

	for (int lap = 0; lap < 100; lap++) {
		assert_int_equal(inter_send(&client, len_of(sent), sent, 32), 32);
		receive(&server, sent, 32, check_and_release);
		bytes += 32 * len_of(sent);
		sent += 32;
	}
	spw_port_stat(client.port, &out);
	spw_port_stat(server.port, &in);
	assert_int_equal(out.tx_frames, sent);
	assert_int_equal(out.tx_bytes, bytes);
	assert_int_equal(in.rx_frames, sent);
	assert_int_equal(in.rx_bytes, bytes);
	assert_int_equal(in.wire_frames, sent);
	assert_int_equal(in.port_copies, sent);
	assert_false(in.missed_known);
}

static void echo_goes_back_from_the_same_slot(void **state SPW_UNUSED)
{
	struct spw_port_stat st;
	uint64_t sent = 0;

	for (int lap = 0; lap < 50; lap++) {
		assert_int_equal(inter_send(&client, len_of(sent), sent, 16), 16);
		receive(&server, sent, 16, check_and_echo);
		receive(&client, sent, 16, check_and_release);
		sent += 16;
	}
	spw_port_stat(server.port, &st);
	assert_int_equal(st.tx_frames, sent);
	assert_int_equal(server.pool[0].free_cnt, server.pool[0].slot_cnt);
}

/* Frames that are held: the pool runs dry, nothing is lost or taken twice, and it goes on when they come back. */
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
	assert_true(st.err[SPW_PORT_ERR_no_slot] > 0);
	for (uint32_t i = 0; i < held_cnt; i += 64)
		spw_port_release_burst(&server.port->queue[0], held + i, 64);
	receive(&server, held_cnt, sent - held_cnt, check_and_release);
}

/* The counters of net_memif go back to 0 when the peer leaves; the port's do not. */
static void counters_outlive_the_peer(void **state SPW_UNUSED)
{
	struct spw_port_stat st;

	assert_int_equal(inter_send(&client, 100, 0, 32), 32);
	receive(&server, 0, 32, check_and_release);
	assert_int_equal(spw_port_stop(client.port), 0);
	inter_wait_event(&server, SPW_PORT_EVENT_LINK_DOWN);
	spw_port_stat(server.port, &st);
	assert_int_equal(st.wire_frames, 32);
	assert_int_equal(st.rx_frames, 32);
	assert_int_equal(st.err[SPW_PORT_ERR_link_down], 1);
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test_setup_teardown(frames_arrive_in_the_lent_slots, set_up, tear_down),
		cmocka_unit_test_setup_teardown(echo_goes_back_from_the_same_slot, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_dry_pool_waits_and_goes_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(counters_outlive_the_peer, set_up, tear_down),
	};

	inter_eal_init();
	return cmocka_run_group_tests_name("inter-memif", test, NULL, NULL);
}
