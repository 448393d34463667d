/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Connections that other agents made to this one: what they notify is read here. Each has
 * KV_RX_CNT receives, of one frame each, which are granted again in turn:
 *
 *   granted ─► a frame arrives ─► taken (note.c) ─► granted again
 *                              └─► the queue is full: held, and nothing behind it is looked at
 *
 * The sender then runs out of grants, and waits. A guest is a stranger until its name and id are
 * those of an info that was loaded; all that it sends is checked, and a breach ends it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_monotonic.h"
#include "kv/agent.h"

#define HELLO_MS 10000u /* for the first frame */

static uint8_t *guest_frame(const struct kv_guest *guest, uint32_t i)
{
	return guest->frame + (size_t)i * KV_FRAME_BYTES;
}

static int guest_grant(struct kv_guest *guest, uint32_t i)
{
	const struct spw_xfer_part part = {guest->frame_mem, guest_frame(guest, i), KV_FRAME_BYTES,
					   0};

	return spw_xfer_recv(guest->conn, &part, 1, &guest->rx_req[i]);
}

/* ---- begin and end ---- */

void kv_guest_end(struct kv_guest *guest)
{
	struct spw_kv *kv = guest->kv;

	TAILQ_REMOVE(&kv->guests, guest, link);
	kv->guest_cnt--;
	spw_xfer_conn_close(guest->conn);
	if (guest->part)
		kv_got_free(kv, guest->part);
	spw_xfer_mem_dereg(guest->frame_mem);
	free(guest->frame);
	free(guest);
}

/* One that is turned away costs a line of log at most. */
static void guest_turn_away(struct kv_guest *guest, const char *why)
{
	struct spw_kv *kv = guest->kv;

	kv->stat.refused++;
	spw_log_limited(&kv->limit, SPW_LOG_WARN, "kv: agent %.*s (%s) was turned away: %s",
			guest->named ? (int)guest->hello.name.len : 1,
			guest->named ? (const char *)guest->hello.name.byte : "?",
			spw_xfer_conn_text(guest->conn), why);
	kv_guest_end(guest);
}

static int guest_begin(struct kv_guest *guest)
{
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST,
				       .bytes = (size_t)KV_RX_CNT * KV_FRAME_BYTES};
	int rc = 0;

	req.addr = guest->frame = calloc(1, req.bytes);
	if (!guest->frame)
		return spw_err(ENOMEM, "no memory for what it sends");
	rc = spw_xfer_mem_reg(guest->kv->x, &req, &guest->frame_mem);
	for (uint32_t i = 0; i < KV_RX_CNT && !rc; i++)
		rc = guest_grant(guest, i);
	guest->until_ms = spw_monotonic_ms() + HELLO_MS;
	return rc;
}

bool kv_guest_accept(struct spw_kv *kv)
{
	struct spw_xfer_conn *conn;
	struct kv_guest *guest;
	int rc = spw_xfer_accept(kv->listener, &conn);

	if (rc)
		return false;
	guest = calloc(1, sizeof(*guest));
	if (!guest) {
		spw_xfer_conn_close(conn);
		return false;
	}
	guest->kv = kv;
	guest->conn = conn;
	TAILQ_INSERT_TAIL(&kv->guests, guest, link);
	kv->guest_cnt++;
	if (kv->guest_cnt > kv->guest_max)
		guest_turn_away(guest, "there are conf.guest_max others");
	else if (guest_begin(guest))
		guest_turn_away(guest, spw_err_text());
	return true;
}

/* ---- frames ---- */

/* A name that was loaded is only its incarnation's; this agent's own is nobody's, whatever the id:
 * all who may connect know that. */
static int guest_name(struct kv_guest *guest, const struct kv_frame *frame, const uint8_t *data)
{
	const struct kv_peer *peer;

	if (guest->named || kv_hello_get(frame, data, &guest->hello))
		return -EPROTO;
	guest->named = true;
	peer = kv_peer_named(guest->kv, guest->hello.name.byte, guest->hello.name.len);
	if (peer &&
	    (peer->is_self || memcmp(kv_info_id(&peer->info), guest->hello.id, KV_ID_BYTES)))
		return -EEXIST;
	return 0;
}

/* Returns: -EAGAIN: no room for it now; others: it is to be turned away. */
static int guest_take(struct kv_guest *guest, const uint8_t *frame, uint64_t len)
{
	struct kv_frame f;
	int rc = kv_frame_get(frame, len, &f);

	if (rc)
		return rc;
	if (f.type == KV_FRAME_HELLO)
		return guest_name(guest, &f, frame + KV_HEAD_BYTES);
	if (f.type != KV_FRAME_NOTE || !guest->named)
		return -EPROTO;
	return kv_got_take(guest, &f, frame + KV_HEAD_BYTES);
}

/* The oldest frame, if it has arrived. Returns: 0: taken; -EAGAIN: none, or no room. */
static int guest_next(struct kv_guest *guest)
{
	struct spw_xfer_req **req = &guest->rx_req[guest->rx_at];
	bool done = guest->held;
	int rc = 0;

	if (!guest->held && !*req)
		return -ECONNRESET; /* it could not be granted again: the connection has failed */
	if (!guest->held)
		rc = spw_xfer_test(*req, &done, &guest->held_bytes);
	if (!done)
		return -EAGAIN;
	*req = NULL;
	rc = rc ? rc : guest_take(guest, guest_frame(guest, guest->rx_at), guest->held_bytes);
	guest->kv->stat.held += rc == -EAGAIN && !guest->held;
	guest->held = rc == -EAGAIN;
	if (rc)
		return rc;
	(void)guest_grant(guest, guest->rx_at); /* seen at its next turn */
	guest->rx_at = (guest->rx_at + 1) % KV_RX_CNT;
	return 0;
}

/* A connection that has failed is read to its end: what had arrived is acknowledged at the other
 * end, where it counts as delivered. */
bool kv_guest_turn(struct kv_guest *guest)
{
	bool worked = false;
	int rc = 0;

	for (uint32_t i = 0; i < KV_RX_CNT && !rc; i++) {
		rc = guest_next(guest);
		worked |= !rc;
	}
	if (!rc || rc == -EAGAIN) {
		if (guest->named || spw_monotonic_ms() < guest->until_ms)
			return worked;
		guest_turn_away(guest, "it did not say its name");
	} else if (rc == -EPROTO && !spw_xfer_conn_error(guest->conn)) {
		guest_turn_away(guest, "it broke the protocol");
	} else if (rc == -EEXIST) {
		guest_turn_away(guest, "that name is known with another info: drop it first");
	} else if (rc == -ENOMEM) {
		guest_turn_away(guest, "no memory for what it sends");
	} else if (rc == -EMSGSIZE) {
		guest_turn_away(guest, "it broke the protocol");
	} else {
		kv_guest_end(guest);
	}
	return true;
}
