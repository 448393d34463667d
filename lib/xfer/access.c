/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Put and get: of one piece of a window, or of a list of pieces. Both are messages of the engine
 * (engine.c) that wait for no grant: they are active at once.
 *
 *   put, get              checked ─► a message: chunks, then a put's flag (flag.c)
 *   put_list, get_list    all pieces checked ─► a message whose place moves over the pieces
 *   cancel                nothing more is posted; what the NICs have is waited for
 *
 * A list's chunks are cut when the engine has room for one (xfer_list_next), so the call costs no
 * more than a look at each piece, and nothing is copied:
 *
 *   pieces   | 0 | 1 | 2 |   | 3 |        | 4 .............................. |
 *   chunks   | ......... |   | 3 |        | ............ | ......... | ..... |
 *            neighbours at both ends      longer than a chunk
 *
 * What failed rails leave names piece, offset and length (struct xfer_run), and goes out again in
 * the same cut.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"

#define FLAG_ALIGN 32u /* of the four words */
#define LINE_BYTES 64u
#define FLAG_MAX   ((1ull << 60) - 1)
#define WHOLE_MAX  65536u /* longest piece that is never cut, if a chunk may be so long */

/* ---- checks ---- */

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

static int check_piece(const struct spw_xfer_conn *conn, const struct spw_xfer_piece *p)
{
	if (!p->window || p->window->conn != conn)
		return spw_err(EINVAL, "this window is of another connection");
	if (p->offset > p->window->bytes || p->bytes > p->window->bytes - p->offset)
		return spw_err(ERANGE, "%llu bytes at %llu: the window has %llu",
			       (unsigned long long)p->bytes, (unsigned long long)p->offset,
			       (unsigned long long)p->window->bytes);
	return xfer_mem_check(conn->x, p->mem, (uintptr_t)p->addr, p->bytes);
}

/* All checks of a put or get, before anything of it is taken. */
static int access_verify(const struct spw_xfer_conn *conn, const struct spw_xfer_access *a,
			 bool put)
{
	const struct spw_xfer_piece p = {a->window, a->offset, a->mem, a->addr, a->bytes};
	int rc = xfer_conn_usable(conn);

	rc = rc ? rc : check_piece(conn, &p);
	if (rc || a->flag_offset == SPW_XFER_NO_FLAG)
		return rc;
	if (!put)
		return spw_err(EINVAL, "a get has no flag");
	rc = check_flag(a);
	return rc ? rc : check_atomics(conn);
}

/* Likewise, of a list; *bytes_out: of all its pieces. */
static int list_verify(const struct spw_xfer_conn *conn, const struct spw_xfer_piece *piece,
		       uint32_t piece_cnt, uint64_t *bytes_out)
{
	int rc = xfer_conn_usable(conn);

	*bytes_out = 0;
	if (!rc && piece_cnt > SPW_XFER_PIECE_MAX)
		rc = spw_err(EINVAL, "a list of %u pieces: at most %u", piece_cnt,
			     SPW_XFER_PIECE_MAX);
	for (uint32_t i = 0; i < piece_cnt && !rc; i++) {
		rc = check_piece(conn, &piece[i]);
		if (rc)
			rc = spw_err_ctx(rc, "piece %u of %u", i, piece_cnt);
		*bytes_out += piece[i].bytes;
	}
	return rc;
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

/* ---- one piece ---- */

/* Returns: NULL: SPW_XFER_REQ_MAX are under way. */
static struct xfer_msg *access_take(struct spw_xfer_conn *conn, bool put)
{
	struct xfer_msg *msg = xfer_msg_free(conn->access);
	struct spw_xfer_req *req = msg ? xfer_req_take(conn, XFER_REQ_ACCESS) : NULL;

	if (!req)
		return NULL;
	*msg = (struct xfer_msg){
		.req = req, .kind = put ? XFER_MSG_PUT : XFER_MSG_GET, .in_use = true};
	req->msg = msg;
	req->is_put = put;
	req->left = req->part_cnt = 1;
	conn->access_cnt++;
	return msg;
}

static struct spw_xfer_req *access_go(struct spw_xfer_conn *conn, struct xfer_msg *msg)
{
	struct spw_xfer_req *req = msg->req;

	xfer_queue_add(&conn->active, msg);
	xfer_engine_pump(conn);
	return req;
}

static int access_start(struct spw_xfer_conn *conn, const struct spw_xfer_access *a, bool put,
			struct spw_xfer_req **req_out)
{
	const bool flagged = a->flag_offset != SPW_XFER_NO_FLAG;
	struct xfer_msg *msg;
	int rc = access_verify(conn, a, put);

	*req_out = NULL;
	if (rc)
		return rc;
	msg = access_take(conn, put);
	if (!msg)
		return -EAGAIN;
	msg->joined = flagged && access_joins(conn, a);
	msg->mem = a->mem;
	msg->laddr = (uintptr_t)a->addr;
	msg->raddr = a->window->addr + a->offset;
	msg->bytes = a->bytes;
	msg->flag = flagged ? a->flag : 0;
	msg->flag_raddr = flagged ? a->window->addr + a->flag_offset : 0;
	memcpy(msg->rkey, a->window->rkey, sizeof(msg->rkey));
	msg->req->mem[0] = a->mem;
	if (a->mem)
		a->mem->user_cnt++;
	*req_out = access_go(conn, msg);
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

/* ---- lists ---- */

/* Neighbours in a list mostly have the same memory and window: those count once. */
void xfer_list_use(const struct spw_xfer_req *req, int by)
{
	for (uint32_t i = 0; i < req->piece_cnt; i++) {
		const struct spw_xfer_piece *p = &req->piece[i];

		if (p->mem && (!i || p->mem != p[-1].mem))
			p->mem->user_cnt += (uint32_t)by;
		if (!i || p->window != p[-1].window)
			p->window->user_cnt += (uint32_t)by;
	}
}

SPW_INLINE bool piece_follows(const struct spw_xfer_piece *p, const struct spw_xfer_piece *last)
{
	return p->mem == last->mem && p->window == last->window &&
	       (uintptr_t)p->addr == (uintptr_t)last->addr + last->bytes &&
	       p->offset == last->offset + last->bytes;
}

struct xfer_ends xfer_list_ends(const struct spw_xfer_req *req, const struct xfer_run *run)
{
	const struct spw_xfer_piece *p = &req->piece[run->piece];

	return (struct xfer_ends){p->mem, (uintptr_t)p->addr + run->offset,
				  p->window->addr + p->offset + run->offset, p->window->rkey};
}

/* A piece as a whole, and its neighbours as far as a chunk reaches; or a chunk of a long piece. One
 * that would leave a rest below WHOLE_MAX is not cut for the sake of a common end of the rails. */
void xfer_list_next(const struct spw_xfer_conn *conn, struct xfer_msg *msg,
		    struct xfer_run *run_out)
{
	const struct spw_xfer_piece *p = &msg->req->piece[msg->piece_at];
	const struct spw_xfer_piece *end = msg->req->piece + msg->req->piece_cnt;
	const uint32_t most = xfer_chunk_bytes(conn, msg);
	const uint32_t whole = SPW_MAX(most, SPW_MIN(WHOLE_MAX, conn->x->conf.chunk_bytes));
	uint64_t left;

	while (!p->bytes)
		p++;
	left = p->bytes - msg->piece_offset;
	run_out->piece = (uint32_t)(p - msg->req->piece);
	run_out->offset = msg->piece_offset;
	run_out->len = (uint32_t)(left > whole ? most : left);
	if (left > whole) {
		msg->piece_offset += most;
	} else {
		for (p++; p < end && p->bytes <= whole - run_out->len && piece_follows(p, p - 1);
		     p++)
			run_out->len += (uint32_t)p->bytes;
		msg->piece_offset = 0;
	}
	msg->piece_at = left > whole ? run_out->piece : (uint32_t)(p - msg->req->piece);
}

static int list_start(struct spw_xfer_conn *conn, const struct spw_xfer_piece *piece,
		      uint32_t piece_cnt, bool put, struct spw_xfer_req **req_out)
{
	struct xfer_msg *msg;
	uint64_t bytes;
	int rc;

	*req_out = NULL;
	if (!conn->error && !xfer_msg_free(conn->access))
		return -EAGAIN; /* who tries again and again does not pay for the checks */
	rc = list_verify(conn, piece, piece_cnt, &bytes);
	if (rc)
		return rc;
	msg = access_take(conn, put);
	if (!msg)
		return -EAGAIN;
	msg->bytes = bytes;
	msg->req->piece = piece;
	msg->req->piece_cnt = piece_cnt;
	xfer_list_use(msg->req, 1);
	*req_out = access_go(conn, msg);
	return 0;
}

int spw_xfer_put_list(struct spw_xfer_conn *conn, const struct spw_xfer_piece *piece,
		      uint32_t piece_cnt, struct spw_xfer_req **req_out)
{
	return list_start(conn, piece, piece_cnt, true, req_out);
}

int spw_xfer_get_list(struct spw_xfer_conn *conn, const struct spw_xfer_piece *piece,
		      uint32_t piece_cnt, struct spw_xfer_req **req_out)
{
	return list_start(conn, piece, piece_cnt, false, req_out);
}

/* ---- cancel ---- */

/* Its turn in the active list finds that nothing more of it is to be posted (post_msg). */
int spw_xfer_cancel(struct spw_xfer_req *req)
{
	struct spw_xfer_conn *conn = req->conn;

	if (req->kind != XFER_REQ_ACCESS)
		return spw_err(EOPNOTSUPP, "only a put or get can be cancelled: a message and its "
					   "receive end together, or with their connection");
	if (!req->left || req->msg->posted || conn->error)
		return 0;
	req->error = req->error ? req->error : -ECANCELED;
	req->msg->landed = true; /* its orphans are dropped */
	conn->work = true;
	return 0;
}
