/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NCCL's profiler tables, called as NCCL calls them, and what is then on the live page of this
 * process. Argument: the version.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../unit/unit_test.h"
#include "ncclnet/prof_abi.h"
#include "page_kit.h"

#define HASH  0x1122334455667788ull
#define GROUP 1 /* a type that the mask does not name */

static int version;
static const void *table;
static const struct spw_hang_page *page;

/* ---- NCCL's calls ---- */

#define V2 ((const struct nccl_prof_v2 *)table)
#define V3 ((const struct nccl_prof_v3 *)table)
#define V4 ((const struct nccl_prof_v4 *)table)
#define V5 ((const struct nccl_prof_v5 *)table)

static void *nccl_init(int rank, int *mask)
{
	void *ctx = &ctx;
	int rc = version == 2   ? V2->init(&ctx, mask)
		 : version == 3 ? V3->init(&ctx, mask)
		 : version == 4 ? V4->init(&ctx, mask, "world", HASH, 2, 4, rank, NULL)
				: V5->init(&ctx, HASH, mask, "world", 2, 4, rank, NULL);

	assert_int_equal(rc, NCCL_SUCCESS);
	return ctx;
}

/* The event E of each version, whose members are set by SET. Returns: its handle. */
#define START(SET)                                                 \
	do {                                                       \
		int rc_;                                           \
		if (version == 2) {                                \
			struct nccl_prof_event_v2 e = {.rank = 1}; \
			SET;                                       \
			rc_ = V2->start(ctx, &handle, &e);         \
		} else if (version == 3) {                         \
			struct nccl_prof_event_v3 e = {.rank = 1}; \
			SET;                                       \
			rc_ = V3->start(ctx, &handle, &e);         \
		} else if (version == 4) {                         \
			struct nccl_prof_event_v4 e = {.rank = 1}; \
			SET;                                       \
			rc_ = V4->start(ctx, &handle, &e);         \
		} else {                                           \
			struct nccl_prof_event_v5 e = {.rank = 1}; \
			SET;                                       \
			rc_ = V5->start(ctx, &handle, &e);         \
		}                                                  \
		assert_int_equal(rc_, NCCL_SUCCESS);               \
	} while (0)

/* What only versions 2 and 3 have. */
#define NAMED(KIND)                                                   \
	do {                                                          \
		if (version <= 3) {                                   \
			struct nccl_prof_p2p_v2 *n = (void *)&e.KIND; \
			n->name = "world";                            \
			n->comm_hash = HASH;                          \
		}                                                     \
	} while (0)

static void *nccl_coll(void *ctx, uint64_t sequence, const char *function)
{
	void *handle = &handle;

	START(e.type = NCCL_PROF_COLL; NAMED(coll); e.coll.sequence = sequence;
	      e.coll.function = function; e.coll.count = 4096; e.coll.root = 0;
	      e.coll.datatype = "ncclBfloat16"; e.coll.algorithm = "RING";
	      e.coll.protocol = "SIMPLE");
	return handle;
}

static void *nccl_p2p(void *ctx, int peer)
{
	void *handle = &handle;

	START(e.type = NCCL_PROF_P2P; NAMED(p2p); e.p2p.function = "Send"; e.p2p.count = 77;
	      e.p2p.peer = peer; e.p2p.datatype = "ncclInt8");
	return handle;
}

static void *nccl_proxy_op(void *ctx, int pid, int is_send)
{
	void *handle = &handle;

	START(e.type = NCCL_PROF_PROXY_OP; e.proxy_op.pid = pid; e.proxy_op.is_send = is_send;
	      e.proxy_op.peer = 3);
	return handle;
}

static void *nccl_other(void *ctx, int type)
{
	void *handle = &handle;

	START(e.type = (__typeof__(e.type))type);
	return handle;
}

/* The rest is alike in all versions. */
static void nccl_finalize(void *ctx)
{
	assert_int_equal(V2->finalize(ctx), NCCL_SUCCESS);
}

/* ---- tests ---- */

static void names_the_rank(void **state SPW_UNUSED)
{
	int mask = 0;
	void *ctx[2] = {nccl_init(1, &mask), nccl_init(2, &mask)};
	struct spw_hang_comm c;

	assert_int_equal(mask, NCCL_PROF_COLL | NCCL_PROF_P2P | NCCL_PROF_PROXY_OP);
	page = page_map();
	c = page_comm(page, 0);
	assert_true(c.used && c.opened_tsc && c.opened_tsc < spw_cpu_counter());
	assert_int_equal(c.api, SPW_MIN(version, 5));
	if (version <= 3) {
		assert_true(c.rank == -1 && c.rank_cnt == -1 && c.comm_hash == 0);
		assert_null(nccl_coll(ctx[0], 0, "Broadcast"));
		c = page_comm(page, 0);
	} else {
		assert_true(c.rank_cnt == 4 && c.node_cnt == 2 && page_comm(page, 1).rank == 2);
	}
	assert_true(c.rank == 1 && c.comm_hash == HASH);
	assert_string_equal(c.name, "world");
	nccl_finalize(ctx[0]);
	assert_false(page_comm(page, 0).used);
	assert_true(page_comm(page, 1).used);
	nccl_finalize(ctx[1]);
	page_unmap(page);
	assert_false(page_is_there());
}

static void shows_the_last_operation(void **state SPW_UNUSED)
{
	const uint64_t before = spw_cpu_counter();
	int mask = 0;
	void *ctx = nccl_init(1, &mask);
	struct spw_hang_comm c;

	page = page_map();
	assert_null(nccl_coll(ctx, 41, "AllReduce"));
	assert_null(nccl_coll(ctx, 42, "ReduceScatterOfALongerNameThanFits"));
	assert_null(nccl_p2p(ctx, 3));
	assert_null(nccl_other(ctx, GROUP));
	c = page_comm(page, 0);
	assert_true(c.colls == 2 && c.p2ps == 1);
	assert_true(c.coll.sequence == 42 && c.coll.count == 4096 && c.coll.root == 0);
	assert_true(c.coll.begun_tsc >= before && c.coll.begun_tsc <= c.p2p.begun_tsc);
	assert_string_equal(c.coll.function, "ReduceScatterOfALongerN");
	assert_string_equal(c.coll.datatype, "ncclBfloat16");
	assert_string_equal(c.coll.algorithm, "RING");
	assert_string_equal(c.coll.protocol, "SIMPLE");
	assert_true(c.p2p.count == 77 && c.p2p.root == 3);
	assert_string_equal(c.p2p.function, "Send");
	nccl_finalize(ctx);
	page_unmap(page);
	assert_false(page_is_there());
}

/* Those of another process, as with PXN, have a context of that process: it is not followed. */
static void counts_operations_of_the_proxy(void **state SPW_UNUSED)
{
	int mask = 0;
	void *ctx = nccl_init(1, &mask), *op[3];
	struct spw_hang_comm c;

	page = page_map();
	for (int i = 0; i < 3; i++)
		op[i] = nccl_proxy_op(ctx, getpid(), i < 2);
	assert_null(nccl_proxy_op((void *)8, getpid() + 1, 1));
	c = page_comm(page, 0);
	assert_true(c.sends_begun == 2 && c.sends_ended == 0);
	assert_true(c.recvs_begun == 1 && c.recvs_ended == 0);
	assert_int_equal(V2->record(op[0], 19, NULL), NCCL_SUCCESS);
	assert_int_equal(V2->stop(op[0]), NCCL_SUCCESS);
	assert_int_equal(V2->stop(op[2]), NCCL_SUCCESS);
	c = page_comm(page, 0);
	assert_true(c.sends_ended == 1 && c.recvs_ended == 1);
	nccl_finalize(ctx);
	page_unmap(page);
	assert_false(page_is_there());
}

/* One communicator more than the page has room for goes on unseen. */
static void counts_what_it_leaves_out(void **state SPW_UNUSED)
{
	void *ctx[SPW_HANG_COMM_MAX + 1];
	int mask = 0;

	for (uint32_t i = 0; i <= SPW_HANG_COMM_MAX; i++) {
		mask = 0;
		ctx[i] = nccl_init(1, &mask);
		assert_true(mask);
	}
	page = page_map();
	assert_null(ctx[SPW_HANG_COMM_MAX]);
	assert_int_equal(page->comms_left_out, 1);
	assert_null(nccl_coll(ctx[SPW_HANG_COMM_MAX], 1, "AllGather"));
	assert_int_equal(page_comm(page, SPW_HANG_COMM_MAX - 1).colls, 0);
	for (uint32_t i = 0; i < SPW_HANG_COMM_MAX; i++)
		nccl_finalize(ctx[i]);
	page_unmap(page);
	assert_false(page_is_there());
}

static void can_be_turned_off(void **state SPW_UNUSED)
{
	int mask = 0;

	setenv("NCCL_SPINWIRE_LIVE", "0", 1);
	assert_null(nccl_init(1, &mask));
	assert_int_equal(mask, 0);
	assert_false(page_is_there());
	unsetenv("NCCL_SPINWIRE_LIVE");
}

static void a_forked_child_does_not_write(void **state SPW_UNUSED)
{
	int mask = 0, status;
	void *ctx = nccl_init(1, &mask), *op = nccl_proxy_op(ctx, getpid(), 1);
	pid_t pid;

	page = page_map();
	pid = fork();
	if (!pid) {
		nccl_coll(ctx, 9, "AllReduce");
		V2->stop(op);
		nccl_finalize(ctx);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(page_comm(page, 0).used && page_comm(page, 0).colls == 0 &&
		    page_comm(page, 0).sends_ended == 0);
	nccl_finalize(ctx);
	page_unmap(page);
	assert_false(page_is_there());
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_the_rank),
		cmocka_unit_test(shows_the_last_operation),
		cmocka_unit_test(counts_operations_of_the_proxy),
		cmocka_unit_test(counts_what_it_leaves_out),
		cmocka_unit_test(can_be_turned_off),
		cmocka_unit_test(a_forked_child_does_not_write),
	};
	const char *path = getenv("SPW_TEST_PLUGIN");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	char symbol[32];

	if (argc != 2 || !library)
		return 2;
	version = atoi(argv[1]);
	snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", version);
	table = dlsym(library, symbol);
	return table ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
