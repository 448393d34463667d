/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The pool: slots are conserved, and sanitizer builds catch misuse.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit_test.h"
#include "pool/spw_pool.h"

#define SLOT_CNT   1000u
#define SLOT_BYTES 192u
#define OFFSET     128u

static struct spw_region region;
static struct spw_pool pool;

static int set_up(void **state SPW_UNUSED)
{
	region = (struct spw_region){.bytes = OFFSET + SLOT_CNT * SLOT_BYTES + 100,
				     .page_bytes = 4096};
	region.host_va = aligned_alloc(4096, SPW_ALIGN_UP(region.bytes, 4096));
	assert_non_null(region.host_va);
	assert_int_equal(spw_pool_init(&pool, &region, OFFSET, SLOT_BYTES, SLOT_CNT), 0);
	return 0;
}

static int tear_down(void **state SPW_UNUSED)
{
	spw_pool_fini(&pool);
	free(region.host_va);
	return 0;
}

static void each_slot_is_lent_once(void **state SPW_UNUSED)
{
	static uint32_t slot[SLOT_CNT + 1];
	static uint8_t seen[SLOT_CNT];

	memset(seen, 0, sizeof(seen));
	assert_int_equal(spw_pool_get(&pool, slot, SLOT_CNT + 1), SLOT_CNT);
	assert_int_equal(spw_pool_get(&pool, slot + SLOT_CNT, 1), 0);
	for (uint32_t i = 0; i < SLOT_CNT; i++) {
		assert_true(slot[i] < SLOT_CNT);
		assert_int_equal(seen[slot[i]]++, 0);
		memset(spw_pool_slot_addr(&pool, slot[i]), (int)slot[i], SLOT_BYTES);
	}
	for (uint32_t i = 0; i < SLOT_CNT;
	     i++) /* no slot overlaps another, and all lie in the region */
		for (uint32_t k = 0; k < SLOT_BYTES; k++)
			assert_int_equal(spw_pool_slot_addr(&pool, i)[k], (uint8_t)i);
	assert_ptr_equal(spw_pool_slot_addr(&pool, 0), region.host_va + OFFSET);
	assert_true(spw_pool_slot_addr(&pool, SLOT_CNT - 1) + SLOT_BYTES <=
		    region.host_va + region.bytes);
	spw_pool_put(&pool, slot, SLOT_CNT);
	assert_int_equal(spw_pool_fini(&pool), 0);
}

static void the_slot_put_last_is_lent_first(void **state SPW_UNUSED)
{
	uint32_t slot[64], again;

	assert_int_equal(spw_pool_get(&pool, slot, 64), 64);
	spw_pool_put(&pool, &slot[17], 1);
	assert_int_equal(spw_pool_get(&pool, &again, 1), 1);
	assert_int_equal(again, slot[17]);
	spw_pool_put(&pool, slot, 64);
}

/* Random gets and puts, in random order, against a model: a slot is lent at most once and none is
 * lost. */
static void slots_are_conserved(void **state SPW_UNUSED)
{
	static uint32_t out[SLOT_CNT];
	static bool is_out[SLOT_CNT];
	uint64_t random = 1;
	uint32_t out_cnt = 0;

	memset(is_out, 0, sizeof(is_out));
	for (int round = 0; round < 20000; round++) {
		uint32_t want = (uint32_t)(unit_random(&random) % 65);

		if (unit_random(&random) & 1) {
			uint32_t n = spw_pool_get(&pool, out + out_cnt,
						  SPW_MIN(want, SLOT_CNT - out_cnt));

			for (uint32_t i = out_cnt; i < out_cnt + n; i++) {
				assert_false(is_out[out[i]]);
				is_out[out[i]] = true;
			}
			out_cnt += n;
		} else {
			for (want = SPW_MIN(want, out_cnt); want > 0; want--) {
				uint32_t k = (uint32_t)(unit_random(&random) % out_cnt);

				is_out[out[k]] = false;
				spw_pool_put(&pool, &out[k], 1);
				out[k] = out[--out_cnt];
			}
		}
		assert_int_equal(pool.free_cnt + out_cnt, SLOT_CNT);
	}
	assert_int_equal(spw_pool_fini(&pool), out_cnt);
}

static void shapes_that_cannot_be_are_refused(void **state SPW_UNUSED)
{
	struct spw_pool p;

	assert_int_equal(spw_pool_init(&p, &region, 0, 100, 1), -EINVAL);
	assert_int_equal(spw_pool_init(&p, &region, 0, 0, 1), -EINVAL);
	assert_int_equal(spw_pool_init(&p, &region, 0, 64, 0), -EINVAL);
	assert_int_equal(spw_pool_init(&p, &region, 32, 64, 1), -EINVAL);
	assert_int_equal(spw_pool_init(&p, &region, 1ull << 40, 64, 1), -EINVAL);
	assert_int_equal(spw_pool_init(&p, &region, 0, (65ull << 20), 1), -EINVAL);
	assert_int_equal(spw_pool_init(&p, &region, 0, 64ull << 20, 1), -ENOSPC);
	assert_int_equal(spw_pool_init(&p, &region, OFFSET, SLOT_BYTES, SLOT_CNT + 1), -ENOSPC);
	assert_non_null(strstr(spw_err_text(), "room for 1000"));
	assert_int_equal(spw_pool_init(&p, &region, OFFSET, SLOT_BYTES, UINT32_MAX), -ENOSPC);
}

#if SPW_POOL_CHECK
static void put_twice(void)
{
	uint32_t slot;

	spw_pool_get(&pool, &slot, 1);
	spw_pool_put(&pool, &slot, 1);
	spw_pool_put(&pool, &slot, 1);
}

static void put_foreign(void)
{
	uint32_t slot = SLOT_CNT;

	spw_pool_put(&pool, &slot, 1);
}

#ifdef SPW_POOL_ASAN
static void touch_free(void)
{
	uint32_t slot;

	spw_pool_get(&pool, &slot, 1);
	spw_pool_put(&pool, &slot, 1);
	*spw_pool_slot_addr(&pool, slot) = 1;
}
#endif

static void assert_dies(void (*what)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		for (int sig = 1; sig < 32; sig++)
			signal(sig, SIG_DFL);
		close(2); /* the sanitizer's report */
		what();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

static void the_sanitizer_builds_catch_misuse(void **state SPW_UNUSED)
{
	assert_dies(put_twice);
	assert_dies(put_foreign);
#ifdef SPW_POOL_ASAN
	assert_dies(touch_free);
#endif
}
#else
static void the_sanitizer_builds_catch_misuse(void **state SPW_UNUSED)
{
	skip(); /* not a sanitizer build */
}
#endif

/* Heads do not overlap, each begins a cache line, and slots stay where they are. */
static void a_pool_is_split(void **state SPW_UNUSED)
{
	struct spw_region heads = {.bytes = 64 + SLOT_CNT * 128u};
	uint8_t memory[64];

	assert_false(spw_pool_is_split(&pool));
	assert_ptr_equal(spw_pool_head_addr(&pool, 7), spw_pool_slot_addr(&pool, 7));
	assert_int_equal(pool.head_bytes, SLOT_BYTES);
	assert_int_equal(spw_pool_split(&pool, &heads, 0, 70), -EINVAL); /* GPU memory */
	heads.host_va = memory;                                          /* never touched */
	assert_int_equal(spw_pool_split(&pool, &heads, 0, 0), -EINVAL);
	assert_int_equal(spw_pool_split(&pool, &heads, 0, SLOT_BYTES), -EINVAL);
	assert_int_equal(spw_pool_split(&pool, &heads, 32, 70), -EINVAL);
	assert_int_equal(spw_pool_split(&pool, &heads, 128, 70), -ENOSPC);
	assert_false(spw_pool_is_split(&pool));
	assert_int_equal(spw_pool_split(&pool, &heads, 64, 70), 0);
	assert_true(spw_pool_is_split(&pool));
	assert_int_equal(pool.head_bytes, 70);
	assert_int_equal(spw_pool_head_addr(&pool, 0) - heads.host_va, 64);
	assert_int_equal(spw_pool_head_addr(&pool, 9) - spw_pool_head_addr(&pool, 8), 128);
	assert_ptr_equal(spw_pool_slot_addr(&pool, 0), region.host_va + OFFSET);
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test_setup_teardown(each_slot_is_lent_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_slot_put_last_is_lent_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(slots_are_conserved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_pool_is_split, set_up, tear_down),
		cmocka_unit_test_setup_teardown(shapes_that_cannot_be_are_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_sanitizer_builds_catch_misuse, set_up,
						tear_down),
	};

	return cmocka_run_group_tests_name("pool", test, NULL, NULL);
}
