/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls that a network plugin of NCCL makes, in its pattern: one handle and one direction per
 * connection, several connections between two peers, nothing that waits, unaligned memory that is
 * registered for each connection, receives of up to 8 tagged parts with 32 of them under way,
 * messages shorter than their part, messages of 0 bytes, a flush after each receive, tests in any
 * order, and an end in any order, also in the middle. Arguments: the rails of both ends.
 */
#include "xfer_kit.h"

#define COMMS    6u     /* connections; every other one leads from b to a */
#define UNDERWAY 32u    /* receives of a connection, as NCCL has it */
#define RECVS    400u   /* of a connection */
#define PART     40001u /* bytes of the longest message; odd */
#define PLACES   (SPW_XFER_REQ_MAX + SPW_XFER_PART_MAX) /* more than may be under way */
#define ARENA    ((size_t)PLACES * PART)
#define MEMORY   (2 * COMMS * ARENA + 4096)

static const char *rails_a = "mlx5_0", *rails_b = "mlx5_1";
static struct kit k;
static uint64_t seed;

/* One side of a connection: places for messages. */
struct side {
	struct spw_xfer *x;
	struct spw_xfer_conn *conn;
	struct spw_xfer_mem *mem;
	bool ready;
	uint8_t *buf; /* PLACES places of PART bytes, at an odd address */
	bool used[PLACES];
};

/* A receive, and the sends that it is for. */
struct group {
	uint32_t cnt, sent, acked;                              /* parts; sends started, and done */
	uint32_t in[SPW_XFER_PART_MAX], out[SPW_XFER_PART_MAX]; /* places */
	struct spw_xfer_req *recv, *flush, *send[SPW_XFER_PART_MAX];
	bool received;
};

struct comm {
	struct side from, to;
	struct spw_xfer_listener *listener;
	struct spw_xfer_handle handle;
	struct group group[RECVS];
	uint32_t posted, sending, oldest; /* groups; oldest: not all is done */
	uint32_t most;                    /* receives under way at once */
	uint32_t refused;                 /* calls to be repeated later */
};

static struct comm comm[COMMS];

/* ---- what is sent follows from connection, group and part ---- */

static uint64_t number_of(const struct comm *c, uint32_t group, uint32_t part)
{
	return ((uint64_t)(c - comm) << 32 | group) * (SPW_XFER_PART_MAX + 1) + part;
}

static uint64_t length_of(const struct comm *c, uint32_t group, uint32_t part)
{
	static const uint32_t most[] = {1, 2, 100, 5000, PART + 1};
	uint64_t s = number_of(c, group, part);
	const uint64_t chance = unit_random(&s);

	return (chance >> 8) % most[chance % SPW_ARRAY_CNT(most)];
}

/* The parts of a group differ in their tags; other groups have the same ones. */
static uint32_t tag_of(uint32_t group, uint32_t part)
{
	return group % 3 << 16 | part;
}

static uint32_t cnt_of(const struct comm *c, uint32_t group)
{
	uint64_t s = number_of(c, group, SPW_XFER_PART_MAX);

	return group / 64 % 2 ? 1 + (uint32_t)(unit_random(&s) % SPW_XFER_PART_MAX) : 1;
}

/* ---- places ---- */

static uint32_t place_take(struct side *s)
{
	for (uint32_t i = 0; i < PLACES; i++)
		if (!s->used[i]) {
			s->used[i] = true;
			return i;
		}
	fail_msg("no place is free");
	return 0;
}

static uint32_t places_free(const struct side *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < PLACES; i++)
		n += !s->used[i];
	return n;
}

static uint8_t *place(const struct side *s, uint32_t i)
{
	return s->buf + (size_t)i * PART;
}

/* ---- set up ---- */

static void side_open(struct side *s, struct spw_xfer *x, uint8_t *buf)
{
	const struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .addr = buf, .bytes = ARENA};

	*s = (struct side){.x = x, .buf = buf};
	assert_int_equal(spw_xfer_mem_reg(x, &req, &s->mem), 0);
}

static void comm_open(uint32_t i)
{
	struct comm *c = &comm[i];
	const size_t at = 1 + i * ARENA;
	const bool back = i % 2;

	memset(c, 0, sizeof(*c));
	side_open(&c->from, back ? k.b : k.a, (back ? k.buf_b : k.buf_a) + at);
	side_open(&c->to, back ? k.a : k.b, (back ? k.buf_a : k.buf_b) + COMMS * ARENA + at);
	assert_int_equal(spw_xfer_listen(c->to.x, &c->handle, &c->listener), 0);
}

static void expect_later(int rc)
{
	if (rc && rc != -EAGAIN)
		fail_msg("%d: %s", rc, spw_err_text());
}

/* Returns: whether both ends have it. */
static bool comm_join(struct comm *c)
{
	int rc;

	if (!c->from.ready) {
		rc = spw_xfer_connect(c->from.x, &c->handle, &c->from.conn);
		expect_later(rc);
		c->from.ready = !rc;
	}
	if (!c->to.ready) {
		rc = spw_xfer_accept(c->listener, &c->to.conn);
		expect_later(rc);
		c->to.ready = !rc;
	}
	return c->from.ready && c->to.ready;
}

static void join_all(void)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;

	for (uint32_t ready = 0; ready < COMMS;) {
		assert_true(kit_now_ms() < end);
		ready = 0;
		for (uint32_t i = 0; i < COMMS; i++)
			ready += comm_join(&comm[i]);
	}
}

static int open_kit(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 16u << 10};

	kit_open(&k, rails_a, rails_b, &conf);
	k.bytes = MEMORY;
	k.buf_a = malloc(MEMORY);
	k.buf_b = malloc(MEMORY);
	assert_true(k.buf_a && k.buf_b);
	seed = 1;
	for (uint32_t i = 0; i < COMMS; i++)
		comm_open(i);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	spw_xfer_close(k.a);
	spw_xfer_close(k.b);
	free(k.buf_a);
	free(k.buf_b);
	return 0;
}

/* ---- one call ---- */

static void do_recv(struct comm *c)
{
	struct group *g = &c->group[c->posted];
	struct spw_xfer_part part[SPW_XFER_PART_MAX];
	const uint32_t cnt = cnt_of(c, c->posted);
	int rc;

	if (c->posted == RECVS || c->posted - c->oldest == UNDERWAY || places_free(&c->to) < cnt)
		return;
	for (uint32_t i = 0; i < cnt; i++) {
		g->in[i] = place_take(&c->to);
		memset(place(&c->to, g->in[i]), 0x55, PART);
		part[i] = (struct spw_xfer_part){c->to.mem, place(&c->to, g->in[i]), PART,
						 tag_of(c->posted, i)};
	}
	rc = spw_xfer_recv(c->to.conn, part, cnt, &g->recv);
	expect_later(rc);
	if (rc) {
		for (uint32_t i = 0; i < cnt; i++)
			c->to.used[g->in[i]] = false;
		c->refused++;
		return;
	}
	g->cnt = cnt;
	c->posted++;
	c->most = SPW_MAX(c->most, c->posted - c->oldest);
}

/* The sender knows of no receive: it may be ahead of the receiver. */
static void do_send(struct comm *c)
{
	struct group *g = &c->group[c->sending];
	const uint32_t part = g->sent;
	uint32_t at;
	int rc;

	if (c->sending == RECVS || !places_free(&c->from))
		return;
	at = place_take(&c->from);
	kit_fill(place(&c->from, at), length_of(c, c->sending, part),
		 number_of(c, c->sending, part));
	rc = spw_xfer_send(c->from.conn, c->from.mem, place(&c->from, at),
			   length_of(c, c->sending, part), tag_of(c->sending, part),
			   &g->send[part]);
	expect_later(rc);
	if (rc) {
		c->from.used[at] = false;
		c->refused++;
		return;
	}
	g->out[part] = at;
	if (++g->sent == cnt_of(c, c->sending))
		c->sending++;
}

static bool test(struct spw_xfer_req *req, uint64_t *bytes_out)
{
	bool done;
	int rc = spw_xfer_test(req, &done, bytes_out);

	if (rc)
		fail_msg("a request failed: %d: %s", rc, spw_err_text());
	return done;
}

/* Bytes of a part that no message filled stay as they were. */
static void check_part(const struct comm *c, uint32_t group, uint32_t part, uint64_t got)
{
	const uint8_t *at = place(&c->to, c->group[group].in[part]);

	assert_int_equal(got, length_of(c, group, part));
	kit_expect_bytes(at, got, number_of(c, group, part));
	for (uint64_t i = got; i < SPW_MIN(got + 64, (uint64_t)PART); i++)
		assert_int_equal(at[i], 0x55);
}

static void do_test_recv(struct comm *c, uint32_t group)
{
	struct group *g = &c->group[group];
	uint64_t got[SPW_XFER_PART_MAX];

	if (g->recv && test(g->recv, got)) {
		g->recv = NULL;
		for (uint32_t i = 0; i < g->cnt; i++)
			check_part(c, group, i, got[i]);
		expect_later(spw_xfer_flush(c->to.conn, c->to.mem, place(&c->to, g->in[0]), PART,
					    &g->flush));
	} else if (g->flush && test(g->flush, NULL)) {
		g->flush = NULL;
		g->received = true;
		for (uint32_t i = 0; i < g->cnt; i++)
			c->to.used[g->in[i]] = false;
	}
}

static void do_test_send(struct comm *c, uint32_t group, uint32_t part)
{
	struct group *g = &c->group[group];
	uint64_t bytes;

	if (part >= g->sent || !g->send[part] || !test(g->send[part], &bytes))
		return;
	assert_int_equal(bytes, length_of(c, group, part));
	g->send[part] = NULL;
	g->acked++;
	c->from.used[g->out[part]] = false;
}

/* One call of the proxy, whichever it may be. */
static void call(struct comm *c)
{
	const uint64_t chance = unit_random(&seed);
	const uint32_t ahead = SPW_MAX(c->posted, c->sending) + 1 - c->oldest;
	const uint32_t group = SPW_MIN(c->oldest + (uint32_t)(chance >> 16) % ahead, RECVS - 1);

	switch (chance % 8) {
	case 0:
		do_recv(c);
		break;
	case 1:
		do_send(c);
		break;
	case 2:
	case 3:
	case 4:
		do_test_recv(c, group);
		break;
	default:
		do_test_send(c, group, (uint32_t)(chance >> 48) % SPW_XFER_PART_MAX);
		break;
	}
	while (c->oldest < RECVS && c->group[c->oldest].received &&
	       c->group[c->oldest].acked == c->group[c->oldest].cnt)
		c->oldest++;
}

static void many_connections_carry_a_proxys_calls(void **state SPW_UNUSED)
{
	const uint64_t end = kit_now_ms() + 3 * KIT_WAIT_MS;
	uint32_t most = 0, refused = 0;

	join_all();
	for (uint32_t done = 0; done < COMMS;) {
		assert_true(kit_now_ms() < end);
		done = 0;
		for (uint32_t i = 0; i < COMMS; i++) {
			call(&comm[i]);
			done += comm[i].oldest == RECVS;
		}
	}
	for (uint32_t i = 0; i < COMMS; i++) {
		most = SPW_MAX(most, comm[i].most);
		refused += comm[i].refused;
		assert_int_equal(places_free(&comm[i].from), PLACES);
		assert_int_equal(places_free(&comm[i].to), PLACES);
	}
	assert_int_equal(most, UNDERWAY);
	assert_true(refused > 0);
}

/* ---- the end ---- */

enum { CLOSE_SEND, CLOSE_RECV, CLOSE_LISTEN, CLOSE_MEMORY, CLOSE_CNT };

static void close_one(struct comm *c, uint32_t what)
{
	switch (what) {
	case CLOSE_SEND:
		spw_xfer_conn_close(c->from.conn);
		break;
	case CLOSE_RECV:
		spw_xfer_conn_close(c->to.conn);
		break;
	case CLOSE_LISTEN:
		spw_xfer_listener_close(c->listener);
		break;
	default:
		assert_int_equal(spw_xfer_mem_dereg(c->from.mem), 0);
		assert_int_equal(spw_xfer_mem_dereg(c->to.mem), 0);
	}
}

static void one_message(struct comm *c, uint64_t n)
{
	const struct spw_xfer_part part = {c->to.mem, c->to.buf, PART, 9};
	struct spw_xfer_req *send, *recv;

	kit_fill(c->from.buf, PART, n);
	assert_int_equal(spw_xfer_recv(c->to.conn, &part, 1, &recv), 0);
	assert_int_equal(spw_xfer_send(c->from.conn, c->from.mem, c->from.buf, PART, 9, &send), 0);
	kit_done(&k, recv);
	kit_done(&k, send);
	kit_expect_bytes(c->to.buf, PART, n);
}

/* All 24 orders; the other connections carry on. */
static void an_end_may_have_any_order(void **state SPW_UNUSED)
{
	join_all();
	for (uint32_t order = 0; order < 256; order++) {
		const uint32_t seen = 1u << (order & 3) | 1u << (order >> 2 & 3) |
				      1u << (order >> 4 & 3) | 1u << (order >> 6 & 3);

		if (seen != 15)
			continue;
		one_message(&comm[0], order);
		for (uint32_t i = 0; i < CLOSE_CNT; i++)
			close_one(&comm[0], order >> 2 * i & 3);
		one_message(&comm[1], order);
		comm_open(0);
		join_all();
	}
}

/* What was done before the peer left is done; all else fails. */
static void left_behind(struct spw_xfer_req *req, uint32_t *failed)
{
	int rc = req ? kit_finish(&k, req, NULL) : 0;

	if (rc && rc != -ECONNRESET)
		fail_msg("%d: %s", rc, spw_err_text());
	*failed += rc != 0;
}

/* One side ends with requests under way; the other tests all of its own, then ends, too. */
static void leave_in_the_middle(struct comm *c, bool sender_leaves, uint32_t *failed)
{
	for (uint32_t i = 0; i < 1000; i++)
		call(c);
	spw_xfer_conn_close(sender_leaves ? c->from.conn : c->to.conn);
	for (uint32_t i = c->oldest; i < RECVS; i++) {
		if (sender_leaves)
			left_behind(c->group[i].recv, failed);
		for (uint32_t j = 0; j < c->group[i].sent && !sender_leaves; j++)
			left_behind(c->group[i].send[j], failed);
	}
	spw_xfer_conn_close(sender_leaves ? c->to.conn : c->from.conn);
	close_one(c, CLOSE_MEMORY);
	close_one(c, CLOSE_LISTEN);
}

/* NCCL's abort. The memory is free afterwards, and the other connections carry on. */
static void an_abort_in_the_middle_leaves_nothing(void **state SPW_UNUSED)
{
	uint32_t failed[2] = {0};

	join_all();
	for (uint32_t i = 0; i < 40; i++) {
		leave_in_the_middle(&comm[0], i % 2, &failed[i % 2]);
		one_message(&comm[1], i);
		comm_open(0);
		join_all();
	}
	assert_true(failed[0] && failed[1]);
}

/* An attempt is given up at any moment, at either end. */
static void an_abort_while_connecting_leaves_nothing(void **state SPW_UNUSED)
{
	uint32_t unfinished = 0;

	join_all();
	for (uint32_t i = 0; i < 100; i++) {
		struct comm *c = &comm[0];
		const uint64_t turns = unit_random_log(&seed, 14);

		for (uint32_t j = 0; j < CLOSE_CNT; j++)
			close_one(c, (i + j) % CLOSE_CNT);
		comm_open(0);
		for (uint64_t j = 0; j < turns && !comm_join(c); j++)
			;
		one_message(&comm[1], i);
		unfinished += !c->from.ready;
	}
	assert_true(unfinished > 10);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
		CASE(many_connections_carry_a_proxys_calls),
		CASE(an_end_may_have_any_order),
		CASE(an_abort_in_the_middle_leaves_nothing),
		CASE(an_abort_while_connecting_leaves_nothing),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
