/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A trap for BlueFlame (--trap blueflame). A card takes the WQE from the copy in the register, and
 * fetches from memory only what the copy does not hold; which of the two it reads is not defined.
 * So the copy must equal the WQE in memory, byte for byte. Called by run/doorbell.c for each half
 * that was written, before the doorbell is taken:
 *
 *   only the first eight bytes, and no more within PLAIN_NS   a plain doorbell: nothing to compare
 *   all words equal those of the WQE                          good
 *   the first words equal, the others are not there yet       wait: the copy is being written
 *   a word differs, or the others do not come in PART_NS      counted in struct nic_strict (copy)
 *
 * The NIC waits here for the program, so this is a mode for tests. A WQE that was fetched already
 * is not compared: its block may be in use again. Nor is a difference counted where the half may
 * hold two writes, as a copy and the plain doorbell of a later burst over its first words: that
 * WQE must be the only one on the page that the NIC has not taken yet.
 *
 * Source: rdma-core providers/mlx5/qp.c (mlx5_bf_copy: whole blocks of 64 bytes, which wrap with
 * the ring).
 */
#include "softhca/inject/inject.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/qp.h"

#define COPY_WORDS_MAX 32u /* a half has 256 bytes */
#define PLAIN_NS       2000u
#define PART_NS        100000000u

enum copy { COPY_EQUAL, COPY_PLAIN, COPY_PART, COPY_DIFFERS };

static uint64_t copy_wqe_word(const struct nic_qp *q, uint16_t idx, uint32_t i)
{
	uint64_t w;

	memcpy(&w, sq_bytes(q, idx, i * 8), sizeof(w));
	return w;
}

static enum copy copy_compare(const struct nic_qp *q, const uint64_t *half, uint16_t idx,
			      uint32_t words)
{
	uint32_t same = 0;

	while (same < words && spw_thr_load_rlx(&half[same]) == copy_wqe_word(q, idx, same))
		same++;
	if (same == words)
		return COPY_EQUAL;
	for (uint32_t i = same; i < words; i++)
		if (spw_thr_load_rlx(&half[i]))
			return COPY_DIFFERS;
	return same == 1 ? COPY_PLAIN : COPY_PART;
}

/* What the copy finally is. Words of a WQE that are 0 look as if they were there. */
static enum copy copy_await(struct nic_dev *nd, const struct nic_qp *q, const uint64_t *half,
			    uint16_t idx, uint32_t words)
{
	const uint64_t since_ns = nic_now_ns();
	enum copy is;
	uint64_t waited_ns;

	do {
		is = copy_compare(q, half, idx, words);
		waited_ns = nic_now_ns() - since_ns;
		spw_cpu_relax();
	} while ((is == COPY_PLAIN && waited_ns < PLAIN_NS) ||
		 (is == COPY_PART && waited_ns < PART_NS));
	nd->now_ns = nic_now_ns();
	return is;
}

/* Is this WQE of `blocks` all that was posted on the page since the NIC last looked? */
static bool copy_is_alone(const struct hca_qp *qp, uint32_t blocks)
{
	for (const struct hca_qp *p = qp->uar->qps; p; p = p->uar_next) {
		const uint32_t want = p == qp ? blocks : 0;

		if (!p->nic || !p->sq_dbrec)
			continue;
		if ((uint16_t)(nic_sq_record(p) - p->nic->sq_pi) != want)
			return false;
	}
	return true;
}

void blueflame_check(struct nic_dev *nd, uint64_t *half)
{
	const uint64_t value = spw_thr_load_acq(half);
	const struct hca_qp *qp = hca_qp_get(nd->dev, (uint32_t)spw_prm_wqe_ctrl_get_qpn(&value));
	const uint16_t idx = (uint16_t)spw_prm_wqe_ctrl_get_wqe_index(&value);
	const uint32_t words =
		SPW_MIN((uint32_t)spw_prm_wqe_ctrl_get_ds(&value) * 2, COPY_WORDS_MAX);
	enum copy is;

	if (!value || !qp || !qp->nic || !qp->sq_wqebb_cnt || (int16_t)(qp->nic->sq_ci - idx) > 0)
		return;
	is = copy_await(nd, qp->nic, half, idx, words);
	if ((is == COPY_PART || is == COPY_DIFFERS) && copy_is_alone(qp, (words + 7) / 8))
		spw_thr_count(&nd->strict.copy, 1u);
	for (uint32_t i = 8; i < COPY_WORDS_MAX; i++) /* run/doorbell.c clears the first eight */
		spw_thr_store_rlx(&half[i], 0ull);
}
