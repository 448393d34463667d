/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * DPDK's net_ring, which copies nothing: it hands over mbufs. Its one ring is both directions, so
 * what is sent is received; and the test can put mbufs of its own choice into it.
 */
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <stdio.h>

#include "inter_test.h"

#define RING_NAME "ETH_RXTX0_net_ring0" /* rte_eth_ring.c names the rings of net_ring0 so */

static struct inter_port ip;
static struct rte_ring *ring;

static int set_up(void **state SPW_UNUSED)
{
	inter_open(&ip, "ethdev:net_ring0", 3, 1, 512);
	ring = rte_ring_lookup(RING_NAME);
	assert_non_null(ring);
	return 0;
}

static int tear_down(void **state SPW_UNUSED)
{
	inter_close(&ip);
	return 0;
}

static struct rte_mempool *port_mempool(void)
{
	struct rte_mempool *mp = rte_mempool_lookup("spinwire_0_0");

	assert_non_null(mp);
	return mp;
}

static struct rte_mbuf *make(struct rte_mempool *mp, uint32_t len, uint64_t seq)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(mp);
	uint8_t *p;

	assert_non_null(m);
	p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	assert_non_null(p);
	for (uint32_t i = 0; i < len; i++)
		p[i] = inter_byte(seq, i);
	return m;
}

/* The proof that nothing is copied: the handler's address is the address that the producer wrote,
 * for every slot. */
static void the_handler_sees_the_very_bytes(void **state SPW_UNUSED)
{
	struct rte_mempool *mp = port_mempool();
	struct spw_port_stat st;

	assert_int_equal(rte_mempool_avail_count(mp), 512);
	for (uint64_t seq = 0; seq < 2048; seq++) {
		struct rte_mbuf *m = make(mp, 60 + (uint32_t)(seq % 1400), seq);
		uint8_t *written = rte_pktmbuf_mtod(m, uint8_t *);
		struct spw_desc d;

		assert_int_equal(rte_ring_enqueue(ring, m), 0);
		inter_check_slots(&ip);
		assert_int_equal(spw_port_rx_burst(&ip.port->queue[0], &d, 1), 1);
		assert_ptr_equal(inter_bytes(&ip, 0, &d), written);
		assert_int_equal(d.offset, ip.port->caps.slot_headroom);
		assert_ptr_equal(ip.region.host_va + ip.pool[0].region_offset +
					 d.slot * ip.pool[0].slot_bytes + d.offset,
				 written);
		inter_check_and_release(&ip, &d, seq);
	}
	spw_port_stat(ip.port, &st);
	assert_int_equal(st.port_copies, 0);
	assert_int_equal(st.wire_frames, 2048);
}

static void check_and_forward(struct inter_port *port, struct spw_desc *d, uint64_t seq)
{
	inter_check_desc(port, 0, d, seq);
	assert_int_equal(spw_port_tx_burst(&port->port->queue[0], &d, 1), 1);
}

static void a_slot_goes_round_and_round(void **state SPW_UNUSED)
{
	uint64_t seq = 0;

	for (int i = 0; i < 8; i++, seq += 32)
		assert_int_equal(inter_send(&ip, 200, seq, 32), 32);
	for (int lap = 0; lap < 20; lap++)
		inter_receive(&ip, 0, seq, check_and_forward);
	inter_receive(&ip, 0, seq, inter_check_and_release);
	assert_int_equal(ip.pool[0].free_cnt, 512);
}

/* Mbufs of another pool cannot be lent: they are copied, and counted as such. */
static void foreign_mbufs_are_adopted(void **state SPW_UNUSED)
{
	struct rte_mempool *other =
		rte_pktmbuf_pool_create("other", 128, 0, 0, 4096, SOCKET_ID_ANY);
	struct spw_port_stat st;
	struct rte_mbuf *m;

	assert_non_null(other);
	for (uint64_t seq = 0; seq < 100; seq++)
		assert_int_equal(rte_ring_enqueue(ring, make(other, 100 + (uint32_t)seq, seq)), 0);
	inter_receive(&ip, 0, 100, inter_check_and_release);
	m = make(other, 1000, 100);
	m->next = make(other, 500, 7);
	m->nb_segs = 2;
	m->pkt_len += 500;
	assert_int_equal(rte_ring_enqueue(ring, m), 0);
	inter_receive(&ip, 100, 0, NULL);
	{
		struct spw_desc d;
		uint8_t *p;

		assert_int_equal(spw_port_rx_burst(&ip.port->queue[0], &d, 1), 1);
		p = inter_bytes(&ip, 0, &d);
		assert_int_equal(d.len, 1500);
		inter_check_frame(p, 1000, 100);
		inter_check_frame(p + 1000, 500, 7);
		spw_port_release_burst(&ip.port->queue[0], &d.slot, 1);
	}
	assert_int_equal(rte_ring_enqueue(ring, make(other, 3000, 1)), 0); /* longer than a slot */
	{
		struct spw_desc d;

		assert_int_equal(spw_port_rx_burst(&ip.port->queue[0], &d, 1), 0);
	}
	spw_port_stat(ip.port, &st);
	assert_int_equal(st.port_copies, 101);
	assert_int_equal(st.dropped[SPW_PORT_DROP_too_long], 1);
	assert_int_equal(st.wire_frames, st.rx_frames + 1);
	assert_int_equal(rte_mempool_avail_count(other), 128);
	rte_mempool_free(other);
}

static void several_segments_are_dropped_and_counted(void **state SPW_UNUSED)
{
	struct rte_mempool *mp = port_mempool();
	struct rte_mbuf *m = make(mp, 1000, 0);
	struct spw_port_stat st;
	struct spw_desc d[2];

	m->next = make(mp, 1000, 1);
	m->nb_segs = 2;
	m->pkt_len += 1000;
	assert_int_equal(rte_ring_enqueue(ring, m), 0);
	assert_int_equal(rte_ring_enqueue(ring, make(mp, 90, 5)), 0);
	assert_int_equal(spw_port_rx_burst(&ip.port->queue[0], d, 2), 1);
	inter_check_and_release(&ip, &d[0], 5);
	spw_port_stat(ip.port, &st);
	assert_int_equal(st.dropped[SPW_PORT_DROP_too_long], 1);
	assert_int_equal(st.wire_frames, 2);
	assert_int_equal(st.rx_frames, 1);
	assert_int_equal(ip.pool[0].free_cnt, 512);
	inter_check_slots(&ip);
}

/* A clone that outlives the mbuf holds the slot; it is returned with the clone. */
static void a_clone_keeps_the_slot(void **state SPW_UNUSED)
{
	struct rte_mempool *other = rte_pktmbuf_pool_create("clones", 16, 0, 0, 0, SOCKET_ID_ANY);
	struct rte_mbuf *m = make(port_mempool(), 100, 0), *clone;

	assert_non_null(other);
	clone = rte_pktmbuf_clone(m, other);
	assert_non_null(clone);
	rte_pktmbuf_free(m);
	assert_int_equal(ip.pool[0].free_cnt, 511);
	inter_check_frame(rte_pktmbuf_mtod(clone, uint8_t *), 100, 0);
	rte_pktmbuf_free(clone);
	assert_int_equal(ip.pool[0].free_cnt, 512);
	rte_mempool_free(other);
}

/* What waits in the ring when the port stops is dropped by name, and its slots are returned
 * (inter_close checks that). */
static void frames_in_flight_are_returned_at_stop(void **state SPW_UNUSED)
{
	struct spw_port_stat st;

	assert_int_equal(inter_send(&ip, 100, 0, 64), 64);
	assert_int_equal(spw_port_stop(ip.port), 0);
	spw_port_stat(ip.port, &st);
	assert_int_equal(st.dropped[SPW_PORT_DROP_rx_flushed], 64);
	assert_int_equal(st.wire_frames, 64);
	assert_int_equal(st.tx_frames, 64);
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test_setup_teardown(the_handler_sees_the_very_bytes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_slot_goes_round_and_round, set_up, tear_down),
		cmocka_unit_test_setup_teardown(foreign_mbufs_are_adopted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(several_segments_are_dropped_and_counted, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_clone_keeps_the_slot, set_up, tear_down),
		cmocka_unit_test_setup_teardown(frames_in_flight_are_returned_at_stop, set_up,
						tear_down),
	};

	inter_eal_init();
	return cmocka_run_group_tests_name("inter-ring", test, NULL, NULL);
}
