/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One machine of a ring of three or four, each with a cable to both neighbours: listens with a
 * handle, connects to the machines of lower rank, and passes messages with both neighbours at the
 * same time, both ways; every byte is compared. Of four the one opposite shares no cable with this
 * one: connecting to it must fail.
 *
 *   xfer_triangle RANK RANKS FOLDER RAILS [BIND]   the handle is left in FOLDER/RANK; prints "peer
 * N rails M" for each neighbour, "peer N refused after MS ms: TEXT" for the one opposite, "wrong
 * ...", and "done"
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_monotonic.h"
#include "xfer/spw_xfer.h"

#define RANKS    4u /* at most */
#define MESSAGES 200u
#define ROOM     (256u << 10)
#define ALIVE_S  100u

static struct spw_xfer *x;
static struct spw_xfer_mem *mem;
static uint8_t *buf; /* of each rank: one place to send from, one to receive into */
static uint32_t self, ranks;

/* The connection with one of the others. */
static struct side {
	struct spw_xfer_conn *conn;
	struct spw_xfer_req *send, *recv;
	uint32_t sent, received;
} side[RANKS];

static int die(const char *what)
{
	printf("wrong: %s: %s\n", what, spw_err_text());
	return 2;
}

static uint8_t *place(uint32_t rank, bool receive)
{
	return buf + (2 * rank + receive) * ROOM;
}

static uint64_t length_of(uint32_t n)
{
	return (uint64_t)n * n * 7919 % ROOM;
}

static uint8_t byte_of(uint32_t from, uint32_t n, uint64_t i)
{
	return (uint8_t)(from * 101 + n * 31 + i * 7 + (i >> 8));
}

/* ---- handles ---- */

static int handle_write(const char *folder, const struct spw_xfer_handle *handle)
{
	char path[256], tmp[260];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u", folder, self);
	snprintf(tmp, sizeof(tmp), "%s.t", path);
	f = fopen(tmp, "w");
	if (!f || fwrite(handle, sizeof(*handle), 1, f) != 1 || fclose(f))
		return spw_err(EIO, "%s", tmp);
	return rename(tmp, path);
}

static bool handle_read(const char *folder, uint32_t rank, struct spw_xfer_handle *handle_out)
{
	char path[256];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/%u", folder, rank);
	f = fopen(path, "r");
	ok = f && fread(handle_out, sizeof(*handle_out), 1, f) == 1;
	if (f)
		fclose(f);
	return ok;
}

/* ---- messages ---- */

static void start_receive(uint32_t rank)
{
	const struct spw_xfer_part part = {mem, place(rank, true), ROOM, 0};

	(void)spw_xfer_recv(side[rank].conn, &part, 1, &side[rank].recv);
}

static void start_send(uint32_t rank)
{
	struct side *s = &side[rank];
	uint8_t *at = place(rank, false);

	for (uint64_t i = 0; i < length_of(s->sent); i++)
		at[i] = byte_of(self, s->sent, i);
	(void)spw_xfer_send(s->conn, mem, at, length_of(s->sent), 0, &s->send);
}

static void check(uint32_t rank, uint64_t bytes)
{
	const uint32_t n = side[rank].received;

	if (bytes != length_of(n))
		printf("wrong length: message %u of %u\n", n, rank);
	for (uint64_t i = 0; i < bytes; i++)
		if (place(rank, true)[i] != byte_of(rank, n, i)) {
			printf("wrong byte: message %u of %u\n", n, rank);
			return;
		}
}

static bool is_done(struct spw_xfer_req **req, uint64_t *bytes_out)
{
	bool done = false;

	if (*req && !spw_xfer_test(*req, &done, bytes_out) && done)
		*req = NULL;
	return done;
}

/* Returns: false: all messages of this peer have been passed. */
static bool turn(uint32_t rank)
{
	struct side *s = &side[rank];
	uint64_t bytes = 0;

	if (is_done(&s->recv, &bytes)) {
		check(rank, bytes);
		if (++s->received < MESSAGES)
			start_receive(rank);
	}
	s->sent += is_done(&s->send, NULL);
	if (!s->send && s->sent < MESSAGES)
		start_send(rank);
	return s->sent < MESSAGES || s->received < MESSAGES;
}

/* ---- connections ---- */

static void joined(uint32_t rank, struct spw_xfer_conn *conn)
{
	struct spw_xfer_rail_stat stat;
	uint32_t up = 0;

	side[rank].conn = conn;
	for (uint32_t i = 0; spw_xfer_conn_rail_stat(conn, i, &stat); i++)
		up += stat.state == SPW_XFER_RAIL_UP;
	printf("peer %u rails %u\n", rank, up);
	start_receive(rank);
}

static int connect_to(const char *folder, uint32_t rank)
{
	struct spw_xfer_conn *conn = NULL;
	struct spw_xfer_handle handle;
	int rc;

	if (!handle_read(folder, rank, &handle))
		return spw_err(ENOENT, "the handle of %u", rank);
	while ((rc = spw_xfer_connect(x, &handle, &conn)) == -EAGAIN)
		sched_yield();
	if (!rc)
		joined(rank, conn);
	return rc;
}

static bool is_opposite(uint32_t rank)
{
	return ranks == 4 && rank == (self + 2) % 4;
}

static int refused_by(const char *folder, uint32_t rank)
{
	const uint64_t begin = spw_monotonic_ms();

	if (!connect_to(folder, rank))
		return spw_err(EPROTO, "connected to %u, to which no cable leads", rank);
	printf("peer %u refused after %llu ms: %s\n", rank,
	       (unsigned long long)(spw_monotonic_ms() - begin), spw_err_text());
	return 0;
}

/* A machine leaves its handle when it has connected to all lower ranks, and begins with that when
 * the one before it has: so a listener knows which is the next to come. */
static int make_all(const char *folder)
{
	struct spw_xfer_listener *listener;
	struct spw_xfer_handle handle, theirs;
	struct spw_xfer_conn *conn;
	int rc = spw_xfer_listen(x, &handle, &listener);

	while (self && !handle_read(folder, self - 1, &theirs))
		usleep(10000);
	for (uint32_t rank = 0; rank < self && !rc; rank++)
		rc = is_opposite(rank) ? refused_by(folder, rank) : connect_to(folder, rank);
	rc = rc ? rc : handle_write(folder, &handle);
	for (uint32_t rank = self + 1; rank < ranks && !rc; rank++) {
		if (is_opposite(rank))
			continue;
		while (spw_xfer_accept(listener, &conn) == -EAGAIN)
			sched_yield();
		joined(rank, conn);
	}
	return rc;
}

static void on_log(enum spw_log_level level SPW_UNUSED, const char *text, void *arg SPW_UNUSED)
{
	printf("log %s\n", text);
}

int main(int argc, char **argv)
{
	struct spw_xfer_conf conf = {0};
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .bytes = 2 * RANKS * ROOM};
	bool busy = true;

	setlinebuf(stdout);
	alarm(ALIVE_S);
	spw_log_sink_set(on_log, NULL);
	if (argc < 5)
		return 1;
	self = (uint32_t)atoi(argv[1]);
	ranks = (uint32_t)atoi(argv[2]);
	conf.rails = argv[4];
	conf.exchange_ms = ranks == 4 ? 8000 : 20000; /* how long a refusal takes at most */
	conf.bind = argc > 5 ? argv[5] : NULL;
	req.addr = buf = aligned_alloc(4096, req.bytes);
	if (!buf || spw_xfer_open(&conf, &x) || spw_xfer_mem_reg(x, &req, &mem))
		return die("open");
	if (make_all(argv[3]))
		return die("connect");
	while (busy) {
		busy = false;
		for (uint32_t rank = 0; rank < ranks; rank++)
			busy |= rank != self && !is_opposite(rank) && turn(rank);
		sched_yield();
	}
	printf("done\n");
	(void)getchar(); /* until all are: a connection ends with its process */
	spw_xfer_close(x);
	return 0;
}
