/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NIXL's agents over the plugin: what they move, what they notify, and how they end.
 */
#include "nixl_kit.h"

#include <algorithm>
#include <cstring>

#define BYTES ((size_t)4 << 20)

static kit_agent a, b;
static std::unique_ptr<kit_memory> mem_a, mem_b;

static void open_memory(size_t bytes)
{
	mem_a = std::make_unique<kit_memory>(bytes);
	mem_b = std::make_unique<kit_memory>(bytes);
	kit_must(a.agent->registerMem(mem_a->whole()), "register");
	kit_must(b.agent->registerMem(mem_b->whole()), "register");
}

static int open_both(void **)
{
	kit_open(a, "a");
	kit_open(b, "b");
	open_memory(BYTES);
	kit_load(a, b);
	return 0;
}

static int close_both(void **)
{
	a.agent.reset();
	b.agent.reset();
	mem_a.reset();
	mem_b.reset();
	return 0;
}

struct piece {
	size_t here, there, bytes;
};

/* Of 1 byte to 70 KB: four in a row at both ends, then a gap; the rows of b lie in reverse. */
static std::vector<piece> pieces()
{
	std::vector<piece> list;
	size_t here = 0, row = BYTES;

	for (size_t i = 0; here < BYTES / 2; i++) {
		size_t bytes[4], all = 3, at = 0;

		for (size_t j = 0; j < 4; j++)
			all += bytes[j] = 1 + (i * 4 + j) * (i * 4 + j) * 37 % 70000;
		row -= all;
		for (size_t j = 0; j < 4; at += bytes[j++])
			list.push_back({here + at, row + at, bytes[j]});
		here += all + 2;
	}
	return list;
}

static nixl_xfer_dlist_t list_of(const kit_memory &mem, const std::vector<piece> &list, bool here)
{
	nixl_xfer_dlist_t descs(DRAM_SEG);

	for (const piece &p : list)
		descs.addDesc(
			nixlBasicDesc((uintptr_t)mem.at + (here ? p.here : p.there), p.bytes, 0));
	return descs;
}

static nixlXferReqH *request(nixl_xfer_op_t op, const std::vector<piece> &list, const char *note)
{
	nixl_opt_args_t args;
	nixlXferReqH *req = nullptr;

	if (note)
		args.notif = note;
	kit_must(a.agent->createXferReq(op, list_of(*mem_a, list, true),
					list_of(*mem_b, list, false), "b", req, &args),
		 "make a transfer");
	return req;
}

/* What was to move has, and nothing beside it. */
static void expect_moved(const kit_memory &from, const kit_memory &to, std::vector<uint8_t> was,
			 const std::vector<piece> &list, bool write)
{
	for (const piece &p : list)
		memcpy(was.data() + (write ? p.there : p.here),
		       from.at + (write ? p.here : p.there), p.bytes);
	assert_memory_equal(to.at, was.data(), BYTES);
}

static std::vector<uint8_t> copy_of(const kit_memory &mem)
{
	return {mem.at, mem.at + mem.bytes};
}

static void writes_and_reads(void **)
{
	const std::vector<piece> list = pieces();

	for (nixl_xfer_op_t op : {NIXL_WRITE, NIXL_READ}) {
		const bool write = op == NIXL_WRITE;
		nixlXferReqH *req = request(op, list, write ? "written" : "read");

		for (uint8_t turn = 1; turn < 4; turn++) { /* one request, posted again */
			mem_a->fill(turn);
			mem_b->fill((uint8_t)(turn + 100));
			const auto was = copy_of(write ? *mem_b : *mem_a);

			kit_must(kit_run(a, b, req), "transfer");
			expect_moved(write ? *mem_a : *mem_b, write ? *mem_b : *mem_a, was, list,
				     write);
			kit_expect_notes(b, a, {write ? "written" : "read"});
		}
		kit_must(a.agent->releaseXferReq(req), "release");
	}
}

/* As vLLM does it: lists are prepared once, and requests name entries of them. */
static void prepared_lists(void **)
{
	const std::vector<piece> list = pieces();
	std::vector<int> every(list.size());
	nixlDlistH *near, *far;
	nixlXferReqH *req;
	nixl_opt_args_t args;

	for (size_t i = 0; i < every.size(); i++)
		every[i] = (int)i;
	std::reverse(every.begin(), every.end());
	kit_must(a.agent->prepXferDlist(NIXL_INIT_AGENT, list_of(*mem_a, list, true), near),
		 "prep");
	kit_must(a.agent->prepXferDlist("b", list_of(*mem_b, list, false), far), "prep");
	kit_must(a.agent->makeXferReq(NIXL_READ, near, every, far, every, req, &args), "make");
	mem_a->fill(7);
	mem_b->fill(70);
	const auto was = copy_of(*mem_a);
	kit_must(kit_run(a, b, req), "transfer");
	expect_moved(*mem_b, *mem_a, was, list, false);
	kit_must(a.agent->releaseXferReq(req), "release");
	kit_must(a.agent->releasedDlistH(near), "release");
	kit_must(a.agent->releasedDlistH(far), "release");
}

/* b has not loaded a: to it a is a stranger. */
static void notifications(void **)
{
	const std::vector<std::string> texts = {"", "one", std::string("\0\xff\0", 3),
						std::string(1 << 20, 'x'), "last"};

	for (const std::string &text : texts)
		kit_must(a.agent->genNotif("b", text), "notify");
	kit_expect_notes(b, a, texts);
	assert_true(b.agent->genNotif("a", "?") == NIXL_ERR_NOT_FOUND);
	kit_load(b, a);
	kit_must(b.agent->genNotif("a", "back"), "notify");
	kit_expect_notes(a, b, {"back"});
}

static void within_one_agent(void **)
{
	kit_memory other(BYTES);
	nixl_xfer_dlist_t near(DRAM_SEG), far(DRAM_SEG);
	nixl_opt_args_t args;
	nixlXferReqH *req;

	mem_a->fill(3);
	kit_must(a.agent->registerMem(other.whole()), "register");
	near.addDesc(nixlBasicDesc((uintptr_t)mem_a->at, BYTES, 0));
	far.addDesc(nixlBasicDesc((uintptr_t)other.at, BYTES, 0));
	args.notif = "copied";
	kit_must(a.agent->createXferReq(NIXL_WRITE, near, far, "a", req, &args), "make");
	kit_must(kit_run(a, a, req), "transfer");
	assert_memory_equal(other.at, mem_a->at, BYTES);
	kit_expect_notes(a, a, {"copied"});
	kit_must(a.agent->genNotif("a", "own"), "notify");
	kit_expect_notes(a, a, {"own"});
	kit_must(a.agent->releaseXferReq(req), "release");
	kit_must(a.agent->deregisterMem(other.whole()), "deregister");
}

/* Once deregisterMem has returned, no NIC writes to memory whose transfer was released in mid-air,
 * nor reads what is there then. */
static void released_in_flight(void **)
{
	const size_t bytes = (size_t)64 << 20;
	nixlXferReqH *req = request(NIXL_WRITE, pieces(), nullptr);
	kit_memory near(bytes), far(bytes);

	kit_must(b.agent->registerMem(far.whole()), "register");
	kit_load(a, b);
	kit_must(kit_run(a, b, req), "transfer"); /* the connection stands */
	for (int turn = 0; turn < 8; turn++) {
		nixlXferReqH *cut;

		memset(near.at, 1, bytes);
		memset(far.at, 2, bytes);
		kit_must(a.agent->registerMem(near.whole()), "register");
		kit_must(a.agent->createXferReq(turn % 2 ? NIXL_READ : NIXL_WRITE,
						near.whole().trim(), far.whole().trim(), "b", cut),
			 "make");
		assert_true(a.agent->postXferReq(cut) == NIXL_IN_PROG);
		for (int i = 0; i < turn; i++) {
			kit_turn(b);
			(void)a.agent->getXferStatus(cut);
		}
		kit_must(a.agent->releaseXferReq(cut), "release");
		kit_must(a.agent->deregisterMem(near.whole()), "deregister");
		memset(near.at, 3, bytes);
		for (const uint64_t end = kit_now_ms() + 100; kit_now_ms() < end; kit_turn(a))
			kit_turn(b);
		assert_true(near.at[0] == 3 && !memcmp(near.at, near.at + 1, bytes - 1));
		assert_null(memchr(far.at, 3, bytes));
	}
	kit_must(kit_run(a, b, req), "transfer");
	kit_must(a.agent->releaseXferReq(req), "release");
}

/* The name comes back with other bytes to connect by. */
static void peer_leaves_and_returns(void **)
{
	nixlXferReqH *req = request(NIXL_WRITE, pieces(), "never");
	nixlXferReqH *idle = request(NIXL_READ, pieces(), nullptr);

	kit_must(kit_run(a, b, req), "transfer");
	b.agent.reset();
	assert_true(kit_run(a, b, req) == NIXL_ERR_REMOTE_DISCONNECT);
	assert_true(a.agent->postXferReq(idle) == NIXL_ERR_NOT_FOUND); /* NIXL has dropped it */
	kit_open(b, "b");
	kit_must(b.agent->registerMem(mem_b->whole()), "register");
	kit_load(a, b);
	kit_must(a.agent->releaseXferReq(req), "release");
	kit_must(a.agent->releaseXferReq(idle), "release");
	req = request(NIXL_WRITE, pieces(), "again");
	mem_a->fill(9);
	const auto was = copy_of(*mem_b);
	kit_must(kit_run(a, b, req), "transfer");
	expect_moved(*mem_a, *mem_b, was, pieces(), true);
	kit_expect_notes(b, a, {"again"});
	kit_must(a.agent->releaseXferReq(req), "release");
}

/* It left before anything was asked of it. */
static void peer_was_never_there(void **)
{
	nixlXferReqH *req = request(NIXL_WRITE, pieces(), nullptr);

	b.agent.reset();
	assert_true(kit_run(a, b, req) == NIXL_ERR_REMOTE_DISCONNECT);
	kit_must(a.agent->releaseXferReq(req), "release");
}

/* Its owner has deregistered what a still knows: that request fails, and the next one of other
 * memory succeeds. */
static void memory_is_gone(void **)
{
	kit_memory other(BYTES);
	nixl_xfer_dlist_t far(DRAM_SEG);
	nixlXferReqH *req;

	kit_must(b.agent->registerMem(other.whole()), "register");
	kit_must(a.agent->invalidateRemoteMD("b"), "forget");
	kit_load(a, b);
	kit_must(b.agent->deregisterMem(other.whole()), "deregister");
	far.addDesc(nixlBasicDesc((uintptr_t)other.at, 4096, 0));
	nixl_xfer_dlist_t near(DRAM_SEG);
	near.addDesc(nixlBasicDesc((uintptr_t)mem_a->at, 4096, 0));
	kit_must(a.agent->createXferReq(NIXL_WRITE, near, far, "b", req), "make");
	assert_true(kit_run(a, b, req) == NIXL_ERR_BACKEND);
	kit_must(a.agent->releaseXferReq(req), "release");
	req = request(NIXL_WRITE, pieces(), nullptr);
	kit_must(kit_run(a, b, req), "transfer");
	kit_must(a.agent->releaseXferReq(req), "release");
}

static void parameters(void **)
{
	nixl_mem_list_t mems;
	nixl_b_params_t params;
	kit_agent c;

	kit_must(a.agent->getPluginParams("SPINWIRE", mems, params), "parameters");
	assert_true(params.count("rails") == 1 && params.count("secret") == 1);
	assert_true(mems == (nixl_mem_list_t{DRAM_SEG, VRAM_SEG}));
	kit_must(kit_try(c, "ac", {{"num_threads", "4"}}), "a key of another backend");
	c.agent.reset();
	assert_true(kit_try(c, "ac", {{"rails", "mlx5_9"}}) == NIXL_ERR_BACKEND);
	c.agent.reset();
	assert_true(kit_try(c, "ac", {{"secret", "/nowhere"}}) == NIXL_ERR_BACKEND);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(writes_and_reads, open_both, close_both),
		cmocka_unit_test_setup_teardown(prepared_lists, open_both, close_both),
		cmocka_unit_test_setup_teardown(notifications, open_both, close_both),
		cmocka_unit_test_setup_teardown(within_one_agent, open_both, close_both),
		cmocka_unit_test_setup_teardown(released_in_flight, open_both, close_both),
		cmocka_unit_test_setup_teardown(peer_leaves_and_returns, open_both, close_both),
		cmocka_unit_test_setup_teardown(peer_was_never_there, open_both, close_both),
		cmocka_unit_test_setup_teardown(memory_is_gone, open_both, close_both),
		cmocka_unit_test_setup_teardown(parameters, open_both, close_both),
	};

	kit_thread = argc > 1 && !strcmp(argv[1], "thread");
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
