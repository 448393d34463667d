/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Queue pairs of the NIC and their transports. Everything here runs with the device lock held.
 *
 * Send queue. WQEBB indices (16 bits) count blocks of 64 bytes in the application's ring, WQE
 * numbers (32 bits) count fetched WQEs in swr[]:
 *
 *   WQEBBs        | fetched ................ | rung | free
 *                                             ^sq_ci ^sq_pi = doorbell record
 *   swr[]  done   | sent, not acknowledged | being sent | fetched, not sent |
 *                  ^swr_head                ^swr_cur                          ^swr_tail
 *
 * UC and UD complete a WQE as soon as it is sent, so swr_head follows swr_cur. Raw completes it
 * when the cable has been flushed (nic_tx_publish), RC when the peer acknowledges it. RC's packet
 * sequence numbers (PSN, 24 bits):
 *
 *   requester   una_psn <= snd_psn <= max_psn        responder   epsn: the PSN expected next
 *               oldest     next to   highest                     msn: messages completed
 *               not acked  send      sent + 1
 *
 * A loss sets snd_psn back to una_psn (go-back-N) and leaves max_psn where it is: answers up to
 * max_psn are valid.
 */
#ifndef SPW_SOFTHCA_TRANSPORT_QP_H
#define SPW_SOFTHCA_TRANSPORT_QP_H

#include "prm/spw_prm.h"
#include "softhca/nic/cq/cq.h"
#include "softhca/nic/dev.h"
#include "softhca/nic/port/wire.h"
#include "softhca/nic/transport/rq.h"

#define NIC_WINDOW_MAX 512u /* RC packets in flight per QP */
#define NIC_WINDOW_MIN 8u
#define NIC_RD_MAX     16u /* READ and atomic requests that a responder queues (max_qp_rd_atom) */
#define NIC_QP_BUDGET  64u /* frames per QP and round; */
#define NIC_RD_SHARE   8u  /* of answers to READs, if other QPs wait: all share a cable's ring */

struct adv_sq;
struct adv_writes;

/* A send WQE that is fetched and not complete. */
struct nic_swr {
	uint16_t idx;   /* first WQEBB, as in the CQE */
	uint8_t opcode; /* SPW_PRM_OP_* */
	uint8_t ds;
	uint8_t syndrome; /* != 0: the WQE fails with this when it is the oldest */
	bool signaled, se, fence, is_rd, done;
	uint32_t imm;       /* host order */
	uint32_t len;       /* payload bytes */
	uint32_t psn, pkts; /* RC */
	uint32_t rd_got;    /* READ: response packets received */
	uint64_t raddr;
	uint32_t rkey;
	uint16_t seg_off; /* data segments: offset in the WQE, in bytes */
};

/* Read position in the data segments of a send WQE. */
struct nic_gather {
	uint32_t seg;    /* offset of the segment in the WQE */
	uint32_t seg_at; /* bytes of that segment already taken */
	uint32_t at;     /* payload bytes before this position */
};

/* An expired timer waits for a turn of the peer's thread, then for one of this. */
enum { NIC_LATE_NOT, NIC_LATE_PEER, NIC_LATE_LOOK };

enum { NIC_RD_READ, NIC_RD_ATOMIC };
/* A READ or atomic request at the responder. */
struct nic_rd {
	uint8_t kind;
	bool again; /* it has been answered in full before */
	uint32_t psn, pkts;
	uint64_t va;
	uint32_t rkey, len;
	uint64_t orig; /* atomic: the value before it, which is the answer */
};

struct nic_qp {
	struct hca_qp *qp;
	struct nic_dev *nd;
	struct nic_qp *next; /* all QPs of the device */
	struct nic_qp *act_next;
	bool active; /* in the list of QPs with work to send */
	struct nic_qp *sent_next;
	bool sent_listed;  /* raw: in nd->sent_list */
	uint8_t transport; /* enum spw_prm_transport */
	uint32_t mtu, mtu_log2;
	struct wire_tmpl tmpl;
	bool dmac_known;
	uint8_t dgid[16];
	struct nic_cq *scq;

	/* send queue: see the picture above */
	uint16_t sq_pi, sq_ci;
	uint32_t swr_head, swr_cur, swr_tail, swr_mask;
	struct nic_swr *swr;
	struct nic_gather g; /* position in swr_cur */
	uint32_t cur_pkt;    /* packets of swr_cur already sent */

	/* RC requester (rc_req.c, rc_ack.c) */
	uint32_t sq_psn; /* PSN of the next WQE to be fetched */
	uint32_t snd_psn, una_psn, max_psn;
	uint32_t window; /* packets that may be in flight; halved on a loss */
	uint32_t rd_out; /* READs and atomics in flight */
	uint8_t retries, rnr_retries;
	bool rnr_wait;        /* after an RNR NAK nothing is sent until deadline_ns */
	bool implied_nak;     /* one go-back for the response that is missing has been done */
	uint64_t deadline_ns; /* 0: no timer */
	uint8_t late;         /* NIC_LATE_*: the timer has expired */
	uint64_t late_turns;  /* the peer's, then */

	/* RC and UC responder (rc_rsp.c, rc_rd.c, ud.c) */
	uint32_t epsn, msn;
	uint16_t msg;         /* WIRE_H_SEND or WIRE_H_WRITE while a message is open, else 0 */
	struct nic_rwqe rwqe; /* of an open SEND */
	uint32_t msg_len;
	uint64_t wr_va;
	uint32_t wr_rkey, wr_left, wr_len;
	bool comm_est;   /* COMM_EST has been raised */
	uint64_t cnp_ns; /* when the last CNP was sent */
	bool nak_sent;   /* further packets out of sequence are dropped without a NAK */
	bool ack_pending, nak_pending;
	uint8_t nak_syndrome;
	uint32_t ack_psn, nak_psn;
	struct nic_rd rd[NIC_RD_MAX]; /* ring; [rd_head, rd_tail) wait for their answer (rc_rd.c) */
	uint32_t rd_head, rd_tail;
	uint32_t rd_sent;               /* response packets of rd[rd_head] already sent */
	struct nic_rd done[NIC_RD_MAX]; /* recent atomics, whose answer a duplicate gets again */
	uint32_t done_cnt;
	bool rwqe_reuse; /* UC: the WQE of a lost message serves the next one */

	uint8_t ud_av[SPW_ALIGN_UP(40, 8)]; /* UD: the address vector that tmpl was made from */

	struct adv_sq *adv;            /* NULL: the adversary has nothing to do with this SQ */
	struct adv_writes *adv_writes; /* NULL: nor with WRITEs to this QP */
	struct nic_rq rq;
	bool rq_flushing;    /* in ERR: each round flushes what is posted from now on */
	uint8_t copy_failed; /* COPY_FAILED_*: memory of its payload is gone, */
	uint32_t copy_psn;   /* received: from this packet on */
};

/* ---- queue pairs: qp.c ---- */

/* Puts the QP at the end of the list of QPs with work to send. Idempotent. */
void qp_activate(struct nic_qp *q);
/* Takes the QP out of that list. */
void qp_deactivate(struct nic_qp *q);
/* Back to the state after creation. */
void qp_reset(struct nic_qp *q);
/* The headers of every packet to the peer, from the QP's attributes. */
void qp_path_set(struct nic_qp *q);
/* The QP goes to ERR and flushes both queues; no effect in RESET. */
void qp_to_err(struct nic_qp *q);
/* Before an RC QP goes: sends the ACK that its peer may still wait for. */
void qp_last_ack(struct nic_qp *q);

/* ---- send queue: sq.c ---- */

/* Byte `off` of the WQE that starts at WQEBB idx; the ring wraps. */
SPW_INLINE uint8_t *sq_bytes(const struct nic_qp *q, uint16_t idx, uint32_t off)
{
	const uint32_t ring = q->qp->sq_wqebb_cnt * SPW_PRM_WQE_BB_BYTES;

	return q->qp->sq_buf + (((uint32_t)idx * SPW_PRM_WQE_BB_BYTES + off) & (ring - 1));
}

SPW_INLINE struct nic_swr *sq_swr(const struct nic_qp *q, uint32_t n)
{
	return &q->swr[n & q->swr_mask];
}

/* A data segment, read once: the application may change it at any time. */
struct nic_seg {
	bool is_inline;
	uint32_t len;  /* payload bytes */
	uint32_t span; /* bytes of the WQE that it takes */
	uint32_t lkey;
	uint64_t addr;
};

SPW_INLINE struct nic_seg sq_seg(const struct nic_qp *q, const struct nic_swr *w, uint32_t off)
{
	uint8_t raw[16];
	struct nic_seg s;

	memcpy(raw, sq_bytes(q, w->idx, off), sizeof(raw));
	s.is_inline = spw_prm_wqe_data_get_inline_seg(raw);
	s.len = (uint32_t)(s.is_inline ? spw_prm_wqe_inline_get_byte_count(raw)
				       : spw_prm_wqe_data_get_byte_count(raw));
	s.span = s.is_inline ? SPW_ALIGN_UP(4 + s.len, 16u) : 16;
	s.lkey = spw_prm_wqe_data_get_lkey(raw);
	s.addr = spw_prm_wqe_data_get_addr(raw);
	return s;
}

/* Fetches and checks the next WQE that was rung. Returns false if there is none, or no room. */
bool sq_fetch(struct nic_qp *q);
/* Copies the next len payload bytes to out and advances g. Returns 0 or a syndrome. */
uint8_t sq_gather(struct nic_qp *q, const struct nic_swr *w, struct nic_gather *g, uint8_t *out,
		  uint32_t len);
/* Copies len bytes to byte `off` of the local buffer of a READ or atomic. Returns 0 or a syndrome.
 */
uint8_t sq_scatter(struct nic_qp *q, const struct nic_swr *w, uint32_t off, const uint8_t *data,
		   uint32_t len);
/* ---- completions: complete.c ---- */

/* Writes the CQE if the WQE asked for one. Advance swr_head first (cq_put says why). */
void sq_complete(struct nic_qp *q, struct nic_swr *w);
/* Raw: the frame of swr_cur is about to be committed, or it has none; the WQE completes with the
 * next nic_tx_publish(). */
void sq_sent(struct nic_qp *q);
/* Raw: the WQEs whose frames are committed complete now. */
void sq_settle(struct nic_qp *q);
/* A send WQE that failed or was flushed; counted by syndrome. */
void sq_complete_err(struct nic_qp *q, uint16_t idx, uint8_t opcode, uint8_t syndrome,
		     uint8_t vendor);

/* Completes every WQE, fetched or only rung, with WR_FLUSH_ERR; but first those that are sent. */
void sq_flush(struct nic_qp *q);
/* The oldest WQE fails: error CQE, QP to ERR (SQE for UC, UD and raw), the rest is flushed. */
void sq_fail(struct nic_qp *q, uint8_t syndrome, uint8_t vendor);
/* ---- transports ----
 * *_tx sends as much as budget and room allow and returns true if there is more to do now; *_rx
 * takes one packet that is known to be for this QP and its transport. */

bool rc_req_tx(struct nic_qp *q);
/* Sends one packet of swr_cur; UC uses it too. Returns false if the cable has no room. A bad lkey
 * puts its syndrome into the WQE. */
bool rc_send_packet(struct nic_qp *q, struct nic_swr *w, uint8_t transport);
/* Sets the send position to psn. */
void rc_seek(struct nic_qp *q, uint32_t psn);
/* Repeats everything from psn on, with half the window. */
void rc_goback(struct nic_qp *q, uint32_t psn);
/* (Re)starts the retransmission timer; stops it if nothing is in flight. */
void rc_timer_start(struct nic_qp *q);
void rc_timer(struct nic_qp *q, uint64_t now_ns); /* rc_ack.c: it may have expired */
void rc_req_rx(struct nic_qp *q, const struct wire_pkt *k);

bool rc_rsp_tx(struct nic_qp *q);
void rc_rsp_rx(struct nic_qp *q, const struct wire_pkt *k);
/* A request cannot be carried out: NAK (WIRE_NAK_*), QP to ERR. A local fault is for the caller to
 * report, in the receive CQE. */
void rc_rsp_fail(struct nic_qp *q, uint8_t syndrome);
/* The memory that a request of the peer needs is gone: the same. */
void rc_rsp_gone(struct nic_qp *q, uint8_t syndrome);
/* Sends an ACK, a NAK or, with the value before it, the answer to an atomic. Returns false if the
 * cable has no room. */
bool rc_rsp_aeth(struct nic_qp *q, uint8_t op, uint32_t psn, uint8_t syndrome, uint64_t orig);
/* A READ or atomic whose turn it is. Returns false if it is refused; else how many PSNs it takes.
 */
bool rc_rd_rx(struct nic_qp *q, const struct wire_pkt *k, uint32_t *pkts_out);
/* A READ or atomic that was carried out before. */
void rc_rd_repeat(struct nic_qp *q, const struct wire_pkt *k);
bool rc_rd_tx(struct nic_qp *q);
/* The receive completion of a SEND or a WRITE with immediate; shared with UC. */
void resp_recv_cqe(struct nic_qp *q, const struct wire_pkt *k, bool write_imm);
/* Stores payload as a card does, in the order of addresses, where programs depend on it. */
void resp_place(struct nic_dev *nd, uint8_t *to, const uint8_t *from, uint32_t bytes);
/* Writes the payload of a WRITE to memory; shared with UC. Returns false and the NAK if refused. */
uint8_t resp_write(struct nic_qp *q, const struct wire_pkt *k, uint8_t *nak_out);

bool ud_tx(struct nic_qp *q);
void ud_rx(struct nic_qp *q, const struct wire_pkt *k);
bool uc_tx(struct nic_qp *q);
void uc_rx(struct nic_qp *q, const struct wire_pkt *k);

/* ---- management datagrams (mad.c) ---- */

#define MAD_QPN 1u
/* Any packet to QP 1. */
void mad_rx(struct nic_dev *nd, const struct wire_pkt *k);

/* ---- congestion (cnp.c) ---- */

/* A packet that a switch marked: counts it, and notifies its sender. */
void cnp_marked(struct nic_dev *nd, const struct wire_pkt *k);
/* A notification for this QP. */
void cnp_rx(const struct nic_qp *q);

#endif
