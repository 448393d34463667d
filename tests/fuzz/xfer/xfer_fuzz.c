/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing a connection of lib/xfer: any frames, immediates, grants, completions, failures and calls
 * in any order. Whatever the peer does, requests end once, receives stay within their room, nothing
 * is posted that a NIC could not do, and memory is free in the end.
 *
 *   input: byte 0: bit 0 the library is the client, bit 1 with a secret, bit 2 without the exchange
 *          before, bits 3..4 rails - 1; then actions: a byte each, and what it takes
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_log.h"
#include "nic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES    65536u
#define REQS     (4u * SPW_XFER_REQ_MAX)
#define STEP_MAX 400u

static struct spw_xfer x;
static struct spw_xfer_listener listener;
static struct spw_xfer_conn *conn; /* NULL: it ended before the caller had it */
static struct spw_xfer_conn peer;  /* speaks the protocol, and lies */
static struct spw_xfer_mem *mem;
static uint8_t buf[BYTES];
static struct {
	struct spw_xfer_req *req;
	uint64_t room[SPW_XFER_PART_MAX];
	uint32_t parts;
} open_req[REQS];

/* ---- the input ---- */

static const uint8_t *at, *end;

static uint32_t take(uint32_t bytes)
{
	uint32_t v = 0;

	while (bytes--)
		v = v << 8 | (at < end ? *at++ : 0);
	return v;
}

/* Small numbers are likely, every number is possible. */
static uint64_t number(void)
{
	const uint32_t kind = take(1);

	return kind < 200 ? kind : kind < 240 ? take(2) : kind < 250 ? take(4) : UINT64_MAX - kind;
}

/* ---- the world ---- */

bool nic_may_read(uint64_t addr, uint32_t bytes, uint32_t lkey, bool in_wqe)
{
	const uintptr_t out = (uintptr_t)conn->box->out;

	if (addr >= (uintptr_t)buf && addr + bytes <= (uintptr_t)buf + sizeof(buf))
		return in_wqe || lkey;
	if (addr >= out && addr + bytes <= out + sizeof(conn->box->out))
		return lkey;
	return in_wqe; /* a flag or a size record */
}

static void world_open(uint32_t rails, bool secret)
{
	static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 10};
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .addr = buf, .bytes = sizeof(buf)};

	memset(&x, 0, sizeof(x));
	memset(nic, 0, sizeof(nic));
	memset(open_req, 0, sizeof(open_req));
	nic_now_ms = 1000;
	xfer_list_init(&x.conns);
	xfer_list_init(&x.listeners);
	xfer_list_init(&x.mems);
	x.conf = (struct spw_xfer_conf){.chunk_bytes = 4096,
					.exchange_ms = 500,
					.gone_ms = 3000,
					.retry = 7,
					.timeout = 14};
	x.house_tsc = spw_tsc_now() + (1ull << 62);
	x.epoll_fd = epoll_create1(0);
	if (secret)
		x.secret = (struct peer_secret){.len = 16, .byte = "0123456789abcdef"};
	x.dev_cnt = rails;
	for (uint32_t i = 0; i < rails; i++) {
		memcpy(x.dev[i].gid.gid.raw, v4, sizeof(v4));
		x.dev[i].gid.gid.raw[15] = (uint8_t)i;
		x.dev[i].mtu = 1024;
		x.dev[i].direct = i % 2;
	}
	listener = (struct spw_xfer_listener){.x = &x, .fd = -1};
	if (spw_xfer_mem_reg(&x, &req, &mem))
		abort();
}

static void join(bool client)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) ||
	    xfer_conn_make(&x, fd[0], client, &conn))
		abort();
	conn->deadline_ms = nic_now_ms + x.conf.exchange_ms;
	conn->state = client ? XFER_CONN_CHALLENGE : XFER_CONN_HELLO;
	conn->listener = client ? NULL : &listener;
	memset(&peer, 0, sizeof(peer));
	peer.x = &x;
	peer.is_client = !client;
	xfer_link_start(&peer.link, fd[1]);
	if (client)
		xfer_exchange_start(conn);
}

static void drain(void)
{
	uint8_t drop[4096];

	while (recv(peer.link.fd, drop, sizeof(drop), MSG_DONTWAIT) > 0)
		;
}

static void turn(void)
{
	if (!conn)
		return;
	xfer_conn_turn(conn, nic_now_ms);
	if (x.conns.next == &x.conns) {
		conn = NULL;
		return;
	}
	if (conn->state == XFER_CONN_READY) {
		conn->listener = NULL;
		conn->given = true;
	}
	drain();
}

static void say(const struct xfer_frame *f)
{
	if (conn)
		memcpy(peer.link.nonce, conn->link.nonce, sizeof(peer.link.nonce));
	(void)xfer_link_send(&peer, f);
	turn();
}

/* ---- the exchange, as it should be ---- */

static struct xfer_frame rails_frame(enum xfer_frame_type type)
{
	struct xfer_frame f = {.type = type, .offer = {.box_addr = 4096, .rail_cnt = x.dev_cnt}};

	for (uint32_t i = 0; i < x.dev_cnt; i++) {
		f.offer.end[i] = (struct xfer_end){.mtu = 1024, .pair = (uint16_t)i, .rkey = i};
		memcpy(f.offer.end[i].gid, x.dev[i].gid.gid.raw, 16);
	}
	return f;
}

static void exchange(bool client)
{
	struct xfer_frame f = {.type = client ? XFER_FRAME_CHALLENGE : XFER_FRAME_HELLO};

	say(&f);
	f = rails_frame(client ? XFER_FRAME_ACCEPT : XFER_FRAME_OFFER);
	say(&f);
	for (uint32_t i = 0; i < x.dev_cnt; i++) {
		f = (struct xfer_frame){.type = XFER_FRAME_RAIL, .rail = {i, 1, 9, 9}};
		say(&f);
		nic_receive(&nic[i], xfer_imm_put((struct xfer_imm){.kind = XFER_IMM_PROBE}), 0);
		xfer_conn_progress(conn);
		nic_ack(&nic[i], 1, 0);
		xfer_conn_progress(conn);
	}
	turn();
	if (!conn || conn->state != XFER_CONN_READY)
		abort();
}

/* ---- what the peer does ---- */

static void any_frame(void)
{
	struct xfer_frame f = {.type = (enum xfer_frame_type)(1 + take(1) % (XFER_FRAME_CNT - 1))};

	switch (f.type) {
	case XFER_FRAME_OFFER:
	case XFER_FRAME_ACCEPT:
		f = rails_frame(f.type);
		f.offer.rail_cnt = take(1) % 6;
		f.offer.end[0].pair = (uint16_t)take(1);
		f.offer.end[1].mtu = (uint16_t)(take(1) << 8);
		f.offer.key[0] = (uint8_t)take(1);
		break;
	case XFER_FRAME_REJECT:
		f.reject.reason = take(1);
		break;
	case XFER_FRAME_RAIL:
		f.rail.rail = take(1) % 5;
		f.rail.life = (uint32_t)number();
		f.rail.qpn = take(1);
		break;
	case XFER_FRAME_DOWN:
		f.down.rail = take(1) % 5;
		f.down.life = (uint32_t)number();
		f.down.generation = (uint32_t)number();
		for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
			f.down.open[i] = i % 8 ? XFER_NO_SEQ : (uint32_t)number() * 64 + i;
		break;
	case XFER_FRAME_WINDOW:
		f.window.idx = take(1) % 66;
		f.window.addr = number();
		f.window.bytes = number();
		break;
	default:
		break;
	}
	say(&f);
}

/* The frame that a peer would send now: it takes a rail down, or offers it again. */
static void right_frame(void)
{
	struct xfer_frame f = {0};
	struct xfer_rail *rail;
	uint32_t keep = take(1);

	if (!conn || !conn->rail_cnt)
		return;
	rail = conn->rail[keep % conn->rail_cnt];
	if (rail->state == XFER_OFF || rail->state == XFER_MAKING) {
		f.type = XFER_FRAME_RAIL;
		f.rail.rail = rail->idx;
		f.rail.life = rail->life + !conn->is_client;
		f.rail.qpn = 9;
	} else {
		f.type = XFER_FRAME_DOWN;
		f.down.rail = rail->idx;
		f.down.life = rail->life;
		f.down.generation = conn->tx_generation + 1;
		for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
			f.down.open[i] = keep & 128 ? XFER_NO_SEQ : conn->tx[i].seq;
	}
	say(&f);
}

static void raw_bytes(void)
{
	uint8_t bytes[64];
	const uint32_t n = take(1) % sizeof(bytes);

	for (uint32_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)take(1);
	(void)!send(peer.link.fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	turn();
}

static void any_grant(void)
{
	const uint32_t how = take(1), slot = how % XFER_SLOT_CNT;
	struct xfer_grant *g;
	uint32_t seq;

	if (!conn)
		return;
	g = &conn->box->in[slot];
	seq = how & 64 ? (uint32_t)number() : conn->tx[slot].seq + XFER_SLOT_CNT;
	*g = (struct xfer_grant){.addr = spw_cpu_to_be64(number()),
				 .bytes = spw_cpu_to_be64(number()),
				 .tag = spw_cpu_to_be32(take(1) % 3),
				 .seq = spw_cpu_to_be32(seq),
				 .generation = spw_cpu_to_be32(how & 128 ? (uint32_t)number()
									 : conn->tx_generation)};
	nic_receive(&nic[take(1) % SPW_XFER_RAIL_MAX],
		    xfer_imm_put((struct xfer_imm){.kind = XFER_IMM_GRANT,
						   .slot = (uint8_t)slot,
						   .lap = xfer_lap_of(seq)}),
		    0);
}

/* The end of a message, on all its rails. */
static void right_fin(void)
{
	const uint32_t how = take(1), rails = take(1), slot = how % XFER_SLOT_CNT;

	if (!conn)
		return;
	conn->box->size[slot] = spw_cpu_to_be64(number());
	for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++) {
		const struct xfer_imm fin = {.kind = XFER_IMM_FIN,
					     .slot = (uint8_t)slot,
					     .rails = rails & 15u,
					     .generation = (uint8_t)(conn->rx_generation & 15u),
					     .size = (uint8_t)(rails >> 4),
					     .lap = xfer_lap_of(conn->rx[slot].seq)};

		if (rails >> i & 1u)
			nic_receive(&nic[i], xfer_imm_put(fin), (uint32_t)(how * 8));
	}
}

/* ---- what the caller does ---- */

static uint32_t place(void)
{
	for (uint32_t i = 0; i < REQS; i++)
		if (!open_req[i].req)
			return i;
	return REQS;
}

static void call_send(uint32_t i)
{
	const uint64_t bytes = number() * 16;

	(void)spw_xfer_send(conn, mem, buf, bytes, take(1) % 3, &open_req[i].req);
}

static void call_recv(uint32_t i)
{
	struct spw_xfer_part part[SPW_XFER_PART_MAX];
	const uint32_t cnt = take(1) % (SPW_XFER_PART_MAX + 2);

	for (uint32_t j = 0; j < SPW_XFER_PART_MAX; j++) {
		part[j] = (struct spw_xfer_part){mem, buf + 100 * j, number(), take(1) % 3};
		open_req[i].room[j] = part[j].bytes;
	}
	open_req[i].parts = cnt;
	(void)spw_xfer_recv(conn, part, cnt, &open_req[i].req);
}

static void call_access(uint32_t i)
{
	const uint32_t how = take(1);
	struct spw_xfer_access a = {.window = &conn->window[how % 4],
				    .mem = mem,
				    .addr = buf,
				    .offset = number(),
				    .bytes = number() * 16,
				    .flag = number(),
				    .flag_offset = how & 64 ? SPW_XFER_NO_FLAG : number() * 32};

	if (how & 128)
		(void)spw_xfer_get(conn, &a, &open_req[i].req);
	else
		(void)spw_xfer_put(conn, &a, &open_req[i].req);
}

static void call_test(uint32_t i)
{
	uint64_t got[SPW_XFER_PART_MAX] = {0};
	bool done;
	int rc;

	if (!open_req[i].req)
		return;
	rc = spw_xfer_test(open_req[i].req, &done, got);
	if (rc && !done)
		abort();
	if (conn->error && !done)
		abort(); /* nothing will ever end it */
	for (uint32_t j = 0; done && !rc && j < open_req[i].parts; j++)
		if (got[j] > open_req[i].room[j])
			abort();
	if (done)
		memset(&open_req[i], 0, sizeof(open_req[i]));
}

static void call(void)
{
	const uint32_t what = take(1), i = place();

	if (!conn || !conn->given || i == REQS)
		return;
	open_req[i].parts = 0;
	switch (what % 6) {
	case 0:
		call_send(i);
		break;
	case 1:
		call_recv(i);
		break;
	case 2:
		call_access(i);
		break;
	case 3:
		(void)spw_xfer_window_expose(conn, mem, buf + take(1), number() + 1);
		break;
	default:
		for (uint32_t j = 0; j < REQS; j++)
			call_test((j + what) % REQS);
	}
}

/* ---- what must hold ---- */

static void check(void)
{
	if (!conn)
		return;
	if (conn->orphan_pi - conn->orphan_ci > XFER_ORPHAN_MAX)
		abort();
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		const struct xfer_rail *rail = conn->rail[i];
		uint64_t out = 0;

		if (rail->sq_pi - rail->sq_ci > XFER_SQ_CNT)
			abort();
		for (uint32_t p = rail->sq_ci; p != rail->sq_pi; p++)
			if (rail->sent[p % XFER_SQ_CNT].kind == XFER_SENT_CHUNK)
				out += rail->sent[p % XFER_SQ_CNT].len;
		if (conn->state != XFER_CONN_FAILED &&
		    (out != rail->out_bytes || (rail->state == XFER_UP) != (conn->up >> i & 1u)))
			abort();
	}
}

static void step(void)
{
	const uint32_t what = take(1);

	switch (what % 16) {
	case 0:
		any_frame();
		break;
	case 1:
		raw_bytes();
		break;
	case 2:
	case 3:
		right_frame();
		break;
	case 4:
		nic_receive(&nic[take(1) % SPW_XFER_RAIL_MAX], take(4), (uint32_t)number());
		break;
	case 5:
	case 6:
		any_grant();
		break;
	case 7:
		right_fin();
		break;
	case 8:
		nic_ack(&nic[take(1) % SPW_XFER_RAIL_MAX], take(1), 0);
		break;
	case 9:
		nic_ack(&nic[what >> 4 & 3], 0, take(1) % 24);
		break;
	case 10:
		nic_now_ms += number();
		turn();
		break;
	default:
		call();
	}
	if (conn && !(what & 128)) /* else completions wait for the next step */
		xfer_conn_progress(conn);
	check();
}

static void world_close(void)
{
	if (conn) {
		for (uint32_t i = 0; i < REQS; i++)
			call_test(i);
		xfer_conn_free(conn);
	}
	conn = NULL;
	close(peer.link.fd);
	if (spw_xfer_mem_dereg(mem))
		abort(); /* a request that ended still holds it */
	close(x.epoll_fd);
	for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++)
		if (nic[i].made)
			abort();
}

static void no_log(enum spw_log_level level SPW_UNUSED, const char *text SPW_UNUSED,
		   void *arg SPW_UNUSED)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t how;

	spw_log_sink_set(no_log, NULL);
	at = data;
	end = data + size;
	how = take(1);
	world_open(1 + (how >> 3 & 3u), how >> 1 & 1u);
	join(how & 1u);
	if (!(how & 4u))
		exchange(how & 1u);
	for (uint32_t i = 0; i < STEP_MAX && at < end; i++)
		step();
	world_close();
	return 0;
}
