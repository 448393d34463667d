/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One device of the NIC model, and what its files share. cq.h, rq.h and qp.h hold the objects.
 * Everything runs with the device lock held, in the NIC thread or in a nic_* call of the control
 * path.
 *
 *   run/        the thread (thread.c, pace.h), a round of a device (dev.c), doorbells, objects,
 * exit eth/        rx.c: every received frame; raw.c, raw_tx.c, rss.c, flow.c, l2.c: raw Ethernet
 *   transport/  sq.c, rq.c: WQEs; rc_req.c, rc_ack.c: RC requester; rc_rsp.c, rc_rd.c: RC
 * responder; ud.c: UD and UC; resp_write.c: WRITEs of RC and UC; cnp.c; copy.c: large payloads cq/
 * cq.c, comp.c, reuse.c: CQEs port/       tx.c, link.c, rate.c, neigh.c, wire.c, clock.c; trace.c,
 * trail.c: what happened
 *   ../inject/  faults on request, late events, the adversary, the BlueFlame trap, the control
 * socket
 */
#ifndef SPW_SOFTHCA_NIC_IMPL_H
#define SPW_SOFTHCA_NIC_IMPL_H

#include <setjmp.h>

#include "softhca/cable/cable.h"
#include "softhca/nic/transport/copy.h"
#include "softhca/nic/cq/cq.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/eth/flow.h"
#include "softhca/nic/nic.h"
#include "softhca/nic/transport/qp.h"
#include "softhca/nic/transport/rq.h"
#include "softhca/nic/port/trace.h"
#include "softhca/nic/port/wire.h"

#define NIC_UAR_MAX   4096u
#define NIC_NEIGH_MAX 64u

struct adversary;
struct control;
struct fault;

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
	bool conflict_logged; /* another NIC on the cable has an address of this one */
	uint64_t too_long;    /* frames above the MTU that were to be sent */
	/* For nic_memory_gone: who is at work. */
	struct nic_qp *cur;
	struct nic_rq *cur_rq; /* receive queue of a raw frame: the QP's or a WQ's */
	bool cur_rx;           /* cur works for its peer, not on a WQE of its own */
};

#define NIC_CNT(nd, name)        spw_thr_count(&(nd)->dev->cnt.name, 1u)
#define NIC_CNT_ADD(nd, name, v) spw_thr_count(&(nd)->dev->cnt.name, (v))

/* ---- time ---- */

/* The host's raw monotonic clock. */
uint64_t nic_now_ns(void);
/* Sets stamp to the NIC's clock at now_ns, and returns it. */
uint64_t nic_stamp_set(struct nic_dev *nd);
/* The same, after reading the host's clock into now_ns. */
uint64_t nic_stamp(struct nic_dev *nd);
/* Updates the pages of the clock that applications map. */
void nic_clock_publish(struct nic_dev *nd);
/* The round at or after at_ns runs all timers. */
void nic_timer_at(struct nic_dev *nd, uint64_t at_ns);

/* ---- rounds: run/dev.c ---- */

/* One round of work. Returns how much was done; 0: idle. */
uint32_t nic_round(struct nic_dev *nd);
/* Puts the QP at the end of the list of QPs with work to send. Idempotent. */
void nic_activate(struct nic_qp *q);

/* ---- the link: port/link.c ---- */

/* The state in which a port comes to its cable: no event. */
void nic_link_begin(struct nic_dev *nd);
/* Takes the port down until then, for all functions that share it. */
void nic_link_fail(struct nic_dev *nd, uint64_t until_ns);
/* What became due: the end of a time down, the next flap, a change of the cable's carrier. */
void nic_link_tick(struct nic_dev *nd);

/* ---- doorbells: run/doorbell.c ---- */

/* Takes what was written to the register pages. Returns how many pages were rung. */
uint32_t nic_doorbells(struct nic_dev *nd);
/* The producer index in the SQ's doorbell record. [N6] */
uint16_t nic_sq_record(const struct hca_qp *qp);
/* At detach: logs one line if any doorbell was wrong. */
void nic_doorbells_report(const struct nic_dev *nd);
/* Before a QP is reset or destroyed: drops its doorbells that have not been taken. */
void nic_doorbells_forget(struct nic_qp *q);

/* ---- frames ---- */

/* Of a port: its MTU, an Ethernet header and a VLAN tag; cables carry no FCS. Source: Linux
 * mlx5/core/en.h (MLX5E_ETH_HARD_MTU). */
SPW_INLINE uint32_t nic_frame_max(const struct nic_dev *nd)
{
	return nd->dev->mtu_bytes + WIRE_ETH_BYTES + WIRE_VLAN_BYTES;
}

/* Every frame leaves by reserve, write, commit. Returns NULL if the cable has no room now. */
uint8_t *nic_tx_reserve(struct nic_dev *nd, const uint8_t *dmac, uint32_t len);
/* roce: pad and ICRC are written here; l3_off, ipv6 and payload (bytes) describe the frame. */
void nic_tx_commit(struct nic_dev *nd, uint8_t *frame, uint32_t len, bool roce, uint32_t l3_off,
		   bool ipv6, uint32_t payload);
/* A card drops a frame above its port's MTU, completes it as sent and reports nothing: counts it,
 * and says so once. Source: NVIDIA/daqiri issue 197. */
void nic_tx_too_long(struct nic_dev *nd, uint32_t len);
/* Passes what was committed to the cable. */
void nic_tx_flush(struct nic_dev *nd);
/* The same; then the raw WQEs whose frames these were complete, stamped now. */
void nic_tx_publish(struct nic_dev *nd);
/* Raw: the frame of swr_cur is about to be committed, or it has none; the WQE completes with the
 * next nic_tx_publish(). */
void nic_tx_sent(struct nic_qp *q);
/* Copies payload, now or by the end of the round (copy.h). */
SPW_INLINE void nic_copy(struct nic_dev *nd, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (spw_likely(!nd->copier) || !copy_list(nd->copier, to, from, bytes))
		memcpy(to, from, bytes);
}
/* Returns false if the frame must be offered again (raw_steer). */
bool rx_frame(struct nic_dev *nd, const struct cable_frame *f);
/* Counts a frame that reached the port and gets no further. */
void rx_discard(struct nic_dev *nd, const struct cable_frame *f);

/* ---- what a port lets in: l2.c ---- */

/* At attach and every tick: reads the flags of the interface. */
void l2_refresh(struct nic_dev *nd);
/* Does a frame of these addresses reach the flow rules? */
bool l2_accepts(const struct nic_dev *nd, const uint8_t *frame);
/* A raw frame was sent: the function's other contexts may get it too. */
void l2_loop(struct nic_qp *q, const uint8_t *frame, uint32_t len);

/* ---- rates, and the switch inside the card: rate.c ---- */

/* From configuration and faults: the speed and the rates of this function's port and PCIe link. */
void rate_setup(struct nic_dev *nd);
/* May another frame pass now? way: HCA_TX, HCA_RX; on_chip: not over the wire. */
bool rate_has_room(const struct nic_dev *nd, uint32_t way, bool on_chip);
/* Returns: false: it did pass the port, but it is lost there (pause=off). */
bool rate_book(const struct nic_dev *nd, uint32_t way, bool on_chip, uint32_t bytes);
/* Is any rate enforced on the card? Asked for each frame. */
SPW_INLINE bool chip_is_paced(const struct nic_dev *nd)
{
	return spw_thr_load_rlx(&nd->dev->chip->paced);
}
/* Is its port shared with another function of the card? */
bool chip_has_halves(const struct nic_dev *nd);
/* Is this the MAC, or the port of the cable, of another function of the same physical port? */
bool chip_has_mac(const struct nic_dev *nd, const uint8_t *mac);
bool chip_has_cable_port(const struct nic_dev *nd, uint32_t from);

/* ---- neighbours: neigh.c ---- */

/* Notes the MAC of a GID; QPs that were waiting for it get it. */
void neigh_learn(struct nic_dev *nd, const uint8_t gid[16], const uint8_t mac[6]);
bool neigh_find(struct nic_dev *nd, const uint8_t gid[16], uint8_t mac_out[6]);
/* Any received frame: answers ARP requests, learns from all ARP packets for this NIC. */
void neigh_arp_rx(struct nic_dev *nd, const uint8_t *frame, uint32_t len);

#endif
