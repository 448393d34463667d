/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A software ConnectX with an adversary in the process of the test: commands as libmlx5 sends them,
 * memory in one registered arena, and no NIC thread. A round of the NIC runs where the test says,
 * or, between rig_step_on() and rig_step_off(), now and then after an instruction of the program
 * (the processor's single-step trap, x86-64 only): every order of the port's loads and stores and
 * the NIC's that one processor can have. The same seed gives the same run.
 */
#ifndef SPW_TEST_ADVERSARY_RIG_H
#define SPW_TEST_ADVERSARY_RIG_H

#include "../../../softhca/kernel/kit.h"
#include "port/mlx5/mem.h"
#include "pool/spw_pool.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/qp.h"

struct rig {
	struct kit k;
	struct nic_dev *nd;
	uint64_t rng; /* of the test's own choices */
	uint64_t now_ns;
	uint32_t lkey;
	uint8_t *arena;
	size_t used;
};

struct rig_cq {
	struct mlx5_cqmem mem;
	uint32_t handle;
};

void rig_open(struct rig *r, uint64_t seed, const char *options);
void rig_close(struct rig *r);
uint64_t rig_random(struct rig *r);
/* 64-byte aligned, registered, filled with what was there before. */
void *rig_memory(struct rig *r, size_t bytes);
void rig_rounds(struct rig *r, uint32_t cnt);

void rig_step_on(struct rig *r);
void rig_step_off(void);

/* comp_format: MLX5_IB_CQE_RES_FORMAT_*, 0 for none */
struct rig_cq rig_cq(struct rig *r, uint32_t cnt, uint8_t comp_format);
/* A raw receive queue behind RSS, with all frames. Returns: its handle. */
uint32_t rig_wq(struct rig *r, uint32_t cq, uint32_t uidx, const struct mlx5_rqmem *mem,
		uint32_t stride_log2);
void rig_wq_state(struct rig *r, uint32_t wq, uint8_t state);
struct rig_qp {
	uint8_t type; /* IB_UVERBS_QPT_* */
	uint32_t rx_cq, tx_cq, uidx, srq;
	bool has_srq;
	struct mlx5_rqmem rq; /* cnt 0: none */
	struct mlx5_sqmem sq;
	spw_be32 *db; /* RCV_DBR, SND_DBR */
};
/* Returns: the QP in RESET. */
struct hca_qp *rig_qp(struct rig *r, const struct rig_qp *conf);
uint32_t rig_srq(struct rig *r, const struct mlx5_rqmem *mem);
/* To RTS; an RC QP connected to `peer`. */
void rig_qp_up(struct rig *r, struct hca_qp *qp, const struct hca_qp *peer);

#endif
