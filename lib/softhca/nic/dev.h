/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One device of the NIC model: the state that its rooms share. Everything runs with the device lock
 * held, in the NIC thread or in a nic_* call of the control path (nic.h).
 *
 *   run/        the thread, a round of a device, doorbells, objects, the end of a process
 *   eth/        received frames; raw Ethernet: queues, flow rules, RSS, what the port lets in
 *   transport/  work queues, RC, UC and UD
 *   cq/         completion queues
 *   port/       frames to and from the cable: link, rates, neighbours, wire format, clock, trace
 *   host/       what the NIC takes from the host: time, threads, a guard around memory accesses
 *
 * A room includes those below it. The few calls in the other direction are in up.h.
 */
#ifndef SPW_SOFTHCA_NIC_DEV_H
#define SPW_SOFTHCA_NIC_DEV_H

#include "base/spw_order.h"
#include "softhca/nic/nic.h"

#define NIC_UAR_MAX   4096u
#define NIC_NEIGH_MAX 64u

struct adversary;
struct cable;
struct control;
struct copier;
struct fault;
struct flow_tables;
struct nic_cq;
struct nic_qp;
struct nic_rq;
struct spw_pcapng;

/* What the application did that a card would not forgive. */
struct nic_strict {
	uint64_t qpn, index, half, copy; /* doorbells: run/doorbell.c, inject/blueflame.c */
	uint64_t cqe_reuse;              /* completions over unread ones: cq/reuse.c */
};

/* A GID and its MAC, learnt from ARP or from arriving frames. */
struct nic_neigh {
	uint8_t gid[16], mac[6];
	bool known;
	uint64_t asked_ns; /* last ARP request */
};

struct nic_dev {
	struct hca_dev *dev;
	struct nic_dev *next; /* devices of the NIC thread */
	struct cable *cable;
	struct fault *fault;      /* never NULL */
	struct spw_pcapng *trace; /* NULL: off */
	struct adversary *adv;    /* NULL: none */
	struct copier *copier;    /* in this round; NULL: the NIC thread copies all payload */
	bool copy_failed;         /* of a QP of the device */
	bool started;
	bool icrc_always; /* somebody checks or shows it; else it is made only for faults */
	uint64_t now_ns;  /* nic_now_ns() at the start of the round, refreshed by nic_stamp() */
	uint64_t stamp;   /* NIC clock for the CQEs being written */
	uint32_t clock_khz;
	uint64_t clock_mask;
	int64_t clock_offset;
	double clock_ppm;
	uint64_t clock_base_ns;
	struct hca_uar *uar[NIC_UAR_MAX];
	uint32_t uar_cnt;
	struct flow_tables *flows;           /* eth/table.c; NULL: none yet */
	uint32_t flow_cnt;                   /* rules in them */
	struct nic_qp *qps;                  /* all, by next */
	struct nic_qp *act_head, **act_tail; /* QPs with work to send, by act_next */
	struct nic_qp *sent_list;            /* raw QPs with frames not flushed yet, by sent_next */
	struct nic_cq *comp_list, *mod_list; /* CQs with an open session; with a delayed event */
	uint64_t timer_ns;                   /* earliest deadline of any QP or delayed event */
	uint64_t tick_ns, clock_ns, flush_ns; /* last time of each periodic job */
	uint64_t attach_ns;
	uint32_t tx_left;  /* frames until the next cable flush within a round */
	uint32_t rx_at;    /* index in the burst of the frame being received; UINT32_MAX: none */
	uint32_t gone_cnt; /* accesses to unmapped rings or records */
	uint32_t
		rx_credit; /* hold and release: frames that may be received; UINT32_MAX: no limit */
	enum hca_accept accept;    /* l2.c */
	bool has_halves;           /* chip_has_halves() */
	bool tx_paused, rx_paused; /* waiting for the other end, for our own links */
	bool tx_no_room;           /* a frame of this round has to wait */
	bool rx_more;              /* the last burst was full */
	struct control *control;
	struct nic_strict strict;
	struct nic_neigh neigh[NIC_NEIGH_MAX];
	uint32_t neigh_cnt;
	uint32_t mad_psn;     /* of QP 1 */
	bool conflict_logged; /* another NIC on the cable has an address of this one */
	uint64_t too_long;    /* frames above the MTU that were to be sent */
	/* For nic_memory_gone: who is at work. */
	struct nic_qp *cur;
	struct nic_rq *cur_rq; /* receive queue of a raw frame: the QP's or a WQ's */
	bool cur_rx;           /* cur works for its peer, not on a WQE of its own */
};

#define NIC_CNT(nd, name)        spw_thr_count(&(nd)->dev->cnt.name, 1u)
#define NIC_CNT_ADD(nd, name, v) spw_thr_count(&(nd)->dev->cnt.name, (v))

/* The round at or after at_ns runs all timers. */
SPW_INLINE void nic_timer_at(struct nic_dev *nd, uint64_t at_ns)
{
	if (at_ns < nd->timer_ns)
		nd->timer_ns = at_ns;
}

#endif
