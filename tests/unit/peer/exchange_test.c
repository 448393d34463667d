/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The exchange over a pair of sockets: both real ends, and one real end against bytes made by hand.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unit_test.h"
#include "peer/spw_peer_credit.h"
#include "peer/exchange.h"

#define DEADLINE 1000u

static const struct peer_params send_params = {
	.qpn = 0x123456,
	.psn = 0xabcdef,
	.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
	.mtu = 1024,
	.op = SPW_PEER_OP_SEND,
	.credit_cnt = 16,
	.slot_bytes = 4096,
};
static const struct peer_params write_params = {
	.qpn = 77,
	.psn = 1,
	.gid = {1},
	.mtu = 1024,
	.op = SPW_PEER_OP_WRITE,
	.credit_cnt = 16,
	.slot_bytes = 4096,
	.slot_stride = 4096,
	.slot_rkey = 0xdeadbeef,
	.slot_addr = 0x7f0000001000,
	.ring_addr = 0x7f0000100000,
	.ring_rkey = 9,
	.ring_cnt = 4096,
};

struct ends {
	int fd[2];
	struct spw_oob_secret secret[2];
	struct peer_exchange client, server;
	struct spw_oob_guest guest; /* the server's door is the test */
	int door;                   /* what the first message came to */
};

static void ends_open_as(struct ends *e, const char *client_secret, const char *server_secret,
			 const struct spw_oob_proto *server)
{
	const char *secret[2] = {client_secret, server_secret};

	memset(e, 0, sizeof(*e));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, e->fd), 0);
	for (int i = 0; i < 2; i++) {
		e->secret[i].len = (uint32_t)strlen(secret[i]);
		memcpy(e->secret[i].byte, secret[i], e->secret[i].len);
	}
	peer_exchange_client(&e->client, e->fd[0], &e->secret[0], DEADLINE);
	e->door = -EAGAIN;
	e->guest.until_ms = DEADLINE;
	assert_int_equal(
		spw_oob_channel_begin(&e->guest.ch, e->fd[1], false, &e->secret[1], server), 0);
}

static void ends_open(struct ends *e, const char *client_secret, const char *server_secret)
{
	ends_open_as(e, client_secret, server_secret, &peer_proto);
}

static void ends_close(struct ends *e)
{
	close(e->fd[0]);
	close(e->fd[1]);
}

/* What peer/turn.c does, without QPs. A side that failed closes. */
static void act(struct peer_exchange *x, const struct peer_params *ours)
{
	enum peer_reject reason;
	uint32_t value;

	switch (peer_exchange_step(x, 0)) {
	case PEER_TURN_TO_OFFER:
		peer_exchange_offer(x, ours);
		break;
	case PEER_TURN_TO_READY:
		peer_exchange_ready(x);
		break;
	case PEER_TURN_TO_ACCEPT:
		reason = peer_exchange_fit(ours, &x->theirs, &value);
		if (reason)
			peer_exchange_reject(x, reason, value);
		else
			peer_exchange_accept(x, ours);
		break;
	case PEER_TURN_FAILED:
		shutdown(x->ch.fd, SHUT_RDWR);
		break;
	default:
		break;
	}
}

/* The door and what follows it. Returns: whether the server has an exchange. */
static bool let_in(struct ends *e)
{
	if (e->door != -EAGAIN)
		return !e->door;
	e->door = spw_oob_channel_receive(&e->guest.ch, e->guest.first, sizeof(e->guest.first),
					  &e->guest.len);
	if (e->door == -EACCES)
		spw_oob_channel_deny(&e->guest.ch);
	if (e->door && e->door != -EAGAIN)
		shutdown(e->fd[1], SHUT_RDWR);
	else if (!e->door)
		peer_exchange_server(&e->server, &e->guest);
	return !e->door;
}

static void run(struct ends *e, const struct peer_params *client, const struct peer_params *server)
{
	for (int i = 0; i < 12; i++) {
		act(&e->client, client);
		if (let_in(e))
			act(&e->server, server);
	}
}

static void two_sides_agree(void **state SPW_UNUSED)
{
	static const char *const secret[] = {"", "a secret of some length"};
	const struct peer_params *params[] = {&send_params, &write_params};
	struct ends e;

	for (int i = 0; i < 4; i++) {
		struct peer_params other = *params[i & 1];

		other.qpn++;
		ends_open(&e, secret[i >> 1], secret[i >> 1]);
		run(&e, params[i & 1], &other);
		assert_int_equal(e.client.turn, PEER_TURN_DONE);
		assert_int_equal(e.server.turn, PEER_TURN_DONE);
		assert_memory_equal(&e.client.theirs, &other, sizeof(other));
		assert_memory_equal(&e.server.theirs, params[i & 1], sizeof(other));
		ends_close(&e);
	}
}

static void secrets_that_differ_are_named(void **state SPW_UNUSED)
{
	static const char *const pair[][3] = {
		{"the wrong secret", "the right secret", "the secrets differ"},
		{"the right secre", "the right secret", "the secrets differ"},
		{"", "the right secret", "it wants a secret, and this end has none"},
		{"the wrong secret", "", "it has no secret, and this end was given one"},
	};
	char text[PEER_REFUSED_TEXT_BYTES];
	struct ends e;

	for (size_t i = 0; i < SPW_ARRAY_CNT(pair); i++) {
		ends_open(&e, pair[i][0], pair[i][1]);
		run(&e, &send_params, &send_params);
		assert_int_equal(e.door, -EACCES);
		assert_int_equal(e.client.turn, PEER_TURN_FAILED);
		assert_int_equal(e.client.why, PEER_REFUSED_secret);
		assert_string_equal(peer_refused_describe(&e.client, &send_params, text),
				    pair[i][2]);
		ends_close(&e);
	}
}

static void versions_that_differ_are_named(void **state SPW_UNUSED)
{
	static const struct spw_oob_proto newer = {"SPWR", 9}, other = {"SPWX", 9};
	char text[PEER_REFUSED_TEXT_BYTES];
	struct ends e;

	ends_open_as(&e, "", "", &newer);
	run(&e, &send_params, &send_params);
	assert_int_equal(e.door, -EPROTONOSUPPORT);
	assert_int_equal(e.guest.ch.far_version, peer_proto.version);
	assert_int_equal(e.client.why, PEER_REFUSED_version);
	assert_non_null(strstr(peer_refused_describe(&e.client, &send_params, text),
			       "it speaks version 9"));
	ends_close(&e);
	ends_open_as(&e, "", "", &other);
	run(&e, &send_params, &send_params);
	assert_int_equal(e.door, -EPROTO);
	assert_int_equal(e.client.why, PEER_REFUSED_malformed);
	ends_close(&e);
}

static void what_does_not_fit_is_reported(void **state SPW_UNUSED)
{
	struct peer_params server = send_params;
	struct ends e;

	server.mtu = 4096; /* both use the smaller one */
	ends_open(&e, "", "");
	run(&e, &send_params, &server);
	assert_int_equal(e.client.turn, PEER_TURN_DONE);
	assert_int_equal(e.server.turn, PEER_TURN_DONE);
	ends_close(&e);

	ends_open(&e, "", "");
	run(&e, &send_params, &write_params);
	assert_int_equal(e.client.why, PEER_REFUSED_op);
	ends_close(&e);

	server = write_params;
	server.credit_cnt = 4096;
	ends_open(&e, "", "");
	struct peer_params client = write_params;
	client.ring_cnt = 1024;
	run(&e, &client, &server);
	assert_int_equal(e.client.why, PEER_REFUSED_ring);
	ends_close(&e);
}

/* Every reason comes out at the other end as what it was; one that is not known is no reason. */
static void every_reason_arrives(void **state SPW_UNUSED)
{
	static const enum peer_refused why[] = {
		[PEER_REJECT_OP] = PEER_REFUSED_op,
		[PEER_REJECT_RING] = PEER_REFUSED_ring,
		[PEER_REJECT_FULL] = PEER_REFUSED_full,
		[PEER_REJECT_GID] = PEER_REFUSED_gid,
		[PEER_REJECT_HOST] = PEER_REFUSED_host,
		[PEER_REJECT_HOST + 1] = PEER_REFUSED_malformed,
	};
	struct ends e;

	for (unsigned reason = PEER_REJECT_OP; reason < SPW_ARRAY_CNT(why); reason++) {
		ends_open(&e, "", "");
		for (int i = 0; i < 8; i++) {
			act(&e.client, &send_params);
			if (let_in(&e) && peer_exchange_step(&e.server, 0) == PEER_TURN_TO_ACCEPT)
				peer_exchange_reject(&e.server, (enum peer_reject)reason, 7);
		}
		assert_int_equal(e.client.turn, PEER_TURN_FAILED);
		assert_int_equal(e.client.why, why[reason]);
		assert_int_equal(e.client.value, 7);
		ends_close(&e);
	}
}

/* Beside "peer 63 ([address]:port) " in an event of 96 bytes. */
static void every_reason_is_one_clause(void **state SPW_UNUSED)
{
	char text[PEER_REFUSED_TEXT_BYTES];
	struct peer_exchange x = {.value = 4096};

	for (unsigned why = 0; why < PEER_REFUSED_CNT; why++) {
		x.why = (enum peer_refused)why;
		peer_refused_describe(&x, &write_params, text);
		assert_true(strlen(text) <= 64);
		assert_null(strstr(text, "system call"));
	}
	x.why = PEER_REFUSED_ring;
	assert_string_equal(peer_refused_describe(&x, &write_params, text),
			    "it grants 4096 slots, we take 4096: lower its credits=");
	assert_int_equal(peer_refused_of(ECONNREFUSED), PEER_REFUSED_nobody);
	assert_int_equal(peer_refused_of(EHOSTUNREACH), PEER_REFUSED_unreachable);
	assert_int_equal(peer_refused_of(EMFILE), PEER_REFUSED_system);
}

static void a_host_that_never_answers_is_unreachable(void **state SPW_UNUSED)
{
	struct ends e;

	ends_open(&e, "", "");
	assert_int_equal(peer_exchange_step(&e.client, DEADLINE), PEER_TURN_FAILED);
	assert_int_equal(e.client.why, PEER_REFUSED_timeout); /* it was connected */
	peer_exchange_client(&e.client, -1, &e.secret[0], DEADLINE);
	assert_int_equal(peer_exchange_step(&e.client, DEADLINE), PEER_TURN_FAILED);
	assert_int_equal(e.client.why, PEER_REFUSED_unreachable);
	ends_close(&e);
}

/* ---- a server against messages ---- */

static void a_first_message_that_is_no_offer_is_refused(void **state SPW_UNUSED)
{
	struct peer_msg msg = {.type = PEER_MSG_READY};
	struct ends e;

	ends_open(&e, "", "");
	e.guest.len = (uint32_t)peer_msg_encode(&msg, e.guest.first);
	peer_exchange_server(&e.server, &e.guest);
	assert_int_equal(peer_exchange_step(&e.server, 0), PEER_TURN_FAILED);
	assert_int_equal(e.server.why, PEER_REFUSED_malformed);
	msg = (struct peer_msg){.type = PEER_MSG_OFFER, .params = send_params};
	e.guest.len = (uint32_t)peer_msg_encode(&msg, e.guest.first) - 1;
	peer_exchange_server(&e.server, &e.guest);
	assert_int_equal(e.server.why, PEER_REFUSED_malformed);
	ends_close(&e);
}

/* The door's time for the first message is that of the whole exchange. */
static void one_that_is_not_ready_is_timed_out(void **state SPW_UNUSED)
{
	struct ends e;

	ends_open(&e, "", "");
	while (!let_in(&e))
		act(&e.client, &send_params);
	act(&e.server, &send_params);
	assert_int_equal(peer_exchange_step(&e.server, DEADLINE - 1), PEER_TURN_READY);
	assert_int_equal(peer_exchange_step(&e.server, DEADLINE), PEER_TURN_FAILED);
	assert_int_equal(e.server.why, PEER_REFUSED_timeout);
	ends_close(&e);
}

static void one_that_leaves_is_closed(void **state SPW_UNUSED)
{
	struct ends e;

	ends_open(&e, "", "");
	while (!let_in(&e))
		act(&e.client, &send_params);
	act(&e.server, &send_params);
	shutdown(e.fd[0], SHUT_RDWR);
	assert_int_equal(peer_exchange_step(&e.server, 0), PEER_TURN_FAILED);
	assert_int_equal(e.server.why, PEER_REFUSED_closed);
	ends_close(&e);
}

/* ---- the format ---- */

static void messages_survive_the_wire(void **state SPW_UNUSED)
{
	struct peer_msg in = {.type = PEER_MSG_OFFER, .params = write_params}, out;
	uint8_t bytes[PEER_MSG_MAX_BYTES];
	size_t len = peer_msg_encode(&in, bytes);

	assert_int_equal(len, peer_msg_bytes(PEER_MSG_OFFER));
	assert_int_equal(peer_msg_parse(bytes, len, &out), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(peer_msg_parse(bytes, cut, &out), -EPROTO);
	in = (struct peer_msg){.type = PEER_MSG_REJECT, .reason = PEER_REJECT_OP, .value = 4096};
	len = peer_msg_encode(&in, bytes);
	assert_int_equal(peer_msg_parse(bytes, len, &out), 0);
	assert_int_equal(out.reason, PEER_REJECT_OP);
	assert_int_equal(out.value, 4096);
	/* The format is a promise: these bytes stay. */
	assert_memory_equal(bytes, "\x03\x00\x00\x00\x00\x02\x00\x00\x00\x00\x10\x00", len);
	for (size_t at = 1; at < 8; at += at == 3 ? 3 : 1) { /* those that are 0 */
		bytes[at] ^= 0x80;
		assert_int_equal(peer_msg_parse(bytes, len, &out), -EPROTO);
		bytes[at] ^= 0x80;
	}
}

static int offer_with(void (*change)(struct peer_params *), const struct peer_params *base)
{
	struct peer_msg in = {.type = PEER_MSG_OFFER, .params = *base}, out;
	uint8_t bytes[PEER_MSG_MAX_BYTES];

	change(&in.params);
	return peer_msg_parse(bytes, peer_msg_encode(&in, bytes), &out);
}

#define BAD(name, base, what)                            \
	static void name##_change(struct peer_params *p) \
	{                                                \
		what;                                    \
	}                                                \
	static const struct peer_params *name##_base = base;
#define BAD_LIST(X)                                                            \
	X(qpn, &send_params, p->qpn = 1u << 24)                                \
	X(psn, &send_params, p->psn = 1u << 24)                                \
	X(mtu_odd, &send_params, p->mtu = 1500)                                \
	X(mtu_small, &send_params, p->mtu = 128)                               \
	X(op, &send_params, p->op = 2)                                         \
	X(reserved, &send_params, p->reserved = 1)                             \
	X(no_credits, &send_params, p->credit_cnt = 0)                         \
	X(many_credits, &send_params, p->credit_cnt = SPW_PEER_CREDIT_MAX + 1) \
	X(no_bytes, &send_params, p->slot_bytes = 0)                           \
	X(many_bytes, &send_params, p->slot_bytes = 1u << 28)                  \
	X(write_in_send, &send_params, p->slot_rkey = 1)                       \
	X(stride, &write_params, p->slot_stride = 4095)                        \
	X(slots_wrap, &write_params, p->slot_addr = UINT64_MAX - 4096)         \
	X(ring_odd, &write_params, p->ring_cnt = 1000)                         \
	X(ring_none, &write_params, p->ring_cnt = 0)                           \
	X(ring_wraps, &write_params, p->ring_addr = UINT64_MAX - 3)            \
	X(ring_place, &write_params, p->ring_addr += 2)
BAD_LIST(BAD)

static void params_out_of_range_are_refused(void **state SPW_UNUSED)
{
#define CHECK(name, base, what) assert_int_equal(offer_with(name##_change, name##_base), -EPROTO);
	BAD_LIST(CHECK)
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_sides_agree),
		cmocka_unit_test(secrets_that_differ_are_named),
		cmocka_unit_test(versions_that_differ_are_named),
		cmocka_unit_test(what_does_not_fit_is_reported),
		cmocka_unit_test(every_reason_arrives),
		cmocka_unit_test(every_reason_is_one_clause),
		cmocka_unit_test(a_host_that_never_answers_is_unreachable),
		cmocka_unit_test(a_first_message_that_is_no_offer_is_refused),
		cmocka_unit_test(one_that_is_not_ready_is_timed_out),
		cmocka_unit_test(one_that_leaves_is_closed),
		cmocka_unit_test(messages_survive_the_wire),
		cmocka_unit_test(params_out_of_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
