/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The hooks of what is asked of the NIC beyond a card's usual behaviour. The model (nic/) includes
 * this header only; what happens behind a hook is in this folder:
 *
 *   inject_*   faults on request (fault.c, fault_frame.c), a device's set-up (inject.c)
 *   late_*     failures of a receive work queue that become known late (late.c)
 *   adv_*      the adversary (adversary.h has the table of its hooks)
 *   blueflame_check, control_*   the BlueFlame trap; the control socket
 *
 * Without any of them a hook is one test: of a field of nd->fault, which is never NULL, or of a
 * pointer that is NULL without an adversary (adv of a device, CQ, RQ or SQ, adv_writes of a QP). A
 * reader of the model may take each test as false.
 *
 * Thread: all calls with the device lock held, or before attach.
 */
#ifndef SPW_SOFTHCA_INJECT_INJECT_H
#define SPW_SOFTHCA_INJECT_INJECT_H

#include "softhca/inject/fault.h"
#include "softhca/nic/dev.h"

struct nic_swr;

/* ---- a device ---- */

/* Purpose: sets up what the device's configuration asks for, except the control socket.
 * Errors:  -ENOMEM, -EINVAL with text; nothing is left behind then. */
int inject_open(struct nic_dev *nd);
void inject_close(struct nic_dev *nd);
/* Purpose: at process exit, sends the frames that are held back. Neither allocates nor frees. */
void inject_leave(struct nic_dev *nd);

/* Purpose: the control socket of a device, at PATH, or at PATH.DEVICE.PID if another device or
 *          process has PATH. leave: at process exit, removes only its name. */
int control_open(struct nic_dev *nd, const char *path);
void control_close(struct nic_dev *nd);
void control_leave(struct nic_dev *nd);

/* ---- a round ---- */

/* The next round begins so much later (stall=). */
void inject_stall(struct nic_dev *nd) SPW_COLD;
SPW_INLINE bool inject_stalls(const struct nic_dev *nd)
{
	return spw_unlikely(nd->fault->stall_ns != 0);
}
/* Commands whose time has come (at=). */
void inject_tick(struct nic_dev *nd);
/* Frames that faults hold back and that are due. Returns how many were sent. */
SPW_INLINE uint32_t inject_frames(struct nic_dev *nd)
{
	return spw_unlikely(nd->fault->queued_cnt) ? fault_tick(nd->fault, nd->cable, nd->now_ns)
						   : 0;
}
/* All of them, due or not. */
void inject_frames_all(struct nic_dev *nd);
/* What the adversary holds back and is due. Returns how much was held back. */
uint32_t adv_round(struct nic_dev *nd);

/* ---- frames that leave ---- */

/* Frames that leave are built by inject_tx_reserve() and sent by inject_tx_commit(), in place of
 * the cable's. */
SPW_INLINE bool inject_takes_tx(const struct nic_dev *nd)
{
	return nd->fault->on;
}
SPW_INLINE uint8_t *inject_tx_reserve(struct nic_dev *nd, const uint8_t *dmac, uint32_t dqpn,
				      uint32_t len)
{
	return fault_tx_reserve(nd->fault, nd->cable, dmac, dqpn, len);
}
SPW_INLINE void inject_tx_commit(struct nic_dev *nd, const uint8_t *frame, uint32_t len)
{
	fault_tx_commit(nd->fault, nd->cable, frame, len, nd->now_ns);
}
/* Is the RoCE frame that leaves marked "congestion met"? Asked only if inject_marks(). */
SPW_INLINE bool inject_marks(const struct nic_dev *nd)
{
	return spw_unlikely(nd->fault->ecn > 0);
}
SPW_INLINE bool inject_marks_next(struct nic_dev *nd)
{
	return fault_marks(nd->fault);
}

/* ---- frames that arrive ---- */

SPW_INLINE bool inject_discards(struct nic_dev *nd)
{
	return spw_unlikely(nd->fault->discard > 0) && fault_discards(nd->fault);
}

/* ---- the port ---- */

/* While the link is down frames that leave are lost, and the model loses those that arrive. */
SPW_INLINE bool inject_link_is_down(const struct nic_dev *nd)
{
	return nd->fault->link_down;
}
SPW_INLINE void inject_rx_down(struct nic_dev *nd, uint32_t frames)
{
	nd->fault->rx_down_cnt += frames;
}
SPW_INLINE void inject_link_set(struct nic_dev *nd, bool up)
{
	fault_link_set(nd->fault, up);
}
/* Flaps the link (flap=). down_until_ns: until when it is down already. */
void inject_link_tick(struct nic_dev *nd, uint64_t down_until_ns);
/* What the port negotiated, and what it carries (link-speed=, port-rate=). 0: not asked for. */
SPW_INLINE uint32_t inject_link_mbps(const struct nic_dev *nd)
{
	return nd->fault->link_mbps;
}
SPW_INLINE uint32_t inject_port_mbps(const struct nic_dev *nd)
{
	return nd->fault->port_mbps;
}
/* Every ICRC is computed. */
SPW_INLINE bool inject_icrc(const struct nic_dev *nd)
{
	return nd->fault->icrc;
}

/* ---- queues ---- */

/* Queues that fail complete nothing of what is posted to them (flush=none). */
SPW_INLINE bool inject_no_flush(const struct nic_dev *nd)
{
	return nd->fault->no_flush;
}
/* No receive WQE is found (rnr=). */
SPW_INLINE bool inject_rnr(const struct nic_dev *nd)
{
	return nd->now_ns < nd->fault->rnr_until_ns;
}

/* A receive work queue fails in an order that faults ask for (wq-fatal=): late_wq_fails() then does
 * all of it. late_send: what is due. late_forget: the queue is reset (its CQEs do not come any
 * more) or destroyed. */
SPW_INLINE bool inject_wq_fatal(const struct nic_dev *nd)
{
	return nd->fault->wq_fatal != FAULT_WQ_PLAIN;
}
void late_wq_fails(struct nic_dev *nd, struct nic_rq *r, uint32_t wqe_counter, uint8_t syndrome);
void late_send(struct nic_dev *nd);
SPW_INLINE bool late_is_due(const struct nic_dev *nd)
{
	return spw_unlikely(nd->fault->late_cnt);
}
void late_forget(struct nic_dev *nd, const struct hca_wq *wq, bool cqes_only);

/* ---- doorbells ---- */

/* Compares the BlueFlame copy in a half, if it is one, with its WQE in memory (--trap blueflame).
 */
void blueflame_check(struct nic_dev *nd, uint64_t *half);

/* ---- the adversary: set-up. Without one these do nothing. false: there is no memory ---- */

bool adv_cq_init(struct nic_cq *c);
void adv_cq_fini(struct nic_cq *c);
bool adv_rq_init(struct nic_dev *nd, struct nic_rq *r, uint32_t number);
void adv_rq_fini(struct nic_rq *r);
bool adv_sq_init(struct nic_qp *q);
void adv_sq_fini(struct nic_qp *q);
bool adv_writes_init(struct nic_qp *q);
void adv_writes_fini(struct nic_qp *q);

/* ---- the adversary: CQEs (adversary_cq.c) ---- */

/* Takes over the CQE that goes to c->pi and stands for span entries, and its event. */
void adv_hold(struct nic_cq *c, const uint64_t *w, uint64_t last, uint32_t span, bool se);
/* Writes everything that is held back of a CQ, its open session too. */
void adv_settle(struct nic_cq *c);
uint32_t adv_session_max(struct nic_cq *c, uint32_t max, uint32_t to_end);
bool adv_stays_open(struct nic_cq *c);
bool adv_holds_one(struct nic_cq *c);
/* Fills the entries of a block of cnt at c->pi, before its minis are written. */
void adv_holes(struct nic_cq *c, const uint64_t *title, uint32_t cnt);

/* ---- the adversary: WRITEs (adversary_write.c) ---- */

/* Takes over the payload of a packet of the WRITE at work, which belongs at `to`. */
void adv_write(struct nic_qp *q, uint8_t *to, const uint8_t *from, uint32_t bytes, bool first);
/* Everything of the QP's WRITEs that is held back reaches memory now. */
void adv_writes_settle(struct nic_qp *q);

/* ---- the adversary: work queues and registers (adversary.c) ---- */

/* The QP was rung, its record is pi. true: it is taken later. */
bool adv_rung(struct nic_qp *q, uint16_t pi);
/* The SQ was reset: what was rung before is forgotten. */
void adv_sq_forget(struct nic_qp *q);
/* true: the half that was written is not there yet. */
bool adv_half_waits(struct nic_dev *nd, uint64_t *half);
/* `posted` WQEs from taken on may be fetched. Returns how many were; r->wqes has them. */
uint16_t adv_fetch(struct nic_rq *r, uint16_t taken, uint16_t posted);
void adv_srq_taken(struct hca_srq *srq, uint8_t *wqe);
/* A doorbell was taken; the WQE that it names ends before WQEBB `end`. */
void adv_doorbell(struct nic_qp *q, uint16_t end);
/* A WQE is about to be reported as completed, and all before it with it. */
void adv_wqes_done(struct nic_qp *q, const struct nic_swr *w);
bool adv_keeps_drops(struct nic_rq *r);

#endif
