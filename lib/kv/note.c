/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Notifications. Going out, each is cut into frames, which lib/xfer delivers in their order:
 *
 *   peer->sends   | first .............. | second | third
 *   frames        [ 8 KiB ][ 8 KiB ][ 3 ]  [ 100 ]  up to KV_TX_CNT under way
 *
 * It is done when its last frame is acknowledged. Coming in, a notification gets its whole place in
 * the queue's memory with its first frame, so that one which has begun can always be completed; the
 * frames of a guest that finds no place are held up there (guest.c). The agent's own go from the
 * one list to the other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "kv/agent.h"

/* ---- out ---- */

int kv_send_make(const void *text, size_t bytes, struct kv_send **send_out)
{
	struct kv_send *send;

	*send_out = NULL;
	if (bytes > SPW_KV_NOTE_MAX)
		return spw_err(EMSGSIZE, "a notification of %zu bytes: at most %u", bytes,
			       SPW_KV_NOTE_MAX);
	send = calloc(1, sizeof(*send) + bytes);
	if (!send)
		return spw_err(ENOMEM, "no memory for a notification of %zu bytes", bytes);
	send->bytes = (uint32_t)bytes;
	if (bytes)
		memcpy(send->text, text, bytes);
	*send_out = send;
	return 0;
}

void kv_send_free(struct kv_send *send)
{
	if (send && send->charged)
		send->charged->send_bytes -= send->bytes + sizeof(*send);
	free(send);
}

static uint8_t *send_frame(const struct kv_peer *peer)
{
	return peer->frame + (size_t)(peer->tx_pi % KV_TX_CNT) * KV_FRAME_BYTES;
}

/* Posts what lies in the next frame. */
static int send_post(struct kv_peer *peer, struct kv_send *send, uint32_t len)
{
	const uint32_t i = peer->tx_pi % KV_TX_CNT;
	int rc = spw_xfer_send(peer->conn, peer->frame_mem, send_frame(peer), len, 0,
			       &peer->tx_req[i]);

	if (rc)
		return rc;
	peer->tx_send[i] = send;
	peer->tx_pi++;
	return 0;
}

int kv_send_begin(struct kv_peer *peer)
{
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST,
				       .bytes = (size_t)KV_TX_CNT * KV_FRAME_BYTES};
	int rc;

	req.addr = peer->frame = calloc(1, req.bytes);
	if (!peer->frame)
		return spw_err(ENOMEM, "no memory for notifications");
	rc = spw_xfer_mem_reg(peer->kv->x, &req, &peer->frame_mem);
	return rc ? rc : send_post(peer, NULL, kv_hello_put(&peer->kv->hello, send_frame(peer)));
}

static void send_done(struct kv_peer *peer, struct kv_send *send)
{
	TAILQ_REMOVE(&peer->sends, send, link);
	peer->kv->stat.tx_notes++;
	peer->kv->stat.tx_note_bytes += send->bytes;
	if (send->transfer)
		kv_transfer_finish(send->transfer, 0);
	kv_send_free(send);
}

/* Frames that are acknowledged. A failed connection, or a frame that finds no room, is the peer's
 * end: peer_move looks at it. */
static bool send_reap(struct kv_peer *peer)
{
	bool worked = false;

	while (peer->tx_ci != peer->tx_pi) {
		const uint32_t i = peer->tx_ci % KV_TX_CNT;
		struct kv_send *send = peer->tx_send[i];
		bool done;

		if (!peer->tx_req[i])
			break;
		if (spw_xfer_test(peer->tx_req[i], &done, NULL)) {
			peer->tx_req[i] = NULL;
			peer->breach = true;
			break;
		}
		if (!done)
			break;
		peer->tx_ci++;
		if (send && !--send->open && send->all)
			send_done(peer, send);
		worked = true;
	}
	return worked;
}

/* The next frame of a notification. Returns: false: it cannot be posted. */
static bool send_next(struct kv_peer *peer, struct kv_send *send)
{
	const struct kv_frame frame = {.type = KV_FRAME_NOTE,
				       .bytes = send->bytes,
				       .at = send->at,
				       .len = kv_frame_len(send->bytes, send->at)};
	uint8_t *to = send_frame(peer);

	kv_frame_put(&frame, to);
	memcpy(to + KV_HEAD_BYTES, send->text + send->at, frame.len);
	if (send_post(peer, send, KV_HEAD_BYTES + frame.len))
		return false;
	send->at += frame.len;
	send->open++;
	send->all = send->at == send->bytes;
	return true;
}

/* ---- in ---- */

/* A place in the queue. Returns: NULL: it is full, or -ENOMEM in *rc_out. */
static struct kv_got *got_make(struct spw_kv *kv, const struct kv_name *name, uint32_t bytes,
			       bool stranger, int *rc_out)
{
	const size_t cost = sizeof(struct kv_got) + name->len + bytes;
	const uint64_t all = kv->queued[0] + kv->queued[1];
	struct kv_got *got = NULL;
	uint8_t *behind;

	*rc_out = -EAGAIN;
	if (all + cost > kv->queue_bytes ||
	    (stranger && kv->queued[1] + cost > kv->queue_bytes / 2))
		return NULL;
	got = malloc(cost);
	*rc_out = got ? 0 : -ENOMEM;
	if (!got)
		return NULL;
	behind = (uint8_t *)(got + 1);
	memcpy(behind, name->byte, name->len);
	*got = (struct kv_got){.note = {.name = behind,
					.name_bytes = name->len,
					.text = behind + name->len,
					.bytes = bytes},
			       .stranger = stranger,
			       .cost = cost};
	kv->queued[stranger] += cost;
	return got;
}

static void got_is_complete(struct spw_kv *kv, struct kv_got *got)
{
	TAILQ_INSERT_TAIL(&kv->gots, got, link);
	kv->stat.rx_notes++;
	kv->stat.rx_note_bytes += got->note.bytes;
}

void kv_got_free(struct spw_kv *kv, struct kv_got *got)
{
	kv->queued[got->stranger] -= got->cost;
	free(got);
}

static bool guest_is_stranger(const struct kv_guest *guest)
{
	return !kv_peer_named(guest->kv, guest->hello.name.byte, guest->hello.name.len);
}

int kv_got_take(struct kv_guest *guest, const struct kv_frame *f, const uint8_t *data)
{
	struct kv_got *got = guest->part;
	int rc;

	if (f->at != (got ? guest->part_at : 0) || (got && f->bytes != got->note.bytes))
		return -EPROTO;
	if (!got)
		got = got_make(guest->kv, &guest->hello.name, f->bytes, guest_is_stranger(guest),
			       &rc);
	if (!got)
		return rc;
	memcpy((uint8_t *)(uintptr_t)got->note.text + f->at, data, f->len);
	guest->part_at = f->at + f->len;
	guest->part = guest->part_at == f->bytes ? NULL : got;
	if (!guest->part)
		got_is_complete(guest->kv, got);
	return 0;
}

/* ---- to oneself ---- */

/* Returns: false: the queue is full. */
static bool send_to_self(struct kv_peer *peer, struct kv_send *send)
{
	int rc;
	struct kv_got *got = got_make(peer->kv, &peer->name, send->bytes, false, &rc);

	if (!got)
		return false;
	memcpy((uint8_t *)(uintptr_t)got->note.text, send->text, send->bytes);
	got_is_complete(peer->kv, got);
	send_done(peer, send);
	return true;
}

bool kv_send_turn(struct kv_peer *peer)
{
	bool worked = !peer->is_self && send_reap(peer);
	struct kv_send *send = TAILQ_FIRST(&peer->sends), *next;

	for (; send; send = next) {
		next = TAILQ_NEXT(send, link);
		if (peer->is_self && !send_to_self(peer, send))
			break;
		while (!peer->is_self && !send->all && peer->tx_pi - peer->tx_ci < KV_TX_CNT &&
		       send_next(peer, send))
			worked = true;
		if (!peer->is_self && !send->all)
			break;
		worked |= peer->is_self;
	}
	return worked;
}

/* The connection is closed. */
void kv_send_end(struct kv_peer *peer)
{
	while (!TAILQ_EMPTY(&peer->sends)) {
		struct kv_send *send = TAILQ_FIRST(&peer->sends);

		TAILQ_REMOVE(&peer->sends, send, link);
		kv_send_free(send);
	}
	spw_xfer_mem_dereg(peer->frame_mem);
	peer->frame_mem = NULL;
	free(peer->frame);
	peer->frame = NULL;
}

/* ---- the caller's ---- */

static int note_send(struct kv_peer *peer, struct kv_send *send)
{
	const uint64_t cost = send->bytes + sizeof(*send);
	struct spw_kv *kv = peer->kv;
	int rc = kv_peer_usable(peer);

	if (rc)
		return rc;
	if (peer->send_bytes && peer->send_bytes + cost > kv->queue_bytes) {
		kv_ask(kv); /* for who does nothing but ask again */
		return -EAGAIN;
	}
	send->charged = peer;
	peer->send_bytes += cost;
	TAILQ_INSERT_TAIL(&peer->sends, send, link);
	(void)kv_peer_turn(peer);
	kv_wake(kv);
	return 0;
}

int spw_kv_notify(struct spw_kv *kv, const void *name, size_t name_bytes, const void *text,
		  size_t bytes)
{
	struct kv_send *send;
	struct kv_peer *peer;
	int rc = kv_send_make(text, bytes, &send);

	if (rc)
		return rc;
	rc = kv_enter_peer(kv, name, name_bytes, &peer);
	if (!rc) {
		rc = note_send(peer, send);
		kv_unlock(kv);
	}
	if (rc)
		kv_send_free(send);
	return rc;
}

int spw_kv_note_take(struct spw_kv *kv, struct spw_kv_note **note_out)
{
	struct kv_got *got;
	int rc = kv_enter(kv);

	*note_out = NULL;
	if (rc)
		return rc;
	kv_ask(kv);
	got = TAILQ_FIRST(&kv->gots);
	if (got) {
		TAILQ_REMOVE(&kv->gots, got, link);
		kv->queued[got->stranger] -= got->cost;
		*note_out = &got->note;
		kv_wake(kv); /* there is room for who was held up */
	}
	kv_unlock(kv);
	return got ? 0 : -EAGAIN;
}

void spw_kv_note_free(struct spw_kv_note *note)
{
	free(note);
}
