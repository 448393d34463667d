/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * DEVX: firmware commands of an application, passed on by the kernel.
 *
 *   ioctl.c --> devx.c: method, opcode, mailbox copied in --> a function below --> mailbox out
 *                                                             |
 *               the constructors of verbs objects (ctl.h) <---+
 *
 * A command function reads c->in, checks all of it, and makes or changes the object. What it makes
 * is c->obj, and what it works on is there already. Returns: 0; a firmware status (enum
 * devx_status), by way of devx_refuse; or -errno of the kernel.
 *
 * A field that the model does not act on is refused unless it is 0, or unless every value of it
 * means the same here. The device lock is held.
 */
#ifndef SPW_SOFTHCA_DEVX_H
#define SPW_SOFTHCA_DEVX_H

#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx/devx_prm.h"
#include "softhca/kernel/devx_methods.h"

/* [K] enum of include/linux/mlx5/device.h, MLX5_CMD_STAT_*. */
enum devx_status {
	DEVX_OK,
	DEVX_INT_ERR,
	DEVX_BAD_OP,
	DEVX_BAD_PARAM,
	DEVX_BAD_SYS_STATE,
	DEVX_BAD_RES,
	DEVX_RES_BUSY,
	DEVX_LIM_ERR = 8,
	DEVX_BAD_RES_STATE = 9,
	DEVX_BAD_INP_LEN = 0x50,
	DEVX_BAD_OUTP_LEN = 0x51,
};

struct devx_cmd {
	struct hca_ctx *ctx;
	const uint8_t *in;
	uint8_t *out; /* zeros; at least as long as the command's answer */
	uint32_t in_bytes;
	uint16_t opcode, op_mod;
	uint32_t syndrome;
	struct hca_obj *obj;
};

/* Purpose: the command ends with `status`; the syndrome names the field that is wrong, as (first
 * bit << 8 | bits). Real syndromes are the vendor's secret. */
SPW_INLINE int devx_refuse(struct devx_cmd *c, enum devx_status status, uint32_t field)
{
	c->syndrome = field;
	return (int)status;
}

/* The context begins here in CREATE and MODIFY mailboxes, but for CQs. */
#define DEVX_CTX_AT    0x20u
#define DEVX_CQ_CTX_AT 0x10u
#define DEVX_WQ_AT     0x30u /* in rqc, sqc and rmpc */

/* ---- objects by number: those of the context only ---- */

/* Numbers of PDs, TDs, TISs, TIRs, RQTs and umems are their handles. Returns: NULL: none. */
void *devx_number(struct hca_ctx *ctx, enum hca_obj_type type, uint64_t number);
struct hca_cq *devx_cq_number(struct hca_ctx *ctx, uint64_t cqn);
struct hca_wq *devx_wq_number(struct hca_ctx *ctx, uint64_t rqn);

/* Returns: what mailboxes and events name the object by. */
uint32_t devx_obj_number(const struct hca_obj *o);

/* Purpose: [offset, offset + bytes) of a umem as memory. Returns: NULL: no such umem, outside it,
 *          or not aligned. umem_out: to be held by the object (hca_obj_hold). */
uint8_t *devx_umem_at(struct hca_ctx *ctx, uint64_t umem, uint64_t offset, uint64_t bytes,
		      uint64_t align, struct hca_obj **umem_out);

/* Purpose: may a queue have stamps of this format (ts_format: 0 free-running, 1 default, 2 real
 * time)? */
bool devx_ts_ok(const struct hca_card *card, uint64_t ts_format);

/* Purpose: an object that needs nothing of the mailbox, named by its handle. */
int devx_make_plain(struct devx_cmd *c, enum hca_obj_type type, size_t bytes);

/* ---- commands ---- */

int devx_query_hca_cap(struct devx_cmd *c);
int devx_query_nic_vport(struct devx_cmd *c);
int devx_alloc_pd(struct devx_cmd *c);
int devx_alloc_td(struct devx_cmd *c);
int devx_create_tis(struct devx_cmd *c);
int devx_query_tis(struct devx_cmd *c);
int devx_create_cq(struct devx_cmd *c);
int devx_create_rq(struct devx_cmd *c);
int devx_modify_rq(struct devx_cmd *c);
int devx_query_rq(struct devx_cmd *c);
int devx_create_sq(struct devx_cmd *c);
int devx_modify_sq(struct devx_cmd *c);
int devx_create_rqt(struct devx_cmd *c);
int devx_modify_rqt(struct devx_cmd *c);
int devx_create_tir(struct devx_cmd *c);
int devx_alloc_q_cnt(struct devx_cmd *c);
int devx_query_q_cnt(struct devx_cmd *c);
int devx_alloc_flow_cnt(struct devx_cmd *c);
int devx_query_flow_cnt(struct devx_cmd *c);
int devx_query_qp(struct devx_cmd *c);

/* The event queue of a completion vector has its number plus this. */
#define DEVX_EQN_FIRST 1u

#endif
