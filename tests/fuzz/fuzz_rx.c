/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing what arrives from the cable, with everything behind it: an input is a receive ring and
 * the frames that arrive. The real NIC model takes them one by one, as rx_frame() gets them from a
 * cable that vouches for their ICRC.
 *
 *   input: u8 receiver  bits 0..1  RC, UC, UD, or a WQ behind RSS
 *                       bit 2      with an SRQ, or striding
 *                       bit 3      two-byte shift
 *                       bits 4..5  no compression, hash, checksum, stride index
 *                       bit 6      enhanced layout
 *                       bit 7      a frame ends a burst
 *          u8 fix       1 keys; 2 the QP's number into each BTH; 4 the expected PSN too; 8, 16 the
 *                       WQ strips VLAN tags, delivers the FCS
 *          u8 receives posted, then the receive ring (8 * 64 bytes), then frames, each a length
 *          (u16, big-endian) and its bytes
 */
#include <string.h>

#include "fuzz_nic.h"

#define BTH_AT 42u /* Ethernet, IPv4, UDP */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct hca_qp *make_receiver(struct hca_ctx *ctx, struct hca_uar *uar, uint32_t pd,
				    uint8_t how, uint8_t fix)
{
	static const uint8_t types[3] = {2, 3, 4};
	static const uint8_t formats[4] = {0, MLX5_IB_CQE_RES_FORMAT_HASH,
					   MLX5_IB_CQE_RES_FORMAT_CSUM,
					   MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX};
	const uint32_t cq = fuzz_cq(ctx, uar->index, formats[how >> 4 & 3], how >> 6 & 1);
	struct hca_qp *qp;
	uint32_t srq;

	if ((how & 3) == 3) {
		fuzz_rss(ctx, pd, cq, how >> 2 & 1, how >> 3 & 1, fix >> 3 & 3);
		return NULL;
	}
	if (how & 4)
		srq = fuzz_srq(ctx, pd);
	qp = fuzz_qp(ctx, pd, cq, uar->index, types[how & 3], how & 4 ? &srq : NULL);
	fuzz_connect(ctx, qp);
	return qp;
}

static void take(const struct hca_qp *qp, uint8_t *frame, uint32_t len, uint8_t fix)
{
	const struct cable_frame f = {.data = frame, .len = len, .flags = CABLE_F_ICRC_VALID};
	struct nic_dev *nd = fuzz_dev->nic;

	if (qp && len >= BTH_AT + 12 && fix & 2)
		spw_prm_st32(frame + BTH_AT + 4, qp->qpn);
	if (qp && len >= BTH_AT + 12 && fix & 4)
		spw_prm_st32(frame + BTH_AT + 8,
			     (spw_prm_ld32(frame + BTH_AT + 8) & 0xff000000u) | qp->nic->epsn);
	hca_lock(fuzz_dev);
	rx_frame(nd, &f);
	hca_unlock(fuzz_dev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t frame[2048];
	struct hca_ctx *ctx;
	struct hca_uar *uar;
	struct hca_qp *qp;
	uint32_t pd, lkey;
	size_t at = 3 + RQ_CNT * 64;

	if (size < at)
		return 0;
	ctx = fuzz_begin(&uar, &pd, &lkey);
	qp = make_receiver(ctx, uar, pd, data[0], data[1]);
	memcpy(RQ_AT, data + 3, RQ_CNT * 64);
	if (data[1] & 1)
		fuzz_keys(RQ_AT, RQ_CNT * 64, lkey);
	spw_prm_st32(DBREC_AT + 64, data[2]);
	while (at + 2 < size) {
		const uint32_t len = (uint32_t)SPW_MIN(
			SPW_MIN(size - at - 2, (size_t)spw_prm_ld16(data + at)), sizeof(frame));

		memcpy(frame, data + at + 2, len);
		if (data[1] & 1)
			fuzz_keys(frame, len, lkey);
		take(qp, frame, len, data[1]);
		at += 2 + len;
		if (data[0] & 0x80)
			fuzz_rounds(1);
	}
	fuzz_rounds(8);
	fuzz_end(ctx);
	return 0;
}
