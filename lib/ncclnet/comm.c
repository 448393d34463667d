/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Connections. NCCL's have one direction: the side that listens receives. Nothing waits here:
 * connect and accept are called again until they give a connection.
 *
 *   receiver   listen ─► handle, which NCCL carries to the sender      accept ... ─► a comm
 *   sender     connect(handle) ... ─► a comm                           (... : called again)
 *   either     close, in any order; the context ends with its last user (context.c)
 *
 * Called by tables.c only. An attempt to connect is found again by its handle, since NCCL passes
 * nothing else. Every call of lib/xfer is made under the context's lock; nnet_ctx_get and
 * nnet_ctx_put are called outside of it, because they take the lock of the process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "ncclnet/live.h"
#include "ncclnet/report.h"

_Static_assert(SPW_XFER_HANDLE_BYTES <= NCCL_HANDLE_BYTES, "a handle fits NCCL's");

/* Returns: NCCL_SUCCESS, or what the call returns at once. */
static int comm_usable(const struct nnet_ctx *ctx, int dev, const char *what)
{
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (ctx && dev == 0)
		return NCCL_SUCCESS;
	spw_warn(ctx ? "%s: there is no device %d: 0 is the only one"
		     : "%s: init was not called, or failed (device %d)",
		 what, dev);
	return NCCL_INVALID_ARGUMENT;
}

/* ---- listen ---- */

/* A listener is a user of its context, and so is a connection: NCCL may finalize first. */
int nnet_listen(struct nnet_ctx *ctx, int dev, void *handle_out, void **listen_out)
{
	struct spw_xfer_handle handle;
	struct nnet_listen *l;
	int rc = comm_usable(ctx, dev, "listen");

	*listen_out = NULL;
	if (rc)
		return rc;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NCCL_SYSTEM_ERROR;
	l->ctx = ctx;
	pthread_mutex_lock(&ctx->lock);
	rc = spw_xfer_listen(ctx->x, &handle, &l->listener);
	if (!rc)
		l->live = nnet_live_wait(ctx, SPW_HANG_CONN_LISTENING,
					 spw_xfer_listener_text(l->listener));
	pthread_mutex_unlock(&ctx->lock);
	if (rc) {
		free(l);
		return nnet_fail(rc, "listen");
	}
	nnet_ctx_get(ctx);
	memset(handle_out, 0, NCCL_HANDLE_BYTES);
	memcpy(handle_out, &handle, sizeof(handle));
	*listen_out = l;
	return NCCL_SUCCESS;
}

/* Connections that lib/xfer has accepted and NCCL has not end with it. */
int nnet_close_listen(void *listen)
{
	struct nnet_listen *l = listen;
	struct nnet_ctx *ctx;

	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (!l)
		return NCCL_SUCCESS;
	ctx = l->ctx;
	pthread_mutex_lock(&ctx->lock);
	spw_xfer_listener_close(l->listener);
	nnet_live_end(ctx, l->live);
	pthread_mutex_unlock(&ctx->lock);
	free(l);
	nnet_ctx_put(ctx);
	return NCCL_SUCCESS;
}

/* ---- connections ---- */

/* Says which rails carry it, if not all of them do. */
static void say_rails(const struct nnet_comm *comm)
{
	struct spw_xfer_rail_stat s;

	for (uint32_t i = 0; spw_xfer_conn_rail_stat(comm->conn, i, &s); i++)
		if (s.state != SPW_XFER_RAIL_UP)
			spw_warn("%s: starts without rail %u (%s): %s",
				 spw_xfer_conn_text(comm->conn), i, s.device, s.why);
}

/* entry: that of what NCCL has waited for. Under the lock. */
static struct nnet_comm *comm_make(struct nnet_ctx *ctx, struct spw_xfer_conn *conn, bool is_send,
				   struct spw_hang_conn *entry)
{
	struct nnet_comm *comm = calloc(1, sizeof(*comm));

	if (!comm) {
		nnet_live_end(ctx, entry);
		spw_xfer_conn_close(conn);
		return NULL;
	}
	comm->ctx = ctx;
	comm->conn = conn;
	comm->is_send = is_send;
	for (uint32_t i = 0; i < NNET_REQ_CNT; i++) {
		comm->req[i].next_free = comm->free_req;
		comm->free_req = &comm->req[i];
	}
	comm->next = ctx->comms;
	ctx->comms = comm;
	nnet_report_conn(comm);
	nnet_live_ready(comm, entry);
	say_rails(comm);
	return comm;
}

/* Broken off by memory.c, it is a remote error: NCCL has given up its requests before. */
int nnet_comm_check(struct nnet_comm *comm)
{
	const int rc = comm->conn ? nnet_result(spw_xfer_conn_error(comm->conn))
				  : NCCL_REMOTE_ERROR;

	if (spw_unlikely(rc))
		nnet_live_view(comm);
	return rc;
}

/* The struct stays, because NCCL still has it and closes it later. */
void nnet_comm_break(struct nnet_comm *comm)
{
	nnet_report_conn_end(comm);
	nnet_live_end(comm->ctx, comm->live);
	comm->live = NULL;
	spw_xfer_conn_close(comm->conn);
	comm->conn = NULL;
}

/* For both directions. Requests of the connection that NCCL has not tested end with it. */
int nnet_close_comm(void *closed)
{
	struct nnet_comm *comm = closed, **at;
	struct nnet_ctx *ctx;

	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (!comm)
		return NCCL_SUCCESS;
	ctx = comm->ctx;
	pthread_mutex_lock(&ctx->lock);
	nnet_comm_break(comm);
	for (at = &ctx->comms; *at != comm; at = &(*at)->next)
		;
	*at = comm->next;
	pthread_mutex_unlock(&ctx->lock);
	free(comm);
	nnet_ctx_put(ctx);
	return NCCL_SUCCESS;
}

/* ---- connect ---- */

/* The attempt with this handle, or a new one. NCCL keeps nothing of an attempt but its handle. */
static struct nnet_pending *pending_of(struct nnet_ctx *ctx, const void *handle)
{
	struct nnet_pending *p;

	for (p = ctx->pending; p; p = p->next)
		if (!memcmp(&p->handle, handle, sizeof(p->handle)))
			return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	memcpy(&p->handle, handle, sizeof(p->handle));
	p->live = nnet_live_wait(ctx, SPW_HANG_CONN_CONNECTING, "");
	p->next = ctx->pending;
	ctx->pending = p;
	return p;
}

/* The attempt has ended; its connection, if it has one, is the caller's. */
static void pending_free(struct nnet_ctx *ctx, struct nnet_pending *p)
{
	struct nnet_pending **at;

	for (at = &ctx->pending; *at != p; at = &(*at)->next)
		;
	*at = p->next;
	free(p);
}

/* Under the lock. Returns: NCCL's result; *comm_out is NULL as long as it is not made. */
static int comm_connect_turn(struct nnet_ctx *ctx, const void *handle, struct nnet_comm **comm_out)
{
	struct nnet_pending *p = pending_of(ctx, handle);
	struct spw_hang_conn *entry;
	struct spw_xfer_conn *conn;
	int rc;

	if (!p)
		return NCCL_SYSTEM_ERROR;
	rc = spw_xfer_connect(ctx->x, &p->handle, &p->conn);
	if (rc == -EAGAIN) {
		nnet_live_asked(p->live, spw_xfer_conn_text(p->conn));
		return NCCL_SUCCESS;
	}
	conn = p->conn;
	entry = p->live;
	pending_free(ctx, p);
	if (rc) {
		nnet_live_end(ctx, entry);
		return nnet_fail(rc, "connect");
	}
	*comm_out = comm_make(ctx, conn, true, entry);
	return *comm_out ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;
}

/* Returns: NCCL_SUCCESS with *send_out NULL until the connection is made. */
int nnet_connect(struct nnet_ctx *ctx, int dev, const void *handle, void **send_out)
{
	struct nnet_comm *comm = NULL;
	int result = comm_usable(ctx, dev, "connect");

	*send_out = NULL;
	if (result)
		return result;
	pthread_mutex_lock(&ctx->lock);
	result = comm_connect_turn(ctx, handle, &comm);
	pthread_mutex_unlock(&ctx->lock);
	if (comm)
		nnet_ctx_get(ctx);
	*send_out = comm;
	return result;
}

/* Returns: NCCL_SUCCESS with *recv_out NULL until a sender is there. offload is for networks that
 * run in the GPU, and stays as it is. */
int nnet_accept(void *listen, void **recv_out, void **offload)
{
	struct nnet_listen *l = listen;
	struct spw_xfer_conn *conn;
	struct nnet_comm *comm = NULL;
	int rc;

	(void)offload;
	*recv_out = NULL;
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	pthread_mutex_lock(&l->ctx->lock);
	rc = spw_xfer_accept(l->listener, &conn);
	if (!rc) {
		comm = comm_make(l->ctx, conn, false, l->live);
		l->live = NULL;
	} else if (rc == -EAGAIN) {
		nnet_live_asked(l->live, spw_xfer_listener_text(l->listener));
	}
	pthread_mutex_unlock(&l->ctx->lock);
	if (rc == -EAGAIN)
		return NCCL_SUCCESS;
	if (rc)
		return nnet_fail(rc, "accept");
	if (!comm)
		return NCCL_SYSTEM_ERROR;
	nnet_ctx_get(l->ctx);
	*recv_out = comm;
	return NCCL_SUCCESS;
}
