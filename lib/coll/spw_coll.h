/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One-shot collectives: all-reduce and all-gather between 2 .. 8 ranks, made for the small messages
 * of decoding (up to 2 MB in one round, more in several), where a ring of hops and a proxy for each
 * of them cost more than the bytes. Every rank writes its contribution into a window of every other
 * (lib/xfer), a flag follows, and each rank reduces all contributions by itself, in the order of
 * the ranks: all get the same bits. No byte is copied by a CPU other than a `cpu` executor's own.
 *
 *   executor: a kernel, or a CPU thread           proxy: a CPU thread        peers
 *   stages its contribution ─ post ────────────►  rings doorbells ─────────► windows, flags
 *   polls the flags in its windows ◄──────────────────────────────────────── likewise
 *   reduces, goes on
 *
 *   spw_coll_open ─► spw_coll_run                              cpu executor
 *                    spw_coll_start ─► spw_coll_test ...       cpu executor, without waiting
 *                    spw_coll_launch                           CUDA: into a stream
 *                    spw_coll_device ─► spwd_coll_*            CUDA: inside the caller's kernel
 *                 ─► spw_coll_close
 *
 * Ranks call alike: the n-th call of each rank has the same kind, type, op and count. What differs
 * is found out by all ranks that see it, named, and nobody gets a result. coll/spw_coll_round.h
 * has the memory of a round, and why two buffers are enough.
 *
 * Failures. A round that is not complete within timeout_ms, a rank that died or that calls
 * something else, ends the group: every later call fails with the same line, which names the rank.
 * Ranks report the end to each other, so all that live learn the same cause. A group that ended is
 * closed; the ranks that are left (spw_coll_lost) may open another. No wait is without end, on the
 * GPU neither: a kernel leaves when its time is over.
 *
 * There is no kernel while nothing is reduced, and kernels are loaded by spw_coll_open: lazy
 * loading of other modules, cudaFree and device resets never wait for this library between calls.
 *
 * Trust. Ranks trust the exchange; conf.xfer.secret keeps strangers out of the connections, the
 * secret of spw_coll_tcp_open out of the exchange. A peer can put false numbers into its
 * contribution, as in any all-reduce; it cannot change that of another rank, nor make a rank use a
 * length or an address.
 *
 * Thread: a group is used by one thread at a time ("owner" below). Groups share nothing.
 */
#ifndef SPW_COLL_H
#define SPW_COLL_H

#include "coll/spw_coll_round.h"
#include "xfer/spw_xfer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spw_coll;

/* ---- group ---- */

/* Purpose: brings blobs of all ranks together (an all-gather), as the stores of NCCL or torch do.
 *   Called by spw_coll_open once or more, on every rank alike.
 * Shape: mine has `bytes` bytes, all has room for rank_cnt times as many, in the order of ranks.
 * Returns: 0 or -errno, with a text (spw_err). It may block, but not for ever.
 * Thread: as spw_coll_open. */
typedef int spw_coll_exchange_fn(void *arg, const void *mine, void *all, size_t bytes);

enum spw_coll_exec {
	SPW_COLL_CPU,  /* the owner's thread, in spw_coll_test and spw_coll_run */
	SPW_COLL_CUDA, /* kernels on the current CUDA device */
};

enum spw_coll_progress {
	SPW_COLL_THREAD, /* a thread rings the doorbells; it spins while calls follow each other */
	SPW_COLL_CALLER, /* the owner does, in spw_coll_test, spw_coll_run and spw_coll_progress */
};

/* All zero but for rank_cnt and exchange: the defaults. */
struct spw_coll_conf {
	uint32_t rank, rank_cnt; /* rank_cnt 2 .. SPW_COLL_RANK_MAX */
	spw_coll_exchange_fn *exchange;
	void *exchange_arg;
	enum spw_coll_exec exec;
	enum spw_coll_progress progress;
	uint32_t bytes_max;        /* of a round's contribution, 4 .. SPW_COLL_BYTES_MAX, 0: that */
	uint32_t timeout_ms;       /* of a round, 1 .. 600000; 0: 5000 */
	uint32_t join_ms;          /* of spw_coll_open after the exchange; 0: 20000 */
	struct spw_xfer_conf xfer; /* rails, addresses, secret */
};

/* Purpose: makes a group: exchanges addresses, connects to every other rank, exposes windows.
 * Shape: bytes_max is the same on all ranks. Memory: about 2 * rank_cnt * bytes_max, pinned.
 * Owner: the caller, until spw_coll_close.
 * Thread: setup; blocks for milliseconds to join_ms.
 * Errors: -EINVAL conf, or ranks that differ in it; -ENOTSUP no CUDA, with the reason; -ETIMEDOUT
 *   a rank (named) did not join; those of exchange, spw_xfer_open, spw_xfer_mem_reg and
 *   spw_xfer_connect.
 */
int spw_coll_open(const struct spw_coll_conf *conf, struct spw_coll **coll_out);

/* Purpose: ends the group on this rank. What was started on the CPU is given up; with CUDA it waits
 *   for the device, where no kernel of the group outlives its timeout. Gives puts that peers still
 *   wait for 1 s. In a forked child it does nothing.
 * Shape: NULL is fine.
 * Thread: owner. */
void spw_coll_close(struct spw_coll *coll);

/* ---- calls ---- */

struct spw_coll_call {
	enum spw_coll_kind kind;
	enum spw_coll_type type;
	enum spw_coll_op op; /* of an all-reduce */
	uint64_t count;      /* elements of this rank's contribution; 0: a barrier */
	const void *in;      /* count elements, aligned to them */
	/* All-reduce: count elements; may be `in`. All-gather: rank_cnt * count elements by rank;
	 * `in` may be this rank's place in it. They do not overlap otherwise. */
	void *out;
};

/* Purpose: starts a call on the cpu executor. One at a time.
 * Owner: in and out are the library's until the call is done.
 * Thread: owner.
 * Errors: -EINVAL; -EMSGSIZE more than bytes_max; -EBUSY one is under way; -ECHILD this process
 *   was forked from the one that opened the group; those of spw_coll_error. */
int spw_coll_start(struct spw_coll *coll, const struct spw_coll_call *call);

/* Purpose: advances the call that was started. Never waits.
 * Returns: 0, *done_out says; -errno: it failed, out is as it was, and *done_out is true.
 * Thread: owner.
 * Errors: -ECHILD; those of spw_coll_error. */
int spw_coll_test(struct spw_coll *coll, bool *done_out);

/* Purpose: starts a call and waits for its end, timeout_ms at most.
 * Shape: more than bytes_max are reduced or gathered in pieces, a round each, in order. If one
 *   fails, those before it are in out.
 * Thread: owner.
 * Errors: those of spw_coll_start and spw_coll_error. */
int spw_coll_run(struct spw_coll *coll, const struct spw_coll_call *call);

/* Purpose: rings doorbells and watches the peers, with SPW_COLL_CALLER; else nothing.
 * Returns: what there was to do; 0: nothing.
 * Thread: owner. */
uint32_t spw_coll_progress(struct spw_coll *coll);

/* Purpose: launches a call into a CUDA stream: a kernel for each piece (spw_coll_run), which leaves
 *   when the result is there, or when its time is over. May be captured into a graph.
 * Shape: in and out are addresses of the device. All calls of a group go into one stream, or are
 *   ordered by events.
 * Owner: in and out are the kernel's until it has ended.
 * Returns: 0: launched. How it ended: spw_coll_error, after the stream was synchronized. A kernel
 *   of a group that failed leaves out as it is.
 * Thread: owner.
 * Errors: as spw_coll_start; -EIO CUDA, with its text. */
int spw_coll_launch(struct spw_coll *coll, const struct spw_coll_call *call, void *stream);

/* Purpose: what the caller's own kernels need for spwd_coll_* (coll/spwd_coll.cuh).
 * Thread: owner.
 * Errors: -ENOTSUP the executor is not CUDA. */
int spw_coll_device(const struct spw_coll *coll, struct spw_coll_dev *dev_out);

/* ---- what happened ---- */

/* Purpose: whether the group goes on.
 * Returns: 0; or -errno with the line that names the rank, again at each call:
 *   -ETIMEDOUT a rank sent nothing; -ECONNRESET a rank is gone; -EBADMSG a rank asks for something
 *   else; -EPROTO a rank breaks the protocol; -ECONNABORTED a peer ended the group; -ECANCELED
 *   spw_coll_abort.
 * Thread: owner. */
int spw_coll_error(struct spw_coll *coll);

/* Returns: a bit for each rank without which the others may open a group again; 0 if the group goes
 *   on, or no rank is to blame.
 * Thread: owner. */
uint32_t spw_coll_lost(const struct spw_coll *coll);

/* Purpose: ends the group: calls under way fail, kernels leave, peers are informed.
 * Thread: any. */
void spw_coll_abort(struct spw_coll *coll);

/* ---- exchange over TCP ---- */

struct spw_coll_tcp;

struct spw_coll_tcp_conf {
	const char *root;        /* "host:port" of rank 0, "[addr]:port" */
	uint32_t rank, rank_cnt; /* as in the group */
	uint32_t timeout_ms;     /* until all ranks are there, and of an exchange; 0: 20000 */
	const char *secret;      /* file, as in struct spw_xfer_conf; NULL: none */
};

/* Purpose: an exchange for programs that have none: rank 0 listens, the others connect. With a
 *   secret only who knows it is a rank, and nobody else can change what is exchanged. Without one
 *   whoever comes first with a rank's number has its place; the log warns, beyond loopback.
 *   Strangers, wrong ones and broken connections are turned away, and the others are waited for.
 * Owner: the caller, until spw_coll_tcp_close; not needed any more once the group is open.
 * Thread: setup; blocks until all ranks are there, timeout_ms at most.
 * Errors: -ETIMEDOUT at rank 0, with the rank that is missing and why the last one was turned away,
 *   at others if nobody listens; -EINVAL root; -EADDRINUSE; -EPROTO, at the rank that is wrong, for
 *   another rank_cnt or a number that was taken; -EACCES another secret; those of secret=
 * (mode=rc).
 */
int spw_coll_tcp_open(const struct spw_coll_tcp_conf *conf, struct spw_coll_tcp **tcp_out);
/* Purpose: a spw_coll_exchange_fn; arg is a struct spw_coll_tcp.
 * Thread: setup.
 * Errors: -ETIMEDOUT, -ECONNRESET, -EACCES with the rank. */
int spw_coll_tcp_exchange(void *arg, const void *mine, void *all, size_t bytes);
/* Shape: NULL is fine. Thread: setup. */
void spw_coll_tcp_close(struct spw_coll_tcp *tcp);

#ifdef __cplusplus
}
#endif
#endif
