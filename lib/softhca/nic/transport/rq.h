/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive queues of the NIC: the ring of a QP or a WQ, or an SRQ. The application posts WQEs by
 * writing their number, mod 2^16, to the doorbell record; no register is written. Everything here
 * runs with the device lock held.
 *
 *   ring    | taken ...... | posted ............ | not posted
 *                           ^ci                   ^pi = doorbell record as last read
 *
 * The application writes the record's cache line for every WQE, and each read of it by the NIC
 * takes the line away from the application. rq_room() therefore reads it only when ci has reached
 * pi.
 */
#ifndef SPW_SOFTHCA_TRANSPORT_RQ_H
#define SPW_SOFTHCA_TRANSPORT_RQ_H

#include "softhca/hca_obj.h"

#define NIC_SGE_MAX 64u /* more than the data segments of a WQE of 1024 bytes */

struct adv_rq;
struct nic_cq;
struct nic_dev;

struct nic_sge {
	uint64_t addr;
	uint32_t len, lkey;
};

struct nic_rq {
	struct hca_rq *rq; /* NULL: the QP has an SRQ */
	struct hca_wq *wq; /* NULL: the ring belongs to a QP */
	struct hca_srq *srq;
	struct hca_pd *pd;
	struct nic_cq *cq;
	const uint8_t *wqes; /* rq->buf, or the adversary's copies of it */
	struct adv_rq *adv;  /* NULL: no adversary */
	uint32_t uidx;
	uint16_t ci, pi; /* WQEs taken, and posted by the record as last read; mod 2^16 */
	/* Striding queues (WQs only): one WQE takes many frames. */
	bool striding;
	uint8_t two_byte_shift;
	uint32_t stride_bytes, stride_cnt;
	uint32_t stride_at; /* next free stride of WQE ci */
	uint32_t dropped;   /* frames lost for want of a WQE since the last CQE */
};

/* A receive WQE that a message has taken, and the position of its next byte. */
struct nic_rwqe {
	struct nic_sge sge[NIC_SGE_MAX];
	uint32_t sge_cnt;
	uint32_t idx; /* the CQE's wqe_counter */
	uint32_t at_sge, at_off;
};

struct nic_srq {
	struct hca_srq *srq;
	uint16_t taken, pi; /* WQEs consumed, and posted as last read, mod 2^16 */
	uint16_t head;      /* index of the next WQE: the list is linked, not a ring */
	bool adv;           /* there is an adversary */
};

struct nic_wq {
	struct nic_rq rq;
};

/* RQ_BAD: the record or the SRQ's list is out of range. */
enum rq_verdict { RQ_OK, RQ_EMPTY, RQ_BAD };
/* Takes the next posted WQE and copies its data segments: the application may write them again. */
enum rq_verdict rq_take(struct nic_rq *r, struct nic_rwqe *w_out);
/* WQEs posted and not taken, by a fresh read of the record. More than the ring holds: the record is
 * out of range. */
uint16_t rq_posted(const struct nic_rq *r);
/* The same by the record as last read; reads it anew only if that leaves nothing. */
uint16_t rq_room(struct nic_rq *r);
/* Copies len bytes to the WQE's next position. Returns 0 or a syndrome. */
uint8_t rq_scatter(struct nic_dev *nd, struct nic_rq *r, struct nic_rwqe *w, const uint8_t *data,
		   uint32_t len);
/* A receive WQE of a QP (qpn) or of a WQ (0) that failed or was flushed (complete.c). */
void rq_complete_err(struct nic_dev *nd, struct nic_rq *r, uint32_t qpn, uint32_t wqe_counter,
		     uint8_t syndrome);
/* Completes everything posted with WR_FLUSH_ERR; an SRQ keeps its WQEs for its other QPs. */
void rq_flush(struct nic_dev *nd, struct nic_rq *r, uint32_t qpn);

#endif
