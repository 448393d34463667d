/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC's own state. Everything here is touched under the device lock only, by the NIC thread or by
 * a nic_* call of the control path.
 *
 *   nic_thread.c, nic_pace.h  the thread; spin or nap   nic_dev.c  a device's round: doorbells, timers, clock
 *   sq.c          fetching and checking send WQEs      rq.c       receive WQEs: RQ, SRQ, scatter
 *   rx.c, nic_tx.c  frames in and out                  neigh.c    whose MAC
 *   rc_req.c      RC requester                         rc_rsp.c   RC responder
 *   ud.c          UD and UC                            raw.c, rss.c  raw Ethernet, striding
 *   cq.c, cq_comp.c  CQEs, events, compression         nic_obj.c  create, modify, destroy
 *   fault.c, control.c, trace.c  what goes wrong on purpose, on request, and what is written down
 */
#ifndef SPW_SOFTHCA_NIC_IMPL_H
#define SPW_SOFTHCA_NIC_IMPL_H

#include <setjmp.h>

#include "softhca/cable.h"
#include "softhca/fault.h"
#include "softhca/flow.h"
#include "softhca/nic.h"
#include "softhca/trace.h"
#include "softhca/wire.h"

#define NIC_WINDOW_MAX 512u  /* RC packets in flight per QP */
#define NIC_WINDOW_MIN 8u
#define NIC_RD_MAX 16u       /* READ and atomic requests a responder holds (max_qp_rd_atom) */
#define NIC_QP_BUDGET 64u    /* frames per QP and round */
#define NIC_SGE_MAX 64u      /* a 1024-byte WQE has fewer */

struct nic_dev;
struct control;

/* ---- completion queues ------------------------------------------------------------------------------ */

enum { NIC_ARM_NONE, NIC_ARM_ANY, NIC_ARM_SOLICITED };

struct nic_comp { /* compression: cq_comp.c */
	uint32_t cnt;              /* completions of the open session; 0: none */
	uint16_t next;             /* wqe_counter of the completion that may follow */
	bool titled;               /* enhanced layout: the last CQE is a title */
	uint64_t title[8];         /* big-endian words; basic layout: of the session's first completion */
	uint64_t first[8];         /* enhanced layout: the session's first completion */
	uint64_t mini[64];
};

struct nic_cq {
	struct hca_cq *cq;
	struct nic_dev *nd;
	uint32_t pi;               /* CQEs written since creation */
	uint32_t ci_seen;          /* consumer index as last read */
	uint32_t arm_word;         /* dbrec[1] as last seen, big-endian */
	uint32_t event_pi;         /* pi when the last event was raised */
	uint8_t armed;             /* NIC_ARM_* */
	bool err;                  /* overrun: nothing is written any more */
	bool mod_listed;           /* in nd->mod_list */
	uint32_t mod_pi;           /* moderation: CQEs from here on are waited for, */
	uint64_t mod_at_ns;        /* until then; 0: it does not wait */
	struct nic_cq *mod_next;
	bool comp_dirty;           /* in nd->comp_list */
	struct nic_cq *comp_next;
	struct nic_comp *comp;     /* NULL: no compression */
};

/* A CQE being made: eight big-endian words. */
struct nic_cqe {
	uint64_t w[8];
};

/* Where the CQE of that index goes: of 128 bytes the upper half. */
SPW_INLINE uint64_t *cq_slot(const struct nic_cq *c, uint32_t pi)
{
	const struct hca_cq *cq = c->cq;

	return (uint64_t *)(cq->buf + (uint64_t)(pi & (cq->ncqe - 1)) * cq->cqe_bytes + (cq->cqe_bytes == 128 ? 64 : 0));
}

/* Bytes 0..55, then the last eight (in host order here) with one release store: whoever sees the owner bit sees the rest
 * [N5 release, pairs with the application's barrier after its ownership check]. */
SPW_INLINE void cq_store(uint64_t *slot, const uint64_t *w, uint64_t last)
{
	for (unsigned i = 0; i < 7; i++)
		spw_dma_store(&slot[i], w[i]);
	spw_thr_store_rel(&slot[7], SPW_SWAP64(last));
}

/* ---- receive queues --------------------------------------------------------------------------------- */

struct nic_sge {
	uint64_t addr;
	uint32_t len, lkey;
};

struct nic_rq {
	struct hca_rq *rq;         /* NULL: the QP has an SRQ */
	struct hca_wq *wq;         /* NULL: a QP's own */
	struct hca_srq *srq;
	struct hca_pd *pd;
	struct nic_cq *cq;
	uint32_t uidx;
	uint16_t ci, seen;         /* seen: posted, by the record as it was last read */
	/* striding (WQ) */
	bool striding;
	uint8_t two_byte_shift;
	uint32_t stride_bytes, stride_cnt, stride_at; /* stride_at: next free stride of WQE ci */
	uint32_t dropped;          /* frames lost for want of a WQE since the last CQE */
};

/* A receive WQE taken for a message. */
struct nic_rwqe {
	struct nic_sge sge[NIC_SGE_MAX];
	uint32_t sge_cnt;
	uint32_t idx;              /* for the CQE's wqe_counter */
	uint32_t at_sge, at_off;   /* next byte goes here */
};

struct nic_srq {
	struct hca_srq *srq;
	uint16_t taken, seen;      /* WQEs consumed, and posted as last read, mod 2^16 */
	uint16_t head;             /* index of the next one */
};

struct nic_wq {
	struct nic_rq rq;
};

/* ---- queue pairs ------------------------------------------------------------------------------------ */

/* A send WQE that was fetched and is not complete. */
struct nic_swr {
	uint16_t idx;              /* first WQEBB, as in the CQE */
	uint8_t opcode;            /* SPW_PRM_OP_* */
	uint8_t ds;
	uint8_t syndrome;          /* != 0: fails with this when it is the oldest */
	bool signaled, se, fence, is_rd, done;
	uint32_t imm;              /* big-endian, as in the WQE */
	uint32_t len;              /* payload bytes */
	uint32_t psn, pkts;        /* RC */
	uint32_t rd_got;           /* READ: response packets in hand */
	uint64_t raddr;
	uint32_t rkey;
	uint16_t seg_off;          /* data segments: offset in the WQE, in bytes */
};

/* Reading position in the data segments of a send WQE. */
struct nic_gather {
	uint32_t seg;              /* offset in the WQE */
	uint32_t seg_at;           /* bytes of that segment already taken */
	uint32_t at;               /* payload bytes before this position */
};

enum { NIC_RD_READ, NIC_RD_ATOMIC };
struct nic_rd { /* a READ or atomic request at the responder */
	uint8_t kind;
	uint32_t psn, pkts;
	uint64_t va;
	uint32_t rkey, len;
	uint64_t orig;             /* atomic: the answer */
};

struct nic_qp {
	struct hca_qp *qp;
	struct nic_dev *nd;
	struct nic_qp *next;       /* all of the device */
	struct nic_qp *act_next;
	bool active;
	uint8_t transport;         /* enum spw_prm_transport */
	uint32_t mtu, mtu_log2;
	struct wire_tmpl tmpl;
	bool dmac_known;
	uint8_t dgid[16];
	struct nic_cq *scq;

	/* send queue: [head, cur) sent or being sent, [cur, tail) fetched */
	uint16_t sq_pi, sq_ci;     /* WQEBBs: rung up to, fetched up to */
	uint32_t swr_head, swr_cur, swr_tail, swr_mask;
	struct nic_swr *swr;
	struct nic_gather g;       /* of swr_cur */
	uint32_t cur_pkt;          /* packets of swr_cur already sent */

	/* RC requester */
	uint32_t sq_psn;           /* of the next fetched WQE */
	uint32_t snd_psn;          /* next to send (goes back on a retry) */
	uint32_t una_psn;          /* oldest not acknowledged */
	uint32_t max_psn;          /* highest ever sent + 1 */
	uint32_t window;
	uint32_t rd_out;           /* READs and atomics in flight */
	uint8_t retries, rnr_retries;
	bool rnr_wait, nak_seen;
	uint64_t deadline_ns;      /* 0: no timer */

	/* RC and UC responder */
	uint32_t epsn, msn;
	uint16_t msg;              /* WIRE_H_SEND or WIRE_H_WRITE while a message is open, else 0 */
	struct nic_rwqe rwqe;      /* of an open SEND */
	uint32_t msg_len;
	uint64_t wr_va;
	uint32_t wr_rkey, wr_left, wr_len;
	bool comm_est;             /* the event has been raised */
	bool nak_sent, ack_pending, nak_pending;
	uint8_t nak_syndrome;
	uint32_t ack_psn, nak_psn;
	struct nic_rd rd[NIC_RD_MAX]; /* ring; [rd_head, rd_tail) to be answered */
	uint32_t rd_head, rd_tail;
	uint32_t rd_sent;          /* response packets of rd[rd_head] that went out */
	struct nic_rd done[NIC_RD_MAX]; /* atomics of late, for duplicates */
	uint32_t done_cnt;
	bool rwqe_held;            /* UC: a WQE whose message was lost serves the next one */
	uint8_t ud_av[SPW_ALIGN_UP(40, 8)]; /* UD: what tmpl was made from */
	uint32_t (*rss_tbl)[16];   /* RSS: Toeplitz by input nibble */
	uint64_t held_ns;          /* a frame waits for room in the CQ since */

	struct nic_rq rq;
	bool rq_flushing;
	uint16_t flush_pi;
};

/* ---- the device ------------------------------------------------------------------------------------- */

#define NIC_UAR_MAX 4096u
#define NIC_NEIGH_MAX 64u

struct nic_neigh {
	uint8_t gid[16], mac[6];
	bool known;
	uint64_t asked_ns;
};

struct nic_dev {
	struct hca_dev *dev;
	struct nic_dev *next;      /* of the thread */
	struct cable *cable;
	struct fault *fault;       /* never NULL */
	struct spw_pcapng *trace;       /* NULL: off */
	bool started, icrc_always;
	uint64_t now_ns;           /* nic_now_ns() at the start of the round */
	uint64_t stamp;            /* NIC clock of what is being worked on */
	int64_t clock_offset;
	double clock_ppm;
	uint64_t clock_base_ns;
	struct hca_uar *uar[NIC_UAR_MAX];
	uint32_t uar_cnt;
	struct nic_qp *qps;
	struct nic_qp *act_head, **act_tail;
	struct nic_cq *comp_list, *mod_list;
	uint64_t timer_ns;         /* earliest deadline of any QP, or of a CQ's moderation */
	uint64_t tick_ns, clock_ns, flush_ns, attach_ns;
	uint32_t tx_batch;         /* frames since the last flush inside a round */
	uint32_t rx_at;            /* frame of the burst at work; UINT32_MAX: none */
	uint32_t gone_cnt;
	struct control *control;
	uint32_t rx_credit;        /* hold and release: frames that may still be taken; UINT32_MAX: all */
	struct nic_neigh neigh[NIC_NEIGH_MAX];
	uint32_t neigh_cnt;
	struct nic_qp *cur;        /* for the memory guard */
	struct nic_rq *cur_rq;     /* of raw frames; may be a WQ's */
	bool cur_rx;               /* what the peer asked for, not what was posted here */
};

#define NIC_CNT(nd, name) spw_thr_count(&(nd)->dev->cnt.name, 1u)
#define NIC_CNT_ADD(nd, name, v) spw_thr_count(&(nd)->dev->cnt.name, (v))

/* nic_thread.c */
void nic_activate(struct nic_qp *q);
void nic_timer_at(struct nic_dev *nd, uint64_t at_ns);
uint32_t nic_round(struct nic_dev *nd);
uint64_t nic_now_ns(void);

/* nic_tx.c: every frame leaves through these. NULL: no room now. */
uint8_t *nic_tx_reserve(struct nic_dev *nd, const uint8_t *dmac, uint32_t len, uint32_t qpn);
void nic_tx_commit(struct nic_dev *nd, uint8_t *frame, uint32_t len, bool roce, uint32_t l3_off, bool ipv6,
		   uint32_t payload);

/* cq.c */
void cq_start(struct nic_cqe *e);
/* Puts one CQE; overrun ends the CQ. se: solicited, which decides about events; step: by how much the next completion's
 * wqe_counter is larger, 0: it must not be compressed. */
void cq_put(struct nic_cq *c, struct nic_cqe *e, uint8_t opcode, bool se, uint32_t step);
void cq_put_req(struct nic_qp *q, const struct nic_swr *w);
void cq_put_req_err(struct nic_qp *q, uint16_t idx, uint8_t opcode, uint8_t syndrome, uint8_t vendor);
/* A receive WQE of a QP (qpn) or of a WQ (0) that failed or was flushed. */
void cq_put_rq_err(struct nic_dev *nd, struct nic_rq *r, uint32_t qpn, uint32_t wqe_counter, uint8_t syndrome);
bool cq_full(struct nic_cq *c);
void cq_overrun(struct nic_cq *c);
void cq_arm_scan(struct hca_uar *uar);
void cq_comp_flush(struct nic_cq *c);
void cq_comp_flush_all(struct nic_dev *nd);
void cq_comp_init(struct nic_cq *c);
void cq_comp_put(struct nic_cq *c, struct nic_cqe *e, uint32_t step);
void cq_event_check(struct nic_cq *c, bool se);
void cq_mod_timers(struct nic_dev *nd);

/* rq.c */
enum rq_verdict { RQ_OK, RQ_EMPTY, RQ_BAD };
enum rq_verdict rq_take(struct nic_rq *r, struct nic_rwqe *w_out);
uint16_t rq_posted(const struct nic_rq *r);
/* The same by the record as it was last read, as long as that leaves something: the application writes its line for every
 * WQE that it posts, and each look takes the line away from it. More than the ring holds: nonsense. */
uint16_t rq_room(struct nic_rq *r);
/* Copies to where the WQE's next bytes go. Returns 0 or a syndrome. */
uint8_t rq_scatter(struct nic_dev *nd, struct nic_rq *r, struct nic_rwqe *w, const uint8_t *data, uint32_t len);
void rq_flush(struct nic_dev *nd, struct nic_rq *r, uint32_t qpn);

/* sq.c */
/* Fetches WQEs that were rung, as long as there is room; false: none could be. */
bool sq_fetch(struct nic_qp *q);
SPW_INLINE uint8_t *sq_bytes(const struct nic_qp *q, uint16_t idx, uint32_t off)
{
	const uint32_t ring = q->qp->sq_wqebb_cnt * SPW_PRM_WQE_BB_BYTES;

	return q->qp->sq_buf + (((uint32_t)idx * SPW_PRM_WQE_BB_BYTES + off) & (ring - 1));
}
/* Copies the next len payload bytes to out; 0 or a syndrome. */
uint8_t sq_gather(struct nic_qp *q, const struct nic_swr *w, struct nic_gather *g, uint8_t *out, uint32_t len);
/* Puts len bytes at byte `off` of a READ's or atomic's local buffer; 0 or a syndrome. */
uint8_t sq_scatter(struct nic_qp *q, const struct nic_swr *w, uint32_t off, const uint8_t *data, uint32_t len);
void sq_complete(struct nic_qp *q, struct nic_swr *w);
void sq_flush(struct nic_qp *q);
/* The oldest WQE fails: error CQE, QP to ERR (SQE for UC and UD), the rest is flushed. */
void sq_fail(struct nic_qp *q, uint8_t syndrome, uint8_t vendor);
void qp_to_err(struct nic_qp *q);
SPW_INLINE struct nic_swr *sq_swr(const struct nic_qp *q, uint32_t n)
{
	return &q->swr[n & q->swr_mask];
}

/* The transports. *_tx: as much as budget and room allow; true: more to do now. */
bool rc_req_tx(struct nic_qp *q);
bool rc_send_packet(struct nic_qp *q, struct nic_swr *w, uint8_t transport); /* shared with UC */
bool rc_rsp_tx(struct nic_qp *q);
void rc_rsp_gone(struct nic_qp *q); /* memory that a request wants is not there */
void rc_req_rx(struct nic_qp *q, const struct wire_pkt *k);
void rc_rsp_rx(struct nic_qp *q, const struct wire_pkt *k);
void rc_timer(struct nic_qp *q, uint64_t now_ns);
void rc_goback(struct nic_qp *q, uint32_t psn);
bool ud_tx(struct nic_qp *q);
void ud_rx(struct nic_qp *q, const struct wire_pkt *k);
bool uc_tx(struct nic_qp *q);
void uc_rx(struct nic_qp *q, const struct wire_pkt *k);
bool raw_tx(struct nic_qp *q);
/* false: hold the frame (the CQ looks full). */
bool raw_rx(struct nic_dev *nd, const uint8_t *frame, uint32_t len, bool roce);
void raw_rq_fail(struct nic_qp *q, struct nic_rq *r, uint32_t wqe_counter, uint8_t syndrome);
bool rss_init(struct nic_qp *q);
/* The WQ for a frame and its hash. */
struct nic_rq *rss_pick(struct nic_qp *q, const struct flow_key *key, uint32_t *hash_out, uint8_t *type_out);
uint32_t rss_toeplitz(const uint8_t *key, uint32_t key_bytes, const uint8_t *data, uint32_t bytes);
uint32_t csum_add(uint32_t sum, const uint8_t *p, uint32_t bytes);
uint64_t nic_stamp(struct nic_dev *nd);

/* rx.c */
bool rx_frame(struct nic_dev *nd, const struct cable_frame *f);
/* rc_rsp.c, shared with UC. */
void resp_recv_cqe(struct nic_qp *q, const struct wire_pkt *k, bool write_imm);
uint8_t resp_write(struct nic_qp *q, const struct wire_pkt *k, uint8_t *nak_out);

/* neigh.c */
void neigh_learn(struct nic_dev *nd, const uint8_t gid[16], const uint8_t mac[6]);
bool neigh_find(struct nic_dev *nd, const uint8_t gid[16], uint8_t mac_out[6]);
void neigh_arp_rx(struct nic_dev *nd, const uint8_t *frame, uint32_t len);
void qp_dmac_refresh(struct nic_qp *q);

/* nic_obj.c */
void nic_qp_reset(struct nic_qp *q);
void nic_link_set(struct nic_dev *nd, bool up);

#endif
