/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Doorbells: what the application writes to its register pages. nic_round() calls nic_doorbells().
 *
 * A page (UAR) has two BlueFlame registers of two halves, and the CQ arm register. A doorbell is
 * the first eight bytes of the last WQE posted (its ctrl segment: index, opcode, QP, size), written
 * to one half, alone or as the beginning of a BlueFlame copy of 64 bytes:
 *
 *   0x020  CQ arm
 *   0x800  register 0, half 0        0x900  register 0, half 1
 *   0xa00  register 1, half 0        0xb00  register 1, half 1
 *
 *   application                          NIC thread, each round
 *   write WQE                            exchange(half, 0): was it rung?
 *   write doorbell record  [barrier]     read the records of all QPs on this page  [N6]
 *   write half             [barrier]     new producer index: qp_activate(qp)
 *
 * Halves are polled, so the next doorbell may overwrite one that was not taken. A page that was
 * rung therefore sends the NIC to the records of all its QPs. The value itself is only checked,
 * because a card depends on it. struct nic_strict counts:
 *
 *   qpn    no QP of that number rings on this page (a wrong byte order shows up here as well). A
 *          card rings another QP; here nothing happens.
 *   index  the WQE is beyond the record: the record was not written before the register. A card
 *          may fetch a WQE that is not there yet; here the record decides.
 *   half   a BlueFlame copy into the same half as the one before: a card may still be reading
 *          that. Counted only where the order is certain, not where both halves were written, and
 *          not for the doorbell that was taken there last: one copy may write its bytes twice.
 *          UCX copies by memmove(), and glibc's for AVX-512 moves 64 bytes as a first and a last
 *          block of 64, which are the same.
 *   copy   a BlueFlame copy that differs from its WQE in memory (inject/blueflame.c, with
 *          --trap blueflame)
 *
 * Sources: rdma-core providers/mlx5/qp.c (post_send_db), UCX ib_mlx5.inl, DPDK common/mlx5
 * (mlx5_doorbell_ring: eight bytes, one half).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_log.h"
#include "softhca/hca_real.h"
#include "softhca/inject/inject.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/qp.h"

#define HALF_WORDS (0x100u / 8u)
#define BF_WORDS   8u

/* [N6 acquire of the record, pairs with the application's barriers between WQE, record and
 * register] */
uint16_t nic_sq_record(const struct hca_qp *qp)
{
	return (uint16_t)spw_be32_to_cpu(spw_thr_load_acq(qp->sq_dbrec));
}

/* The page was rung; the records show for which QPs. */
static void uar_rung(struct hca_uar *uar)
{
	for (struct hca_qp *qp = uar->qps; qp; qp = qp->uar_next) {
		struct nic_qp *q = qp->nic;
		uint16_t pi;

		if (!q || !q->swr)
			continue;
		pi = nic_sq_record(qp);
		if (spw_unlikely(q->adv != NULL) && adv_rung(q, pi))
			continue;
		if (pi != q->sq_pi) {
			q->sq_pi = pi;
			if (qp->state >= HCA_QPS_RTS)
				qp_activate(q);
		}
	}
}

/* A page that is rung more often than this is polled no more often than this. Each poll takes the
 * page's line, and the records', away from a CPU that is about to write them again, and the two
 * would go on in step, one WQE at a time. A page that is rung less often, as with one request at a
 * time, is polled in every round. */
#define RING_NS 400u

SPW_INLINE bool rings_fast(const struct hca_uar *uar, uint64_t now_ns)
{
	return uar->fast && now_ns - uar->rung_ns < RING_NS;
}

static void ring_note(struct hca_uar *uar, uint64_t now_ns)
{
	uar->fast = now_ns - uar->rung_ns < 2 * RING_NS;
	uar->rung_ns = now_ns;
}

/* Doorbell values stay as they are in memory: a ctrl segment's first eight bytes, big-endian. */
static uint32_t value_qpn(uint64_t value)
{
	return spw_prm_wqe_ctrl_get_qpn(&value);
}

/* Does the value ring a QP of this page? */
static bool value_rings(struct nic_dev *nd, const struct hca_uar *uar, uint64_t value)
{
	const struct hca_qp *qp = hca_qp_get(nd->dev, value_qpn(value));
	const uint32_t bbs = (spw_prm_wqe_ctrl_get_ds(&value) + 3) / 4;
	const uint16_t idx = spw_prm_wqe_ctrl_get_wqe_index(&value);

	if (spw_unlikely(!qp || qp->uar != uar || !qp->nic || !qp->nic->swr)) {
		spw_thr_count(&nd->strict.qpn, 1u);
		return false;
	}
	if (spw_unlikely((uint16_t)(nic_sq_record(qp) - idx - bbs) > qp->sq_wqebb_cnt))
		spw_thr_count(&nd->strict.index, 1u);
	if (spw_unlikely(nd->adv != NULL))
		adv_doorbell(qp->nic, (uint16_t)(idx + bbs));
	return true;
}

/* Takes what was written to a half; 0: nothing. *wide: more than the first eight bytes were
 * written. A copy that is still being written may look like eight bytes. */
static uint64_t half_take(struct nic_dev *nd, uint64_t *half, bool *wide)
{
	uint64_t rest = 0, value;

	if (spw_likely(spw_thr_load_rlx(half) == 0))
		return 0;
	if (spw_unlikely(nd->adv != NULL) && adv_half_waits(nd, half))
		return 0;
	if (spw_unlikely(nd->dev->cfg->trap_blueflame))
		blueflame_check(nd, half);
	value = spw_thr_exchange(half, 0ull);
	for (uint32_t i = 1; i < BF_WORDS; i++)
		rest |= spw_thr_load_rlx(&half[i]);
	for (uint32_t i = 1; rest && i < BF_WORDS; i++)
		spw_thr_store_rlx(&half[i], 0ull);
	*wide = rest != 0;
	return value;
}

/* What a register's last look found (hca_bf.last). */
enum halves { HALVES_UNKNOWN, HALVES_FIRST, HALVES_SECOND, HALVES_BOTH };

/* Two halves that are found written say nothing of their order, and while the NIC took one of them
 * the other may have been written again, before the one that was taken:
 *
 *   written    A in 0        B in 1   C in 0   D in 1                       E in 0
 *   taken            A of 0                           D of 1   then C of 0         E of 0
 *
 * So the half that is found alone after both is not compared with the next one. */
static void halves_check(struct nic_dev *nd, struct hca_bf *bf, const uint64_t value[2], bool wide)
{
	const enum halves now = value[0] && value[1] ? HALVES_BOTH
				: value[0]           ? HALVES_FIRST
						     : HALVES_SECOND;
	const uint64_t one = value[0] | value[1]; /* unless both are there */

	if (spw_unlikely(wide && now != HALVES_BOTH && now == bf->last && one != bf->value))
		spw_thr_count(&nd->strict.half, 1u);
	bf->last = bf->last == HALVES_BOTH && now != HALVES_BOTH ? HALVES_UNKNOWN : now;
	bf->value = one;
}

/* One register: true if it rang a QP. */
static bool register_take(struct nic_dev *nd, struct hca_uar *uar, uint32_t reg)
{
	uint64_t *half =
		(uint64_t *)(uar->page + SPW_PRM_UAR_BF_OFFSET) + (uint64_t)reg * 2 * HALF_WORDS;
	bool wide[2] = {false, false}, rung = false;
	uint64_t value[2];

	value[0] = half_take(nd, half, &wide[0]);
	value[1] = half_take(nd, half + HALF_WORDS, &wide[1]);
	if (spw_likely(!value[0] && !value[1]))
		return false;
	if (!value[0]) /* it may have been written after it was polled and before the second */
		value[0] = half_take(nd, half, &wide[0]);
	if (spw_unlikely(nd->adv != NULL))
		uar->bf[reg].last = HALVES_UNKNOWN; /* halves that wait come in any order */
	halves_check(nd, &uar->bf[reg], value, wide[0] || wide[1]);
	for (uint32_t i = 0; i < 2; i++)
		if (value[i])
			rung |= value_rings(nd, uar, value[i]);
	return rung;
}

uint32_t nic_doorbells(struct nic_dev *nd)
{
	uint32_t hits = 0;

	for (uint32_t i = 0; i < nd->uar_cnt; i++) {
		struct hca_uar *uar = nd->uar[i];
		uint64_t *arm = (uint64_t *)(uar->page + SPW_PRM_UAR_CQ_ARM_OFFSET);
		bool rung = false;

		if (rings_fast(uar, nd->now_ns))
			continue;
		for (uint32_t reg = 0; reg < HCA_UAR_REGS; reg++)
			rung |= register_take(nd, uar, reg);
		if (rung) {
			ring_note(uar, nd->now_ns);
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

/* One write, so that processes may share the file. */
static void strict_append(const char *path, const char *line)
{
	const int fd = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0 || real_write(fd, line, strlen(line)) < 0)
		spw_warn("%s: %s", path, strerror(errno));
	if (fd >= 0)
		real_close(fd);
}

SPW_PRINTF(2, 3) static void strict_report(const struct nic_dev *nd, const char *fmt, ...)
{
	char text[300], line[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	spw_warn("%s: %s", nd->dev->id.name, text);
	snprintf(line, sizeof(line), "%s: %s: %s\n", program_invocation_short_name,
		 nd->dev->id.name, text);
	if (nd->dev->cfg->strict_log[0])
		strict_append(nd->dev->cfg->strict_log, line);
}

void nic_doorbells_report(const struct nic_dev *nd)
{
	const struct nic_strict *s = &nd->strict;

	if (s->qpn + s->index + s->half + s->copy)
		strict_report(
			nd,
			"doorbells that a card would not forgive: %llu named no QP of their "
			"register, %llu a WQE beyond the record, "
			"%llu BlueFlame copies did not change halves, %llu differed from their WQE",
			(unsigned long long)s->qpn, (unsigned long long)s->index,
			(unsigned long long)s->half, (unsigned long long)s->copy);
	if (s->cqe_reuse)
		strict_report(nd,
			      "%llu completions were written over unread ones of a CQ that ignores "
			      "overruns: make the CQ as large as its receive queues",
			      (unsigned long long)s->cqe_reuse);
}

/* Whoever used the QP's register may begin with its first half again for the next QP. */
void nic_doorbells_forget(struct nic_qp *q)
{
	struct hca_uar *uar = q->qp->uar;
	bool found = false;

	for (uint32_t i = 0; uar && i < HCA_UAR_REGS; i++)
		uar->bf[i].last = HALVES_UNKNOWN;
	for (uint32_t i = 0; uar && i < HCA_UAR_REGS * 2; i++) {
		uint64_t *half =
			(uint64_t *)(uar->page + SPW_PRM_UAR_BF_OFFSET) + (uint64_t)i * HALF_WORDS;

		if (value_qpn(spw_thr_load_rlx(half)) != q->qp->qpn)
			continue;
		spw_thr_exchange(half, 0ull);
		found = true;
	}
	if (found)
		uar_rung(uar); /* it may have overwritten the doorbell of another QP */
}
