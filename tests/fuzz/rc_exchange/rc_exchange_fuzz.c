/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whatever a peer may say in the exchange, to either side of it, in pieces of any size. Byte 0: bit 0 the client's side is
 * tested, bit 1 with a secret; byte 1: bytes of a piece. An exchange that agrees must have agreed on values in their ranges.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/rdma/rc_credit.h"
#include "port/rdma/rc_exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 4096u

static const struct rc_params ours = {
	.qpn = 1, .psn = 2, .gid = {1}, .mtu = 1024, .op = RC_OP_WRITE, .credit_cnt = 16, .slot_bytes = 4096, .slot_stride = 4096,
	.slot_addr = 4096, .ring_addr = 8192, .ring_cnt = 4096,
};

static void check(const struct rc_params *p)
{
	if (!p->credit_cnt || p->credit_cnt > RC_CREDIT_MAX || !p->slot_bytes || p->qpn >> 24 || p->op > RC_OP_WRITE)
		abort();
	if (p->op == RC_OP_WRITE && p->slot_addr + (uint64_t)p->credit_cnt * p->slot_stride < p->slot_addr)
		abort();
}

static void act(struct rc_exchange *x)
{
	uint32_t value;

	for (int i = 0; i < 8; i++) {
		switch (rc_exchange_step(x, 0)) {
		case RC_TURN_TO_OFFER: rc_exchange_offer(x, &ours); break;
		case RC_TURN_TO_READY:
			check(&x->theirs);
			rc_exchange_ready(x);
			break;
		case RC_TURN_TO_ACCEPT:
			check(&x->theirs);
			if (rc_exchange_fit(&ours, &x->theirs, &value))
				rc_exchange_reject(x, RC_REJECT_MTU, value);
			else
				rc_exchange_accept(x, &ours);
			break;
		case RC_TURN_DONE:
		case RC_TURN_FAILED: return;
		default: break;
		}
	}
}

static void drain(int fd)
{
	uint8_t drop[512];

	while (recv(fd, drop, sizeof(drop), MSG_DONTWAIT) > 0)
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rc_secret none, some = {.len = 16, .byte = "0123456789abcdef"};
	struct rc_exchange x;
	size_t piece;
	int fd[2];

	if (size < 2 || size > INPUT_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd))
		return 0;
	piece = data[1] ? data[1] : INPUT_MAX;
	if (data[0] & 1)
		rc_exchange_client(&x, fd[0], data[0] & 2 ? &some : &none, 1);
	else
		rc_exchange_server(&x, fd[0], data[0] & 2 ? &some : &none, 1);
	act(&x);
	for (size_t at = 2; at < size && x.turn < RC_TURN_DONE; at += piece) {
		if (send(fd[1], data + at, SPW_MIN(piece, size - at), MSG_NOSIGNAL) < 0)
			break;
		act(&x);
		drain(fd[1]);
	}
	if (x.turn < RC_TURN_DONE && rc_exchange_step(&x, 1) != RC_TURN_FAILED)
		abort(); /* the deadline ends everything */
	close(fd[0]);
	close(fd[1]);
	return 0;
}
