/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An agent: opened, closed, and moved on by one turn after the other. The lock is fair between two
 * threads that both ask for it all the time, because who waits for it blocks the way of who had it
 * last:
 *
 *   next ──► lock ──► (next is free again) ──► ... ──► unlock
 */
#include "kv/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/spw_err.h"
#include "base/spw_fork.h"
#include "base/spw_log.h"
#include "oob/spw_oob_auth.h"

#define QUEUE_MIN (3ull * SPW_KV_NOTE_MAX) /* half of it has room for the longest */

void kv_lock(struct spw_kv *kv)
{
	pthread_mutex_lock(&kv->next);
	pthread_mutex_lock(&kv->lock);
	pthread_mutex_unlock(&kv->next);
}

int kv_enter(struct spw_kv *kv)
{
	int rc = spw_fork_check(kv->forks, "agent");

	if (!rc)
		kv_lock(kv);
	return rc;
}

int kv_enter_peer(struct spw_kv *kv, const void *name, size_t name_bytes, struct kv_peer **peer_out)
{
	int rc = kv_enter(kv);

	if (rc)
		return rc;
	*peer_out = kv_peer_find(kv, name, name_bytes, &rc);
	if (rc)
		kv_unlock(kv);
	return rc;
}

void kv_unlock(struct spw_kv *kv)
{
	const bool wake = kv->wake;

	kv->wake = false;
	pthread_mutex_unlock(&kv->lock);
	if (wake)
		(void)eventfd_write(kv->wake_fd, 1);
}

/* A guest may end in its turn; a peer only by a call of the caller's. */
bool kv_turn(struct spw_kv *kv)
{
	bool worked = spw_xfer_progress(kv->x) != 0;
	struct kv_guest *guest, *next;
	struct kv_peer *peer;

	worked |= kv_guest_accept(kv);
	for (guest = TAILQ_FIRST(&kv->guests); guest; guest = next) {
		next = TAILQ_NEXT(guest, link);
		worked |= kv_guest_turn(guest);
	}
	guest = TAILQ_FIRST(&kv->guests);
	if (guest) { /* another one is the first to find room in the queue next time */
		TAILQ_REMOVE(&kv->guests, guest, link);
		TAILQ_INSERT_TAIL(&kv->guests, guest, link);
	}
	TAILQ_FOREACH(peer, &kv->peers, link)
	worked |= kv_peer_turn(peer);
	return worked;
}

void kv_ask(struct spw_kv *kv)
{
	if (!kv->running)
		(void)kv_turn(kv);
}

/* ---- open ---- */

static int agent_check(const struct spw_kv_conf *conf)
{
	if (!conf->name || !spw_in_range(conf->name_bytes, 1, SPW_KV_NAME_MAX))
		return spw_err(EINVAL, "an agent's name of %zu bytes: 1 .. %u", conf->name_bytes,
			       SPW_KV_NAME_MAX);
	if (conf->queue_bytes && conf->queue_bytes < QUEUE_MIN)
		return spw_err(EINVAL, "queue_bytes=%llu: at least %llu",
			       (unsigned long long)conf->queue_bytes, QUEUE_MIN);
	return 0;
}

static void agent_init(struct spw_kv *kv, const struct spw_kv_conf *conf)
{
	pthread_mutex_init(&kv->next, NULL);
	pthread_mutex_init(&kv->lock, NULL);
	TAILQ_INIT(&kv->peers);
	TAILQ_INIT(&kv->gone);
	TAILQ_INIT(&kv->guests);
	TAILQ_INIT(&kv->mems);
	TAILQ_INIT(&kv->regions);
	TAILQ_INIT(&kv->transfers);
	TAILQ_INIT(&kv->gots);
	spw_fork_watch();
	kv->forks = spw_fork_cnt;
	kv->wake_fd = -1;
	kv->queue_bytes = conf->queue_bytes ? conf->queue_bytes : SPW_KV_QUEUE_BYTES;
	kv->guest_max = conf->guest_max ? conf->guest_max : SPW_KV_GUEST_MAX;
	kv->hello.name.len = (uint32_t)conf->name_bytes;
	memcpy(kv->hello.name.byte, conf->name, conf->name_bytes);
}

/* The own name is a peer that is always up, and whose bytes the CPU moves. */
static int agent_know_itself(struct spw_kv *kv)
{
	struct kv_peer *peer = kv_peer_make(kv, kv->hello.name.byte, kv->hello.name.len);

	if (!peer)
		return spw_err(ENOMEM, "no memory for an agent");
	peer->is_self = true;
	peer->state = SPW_KV_UP;
	peer->info = kv->info;
	return 0;
}

static int agent_start(struct spw_kv *kv, const struct spw_kv_conf *conf)
{
	uint8_t chance[SPW_OOB_NONCE_BYTES];
	struct spw_xfer_handle handle;
	int rc = spw_xfer_open(&conf->xfer, &kv->x);

	rc = rc ? rc : spw_xfer_listen(kv->x, &handle, &kv->listener);
	if (!rc && spw_oob_nonce(chance))
		rc = spw_err(EIO, "no random bytes for an agent's id");
	if (rc)
		return rc;
	memcpy(kv->hello.id, chance, KV_ID_BYTES);
	kv_info_put(kv->hello.id, &handle, &kv->info);
	rc = agent_know_itself(kv);
	return rc || !conf->thread ? rc : kv_run_start(kv);
}

int spw_kv_open(const struct spw_kv_conf *conf, struct spw_kv **kv_out)
{
	struct spw_kv *kv;
	int rc = agent_check(conf);

	*kv_out = NULL;
	if (rc)
		return rc;
	kv = calloc(1, sizeof(*kv));
	if (!kv)
		return spw_err(ENOMEM, "no memory for an agent");
	agent_init(kv, conf);
	rc = agent_start(kv, conf);
	if (rc) {
		spw_kv_close(kv);
		return spw_err_ctx(rc, "agent %.*s", (int)conf->name_bytes,
				   (const char *)conf->name);
	}
	*kv_out = kv;
	return 0;
}

/* ---- close ---- */

/* Connections first: after that no device touches any memory. */
static void agent_end_all(struct spw_kv *kv)
{
	struct kv_peer *peer;

	TAILQ_FOREACH(peer, &kv->peers, link)
	kv_peer_end(peer, spw_err(ECONNRESET, "this agent was closed"));
	while (!TAILQ_EMPTY(&kv->guests))
		kv_guest_end(TAILQ_FIRST(&kv->guests));
}

static void agent_free_all(struct spw_kv *kv)
{
	while (!TAILQ_EMPTY(&kv->transfers))
		kv_transfer_free(TAILQ_FIRST(&kv->transfers));
	while (!TAILQ_EMPTY(&kv->regions))
		spw_kv_region_drop(TAILQ_FIRST(&kv->regions));
	while (!TAILQ_EMPTY(&kv->mems))
		spw_kv_mem_dereg(TAILQ_FIRST(&kv->mems));
	while (!TAILQ_EMPTY(&kv->gots)) {
		struct kv_got *got = TAILQ_FIRST(&kv->gots);

		TAILQ_REMOVE(&kv->gots, got, link);
		kv_got_free(kv, got);
	}
	while (!TAILQ_EMPTY(&kv->peers))
		kv_peer_free(TAILQ_FIRST(&kv->peers));
}

void spw_kv_close(struct spw_kv *kv)
{
	if (!kv || spw_fork_check(kv->forks, "agent"))
		return;
	kv_run_stop(kv);
	agent_end_all(kv);
	agent_free_all(kv);
	spw_xfer_close(kv->x);
	spw_log_limit_end(&kv->limit);
	pthread_mutex_destroy(&kv->lock);
	pthread_mutex_destroy(&kv->next);
	free(kv);
}

void spw_kv_info(const struct spw_kv *kv, struct spw_kv_info *info_out)
{
	*info_out = kv->info;
}
