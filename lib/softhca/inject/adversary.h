/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The adversary (--adversary): what a card may do, at times of its own choice, and this NIC by
 * itself does not. The words are in hca_adversary.h. All of it happens between the NIC and the
 * application's memory; frames on the cable are those of a NIC without an adversary.
 *
 * Where the model asks it (inject.h declares these hooks):
 *
 *   cq/cq.c                 cq_write             adv_hold           late-cqe early-bytes mixed
 *   cq/comp.c               comp_session_max     adv_session_max    sessions
 *                           comp_flush_basic     adv_holes          holes
 *                           comp_flush_enhanced  adv_holds_one      sessions
 *                           cq_comp_flush_all    adv_stays_open     sessions
 *   run/doorbell.c          uar_rung             adv_rung           late-wqe
 *                           half_take            adv_half_waits     pieces
 *                           value_rings          adv_doorbell       poison
 *   transport/rq.c          rq_room_read         adv_fetch          prefetch poison
 *                           rq_srq_take          adv_srq_taken      poison
 *   transport/complete.c    sq_cqe_put           adv_wqes_done      poison
 *   eth/raw.c               raw_cqe              adv_keeps_drops    late-drops
 *   transport/resp_write.c  resp_write           adv_write          split-writes late-writes
 *   transport/rc_rsp.c      resp_recv_cqe        adv_writes_settle  what IBA promises of WRITEs
 *   transport/rc_rd.c       rc_rd_rx             adv_writes_settle
 *   run/dev.c               nic_round            adv_round          what is due
 *   run/obj.c               reset, destroy       adv_settle         a card has written all CQEs of
 *                                                                   a queue before it answers its
 *                                                                   reset
 *
 * Times are counted in rounds of the NIC thread, 0.1 to 1 us each while it works. What is held back
 * counts as work, so the thread does not nap on it, but for WRITEs. Each queue (CQ, SQ, RQ,
 * register page) has random numbers of its own, from the seed and its number: the n-th CQE of a CQ
 * meets the same fate in each run, whatever the threads do.
 *
 * Thread: all calls with the device lock held.
 */
#ifndef SPW_SOFTHCA_INJECT_ADVERSARY_H
#define SPW_SOFTHCA_INJECT_ADVERSARY_H

#include "softhca/hca_adversary.h"
#include "softhca/inject/inject.h"

struct adversary {
	uint64_t seed;
	uint32_t what;
	uint64_t round;      /* number of the present round */
	uint32_t halves;     /* register halves that were left waiting in this round */
	uint64_t bf_rng;     /* register pages share it: which one is polled first is fixed */
	struct adv_cq *held; /* CQs, all of them, by next */
};

/* NULL: there is no memory. */
struct adversary *adv_open(const struct hca_adversary *conf, uint32_t dev_idx);
void adv_close(struct adversary *adv);

/* What is due of a device's CQEs, and of a QP's WRITEs. WRITEs that are not due are no work: the
 * thread may nap on them, so that whoever polls for them where cores are few gets one. */
uint32_t adv_cqes_due(struct adversary *adv);
void adv_writes_due(struct nic_qp *q);

/* ---- random numbers ---- */

enum { ADV_CQ = 1, ADV_SQ, ADV_RQ, ADV_SRQ, ADV_BF, ADV_WRITES };

/* The start of a queue's numbers. */
uint64_t adv_seed(const struct adversary *adv, uint32_t kind, uint32_t number);

/* splitmix64 (Steele, Lea, Flood 2014) */
SPW_INLINE uint64_t adv_random(uint64_t *rng)
{
	uint64_t z = (*rng += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* How many rounds something takes: none half of the time, else 1 to 2, 4, ... 512. */
SPW_INLINE uint32_t adv_rounds(uint64_t *rng)
{
	const uint64_t r = adv_random(rng);

	return r & 1 ? 1u + (uint32_t)(r >> 8 & ((2u << (r >> 4 & 7) * (r >> 2 & 1)) - 1)) : 0;
}

#endif
