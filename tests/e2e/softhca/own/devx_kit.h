/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Firmware commands by hand: mailboxes whose fields are named by bit and width, as the vendor's
 * structures count them. Written from DPDK's mlx5_prm.h and UCX's ib_mlx5_ifc.h alone.
 */
#ifndef DEVX_KIT_H
#define DEVX_KIT_H

#include "raw_kit.h"

#define BOX_BYTES 512u

struct box {
	uint8_t in[BOX_BYTES], out[BOX_BYTES];
};

/* An object, its number, and the memory that it has rings and records in. */
struct thing {
	struct mlx5dv_devx_obj *obj;
	uint32_t number;
	uint8_t *mem;
	struct mlx5dv_devx_umem *umem;
};

void box_put(uint8_t *box, uint32_t bit, uint32_t width, uint64_t v);
uint64_t box_get(const uint8_t *box, uint32_t bit, uint32_t width);
/* A mailbox of zeros with this opcode. */
void box_start(struct box *b, uint32_t opcode);
/* Creates from the mailbox. Returns: 0, or the errno. */
int thing_try(struct ibv_context *ctx, struct box *b, uint32_t in_bytes, struct thing *t_out);
/* The same; a failure fails the test. */
void thing_make(struct ibv_context *ctx, struct box *b, struct thing *t_out);
/* Memory with a umem over it. */
void thing_memory(struct ibv_context *ctx, struct thing *t, uint32_t bytes);
void thing_free(struct thing *t);
/* Modifies by the mailbox. Returns: 0, or the errno. */
int thing_modify(struct thing *t, struct box *b, uint32_t opcode);

/* A CQ of 1 << log2 entries with records at its end; all CQEs are invalid. */
#define CQ_RECORDS(log2) ((64u << (log2)))
void cq_box(struct box *b, const struct thing *t, uint32_t log2, uint32_t uar, uint32_t eqn);

#endif
