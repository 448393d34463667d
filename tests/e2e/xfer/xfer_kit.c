/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "xfer_kit.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

uint64_t kit_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void must(int rc, const char *what)
{
	if (rc)
		fail_msg("%s: %d: %s", what, rc, spw_err_text());
}

void kit_open(struct kit *k, const char *rails_a, const char *rails_b,
	      const struct spw_xfer_conf *conf)
{
	struct spw_xfer_conf c = conf ? *conf : (struct spw_xfer_conf){0};

	memset(k, 0, sizeof(*k));
	c.bind = c.bind ? c.bind : "127.0.0.1:0";
	c.rails = rails_a;
	must(spw_xfer_open(&c, &k->a), "open a");
	c.rails = rails_b;
	must(spw_xfer_open(&c, &k->b), "open b");
}

void kit_join(struct kit *k, const struct spw_xfer_handle *handle,
	      struct spw_xfer_listener *listener, struct spw_xfer_conn **ab,
	      struct spw_xfer_conn **ba)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	int rc_a = -EAGAIN, rc_b = -EAGAIN;

	*ab = NULL;
	while ((rc_a == -EAGAIN || rc_b == -EAGAIN) && kit_now_ms() < end) {
		if (rc_a == -EAGAIN)
			rc_a = spw_xfer_connect(k->a, handle, ab);
		if (rc_b == -EAGAIN)
			rc_b = spw_xfer_accept(listener, ba);
		kit_turn(k);
	}
	must(rc_a, "connect");
	must(rc_b, "accept");
}

void kit_connect(struct kit *k)
{
	struct spw_xfer_handle handle;

	must(spw_xfer_listen(k->b, &handle, &k->listener), "listen");
	kit_join(k, &handle, k->listener, &k->ab, &k->ba);
}

void kit_memory(struct kit *k, size_t bytes)
{
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .bytes = bytes};

	k->bytes = bytes;
	k->buf_a =
		mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(k->buf_a != MAP_FAILED);
	k->buf_b = k->buf_a + bytes;
	req.addr = k->buf_a;
	must(spw_xfer_mem_reg(k->a, &req, &k->mem_a), "register a");
	req.addr = k->buf_b;
	must(spw_xfer_mem_reg(k->b, &req, &k->mem_b), "register b");
}

void kit_close(struct kit *k)
{
	spw_xfer_close(k->a);
	spw_xfer_close(k->b);
	if (k->buf_a)
		munmap(k->buf_a, 2 * k->bytes);
}

void kit_turn(struct kit *k)
{
	spw_xfer_progress(k->a);
	spw_xfer_progress(k->b);
	sched_yield();
}

void kit_turn_for(struct kit *k, uint32_t ms)
{
	const uint64_t end = kit_now_ms() + ms;

	while (kit_now_ms() < end)
		kit_turn(k);
}

int kit_finish(struct kit *k, struct spw_xfer_req *req, uint64_t *bytes_out)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	bool done = false;
	int rc = 0;

	while (!done) {
		if (kit_now_ms() >= end)
			fail_msg("a request is not done after %u ms; %s; %s", KIT_WAIT_MS,
				 k->ab ? spw_xfer_conn_text(k->ab) : "",
				 k->ba ? spw_xfer_conn_text(k->ba) : "");
		rc = spw_xfer_test(req, &done, bytes_out);
		if (!done)
			kit_turn(k);
	}
	return rc;
}

void kit_done(struct kit *k, struct spw_xfer_req *req)
{
	must(kit_finish(k, req, NULL), "request");
}

uint32_t kit_up_cnt(const struct spw_xfer_conn *conn)
{
	struct spw_xfer_rail_stat stat;
	uint32_t n = 0;

	for (uint32_t i = 0; spw_xfer_conn_rail_stat(conn, i, &stat); i++)
		n += stat.state == SPW_XFER_RAIL_UP;
	return n;
}

void kit_wait_up(struct kit *k, uint32_t rails)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;

	while (kit_up_cnt(k->ab) != rails || kit_up_cnt(k->ba) != rails) {
		if (kit_now_ms() >= end)
			fail_msg("%u and %u rails are up, not %u", kit_up_cnt(k->ab),
				 kit_up_cnt(k->ba), rails);
		kit_turn(k);
	}
}

void kit_fill(uint8_t *at, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)((i * 2654435761u + seed * 40503u) >> 7);
}

void kit_expect_bytes(const uint8_t *at, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != (uint8_t)((i * 2654435761u + seed * 40503u) >> 7))
			fail_msg("byte %zu of %zu is wrong", i, len);
}

void kit_pass(struct kit *k, uint64_t bytes, uint64_t seed)
{
	const struct spw_xfer_part part = {k->mem_b, k->buf_b, bytes, 0};
	struct spw_xfer_req *send, *recv;
	uint64_t got = 0;

	kit_fill(k->buf_a, bytes, seed);
	memset(k->buf_b, 0, bytes);
	must(spw_xfer_recv(k->ba, &part, 1, &recv), "recv");
	must(spw_xfer_send(k->ab, k->mem_a, k->buf_a, bytes, 0, &send), "send");
	must(kit_finish(k, recv, &got), "receive");
	kit_done(k, send);
	assert_int_equal(got, bytes);
	kit_expect_bytes(k->buf_b, bytes, seed);
}

void kit_control(const char *dev, char answer[KIT_ANSWER], const char *fmt, ...)
{
	char line[256], own[KIT_ANSWER];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	unit_control(dev, line, answer ? answer : own);
}

uint32_t kit_qps(const char *dev, uint32_t qpn[KIT_QPS])
{
	char answer[KIT_ANSWER];
	const char *at;
	uint32_t n = 0;

	kit_control(dev, answer, "objects");
	at = strstr(answer, " qp=");
	for (at = at ? at + 4 : ""; n < KIT_QPS && *at >= '0' && *at <= '9'; at += *at == ',') {
		char *end;

		qpn[n++] = (uint32_t)strtoul(at, &end, 0);
		at = end;
	}
	return n;
}
