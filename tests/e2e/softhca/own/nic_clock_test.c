/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC clock has the offset and the rate that the options ask for: stamps of completions and the
 * page that libmlx5 reads show the same clock. Nothing is timed; a reading of the NIC clock must
 * lie between two readings of the host's. Arguments: offset in ns, ppm.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "prm/spw_prm.h"
#include "verbs_kit.h"

#define OPENED_NS \
	30000000000.0 /* the device is not older than this when the first stamp is taken */
#define TRIES    50u
#define TIGHT_NS 500e3
#define ROUNDS                                                                                   \
	3u /* the third write is begun in a round of the NIC that was not under way at the first \
	    */

/* A stamp, between two readings of the host's clock. */
struct sample {
	uint64_t nic;
	double lo, hi;
};

static struct kit kit;
static struct kit_end a, b;
static struct mlx5dv_cq ring;
static uint32_t done;
static double offset_ns, rate;

static uint64_t host_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct sample stamp_once(void)
{
	struct sample s = {.lo = (double)host_ns()};
	struct ibv_wc wc;
	const uint8_t *cqe;

	for (uint32_t i = 0; i < ROUNDS; i++, done++) {
		assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, kit.buf, 64, kit.mr->lkey,
					  (uintptr_t)kit.buf + KIT_BUF_BYTES / 2, kit.mr->rkey),
				 0);
		kit_expect(a.cq, IBV_WC_SUCCESS, &wc);
	}
	s.hi = (double)host_ns();
	cqe = (const uint8_t *)ring.buf + (size_t)((done - 1) & (ring.cqe_cnt - 1)) * ring.cqe_size;
	s.nic = spw_prm_cqe64_get_timestamp(cqe + ring.cqe_size - 64);
	return s;
}

static struct sample stamp(void)
{
	struct sample best = stamp_once();

	for (uint32_t i = 0; i < TRIES && best.hi - best.lo > TIGHT_NS; i++) {
		struct sample s = stamp_once();

		best = s.hi - s.lo < best.hi - best.lo ? s : best;
	}
	return best;
}

/* A span of the host's clock, converted to the NIC's rate. */
static void within(uint64_t nic, double host_lo, double host_hi)
{
	if ((double)nic < host_lo * rate - 1000 || (double)nic > host_hi * rate + 1000)
		fail_msg("%.0f ns on the NIC, %.0f to %.0f on the host", (double)nic, host_lo,
			 host_hi);
}

static void test_offset_and_rate(void **state)
{
	const struct sample first = stamp();
	struct sample last;

	(void)state;
	assert_true((double)first.nic - first.lo > offset_ns - OPENED_NS * fabs(rate - 1));
	assert_true((double)first.nic - first.hi < offset_ns + OPENED_NS * fabs(rate - 1));
	do { /* until a clock with the wrong rate is out of tolerance */
		usleep(500000);
		last = stamp();
		within(last.nic - first.nic, last.lo - first.hi, last.hi - first.lo);
	} while ((last.lo - first.hi) * fabs(rate - 1) <
		 2 * (last.hi - last.lo + first.hi - first.lo));
	print_message("%.1f s, %.3f ms more than the host's\n", (last.lo - first.lo) * 1e-9,
		      ((double)(last.nic - first.nic) - (last.lo - first.lo)) * 1e-6);
}

static uint64_t page(void)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	assert_int_equal(ibv_query_rt_values_ex(kit.ctx, &v), 0);
	return (uint64_t)v.raw_clock.tv_sec * 1000000000u + (uint64_t)v.raw_clock.tv_nsec;
}

static void test_page_is_the_same_clock(void **state)
{
	const struct sample s = stamp();
	uint64_t shown = page();

	(void)state;
	for (uint32_t ms = 0; shown < s.nic; ms++, shown = page()) {
		assert_true(ms < KIT_WAIT_MS);
		usleep(1000);
	}
	within(shown - s.nic, 0, (double)host_ns() - s.lo);
}

static int setup(void **state)
{
	struct mlx5dv_obj obj = {.cq = {.out = &ring}};

	(void)state;
	kit_open(&kit);
	kit_pair_open(&kit, &a, &b, &(struct kit_how){0});
	obj.cq.in = a.cq;
	return mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
}

static int teardown(void **state)
{
	(void)state;
	kit_end_close(&a);
	kit_end_close(&b);
	kit_close(&kit);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_offset_and_rate),
		cmocka_unit_test(test_page_is_the_same_clock),
	};

	if (argc != 3)
		return 2;
	offset_ns = strtod(argv[1], NULL);
	rate = 1 + strtod(argv[2], NULL) * 1e-6;
	return cmocka_run_group_tests(tests, setup, teardown);
}
