/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A channel between two ends through a man in the middle, who has every byte and no secret: what he
 * changes, repeats, leaves out, turns back or makes up is refused, and nothing longer than the
 * reader's buffer is read.
 */
#include "../unit_test.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "oob/spw_oob_channel.h"

#define HELLO_BYTES      SPW_OOB_GREETING_BYTES
#define FRAME_BYTES(len) (4u + (len) + SPW_OOB_MAC_BYTES)

static const struct spw_oob_proto proto = {"TEST", 5};

/* client ── own[0] | far[0] ── the test ── far[1] | own[1] ── server */
struct middle {
	struct spw_oob_secret secret[2];
	const struct spw_oob_proto *proto[2]; /* NULL: the test's */
	struct spw_oob_channel ch[2];
	int far[2];
};

static void secret_set(struct spw_oob_secret *secret, const char *text)
{
	assert_int_equal(spw_oob_secret_take("test", (const uint8_t *)text, strlen(text), secret),
			 0);
}

static void meet(struct middle *m)
{
	for (int i = 0; i < 2; i++) {
		int fd[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
		m->far[i] = fd[1];
		assert_int_equal(spw_oob_channel_begin(&m->ch[i], fd[0], i == 0, &m->secret[i],
						       m->proto[i] ? m->proto[i] : &proto),
				 0);
	}
}

static void part(struct middle *m)
{
	for (int i = 0; i < 2; i++) {
		close(m->ch[i].fd);
		close(m->far[i]);
	}
}

static size_t take(struct middle *m, int from, uint8_t *bytes, size_t len)
{
	ssize_t n = recv(m->far[from], bytes, len, MSG_WAITALL);

	assert_int_equal(n, len);
	return len;
}

static void give(struct middle *m, int to, const void *bytes, size_t len)
{
	assert_int_equal(send(m->far[to], bytes, len, 0), len);
}

static void pass(struct middle *m, int from, size_t len)
{
	uint8_t bytes[1024];

	give(m, !from, bytes, take(m, from, bytes, len));
}

static void open_middle(struct middle *m, const char *client, const char *server)
{
	memset(m, 0, sizeof(*m));
	if (client)
		secret_set(&m->secret[0], client);
	if (server)
		secret_set(&m->secret[1], server);
	meet(m);
	pass(m, 0, HELLO_BYTES);
	pass(m, 1, HELLO_BYTES);
	assert_int_equal(spw_oob_channel_greet(&m->ch[0]), !client == !server ? 0 : -EACCES);
}

static int hear(struct middle *m, int at, uint32_t max, char *text)
{
	uint32_t len = 0;
	int rc = spw_oob_channel_receive(&m->ch[at], text, max, &len);

	if (!rc)
		text[len] = '\0';
	return rc;
}

static const char *const secret_a = "the secret of all ranks", *const secret_b =
								       "another secret !!";

static void both_ways(void **state SPW_UNUSED)
{
	const char *secrets[] = {secret_a, NULL};

	for (size_t i = 0; i < SPW_ARRAY_CNT(secrets); i++) {
		struct middle m;
		char text[64];

		open_middle(&m, secrets[i], secrets[i]);
		for (int turn = 0; turn < 3; turn++) {
			assert_int_equal(hear(&m, 1, 63, text), -EAGAIN);
			assert_int_equal(spw_oob_channel_send(&m.ch[0], "ping", 4), 0);
			pass(&m, 0, FRAME_BYTES(4));
			assert_int_equal(hear(&m, 1, 63, text), 0);
			assert_string_equal(text, "ping");
			assert_int_equal(spw_oob_channel_send(&m.ch[1], "", 0), 0);
			pass(&m, 1, FRAME_BYTES(0));
			assert_int_equal(hear(&m, 0, 63, text), 0);
			assert_string_equal(text, "");
		}
		assert_false(spw_oob_channel_is_closed(&m.ch[1]));
		shutdown(m.far[1], SHUT_WR);
		assert_true(spw_oob_channel_is_closed(&m.ch[1]));
		assert_int_equal(hear(&m, 1, 63, text), -ECONNRESET);
		part(&m);
	}
}

static void byte_by_byte(void **state SPW_UNUSED)
{
	struct middle m;
	char text[64];

	open_middle(&m, secret_a, secret_a);
	assert_int_equal(spw_oob_channel_send(&m.ch[0], "slowly", 6), 0);
	for (size_t i = 1; i < FRAME_BYTES(6); i++) {
		pass(&m, 0, 1);
		assert_int_equal(hear(&m, 1, 63, text), -EAGAIN);
	}
	pass(&m, 0, 1);
	assert_int_equal(hear(&m, 1, 63, text), 0);
	assert_string_equal(text, "slowly");
	part(&m);
}

static void every_changed_byte(void **state SPW_UNUSED)
{
	for (size_t i = 4; i < FRAME_BYTES(6); i++) {
		struct middle m;
		uint8_t frame[FRAME_BYTES(6)];
		char text[64];

		open_middle(&m, secret_a, secret_a);
		assert_int_equal(spw_oob_channel_send(&m.ch[0], "honest", 6), 0);
		take(&m, 0, frame, sizeof(frame));
		frame[i] ^= 1;
		give(&m, 1, frame, sizeof(frame));
		assert_int_equal(hear(&m, 1, 63, text), -EACCES);
		part(&m);
	}
}

static void repeated_left_out_and_turned_back(void **state SPW_UNUSED)
{
	uint8_t first[FRAME_BYTES(3)], second[FRAME_BYTES(3)];

	for (int how = 0; how < 3; how++) {
		struct middle m;
		char text[64];

		open_middle(&m, secret_a, secret_a);
		assert_int_equal(spw_oob_channel_send(&m.ch[0], "one", 3), 0);
		assert_int_equal(spw_oob_channel_send(&m.ch[0], "two", 3), 0);
		take(&m, 0, first, sizeof(first));
		take(&m, 0, second, sizeof(second));
		if (how == 0) {
			give(&m, 1, first, sizeof(first));
			assert_int_equal(hear(&m, 1, 63, text), 0);
		}
		give(&m, how == 2 ? 0 : 1, how == 1 ? second : first, sizeof(first));
		assert_int_equal(hear(&m, how == 2 ? 0 : 1, 63, text), -EACCES);
		part(&m);
	}
}

/* A frame of one conversation in another, which begins alike. */
static void of_another_conversation(void **state SPW_UNUSED)
{
	struct middle m;
	uint8_t frame[FRAME_BYTES(3)];
	uint64_t pair;
	char text[64];

	open_middle(&m, secret_a, secret_a);
	assert_int_equal(spw_oob_channel_send(&m.ch[0], "one", 3), 0);
	take(&m, 0, frame, sizeof(frame));
	pair = spw_oob_channel_pair(&m.ch[0]);
	part(&m);
	open_middle(&m, secret_a, secret_a);
	assert_true(spw_oob_channel_pair(&m.ch[0]) != pair);
	spw_oob_channel_greet(&m.ch[1]);
	assert_true(spw_oob_channel_pair(&m.ch[0]) == spw_oob_channel_pair(&m.ch[1]));
	give(&m, 1, frame, sizeof(frame));
	assert_int_equal(hear(&m, 1, 63, text), -EACCES);
	part(&m);
}

/* One side alone has none: both know at once. Another one: who checks first says so. */
static void other_secrets(void **state SPW_UNUSED)
{
	const char *secrets[][2] = {{NULL, secret_a}, {secret_a, NULL}, {secret_b, secret_a}};

	for (size_t i = 0; i < SPW_ARRAY_CNT(secrets); i++) {
		struct middle m;
		char text[64];

		open_middle(&m, secrets[i][0], secrets[i][1]);
		if (i < 2) {
			assert_int_equal(spw_oob_channel_greet(&m.ch[1]), -EACCES);
			assert_int_equal(m.ch[1].far_has_secret, i == 1);
			part(&m);
			continue;
		}
		assert_int_equal(spw_oob_channel_send(&m.ch[0], "one", 3), 0);
		pass(&m, 0, FRAME_BYTES(3));
		assert_int_equal(hear(&m, 1, 63, text), -EACCES);
		spw_oob_channel_deny(&m.ch[1]);
		pass(&m, 1, 4);
		assert_int_equal(hear(&m, 0, 63, text), -EACCES);
		part(&m);
	}
}

static void too_long_and_other_protocols(void **state SPW_UNUSED)
{
	static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xfe},
			     noise[HELLO_BYTES] = "GET / HTTP/1.1";
	struct middle m;
	char text[64];

	open_middle(&m, secret_a, secret_a);
	give(&m, 1, huge, sizeof(huge));
	assert_int_equal(hear(&m, 1, 63, text), -EMSGSIZE);
	part(&m);
	memset(&m, 0, sizeof(m));
	meet(&m);
	give(&m, 1, noise, sizeof(noise));
	assert_int_equal(hear(&m, 1, 63, text), -EPROTO);
	part(&m);
}

/* Both ends name both versions, before anything of the rest is looked at. */
static void other_versions_are_named(void **state SPW_UNUSED)
{
	static const struct spw_oob_proto newer = {"TEST", 6};
	struct middle m = {.proto = {&newer, NULL}};
	char why[SPW_OOB_REASON_BYTES];

	secret_set(&m.secret[0], secret_a);
	meet(&m);
	pass(&m, 0, 8);
	pass(&m, 1, 8);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(spw_oob_channel_greet(&m.ch[i]), -EPROTONOSUPPORT);
		assert_int_equal(m.ch[i].far_version, i ? 6 : 5);
	}
	assert_string_equal(spw_oob_channel_reason(&m.ch[0], -EPROTONOSUPPORT, why),
			    "it speaks version 5 of the protocol, this end 6: install the same "
			    "spinwire at both ends");
	part(&m);
}

/* A man in the middle who makes each end take the other for one of its own protocol. */
static void a_message_of_another_protocol(void **state SPW_UNUSED)
{
	static const struct spw_oob_proto alike = {"TEXT", 5};
	struct middle m = {.proto = {&alike, NULL}};
	char text[64];

	for (int i = 0; i < 2; i++)
		secret_set(&m.secret[i], secret_a);
	meet(&m);
	for (int i = 0; i < 2; i++) {
		uint8_t hello[HELLO_BYTES];

		take(&m, i, hello, sizeof(hello));
		memcpy(hello, i ? "TEXT" : "TEST", 4);
		give(&m, !i, hello, sizeof(hello));
	}
	assert_int_equal(spw_oob_channel_greet(&m.ch[0]), 0);
	assert_int_equal(spw_oob_channel_send(&m.ch[0], "one", 3), 0);
	pass(&m, 0, FRAME_BYTES(3));
	assert_int_equal(hear(&m, 1, 63, text), -EACCES);
	part(&m);
}

static void every_reason_has_a_text(void **state SPW_UNUSED)
{
	static const struct spw_oob_secret none, some = {.len = 16};
	struct spw_oob_channel ch = {.secret = &some, .proto = &proto, .greeted = true};
	static const int reason[] = {EACCES, EPROTO,    EMSGSIZE,   EPROTONOSUPPORT, EPERM,
				     EBUSY,  ETIMEDOUT, ECONNRESET, ENOBUFS};
	char why[SPW_OOB_REASON_BYTES];

	for (size_t i = 0; i < SPW_ARRAY_CNT(reason); i++)
		assert_true(strlen(spw_oob_channel_reason(&ch, -reason[i], why)) > 10);
	assert_non_null(strstr(spw_oob_channel_reason(&ch, -EACCES, why), "has no secret"));
	ch.far_has_secret = true;
	assert_non_null(strstr(spw_oob_channel_reason(&ch, -EACCES, why), "differ"));
	ch.secret = &none;
	assert_non_null(strstr(spw_oob_channel_reason(&ch, -EACCES, why), "wants a secret"));
}

/* More than the socket takes at once. */
static void resumed(void **state SPW_UNUSED)
{
	static uint8_t sent[1u << 20], got[sizeof(sent)];
	struct spw_oob_secret secret;
	struct spw_oob_channel ch[2];
	uint32_t len;
	int fd[2], out, in, waits = 0;

	secret_set(&secret, secret_a);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(spw_oob_channel_begin(&ch[0], fd[0], true, &secret, &proto), 0);
	assert_int_equal(spw_oob_channel_begin(&ch[1], fd[1], false, &secret, &proto), 0);
	assert_int_equal(spw_oob_channel_greet(&ch[0]), 0);
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (uint8_t)(i * 7 + i / 253);
	do {
		out = spw_oob_channel_send(&ch[0], sent, sizeof(sent));
		in = spw_oob_channel_receive(&ch[1], got, sizeof(got), &len);
		waits += out == -EAGAIN;
	} while (out == -EAGAIN);
	assert_int_equal(out, 0);
	assert_int_equal(in, 0);
	assert_true(waits > 0);
	assert_memory_equal(got, sent, sizeof(sent));
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways),
		cmocka_unit_test(byte_by_byte),
		cmocka_unit_test(every_changed_byte),
		cmocka_unit_test(repeated_left_out_and_turned_back),
		cmocka_unit_test(of_another_conversation),
		cmocka_unit_test(other_secrets),
		cmocka_unit_test(too_long_and_other_protocols),
		cmocka_unit_test(other_versions_are_named),
		cmocka_unit_test(a_message_of_another_protocol),
		cmocka_unit_test(every_reason_has_a_text),
		cmocka_unit_test(resumed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
