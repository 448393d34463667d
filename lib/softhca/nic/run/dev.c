/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One device: attach and detach, and one round of work. The NIC thread calls nic_round()
 * for each of its devices, with the device lock held:
 *
 *   nic_clock_publish   clock pages, first: they are as exact as they are fresh
 *   nic_doorbells       WQEs that were posted; QPs with work join the active list
 *   round_receive       a burst from the cable: RoCE to its QP, the rest by the steering rules
 *   cm_round            what the connection manager has to send
 *   round_transmit      each active QP once, NIC_QP_BUDGET frames at most
 *   round_timers        retransmission, RNR and moderation, if the earliest is due
 *   round_flush_errors  every 0.1 ms: receive WQEs posted to QPs in ERR, what a fault delayed
 *   round_tick          every 20 ms: dead peers, faults at their time, the link, the trace file,
 *                       resends of the connection manager
 *   cq_comp_flush_all   open compression sessions
 *   adv_round           what the adversary held back and is due now
 *   nic_tx_publish      now the peer gets the frames
 *
 * What to know before changing it: an access to memory that the application unmapped leaves a round
 * by longjmp (host/guard.c) and continues in nic_memory_gone(). So a round owns no memory and no
 * locks, lists are consistent at every access to the application's memory, and cur,
 * cur_rq and cur_rx name who is at work.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "softhca/cm/cm.h"
#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/eth/eth.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/port/trace.h"
#include "softhca/nic/port/trail.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/copy.h"
#include "softhca/nic/up.h"

#define TICK_NS     20000000ull
#define FLUSH_NS    100000ull    /* between polls of the receive queues of QPs in ERR */
#define LEAVE_NS    100000000ull /* from unplugged to removed */
#define STAMP_EVERY 16u          /* received frames per read of the clock */

/* ---- scheduling ---- */

/* SQD: when the last started WQE has completed, the application gets its event. */
static void round_drain_check(struct nic_qp *q)
{
	struct hca_qp *qp = q->qp;

	if (qp->state != HCA_QPS_SQD || !qp->sq_draining || q->swr_head != q->swr_cur || q->cur_pkt)
		return;
	qp->sq_draining = false;
	if (qp->attr.sqd_notify)
		hca_event_qp(qp, HCA_EVENT_SQ_DRAINED);
}

/* Responses first: they free the peer's window. True: there is more to send. */
static bool round_qp_tx(struct nic_qp *q)
{
	const uint8_t state = q->qp->state;
	bool more = false;

	q->nd->cur_rx = true;
	if (q->transport == SPW_PRM_RC && (state >= HCA_QPS_RTR))
		more = rc_rsp_tx(q);
	q->nd->cur_rx = false;
	if (state == HCA_QPS_ERR || state == HCA_QPS_SQE) {
		sq_flush(q);
		return more;
	}
	if (state < HCA_QPS_RTS || !q->swr)
		return more;
	switch (q->transport) {
	case SPW_PRM_RC:
		more |= rc_req_tx(q);
		break;
	case SPW_PRM_UC:
		more |= uc_tx(q);
		break;
	case SPW_PRM_UD:
		more |= ud_tx(q);
		break;
	default:
		more |= raw_tx(q);
		break;
	}
	round_drain_check(q);
	return more;
}

/* Takes the first QP off the list before it works, so that a fault finds the list whole. */
static struct nic_qp *round_next_qp(struct nic_dev *nd)
{
	struct nic_qp *q = nd->act_head;

	nd->act_head = q->act_next;
	if (!nd->act_head)
		nd->act_tail = &nd->act_head;
	q->active = false;
	return q;
}

/* Each QP that has work, once; up to one that finds no room, so that the next round begins behind
 * it and no QP waits for all that those before it have to send. The others stay in the list
 * meanwhile: the memory guard may leave from here by longjmp. */
static uint32_t round_transmit(struct nic_dev *nd)
{
	struct nic_qp **const end = nd->act_tail, *q;
	uint32_t n = 0;

	if (!nd->act_head)
		return 0;
	nd->tx_no_room = false;
	do {
		q = round_next_qp(nd);
		nd->cur = q;
		if (round_qp_tx(q))
			qp_activate(q);
		nd->cur = NULL;
		n++;
	} while (&q->act_next != end && !nd->tx_no_room);
	return n;
}

/* Returns: false: our links are full, the frame stays on the cable and its sender is paused.
 * *lost_out: it came from the wire, and there is no room for it behind the port. */
static bool round_rx_paced(struct nic_dev *nd, const struct cable_frame *f, bool *lost_out)
{
	const bool on_chip = nd->has_halves && chip_has_cable_port(nd, f->from);
	const bool room = rate_has_room(nd, HCA_RX, on_chip);

	*lost_out = room && !rate_book(nd, HCA_RX, on_chip, f->len);
	if (!room && !nd->rx_paused)
		NIC_CNT(nd, tx_pause_ctrl_phy);
	nd->rx_paused = !room;
	return room;
}

/* Returns: n. */
static uint32_t round_release(struct nic_dev *nd, uint32_t n)
{
	cable_rx_release(nd->cable, n);
	if (nd->rx_credit != UINT32_MAX)
		nd->rx_credit -= n;
	return n;
}

/* A frame that must wait ends the burst: those behind it keep their order. Frames for a link that
 * is down never reach the port: none of its counters has them. */
static uint32_t round_receive(struct nic_dev *nd)
{
	struct cable_frame f[CABLE_BURST];
	uint64_t taken_tsc = 0;
	bool lost = false;
	uint32_t n, i;

	n = cable_rx_burst(nd->cable, f, SPW_MIN(CABLE_BURST, nd->rx_credit));
	nd->rx_more = n == CABLE_BURST;
	if (spw_unlikely(nd->cable->changed))
		nic_link_tick(nd);
	if (!n)
		return 0;
	if (spw_unlikely(inject_link_is_down(nd))) {
		inject_rx_down(nd, n);
		return round_release(nd, n);
	}
	for (i = 0; i < n; i++) {
		if (i % STAMP_EVERY == 0)
			nic_stamp(nd);
		if (trail_on())
			taken_tsc = spw_cpu_counter();
		nd->rx_at = i;
		if (spw_unlikely(chip_is_paced(nd)) && !round_rx_paced(nd, &f[i], &lost))
			break;
		if (spw_unlikely(lost))
			rx_discard(nd, &f[i]);
		else if (!rx_frame(nd, &f[i]))
			break;
		if (trail_on())
			trail_came(f[i].data, f[i].len, taken_tsc);
	}
	if (spw_unlikely(nd->copier != NULL))
		copy_wait(nd);
	nd->rx_at = UINT32_MAX;
	return round_release(nd, i);
}

/* An application may go on posting to a QP in ERR, and rings no doorbell for receives. */
static void round_flush_errors(struct nic_dev *nd)
{
	nd->flush_ns = nd->now_ns;
	for (struct nic_qp *q = nd->qps; q; q = q->next)
		if (q->rq_flushing && q->qp->state == HCA_QPS_ERR && q->rq.cq)
			rq_flush(nd, &q->rq, q->qp->qpn);
	if (late_is_due(nd))
		late_send(nd);
}

/* Finds the earliest deadline anew while it serves those that have passed. */
static void round_timers(struct nic_dev *nd)
{
	nd->timer_ns = UINT64_MAX;
	for (struct nic_qp *q = nd->qps; q; q = q->next)
		if (q->transport == SPW_PRM_RC)
			rc_timer(q, nd->now_ns);
	cq_mod_timers(nd);
}

/* What happened to the card happens to this function too. */
static void round_chip_check(struct nic_dev *nd)
{
	const uint64_t unplugged_ns = nd->dev->chip->unplugged_ns;

	if (spw_unlikely(unplugged_ns) && nd->now_ns - unplugged_ns > LEAVE_NS && !nd->dev->gone)
		nic_gone(nd);
}

/* No frame is taken from the cable any more; commands fail by nic_fault_of(). */
void nic_gone(struct nic_dev *nd)
{
	nd->rx_credit = 0;
	spw_thr_store_rlx(&nd->dev->gone, 1u);
	if (nd->dev->chip->unplugged_ns)
		spw_thr_store_rlx(&nd->dev->chip->gone, 1u);
	hca_event_port(nd->dev, HCA_EVENT_DEVICE_FATAL);
}

/* What need not be exact: dead peers, scheduled faults, the carrier, the trace file. */
static void round_tick(struct nic_dev *nd)
{
	nd->tick_ns = nd->now_ns;
	NIC_CNT_ADD(nd, port_xmit_discards,
		    nd->cable->stat.tx_dropped - nd->dev->cnt.port_xmit_discards);
	if (nd->cable->ops->tick)
		nd->cable->ops->tick(nd->cable, nd->now_ns);
	inject_tick(nd);
	nic_link_tick(nd);
	l2_refresh(nd);
	round_chip_check(nd);
	cm_tick(nd->dev);
	if (nd->trace)
		(void)spw_pcapng_flush(nd->trace);
}

/* All frames of the round have their payload now, or their QP fails. */
static void round_copies_end(struct nic_dev *nd)
{
	copy_wait(nd);
	if (spw_unlikely(nd->copy_failed))
		nic_copies_gone(nd);
}

/* Returns how much was done; 0 lets the thread nap (run/thread.c). */
uint32_t nic_round(struct nic_dev *nd)
{
	uint32_t work;

	if (inject_stalls(nd))
		inject_stall(nd);
	nic_stamp_set(nd);
	nic_clock_publish(nd);
	work = nic_doorbells(nd);
	if (trail_on())
		nic_trail.round_tsc = spw_cpu_counter();
	work += round_receive(nd);
	if (spw_unlikely(nd->copy_failed))
		nic_copies_gone(nd);
	if (cm_has_work(nd->dev))
		work += cm_round(nd->dev);
	work += round_transmit(nd);
	if (spw_unlikely(nd->copier != NULL))
		round_copies_end(nd);
	if (spw_unlikely(nd->now_ns >= nd->timer_ns))
		round_timers(nd);
	if (spw_unlikely(nd->now_ns - nd->flush_ns > FLUSH_NS))
		round_flush_errors(nd);
	if (spw_unlikely(nd->now_ns - nd->tick_ns > TICK_NS))
		round_tick(nd);
	work += inject_frames(nd);
	if (nd->comp_list)
		cq_comp_flush_all(nd);
	if (spw_unlikely(nd->adv != NULL))
		work += adv_round(nd);
	if (work || nd->cable->pending || nd->sent_list)
		nic_tx_publish(nd);
	return work;
}

/* ---- attach, detach ---- */

/* A failure after dev->nic is set is undone by nic_detach(), which accepts a device half made. */
int nic_attach(struct hca_dev *dev)
{
	const struct hca_cfg *cfg = dev->cfg;
	struct nic_dev *nd = calloc(1, sizeof(*nd));
	struct cable_id id = {0};
	char cable[HCA_TEXT_BYTES];
	int rc;

	if (!nd)
		return spw_err(ENOMEM, "no memory for a NIC");
	nd->dev = dev;
	rc = inject_open(nd);
	if (rc) {
		free(nd);
		return rc;
	}
	nd->act_tail = &nd->act_head;
	nd->timer_ns = UINT64_MAX;
	nd->rx_credit = UINT32_MAX;
	nd->rx_at = UINT32_MAX;
	nd->tx_left = 1;
	nd->attach_ns = nic_now_ns();
	nd->now_ns = nd->attach_ns;
	nd->clock_base_ns = nd->attach_ns;
	nd->clock_khz = cfg->card->clock_khz;
	nd->clock_mask = cfg->card->clock_mask;
	nd->has_halves = chip_has_halves(nd);
	nd->clock_offset = cfg->clock_offset;
	nd->clock_ppm = cfg->clock_ppm;
	memcpy(id.mac, dev->id.mac, 6);
	memcpy(id.ip, dev->id.ip, 4);
	if (cfg->machine)
		id.func = cfg->machine + dev->idx;
	hca_cfg_cable(cfg, cfg->dev[dev->idx].port, cable);
	rc = cable_open(cable, &id, &nd->cable);
	if (!rc && cfg->trace[0])
		rc = trace_open(cfg->trace, dev->id.name, &nd->trace);
	dev->nic = nd;
	if (!rc && cfg->control[0])
		rc = control_open(nd, cfg->control);
	if (rc) {
		nic_detach(dev);
		return rc;
	}
	rate_setup(nd);
	nd->icrc_always = inject_icrc(nd) || nd->trace || !nd->cable->trusts;
	memcpy(dev->id.mac, id.mac, 6);
	memcpy(dev->id.ip, id.ip, 4);
	dev->cable_port = id.port;
	nic_link_begin(nd);
	l2_refresh(nd);
	return 0;
}

/* In this order: no commands, no rounds, last ACKs, then the cable. */
void nic_detach(struct hca_dev *dev)
{
	struct nic_dev *nd = dev->nic;

	if (!nd)
		return;
	control_close(nd);
	if (nd->started)
		nic_run_forget(nd);
	nic_doorbells_report(nd);
	if (nd->cable) {
		for (struct nic_qp *q = nd->qps; q; q = q->next)
			if (q->transport == SPW_PRM_RC && q->qp->state >= HCA_QPS_RTR)
				rc_rsp_tx(q);
		nic_tx_flush(nd);
		nd->cable->ops->close(nd->cable);
	}
	if (nd->trace)
		spw_pcapng_close(nd->trace);
	inject_close(nd);
	flow_tables_free(nd);
	free(nd);
	dev->nic = NULL;
}
