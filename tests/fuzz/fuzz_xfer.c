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
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/spw_log.h"
#include "xfer_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQS     (4u * SPW_XFER_REQ_MAX)
#define STEP_MAX 400u
#define RAW_MAX  64u

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

/* ---- what the peer does ---- */

static void any_frame(void)
{
	const uint32_t kind = take(1) % 8;
	struct xfer_frame f = {.type = kind < 2 ? XFER_FRAME_OFFER
						: (enum xfer_frame_type)(kind - 1)};

	switch (f.type) {
	case XFER_FRAME_OFFER:
	case XFER_FRAME_ACCEPT:
		f = world_rails(f.type);
		f.offer.dev_cnt = take(1) % 6;
		f.offer.end[0].prefix = (uint16_t)take(1);
		f.offer.end[1].mtu = (uint16_t)(take(1) << 8);
		f.offer.key[0] = (uint8_t)take(1);
		break;
	case XFER_FRAME_REJECT:
		f.reject.reason = take(1);
		break;
	case XFER_FRAME_RAIL:
		f.rail.rail = take(1) % 5;
		f.rail.qp_generation = (uint32_t)number();
		f.rail.qpn = take(1);
		f.rail.rail_cnt = 1 + f.rail.rail % 4;
		f.rail.client_dev = f.rail.qpn >> 2 & 3u;
		f.rail.peer_dev = f.rail.qpn >> 4 & 3u;
		break;
	case XFER_FRAME_DOWN:
		f.down.rail = take(1) % 5;
		f.down.qp_generation = (uint32_t)number();
		f.down.generation = (uint32_t)number();
		for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
			f.down.open[i] = i % 8 ? XFER_NO_SEQ : (uint32_t)number() * 64 + i;
		break;
	case XFER_FRAME_WINDOW:
		f.window.idx = take(1) % 66;
		f.window.is_host = f.window.idx & 1u;
		f.window.addr = number();
		f.window.bytes = number();
		break;
	default:
		break;
	}
	world_say(&f);
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
		f.rail.qp_generation = rail->qp_generation + !conn->is_client;
		f.rail.qpn = 9;
		f.rail.rail_cnt = conn->rail_cnt;
		f.rail.client_dev = conn->is_client ? rail->dev_idx : rail->peer_idx;
		f.rail.peer_dev = conn->is_client ? rail->peer_idx : rail->dev_idx;
	} else {
		f.type = XFER_FRAME_DOWN;
		f.down.rail = rail->idx;
		f.down.qp_generation = rail->qp_generation;
		f.down.generation = conn->tx_generation + 1;
		for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
			f.down.open[i] = keep & 128 ? XFER_NO_SEQ : conn->tx[i].seq;
	}
	world_say(&f);
}

static void raw_bytes(void)
{
	uint8_t bytes[2 * RAW_MAX]; /* gcc 12 for aarch64 takes the loop for 15 bytes longer */
	const uint32_t n = take(1) % RAW_MAX;

	for (uint32_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)take(1);
	(void)!send(peer.link.ch.fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	world_turn();
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

	(void)spw_xfer_send(conn, mem, world_buf, bytes, take(1) % 3, &open_req[i].req);
}

static void call_recv(uint32_t i)
{
	struct spw_xfer_part part[SPW_XFER_PART_MAX];
	const uint32_t cnt = take(1) % (SPW_XFER_PART_MAX + 2);

	for (uint32_t j = 0; j < SPW_XFER_PART_MAX; j++) {
		part[j] = (struct spw_xfer_part){mem, world_buf + 100 * j, number(), take(1) % 3};
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
				    .addr = world_buf,
				    .offset = number(),
				    .bytes = number() * 16,
				    .flag = number(),
				    .flag_offset = how & 64 ? SPW_XFER_NO_FLAG : number() * 32};

	if (how & 32) /* as a put that is joined with its flag */
		a.offset = a.flag_offset - a.bytes;
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
		(void)spw_xfer_window_expose(conn, mem, world_buf + take(1), number() + 1);
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
				out += rail->sent[p % XFER_SQ_CNT].run.len;
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
		world_turn();
		break;
	default:
		call();
	}
	if (conn && !(what & 128)) /* else completions wait for the next step */
		xfer_conn_progress(conn);
	check();
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
	memset(open_req, 0, sizeof(open_req));
	world_open(1 + (how >> 3 & 3u), how >> 1 & 1u);
	world_join(how & 1u);
	if (!(how & 4u))
		world_exchange(how & 1u);
	for (uint32_t i = 0; i < STEP_MAX && at < end; i++)
		step();
	for (uint32_t i = 0; conn && i < REQS; i++)
		call_test(i);
	world_close();
	return 0;
}
