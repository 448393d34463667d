/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The payload of WRITEs into memory, for the responders of RC and UC (rc_rsp.c, ud.c).
 */
#include "softhca/inject/inject.h"
#include "softhca/nic/transport/copy.h"
#include "softhca/nic/transport/qp.h"

/* Stores payload as a card does, in the order of addresses, where programs depend on it: the last
 * aligned word of a short packet may be a flag of what lies before it (ib_write_lat, joined puts of
 * lib/xfer). [release, pairs with the acquire of the program that polls the word] */
void resp_place(struct nic_dev *nd, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint64_t last;

	if (!spw_in_range(bytes, sizeof(last), SPW_CACHE_LINE) ||
	    ((uintptr_t)to + bytes) % sizeof(last)) {
		nic_copy(nd, to, from, bytes);
		return;
	}
	bytes -= (uint32_t)sizeof(last);
	nic_copy(nd, to, from, bytes);
	memcpy(&last, from + bytes, sizeof(last));
	spw_thr_store_rel((uint64_t *)(void *)(to + bytes), last);
}

/* wr_va, wr_rkey and wr_left are those of the first packet, the only one with a RETH; the region is
 * looked up again for each packet, since it may have been deregistered. *nak_out is the reason if
 * the result is false. UC uses it too. */
uint8_t resp_write(struct nic_qp *q, const struct wire_pkt *k, uint8_t *nak_out)
{
	if (k->hdrs & WIRE_H_FIRST) {
		q->wr_va = k->va;
		q->wr_rkey = k->rkey;
		q->wr_left = q->wr_len = k->dma_len;
	}
	/* More or fewer bytes than the RETH announced. */
	*nak_out = WIRE_NAK_INV_REQ;
	if (k->payload_len > q->wr_left ||
	    ((k->hdrs & WIRE_H_LAST) && k->payload_len != q->wr_left))
		return false;
	/* The key, its range, or the right of the QP or the region. */
	*nak_out = WIRE_NAK_ACCESS;
	if (k->payload_len) {
		const struct hca_mr *mr = hca_mr_get(q->nd->dev, q->wr_rkey);
		uint8_t *to = mr && (q->qp->attr.access & IB_UVERBS_ACCESS_REMOTE_WRITE)
				      ? hca_mr_at(mr, q->qp->pd, q->wr_va, q->wr_left,
						  IB_UVERBS_ACCESS_REMOTE_WRITE)
				      : NULL;

		if (!to)
			return false;
		if (spw_unlikely(q->adv_writes != NULL))
			adv_write(q, to, k->payload, k->payload_len, k->hdrs & WIRE_H_FIRST);
		else
			resp_place(q->nd, to, k->payload, k->payload_len);
	}
	q->wr_va += k->payload_len;
	q->wr_left -= k->payload_len;
	return true;
}
