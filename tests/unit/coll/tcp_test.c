/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Ranks that find each other over TCP while strangers come to the same port: other protocols, too
 * few words, silence in crowds, another secret. None of them ends the exchange or has a rank's
 * place. Ranks that are wrong themselves learn it at once, and the others wait for the right one.
 */
#include "../unit_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "coll/tcp.h"

#define RANKS   3u
#define WAIT_MS 20000u
#define CROWD   100u

struct rank {
	struct spw_coll_tcp_conf conf;
	struct spw_coll_tcp *tcp;
	pthread_t thread;
	int rc;
	uint64_t all[SPW_COLL_RANK_MAX];
	char text[512];
};

static char root[32], secret_path[64], other_path[64];
static uint16_t port;

/* ---- ranks ---- */

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	const uint64_t mine = 1000 + r->conf.rank;

	r->rc = spw_coll_tcp_open(&r->conf, &r->tcp);
	if (!r->rc)
		r->rc = spw_coll_tcp_exchange(r->tcp, &mine, r->all, sizeof(mine));
	snprintf(r->text, sizeof(r->text), "%s", r->rc ? spw_err_text() : "");
	spw_coll_tcp_close(r->tcp);
	return NULL;
}

static void rank_start_for(struct rank *r, uint32_t rank, uint32_t rank_cnt, const char *secret,
			   uint32_t timeout_ms)
{
	*r = (struct rank){.conf = {.root = root,
				    .rank = rank,
				    .rank_cnt = rank_cnt,
				    .timeout_ms = timeout_ms,
				    .secret = secret}};
	assert_int_equal(pthread_create(&r->thread, NULL, rank_main, r), 0);
}

static void rank_start(struct rank *r, uint32_t rank, uint32_t rank_cnt, const char *secret)
{
	rank_start_for(r, rank, rank_cnt, secret, WAIT_MS);
}

static void rank_end(struct rank *r)
{
	assert_int_equal(pthread_join(r->thread, NULL), 0);
}

static void expect_all(struct rank *r)
{
	rank_end(r);
	if (r->rc)
		fail_msg("rank %u: %d: %s", r->conf.rank, r->rc, r->text);
	for (uint32_t i = 0; i < r->conf.rank_cnt; i++)
		assert_int_equal(r->all[i], 1000 + i);
}

static void expect_refused(struct rank *r, int error, const char *text)
{
	rank_end(r);
	if (r->rc != error || !strstr(r->text, text))
		fail_msg("rank %u: %d: %s; not %d: %s", r->conf.rank, r->rc, r->text, error, text);
}

/* ---- strangers ---- */

/* Returns a connection to rank 0, which listens soon. */
static int dial(void)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	/* Another address than the port's: TCP never connects the socket to itself. */
	const struct sockaddr_in from = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	int fd, turns = 0;

	for (;;) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(fd >= 0);
		assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
		if (!connect(fd, (const struct sockaddr *)&to, sizeof(to)))
			return fd;
		close(fd);
		assert_true(turns++ < 1000);
		usleep(10000);
	}
}

static void expect_closed(int fd)
{
	uint8_t bytes[256];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		;
	assert_true(n == 0 || errno == ECONNRESET);
	close(fd);
}

/* Speaks the protocol up to the join; with a secret or none. Returns its connection. */
static int intrude(const struct spw_oob_secret *secret, uint32_t rank, uint32_t rank_cnt)
{
	const spw_be32 join[] = {spw_cpu_to_be32(rank), spw_cpu_to_be32(rank_cnt)};
	struct spw_oob_channel ch;
	int rc, fd = dial();

	assert_int_equal(spw_oob_channel_begin(&ch, fd, true, secret, &coll_tcp_proto), 0);
	while ((rc = spw_oob_channel_greet(&ch)) == -EAGAIN)
		usleep(1000);
	/* A stranger tries it, although the other side has a secret and may have closed. */
	assert_true(!rc || rc == -EACCES);
	rc = spw_oob_channel_send(&ch, join, sizeof(join)) ? rc : 0;
	assert_true(!rc || rc == -EACCES);
	return fd;
}

/* The head with which ranks of an earlier version came. */
static void say_old_head(uint32_t rank_cnt)
{
	const uint32_t head[] = {0x58435753u, 1, rank_cnt, 0};
	int fd = dial();

	assert_int_equal(send(fd, head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
	shutdown(fd, SHUT_WR);
	expect_closed(fd);
}

static void say(const char *text)
{
	int fd = dial();

	(void)send(fd, text, strlen(text), MSG_NOSIGNAL);
	close(fd);
}

/* ---- tests ---- */

static void wrong_words(void **state)
{
	const char *secret = *state;
	struct rank r[RANKS];

	rank_start(&r[0], 0, RANKS, secret);
	say_old_head(9);
	say_old_head(RANKS);
	say("");
	say("x");
	say("GET / HTTP/1.1\r\nHost: a-name-that-is-long-enough-for-a-greeting\r\n\r\n");
	rank_start(&r[1], 1, RANKS, secret);
	say_old_head(9);
	rank_start(&r[2], 2, RANKS, secret);
	for (uint32_t i = 0; i < RANKS; i++)
		expect_all(&r[i]);
}

/* Nobody waits for those that say nothing, however many they are. */
static void silent_crowd(void **state)
{
	const char *secret = *state;
	struct rank r[RANKS];
	int fd[CROWD];

	rank_start(&r[0], 0, RANKS, secret);
	for (uint32_t i = 0; i < CROWD; i++)
		fd[i] = dial();
	rank_start(&r[1], 1, RANKS, secret);
	rank_start(&r[2], 2, RANKS, secret);
	for (uint32_t i = 0; i < RANKS; i++)
		expect_all(&r[i]);
	for (uint32_t i = 0; i < CROWD; i++)
		close(fd[i]);
}

static void another_secret(void **state SPW_UNUSED)
{
	struct spw_oob_secret none = {0}, other;
	struct rank r[2];

	assert_int_equal(spw_oob_secret_read(other_path, &other), 0);
	rank_start(&r[0], 0, 2, secret_path);
	expect_closed(intrude(&other, 1, 2));
	expect_closed(intrude(&none, 1, 2));
	expect_closed(intrude(&other, 1, 9));
	rank_start(&r[1], 1, 2, secret_path);
	expect_all(&r[0]);
	expect_all(&r[1]);
}

/* Without a secret a place belongs to who came first, until it leaves. */
static void taken_places(void **state SPW_UNUSED)
{
	struct spw_oob_secret none = {0};
	struct pollfd seat = {.events = POLLIN};
	struct rank r[RANKS];

	rank_start(&r[0], 0, 3, NULL);
	expect_closed(intrude(&none, 1, 9));
	expect_closed(intrude(&none, 0, 3));
	expect_closed(intrude(&none, 7, 3));
	seat.fd = intrude(&none, 1, 3);
	assert_int_equal(poll(&seat, 1, WAIT_MS), 1); /* rank 0 welcomes it */
	rank_start(&r[1], 1, 3, NULL);
	expect_refused(&r[1], -EPROTO, "two ranks have the number 1");
	rank_start(&r[1], 2, 4, NULL);
	expect_refused(&r[1], -EPROTO, "rank 2 counts 4 ranks, rank 0 counts 3");
	close(seat.fd);
	close(intrude(&none, 2, 3));
	rank_start(&r[1], 1, 3, NULL);
	rank_start(&r[2], 2, 3, NULL);
	for (uint32_t i = 0; i < RANKS; i++)
		expect_all(&r[i]);
}

/* Rank 0 says why nobody had a place, and the one with another secret that it had none. */
static void secrets_that_differ(void **state SPW_UNUSED)
{
	struct rank r[2];

	rank_start_for(&r[0], 0, 2, secret_path, 5000);
	rank_start_for(&r[1], 1, 2, other_path, WAIT_MS);
	expect_refused(&r[1], -EACCES, "the secrets differ");
	expect_refused(&r[0], -ETIMEDOUT, "the secrets differ");
}

static void no_such_secret(void **state SPW_UNUSED)
{
	struct rank r;

	rank_start(&r, 0, 2, "/nonexistent/secret");
	expect_refused(&r, -ENOENT, "/nonexistent/secret");
}

static void secret_write(char path[64], const char *text)
{
	int fd;

	snprintf(path, 64, "/tmp/spw-secret-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int setup(void **state SPW_UNUSED)
{
	port = unit_free_port(SOCK_STREAM);
	snprintf(root, sizeof(root), "127.0.0.1:%u", port);
	secret_write(secret_path, "the secret of all ranks");
	secret_write(other_path, "another secret !!");
	return 0;
}

static int teardown(void **state SPW_UNUSED)
{
	unlink(secret_path);
	unlink(other_path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_words),
		cmocka_unit_test_prestate(wrong_words, secret_path),
		cmocka_unit_test(silent_crowd),
		cmocka_unit_test_prestate(silent_crowd, secret_path),
		cmocka_unit_test(another_secret),
		cmocka_unit_test(taken_places),
		cmocka_unit_test(secrets_that_differ),
		cmocka_unit_test(no_such_secret),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
