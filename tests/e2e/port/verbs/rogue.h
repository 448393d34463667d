/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A peer made of plain verbs and the real exchange, that does on its QP what a test asks for. Every
 * failure fails the running cmocka test.
 */
#ifndef ROGUE_H
#define ROGUE_H

#include "peer/exchange.h"
#include "rdma/spw_rdma.h"
#include "rc_kit.h"

#define ROGUE_CREDITS   8u
#define ROGUE_SLOT      1024u
#define ROGUE_BUF_BYTES (64u * ROGUE_SLOT)

struct rogue {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct peer_exchange x;
	struct peer_params ours;
	int fd;
};

/* All of them: posts send from the start; receives lie from slot 32 on, slots for the server's
 * writes from 40, the ring at 60. */
extern uint8_t *rogue_buf;

/* Group setup and teardown: the client's device and rogue_buf. */
int rogue_dev_open(void **state);
int rogue_dev_close(void **state);

/* A peer that came up and greeted; end[0] is the server, end[1] goes on meanwhile. */
void rogue_open(struct rogue *r, struct kit_end *const *end, uint16_t port, enum spw_peer_op op);
void rogue_close(struct rogue *r);
void rogue_post(struct rogue *r, enum ibv_wr_opcode op, uint32_t len, uint32_t imm, uint64_t raddr,
		uint32_t rkey);
/* op=write: a message into one of its slots, with any immediate. */
void rogue_write_slot(struct rogue *r, uint32_t slot, uint32_t imm, uint32_t len);

#endif
