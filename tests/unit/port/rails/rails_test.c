/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The driver over null ports, which need no device: where slots are at every moment, which rail a
 * frame is sent over, and what a specification must not be. */
#include <errno.h>

#include "rails_kit.h"

/* Every rail is polled, each burst ends with another one, and slots go back where they came from.
 */
static void rails_take_turns(void **state SPW_UNUSED)
{
	struct spw_port *port = open_rails("rails:null:size=64+null:size=64+null:size=64");
	struct spw_port_queue *pq = &port->queue[0];
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	struct spw_desc desc[3][16];
	uint32_t slot[48];
	uint16_t n = 0;

	assert_string_equal(port->name, "null+null+null");
	for (uint32_t b = 0; b < 3; b++)
		assert_int_equal(spw_port_rx_burst(pq, desc[b], 16), 16);
	check_slots(port, 48);
	assert_int_equal(spw_port_rails(port, rail), 3);
	for (uint32_t r = 0; r < 3; r++) {
		assert_int_equal(rail[r].polled, 16);
		assert_int_equal(rail[r].residual, 0);
	}
	for (uint32_t b = 0; b < 3; b++)
		for (uint32_t i = 0; i < 16; i++)
			slot[n++] = desc[b][i].slot;
	spw_port_release_burst(pq, slot, n);
	check_slots(port, 0);
	close_rails(port);
}

/* Lends empty slots and sends one frame of each flow. */
static void send_flows(struct spw_port *port, uint16_t flows)
{
	struct spw_port_queue *pq = &port->queue[0];
	struct spw_desc desc[SPW_BURST_MAX], *tx[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];

	assert_int_equal(spw_port_lend_burst(pq, slot, flows), flows);
	check_slots(port, flows);
	for (uint16_t i = 0; i < flows; i++) {
		desc[i] = (struct spw_desc){.slot = slot[i], .len = 64};
		mark(&desc[i], i);
		tx[i] = &desc[i];
	}
	assert_int_equal(spw_port_tx_burst(pq, tx, flows), flows);
	check_slots(port, 0);
}

static void sent(struct spw_port *port, uint64_t *frames_out)
{
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	const uint32_t cnt = spw_port_rails(port, rail);

	for (uint32_t r = 0; r < cnt; r++)
		frames_out[r] = rail[r].stat.tx_frames;
}

/* By flow, each rail has its flows; with one down, only those move. */
static void flows_are_spread(void **state SPW_UNUSED)
{
	struct spw_port *port = open_rails("rails:null:size=64+null:size=64");
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	struct rails_port *rp = rails_of(port);
	uint64_t frames[SPW_PORT_RAIL_MAX];

	send_flows(port, 32);
	sent(port, frames);
	assert_int_equal(frames[0], 16);
	assert_int_equal(frames[1], 16);
	for (uint32_t b = 0; b < RAILS_BUCKETS; b++) {
		const uint8_t home = rp->rail_of[rp->all][b];

		assert_int_equal(rp->rail_of[1u << home][b], home);
		assert_int_not_equal(rp->rail_of[rp->all & ~(1u << home)][b], home);
	}
	rp->up = 1;
	send_flows(port, 32);
	sent(port, frames);
	assert_int_equal(frames[0], 48);
	assert_int_equal(frames[1], 16);
	spw_port_rails(port, rail);
	assert_int_equal(rail[0].moved, 16);
	assert_int_equal(rail[1].moved, 0);
	close_rails(port);
}

static void frames_take_turns(void **state SPW_UNUSED)
{
	struct spw_port *port = open_rails(
		"rails:null:size=64+null:size=64+null:size=64+null:size=64,rails_spread=frame");
	uint64_t frames[SPW_PORT_RAIL_MAX];

	send_flows(port, 40);
	sent(port, frames);
	for (uint32_t r = 0; r < 4; r++)
		assert_int_equal(frames[r], 10);
	rails_of(port)->up = 5;
	send_flows(port, 40);
	sent(port, frames);
	assert_int_equal(frames[0] + frames[2], 60);
	assert_int_equal(frames[1] + frames[3], 20);
	close_rails(port);
}

/* The echo of a frame goes back over its rail; over another, if that one is down. */
static void echoes_go_back(void **state SPW_UNUSED)
{
	struct spw_port *port = open_rails("rails:null:size=64+null:size=64");
	struct spw_port_queue *pq = &port->queue[0];
	struct spw_desc desc[16], *tx[16];
	uint64_t frames[SPW_PORT_RAIL_MAX];

	for (uint32_t round = 0; round < 4; round++) {
		assert_int_equal(spw_port_rx_burst(pq, desc, 16), 16);
		for (uint32_t i = 0; i < 16; i++)
			tx[i] = &desc[i];
		rails_of(port)->up = round < 2 ? 3 : 2;
		assert_int_equal(spw_port_tx_burst(pq, tx, 16), 16);
		check_slots(port, 0);
		sent(port, frames);
		assert_int_equal(frames[0], 16);
		assert_int_equal(frames[1], round * 16);
	}
	close_rails(port);
}

static struct spw_port_queue full; /* a rail that has room for FULL_ROOM frames of each burst */
#define FULL_ROOM 5u

static uint16_t full_tx(void *q, struct spw_desc **desc, uint16_t cnt)
{
	return full.tx_burst(q, desc, (uint16_t)SPW_MIN(cnt, FULL_ROOM));
}

/* Whichever rail is down, the other takes its echoes, and only those that it took have moved. */
static void taken_echoes_have_moved(void **state SPW_UNUSED)
{
	struct spw_port *port = open_rails("rails:null:size=64+null:size=64");
	struct spw_port_queue *pq = &port->queue[0];
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	struct spw_desc desc[16], *tx[16];

	for (uint32_t home = 0; home < 2; home++) {
		assert_int_equal(spw_port_rx_burst(pq, desc, 16), 16);
		rails_of(port)->up = 2 >> home;
		if (home) {
			full = *((struct rails_queue *)pq->q)->rail[0];
			((struct rails_queue *)pq->q)->rail[0]->tx_burst = full_tx;
		}
		for (uint32_t i = 0; i < 16; i++)
			tx[i] = &desc[i];
		assert_int_equal(spw_port_tx_burst(pq, tx, 16), home ? FULL_ROOM : 16);
		for (uint32_t i = FULL_ROOM; home && i < 16; i++)
			spw_port_release_burst(pq, &tx[i]->slot, 1);
		check_slots(port, 0);
	}
	assert_int_equal(spw_port_rails(port, rail), 2);
	assert_int_equal(rail[1].moved, 16);
	assert_int_equal(rail[0].moved, FULL_ROOM);
	close_rails(port);
}

/* Frames of a flow that wait are in the port; at stop they are dropped and counted. */
static void parked_slots_are_in_the_port(void **state SPW_UNUSED)
{
	struct spw_port *port = open_rails(
		"rails:null:size=64,count=16+null:size=64,count=16,rails_wait_us=10000000");
	struct spw_port_queue *pq = &port->queue[0];
	struct rails_queue *q = pq->q;
	struct spw_desc desc[4];
	struct rails_tag tag = {RAILS_WORD(2, 1, 0), .idx = 1};
	struct spw_port_stat stat;
	uint32_t slot;

	assert_int_equal(spw_port_rx_burst(pq, desc, 2), 2);
	assert_int_equal(rails_window_put(&q->window, &tag, &desc[1]), RAILS_KEPT);
	check_slots(port, 1);
	slot = desc[0].slot;
	spw_port_release_burst(pq, &slot, 1);
	check_slots(port, 0);
	assert_int_equal(pool.free_cnt, SLOT_CNT - 1);
	assert_int_equal(spw_port_stop(port), 0);
	spw_port_stat(port, &stat);
	assert_true(stat.dropped[SPW_PORT_DROP_rx_flushed] >= 1);
	assert_int_equal(pool.free_cnt, SLOT_CNT);
	spw_port_close(port);
	assert_int_equal(spw_pool_fini(&pool), 0);
}

/* ---- events ---- */

static void links_come_and_go(void **state SPW_UNUSED)
{
	struct spw_port *port = open_rails("rails:null:size=64+null:size=64");
	struct spw_port_event event[8];

	/* both rails report that they are up: the second makes the port up */
	assert_int_equal(spw_port_events(&port->queue[0], event, 8), 2);
	assert_int_equal(event[0].kind, SPW_PORT_EVENT_RAIL_UP);
	assert_int_equal(event[1].kind, SPW_PORT_EVENT_LINK_UP);
	assert_non_null(strstr(event[1].text, "rail null"));
	assert_int_equal(rails_of(port)->up, 3);
	close_rails(port);
}

static const char long_cause[] =
	"receive queue: back after 12345678 us; it was local protection error";

static uint16_t event_with_a_long_cause(void *q SPW_UNUSED, struct spw_port_event *event,
					uint16_t cnt SPW_UNUSED)
{
	*event = (struct spw_port_event){.kind = SPW_PORT_EVENT_QUEUE_BACK};
	strcpy(event->text, long_cause);
	return 1;
}

static void a_cause_is_given_whole(void **state SPW_UNUSED)
{
	struct spw_port *port = open_rails("rails:null:size=64+null:size=64");
	struct spw_port_queue *sub = &rails_of(port)->rail[1]->queue[0];
	struct spw_port_event event[8];
	const uint16_t had = spw_port_events(&port->queue[0], event, 8);
	uint16_t (*events)(void *, struct spw_port_event *, uint16_t) = sub->events;

	assert_int_equal(had, 2);
	sub->events = event_with_a_long_cause;
	assert_int_equal(spw_port_events(&port->queue[0], event, 8), 1);
	assert_non_null(strstr(event[0].text, long_cause));
	sub->events = events;
	close_rails(port);
}

/* ---- specifications ---- */

static void refused(const char *text, const char *word)
{
	struct spw_port_spec spec;
	struct spw_port *port;

	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	assert_true(spw_port_open(&spec, 0, 1, &port) < 0);
	if (!strstr(spw_err_text(), word) || strchr(spw_err_text(), '\n'))
		fail_msg("'%s' is not in: %s", word, spw_err_text());
}

static void bad_specifications(void **state SPW_UNUSED)
{
	refused("rails", "0 rails");
	refused("rails:null", "1 rail:");
	refused("rails:null+null+null+null+null", "5 rails");
	refused("rails:null+", "a rail is empty");
	refused("rails:null+rails:null+null", "cannot be made of rails");
	refused("rails:null+nothing:x", "driver is not known");
	refused("rails:null+null:size=1", "size");
	refused("rails:null+null,rails_order=up", "rails_order=up");
	refused("rails:null+null,rails_spread=up", "rails_spread=up");
	refused("rails:null+null,rails_window=100", "no power of 2");
	refused("rails:null+null,rails_window=8192", "rails_window");
	refused("rails:null+null,rails_wait_us=0", "rails_wait_us");
	refused("rails:null+null,rails_what=1", "rails_what");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rails_take_turns),
		cmocka_unit_test(flows_are_spread),
		cmocka_unit_test(frames_take_turns),
		cmocka_unit_test(echoes_go_back),
		cmocka_unit_test(taken_echoes_have_moved),
		cmocka_unit_test(parked_slots_are_in_the_port),
		cmocka_unit_test(links_come_and_go),
		cmocka_unit_test(a_cause_is_given_whole),
		cmocka_unit_test(bad_specifications),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
