/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Agents of one process, on devices of the software ConnectX, all moved on by the test's thread. An
 * agent has memory of KV_MEM bytes, exported and known to the others.
 */
#ifndef SPW_KV_KIT_H
#define SPW_KV_KIT_H

#include "../xfer/xfer_kit.h"
#include "kv/spw_kv.h"

#define KV_MEM ((size_t)8 << 20)

struct agent {
	const char *name; /* without a 0 inside */
	struct spw_kv *kv;
	struct spw_kv_info info;
	uint8_t *at; /* KV_MEM */
	struct spw_kv_mem *mem;
	struct spw_xfer_blob blob;
};

/* Of both agents: two each, or a test's arguments. */
extern const char *kv_rails[2];
void kv_take_rails(int argc, char **argv);

/* Whether agents of this run make progress by themselves. */
bool kv_own_threads(void);

void kv_must(int rc, const char *what);
/* conf NULL: the defaults; its name and rails are not read. */
void agent_open(struct agent *a, const char *name, const char *rails,
		const struct spw_kv_conf *conf);
/* One that is closed already is fine. */
void agent_close(struct agent *a);
/* a loads b's info. */
void agent_load(const struct agent *a, const struct agent *b);
/* b's memory, as a has it; b's info was loaded. */
struct spw_kv_region *agent_region(const struct agent *a, const struct agent *b);

/* One turn of both. b may be NULL. */
void agents_turn(const struct agent *a, const struct agent *b);
/* Until what was posted is done. Returns: what spw_kv_check returned. */
int agents_finish(const struct agent *a, const struct agent *b, struct spw_kv_transfer *t);
/* Until a is connected to b, or cannot be. */
int agents_connect(const struct agent *a, const struct agent *b);
/* Until `to` has a notification, and `from` has had its turns. */
struct spw_kv_note *agents_note(const struct agent *from, const struct agent *to);
/* The next one is of this agent, and has these bytes. */
void agents_expect_note(const struct agent *from, const struct agent *to, const void *text,
			size_t bytes);

#endif
