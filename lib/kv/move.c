/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The bytes of a transfer on their way, a step each turn:
 *
 *   WAIT   until the connection stands and lib/xfer takes the list; blobs become windows
 *   MOVE   the list is with the NICs
 *   FLUSH  a read into a GPU's memory: one read of each of its memories, of what was written last
 *   NOTE   all bytes are there: the notification is among the peer's, and its last frame is awaited
 *
 * Within one agent the CPU copies, COPY_BYTES a turn, so that others are not held up.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "kv/agent.h"

#define COPY_BYTES (1ull << 20)

/* ---- the end ---- */

static void transfer_count(const struct spw_kv_transfer *t, int error)
{
	struct spw_kv_stat *stat = &t->peer->kv->stat;

	stat->done += !error;
	stat->failed += error && error != -ECANCELED;
	if (error)
		return;
	if (t->peer->is_self)
		stat->copied_bytes += t->bytes;
	else if (t->write)
		stat->written_bytes += t->bytes;
	else
		stat->read_bytes += t->bytes;
	t->peer->written_bytes += t->write ? t->bytes : 0;
	t->peer->read_bytes += t->write ? 0 : t->bytes;
}

/* A notification that has begun is sent to its end; nobody waits for it any more. */
static void transfer_leave_note(struct spw_kv_transfer *t)
{
	struct kv_send *send;

	if (t->stage == KV_NOTE)
		TAILQ_FOREACH(send, &t->peer->sends, link)
	if (send->transfer == t)
		send->transfer = NULL;
	kv_send_free(t->note);
	t->note = NULL;
}

void kv_transfer_finish(struct spw_kv_transfer *t, int error)
{
	transfer_leave_note(t);
	TAILQ_REMOVE(&t->peer->transfers, t, link_way);
	t->stage = KV_DONE;
	t->error = error;
	if (error)
		snprintf(t->why, sizeof(t->why), "%s", spw_err_text());
	transfer_count(t, error);
	if (t->released)
		kv_transfer_free(t);
}

static void transfer_fail(struct spw_kv_transfer *t, int error)
{
	kv_transfer_finish(t, spw_err_ctx(error, "agent %.*s", KV_TEXT(&t->peer->name)));
}

/* All bytes have moved. */
static void transfer_moved(struct spw_kv_transfer *t)
{
	struct kv_send *send = t->note;

	if (t->released || !send) {
		kv_transfer_finish(t, 0);
		return;
	}
	t->note = NULL;
	t->stage = KV_NOTE;
	send->transfer = t;
	TAILQ_INSERT_TAIL(&t->peer->sends, send, link);
}

/* ---- begin ---- */

static int move_import(struct spw_kv_region *region)
{
	struct kv_peer *peer = region->peer;
	int rc;

	if (region->window)
		return 0;
	rc = spw_xfer_window_import(peer->conn, region->blob.byte, sizeof(region->blob.byte),
				    &region->window);
	if (rc || spw_xfer_window_bytes(region->window) == region->bytes)
		return rc;
	rc = spw_err(EINVAL, "a region of %llu bytes, by its blob of %llu",
		     (unsigned long long)region->bytes,
		     (unsigned long long)spw_xfer_window_bytes(region->window));
	(void)spw_xfer_window_drop(region->window);
	region->window = NULL;
	return rc;
}

/* Once: windows live as long as the connection, and that as long as the peer. */
static int move_resolve(struct spw_kv_transfer *t)
{
	int rc = 0;

	for (uint32_t i = 0; i < t->piece_cnt && !t->resolved && !rc; i++) {
		rc = move_import(t->region[i]);
		t->piece[i].window = t->region[i]->window;
	}
	t->resolved = !rc;
	return rc;
}

/* A connection that has failed ends the transfer with the peer (peer_move). */
static bool move_begin(struct spw_kv_transfer *t)
{
	struct spw_xfer_conn *conn = t->peer->conn;
	int rc = move_resolve(t);

	if (!rc && !t->piece_cnt) {
		transfer_moved(t);
		return true;
	}
	if (!rc)
		rc = t->write ? spw_xfer_put_list(conn, t->piece, t->piece_cnt, &t->req)
			      : spw_xfer_get_list(conn, t->piece, t->piece_cnt, &t->req);
	if (rc == -EAGAIN || spw_xfer_conn_error(conn))
		return false;
	if (rc)
		transfer_fail(t, rc);
	else
		t->stage = KV_MOVE;
	return true;
}

/* ---- under way ---- */

/* The next of a GPU's memories that was not flushed since the bytes came. Returns: false: there is
 * none. */
static bool move_flush_next(struct spw_kv_transfer *t)
{
	while (t->piece_at < t->piece_cnt) {
		const uint32_t i = t->piece_at;
		const struct spw_xfer_piece *p = &t->piece[i];

		if (t->mem[i]->req.kind == SPW_XFER_DMABUF &&
		    t->mem[i]->flush_mark != t->flush_mark) {
			int rc = spw_xfer_flush(t->peer->conn, p->mem, p->addr, p->bytes, &t->req);

			if (rc == -EAGAIN || spw_xfer_conn_error(t->peer->conn))
				return true; /* again in the next turn */
			t->mem[i]->flush_mark = t->flush_mark;
			t->piece_at++;
			if (rc)
				transfer_fail(t, rc);
			return true;
		}
		t->piece_at++;
	}
	return false;
}

/* The list, or one flush. A failed connection is the peer's end. */
static bool move_test(struct spw_kv_transfer *t)
{
	bool done = true;
	int rc = t->req ? spw_xfer_test(t->req, &done, NULL) : 0;

	if (!done)
		return false;
	t->req = NULL;
	if (rc && spw_xfer_conn_error(t->peer->conn))
		return true;
	if (rc) {
		transfer_fail(t, rc);
		return true;
	}
	if (t->flushes && !t->released && t->stage == KV_MOVE) {
		t->stage = KV_FLUSH;
		t->flush_mark = ++t->peer->kv->flush_marks;
	}
	if (t->stage != KV_FLUSH || !move_flush_next(t))
		transfer_moved(t);
	return true;
}

static bool move_copy(struct spw_kv_transfer *t)
{
	uint64_t left = COPY_BYTES;

	while (left && t->piece_at < t->piece_cnt) {
		const struct spw_xfer_piece *p = &t->piece[t->piece_at];
		const struct spw_kv_region *region = t->region[t->piece_at];
		uint8_t *near = (uint8_t *)p->addr + t->offset;
		uint8_t *far = (uint8_t *)region->mem->req.addr + p->offset + t->offset;
		const uint64_t len = SPW_MIN(left, p->bytes - t->offset);

		memmove(t->write ? far : near, t->write ? near : far, len);
		left -= len;
		t->offset += len;
		if (t->offset == p->bytes) {
			t->piece_at++;
			t->offset = 0;
		}
	}
	if (t->piece_at == t->piece_cnt)
		transfer_moved(t);
	return true;
}

bool kv_transfer_turn(struct spw_kv_transfer *t)
{
	switch (t->stage) {
	case KV_WAIT:
		return t->peer->is_self ? move_copy(t) : move_begin(t);
	case KV_MOVE:
	case KV_FLUSH:
		return move_test(t);
	case KV_NOTE:
	case KV_DONE:
		break;
	}
	return false;
}
