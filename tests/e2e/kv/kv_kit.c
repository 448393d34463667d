/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "kv_kit.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

const char *kv_rails[2] = {"mlx5_0+mlx5_2", "mlx5_1+mlx5_3"};

void kv_take_rails(int argc, char **argv)
{
	for (int i = 1; argc == 3 && i < 3; i++)
		kv_rails[i - 1] = argv[i];
}

void kv_must(int rc, const char *what)
{
	if (rc)
		fail_msg("%s: %d: %s", what, rc, spw_err_text());
}

/* An ACK timeout of 4 ms and 3 retries: a black hole is noticed in some 20 ms. */
bool kv_own_threads(void)
{
	return getenv("SPW_TEST_THREAD") != NULL;
}

void agent_open(struct agent *a, const char *name, const char *rails,
		const struct spw_kv_conf *conf)
{
	struct spw_kv_conf c = conf ? *conf : (struct spw_kv_conf){0};
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .bytes = KV_MEM};

	c.name = a->name = name;
	c.name_bytes = strlen(name);
	c.thread |= kv_own_threads();
	c.xfer.rails = rails;
	c.xfer.bind = "127.0.0.1:0";
	c.xfer.timeout = 10;
	c.xfer.retry = 3;
	kv_must(spw_kv_open(&c, &a->kv), "open");
	spw_kv_info(a->kv, &a->info);
	req.addr = a->at =
		mmap(NULL, KV_MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(a->at != MAP_FAILED);
	kv_must(spw_kv_mem_reg(a->kv, &req, &a->mem), "register");
	spw_kv_mem_blob(a->mem, &a->blob);
}

void agent_close(struct agent *a)
{
	if (!a->kv)
		return;
	spw_kv_close(a->kv);
	munmap(a->at, KV_MEM);
	a->kv = NULL;
}

void agent_load(const struct agent *a, const struct agent *b)
{
	kv_must(spw_kv_peer_load(a->kv, b->name, strlen(b->name), b->info.byte,
				 sizeof(b->info.byte)),
		"load");
}

struct spw_kv_region *agent_region(const struct agent *a, const struct agent *b)
{
	struct spw_kv_region *region;

	kv_must(spw_kv_region_load(a->kv, b->name, strlen(b->name), b->blob.byte,
				   sizeof(b->blob.byte), KV_MEM, &region),
		"load a region");
	return region;
}

/* Whoever connects to itself makes a turn, and nothing else. */
static void agent_turn(const struct agent *a)
{
	kv_must(spw_kv_peer_connect(a->kv, a->name, strlen(a->name)), "a turn");
}

void agents_turn(const struct agent *a, const struct agent *b)
{
	agent_turn(a);
	if (b)
		agent_turn(b);
	sched_yield();
}

int agents_finish(const struct agent *a, const struct agent *b, struct spw_kv_transfer *t)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	int rc;

	while ((rc = spw_kv_check(t)) == -EAGAIN) {
		if (kit_now_ms() >= end)
			fail_msg("a transfer is not done after %u ms", KIT_WAIT_MS);
		agents_turn(b ? b : a, NULL);
	}
	return rc;
}

int agents_connect(const struct agent *a, const struct agent *b)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	int rc;

	while ((rc = spw_kv_peer_connect(a->kv, b->name, strlen(b->name))) == -EAGAIN) {
		if (kit_now_ms() >= end)
			fail_msg("%s is not connected after %u ms", a->name, KIT_WAIT_MS);
		if (b->kv)
			agent_turn(b);
	}
	return rc;
}

struct spw_kv_note *agents_note(const struct agent *from, const struct agent *to)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct spw_kv_note *note;

	while (spw_kv_note_take(to->kv, &note)) {
		if (kit_now_ms() >= end)
			fail_msg("no notification after %u ms", KIT_WAIT_MS);
		agent_turn(from);
	}
	return note;
}

void agents_expect_note(const struct agent *from, const struct agent *to, const void *text,
			size_t bytes)
{
	struct spw_kv_note *note = agents_note(from, to);

	assert_int_equal(note->name_bytes, strlen(from->name));
	assert_memory_equal(note->name, from->name, note->name_bytes);
	assert_int_equal(note->bytes, bytes);
	if (bytes)
		assert_memory_equal(note->text, text, bytes);
	spw_kv_note_free(note);
}
