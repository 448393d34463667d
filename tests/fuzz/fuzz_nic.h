/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the fuzz targets on the whole NIC model share: one device, an application whose memory is
 * the arena, and its objects. Besides rings, records and CQs the NIC may write only the MR:
 * fuzz_end() checks the bytes around it.
 */
#ifndef FUZZ_NIC_H
#define FUZZ_NIC_H

#include "fuzz_arena.h"
#include "prm/spw_prm.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/eth/eth.h"
#include "softhca/nic/run/run.h"

#define SQ_BBS  16u
#define RQ_CNT  8u
#define CQE_CNT 128u
#define RQ_AT   (FUZZ_ARENA + 0x1000) /* the send ring follows it, as libmlx5 lays them out */
#define SQ_AT   (RQ_AT + RQ_CNT * 64)
#define CQ_AT   (FUZZ_ARENA + 0x8000)
/* Doorbell records: the CQ's; 64 bytes after it a QP's, SRQ's or WQ's; 128 after it a QP's with an
 * SRQ. */
#define DBREC_AT (FUZZ_ARENA + 0x800)
#define MR_AT    (FUZZ_ARENA + 0x40000) /* one page, canaries on both sides */
#define MR_BYTES 4096u

extern struct hca_dev *fuzz_dev;

void fuzz_die(const char *what) __attribute__((noreturn));
struct hca_ctx *fuzz_begin(struct hca_uar **uar_out, uint32_t *pd_out, uint32_t *lkey_out);
/* Checks the canaries and destroys everything. */
void fuzz_end(struct hca_ctx *ctx);
uint32_t fuzz_cq(struct hca_ctx *ctx, uint32_t uar, uint8_t comp_format, bool enhanced);
uint32_t fuzz_srq(struct hca_ctx *ctx, uint32_t pd);
/* srq: NULL or its handle. */
struct hca_qp *fuzz_qp(struct hca_ctx *ctx, uint32_t pd, uint32_t cq, uint32_t uar, uint8_t type,
		       const uint32_t *srq);
/* To RTS, connected to itself. */
void fuzz_connect(struct hca_ctx *ctx, struct hca_qp *qp);
/* A WQ (IB_UVERBS_WQ_FLAGS_*) behind an RSS QP with the default rule. */
void fuzz_rss(struct hca_ctx *ctx, uint32_t pd, uint32_t cq, bool striding, bool shift,
	      uint32_t flags);
/* 'KEY!' stands for the region's key, wherever it is. */
void fuzz_keys(uint8_t *from, uint32_t bytes, uint32_t lkey);
void fuzz_rounds(uint32_t cnt);

#endif
