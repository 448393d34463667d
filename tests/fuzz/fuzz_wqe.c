/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the parser of work queues: an input is what an application wrote into its rings before it
 * rang the doorbell. The real NIC model works on it, round by round and without its thread; its QPs
 * are connected to themselves over a cable.
 *
 *   input: u8 QP (0 RC, 1 UC, 2 UD, 3 RAW), u8 fix (1: put the right index and QP number into each
 *          WQE), u8 WQEBBs rung, u8 receives posted, then the receive ring (8 * 64 bytes) and the
 *          send ring (16 * 64 bytes)
 */
#include <string.h>

#include "fuzz_nic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void patch(struct hca_qp *qp, uint32_t bbs)
{
	for (uint32_t i = 0; i < bbs && i < SQ_BBS;) {
		uint8_t *wqe = SQ_AT + i * 64;

		spw_prm_wqe_ctrl_set_wqe_index(wqe, i);
		spw_prm_wqe_ctrl_set_qpn(wqe, qp->qpn);
		i += SPW_MAX(1u, (spw_prm_wqe_ctrl_get_ds(wqe) + 3u) / 4);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t types[4] = {2, 3, 4, 8};
	const uint32_t ring_bytes = (RQ_CNT + SQ_BBS) * 64;
	struct hca_ctx *ctx;
	struct hca_uar *uar;
	struct hca_qp *qp;
	uint32_t pd, lkey;

	if (size < 4)
		return 0;
	ctx = fuzz_begin(&uar, &pd, &lkey);
	qp = fuzz_qp(ctx, pd, fuzz_cq(ctx, uar->index, 0, false), uar->index, types[data[0] & 3],
		     NULL);
	fuzz_connect(ctx, qp);
	memcpy(RQ_AT, data + 4, SPW_MIN(size - 4, (size_t)ring_bytes));
	if (data[1] & 1) {
		fuzz_keys(RQ_AT, ring_bytes, lkey);
		patch(qp, data[2]);
	}
	spw_prm_st32(DBREC_AT + 64, data[3]);
	spw_prm_st32(DBREC_AT + 68, data[2]);
	spw_prm_st64(uar->page + SPW_PRM_UAR_BF_OFFSET,
		     (spw_prm_ld64(SQ_AT) & ~0xffffff00ull) | qp->qpn << 8 | 1);
	fuzz_rounds(24);
	fuzz_end(ctx);
	return 0;
}
