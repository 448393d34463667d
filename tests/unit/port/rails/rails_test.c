/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The driver over null ports, which need no device: where slots are at every moment, which rail a
 * frame is sent over, and what a specification must not be. */
#include <errno.h>

#include "../../unit_test.h"
#include "base/spw_ident.h"
#include "port/rails/rails.h"

#define SLOT_CNT   512u
#define SLOT_BYTES 2048u

static struct spw_region region;
static struct spw_pool pool;

static int set_up(void **state SPW_UNUSED)
{
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = SLOT_CNT * SLOT_BYTES, .numa_node = -1};

	return spw_region_alloc(&req, &region);
}

static int tear_down(void **state SPW_UNUSED)
{
	spw_region_free(&region);
	return 0;
}

static struct spw_port *open_rails(const char *text)
{
	struct spw_port_queue_conf conf = {.pool = &pool, .numa_node = -1};
	struct spw_port_spec spec;
	struct spw_port *port;

	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	assert_int_equal(spw_pool_init(&pool, &region, 0, SLOT_BYTES, SLOT_CNT), 0);
	if (spw_port_open(&spec, 3, 1, &port) || spw_port_region_attach(port, &region) ||
	    spw_port_queue_setup(port, 0, &conf) || spw_port_start(port))
		fail_msg("%s", spw_err_text());
	return port;
}

static void check_slots(struct spw_port *port, uint32_t lent)
{
	struct spw_port_slots s;

	spw_port_slots(port, 0, &s);
	assert_int_equal(s.lent, lent);
	assert_int_equal(pool.free_cnt + s.in_rx + s.lent + s.in_tx, SLOT_CNT);
}

static void close_rails(struct spw_port *port)
{
	assert_int_equal(spw_port_stop(port), 0);
	check_slots(port, 0);
	spw_port_close(port);
	assert_int_equal(spw_pool_fini(&pool), 0);
}

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

/* A mark of flow `flow` in an empty slot. */
static void mark(const struct spw_desc *desc, uint16_t flow)
{
	static const uint8_t udp[24] = {[12] = 0x08, [13] = 0, [14] = 0x45, [23] = 17};
	uint8_t *frame = spw_pool_slot_addr(&pool, desc->slot) + desc->offset,
		*at = frame + SPW_IDENT_ETH_OFFSET;

	memset(frame, 0, 64);
	memcpy(frame, udp, sizeof(udp));
	at[0] = SPW_IDENT_MAGIC >> 8;
	at[1] = SPW_IDENT_MAGIC & 0xff;
	at[2] = SPW_IDENT_VERSION;
	at[6] = (uint8_t)(flow >> 8);
	at[7] = (uint8_t)flow;
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

/* ---- one stream over rails in turn ---- */

#define NO_MARK   0xffffffffu /* a frame of others */
#define STREAMS   4u
#define SCRIPT    4096u /* frames of a rail */
#define STREAM_OF 28u   /* a frame is its stream in the top bits, and its number */

/* A null port whose frames are marked as a script says, and end with it. */
struct scripted {
	struct spw_port_queue null;
	uint32_t frame[SCRIPT], cnt, at;
};

static struct scripted scripted[SPW_PORT_RAIL_MAX];

static void put_be32(uint8_t *at, uint32_t v)
{
	for (uint32_t i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> 8 * (3 - i));
}

static uint16_t scripted_rx(void *arg, struct spw_desc *desc, uint16_t cnt)
{
	struct scripted *s = arg;
	const uint16_t n =
		s->null.rx_burst(s->null.q, desc, (uint16_t)SPW_MIN(cnt, s->cnt - s->at));

	for (uint16_t i = 0; i < n; i++) {
		uint8_t *frame = spw_pool_slot_addr(&pool, desc[i].slot) + desc[i].offset,
			*at = frame + SPW_IDENT_ETH_OFFSET;
		const uint32_t what = s->frame[s->at++];

		mark(&desc[i], 1);
		at[3] = (uint8_t)(what >> STREAM_OF << 4 | SPW_IDENT_STREAM);
		at[5] = 7; /* run */
		put_be32(at + SPW_IDENT_BYTES, what << (32 - STREAM_OF) >> (32 - STREAM_OF));
		if (what == NO_MARK)
			at[0] = 0;
	}
	return n;
}

static void scripted_release(void *arg, const uint32_t *slot, uint16_t cnt)
{
	struct scripted *s = arg;

	s->null.release_burst(s->null.q, slot, cnt);
}

static struct spw_port *open_scripted(uint32_t rails)
{
	char text[160] = "rails:null:size=128";
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	struct spw_port *port;

	for (uint32_t r = 1; r < rails; r++)
		strcat(text, "+null:size=128");
	strcat(text, ",rails_order=stream,rails_window=128,rails_wait_us=10000000");
	port = open_rails(text);
	assert_int_equal(spw_port_rails(port, rail), rails);
	for (uint32_t r = 0; r < rails; r++) {
		struct spw_port_queue *pq = &((struct spw_port *)(uintptr_t)rail[r].port)->queue[0];

		scripted[r].null = *pq;
		scripted[r].cnt = scripted[r].at = 0;
		pq->rx_burst = scripted_rx;
		pq->release_burst = scripted_release;
		pq->q = &scripted[r];
	}
	return port;
}

static void comes(uint32_t rail, uint32_t what)
{
	assert_true(scripted[rail].cnt < SCRIPT);
	scripted[rail].frame[scripted[rail].cnt++] = what;
}

static bool all_came(void)
{
	for (uint32_t r = 0; r < SPW_PORT_RAIL_MAX; r++)
		if (scripted[r].at < scripted[r].cnt)
			return false;
	return true;
}

/* Polls until all came and nothing more is lent. Returns: frames, in their order. */
static uint32_t all_lent(struct spw_port *port, uint32_t burst, uint32_t *what_out)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX], cnt = 0;
	bool more = true;

	while (more) {
		const uint16_t n = spw_port_rx_burst(&port->queue[0], desc, (uint16_t)burst);

		for (uint16_t i = 0; i < n; i++) {
			const uint8_t *at = spw_pool_slot_addr(&pool, desc[i].slot) +
					    desc[i].offset + SPW_IDENT_ETH_OFFSET;
			struct spw_ident ident;
			uint32_t stream, number;

			slot[i] = desc[i].slot;
			what_out[cnt] = NO_MARK;
			if (spw_ident_read(at, &ident) && spw_ident_stream(at, &stream, &number))
				what_out[cnt] = stream << STREAM_OF | number;
			cnt++;
		}
		spw_port_release_burst(&port->queue[0], slot, n);
		more = n || !all_came();
	}
	return cnt;
}

static void lends(struct spw_port *port, const uint32_t *what, uint32_t cnt)
{
	uint32_t lent[SCRIPT];

	assert_int_equal(all_lent(port, SPW_BURST_MAX, lent), cnt);
	assert_memory_equal(lent, what, cnt * sizeof(*what));
}

/* A burst without a gap is placed; whatever else comes is merged, and waits for what is missing. */
static void numbers_say_the_order(void **state SPW_UNUSED)
{
	struct spw_port *port = open_scripted(2);
	struct rails_window *w = &((struct rails_queue *)port->queue[0].q)->window;
	struct spw_port_stat stat;

	for (uint32_t number = 0; number < 6; number++)
		comes(number % 2, number);
	lends(port, (uint32_t[]){0, 1, 2, 3, 4, 5}, 6);
	assert_int_equal(w->stat.parked, 0);

	comes(0, 7); /* 6 is late, and over the other rail */
	comes(0, 8);
	lends(port, NULL, 0);
	comes(1, 6);
	comes(1, 9);
	lends(port, (uint32_t[]){6, 7, 8, 9}, 4);
	assert_int_equal(w->stat.parked, 2);

	comes(0, 11); /* a rail that reorders within a burst */
	comes(0, 10);
	lends(port, (uint32_t[]){10, 11}, 2);
	assert_int_equal(w->stat.parked, 2);

	comes(0, 12); /* the same number twice, in the place of another */
	comes(1, 12);
	lends(port, (uint32_t[]){12}, 1);
	comes(0, 13);
	lends(port, (uint32_t[]){13}, 1);
	comes(1, NO_MARK);
	lends(port, (uint32_t[]){NO_MARK}, 1);
	spw_port_stat(port, &stat);
	assert_int_equal(stat.dropped[SPW_PORT_DROP_duplicate], 1);

	assert_int_equal(stat.err[SPW_PORT_ERR_gap], 0);
	close_rails(port);
}

/* Rails, bursts and streams by chance, each rail in order: all is lent, each stream in order. */
static void any_split_is_merged(void **state SPW_UNUSED)
{
	static uint32_t lent[SPW_PORT_RAIL_MAX * SCRIPT];
	uint64_t random = 5;

	for (uint32_t round = 0; round < 200; round++) {
		const uint32_t rails = 2 + (uint32_t)unit_random(&random) % 3,
			       streams = 1 + (uint32_t)unit_random(&random) % STREAMS,
			       burst = 1 + (uint32_t)unit_random(&random) % SPW_BURST_MAX,
			       stray = (uint32_t)unit_random(&random) % 3 * 2; /* of 64 */
		uint32_t next[STREAMS] = {0}, sent = 0, cnt;
		struct spw_port *port = open_scripted(rails);

		for (; sent < 1000; sent++) {
			const uint32_t stream = (uint32_t)unit_random(&random) % streams;
			const bool strays = unit_random(&random) % 64 < stray;

			comes(strays ? (uint32_t)unit_random(&random) % rails : sent % rails,
			      stream << STREAM_OF | next[stream]++);
		}
		cnt = all_lent(port, burst, lent);
		assert_int_equal(cnt, sent);
		memset(next, 0, sizeof(next));
		for (uint32_t i = 0; i < cnt; i++)
			assert_int_equal(lent[i] & ((1u << STREAM_OF) - 1),
					 next[lent[i] >> STREAM_OF]++);
		close_rails(port);
	}
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
		cmocka_unit_test(parked_slots_are_in_the_port),
		cmocka_unit_test(numbers_say_the_order),
		cmocka_unit_test(any_split_is_merged),
		cmocka_unit_test(links_come_and_go),
		cmocka_unit_test(bad_specifications),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
