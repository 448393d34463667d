/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Transfers that do not go their way: released, with a peer that ends, over rails that fail; and a
 * very long one. Arguments: the rails of both.
 */
#include "lists.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spw_err.h"

/* ---- a forked child ---- */

#define REFUSED(call)                                                     \
	do {                                                              \
		int rc = (call);                                          \
		if (rc != -ECHILD || !strstr(spw_err_text(), "forked")) { \
			fprintf(stderr, "%s: %d\n", #call, rc);           \
			_exit(1);                                         \
		}                                                         \
	} while (0)

/* Also with the agent's lock held by its thread, and nothing that a call would have freed. */
static void child_is_refused(struct spw_kv_transfer *t)
{
	const struct spw_xfer_mem_req req = {.addr = a.at, .bytes = 64};
	const struct spw_kv_lists lists = {.write = true};
	struct spw_kv_peer_stat peer_stat;
	struct spw_xfer_rail_stat rail_stat;
	struct spw_kv_transfer *t2;
	struct spw_kv_region *r;
	struct spw_kv_note *note;
	struct spw_kv_mem *m;
	struct spw_kv_stat stat;

	alarm(20);
	REFUSED(spw_kv_peer_load(a.kv, "b", 1, &b.info, sizeof(b.info)));
	REFUSED(spw_kv_peer_connect(a.kv, "b", 1));
	REFUSED(spw_kv_peer_drop(a.kv, "b", 1));
	REFUSED(spw_kv_notify(a.kv, "b", 1, "x", 1));
	REFUSED(spw_kv_note_take(a.kv, &note));
	REFUSED(spw_kv_mem_reg(a.kv, &req, &m));
	REFUSED(spw_kv_mem_dereg(a.mem));
	REFUSED(spw_kv_region_load(a.kv, "b", 1, &b.blob, sizeof(b.blob), KV_MEM, &r));
	REFUSED(spw_kv_region_drop(region));
	REFUSED(spw_kv_transfer_make(a.kv, "b", 1, &lists, &t2));
	REFUSED(spw_kv_post(t, "x", 1));
	REFUSED(spw_kv_check(t));
	REFUSED(spw_kv_release(t));
	spw_kv_stat(a.kv, &stat);
	if (stat.posted || spw_kv_peer_stat(a.kv, 0, &peer_stat) ||
	    spw_kv_rail_stat(a.kv, 0, &rail_stat))
		_exit(2);
	spw_kv_close(a.kv);
	_exit(0);
}

static void a_forked_child_is_refused(void **state SPW_UNUSED)
{
	struct spw_kv_transfer *t;
	int status;
	pid_t pid;

	kv_must(agents_connect(&a, &b), "connect");
	lay(PIECES, 1000, false);
	expect(PIECES, true);
	t = make(PIECES, true);
	kv_must(spw_kv_post(t, NULL, 0), "post");
	pid = fork();
	if (!pid)
		child_is_refused(t);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	kv_must(agents_finish(&a, &b, t), "the parent's transfer");
	expect_moved(true);
	kv_must(spw_kv_release(t), "release");
}

/* ---- release and end ---- */

static void what_a_transfer_uses_stays(void **state SPW_UNUSED)
{
	struct spw_kv_transfer *t;

	lay(PIECES, 1000, false);
	t = make(PIECES, true);
	assert_int_equal(spw_kv_mem_dereg(a.mem), -EBUSY);
	assert_int_equal(spw_kv_region_drop(region), -EBUSY);
	kv_must(spw_kv_release(t), "release");
	kv_must(spw_kv_region_drop(region), "drop");
	kv_must(spw_kv_mem_dereg(a.mem), "deregister");
}

/* It frees itself; afterwards nothing of it moves any more, and it does not notify. A thread of the
 * agent's own may have finished it, or begin to notify, before it is released. */
static void a_released_transfer_stops(void **state SPW_UNUSED)
{
	const bool own_thread = kv_own_threads();
	uint32_t stopped = 0;
	struct spw_kv_stat stat;

	kv_must(agents_connect(&a, &b), "connect");
	for (uint32_t write = 0; write < 2; write++) {
		struct spw_kv_transfer *t;
		uint64_t end;
		int rc;

		lay(PIECES, 1000, false);
		t = make(PIECES, write);
		end = kit_now_ms() + KIT_WAIT_MS;
		kv_must(spw_kv_post(t, own_thread ? NULL : "never", own_thread ? 0 : 5), "post");
		rc = spw_kv_release(t);
		assert_true(rc == -EINPROGRESS || (own_thread && !rc));
		stopped += rc == -EINPROGRESS;
		if (!own_thread)
			assert_int_equal(spw_kv_region_drop(region), -EBUSY);
		while (spw_kv_region_drop(region)) {
			agents_turn(&a, &b);
			assert_true(kit_now_ms() < end);
		}
		region = agent_region(&a, &b);
		lay(PIECES, 1000, false); /* whatever still moved would show */
		expect(0, write);
		for (uint32_t i = 0; i < 1000; i++)
			agents_turn(&a, &b);
		expect_moved(write);
	}
	spw_kv_stat(a.kv, &stat);
	assert_int_equal(stat.cancelled, stopped);
	assert_int_equal(stat.done + stat.failed, 2 - stopped);
	kv_must(spw_kv_notify(a.kv, "b", 1, "x", 1), "notify");
	agents_expect_note(&a, &b, "x", 1);
}

/* Before a connection stands nothing has a hold on it. */
static void a_transfer_that_waits_is_released_at_once(void **state SPW_UNUSED)
{
	struct spw_kv_transfer *t;

	lay(100, 1000, false);
	t = make(100, true);
	kv_must(spw_kv_post(t, "never", 5), "post");
	kv_must(spw_kv_release(t), "release");
	kv_must(spw_kv_release(NULL), "release nothing");
	kv_must(spw_kv_region_drop(region), "drop");
	kv_must(spw_kv_mem_dereg(a.mem), "deregister");
}

static void a_peer_that_ends_fails_all_of_it(void **state SPW_UNUSED)
{
	struct spw_kv_transfer *t[3];

	kv_must(agents_connect(&a, &b), "connect");
	lay(PIECES, 1000, false);
	for (uint32_t i = 0; i < 3; i++) {
		t[i] = make(PIECES, i % 2);
		kv_must(spw_kv_post(t[i], "x", 1), "post");
	}
	agents_turn(&a, &b);
	agent_close(&b);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(agents_finish(&a, NULL, t[i]), -ECONNRESET);
		assert_non_null(strstr(spw_err_text(), "agent b: "));
		assert_int_equal(spw_kv_post(t[i], NULL, 0), -ECONNRESET);
	}
	kv_must(spw_kv_release(t[0]), "release");
	kv_must(spw_kv_peer_drop(a.kv, "b", 1), "drop");
	kv_must(spw_kv_release(t[1]), "release what a dropped agent left");
	agent_open(&b, "b", kv_rails[1], NULL);
	agent_load(&a, &b);
	assert_int_equal(spw_kv_post(t[2], NULL, 0), -ECONNRESET); /* of the old one */
	assert_non_null(strstr(spw_err_text(), "agent b: "));
	kv_must(spw_kv_release(t[2]), "release");
	kv_must(spw_kv_region_drop(region), "drop");
	region = agent_region(&a, &b);
	lay(100, 1000, false);
	pass(100, false);
}

/* ---- rails ---- */

/* While a transfer is under way, some way in. */
static void harm(bool write, const char *line)
{
	struct spw_kv_peer_stat stat;
	struct spw_kv_transfer *t;
	uint64_t moved = 0, before, end;

	lay(PIECES, 1000, false);
	expect(PIECES, write);
	t = make(PIECES, write);
	assert_true(spw_kv_peer_stat(a.kv, 1, &stat));
	before = stat.rail[0].tx_chunks + stat.rail[1].tx_chunks;
	kv_must(spw_kv_post(t, "x", 1), "post");
	while (moved < 500) {
		agents_turn(&a, &b);
		assert_true(spw_kv_peer_stat(a.kv, 1, &stat));
		moved = stat.rail[0].tx_chunks + stat.rail[1].tx_chunks - before;
	}
	kit_control("mlx5_1", NULL, "%s", line);
	kv_must(agents_finish(&a, &b, t), "a transfer");
	expect_moved(write);
	agents_expect_note(&a, &b, "x", 1);
	kit_control("mlx5_1", NULL, "fault loss=0");
	kit_control("mlx5_1", NULL, "fault port-rate=none");
	end = kit_now_ms() + KIT_WAIT_MS;
	do {
		agents_turn(&a, &b);
		assert_true(spw_kv_peer_stat(a.kv, 1, &stat));
	} while ((stat.rail[0].state != SPW_XFER_RAIL_UP ||
		  (stat.rail_cnt > 1 && stat.rail[1].state != SPW_XFER_RAIL_UP)) &&
		 kit_now_ms() < end);
	assert_true(kit_now_ms() < end);
	kv_must(spw_kv_release(t), "release");
}

static void a_transfer_survives_its_rails(void **state SPW_UNUSED)
{
	struct spw_kv_peer_stat stat;

	kv_must(agents_connect(&a, &b), "connect");
	for (uint32_t write = 0; write < 2; write++) {
		harm(write, "link-down=50ms");
		harm(write, "fault port-rate=0.05");
		harm(write, "fault loss=0.01");
		if (strchr(kv_rails[0], '+'))
			harm(write, "fault loss=1");
	}
	assert_true(spw_kv_peer_stat(a.kv, 1, &stat));
	assert_int_equal(stat.state, SPW_KV_UP);
	assert_int_equal(stat.rail_cnt, strchr(kv_rails[0], '+') ? 2 : 1);
	for (uint32_t i = 0; i < stat.rail_cnt; i++)
		assert_true(stat.rail[i].tx_bytes);
	assert_true(stat.written_bytes && stat.read_bytes);
}

/* ---- size ---- */

/* So many pieces that nothing quadratic would end. They lie from the end to the beginning, so that
 * none follows another, and begin again at the end. */
static void a_long_list_moves(void **state SPW_UNUSED)
{
	const char *text = getenv("SPW_TEST_PIECE");
	const uint32_t cnt = 112000, bytes = text ? (uint32_t)atoi(text) : 200;
	const uint32_t places = (uint32_t)SPW_MIN(KV_MEM / bytes - 1, 104729u);
	struct spw_kv_near *n = calloc(cnt, sizeof(*n));
	struct spw_kv_far *f = calloc(cnt, sizeof(*f));
	const struct spw_kv_lists lists = {n, f, cnt, cnt, true};
	struct spw_kv_peer_stat stat;
	struct spw_kv_transfer *t;

	assert_true(n && f);
	kit_fill(a.at, KV_MEM, 8);
	memset(b.at, 0, KV_MEM);
	for (uint32_t i = 0; i < cnt; i++) {
		const uint64_t place = places - 1 - i % places;

		n[i] = (struct spw_kv_near){a.mem, a.at + place * bytes, bytes};
		f[i] = (struct spw_kv_far){region, place * bytes, bytes};
	}
	kv_must(spw_kv_transfer_make(a.kv, "b", 1, &lists, &t), "make");
	free(n);
	free(f);
	kv_must(spw_kv_post(t, "x", 1), "post");
	while (spw_kv_check(t) == -EAGAIN)
		agents_turn(&b, NULL);
	kv_must(spw_kv_check(t), "a long transfer");
	kit_expect_bytes(b.at, (size_t)places * bytes, 8);
	assert_true(spw_kv_peer_stat(a.kv, 1, &stat));
	assert_int_equal(stat.written_bytes, (uint64_t)cnt * bytes);
	assert_in_range(stat.rail[0].tx_bytes + stat.rail[1].tx_bytes, stat.written_bytes,
			2 * stat.written_bytes);
	agents_expect_note(&a, &b, "x", 1);
	kv_must(spw_kv_release(t), "release");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, lists_open, lists_close)
		CASE(a_forked_child_is_refused),
		CASE(what_a_transfer_uses_stays),
		CASE(a_released_transfer_stops),
		CASE(a_transfer_that_waits_is_released_at_once),
		CASE(a_peer_that_ends_fails_all_of_it),
		CASE(a_transfer_survives_its_rails),
		CASE(a_long_list_moves),
	};
	const struct CMUnitTest size[] = {CASE(a_long_list_moves)};

	kv_take_rails(argc, argv);
	if (getenv("SPW_TEST_PIECE"))
		return cmocka_run_group_tests(size, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
