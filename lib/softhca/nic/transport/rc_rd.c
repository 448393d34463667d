/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC responder: READs and atomics, the places in which they wait, and their answers.
 *
 * rc_rsp.c validates the PSN and calls rc_rd_rx() for a new request, rc_rd_repeat() for one that
 * came before, and rc_rd_tx() to answer. rd[] has max_dest_rd_atomic places, in the order of PSNs:
 *
 *   rd_head                          rd_tail
 *   | repeats: again               | first time          |
 *     answered in full before        never answered in full
 *
 *   new request, no place free   the oldest repeat gives way: a peer with so many requests after it
 *                                has its answer. No repeat there: too many are open, NAK
 *   repeat of one that waits     takes its place; what was already sent of it is sent again
 *   repeat of another            gets a place among the others, and the oldest gives way; itself if
 *                                it is the oldest
 *
 * A request and its repeats end at the same PSN: the requester may ask for the rest of a READ only.
 *
 * Source: InfiniBand Architecture Specification 1.3, 9.7.4.1.2 (responder resources), 9.7.5.1
 * (duplicates: a READ is executed again, the result of an atomic is kept).
 */
#include "softhca/inject/inject.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/transport/qp.h"

#define READ_MAX (1u << 31) /* bytes of one READ */

static struct nic_rd *rd_at(struct nic_qp *q, uint32_t n)
{
	return &q->rd[n % NIC_RD_MAX];
}

/* The PSN behind its answer. */
static uint32_t rd_end(const struct nic_rd *rd)
{
	return (rd->psn + rd->pkts) & WIRE_PSN_MASK;
}

static bool rd_is_full(const struct nic_qp *q)
{
	return q->rd_tail - q->rd_head >= SPW_MAX(q->qp->attr.max_dest_rd_atomic, 1);
}

static void rd_pop(struct nic_qp *q)
{
	q->rd_head++;
	q->rd_sent = 0;
}

/* Returns NULL if the peer has more requests open than it may. */
static struct nic_rd *rd_push(struct nic_qp *q)
{
	if (rd_is_full(q)) {
		if (!rd_at(q, q->rd_head)->again)
			return NULL;
		rd_pop(q);
	}
	return rd_at(q, q->rd_tail++);
}

/* Both must allow the access: the QP (attr.access) and the region, which also has to be of the QP's
 * PD. */
static uint8_t *rd_remote_at(struct nic_qp *q, uint32_t rkey, uint64_t va, uint64_t len,
			     uint32_t access)
{
	const struct hca_mr *mr = hca_mr_get(q->nd->dev, rkey);

	if (!mr || (q->qp->attr.access & access) != access)
		return NULL;
	return hca_mr_at(mr, q->qp->pd, va, len, access);
}

static struct nic_rd rd_read_of(const struct nic_qp *q, const struct wire_pkt *k)
{
	return (struct nic_rd){
		.kind = NIC_RD_READ,
		.psn = k->psn,
		.pkts = k->dma_len ? (k->dma_len + q->mtu - 1) >> q->mtu_log2 : 1,
		.va = k->va,
		.rkey = k->rkey,
		.len = k->dma_len,
	};
}

/* Returns 0, or the reason of a NAK. */
static uint8_t rd_read_check(struct nic_qp *q, const struct wire_pkt *k)
{
	if (k->dma_len > READ_MAX)
		return WIRE_NAK_INV_REQ;
	if (k->dma_len &&
	    !rd_remote_at(q, k->rkey, k->va, k->dma_len, IB_UVERBS_ACCESS_REMOTE_READ))
		return WIRE_NAK_ACCESS;
	return 0;
}

/* Only noted here: rc_rd_tx() reads the memory when it sends. */
static uint8_t rd_read(struct nic_qp *q, const struct wire_pkt *k)
{
	const uint8_t why = rd_read_check(q, k);
	struct nic_rd *rd;

	if (why)
		return why;
	rd = rd_push(q);
	if (!rd)
		return WIRE_NAK_INV_REQ;
	*rd = rd_read_of(q, k);
	NIC_CNT(q->nd, rx_read_requests);
	return 0;
}

/* Carried out at once, its result kept in done[]: a duplicate must get the old result again, and
 * must not be carried out again. */
static uint8_t rd_atomic(struct nic_qp *q, const struct wire_pkt *k)
{
	struct nic_rd *rd;
	uint64_t *at;

	if (k->va & 7)
		return WIRE_NAK_INV_REQ;
	at = (uint64_t *)rd_remote_at(q, k->rkey, k->va, 8, IB_UVERBS_ACCESS_REMOTE_ATOMIC);
	if (!at || ((uintptr_t)at & 7))
		return WIRE_NAK_ACCESS;
	rd = rd_push(q);
	if (!rd)
		return WIRE_NAK_INV_REQ;
	*rd = (struct nic_rd){.kind = NIC_RD_ATOMIC, .psn = k->psn, .pkts = 1};
	if (k->op == WIRE_FETCH_ADD) {
		rd->orig = spw_thr_fetch_add(at, k->swap_add);
	} else {
		rd->orig = k->compare;
		spw_thr_cas(at, &rd->orig, k->swap_add);
	}
	q->done[q->done_cnt++ % NIC_RD_MAX] = *rd;
	NIC_CNT(q->nd, rx_atomic_requests);
	return 0;
}

bool rc_rd_rx(struct nic_qp *q, const struct wire_pkt *k, uint32_t *pkts_out)
{
	uint8_t why;

	if (spw_unlikely(q->adv_writes != NULL))
		adv_writes_settle(q); /* both show what was written before them */
	why = k->op == WIRE_READ_REQ ? rd_read(q, k) : rd_atomic(q, k);
	if (spw_unlikely(why)) {
		rc_rsp_fail(q, why);
		return false;
	}
	*pkts_out = rd_at(q, q->rd_tail - 1)->pkts;
	return true;
}

/* The second half of the table at the top of the file. */
static void rd_again(struct nic_qp *q, struct nic_rd rd)
{
	uint32_t at = q->rd_tail;

	while (at != q->rd_head && wire_psn_diff(rd_end(rd_at(q, at - 1)), rd_end(&rd)) > 0)
		at--;
	if (at != q->rd_head && rd_end(rd_at(q, at - 1)) == rd_end(&rd)) {
		rd.again = rd_at(q, --at)->again;
	} else {
		if (rd_is_full(q)) {
			if (at == q->rd_head)
				return;
			rd_pop(q);
		}
		for (uint32_t n = q->rd_tail++; n != at; n--)
			*rd_at(q, n) = *rd_at(q, n - 1);
		rd.again = true;
		q->ack_pending = false; /* of what the peer repeats after this request */
	}
	*rd_at(q, at) = rd;
	if (at == q->rd_head)
		q->rd_sent = 0;
}

/* A READ that reaches beyond what was requested once is none that came before. */
void rc_rd_repeat(struct nic_qp *q, const struct wire_pkt *k)
{
	if (k->op == WIRE_READ_REQ) {
		const struct nic_rd rd = rd_read_of(q, k);

		if (!rd_read_check(q, k) && rd.pkts <= ((q->epsn - rd.psn) & WIRE_PSN_MASK))
			rd_again(q, rd);
		return;
	}
	for (uint32_t i = 0; i < SPW_MIN(q->done_cnt, NIC_RD_MAX); i++) {
		if (q->done[i].psn == k->psn) {
			rd_again(q, q->done[i]);
			return;
		}
	}
}

/* Sends one response packet; false: no room. The region is looked up for each packet: it may have
 * been deregistered. Then a new READ fails; a repeat is dropped, since its peer may long have had
 * the answer and allowed the region to go. */
static bool rd_send_packet(struct nic_qp *q, const struct nic_rd *rd)
{
	const uint32_t at = q->rd_sent << q->mtu_log2, n = SPW_MIN(rd->len - at, q->mtu);
	const bool first = q->rd_sent == 0, last = q->rd_sent + 1 == rd->pkts;
	const uint8_t op = first  ? (last ? WIRE_READ_ONLY : WIRE_READ_FIRST)
			   : last ? WIRE_READ_LAST
				  : WIRE_READ_MIDDLE;
	const uint32_t bytes = wire_frame_bytes(&q->tmpl, wire_op_ext_bytes[op], n);
	const uint8_t *from =
		n ? rd_remote_at(q, rd->rkey, rd->va + at, n, IB_UVERBS_ACCESS_REMOTE_READ) : NULL;
	uint8_t *frame, *p;

	if (n && !from) {
		if (rd->again)
			q->rd_sent = rd->pkts;
		else
			rc_rsp_gone(q, WIRE_NAK_ACCESS);
		return true;
	}
	frame = nic_tx_reserve(q->nd, q->tmpl.hdr, q->qp->attr.dest_qpn, bytes);
	if (!frame)
		return false;
	p = wire_start(&q->tmpl, frame, bytes, n,
		       (struct wire_bth){.opcode = WIRE_RC | op,
					 .dqpn = q->qp->attr.dest_qpn,
					 .psn = rd->psn + q->rd_sent});
	if (first || last) {
		spw_prm_st32(p, (uint32_t)WIRE_ACK_NO_CREDIT << 24 | q->msn);
		p += WIRE_AETH_BYTES;
	}
	if (n)
		memcpy(p, from, n);
	nic_tx_commit(q->nd, frame, bytes, true, q->tmpl.l3_off, q->tmpl.ipv6, n);
	q->rd_sent++;
	return true;
}

static bool rd_send_atomic(struct nic_qp *q, const struct nic_rd *rd)
{
	if (!rc_rsp_aeth(q, WIRE_ATOMIC_ACK, rd->psn, WIRE_ACK_NO_CREDIT, rd->orig))
		return false;
	q->rd_sent = 1;
	return true;
}

/* The budget keeps long READs from holding up the other QPs, whose peers wait for progress. */
bool rc_rd_tx(struct nic_qp *q)
{
	uint32_t budget = q->nd->act_head ? NIC_RD_SHARE : NIC_QP_BUDGET;

	for (; budget && q->rd_head != q->rd_tail; budget--) {
		const struct nic_rd *rd = rd_at(q, q->rd_head);

		if (!(rd->kind == NIC_RD_ATOMIC ? rd_send_atomic(q, rd) : rd_send_packet(q, rd)))
			return true;
		/* A READ that fails empties the ring. */
		if (q->rd_head != q->rd_tail && q->rd_sent == rd->pkts)
			rd_pop(q);
	}
	return q->rd_head != q->rd_tail;
}
