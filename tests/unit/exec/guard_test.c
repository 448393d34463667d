/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * No handler touches a byte outside its frame: frames end at a page that cannot be touched, or
 * begin right behind one, in every length, with headers that claim more than is there. */
#include "../unit_test.h"

#include <sys/mman.h>

#include "exec/spw_handler.h"

#define PAGE 65536u /* covers every page size here */

static uint8_t *page; /* guard, PAGE bytes, guard */

static int page_make(void **state)
{
	page = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	page += PAGE;
	*state = page;
	return mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static int page_free(void **state)
{
	(void)state;
	return munmap(page - PAGE, 3 * PAGE);
}

/* Headers as far as they fit; every length field claims more than there is. */
static void claim_too_much(uint8_t *p, uint32_t len, uint32_t ihl, bool greedy)
{
	uint8_t h[100] = {[12] = 8, [23] = 17};
	uint32_t total = greedy ? 0xffff : len - 14;

	h[14] = (uint8_t)(0x40 | ihl / 4);
	h[16] = (uint8_t)(total >> 8);
	h[17] = (uint8_t)total;
	h[14 + ihl + 4] = (uint8_t)((total - (greedy ? 0 : ihl)) >> 8);
	h[14 + ihl + 5] = (uint8_t)(total - (greedy ? 0 : ihl));
	memcpy(p, h, SPW_MIN(len, (uint32_t)sizeof(h)));
}

static void try_one(const struct spw_handler *h, uint8_t *p, uint32_t len, uint32_t flags)
{
	struct spw_handler_env env = {.region_base = {(uint64_t)(uintptr_t)p}};
	struct spw_gring_desc desc = {spw_gring_lo(0, 0, 0), spw_gring_hi(0, len, 0, flags, 0, 1)};
	struct spw_tally tally;

	h->host(&desc, 1, &env, &tally);
	assert_int_equal(tally.frames, 1);
}

static void frames_at_guards(void **state)
{
	(void)state;
	for (uint32_t i = 0; spw_handler_builtin(i); i++)
		for (uint32_t len = 1; len <= 400; len++)
			for (uint32_t ihl = 20; ihl <= 60; ihl += 8)
				for (uint32_t k = 0; k < 4; k++) {
					uint8_t *p = k & 1 ? page : page + PAGE - len;

					claim_too_much(p, len, ihl, k & 2);
					try_one(spw_handler_builtin(i), p, len, 0);
					try_one(spw_handler_builtin(i), p, len, SPW_DESC_MSG);
				}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(frames_at_guards, page_make, page_free)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
