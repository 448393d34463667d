/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Transfers as the caller has them: made once from two lists, posted again and again. Making one
 * checks every piece and merges neighbours, so that a post costs nothing for either:
 *
 *   near  | 0 | 1 | 2 |        | 3 |      each of a memory of this agent
 *   far   | 0 | 1 |    | 2 |   | 3 |      each of a region of the other
 *   piece | 0     |    | 1 |   | 2 |
 *
 * What a transfer uses counts each time that it changes from one piece to the next: lists mostly
 * have runs of the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "kv/agent.h"

/* ---- check ---- */

static int lists_check_near(const struct spw_kv *kv, const struct spw_kv_near *near)
{
	const struct spw_kv_mem *m = near->mem;
	const uint64_t start = m ? (uintptr_t)m->req.addr : 0, addr = (uintptr_t)near->addr;

	if (!m || m->kv != kv)
		return spw_err(EINVAL, "it has no memory of this agent");
	if (addr < start || near->bytes > m->req.bytes || addr - start > m->req.bytes - near->bytes)
		return spw_err(ERANGE, "[%#llx, +%llu) is outside of its memory [%#llx, +%zu)",
			       (unsigned long long)addr, (unsigned long long)near->bytes,
			       (unsigned long long)start, m->req.bytes);
	return 0;
}

static int lists_check_far(const struct kv_peer *peer, const struct spw_kv_far *far)
{
	const struct spw_kv_region *r = far->region;

	if (!r || r->peer != peer)
		return spw_err(EINVAL, "its region is none of agent %.*s", KV_TEXT(&peer->name));
	if (far->bytes > r->bytes || far->offset > r->bytes - far->bytes)
		return spw_err(ERANGE, "%llu bytes at %llu: the region has %llu",
			       (unsigned long long)far->bytes, (unsigned long long)far->offset,
			       (unsigned long long)r->bytes);
	return 0;
}

static int lists_check_piece(const struct kv_peer *peer, const struct spw_kv_near *near,
			     const struct spw_kv_far *far)
{
	int rc;

	if (near->bytes != far->bytes || near->bytes > SPW_XFER_BYTES_MAX)
		return spw_err(near->bytes == far->bytes ? ERANGE : EINVAL,
			       "%llu bytes here, %llu there: equal, and at most 2^34",
			       (unsigned long long)near->bytes, (unsigned long long)far->bytes);
	rc = lists_check_near(peer->kv, near);
	rc = rc ? rc : lists_check_far(peer, far);
	if (!rc && peer->is_self &&
	    (near->mem->req.kind == SPW_XFER_DMABUF ||
	     far->region->mem->req.kind == SPW_XFER_DMABUF))
		return spw_err(EOPNOTSUPP, "no CPU can copy to or from a GPU's memory: let the GPU "
					   "copy within one agent");
	return rc;
}

static int lists_check(const struct kv_peer *peer, const struct spw_kv_lists *lists)
{
	int rc = kv_peer_usable(peer);

	if (!rc && (lists->near_cnt != lists->far_cnt || lists->near_cnt > SPW_XFER_PIECE_MAX))
		rc = spw_err(EINVAL, "lists of %u and %u pieces: as many in both, at most %u",
			     lists->near_cnt, lists->far_cnt, SPW_XFER_PIECE_MAX);
	for (uint32_t i = 0; i < lists->near_cnt && !rc; i++) {
		rc = lists_check_piece(peer, &lists->near[i], &lists->far[i]);
		if (rc)
			rc = spw_err_ctx(rc, "piece %u of %u", i, lists->near_cnt);
	}
	return rc;
}

/* ---- make ---- */

/* by: 1 begins to use what the pieces name, -1 ends it. */
static void transfer_use(const struct spw_kv_transfer *t, int by)
{
	for (uint32_t i = 0; i < t->piece_cnt; i++) {
		if (!i || t->mem[i] != t->mem[i - 1])
			t->mem[i]->user_cnt += (uint32_t)by;
		if (!i || t->region[i] != t->region[i - 1])
			t->region[i]->user_cnt += (uint32_t)by;
	}
}

static bool transfer_merges(const struct spw_kv_transfer *t, const struct spw_kv_near *near,
			    const struct spw_kv_far *far)
{
	const uint32_t last = t->piece_cnt - 1;
	const struct spw_xfer_piece *p = &t->piece[last];

	return t->piece_cnt && t->mem[last] == near->mem && t->region[last] == far->region &&
	       (uintptr_t)near->addr == (uintptr_t)p->addr + p->bytes &&
	       far->offset == p->offset + p->bytes && near->bytes <= SPW_XFER_BYTES_MAX - p->bytes;
}

static void transfer_add(struct spw_kv_transfer *t, const struct spw_kv_near *near,
			 const struct spw_kv_far *far)
{
	t->bytes += near->bytes;
	if (transfer_merges(t, near, far)) {
		t->piece[t->piece_cnt - 1].bytes += near->bytes;
		return;
	}
	t->mem[t->piece_cnt] = near->mem;
	t->region[t->piece_cnt] = far->region;
	t->flushes |= !t->write && near->mem->req.kind == SPW_XFER_DMABUF;
	t->piece[t->piece_cnt++] = (struct spw_xfer_piece){.offset = far->offset,
							   .mem = near->mem->mem,
							   .addr = near->addr,
							   .bytes = near->bytes};
}

/* Pieces without bytes are left out. */
static int transfer_fill(struct spw_kv_transfer *t, const struct spw_kv_lists *lists)
{
	const size_t cnt = lists->near_cnt ? lists->near_cnt : 1;

	t->piece = calloc(cnt, sizeof(*t->piece));
	t->region = calloc(cnt, sizeof(*t->region));
	t->mem = calloc(cnt, sizeof(*t->mem));
	if (!t->piece || !t->region || !t->mem)
		return spw_err(ENOMEM, "no memory for %zu pieces", cnt);
	for (uint32_t i = 0; i < lists->near_cnt; i++)
		if (lists->near[i].bytes)
			transfer_add(t, &lists->near[i], &lists->far[i]);
	return 0;
}

static void transfer_free_lists(struct spw_kv_transfer *t)
{
	free(t->piece);
	free(t->region);
	free(t->mem);
	free(t);
}

void kv_transfer_free(struct spw_kv_transfer *t)
{
	struct spw_kv *kv = t->peer->kv;

	transfer_use(t, -1);
	TAILQ_REMOVE(&kv->transfers, t, link);
	kv_send_free(t->note);
	kv_peer_put(t->peer);
	transfer_free_lists(t);
}

static int transfer_make(struct kv_peer *peer, const struct spw_kv_lists *lists,
			 struct spw_kv_transfer **transfer_out)
{
	int rc = lists_check(peer, lists);
	struct spw_kv_transfer *t = rc ? NULL : calloc(1, sizeof(*t));

	if (!t)
		return rc ? rc : spw_err(ENOMEM, "no memory for a transfer");
	t->peer = peer;
	t->write = lists->write;
	rc = transfer_fill(t, lists);
	if (rc) {
		transfer_free_lists(t);
		return rc;
	}
	transfer_use(t, 1);
	peer->user_cnt++;
	TAILQ_INSERT_TAIL(&peer->kv->transfers, t, link);
	*transfer_out = t;
	return 0;
}

int spw_kv_transfer_make(struct spw_kv *kv, const void *name, size_t name_bytes,
			 const struct spw_kv_lists *lists, struct spw_kv_transfer **transfer_out)
{
	struct kv_peer *peer;
	int rc = kv_enter_peer(kv, name, name_bytes, &peer);

	*transfer_out = NULL;
	if (rc)
		return rc;
	rc = transfer_make(peer, lists, transfer_out);
	kv_unlock(kv);
	return rc;
}

/* ---- post, check, release ---- */

static int transfer_post(struct spw_kv_transfer *t)
{
	int rc = kv_peer_usable(t->peer);

	if (t->stage != KV_DONE)
		return spw_err(EBUSY, "this transfer is under way: check it until it is done");
	if (rc)
		return rc;
	t->stage = KV_WAIT;
	t->error = 0;
	t->piece_at = 0;
	t->offset = 0;
	TAILQ_INSERT_TAIL(&t->peer->transfers, t, link_way);
	t->peer->kv->stat.posted++;
	return 0;
}

/* The note is made before, so that nothing of it can fail later. */
int spw_kv_post(struct spw_kv_transfer *t, const void *note, size_t note_bytes)
{
	struct spw_kv *kv = t->peer->kv;
	struct kv_send *send = NULL;
	int rc = note ? kv_send_make(note, note_bytes, &send) : 0;

	rc = rc ? rc : kv_enter(kv);
	if (!rc) {
		rc = transfer_post(t);
		if (!rc) {
			t->note = send;
			(void)kv_peer_turn(t->peer);
			kv_wake(kv);
		}
		kv_unlock(kv);
	}
	if (rc)
		kv_send_free(send);
	return rc;
}

int spw_kv_check(struct spw_kv_transfer *t)
{
	struct spw_kv *kv = t->peer->kv;
	int rc = kv_enter(kv);

	if (rc)
		return rc;
	if (t->stage != KV_DONE)
		kv_ask(kv);
	rc = t->stage == KV_DONE ? t->error : -EAGAIN;
	if (rc && rc != -EAGAIN)
		spw_err(-rc, "%s", t->why);
	kv_unlock(kv);
	return rc;
}

/* NICs may have bytes of it while it has a request; at any other stage nothing touches them. */
static int transfer_release(struct spw_kv_transfer *t)
{
	struct spw_kv *kv = t->peer->kv;

	if (t->stage == KV_DONE) {
		kv_transfer_free(t);
		return 0;
	}
	kv->stat.cancelled++;
	kv_wake(kv);
	t->released = true;
	if (t->req) {
		(void)spw_xfer_cancel(t->req); /* a flush just ends */
		return -EINPROGRESS;
	}
	kv_transfer_finish(t, spw_err(ECANCELED, "it was released"));
	return 0;
}

int spw_kv_release(struct spw_kv_transfer *t)
{
	struct spw_kv *kv;
	int rc;

	if (!t)
		return 0;
	kv = t->peer->kv;
	rc = kv_enter(kv);
	if (rc)
		return rc;
	rc = transfer_release(t);
	kv_unlock(kv);
	return rc;
}
