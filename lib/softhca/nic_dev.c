/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One device: attach and detach, its clock, and one round of work. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/spw_err.h"
#include "softhca/nic_impl.h"
#include "softhca/nic_run.h"

#define TICK_NS 20000000ull
#define FLUSH_NS 100000ull   /* how often receive queues of QPs in ERR are looked at */
#define CLOCK_NS 1000000ull  /* how often the clock page is rewritten while awake */
#define STAMP_EVERY 16u      /* frames per reading of the clock */
#define CLOCK_SHIFT 21

/* ---- clock ------------------------------------------------------------------------------------------- */

static uint64_t clock_at(const struct nic_dev *nd, uint64_t now_ns)
{
	const uint64_t run_ns = now_ns - nd->clock_base_ns;

	if (nd->clock_ppm == 0)
		return now_ns + (uint64_t)nd->clock_offset;
	return nd->clock_base_ns + (uint64_t)nd->clock_offset + run_ns +
	       (uint64_t)(int64_t)((double)run_ns * nd->clock_ppm * 1e-6);
}

uint64_t nic_clock(const struct hca_dev *dev)
{
	return clock_at(dev->nic, nic_now_ns());
}

uint64_t nic_stamp(struct nic_dev *nd)
{
	nd->now_ns = nic_now_ns();
	return nd->stamp = clock_at(nd, nd->now_ns);
}

static int clock_set(struct nic_dev *nd, const char *text)
{
	char copy[HCA_TEXT_BYTES], *save = NULL;

	nd->clock_base_ns = nic_now_ns();
	strcpy(copy, text);
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *end = NULL;

		if (strncmp(w, "offset=", 7) == 0)
			nd->clock_offset = strtoll(w + 7, &end, 0);
		else if (strncmp(w, "ppm=", 4) == 0)
			nd->clock_ppm = strtod(w + 4, &end);
		if (!end || *end || end[-1] == '=' || nd->clock_ppm < -1000 || nd->clock_ppm > 1000)
			return spw_err(EINVAL, "clock \"%s\": say offset=NS,ppm=F with F from -1000 to 1000", w);
	}
	return 0;
}

/* What libmlx5 reads directly; between refreshes it adds the cycles of the CQE's own stamp. */
static void clock_publish(struct nic_dev *nd)
{
	const uint64_t now = nd->stamp;
	struct timespec real;
	bool info = nd->now_ns - nd->clock_ns > CLOCK_NS;

	if (info) {
		nd->clock_ns = nd->now_ns;
		clock_gettime(CLOCK_REALTIME, &real);
	}
	for (struct hca_ctx *ctx = nd->dev->ctxs; ctx; ctx = ctx->next) {
		struct mlx5_ib_clock_info *ci = ctx->clock_info;

		if (ctx->core_clock) {
			spw_dma_store(&ctx->core_clock[0], spw_cpu_to_be32((uint32_t)(now >> 32)));
			spw_thr_store_rel(&ctx->core_clock[1], spw_cpu_to_be32((uint32_t)now));
		}
		if (!ci || !info)
			continue;
		spw_thr_exchange(&ci->sign, ci->sign | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
		ci->nsec = (uint64_t)real.tv_sec * 1000000000ull + (uint64_t)real.tv_nsec;
		ci->cycles = now;
		ci->frac = 0;
		ci->shift = CLOCK_SHIFT;
		ci->mult = (uint32_t)((double)(1u << CLOCK_SHIFT) / (1 + nd->clock_ppm * 1e-6));
		ci->mask = UINT64_MAX;
		ci->overflow_period = 1000;
		spw_thr_store_rel(&ci->sign, (ci->sign & ~(uint32_t)MLX5_IB_CLOCK_INFO_KERNEL_UPDATING) +
						     2 * MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
	}
}

/* ---- scheduling -------------------------------------------------------------------------------------- */

void nic_activate(struct nic_qp *q)
{
	struct nic_dev *nd = q->nd;

	if (q->active)
		return;
	q->active = true;
	q->act_next = NULL;
	*nd->act_tail = q;
	nd->act_tail = &q->act_next;
}

void nic_timer_at(struct nic_dev *nd, uint64_t at_ns)
{
	if (at_ns < nd->timer_ns)
		nd->timer_ns = at_ns;
}

/* Rung: the page says that something was, the records of its QPs say what. [N6 acquire of the record,
 * pairs with the application's barriers between WQE, record and register] */
static void uar_rung(struct hca_uar *uar)
{
	for (struct hca_qp *qp = uar->qps; qp; qp = qp->uar_next) {
		struct nic_qp *q = qp->nic;
		uint16_t pi;

		if (!q || !q->swr)
			continue;
		pi = (uint16_t)spw_be32_to_cpu(spw_thr_load_acq(qp->sq_dbrec));
		if (pi != q->sq_pi) {
			q->sq_pi = pi;
			if (qp->state >= HCA_QPS_RTS)
				nic_activate(q);
		}
	}
}

/* A page that is rung faster than this is looked at only so often: every look takes its line, and the records', away from a
 * CPU that is about to write them again, and the two would go on in step, one WQE at a time. Slower than that,
 * as with one request at a time, every ring is seen at once. */
#define RING_NS 400u

SPW_INLINE bool rings_fast(const struct hca_uar *uar, uint64_t now_ns)
{
	return uar->fast && now_ns - uar->rung_ns < RING_NS;
}

static void ring_seen(struct hca_uar *uar, uint64_t now_ns)
{
	uar->fast = now_ns - uar->rung_ns < 2 * RING_NS;
	uar->rung_ns = now_ns;
}

static uint32_t doorbells(struct nic_dev *nd)
{
	static const uint16_t slots[] = {0x800, 0x900, 0xa00, 0xb00};
	uint32_t hits = 0;

	for (uint32_t i = 0; i < nd->uar_cnt; i++) {
		struct hca_uar *uar = nd->uar[i];
		uint64_t *arm = (uint64_t *)(uar->page + SPW_PRM_UAR_CQ_ARM_OFFSET);
		bool rung = false;

		if (rings_fast(uar, nd->now_ns))
			continue;
		for (unsigned s = 0; s < SPW_ARRAY_CNT(slots); s++) {
			uint64_t *reg = (uint64_t *)(uar->page + slots[s]);

			if (spw_unlikely(spw_thr_load_rlx(reg) != 0)) {
				spw_thr_exchange(reg, 0ull);
				rung = true;
			}
		}
		if (rung) {
			ring_seen(uar, nd->now_ns);
			uar_rung(uar);
		}
		if (spw_unlikely(spw_thr_load_rlx(arm) != 0)) {
			spw_thr_exchange(arm, 0ull);
			cq_arm_scan(uar);
			rung = true;
		}
		hits += rung;
	}
	return hits;
}

static void drain_check(struct nic_qp *q)
{
	struct hca_qp *qp = q->qp;

	if (qp->state != HCA_QPS_SQD || !qp->sq_draining || q->swr_head != q->swr_cur || q->cur_pkt)
		return;
	qp->sq_draining = false;
	if (qp->attr.sqd_notify)
		hca_event_qp(qp, HCA_EVENT_SQ_DRAINED);
}

static bool qp_tx(struct nic_qp *q)
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
	case SPW_PRM_RC: more |= rc_req_tx(q); break;
	case SPW_PRM_UC: more |= uc_tx(q); break;
	case SPW_PRM_UD: more |= ud_tx(q); break;
	default: more |= raw_tx(q); break;
	}
	drain_check(q);
	return more;
}

static struct nic_qp *next_active(struct nic_dev *nd)
{
	struct nic_qp *q = nd->act_head;

	nd->act_head = q->act_next;
	if (!nd->act_head)
		nd->act_tail = &nd->act_head;
	q->active = false;
	return q;
}

/* Every QP that has work, once. Those that wait stay in the list meanwhile: the guard may jump out of here. */
static uint32_t transmit(struct nic_dev *nd)
{
	struct nic_qp **const end = nd->act_tail, *q;
	uint32_t n = 0;

	if (!nd->act_head)
		return 0;
	do {
		q = next_active(nd);
		nd->cur = q;
		if (qp_tx(q))
			nic_activate(q);
		nd->cur = NULL;
		n++;
	} while (&q->act_next != end);
	return n;
}

static uint32_t receive(struct nic_dev *nd)
{
	struct cable_frame f[CABLE_BURST];
	uint32_t n, i;

	n = cable_rx_burst(nd->cable, f, SPW_MIN(CABLE_BURST, nd->rx_credit));
	if (!n)
		return 0;
	for (i = 0; i < n; i++) {
		if (i % STAMP_EVERY == 0)
			nic_stamp(nd);
		nd->rx_at = i;
		if (!rx_frame(nd, &f[i]))
			break;
	}
	nd->rx_at = UINT32_MAX;
	cable_rx_release(nd->cable, i);
	if (nd->rx_credit != UINT32_MAX)
		nd->rx_credit -= i;
	return i;
}

static void flush_errors(struct nic_dev *nd)
{
	nd->flush_ns = nd->now_ns;
	for (struct nic_qp *q = nd->qps; q; q = q->next)
		if (q->rq_flushing && q->qp->state == HCA_QPS_ERR && q->rq.cq)
			rq_flush(nd, &q->rq, q->qp->qpn);
}

static void timers(struct nic_dev *nd)
{
	nd->timer_ns = UINT64_MAX;
	for (struct nic_qp *q = nd->qps; q; q = q->next)
		if (q->transport == SPW_PRM_RC)
			rc_timer(q, nd->now_ns);
	cq_mod_timers(nd);
}

static void tick(struct nic_dev *nd)
{
	struct fault *f = nd->fault;
	char answer[128];

	nd->tick_ns = nd->now_ns;
	NIC_CNT_ADD(nd, port_xmit_discards, nd->cable->stat.tx_dropped - nd->dev->cnt.port_xmit_discards);
	if (nd->cable->ops->tick)
		nd->cable->ops->tick(nd->cable, nd->now_ns);
	for (uint32_t i = 0; i < f->at_cnt; i++) {
		if (nd->now_ns - nd->attach_ns < f->at[i].ns)
			continue;
		control_exec(nd, f->at[i].what, answer, sizeof(answer));
		f->at[i] = f->at[--f->at_cnt];
		i--;
	}
	if (f->link_down_until_ns && nd->now_ns >= f->link_down_until_ns) {
		f->link_down_until_ns = 0;
		fault_set(f, "");
		nic_link_set(nd, true);
	}
	if (nd->trace)
		(void)spw_pcapng_flush(nd->trace);
}

void nic_link_set(struct nic_dev *nd, bool up)
{
	if (nd->dev->link_up == up)
		return;
	nd->dev->link_up = up;
	if (!up)
		NIC_CNT(nd, link_downed);
	hca_event_port(nd->dev, up ? HCA_EVENT_PORT_ACTIVE : HCA_EVENT_PORT_ERR);
}

uint32_t nic_round(struct nic_dev *nd)
{
	uint32_t work;

	nd->stamp = clock_at(nd, nd->now_ns);
	clock_publish(nd); /* first: a clock page is as true as it is fresh */
	work = doorbells(nd);
	work += receive(nd);
	work += transmit(nd);
	if (spw_unlikely(nd->now_ns >= nd->timer_ns))
		timers(nd);
	if (spw_unlikely(nd->now_ns - nd->flush_ns > FLUSH_NS))
		flush_errors(nd);
	if (spw_unlikely(nd->now_ns - nd->tick_ns > TICK_NS))
		tick(nd);
	if (spw_unlikely(nd->fault->held_cnt))
		work += fault_tick(nd->fault, nd->cable, nd->now_ns);
	if (nd->comp_list)
		cq_comp_flush_all(nd);
	if (work || nd->cable->pending)
		cable_tx_flush(nd->cable);
	return work;
}

/* The guard's way out: whoever was at work meets a local protection error. */
void nic_memory_gone(struct nic_dev *nd)
{
	struct nic_qp *q = nd->cur;
	struct nic_rq *r = nd->cur_rq;

	nd->cur = NULL;
	nd->cur_rq = NULL;
	if (nd->rx_at != UINT32_MAX) {
		cable_rx_release(nd->cable, nd->rx_at + 1);
		nd->rx_at = UINT32_MAX;
	}
	if (!q) {
		/* Not a region: a ring or a record. After a few, the device is as good as pulled out. */
		if (++nd->gone_cnt > 8)
			nd->uar_cnt = 0;
		return;
	}
	if (r) /* a striding WQE is still at ci */
		raw_rq_fail(q, r, r->striding ? r->ci++ : (uint16_t)(r->ci - 1), SPW_PRM_SYN_LOCAL_PROT_ERR);
	else if (!nd->cur_rx && q->swr_head != q->swr_tail && q->qp->state == HCA_QPS_RTS)
		sq_fail(q, SPW_PRM_SYN_LOCAL_PROT_ERR, 0);
	else if (nd->cur_rx && q->transport == SPW_PRM_RC)
		rc_rsp_gone(q);
	else
		qp_to_err(q);
}

/* ---- attach, detach ---------------------------------------------------------------------------------- */

int nic_attach(struct hca_dev *dev)
{
	const struct hca_cfg *cfg = dev->cfg;
	struct nic_dev *nd = calloc(1, sizeof(*nd));
	struct cable_id id = {0};
	int rc;

	if (!nd || !(nd->fault = calloc(1, sizeof(*nd->fault)))) {
		free(nd);
		return spw_err(ENOMEM, "no memory for a NIC");
	}
	nd->dev = dev;
	nd->act_tail = &nd->act_head;
	nd->timer_ns = UINT64_MAX;
	nd->rx_credit = UINT32_MAX;
	nd->rx_at = UINT32_MAX;
	nd->attach_ns = nic_now_ns();
	nd->now_ns = nd->attach_ns;
	memcpy(id.mac, dev->id.mac, 6);
	memcpy(id.ip, dev->id.ip, 4);
	rc = fault_init(nd->fault, cfg->fault, cfg->seed + dev->idx);
	if (!rc)
		rc = clock_set(nd, cfg->clock);
	if (!rc)
		rc = cable_open(cfg->cable, &id, &nd->cable);
	if (!rc && cfg->trace[0])
		rc = trace_open(cfg->trace, dev->id.name, &nd->trace);
	dev->nic = nd;
	if (!rc && cfg->control[0])
		rc = control_open(nd, cfg->control);
	if (rc) {
		nic_detach(dev);
		return rc;
	}
	nd->icrc_always = nd->fault->icrc || nd->trace;
	memcpy(dev->id.mac, id.mac, 6);
	memcpy(dev->id.ip, id.ip, 4);
	dev->cable_port = id.port;
	dev->link_up = 1;
	return 0;
}

void nic_detach(struct hca_dev *dev)
{
	struct nic_dev *nd = dev->nic;

	if (!nd)
		return;
	control_close(nd);
	if (nd->started)
		nic_run_forget(nd);
	if (nd->cable) {
		for (struct nic_qp *q = nd->qps; q; q = q->next)
			if (q->transport == SPW_PRM_RC && q->qp->state >= HCA_QPS_RTR)
				rc_rsp_tx(q);
		cable_tx_flush(nd->cable);
		nd->cable->ops->close(nd->cable);
	}
	if (nd->trace)
		spw_pcapng_close(nd->trace);
	fault_fini(nd->fault);
	free(nd->fault);
	free(nd);
	dev->nic = NULL;
}
