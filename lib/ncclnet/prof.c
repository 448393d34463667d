/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NCCL's profiler tables: what is enqueued in each communicator, for comm[] of the live page. NCCL
 * finds them in this library by itself.
 *
 *   init           an entry of comm[], whose rank no call of the net plugin knows
 *   start  coll, p2p    the last operation, and how many there were; nothing is to be stopped
 *          proxy op     one more; its handle says which way, for stop
 *   finalize       the entry is free again
 *
 * Threads: NCCL makes the calls of a communicator for operations one at a time, in the thread that
 * enqueues, and those for its proxy's operations in the proxy's thread: each word has one writer.
 * The end of an operation is not known here: "stop" of one says that it was enqueued.
 *
 * With PXN an operation of the proxy comes from another process, and so do its pointers: they are
 * not followed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/spw_fork.h"
#include "ncclnet/live.h"
#include "ncclnet/prof_abi.h"
#include "time/spw_time.h"

#define EXPORT    __attribute__((visibility("default")))
#define PROF_MASK (NCCL_PROF_COLL | NCCL_PROF_P2P | NCCL_PROF_PROXY_OP)

/* A context of NCCL's. A handle is the address of the word that stop counts in. */
struct prof {
	struct spw_hang_page *page;
	struct spw_hang_comm *at;
	struct spw_hang_comm copy; /* of the entry; its words of counts are unused */
};

/* Cut if it does not fit; NULL is "". */
static void prof_text(char *to, size_t bytes, const char *from)
{
	const size_t len = from ? strnlen(from, bytes - 1) : 0;

	memset(to, 0, bytes);
	memcpy(to, from ? from : "", len);
}
#define PROF_TEXT(TO, FROM) prof_text(TO, sizeof(TO), FROM)

/* ---- communicators ---- */

static void prof_store(struct prof *p)
{
	spw_hang_entry_write(&p->at->mark, &p->at->used, &p->copy.used,
			     sizeof(p->copy) - offsetof(struct spw_hang_comm, used));
}

/* Of a new user the counts begin at 0. */
static void prof_store_all(struct prof *p)
{
	spw_hang_entry_write(&p->at->mark, &p->at->colls, &p->copy.colls,
			     sizeof(p->copy) - offsetof(struct spw_hang_comm, colls));
}

static struct prof *prof_make(struct spw_hang_page *page, const struct spw_hang_comm *what)
{
	struct spw_hang_comm *at = nnet_live_comm(page);
	struct prof *p = at ? calloc(1, sizeof(*p)) : NULL;

	if (!p) {
		nnet_live_comm_free(page, at);
		return NULL;
	}
	p->page = page;
	p->at = at;
	p->copy = *what;
	p->copy.used = 1;
	p->copy.opened_tsc = spw_tsc_now();
	p->copy.coll.root = p->copy.p2p.root = -1;
	prof_store_all(p);
	return p;
}

/* Without a page, or a free entry on it, NCCL goes on without: *ctx_out is NULL, and it is no
 * error. The mask is NCCL's for all communicators. */
static int prof_open(void **ctx_out, int *mask_out, const struct spw_hang_comm *what)
{
	struct spw_hang_page *page = spw_fork_cnt ? NULL : nnet_live_open();

	*ctx_out = NULL;
	if (!page)
		return NCCL_SUCCESS;
	*mask_out = PROF_MASK;
	*ctx_out = prof_make(page, what);
	if (!*ctx_out)
		nnet_live_close(page);
	return NCCL_SUCCESS;
}

static int prof_finalize(void *ctx)
{
	struct prof *p = ctx;
	struct spw_hang_page *page;

	if (!p || spw_fork_cnt)
		return NCCL_SUCCESS;
	page = p->page;
	p->copy = (struct spw_hang_comm){0};
	prof_store_all(p);
	nnet_live_comm_free(page, p->at);
	free(p);
	nnet_live_close(page);
	return NCCL_SUCCESS;
}

/* ---- operations ---- */

/* Versions 2 and 3 name the communicator only here. */
static void prof_name(struct prof *p, const char *name, uint64_t comm_hash, int rank)
{
	if (p->copy.comm_hash)
		return;
	p->copy.comm_hash = comm_hash;
	p->copy.rank = rank;
	PROF_TEXT(p->copy.name, name);
}

/* word: function, datatype, algorithm, protocol. */
static void prof_op(struct prof *p, struct spw_hang_op *op, uint64_t *cnt, struct spw_hang_op what,
		    const char *const word[4])
{
	*op = what;
	op->begun_tsc = spw_tsc_now();
	PROF_TEXT(op->function, word[0]);
	PROF_TEXT(op->datatype, word[1]);
	PROF_TEXT(op->algorithm, word[2]);
	PROF_TEXT(op->protocol, word[3]);
	prof_store(p);
	spw_thr_count(cnt, 1);
}

/* Returns: NULL: nothing is left to do. */
static struct prof *prof_begin(void *ctx, uint64_t type, const struct nccl_prof_proxy_op *op,
			       void **handle_out)
{
	struct prof *p = ctx;

	*handle_out = NULL;
	if (!p || spw_fork_cnt)
		return NULL;
	if (type != NCCL_PROF_PROXY_OP)
		return p;
	if (op->pid == nnet_live_pid()) {
		spw_thr_count(op->is_send ? &p->at->sends_begun : &p->at->recvs_begun, 1);
		*handle_out = op->is_send ? &p->at->sends_ended : &p->at->recvs_ended;
	}
	return NULL;
}

static int prof_stop(void *handle)
{
	uint64_t *ended = handle;

	if (ended && !spw_fork_cnt)
		spw_thr_count(ended, 1);
	return NCCL_SUCCESS;
}

static int prof_record(void *handle, int state, void *args)
{
	(void)handle;
	(void)state;
	(void)args;
	return NCCL_SUCCESS;
}

/* Macros, because the same fields lie at other offsets in each version's struct. */
#define PROF_START(P, E)                                                                          \
	do {                                                                                      \
		if ((E)->type == NCCL_PROF_COLL)                                                  \
			prof_op(P, &(P)->copy.coll, &(P)->at->colls,                              \
				(struct spw_hang_op){.sequence = (E)->coll.sequence,              \
						     .count = (E)->coll.count,                    \
						     .root = (E)->coll.root},                     \
				(const char *const[]){(E)->coll.function, (E)->coll.datatype,     \
						      (E)->coll.algorithm, (E)->coll.protocol});  \
		else if ((E)->type == NCCL_PROF_P2P)                                              \
			prof_op(P, &(P)->copy.p2p, &(P)->at->p2ps,                                \
				(struct spw_hang_op){.count = (E)->p2p.count,                     \
						     .root = (E)->p2p.peer},                      \
				(const char *const[]){(E)->p2p.function, (E)->p2p.datatype, NULL, \
						      NULL});                                     \
	} while (0)

#define PROF_START_NAMED(P, E)                                                        \
	do {                                                                          \
		if ((E)->type == NCCL_PROF_COLL)                                      \
			prof_name(P, (E)->coll.name, (E)->coll.comm_hash, (E)->rank); \
		else if ((E)->type == NCCL_PROF_P2P)                                  \
			prof_name(P, (E)->p2p.name, (E)->p2p.comm_hash, (E)->rank);   \
		PROF_START(P, E);                                                     \
	} while (0)

/* ---- versions 2 and 3 ---- */

static int prof_init_unnamed(void **ctx_out, int *mask_out, uint32_t api)
{
	const struct spw_hang_comm what = {.api = api, .rank = -1, .rank_cnt = -1, .node_cnt = -1};

	return prof_open(ctx_out, mask_out, &what);
}

static int prof_init_v2(void **ctx_out, int *mask_out)
{
	return prof_init_unnamed(ctx_out, mask_out, 2);
}

static int prof_init_v3(void **ctx_out, int *mask_out)
{
	return prof_init_unnamed(ctx_out, mask_out, 3);
}

static int prof_start_v2(void *ctx, void **handle_out, const struct nccl_prof_event_v2 *e)
{
	struct prof *p = prof_begin(ctx, e->type, &e->proxy_op, handle_out);

	if (p)
		PROF_START_NAMED(p, e);
	return NCCL_SUCCESS;
}

static int prof_start_v3(void *ctx, void **handle_out, const struct nccl_prof_event_v3 *e)
{
	struct prof *p = prof_begin(ctx, e->type, &e->proxy_op, handle_out);

	if (p)
		PROF_START_NAMED(p, e);
	return NCCL_SUCCESS;
}

/* ---- versions 4 .. 6 ---- */

/* What init says of a communicator, but for its name. */
#define PROF_WHO(API)                                                                   \
	(struct spw_hang_comm)                                                          \
	{                                                                               \
		.api = API, .comm_hash = comm_hash, .rank = rank, .rank_cnt = rank_cnt, \
		.node_cnt = node_cnt                                                    \
	}

static int prof_init_named(void **ctx_out, int *mask_out, struct spw_hang_comm what,
			   const char *name)
{
	PROF_TEXT(what.name, name);
	return prof_open(ctx_out, mask_out, &what);
}

static int prof_init_v4(void **ctx_out, int *mask_out, const char *name, uint64_t comm_hash,
			NCCL_PROF_PLACE)
{
	(void)log;
	return prof_init_named(ctx_out, mask_out, PROF_WHO(4), name);
}

static int prof_init_v5(void **ctx_out, uint64_t comm_hash, int *mask_out, const char *name,
			NCCL_PROF_PLACE)
{
	(void)log;
	return prof_init_named(ctx_out, mask_out, PROF_WHO(5), name);
}

static int prof_start_v4(void *ctx, void **handle_out, const struct nccl_prof_event_v4 *e)
{
	struct prof *p = prof_begin(ctx, e->type, &e->proxy_op, handle_out);

	if (p)
		PROF_START(p, e);
	return NCCL_SUCCESS;
}

static int prof_start_v5(void *ctx, void **handle_out, const struct nccl_prof_event_v5 *e)
{
	struct prof *p = prof_begin(ctx, e->type, &e->proxy_op, handle_out);

	if (p)
		PROF_START(p, e);
	return NCCL_SUCCESS;
}

/* ---- the tables ---- */

#define PROF_SHARED \
	.name = "spinwire", .stop = prof_stop, .record = prof_record, .finalize = prof_finalize

#define PROF_TABLE(VERSION, LAYOUT)                                         \
	extern const struct nccl_prof_v##LAYOUT ncclProfiler_v##VERSION;    \
	EXPORT const struct nccl_prof_v##LAYOUT ncclProfiler_v##VERSION = { \
		PROF_SHARED, .init = prof_init_v##LAYOUT, .start = prof_start_v##LAYOUT}

PROF_TABLE(2, 2);
PROF_TABLE(3, 3);
PROF_TABLE(4, 4);
PROF_TABLE(5, 5);
PROF_TABLE(6, 5);
