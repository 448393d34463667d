/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The live page of this process (hang/spw_hang_page.h): what is written to it, and when.
 *
 *   context.c, prof.c   open ─► the page, with its first user      close ─► it ends with the last
 *   comm.c              listen, connect ─► an entry of conn[] ─► the connection's ─► free again
 *   request.c           a request begins, ends ─► words of their own; test ─► nothing but a count
 *                       here, of which 64 together read the clock, and take a view of the
 *                       connection once in SPW_HANG_VIEW_US
 *   prof.c              what NCCL enqueues ─► comm[]
 *
 * NCCL_SPINWIRE_LIVE=0: there is no page, and every call returns at once. Calls with a context or
 * a connection are made under the context's lock, so an entry has one writer.
 */
#ifndef SPW_NCCLNET_LIVE_H
#define SPW_NCCLNET_LIVE_H

#include "hang/spw_hang_page.h"
#include "ncclnet/ncclnet.h"

#define NNET_LIVE_CALLS 64u /* a clock reading in so many, a power of 2 */

/* One more user of the page, which is made for the first. Returns: NULL: there is none. */
struct spw_hang_page *nnet_live_open(void);
void nnet_live_close(struct spw_hang_page *page);
/* Of the process that made the page. */
int32_t nnet_live_pid(void);
/* A context was opened (1), or ended (-1). */
void nnet_live_net(struct nnet_ctx *ctx, int change);

/* A free entry of comm[], for the writer of prof.c. Returns: NULL: none is free, which is counted.
 */
struct spw_hang_comm *nnet_live_comm(struct spw_hang_page *page);
void nnet_live_comm_free(struct spw_hang_page *page, struct spw_hang_comm *at);

/* An entry of conn[] for what NCCL waits for. Returns: NULL: none is free, which is counted. */
struct spw_hang_conn *nnet_live_wait(struct nnet_ctx *ctx, enum spw_hang_conn_state state,
				     const char *peer);
/* NCCL asks again, by connect or accept, for what is not there yet. at may be NULL. */
void nnet_live_asked(struct spw_hang_conn *at, const char *peer);
/* The entry is free again. at may be NULL. */
void nnet_live_end(struct nnet_ctx *ctx, struct spw_hang_conn *at);
/* The connection is made; at: the entry of what was waited for, or NULL: it gets one. */
void nnet_live_ready(struct nnet_comm *comm, struct spw_hang_conn *at);
/* A new view of the connection, now. */
void nnet_live_view(struct nnet_comm *comm);
/* The same, if it is due. */
void nnet_live_look(struct nnet_comm *comm);

/* NCCL asks for a request. */
SPW_INLINE void nnet_live_called(struct nnet_comm *comm)
{
	if (spw_unlikely(comm->live_calls++ % NNET_LIVE_CALLS == 0))
		nnet_live_look(comm);
}

/* A request has begun. The first ones look, too: NCCL need not test a receive. */
SPW_INLINE void nnet_live_begun(struct nnet_comm *comm)
{
	struct spw_hang_conn *at = comm->live;
	uint64_t begun;

	if (!at)
		return;
	begun = at->begun;
	spw_thr_store_rlx(&at->begun, begun + 1);
	if (spw_unlikely(begun % NNET_LIVE_CALLS == 0))
		nnet_live_look(comm);
}

/* A request has ended, at done_tsc. */
SPW_INLINE void nnet_live_ended(struct nnet_comm *comm, uint64_t done_tsc)
{
	struct spw_hang_conn *at = comm->live;

	if (!at)
		return;
	spw_thr_count(&at->ended, 1);
	spw_thr_store_rlx(&at->ended_tsc, done_tsc);
}

#endif
