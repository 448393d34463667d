/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "nixl_kit.h"

#include <chrono>
#include <sys/mman.h>
#include <thread>

bool kit_thread;

uint64_t kit_now_ms()
{
	using namespace std::chrono;

	return (uint64_t)duration_cast<milliseconds>(steady_clock::now().time_since_epoch())
		.count();
}

void kit_must(nixl_status_t status, const char *what)
{
	if (status != NIXL_SUCCESS)
		fail_msg("%s: %s", what, nixlEnumStrings::statusStr(status).c_str());
}

kit_memory::kit_memory(size_t len) : bytes(len)
{
	at = (uint8_t *)mmap(nullptr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	assert_true(at != MAP_FAILED);
}

kit_memory::~kit_memory()
{
	munmap(at, bytes);
}

void kit_memory::fill(uint8_t seed) const
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(i * 131 + (i >> 8) * 7 + seed);
}

nixl_reg_dlist_t kit_memory::whole(nixl_mem_t type) const
{
	nixl_reg_dlist_t list(type);

	list.addDesc(nixlBlobDesc((uintptr_t)at, bytes, 0, ""));
	return list;
}

nixl_status_t kit_try(kit_agent &a, const char *name, const nixl_b_params_t &extra)
{
	nixl_b_params_t params = {{"rails", *name == 'a' ? "mlx5_0+mlx5_2" : "mlx5_1+mlx5_3"},
				  {"bind", "127.0.0.1:0"}};
	nixlAgentConfig conf;

	for (const auto &[key, value] : extra)
		params[key] = value;
	conf.useProgThread = kit_thread;
	conf.syncMode = nixl_thread_sync_t::NIXL_THREAD_SYNC_RW;
	a.name = name;
	a.notes.clear();
	a.agent = std::make_unique<nixlAgent>(name, conf);
	return a.agent->createBackend("SPINWIRE", params, a.backend);
}

void kit_open(kit_agent &a, const char *name)
{
	kit_must(kit_try(a, name, {}), "create a backend");
}

void kit_load(kit_agent &a, kit_agent &b)
{
	std::string blob, name;

	kit_must(b.agent->getLocalMD(blob), "metadata");
	kit_must(a.agent->loadRemoteMD(blob, name), "load metadata");
	assert_true(name == b.name);
}

void kit_turn(kit_agent &a)
{
	if (a.agent)
		kit_must(a.agent->getNotifs(a.notes), "notifications");
	std::this_thread::yield();
}

nixl_status_t kit_run(kit_agent &a, kit_agent &b, nixlXferReqH *req)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	nixl_status_t status = a.agent->postXferReq(req);

	while (status == NIXL_IN_PROG) {
		if (kit_now_ms() >= end)
			fail_msg("a transfer is not done after %u ms", KIT_WAIT_MS);
		kit_turn(b);
		status = a.agent->getXferStatus(req);
	}
	return status;
}

void kit_expect_notes(kit_agent &to, kit_agent &from, const std::vector<std::string> &texts)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	std::vector<nixl_blob_t> &got = to.notes[from.name];

	while (got.size() < texts.size()) {
		if (kit_now_ms() >= end)
			fail_msg("%zu of %zu notifications", got.size(), texts.size());
		kit_turn(from);
		kit_turn(to);
	}
	assert_true(got == texts);
	got.clear();
}
