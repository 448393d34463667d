/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Windows, of two origins; put and get (access.c) treat both alike.
 *
 *   expose   region of a memory ─► one MR for each device, with rights of its own ─► WINDOW frame
 *   remote   WINDOW frame ─► conn->window[idx]: address, bytes, a key for each device of the peer
 *   export   the MRs of a memory ─► a blob (wire.h), which the caller carries to the peer
 *   import   blob ─► a window in conn->imported
 *
 * An exposed window is registered apart for its connection, so that its keys reach exactly its
 * bytes; until the connection ends its memory cannot be deregistered (user_cnt). An exported memory
 * has the keys that it was registered with, and may be deregistered at any time: accesses to it
 * fail from then on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"

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

static void window_forget(struct spw_xfer_window *window)
{
	xfer_list_del(&window->link);
	free(window);
}

/* The connection's QPs are gone: nobody reaches the memory any more. */
void xfer_window_free(struct spw_xfer_conn *conn)
{
	for (uint32_t i = 0; i < conn->exposed_cnt; i++)
		window_unexpose(conn, &conn->exposed[i]);
	conn->exposed_cnt = 0;
	while (conn->imported.next != &conn->imported)
		window_forget(spw_container_of(conn->imported.next, struct spw_xfer_window, link));
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
	conn->x->news++;
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

/* ---- exported memory ---- */

int spw_xfer_mem_export(const struct spw_xfer_mem *mem, struct spw_xfer_blob *blob_out)
{
	struct xfer_export e = {.addr = (uintptr_t)mem->req.addr,
				.bytes = mem->req.bytes,
				.is_host = mem->req.kind == SPW_XFER_HOST};

	memset(blob_out, 0, sizeof(*blob_out));
	if (!mem->req.exported)
		return spw_err(EINVAL, "this memory is not for peers: register it with `exported`");
	if (mem->req.bytes > XFER_EXPORT_MAX)
		return spw_err(ERANGE, "%zu bytes: a blob names at most %llu", mem->req.bytes,
			       (unsigned long long)XFER_EXPORT_MAX);
	for (uint32_t i = 0; i < mem->x->dev_cnt; i++)
		e.rkey[i] = xfer_rkey(mem->mr[i]);
	xfer_wire_blob_put(&e, mem->x->export_key, blob_out);
	return 0;
}

int spw_xfer_window_import(struct spw_xfer_conn *conn, const uint8_t *bytes, size_t len,
			   struct spw_xfer_window **window_out)
{
	struct spw_xfer_window *w;
	struct xfer_export e;
	int rc = xfer_conn_usable(conn);

	*window_out = NULL;
	rc = rc ? rc : xfer_wire_blob_get(bytes, len, conn->their_export_key, &e);
	if (rc)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return spw_err(ENOMEM, "no memory for a window");
	w->conn = conn;
	w->known = true;
	w->is_host = e.is_host;
	w->addr = e.addr;
	w->bytes = e.bytes;
	memcpy(w->rkey, e.rkey, sizeof(w->rkey));
	xfer_list_add(&conn->imported, &w->link);
	*window_out = w;
	return 0;
}

int spw_xfer_window_drop(struct spw_xfer_window *window)
{
	if (!window)
		return 0;
	if (!window->link.next)
		return spw_err(EINVAL, "an exposed window lives as long as its connection");
	if (window->user_cnt)
		return spw_err(EBUSY, "lists still use this window: test them until done");
	window_forget(window);
	return 0;
}
