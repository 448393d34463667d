/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC's clock: what stamps count in, and the two pages by which an application reads it. The
 * register page has the clock itself; the conversion page ties it to the host's time, for
 * mlx5dv_get_clock_info. nic_round() reads the host's clock once (nic_stamp) and then publishes.
 */
#include <time.h>

#include "softhca/nic/host/host.h"
#include "softhca/nic/port/port.h"

#define CLOCK_NS    1000000ull /* between updates of the conversion page while awake */
#define CLOCK_SHIFT 21

/* In two parts, so that the product does not overflow. */
static uint64_t clock_ticks(const struct nic_dev *nd, uint64_t ns)
{
	const uint64_t khz = nd->clock_khz;

	if (spw_unlikely(khz != 1000000))
		ns = ns / 1000000 * khz + ns % 1000000 * khz / 1000000;
	return ns & nd->clock_mask;
}

/* Offset and skew (--clock) move the NIC's clock against the host's, as two crystals would. */
static uint64_t clock_at(const struct nic_dev *nd, uint64_t now_ns)
{
	const uint64_t run_ns = now_ns - nd->clock_base_ns;

	if (nd->clock_ppm == 0)
		return clock_ticks(nd, now_ns + (uint64_t)nd->clock_offset);
	return clock_ticks(nd, nd->clock_base_ns + (uint64_t)nd->clock_offset + run_ns +
				       (uint64_t)(int64_t)((double)run_ns * nd->clock_ppm * 1e-6));
}

/* A card's PTP clock, which the conversion page refers to, is set to the host's time at start and
 * then by its own daemon, if at all. This one follows the host's. */
uint64_t nic_ptp_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint64_t nic_clock(const struct hca_dev *dev)
{
	return clock_at(dev->nic, nic_now_ns());
}

uint64_t nic_stamp_set(struct nic_dev *nd)
{
	return nd->stamp = clock_at(nd, nd->now_ns);
}

uint64_t nic_stamp(struct nic_dev *nd)
{
	nd->now_ns = nic_now_ns();
	return nic_stamp_set(nd);
}

/* The clock conversion page is a seqlock; KERNEL_UPDATING is set in `sign` while it is written.
 *
 *   NIC thread                        reader (libmlx5, mlx5dv_get_clock_info)
 *   sign = old | UPDATING
 *   N7 release fence                  first load of sign, sequentially consistent
 *   fields                            plain loads of the fields
 *   N8 sign = old + 2 * UPDATING      second load of sign; equal to the first, or read again
 *
 * N7 keeps new fields after the mark, as the kernel's smp_store_mb does. N8 keeps them before the
 * new sign: a reader whose first load returns it reads these fields or later ones. The reader's
 * second load does not keep its plain loads before it on aarch64; that half is libmlx5's. On x86
 * both halves hold. */
static void clock_info_write(const struct nic_dev *nd, struct mlx5_ib_clock_info *ci,
			     uint64_t real_ns)
{
	const uint32_t sign = spw_thr_load_rlx(&ci->sign) &
			      ~(uint32_t)MLX5_IB_CLOCK_INFO_KERNEL_UPDATING;

	spw_thr_store_rlx(&ci->sign, sign | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
	/* [N7 release fence, pairs with the reader's second load of sign] */
	spw_thr_release_fence();
	spw_thr_store_rlx(&ci->nsec, real_ns);
	spw_thr_store_rlx(&ci->cycles, nd->stamp);
	spw_thr_store_rlx(&ci->frac, 0);
	spw_thr_store_rlx(&ci->shift, CLOCK_SHIFT);
	spw_thr_store_rlx(&ci->mult, (uint32_t)((double)(1u << CLOCK_SHIFT) * 1e6 / nd->clock_khz /
						(1 + nd->clock_ppm * 1e-6)));
	spw_thr_store_rlx(&ci->mask, nd->clock_mask);
	spw_thr_store_rlx(&ci->overflow_period, 1000);
	/* [N8 release, pairs with the reader's first load of sign] */
	spw_thr_store_rel(&ci->sign, sign + 2 * MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
}

/* The clock itself each round, the conversion page now and then. The clock is one 64-bit store,
 * because its reader loads high, low, high: with two stores it could get the new high word twice
 * around an old low word. */
void nic_clock_publish(struct nic_dev *nd)
{
	const bool info = nd->now_ns - nd->clock_ns > CLOCK_NS;
	uint64_t real_ns = 0;

	if (info) {
		nd->clock_ns = nd->now_ns;
		real_ns = nic_ptp_ns() - (nic_now_ns() - nd->now_ns); /* at the stamp */
	}
	for (struct hca_ctx *ctx = nd->dev->ctxs; ctx; ctx = ctx->next) {
		if (ctx->core_clock)
			spw_dma_store(ctx->core_clock, spw_cpu_to_be64(nd->stamp));
		if (ctx->clock_info && info)
			clock_info_write(nd, ctx->clock_info, real_ns);
	}
}
