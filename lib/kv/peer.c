/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Other agents by name. One is connected to when something is asked of it, and ends once: nothing
 * is tried again by itself, because what its memory held is not known any more.
 *
 *   load ─► IDLE ─► asked ─► CONNECTING ─► UP ─► ENDED ─► drop ─► freed, with its last user
 *                                └───────────────►┘
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "kv/agent.h"

/* ---- find and make ---- */

struct kv_peer *kv_peer_named(const struct spw_kv *kv, const void *name, size_t name_bytes)
{
	struct kv_peer *peer;

	TAILQ_FOREACH(peer, &kv->peers, link)
	if (kv_name_is(&peer->name, name, name_bytes))
		break;
	return peer;
}

struct kv_peer *kv_peer_find(struct spw_kv *kv, const void *name, size_t name_bytes, int *rc_out)
{
	struct kv_peer *peer;

	if (!name || !spw_in_range(name_bytes, 1, SPW_KV_NAME_MAX)) {
		*rc_out = spw_err(EINVAL, "an agent's name of %zu bytes: 1 .. %u", name_bytes,
				  SPW_KV_NAME_MAX);
		return NULL;
	}
	peer = kv_peer_named(kv, name, name_bytes);
	*rc_out = peer ? 0
		       : spw_err(ENOENT, "agent %.*s is not known here: load its info first",
				 (int)name_bytes, (const char *)name);
	return peer;
}

struct kv_peer *kv_peer_make(struct spw_kv *kv, const void *name, size_t name_bytes)
{
	struct kv_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->kv = kv;
	peer->name.len = (uint32_t)name_bytes;
	memcpy(peer->name.byte, name, name_bytes);
	TAILQ_INIT(&peer->transfers);
	TAILQ_INIT(&peer->sends);
	TAILQ_INSERT_TAIL(&kv->peers, peer, link);
	return peer;
}

void kv_peer_free(struct kv_peer *peer)
{
	TAILQ_REMOVE(peer->dropped ? &peer->kv->gone : &peer->kv->peers, peer, link);
	free(peer);
}

void kv_peer_put(struct kv_peer *peer)
{
	peer->user_cnt--;
	if (peer->dropped && !peer->user_cnt)
		kv_peer_free(peer);
}

int kv_peer_usable(const struct kv_peer *peer)
{
	if (peer->state != SPW_KV_ENDED)
		return 0;
	return spw_err(-peer->error, "agent %.*s: %s", KV_TEXT(&peer->name), peer->why);
}

/* ---- turns ---- */

static void peer_keep_rails(struct kv_peer *peer)
{
	peer->rail_cnt = 0;
	while (peer->rail_cnt < SPW_XFER_RAIL_MAX &&
	       spw_xfer_conn_rail_stat(peer->conn, peer->rail_cnt, &peer->rail[peer->rail_cnt]))
		peer->rail_cnt++;
}

/* Windows end with the connection. */
static void peer_forget_windows(const struct kv_peer *peer)
{
	struct spw_kv_region *region;

	TAILQ_FOREACH(region, &peer->kv->regions, link)
	if (region->peer == peer)
		region->window = NULL;
}

/* The connection goes first: then no NIC has bytes of the transfers that end. A listener refuses
 * the key of another incarnation, or another secret, with -EACCES. */
void kv_peer_end(struct kv_peer *peer, int error)
{
	if (peer->state == SPW_KV_ENDED)
		return;
	peer->state = SPW_KV_ENDED;
	peer->error = error == -EACCES ? -ECONNREFUSED : error;
	snprintf(peer->why, sizeof(peer->why), "%s", spw_err_text());
	if (peer->conn)
		peer_keep_rails(peer);
	spw_xfer_conn_close(peer->conn);
	peer->conn = NULL;
	peer_forget_windows(peer);
	(void)kv_peer_usable(peer); /* the text, with its name */
	while (!TAILQ_EMPTY(&peer->transfers)) {
		TAILQ_FIRST(&peer->transfers)->req = NULL;
		kv_transfer_finish(TAILQ_FIRST(&peer->transfers), peer->error);
	}
	kv_send_end(peer);
	peer->kv->stat.peers_ended += !peer->is_self && !peer->dropped;
}

/* Returns: whether it stands, or has ended. */
static bool peer_dial(struct kv_peer *peer)
{
	const struct spw_xfer_handle handle = kv_info_handle(&peer->info);
	int rc = spw_xfer_connect(peer->kv->x, &handle, &peer->conn);

	peer->state = SPW_KV_CONNECTING;
	if (rc == -EAGAIN)
		return false;
	rc = rc ? rc : kv_send_begin(peer);
	if (rc) /* -EAGAIN of locked memory is not "not yet" */
		kv_peer_end(peer, rc == -EAGAIN ? -ENOMEM : rc);
	else
		peer->state = SPW_KV_UP;
	return true;
}

static bool peer_is_asked(const struct kv_peer *peer)
{
	return peer->wanted || !TAILQ_EMPTY(&peer->transfers) || !TAILQ_EMPTY(&peer->sends);
}

/* A transfer may leave the list in its turn. What had arrived before a connection failed is done:
 * so its failure is looked at last. */
static bool peer_move(struct kv_peer *peer)
{
	struct spw_kv_transfer *t, *next;
	bool worked = false;
	int rc;

	for (t = TAILQ_FIRST(&peer->transfers); t; t = next) {
		next = TAILQ_NEXT(t, link_way);
		worked |= kv_transfer_turn(t);
	}
	worked |= kv_send_turn(peer);
	rc = peer->conn ? spw_xfer_conn_error(peer->conn) : 0;
	if (rc)
		spw_err(-rc, "%s", spw_xfer_conn_text(peer->conn));
	else if (peer->breach)
		rc = spw_err(EPROTO, "it broke the protocol: it grants less than a frame");
	else
		return worked;
	kv_peer_end(peer, rc);
	return true;
}

bool kv_peer_turn(struct kv_peer *peer)
{
	switch (peer->state) {
	case SPW_KV_IDLE:
		return peer_is_asked(peer) && peer_dial(peer);
	case SPW_KV_CONNECTING:
		return peer_dial(peer);
	case SPW_KV_UP:
		return peer_move(peer);
	case SPW_KV_ENDED:
		break;
	}
	return false;
}

/* ---- the caller's ---- */

/* Guests of this name. keep: the id of those that stay; NULL: none do. */
static void peer_end_guests(struct spw_kv *kv, const struct kv_name *name, const uint8_t *keep)
{
	struct kv_guest *guest, *next;

	for (guest = TAILQ_FIRST(&kv->guests); guest; guest = next) {
		next = TAILQ_NEXT(guest, link);
		if (guest->named &&
		    kv_name_is(name, guest->hello.name.byte, guest->hello.name.len) &&
		    (!keep || memcmp(keep, guest->hello.id, KV_ID_BYTES)))
			kv_guest_end(guest);
	}
}

static int peer_load(struct spw_kv *kv, const void *name, size_t name_bytes,
		     const struct spw_kv_info *info)
{
	int rc;
	struct kv_peer *peer = kv_peer_find(kv, name, name_bytes, &rc);

	if (peer && !memcmp(&peer->info, info, sizeof(*info)))
		return 0;
	if (peer)
		return spw_err(EEXIST, "agent %.*s is known with another info: drop it first",
			       KV_TEXT(&peer->name));
	if (rc != -ENOENT)
		return rc;
	peer = kv_peer_make(kv, name, name_bytes);
	if (!peer)
		return spw_err(ENOMEM, "no memory for an agent's info");
	peer->info = *info;
	peer_end_guests(kv, &peer->name, kv_info_id(info));
	spw_err_clear();
	return 0;
}

int spw_kv_peer_load(struct spw_kv *kv, const void *name, size_t name_bytes, const void *info,
		     size_t info_bytes)
{
	struct spw_kv_info copy;
	int rc = kv_info_check(info, info_bytes);

	if (rc)
		return rc;
	memcpy(&copy, info, sizeof(copy));
	rc = kv_enter(kv);
	if (rc)
		return rc;
	rc = peer_load(kv, name, name_bytes, &copy);
	kv_unlock(kv);
	return rc;
}

int spw_kv_peer_connect(struct spw_kv *kv, const void *name, size_t name_bytes)
{
	struct kv_peer *peer;
	int rc = kv_enter_peer(kv, name, name_bytes, &peer);

	if (rc)
		return rc;
	if (!peer->wanted)
		kv_wake(kv);
	peer->wanted = true;
	kv_ask(kv);
	rc = peer->state == SPW_KV_UP ? 0 : -EAGAIN;
	rc = peer->state == SPW_KV_ENDED ? kv_peer_usable(peer) : rc;
	kv_unlock(kv);
	return rc;
}

static void peer_drop(struct kv_peer *peer)
{
	struct spw_kv *kv = peer->kv;

	TAILQ_REMOVE(&kv->peers, peer, link);
	TAILQ_INSERT_TAIL(&kv->gone, peer, link);
	peer->dropped = true;
	peer->user_cnt++;
	kv_peer_end(peer, spw_err(ECONNRESET, "it was dropped here"));
	peer_end_guests(kv, &peer->name, NULL);
	kv_peer_put(peer);
}

int spw_kv_peer_drop(struct spw_kv *kv, const void *name, size_t name_bytes)
{
	struct kv_peer *peer;
	int rc = kv_enter_peer(kv, name, name_bytes, &peer);

	if (rc)
		return rc;
	if (peer->is_self) {
		rc = spw_err(EINVAL, "an agent does not forget its own name");
	} else {
		(void)kv_turn(kv); /* what it notified and has been acknowledged */
		kv_wake(kv);
		peer_drop(peer);
	}
	kv_unlock(kv);
	return rc;
}
