/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two of NIXL's agents in one process and thread, "a" and "b", whose backend is SPINWIRE, on
 * devices of the software ConnectX. Arguments of a test: "thread", if NIXL is to ask for a progress
 * thread.
 */
#ifndef SPW_NIXL_KIT_H
#define SPW_NIXL_KIT_H

#include <memory>
#include <string>
#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
}

#include "nixl.h"

#define KIT_WAIT_MS 20000u

/* Memory of its own mapping, so that a NIC which writes to it after its end is caught. */
class kit_memory
{
      public:
	uint8_t *at;
	size_t bytes;

	explicit kit_memory(size_t bytes);
	~kit_memory();
	kit_memory(const kit_memory &) = delete;
	void fill(uint8_t seed) const;
	nixl_reg_dlist_t whole(nixl_mem_t type = DRAM_SEG) const;
};

struct kit_agent {
	std::string name;
	std::unique_ptr<nixlAgent> agent;
	nixlBackendH *backend = nullptr;
	nixl_notifs_t notes; /* taken, and not looked at */
};

extern bool kit_thread;
uint64_t kit_now_ms();
void kit_must(nixl_status_t status, const char *what);
/* Each agent has rails of its own. extra: more parameters. */
nixl_status_t kit_try(kit_agent &a, const char *name, const nixl_b_params_t &extra);
void kit_open(kit_agent &a, const char *name);
/* a learns what b has registered. */
void kit_load(kit_agent &a, kit_agent &b);

/* Posts, and moves both on until it is done. b may have no agent. */
nixl_status_t kit_run(kit_agent &a, kit_agent &b, nixlXferReqH *req);
void kit_turn(kit_agent &a);
/* The next notifications of `from` at `to` are these, in this order, and no others. */
void kit_expect_notes(kit_agent &to, kit_agent &from, const std::vector<std::string> &texts);

#endif
