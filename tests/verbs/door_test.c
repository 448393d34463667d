/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Strangers at a port's TCP door: what they cost, and what they learn. A good peer gets in beside them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/rdma/rc_hello.h"
#include "rc_kit.h"

#define KEYS "peers=127.0.0.1,peer_max=2,exchange_ms=300"

static int dial(const char *from, uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in me = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(inet_pton(AF_INET, from, &me.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&me, sizeof(me)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* Bytes that came until the server closed; fails if it does not. */
static size_t heard(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint8_t bytes[512];
	size_t sum = 0;

	for (;;) {
		ssize_t n;

		assert_int_equal(poll(&p, 1, KIT_WAIT_S * 1000), 1);
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n <= 0)
			return sum;
		sum += (size_t)n;
	}
}

static size_t say_and_hear(uint16_t port, const void *bytes, size_t len)
{
	int fd = dial("127.0.0.1", port);
	size_t sum;

	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
	sum = heard(fd);
	close(fd);
	return sum;
}

static uint64_t refused(struct kit_end *server)
{
	struct spw_port_stat stat;

	kit_stat(server, &stat);
	return stat.err[SPW_PORT_ERR_refused];
}

static void good_peer_gets_in(struct kit_end *server, uint16_t port)
{
	struct kit_end good, *end[] = {server, &good};
	const struct kit_end_conf conf = {.keys = "op=send"};

	kit_client(&good, port, &conf);
	kit_pump(end, 2, 20);
	kit_settle(end, 2);
	kit_close(&good);
}

static size_t hello(uint8_t *bytes)
{
	const struct rc_message msg = {.type = RC_HELLO};

	return rc_hello_make(&msg, bytes);
}

/* ---- */

static void who_is_not_listed_hears_nothing(void **state SPW_UNUSED)
{
	struct kit_end server;
	const struct kit_end_conf conf = {.keys = KEYS};
	uint16_t port = kit_free_port();
	int fd;

	kit_server(&server, port, &conf);
	fd = dial("127.0.0.2", port);
	assert_int_equal(heard(fd), 0);
	close(fd);
	assert_int_equal(refused(&server), 1);
	good_peer_gets_in(&server, port);
	kit_close(&server);
}

static void noise_hears_nothing(void **state SPW_UNUSED)
{
	uint8_t old[RC_HELLO_MAX_BYTES];
	const size_t len = hello(old);
	const struct kit_end_conf conf = {.keys = KEYS};
	struct kit_end server;
	uint16_t port = kit_free_port();

	old[5] = 0; /* version 0 */
	kit_server(&server, port, &conf);
	assert_int_equal(say_and_hear(port, "GET / HTTP/1.1\r\n\r\n", 18), 0);
	assert_int_equal(say_and_hear(port, old, len), 0);
	assert_int_equal(say_and_hear(port, "SPWR", 4), 0); /* and then silence, until its time is over */
	assert_int_equal(refused(&server), 3);
	good_peer_gets_in(&server, port);
	kit_close(&server);
}

/* Without the secret there is a nonce to be had, and that is all. */
static void who_cannot_prove_it_hears_a_nonce(void **state SPW_UNUSED)
{
	struct rc_message offer = {.type = RC_OFFER, .params = {.qpn = 1, .mtu = 1024, .credit_cnt = 1, .slot_bytes = 64}};
	uint8_t bytes[2 * RC_HELLO_MAX_BYTES];
	char path[] = "/tmp/spw-rc-door-XXXXXX", keys[128];
	const struct kit_end_conf conf = {.keys = keys};
	struct kit_end server;
	uint16_t port = kit_free_port();
	int fd = mkstemp(path);
	size_t len;

	assert_int_equal(write(fd, "a secret of some length", 23), 23);
	close(fd);
	snprintf(keys, sizeof(keys), KEYS ",secret=%s", path);
	kit_server(&server, port, &conf);
	unlink(path);
	len = hello(bytes);
	len += rc_hello_make(&offer, bytes + len);
	assert_int_equal(say_and_hear(port, bytes, len), rc_hello_bytes(RC_CHALLENGE));
	assert_int_equal(refused(&server), 1);
	kit_close(&server);
}

/* A crowd that opens connections and says a byte each. They hold half the places at most, and only for their time. */
static void a_slow_crowd_is_timed_out(void **state SPW_UNUSED)
{
	enum { CROWD = 60 };
	const struct kit_end_conf conf = {.keys = KEYS};
	struct kit_end server;
	uint16_t port = kit_free_port();
	int fd[CROWD];

	kit_server(&server, port, &conf);
	for (int i = 0; i < CROWD; i++) {
		fd[i] = dial("127.0.0.1", port);
		(void)!send(fd[i], "S", 1, MSG_NOSIGNAL); /* it may be closed by now */
	}
	good_peer_gets_in(&server, port);
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(heard(fd[i]), 0);
		close(fd[i]);
	}
	assert_true(refused(&server) >= CROWD);
	kit_close(&server);
}

/* More peers than there is room for: told so, after they proved themselves. */
static void a_full_table_says_so(void **state SPW_UNUSED)
{
	struct kit_end server, client[3], *end[] = {&server, &client[0], &client[1], &client[2]};
	const struct kit_end_conf server_conf = {.keys = KEYS}, conf = {.keys = "op=send"};
	const double give_up = kit_seconds() + KIT_WAIT_S;
	uint16_t port = kit_free_port();
	uint32_t full = 0;

	kit_server(&server, port, &server_conf);
	for (int i = 0; i < 3; i++)
		kit_client(&client[i], port, &conf);
	while (!full) {
		assert_true(kit_seconds() < give_up);
		kit_turn(end, 4, true);
		for (int i = 0; i < 3; i++)
			full += strstr(client[i].text, "peer_max=") != NULL;
	}
	assert_int_equal(full, 1);
	for (int i = 0; i < 3; i++)
		kit_close(&client[i]);
	kit_close(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_not_listed_hears_nothing),
		cmocka_unit_test(noise_hears_nothing),
		cmocka_unit_test(who_cannot_prove_it_hears_a_nonce),
		cmocka_unit_test(a_slow_crowd_is_timed_out),
		cmocka_unit_test(a_full_table_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
