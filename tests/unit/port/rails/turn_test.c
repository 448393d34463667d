/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One stream over null ports in turn, each with a script of numbers: what is lent, and in which
 * order.
 */
#include <stdio.h>
#include <time.h>

#include "rails_kit.h"

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

static struct spw_port *open_waiting(uint32_t rails, uint32_t wait_us)
{
	char text[160] = "rails:null:size=128";
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	struct spw_port *port;

	for (uint32_t r = 1; r < rails; r++)
		strcat(text, "+null:size=128");
	snprintf(text + strlen(text), sizeof(text) - strlen(text),
		 ",rails_order=stream,rails_window=128,rails_wait_us=%u", wait_us);
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

static struct spw_port *open_scripted(uint32_t rails)
{
	return open_waiting(rails, 10000000);
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

/* One burst. Returns: frames, in their order. */
static uint32_t burst_lent(struct spw_port *port, uint32_t burst, uint32_t *what_out)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	const uint16_t n = spw_port_rx_burst(&port->queue[0], desc, (uint16_t)burst);

	for (uint16_t i = 0; i < n; i++) {
		const uint8_t *at = spw_pool_slot_addr(&pool, desc[i].slot) + desc[i].offset +
				    SPW_IDENT_ETH_OFFSET;
		struct spw_ident ident;
		uint32_t stream, number;

		slot[i] = desc[i].slot;
		what_out[i] = NO_MARK;
		if (spw_ident_read(at, &ident) && spw_ident_stream(at, &stream, &number))
			what_out[i] = stream << STREAM_OF | number;
	}
	spw_port_release_burst(&port->queue[0], slot, n);
	return n;
}

/* Polls until all came and nothing more is lent. Returns: frames, in their order. */
static uint32_t all_lent(struct spw_port *port, uint32_t burst, uint32_t *what_out)
{
	uint32_t cnt = 0, n;

	do {
		n = burst_lent(port, burst, what_out + cnt);
		cnt += n;
	} while (n || !all_came());
	return cnt;
}

static void lends(struct spw_port *port, const uint32_t *what, uint32_t cnt)
{
	uint32_t lent[SCRIPT];

	assert_int_equal(all_lent(port, SPW_BURST_MAX, lent), cnt);
	assert_memory_equal(lent, what, cnt * sizeof(*what));
}

static void lends_at_once(struct spw_port *port, const uint32_t *what, uint32_t cnt)
{
	uint32_t lent[SPW_BURST_MAX];

	assert_int_equal(burst_lent(port, SPW_BURST_MAX, lent), cnt);
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

/* The lcore stands still for longer than it waits for a number, which comes meanwhile; a number
 * that does not come is given up by the same burst. */
static void a_late_lcore_polls_before_it_gives_up(void **state SPW_UNUSED)
{
	const struct timespec late = {.tv_nsec = 5000000};
	struct spw_port *port = open_waiting(2, 1000);
	struct spw_port_stat stat;

	comes(0, 0);
	comes(0, 2);
	lends_at_once(port, (uint32_t[]){0}, 1);
	comes(1, 1);
	nanosleep(&late, NULL);
	lends_at_once(port, (uint32_t[]){1, 2}, 2);
	spw_port_stat(port, &stat);
	assert_int_equal(stat.err[SPW_PORT_ERR_gap], 0);

	comes(0, 4);
	lends_at_once(port, NULL, 0);
	nanosleep(&late, NULL);
	lends_at_once(port, (uint32_t[]){4}, 1);
	spw_port_stat(port, &stat);
	assert_int_equal(stat.err[SPW_PORT_ERR_gap], 1);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_say_the_order),
		cmocka_unit_test(a_late_lcore_polls_before_it_gives_up),
		cmocka_unit_test(any_split_is_merged),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
