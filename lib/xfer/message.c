/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Requests: send, receive, test. The engine moves the bytes.
 *
 *   spw_xfer_send   a message waits (pending) ─► a grant with its tag ─► active ─► chunks, end
 *   spw_xfer_recv   a slot for each part ─► grants, written to the sender's mailbox ─► ends arrive
 *   spw_xfer_test   house, if it is due ─► one turn of the connection ─► done: the request is free
 *
 * Messages and requests lie in arrays of the connection: the data path allocates nothing, and a
 * full array is -EAGAIN. A request is done when all of its parts are (left 0); take.c and flush.c
 * finish parts. Memory counts its users from the start of a request until xfer_req_give.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"

/* ---- requests ---- */

/* The caller sets part_cnt and left. */
struct spw_xfer_req *xfer_req_take(struct spw_xfer_conn *conn, enum xfer_req_kind kind)
{
	struct spw_xfer_req *req = conn->free_req;

	if (!req)
		return NULL;
	conn->free_req = req->next_free;
	memset(req, 0, sizeof(*req));
	req->conn = conn;
	req->kind = kind;
	req->in_use = true;
	req->stamps.started = spw_tsc_now();
	return req;
}

/* Memory may be deregistered from here on. Also for requests of a connection that is freed. */
void xfer_req_give(struct spw_xfer_req *req)
{
	for (uint32_t i = 0; i < req->part_cnt; i++)
		if (req->mem[i])
			req->mem[i]->user_cnt--;
	if (req->piece)
		xfer_list_use(req, -1);
	req->in_use = false;
	req->part_cnt = 0;
	req->next_free = req->conn->free_req;
	req->conn->free_req = req;
}

/* Only what succeeded counts, and a flush moves no bytes of its own. */
static void req_count(struct spw_xfer_req *req, uint64_t bytes)
{
	struct spw_xfer_stat *stat = &req->conn->x->stat;

	switch (req->kind) {
	case XFER_REQ_SEND:
		stat->tx_msgs++;
		stat->tx_bytes += bytes;
		break;
	case XFER_REQ_RECV:
		stat->rx_msgs++;
		stat->rx_bytes += bytes;
		break;
	case XFER_REQ_ACCESS:
		stat->puts += req->is_put;
		stat->gets += !req->is_put;
		stat->access_bytes += bytes;
		break;
	case XFER_REQ_FLUSH:
		break;
	}
}

void xfer_req_part(struct spw_xfer_req *req, uint32_t part, uint64_t bytes, int error)
{
	req->bytes[part] = bytes;
	req->left--;
	if (!req->left) {
		req->stamps.done = spw_tsc_now();
		req->conn->x->news++;
	}
	if (error)
		req->error = error;
	if (!req->error)
		req_count(req, bytes);
}

/* ---- send ---- */

struct xfer_msg *xfer_msg_free(struct xfer_msg *msg)
{
	for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++)
		if (!msg[i].in_use)
			return &msg[i];
	return NULL;
}

/* The grant may be there already: then the first chunks are with the NIC when this returns. */
int spw_xfer_send(struct spw_xfer_conn *conn, struct spw_xfer_mem *mem, const void *addr,
		  uint64_t bytes, uint32_t tag, struct spw_xfer_req **req_out)
{
	struct spw_xfer_req *req;
	struct xfer_msg *msg;
	int rc = xfer_conn_usable(conn);

	*req_out = NULL;
	rc = rc ? rc : xfer_mem_check(conn->x, mem, (uintptr_t)addr, bytes);
	if (rc)
		return rc;
	msg = xfer_msg_free(conn->send);
	req = msg ? xfer_req_take(conn, XFER_REQ_SEND) : NULL;
	if (!req)
		return -EAGAIN;
	*msg = (struct xfer_msg){.req = req,
				 .kind = XFER_MSG_SEND,
				 .in_use = true,
				 .mem = mem,
				 .laddr = (uintptr_t)addr,
				 .bytes = bytes,
				 .tag = tag};
	req->left = req->part_cnt = 1;
	req->mem[0] = mem;
	if (mem)
		mem->user_cnt++;
	conn->send_cnt++;
	xfer_queue_add(&conn->pending, msg);
	xfer_engine_match(conn);
	if (conn->work)
		xfer_engine_pump(conn);
	*req_out = req;
	return 0;
}

/* ---- receive ---- */

/* Slots are used in turn, so all parts must find theirs free: a group of parts is never granted in
 * half. */
static bool conn_has_room(const struct spw_xfer_conn *conn, uint32_t part_cnt)
{
	for (uint32_t i = 0; i < part_cnt; i++)
		if (conn->rx[xfer_slot_of(conn->rx_next + i)].open)
			return false;
	return true;
}

/* The grant is written by the engine, from the mailbox. rkey is of every device, since the sender
 * chooses the rail. */
static void req_grant(struct spw_xfer_conn *conn, struct spw_xfer_req *req, uint32_t part,
		      const struct spw_xfer_part *p)
{
	const uint32_t seq = conn->rx_next++, slot = xfer_slot_of(seq);
	struct xfer_grant *g = &conn->box->out[slot];

	conn->rx[slot] = (struct xfer_rx_slot){
		.open = true, .part = (uint8_t)part, .seq = seq, .room = p->bytes, .req = req};
	*g = (struct xfer_grant){.addr = spw_cpu_to_be64((uintptr_t)p->addr),
				 .bytes = spw_cpu_to_be64(p->bytes),
				 .tag = spw_cpu_to_be32(p->tag),
				 .seq = spw_cpu_to_be32(seq),
				 .generation = spw_cpu_to_be32(conn->rx_generation)};
	for (uint32_t i = 0; p->mem && i < conn->x->dev_cnt; i++)
		g->rkey[i] = spw_cpu_to_be32(xfer_rkey(p->mem->mr[i]));
	req->mem[part] = p->mem;
	if (p->mem)
		p->mem->user_cnt++;
}

int spw_xfer_recv(struct spw_xfer_conn *conn, const struct spw_xfer_part *part, uint32_t part_cnt,
		  struct spw_xfer_req **req_out)
{
	struct spw_xfer_req *req;
	int rc = xfer_conn_usable(conn);

	*req_out = NULL;
	if (!rc && !spw_in_range(part_cnt, 1, SPW_XFER_PART_MAX))
		rc = spw_err(EINVAL, "a receive of %u parts: 1 .. %u", part_cnt, SPW_XFER_PART_MAX);
	for (uint32_t i = 0; i < part_cnt && !rc; i++)
		rc = xfer_mem_check(conn->x, part[i].mem, (uintptr_t)part[i].addr, part[i].bytes);
	if (rc)
		return rc;
	req = conn_has_room(conn, part_cnt) ? xfer_req_take(conn, XFER_REQ_RECV) : NULL;
	if (!req)
		return -EAGAIN;
	req->left = req->part_cnt = (uint8_t)part_cnt;
	for (uint32_t i = 0; i < part_cnt; i++)
		req_grant(conn, req, i, &part[i]);
	xfer_engine_pump(conn);
	*req_out = req;
	return 0;
}

/* ---- test ---- */

/* Stamps that this kind of request has not, or that a failed rail's repair left out, are those
 * before. */
static struct spw_xfer_stamps req_stamps(const struct spw_xfer_req *req)
{
	struct spw_xfer_stamps stamps = req->stamps;

	stamps.done = stamps.done ? stamps.done : stamps.started;
	stamps.granted = stamps.granted ? stamps.granted : stamps.started;
	stamps.posted = stamps.posted ? SPW_MIN(stamps.posted, stamps.done) : stamps.granted;
	return stamps;
}

static int req_explain(const struct spw_xfer_req *req, int error)
{
	if (error == -EMSGSIZE)
		return spw_err(EMSGSIZE, "a message is longer than the receive that it went to");
	if (error == -ECANCELED)
		return spw_err(ECANCELED, "it was cancelled");
	if (error != -EREMOTEIO)
		return error;
	if (req->kind == XFER_REQ_FLUSH)
		return spw_err(EREMOTEIO, "a read of this device's own memory failed");
	if (!req->piece)
		return spw_err(EREMOTEIO, "the peer's NIC refused access to its window");
	return spw_err(
		EREMOTEIO,
		"the peer's NIC refused access to its window: piece %u of %u, or a neighbour "
		"that went with it",
		req->bad_piece, req->piece_cnt);
}

/* The request is free when this returns: the caller of spw_xfer_test must not use it again. */
static int req_finish(struct spw_xfer_req *req, int error, bool *done_out, uint64_t *bytes_out)
{
	const int rc = req_explain(req, error);

	*done_out = true;
	for (uint32_t i = 0; bytes_out && i < req->part_cnt; i++)
		bytes_out[i] = req->bytes[i];
	xfer_req_give(req);
	return rc;
}

int spw_xfer_test(struct spw_xfer_req *req, bool *done_out, uint64_t *bytes_out)
{
	struct spw_xfer_stamps stamps;

	return spw_xfer_test_stamps(req, done_out, bytes_out, &stamps);
}

/* A request that is complete is reported as such although its connection has failed since. */
int spw_xfer_test_stamps(struct spw_xfer_req *req, bool *done_out, uint64_t *bytes_out,
			 struct spw_xfer_stamps *stamps_out)
{
	struct spw_xfer_conn *conn = req->conn;

	*done_out = false;
	if (req->left) {
		if (spw_unlikely((int64_t)(spw_tsc_now() - conn->x->house_tsc) >= 0))
			xfer_house(conn->x);
		xfer_conn_progress(conn);
		if (spw_unlikely(req->kind == XFER_REQ_FLUSH && !conn->error))
			xfer_flush_check(req);
	}
	if (!req->left) {
		*stamps_out = req_stamps(req);
		return req_finish(req, req->error, done_out, bytes_out);
	}
	if (spw_unlikely(conn->error)) {
		spw_err(-conn->error, "%s", conn->text);
		return req_finish(req, conn->error, done_out, bytes_out);
	}
	return 0;
}
