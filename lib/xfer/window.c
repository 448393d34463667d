/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Windows: a region is registered apart for the connection, so that its keys reach exactly its
 * bytes, and announced by a frame; put and get are messages of the engine.
 *
 *   expose   region of a memory ─► one MR for each device, with rights of its own ─► WINDOW frame
 *   remote   WINDOW frame ─► conn->window[idx]: address, bytes, a key for each device of the peer
 *   put      checked ─► a message: chunks, then the flag on each rail that was used (flag.c)
 *   get      checked ─► a message: READs, without a flag: the request's end is what counts
 *
 * A window lives as long as its connection, and until then its memory cannot be deregistered
 * (user_cnt).
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"

#define FLAG_ALIGN    32u /* of the four words */
#define LINE_BYTES    64u
#define FLAG_MAX      ((1ull << 60) - 1)
#define WINDOW_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* ---- ours ---- */

/* A device that is gone gets no MR; its key in the frame is 0, and no rail uses it. */
static int window_reg(const struct xfer_dev *dev, const struct spw_xfer_mem *mem, void *addr,
		      uint64_t bytes, struct ibv_mr **mr_out)
{
	const struct rdma_dmabuf buf = {.fd = mem->req.dmabuf_fd,
					.offset = mem->req.dmabuf_offset + (uintptr_t)addr -
						  (uintptr_t)mem->req.addr,
					.addr = (uintptr_t)addr,
					.bytes = bytes};
	const int access = WINDOW_ACCESS | (dev->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);

	if (xfer_dev_is_gone(dev))
		return 0;
	if (mem->req.kind == SPW_XFER_DMABUF)
		return rdma_mr_reg_dmabuf(&dev->rdma, &buf, access, mr_out);
	return rdma_mr_reg_bytes(&dev->rdma, dev->rdma.pd, addr, bytes, access, mr_out);
}

static void window_unexpose(struct spw_xfer_conn *conn, struct xfer_exposed *e)
{
	for (uint32_t i = 0; i < conn->x->dev_cnt; i++)
		if (e->mr[i])
			ibv_dereg_mr(e->mr[i]);
	e->mem->user_cnt--;
	memset(e, 0, sizeof(*e));
}

/* Number idx is this call's place in the order of calls, on which both sides rely. */
int spw_xfer_window_expose(struct spw_xfer_conn *conn, struct spw_xfer_mem *mem, void *addr,
			   uint64_t bytes)
{
	struct xfer_frame f = {.type = XFER_FRAME_WINDOW,
			       .window = {.idx = conn->exposed_cnt,
					  .is_host = mem && mem->req.kind == SPW_XFER_HOST,
					  .addr = (uintptr_t)addr,
					  .bytes = bytes}};
	struct xfer_exposed *e;
	int rc = xfer_conn_usable(conn);

	if (!rc && (!mem || !bytes))
		rc = spw_err(EINVAL, "a window has memory and at least one byte");
	rc = rc ? rc : xfer_mem_check(conn->x, mem, (uintptr_t)addr, bytes);
	if (rc)
		return rc;
	if (conn->exposed_cnt == SPW_XFER_WINDOW_MAX)
		return spw_err(ENOSPC, "%u windows are exposed on this connection",
			       SPW_XFER_WINDOW_MAX);
	e = &conn->exposed[conn->exposed_cnt];
	e->mem = mem;
	mem->user_cnt++;
	for (uint32_t i = 0; i < conn->x->dev_cnt && !rc; i++) {
		rc = window_reg(&conn->x->dev[i], mem, addr, bytes, &e->mr[i]);
		f.window.rkey[i] = xfer_rkey(e->mr[i]);
	}
	if (rc) {
		window_unexpose(conn, e);
		return rc;
	}
	conn->exposed_cnt++;
	xfer_conn_send(conn, &f);
	return xfer_conn_usable(conn);
}

/* The connection's QPs are gone: nobody reaches the memory any more. */
void xfer_window_free(struct spw_xfer_conn *conn)
{
	for (uint32_t i = 0; i < conn->exposed_cnt; i++)
		window_unexpose(conn, &conn->exposed[i]);
	conn->exposed_cnt = 0;
}

/* ---- the peer's ---- */

/* idx and range were checked by wire.c; addresses are the peer's, and only its NIC resolves them.
 */
void xfer_window_on_frame(struct spw_xfer_conn *conn, const struct xfer_frame *frame)
{
	struct spw_xfer_window *w = &conn->window[frame->window.idx];

	if (w->known) {
		xfer_conn_breach(conn, "a window that was exposed before");
		return;
	}
	w->conn = conn;
	w->known = true;
	w->is_host = frame->window.is_host;
	w->addr = frame->window.addr;
	w->bytes = frame->window.bytes;
	memcpy(w->rkey, frame->window.rkey, sizeof(w->rkey));
}

/* Advances the endpoint by a turn: calling it again and again is enough. */
int spw_xfer_window_remote(struct spw_xfer_conn *conn, uint32_t idx,
			   struct spw_xfer_window **window_out)
{
	int rc = xfer_conn_usable(conn);

	*window_out = NULL;
	if (rc)
		return rc;
	if (idx >= SPW_XFER_WINDOW_MAX)
		return spw_err(EINVAL, "window %u: 0 .. %u", idx, SPW_XFER_WINDOW_MAX - 1);
	spw_xfer_progress(conn->x);
	if (!conn->window[idx].known)
		return -EAGAIN;
	*window_out = &conn->window[idx];
	return 0;
}

uint64_t spw_xfer_window_bytes(const struct spw_xfer_window *window)
{
	return window->bytes;
}

/* ---- put and get ---- */

/* The rails of this side; those of the peer show by -EREMOTEIO. */
static int check_atomics(const struct spw_xfer_conn *conn)
{
	for (uint32_t i = 0; i < conn->rail_cnt; i++)
		if (!conn->rail[i]->dev->atomics)
			return spw_err(EOPNOTSUPP,
				       "%s has no atomics, which flags need: use rails that have",
				       conn->rail[i]->dev->rdma.name);
	return 0;
}

/* All four words lie in the window and in one half of a cache line. */
static int check_flag(const struct spw_xfer_access *a)
{
	if (a->flag_offset % FLAG_ALIGN || a->window->addr % FLAG_ALIGN ||
	    !spw_in_range(a->flag, 1, FLAG_MAX))
		return spw_err(EINVAL,
			       "flag %#llx at offset %llu: 1 .. 2^60-1, at a multiple of %u in a "
			       "window that begins at one",
			       (unsigned long long)a->flag, (unsigned long long)a->flag_offset,
			       FLAG_ALIGN);
	if (a->window->bytes < FLAG_ALIGN || a->flag_offset > a->window->bytes - FLAG_ALIGN)
		return spw_err(ERANGE, "flag words at %llu: the window has %llu bytes",
			       (unsigned long long)a->flag_offset,
			       (unsigned long long)a->window->bytes);
	return 0;
}

/* All checks of a put or get, before anything of it is taken. */
static int access_verify(const struct spw_xfer_conn *conn, const struct spw_xfer_access *a,
			 bool put)
{
	int rc = xfer_conn_usable(conn);

	if (!rc && (!a->window || a->window->conn != conn))
		rc = spw_err(EINVAL, "this window is of another connection");
	rc = rc ? rc : xfer_mem_check(conn->x, a->mem, (uintptr_t)a->addr, a->bytes);
	if (!rc && (a->offset > a->window->bytes || a->bytes > a->window->bytes - a->offset))
		rc = spw_err(ERANGE, "%llu bytes at %llu: the window has %llu",
			     (unsigned long long)a->bytes, (unsigned long long)a->offset,
			     (unsigned long long)a->window->bytes);
	if (rc || a->flag_offset == SPW_XFER_NO_FLAG)
		return rc;
	if (!put)
		return spw_err(EINVAL, "a get has no flag");
	rc = check_flag(a);
	return rc ? rc : check_atomics(conn);
}

/* Whether the bytes and the first flag word may be one WRITE: the peer's device stores them in this
 * order (ibv_query_qp_data_in_order(3), which speaks of what a CPU reads), and they are within one
 * line of 64 bytes. It goes over rail 0, which every connection has. */
static bool access_joins(const struct spw_xfer_conn *conn, const struct spw_xfer_access *a)
{
	return a->bytes && a->bytes <= SPW_XFER_JOIN_BYTES &&
	       a->offset + a->bytes == a->flag_offset &&
	       (a->window->addr + a->flag_offset) % LINE_BYTES == LINE_BYTES / 2 &&
	       a->mem->req.kind == SPW_XFER_HOST && a->window->is_host &&
	       conn->rail[0]->theirs.in_order;
}

/* Like spw_xfer_send, but nothing waits for a grant: the message is active at once. */
static int access_start(struct spw_xfer_conn *conn, const struct spw_xfer_access *a, bool put,
			struct spw_xfer_req **req_out)
{
	const bool flagged = a->flag_offset != SPW_XFER_NO_FLAG;
	struct spw_xfer_req *req;
	struct xfer_msg *msg;
	int rc = access_verify(conn, a, put);

	*req_out = NULL;
	if (rc)
		return rc;
	msg = xfer_msg_free(conn->access);
	req = msg ? xfer_req_take(conn, XFER_REQ_ACCESS) : NULL;
	if (!req)
		return -EAGAIN;
	*msg = (struct xfer_msg){.req = req,
				 .kind = put ? XFER_MSG_PUT : XFER_MSG_GET,
				 .in_use = true,
				 .joined = flagged && access_joins(conn, a),
				 .mem = a->mem,
				 .laddr = (uintptr_t)a->addr,
				 .raddr = a->window->addr + a->offset,
				 .bytes = a->bytes,
				 .flag = flagged ? a->flag : 0,
				 .flag_raddr = flagged ? a->window->addr + a->flag_offset : 0};
	memcpy(msg->rkey, a->window->rkey, sizeof(msg->rkey));
	req->is_put = put;
	req->left = req->part_cnt = 1;
	req->mem[0] = a->mem;
	if (a->mem)
		a->mem->user_cnt++;
	conn->access_cnt++;
	xfer_queue_add(&conn->active, msg);
	xfer_engine_pump(conn);
	*req_out = req;
	return 0;
}

int spw_xfer_put(struct spw_xfer_conn *conn, const struct spw_xfer_access *access,
		 struct spw_xfer_req **req_out)
{
	return access_start(conn, access, true, req_out);
}

int spw_xfer_get(struct spw_xfer_conn *conn, const struct spw_xfer_access *access,
		 struct spw_xfer_req **req_out)
{
	return access_start(conn, access, false, req_out);
}
