/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "lists.h"

struct agent a, b;
struct spw_kv_region *region;
struct spw_kv_near near[PIECES];
struct spw_kv_far far[PIECES];
static uint8_t *want; /* KV_MEM: what the end that is written to should hold */
static uint64_t seed;

int lists_open(void **state SPW_UNUSED)
{
	seed = 11;
	agent_open(&a, "a", kv_rails[0], NULL);
	agent_open(&b, "b", kv_rails[1], NULL);
	agent_load(&a, &b);
	region = agent_region(&a, &b);
	want = malloc(KV_MEM);
	assert_non_null(want);
	return 0;
}

int lists_close(void **state SPW_UNUSED)
{
	agent_close(&a);
	agent_close(&b);
	free(want);
	return 0;
}

/* ---- lists ---- */

void lay(uint32_t cnt, uint32_t most, bool dense)
{
	const uint64_t room = cnt ? KV_MEM / cnt : 0;
	uint64_t at = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		const uint64_t len = unit_random(&seed) % (SPW_MIN(most, room) + 1);
		const uint64_t to = dense ? at : i * 7919ull % cnt * room;

		near[i] = (struct spw_kv_near){a.mem, a.at + (dense ? at : i * room), len};
		far[i] = (struct spw_kv_far){region, to, len};
		at += len;
	}
	kit_fill(a.at, KV_MEM, seed);
	kit_fill(b.at, KV_MEM, seed + 1);
}

void expect(uint32_t cnt, bool write)
{
	memcpy(want, write ? b.at : a.at, KV_MEM);
	for (uint32_t i = 0; i < cnt; i++) {
		const size_t here = (size_t)((uint8_t *)near[i].addr - a.at);

		if (write)
			memcpy(want + far[i].offset, near[i].addr, near[i].bytes);
		else
			memcpy(want + here, b.at + far[i].offset, near[i].bytes);
	}
}

void expect_moved(bool write)
{
	const uint8_t *got = write ? b.at : a.at;

	if (!memcmp(got, want, KV_MEM))
		return;
	for (size_t i = 0; i < KV_MEM; i++)
		if (got[i] != want[i])
			fail_msg("byte %zu of a %s is wrong", i, write ? "write" : "read");
}

int try_make(uint32_t cnt, bool write, struct spw_kv_transfer **t_out)
{
	const struct spw_kv_lists lists = {near, far, cnt, cnt, write};

	return spw_kv_transfer_make(a.kv, b.name, strlen(b.name), &lists, t_out);
}

struct spw_kv_transfer *make(uint32_t cnt, bool write)
{
	struct spw_kv_transfer *t;

	kv_must(try_make(cnt, write, &t), "make");
	return t;
}

void pass(uint32_t cnt, bool write)
{
	struct spw_kv_transfer *t = make(cnt, write);

	expect(cnt, write);
	kv_must(spw_kv_post(t, &cnt, sizeof(cnt)), "post");
	kv_must(agents_finish(&a, &b, t), "a transfer");
	expect_moved(write);
	agents_expect_note(&a, &b, &cnt, sizeof(cnt));
	kv_must(spw_kv_release(t), "release");
}
