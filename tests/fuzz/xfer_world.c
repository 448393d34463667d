/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The world of one input (xfer_world.h): an endpoint on devices of nic.c, and a connection over a
 * socket pair.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xfer_world.h"

struct spw_xfer x;
struct spw_xfer_conn *conn;
struct spw_xfer_conn peer;
struct spw_xfer_mem *mem;
uint8_t world_buf[WORLD_BYTES];
static struct spw_xfer_listener listener;

bool nic_may_read(uint64_t addr, uint32_t bytes, uint32_t lkey, bool in_wqe)
{
	const uintptr_t out = (uintptr_t)conn->box->out;

	if (addr >= (uintptr_t)world_buf &&
	    addr + bytes <= (uintptr_t)world_buf + sizeof(world_buf))
		return in_wqe || lkey;
	if (addr >= out && addr + bytes <= out + XFER_BOX_OUT_BYTES)
		return lkey;
	return in_wqe; /* a flag or a size record */
}

void world_open(uint32_t rails, bool secret)
{
	static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 10};
	struct spw_xfer_mem_req req = {
		.kind = SPW_XFER_HOST, .addr = world_buf, .bytes = sizeof(world_buf)};

	memset(&x, 0, sizeof(x));
	memset(nic, 0, sizeof(nic));
	nic_now_ms = 1000;
	xfer_list_init(&x.conns);
	xfer_list_init(&x.listeners);
	xfer_list_init(&x.mems);
	xfer_list_init(&x.resolves);
	x.conf = (struct spw_xfer_conf){.chunk_bytes = 4096,
					.exchange_ms = 500,
					.gone_ms = 3000,
					.retry = 7,
					.timeout = 14};
	x.house_tsc = spw_tsc_now() + (1ull << 62);
	x.epoll_fd = epoll_create1(0);
	if (secret)
		x.secret = (struct spw_oob_secret){.len = 16, .byte = "0123456789abcdef"};
	x.dev_cnt = rails;
	for (uint32_t i = 0; i < rails; i++) {
		memcpy(x.dev[i].gid.gid.raw, v4, sizeof(v4));
		x.dev[i].gid.gid.raw[15] = (uint8_t)i;
		x.dev[i].mtu = 1024;
		x.dev[i].prefix = 120;
		x.dev[i].read_max = 16;
		x.dev[i].link_up = true;
		x.dev[i].direct = i % 2;
		x.dev[i].atomics = true;
	}
	listener = (struct spw_xfer_listener){.x = &x};
	if (spw_xfer_mem_reg(&x, &req, &mem))
		abort();
}

void world_join(bool client)
{
	struct spw_oob_channel ch;
	int fd[2];

	memset(&peer, 0, sizeof(peer));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) ||
	    spw_oob_channel_begin(&ch, fd[0], client, &x.secret, &xfer_proto) ||
	    spw_oob_channel_begin(&peer.link.ch, fd[1], !client, &x.secret, &xfer_proto) ||
	    spw_oob_channel_greet(&peer.link.ch) || xfer_conn_make(&x, &ch, client, &conn))
		abort();
	conn->deadline_ms = nic_now_ms + x.conf.exchange_ms;
	conn->state = client ? XFER_CONN_GREET : XFER_CONN_OFFER;
	conn->listener = client ? NULL : &listener;
}

static void drain(void)
{
	uint8_t drop[4096];

	while (recv(peer.link.ch.fd, drop, sizeof(drop), MSG_DONTWAIT) > 0)
		;
}

void world_turn(void)
{
	if (!conn)
		return;
	xfer_conn_turn(conn, nic_now_ms, true);
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

void world_say(const struct xfer_frame *f)
{
	(void)xfer_link_send(&peer.link, f);
	world_turn();
}

/* ---- the exchange, as it should be ---- */

struct xfer_frame world_rails(enum xfer_frame_type type)
{
	struct xfer_frame f = {.type = type, .offer = {.box_addr = 4096, .dev_cnt = x.dev_cnt}};

	for (uint32_t i = 0; i < x.dev_cnt; i++) {
		f.offer.end[i] = (struct xfer_end){
			.mtu = 1024, .prefix = 120, .in_order = 1, .read_max = 16, .rkey = i};
		memcpy(f.offer.end[i].gid, x.dev[i].gid.gid.raw, 16);
	}
	return f;
}

void world_exchange(bool client)
{
	struct xfer_frame f = world_rails(client ? XFER_FRAME_ACCEPT : XFER_FRAME_OFFER);

	world_turn();
	world_say(&f);
	for (uint32_t i = 0; i < x.dev_cnt; i++) {
		f = (struct xfer_frame){.type = XFER_FRAME_RAIL,
					.rail = {i, 1, 9, 9, x.dev_cnt, i, i}};
		world_say(&f);
		world_turn();
		nic_receive(&nic[i], xfer_imm_put((struct xfer_imm){.kind = XFER_IMM_PROBE}), 0);
		xfer_conn_progress(conn);
		nic_ack(&nic[i], 1, 0);
		xfer_conn_progress(conn);
	}
	world_turn();
	if (!conn || conn->state != XFER_CONN_READY)
		abort();
}

void world_close(void)
{
	if (conn)
		xfer_conn_free(conn);
	conn = NULL;
	close(peer.link.ch.fd);
	if (spw_xfer_mem_dereg(mem))
		abort(); /* a request that ended still holds it */
	close(x.epoll_fd);
	for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++)
		if (nic[i].made)
			abort();
}
