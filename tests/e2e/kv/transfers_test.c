/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Transfers between two agents of one process and one thread, within one agent, and those that are
 * refused. Arguments: the rails of both.
 */
#include "../../unit/unit_udmabuf.h"
#include "lists.h"

static void lists_of_every_length_move(void **state SPW_UNUSED)
{
	static const uint32_t cnt[] = {0, 1, 2, 100, PIECES};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(cnt); i++)
		for (uint32_t how = 0; how < 4; how++) {
			lay(cnt[i], i < 3 ? 3u << 20 : 1000, how & 1);
			pass(cnt[i], how & 2);
		}
}

static void one_transfer_is_posted_again_and_again(void **state SPW_UNUSED)
{
	struct spw_kv_transfer *t;

	lay(100, 5000, false);
	t = make(100, true);
	kv_must(spw_kv_check(t), "check before the first post");
	for (uint32_t i = 0; i < 50; i++) {
		kit_fill(a.at, KV_MEM, i);
		expect(100, true);
		kv_must(spw_kv_post(t, i % 2 ? "" : NULL, 0), "post");
		if (!i && !kv_own_threads()) /* cannot be done: nobody has connected */
			assert_int_equal(spw_kv_post(t, NULL, 0), -EBUSY);
		kv_must(agents_finish(&a, &b, t), "a transfer");
		expect_moved(true);
		if (i % 2)
			agents_expect_note(&a, &b, NULL, 0);
	}
	kv_must(spw_kv_release(t), "release");
}

/* More than lib/xfer takes at once, and a notification each. */
static void many_transfers_move_at_once(void **state SPW_UNUSED)
{
	static struct spw_kv_transfer *t[200];
	uint32_t seen = 0;

	lay(PIECES, 1000, false);
	expect(PIECES, true);
	for (uint32_t i = 0; i < 200; i++) {
		const struct spw_kv_lists lists = {near + i * 100, far + i * 100, 100, 100, true};

		kv_must(spw_kv_transfer_make(a.kv, "b", 1, &lists, &t[i]), "make");
		kv_must(spw_kv_post(t[i], &i, sizeof(i)), "post");
	}
	while (seen < 200) {
		struct spw_kv_note *note = agents_note(&a, &b);
		uint32_t i;

		memcpy(&i, note->text, sizeof(i));
		assert_true(i < 200);
		for (uint32_t j = i * 100; j < i * 100 + 100; j++)
			assert_memory_equal(b.at + far[j].offset, near[j].addr, near[j].bytes);
		spw_kv_note_free(note);
		seen++;
	}
	for (uint32_t i = 0; i < 200; i++) {
		kv_must(agents_finish(&a, &b, t[i]), "a transfer");
		kv_must(spw_kv_release(t[i]), "release");
	}
	expect_moved(true);
}

/* ---- to oneself ---- */

static void an_agent_moves_within_itself(void **state SPW_UNUSED)
{
	struct spw_kv_region *own = agent_region(&a, &a);
	struct spw_kv_transfer *t;

	for (uint32_t write = 0; write < 2; write++) {
		const uint64_t half = KV_MEM / 2;
		const struct spw_kv_near n[2] = {{a.mem, a.at, half - 9},
						 {a.mem, a.at + half - 9, 9}};
		const struct spw_kv_far f[2] = {{own, half, half - 9}, {own, 2 * half - 9, 9}};
		const struct spw_kv_lists lists = {n, f, 2, 2, write};

		kit_fill(a.at, half, 1);
		kit_fill(a.at + half, half, 2);
		kv_must(spw_kv_transfer_make(a.kv, "a", 1, &lists, &t), "make");
		kv_must(spw_kv_post(t, "done", 4), "post");
		kv_must(agents_finish(&a, NULL, t), "a transfer to itself");
		kit_expect_bytes(a.at, half, write ? 1 : 2);
		kit_expect_bytes(a.at + half, half, write ? 1 : 2);
		agents_expect_note(&a, &a, "done", 4);
		assert_int_equal(spw_kv_region_drop(own), -EBUSY);
		kv_must(spw_kv_release(t), "release");
	}
	assert_int_equal(spw_kv_mem_dereg(a.mem), -EBUSY);
	kv_must(spw_kv_region_drop(own), "drop");
	kv_must(spw_kv_mem_dereg(a.mem), "deregister");
	assert_int_equal(
		spw_kv_region_load(a.kv, "a", 1, a.blob.byte, sizeof(a.blob.byte), KV_MEM, &own),
		-EINVAL);
}

/* ---- a GPU's memory ---- */

#define GPU_BYTES (1u << 20)

static struct spw_kv_mem *gpu_open(struct unit_gpu *g, const struct agent *at)
{
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_DMABUF, .bytes = GPU_BYTES};
	struct spw_kv_mem *mem;

	assert_true(unit_gpu_open(g, GPU_BYTES, false));
	req.addr = g->addr;
	req.dmabuf_fd = g->dmabuf;
	kv_must(spw_kv_mem_reg(at->kv, &req, &mem), "register a GPU's memory");
	return mem;
}

/* Between b's memory and two of a's GPUs in turn: a read ends with a flush of each run of pieces.
 */
static void memory_of_gpus_is_moved(void **state SPW_UNUSED)
{
	struct spw_kv_region *own;
	struct spw_xfer_blob blob;
	struct spw_kv_transfer *t;
	struct unit_gpu gpu[2];
	struct spw_kv_mem *mem[2] = {gpu_open(&gpu[0], &a), gpu_open(&gpu[1], &a)};

	for (uint32_t i = 0; i < 256; i++) {
		near[i] =
			(struct spw_kv_near){mem[i / 3 % 2], gpu[i / 3 % 2].addr + i * 4096, 4096};
		far[i] = (struct spw_kv_far){region, (uint64_t)(255 - i) * 4096, 4096};
	}
	for (uint32_t write = 0; write < 2; write++) {
		kit_fill(b.at, GPU_BYTES, 1);
		kit_fill(gpu[0].seen, GPU_BYTES, 2);
		kit_fill(gpu[1].seen, GPU_BYTES, 3);
		t = make(256, write);
		kv_must(spw_kv_post(t, "x", 1), "post");
		kv_must(agents_finish(&a, &b, t), "a transfer");
		agents_expect_note(&a, &b, "x", 1);
		for (uint32_t i = 0; i < 256; i++)
			assert_memory_equal(gpu[i / 3 % 2].seen + i * 4096, b.at + far[i].offset,
					    4096);
		kv_must(spw_kv_release(t), "release");
	}
	spw_kv_mem_blob(mem[0], &blob);
	kv_must(spw_kv_region_load(a.kv, "a", 1, blob.byte, sizeof(blob.byte), GPU_BYTES, &own),
		"load");
	near[0] = (struct spw_kv_near){a.mem, a.at, 1};
	far[0] = (struct spw_kv_far){own, 0, 1};
	assert_int_equal(spw_kv_transfer_make(a.kv, "a", 1,
					      &(struct spw_kv_lists){near, far, 1, 1, true}, &t),
			 -EOPNOTSUPP);
	for (uint32_t i = 0; i < 2; i++) {
		kv_must(i ? 0 : spw_kv_region_drop(own), "drop");
		kv_must(spw_kv_mem_dereg(mem[i]), "deregister");
		unit_gpu_close(&gpu[i]);
	}
}

/* ---- refused ---- */

static void make_refused(uint32_t cnt, int error)
{
	struct spw_kv_transfer *t;

	assert_int_equal(try_make(cnt, true, &t), error);
	assert_null(t);
}

static void a_wrong_piece_is_named(void **state SPW_UNUSED)
{
	struct spw_kv_region *others = agent_region(&a, &a);
	struct spw_kv_lists lists = {near, far, 2, 3, true};
	struct spw_kv_transfer *t;

	lay(100, 1000, false);
	far[42].bytes = near[42].bytes = 500;
	near[42].bytes++;
	make_refused(100, -EINVAL);
	assert_non_null(strstr(spw_err_text(), "piece 42 of 100"));
	near[42].bytes--;
	far[42].offset = KV_MEM - 499;
	make_refused(100, -ERANGE);
	far[42].offset = UINT64_MAX;
	make_refused(100, -ERANGE);
	far[42].offset = 0;
	near[42].addr = a.at - 1;
	make_refused(100, -ERANGE);
	near[42].addr = a.at + KV_MEM - 499;
	make_refused(100, -ERANGE);
	near[42].addr = a.at;
	near[42].mem = b.mem;
	make_refused(100, -EINVAL);
	near[42].mem = a.mem;
	far[42].region = others;
	make_refused(100, -EINVAL);
	far[42].region = NULL;
	make_refused(100, -EINVAL);
	assert_int_equal(spw_kv_transfer_make(a.kv, "b", 1, &lists, &t), -EINVAL);
	assert_int_equal(spw_kv_transfer_make(a.kv, "c", 1, &lists, &t), -ENOENT);
	kv_must(spw_kv_mem_dereg(a.mem) == -EBUSY ? 0 : -1, "the region of its own uses it");
	kv_must(spw_kv_region_drop(others), "drop");
	kv_must(spw_kv_region_drop(region), "none of it counts as a user");
}

/* A blob that is not b's fails the transfer that uses it, and nothing else. */
static void blob_refused(const struct spw_xfer_blob *blob, uint64_t bytes)
{
	struct spw_kv_region *good = region;
	struct spw_kv_transfer *t;

	kv_must(spw_kv_region_load(a.kv, "b", 1, blob->byte, sizeof(blob->byte), bytes, &region),
		"load");
	lay(100, 1000, false);
	expect(0, true);
	t = make(100, true);
	kv_must(spw_kv_post(t, "never", 5), "post");
	assert_int_equal(agents_finish(&a, &b, t), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "agent b: "));
	expect_moved(true);
	assert_int_equal(spw_kv_check(t), -EINVAL); /* until it is posted again */
	kv_must(spw_kv_release(t), "release");
	kv_must(spw_kv_region_drop(region), "drop");
	region = good;
	lay(100, 1000, false);
	pass(100, true); /* its notification is the first */
}

static void hostile_blobs_are_refused(void **state SPW_UNUSED)
{
	struct spw_kv_region *none;
	struct spw_xfer_blob changed;

	for (uint32_t i = 0; i < 8; i++) {
		changed = b.blob;
		changed.byte[4 * i + i % 4] ^= (uint8_t)(1u << i);
		blob_refused(&changed, KV_MEM);
	}
	blob_refused(&a.blob, KV_MEM);
	blob_refused(&b.blob, KV_MEM - 1);
	blob_refused(&b.blob, KV_MEM + 1);
	for (size_t len = 0; len < sizeof(b.blob.byte); len++)
		assert_int_equal(spw_kv_region_load(a.kv, "b", 1, b.blob.byte, len, KV_MEM, &none),
				 -EINVAL);
	assert_null(none);
}

static void memory_that_is_gone_fails_the_transfer(void **state SPW_UNUSED)
{
	struct spw_kv_transfer *t;

	lay(100, 1000, false);
	t = make(100, false);
	kv_must(spw_kv_mem_dereg(b.mem), "deregister");
	kv_must(spw_kv_post(t, NULL, 0), "post");
	assert_int_equal(agents_finish(&a, &b, t), -EREMOTEIO);
	assert_non_null(strstr(spw_err_text(), "agent b: "));
	kv_must(spw_kv_notify(a.kv, "b", 1, "x", 1), "notify");
	agents_expect_note(&a, &b, "x", 1);
	kv_must(spw_kv_release(t), "release");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, lists_open, lists_close)
		CASE(lists_of_every_length_move),  CASE(one_transfer_is_posted_again_and_again),
		CASE(many_transfers_move_at_once), CASE(an_agent_moves_within_itself),
		CASE(memory_of_gpus_is_moved),     CASE(a_wrong_piece_is_named),
		CASE(hostile_blobs_are_refused),   CASE(memory_that_is_gone_fails_the_transfer),
	};

	kv_take_rails(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
