/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Completion queues of the NIC. Everything here runs with the device lock held.
 *
 * The path of a CQE:
 *
 *   transport (rc_*, ud, raw)          cq.c                             application (libmlx5)
 *   cq_start, spw_prm_cqe64_set_*  ->  cq_put: overrun? trace
 *                                        no compression: cq_store   ->  owner bit, then the rest
 *                                        compression: cq_comp_put       (its barrier pairs with N5)
 *                                          ... end of the round:
 *                                          cq_comp_flush            ->  title and mini-CQEs
 *                                      cq_event_check               ->  completion event, if armed
 *   dbrec[0], consumer index       <-  read only if the ring looks full
 *   dbrec[1], arm word             <-  cq_arm_scan, after a write to the page's arm register
 */
#ifndef SPW_SOFTHCA_CQ_CQ_H
#define SPW_SOFTHCA_CQ_CQ_H

#include "prm/spw_prm.h"
#include "softhca/hca_obj.h"

#define NIC_CQ_INDEX_MASK 0xffffffu /* consumer indices in doorbell records have 24 bits */

struct nic_dev;
struct nic_rq;

enum { NIC_ARM_NONE, NIC_ARM_ANY, NIC_ARM_SOLICITED };

/* A compression session (cq/comp.c). */
struct nic_comp {
	uint32_t cnt;      /* completions in the open session; 0: no session is open */
	uint32_t max;      /* that the open session may have */
	uint16_t next;     /* wqe_counter that the next completion needs to join */
	bool titled;       /* enhanced layout: the last CQE is a title */
	uint64_t title[8]; /* big-endian words; basic layout: the session's first completion */
	uint64_t first[8]; /* enhanced layout: the session's first completion */
	uint64_t mini[64];
};

struct nic_cq {
	struct hca_cq *cq;
	struct nic_dev *nd;
	uint32_t pi;        /* producer index: CQEs written since creation */
	uint32_t ci_read;   /* consumer index as last read from dbrec[0] */
	uint32_t arm_word;  /* dbrec[1] as last read, big-endian */
	uint32_t event_pi;  /* pi when the last event was raised */
	uint8_t armed;      /* NIC_ARM_* */
	bool err;           /* overrun: no CQE is written any more */
	bool mod_listed;    /* in nd->mod_list */
	uint32_t mod_pi;    /* moderation: first CQE that the delayed event reports, */
	uint64_t mod_at_ns; /* and when it is raised at the latest; 0: no event is delayed */
	struct nic_cq *mod_next;
	bool comp_dirty; /* in nd->comp_list: a session may be open */
	struct nic_cq *comp_next;
	struct nic_comp *comp;  /* NULL: no compression */
	struct nic_cq_use *use; /* what each slot holds; NULL: overruns are not ignored */
	struct adv_cq *adv;     /* NULL: no adversary */
	uint32_t held;          /* the last entries before pi that the adversary holds back */
};

/* A CQE under construction: eight big-endian words. */
struct nic_cqe {
	uint64_t w[8];
};

/* Address of the CQE with index pi. A slot of 128 bytes holds its CQE in the upper half. */
SPW_INLINE uint64_t *cq_slot(const struct nic_cq *c, uint32_t pi)
{
	const struct hca_cq *cq = c->cq;

	return (uint64_t *)(cq->buf + (uint64_t)(pi & (cq->ncqe - 1)) * cq->cqe_bytes +
			    (cq->cqe_bytes == 128 ? 64 : 0));
}

/* Writes bytes 0..55, then the last eight (`last` is in host order) with one release store: a
 * reader that finds the owner bit finds the rest [N5 release, pairs with the application's barrier
 * after its ownership check]. */
SPW_INLINE void cq_store(uint64_t *slot, const uint64_t *w, uint64_t last)
{
	for (unsigned i = 0; i < 7; i++)
		spw_dma_store(&slot[i], w[i]);
	spw_thr_store_rel(&slot[7], SPW_SWAP64(last));
}

/* Clears a CQE before its fields are set. */
void cq_start(struct nic_cqe *e);
/* Writes one CQE; the caller has set every field but opcode, format, se and owner. se: solicited,
 * which decides about events. step: how much larger the next completion's wqe_counter is; 0: this
 * CQE must not be compressed. On a full ring the CQ goes to error (cq_overrun), which may flush the
 * queue that is just being completed: advance its indices before the call. */
void cq_put(struct nic_cq *c, struct nic_cqe *e, uint8_t opcode, bool se, uint32_t step);
/* The CQE that goes to pi and stands for `span` entries: to memory, with its event. `last` as for
 * cq_store. se: as for cq_event_check. */
void cq_publish(struct nic_cq *c, const uint64_t *w, uint64_t last, uint32_t span, bool se);
/* By the consumer index that the application last published. */
bool cq_full(struct nic_cq *c);
/* The CQ goes to error: CQ_ERR event, and every QP that completes to it goes to ERR. Idempotent. */
void cq_overrun(struct nic_cq *c);
/* Arms the CQs of the page whose arm word changed. */
void cq_arm_scan(struct hca_uar *uar);
/* Raises an event if the CQ is armed for it and moderation does not delay it. */
void cq_event_check(struct nic_cq *c, bool se);
/* Raises the delayed events that are due. */
void cq_mod_timers(struct nic_dev *nd);

/* cq/comp.c: cq_put hands a completion over to a session, a flush writes it out. */
void cq_comp_init(struct nic_cq *c);
void cq_comp_put(struct nic_cq *c, struct nic_cqe *e, uint32_t step);
void cq_comp_flush(struct nic_cq *c);
void cq_comp_flush_all(struct nic_dev *nd); /* at the end of each round */

/* cq/reuse.c: counts completions that are written over unread ones where overruns are ignored. */
bool cq_reuse_init(struct nic_cq *c); /* false: no memory */
void cq_reuse_fini(struct nic_cq *c);
/* Before cq_put(): the completion is of receive WQE `wqe` of r; r NULL: of a send WQE. */
void cq_reuse_track(struct nic_cq *c, struct nic_rq *r, uint16_t wqe);
SPW_INLINE void cq_reuse_check(struct nic_cq *c, struct nic_rq *r, uint16_t wqe)
{
	if (spw_unlikely(c->use != NULL))
		cq_reuse_track(c, r, wqe);
}
/* The completions of two entries that were not written yet change places. */
void cq_reuse_swap(struct nic_cq *c, uint32_t a, uint32_t b);
/* The queue is reset or destroyed: its completions do not count any more. */
void cq_reuse_forget(const struct nic_rq *r);

#endif
