/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the exchange between peers: any bytes from the other side, in pieces of any size. An
 * exchange that agrees must have agreed on values in their ranges, and a server on a GID that it
 * allows. Every exchange that fails must report a reason.
 *
 *   input: byte 0: bit 0 the client side is tested, bit 1 with a secret, bit 2 with gids=,
 *          bit 3 from loopback; byte 1: bytes of a piece; then what the peer sends, from its
 *          greeting on (oob/spw_oob_channel.h)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/spw_peer_conf.h"
#include "peer/spw_peer_credit.h"
#include "peer/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 4096u

static const struct peer_params ours = {
	.qpn = 1,
	.psn = 2,
	.gid = {1},
	.mtu = 1024,
	.op = SPW_PEER_OP_WRITE,
	.credit_cnt = 16,
	.slot_bytes = 4096,
	.slot_stride = 4096,
	.slot_addr = 4096,
	.ring_addr = 8192,
	.ring_cnt = 4096,
};

static void check(const struct peer_params *p)
{
	if (!p->credit_cnt || p->credit_cnt > SPW_PEER_CREDIT_MAX || !p->slot_bytes ||
	    p->qpn >> 24 || p->op > SPW_PEER_OP_WRITE)
		abort();
	if (p->op == SPW_PEER_OP_WRITE &&
	    p->slot_addr + (uint64_t)p->credit_cnt * p->slot_stride < p->slot_addr)
		abort();
}

/* peers=10.0.0.0/8, gids=10.1.0.0/16 */
static struct spw_peer_conf conf = {
	.allow_cnt = 1,
	.allow = {{{{{[10] = 0xff, [11] = 0xff, [12] = 10}}}, 104}},
	.gid = {{{{{[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 1}}}, 112}},
};
static struct in6_addr from = {{{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9}}};

/* The rule once more, in bytes. */
static bool may_have(const uint8_t *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const bool ten = !memcmp(gid, mapped, sizeof(mapped)) && gid[12] == 10;

	return conf.gid_cnt ? ten && gid[13] == 1 : from.s6_addr[12] == 127 || ten;
}

static void say(const struct peer_exchange *x)
{
	char text[PEER_REFUSED_TEXT_BYTES];

	if (x->turn == PEER_TURN_FAILED && !*peer_refused_describe(x, &ours, text) &&
	    x->why != PEER_REFUSED_local)
		abort();
}

static void act(struct peer_exchange *x)
{
	uint32_t value;

	for (int i = 0; i < 8; i++) {
		switch (peer_exchange_step(x, 0)) {
		case PEER_TURN_TO_OFFER:
			peer_exchange_offer(x, &ours);
			break;
		case PEER_TURN_TO_READY:
			check(&x->theirs);
			peer_exchange_ready(x);
			break;
		case PEER_TURN_TO_ACCEPT:
			check(&x->theirs);
			if (spw_peer_gid_allowed(&conf, &from, x->theirs.gid) !=
			    may_have(x->theirs.gid))
				abort();
			if (!spw_peer_gid_allowed(&conf, &from, x->theirs.gid))
				peer_exchange_reject(x, PEER_REJECT_GID, 0);
			else if (peer_exchange_fit(&ours, &x->theirs, &value))
				peer_exchange_reject(x, PEER_REJECT_OP, value);
			else
				peer_exchange_accept(x, &ours);
			break;
		case PEER_TURN_DONE:
		case PEER_TURN_FAILED:
			return;
		default:
			break;
		}
	}
}

/* A server's door: the first message, then its exchange. */
static void let_in(struct peer_exchange *x, struct spw_oob_guest *guest)
{
	const int rc = spw_oob_channel_receive(&guest->ch, guest->first, sizeof(guest->first),
					       &guest->len);

	if (!rc)
		peer_exchange_server(x, guest);
	else if (rc != -EAGAIN)
		x->turn = PEER_TURN_DONE; /* the door has closed it */
}

static void drain(int fd)
{
	uint8_t drop[512];

	while (recv(fd, drop, sizeof(drop), MSG_DONTWAIT) > 0)
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct spw_oob_secret none, some = {.len = 16, .byte = "0123456789abcdef"};
	struct spw_oob_guest guest = {.until_ms = 1};
	struct peer_exchange x = {.turn = PEER_TURN_CONNECT};
	bool client;
	size_t piece;
	int fd[2];

	if (size < 2 || size > INPUT_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd))
		return 0;
	piece = data[1] ? data[1] : INPUT_MAX;
	conf.gid_cnt = data[0] >> 2 & 1;
	from.s6_addr[12] = data[0] & 8 ? 127 : 10;
	client = data[0] & 1;
	if (client)
		peer_exchange_client(&x, fd[0], data[0] & 2 ? &some : &none, 1);
	else if (spw_oob_channel_begin(&guest.ch, fd[0], false, data[0] & 2 ? &some : &none,
				       &peer_proto))
		abort();
	if (client)
		act(&x);
	for (size_t at = 2; at < size && x.turn < PEER_TURN_DONE; at += piece) {
		if (send(fd[1], data + at, SPW_MIN(piece, size - at), MSG_NOSIGNAL) < 0)
			break;
		if (!client && x.turn == PEER_TURN_CONNECT)
			let_in(&x, &guest);
		if (client || x.turn != PEER_TURN_CONNECT)
			act(&x);
		drain(fd[1]);
	}
	if (!client && x.turn == PEER_TURN_CONNECT)
		x.turn = PEER_TURN_DONE; /* still at the door, which has a deadline of its own */
	if (x.turn < PEER_TURN_DONE && peer_exchange_step(&x, 1) != PEER_TURN_FAILED)
		abort(); /* the deadline ends everything */
	say(&x);
	close(fd[0]);
	close(fd[1]);
	return 0;
}
