/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One end of lib/xfer as a process of its own, for tests that kill it, stop it, or cut its
 * networks. It streams messages of mixed lengths both ways, compares every byte, and prints what
 * happens, a line each.
 *
 *   xfer_peer serve RAILS BIND [idle]      prints "handle HEX"; takes one peer after the other
 *   xfer_peer connect RAILS HANDLE [idle]  ends with the connection; HANDLE may be "host:port"
 *
 *   "up N"  connected over N rails     "messages N"  arrived so far, five times a second
 *   "ended ERRNO TEXT"  a connection or an attempt ended        "wrong ..."  a byte differs
 *
 * $SPW_TEST_GONE_MS, $SPW_TEST_EXCHANGE_MS: of spw_xfer_conf. $SPW_TEST_OPEN=1: who knows the
 * address may connect, and there is no handle.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "xfer/spw_xfer.h"

#define DEPTH 8u
#define ROOM  (256u << 10)

static struct spw_xfer *x;
static struct spw_xfer_mem *mem;
static uint8_t *buf; /* DEPTH places to send from, DEPTH to receive into */
static bool idle;
static struct spw_xfer_req *send_req[DEPTH], *recv_req[DEPTH];
static uint64_t sent, received, next_ms;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint32_t env(const char *name)
{
	const char *text = getenv(name);

	return text ? (uint32_t)atoi(text) : 0;
}

static int die(const char *what)
{
	printf("%s: %s\n", what, spw_err_text());
	return 2;
}

static uint64_t length_of(uint64_t n)
{
	return n * n * 7919 % ROOM;
}

static uint8_t byte_of(uint64_t n, uint64_t i)
{
	return (uint8_t)(n * 31 + i * 7 + (i >> 8));
}

static void receive(struct spw_xfer_conn *conn, uint64_t n)
{
	const struct spw_xfer_part part = {mem, buf + (DEPTH + n % DEPTH) * ROOM, ROOM, 0};

	(void)spw_xfer_recv(conn, &part, 1, &recv_req[n % DEPTH]);
}

/* Returns: whether it is done; a failed connection shows in spw_xfer_conn_error. */
static bool is_done(struct spw_xfer_req **req, uint64_t *bytes_out)
{
	bool done = false;
	int rc = *req ? spw_xfer_test(*req, &done, bytes_out) : 0;

	if (done)
		*req = NULL;
	return done && !rc;
}

static void check(uint64_t n, uint64_t got)
{
	const uint8_t *at = buf + (DEPTH + n % DEPTH) * ROOM;

	if (got != length_of(n))
		printf("wrong length: message %llu\n", (unsigned long long)n);
	for (uint64_t i = 0; i < got; i++)
		if (at[i] != byte_of(n, i)) {
			printf("wrong byte: message %llu\n", (unsigned long long)n);
			return;
		}
}

static void turn(struct spw_xfer_conn *conn)
{
	struct spw_xfer_req **out = &send_req[sent % DEPTH];
	uint64_t got;

	if (is_done(&recv_req[received % DEPTH], &got)) {
		check(received, got);
		receive(conn, received + DEPTH);
		received++;
	}
	(void)is_done(out, NULL);
	if (!*out && !idle && !spw_xfer_conn_error(conn)) {
		uint8_t *at = buf + sent % DEPTH * ROOM;

		for (uint64_t i = 0; i < length_of(sent); i++)
			at[i] = byte_of(sent, i);
		sent += !spw_xfer_send(conn, mem, at, length_of(sent), 0, out);
	}
	(void)spw_xfer_progress(x);
	sched_yield();
}

static void say_messages(void)
{
	if (now_ms() < next_ms)
		return;
	next_ms = now_ms() + 200;
	printf("messages %llu\n", (unsigned long long)received);
}

/* Until the connection ends. */
static void stream(struct spw_xfer_conn *conn)
{
	struct spw_xfer_rail_stat stat;
	uint32_t up = 0;

	memset(send_req, 0, sizeof(send_req));
	sent = received = 0;
	for (uint32_t i = 0; spw_xfer_conn_rail_stat(conn, i, &stat); i++)
		up += stat.state == SPW_XFER_RAIL_UP;
	printf("up %u\n", up);
	for (uint64_t n = 0; n < DEPTH; n++)
		receive(conn, n);
	while (!spw_xfer_conn_error(conn)) {
		turn(conn);
		say_messages();
	}
	printf("ended %d %s\n", -spw_xfer_conn_error(conn), spw_xfer_conn_text(conn));
	spw_xfer_conn_close(conn);
}

static int serve(void)
{
	struct spw_xfer_listener *listener;
	struct spw_xfer_handle handle;
	const bool open = env("SPW_TEST_OPEN");
	struct spw_xfer_conn *conn;

	if (spw_xfer_listen(x, open ? NULL : &handle, &listener))
		return die("listen");
	printf("listens on %s\nhandle ", spw_xfer_listener_text(listener));
	for (uint32_t i = 0; i < sizeof(handle) && !open; i++)
		printf("%02x", handle.byte[i]);
	printf("\n");
	for (;;) {
		if (spw_xfer_accept(listener, &conn))
			sched_yield();
		else
			stream(conn);
	}
}

static int join(const char *hex)
{
	struct spw_xfer_handle handle = {{0}};
	struct spw_xfer_conn *conn = NULL;
	int rc;

	if (strchr(hex, ':') && spw_xfer_handle_parse(hex, &handle))
		return die("handle");
	for (uint32_t i = 0; i < sizeof(handle) && hex[2 * i] && !strchr(hex, ':'); i++)
		sscanf(hex + 2 * i, "%2hhx", &handle.byte[i]);
	while ((rc = spw_xfer_connect(x, &handle, &conn)) == -EAGAIN)
		sched_yield();
	if (rc)
		printf("ended %d %s\n", -rc, spw_err_text());
	else
		stream(conn);
	return 3;
}

static void on_log(enum spw_log_level level SPW_UNUSED, const char *text, void *arg SPW_UNUSED)
{
	printf("log %s\n", text);
}

int main(int argc, char **argv)
{
	struct spw_xfer_conf conf = {.gone_ms = env("SPW_TEST_GONE_MS"),
				     .exchange_ms = env("SPW_TEST_EXCHANGE_MS")};
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .bytes = 2 * DEPTH * ROOM};
	bool serves;

	setlinebuf(stdout);
	spw_log_sink_set(on_log, NULL);
	if (argc < 4)
		return 1;
	serves = !strcmp(argv[1], "serve");
	conf.rails = argv[2];
	conf.bind = serves ? argv[3] : NULL;
	idle = argc > 4;
	req.addr = buf = aligned_alloc(4096, req.bytes);
	if (!buf || spw_xfer_open(&conf, &x))
		return die("open");
	if (spw_xfer_mem_reg(x, &req, &mem))
		return die("register");
	return serves ? serve() : join(argv[3]);
}
