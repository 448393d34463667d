/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/kv: an agent and what it consists of.
 *
 *   agent.c   open, close, the lock, one turn      peer.c      other agents by name, connecting
 *   wire.c    info and frames as bytes             guest.c     connections that others made
 *   note.c    notifications, both ways             mem.c       memories, regions
 *   transfer.c  make, post, check, release         move.c      their bytes on their way
 *   stat.c    what happened                        run.c       the thread of an agent
 *
 * A turn (kv_turn) advances all of it; every call that makes progress takes one. lib/xfer's calls
 * are made under the agent's lock only, which makes its holder the endpoint's owner.
 *
 *   spw_kv ─┬─ kv_peer ─┬─ its connection, which this agent made
 *           │           ├─ transfers under way   WAIT ─► MOVE ─► FLUSH ─► NOTE ─► done
 *           │           └─ notes to be sent      ─► frames, in order ─► the peer's kv_guest
 *           └─ kv_guest ── frames received ─► notes to be taken
 *
 * Thread of all functions: the holder of the agent's lock.
 */
#ifndef SPW_KV_AGENT_H
#define SPW_KV_AGENT_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/spw_log.h"
#include "kv/spw_kv.h"
#include "kv/wire.h"

#define KV_TX_CNT 16u /* frames under way to a peer */
#define KV_RX_CNT 32u /* granted to a guest */

/* A name in messages: printf("%.*s", KV_TEXT(name)). */
#define KV_TEXT(n) (int)(n)->len, (const char *)(n)->byte

TAILQ_HEAD(kv_peers, kv_peer);
TAILQ_HEAD(kv_guests, kv_guest);
TAILQ_HEAD(kv_mems, spw_kv_mem);
TAILQ_HEAD(kv_regions, spw_kv_region);
TAILQ_HEAD(kv_transfers, spw_kv_transfer);
TAILQ_HEAD(kv_sends, kv_send);
TAILQ_HEAD(kv_gots, kv_got);

/* A notification on its way out. */
struct kv_send {
	TAILQ_ENTRY(kv_send) link;
	struct spw_kv_transfer *transfer; /* whose it is; NULL: nobody waits for it */
	uint32_t bytes;
	uint32_t at;             /* of them, with the NICs or beyond */
	bool all;                /* its last frame was posted */
	uint32_t open;           /* frames that are not acknowledged */
	struct kv_peer *charged; /* whose send_bytes have it; NULL: of a transfer */
	uint8_t text[];
};

/* One that arrived, or arrives. note.name and note.text point behind it. */
struct kv_got {
	struct spw_kv_note note; /* first: the caller's pointer */
	TAILQ_ENTRY(kv_got) link;
	bool stranger;
	size_t cost; /* in kv->queued */
};

struct kv_peer {
	TAILQ_ENTRY(kv_peer) link;
	struct spw_kv *kv;
	struct kv_name name;
	struct spw_kv_info info;
	bool is_self, dropped;
	bool wanted;       /* a connection was asked for */
	uint32_t user_cnt; /* regions and transfers; a dropped peer lives for them */
	enum spw_kv_state state;
	int error;
	char why[256];
	struct spw_xfer_conn *conn;
	struct kv_transfers transfers; /* under way */
	struct kv_sends sends;
	/* frames under way, in order: [tx_ci, tx_pi) */
	uint8_t *frame;
	struct spw_xfer_mem *frame_mem;
	struct spw_xfer_req *tx_req[KV_TX_CNT];
	struct kv_send *tx_send[KV_TX_CNT]; /* NULL: the first frame, which is no notification */
	uint32_t tx_ci, tx_pi;
	uint64_t send_bytes; /* of spw_kv_notify, not acknowledged */
	bool breach;         /* it grants less than a frame */
	uint64_t written_bytes, read_bytes;
	uint32_t rail_cnt;
	struct spw_xfer_rail_stat rail[SPW_XFER_RAIL_MAX]; /* when it ended */
};

/* A connection that another agent made. */
struct kv_guest {
	TAILQ_ENTRY(kv_guest) link;
	struct spw_kv *kv;
	struct spw_xfer_conn *conn;
	uint64_t until_ms; /* for its name */
	bool named;
	struct kv_hello hello;
	uint8_t *frame; /* KV_RX_CNT, received into in turn */
	struct spw_xfer_mem *frame_mem;
	struct spw_xfer_req *rx_req[KV_RX_CNT];
	uint32_t rx_at;
	bool held; /* the frame at rx_at arrived, and the queue had no room for it */
	uint64_t held_bytes;
	struct kv_got *part; /* not complete */
	uint32_t part_at;
};

struct spw_kv_mem {
	TAILQ_ENTRY(spw_kv_mem) link;
	struct spw_kv *kv;
	struct spw_xfer_mem *mem;
	struct spw_xfer_mem_req req;
	struct spw_xfer_blob blob;
	uint32_t user_cnt;   /* transfers, and regions of the own name */
	uint64_t flush_mark; /* of the transfer that flushed it last */
};

struct spw_kv_region {
	TAILQ_ENTRY(spw_kv_region) link;
	struct kv_peer *peer;
	struct spw_xfer_blob blob;
	uint64_t bytes;
	struct spw_xfer_window *window; /* on the peer's connection; NULL: not yet */
	struct spw_kv_mem *mem;         /* of the own name: what it is */
	uint32_t user_cnt;              /* transfers */
};

enum kv_stage {
	KV_DONE, /* or never posted */
	KV_WAIT, /* for a connection, or for room */
	KV_MOVE,
	KV_FLUSH, /* of what a NIC wrote to a GPU */
	KV_NOTE,
};

struct spw_kv_transfer {
	TAILQ_ENTRY(spw_kv_transfer) link;     /* of the agent */
	TAILQ_ENTRY(spw_kv_transfer) link_way; /* of the peer, while under way */
	struct kv_peer *peer;
	bool write, released, resolved; /* resolved: the pieces have windows */
	bool flushes;                   /* a read into a GPU's memory */
	uint64_t flush_mark;            /* a number of this flush alone */
	enum kv_stage stage;
	int error;
	char why[256];
	struct spw_xfer_piece *piece;  /* merged */
	struct spw_kv_mem **mem;       /* of each piece */
	struct spw_kv_region **region; /* likewise */
	uint32_t piece_cnt;
	uint64_t bytes;
	struct spw_xfer_req *req;
	struct kv_send *note; /* of this post, until it is among the peer's */
	uint32_t piece_at;    /* KV_FLUSH, and copies: how far it is */
	uint64_t offset;
};

struct spw_kv {
	/* Taken in this order; who waits for `lock` holds `next`, so that a thread which asks again
	 * and again does not pass the others. */
	pthread_mutex_t next, lock;
	struct spw_xfer *x;
	struct spw_xfer_listener *listener;
	struct spw_kv_info info;
	struct kv_hello hello; /* what it says first: its id and name */
	uint64_t queue_bytes;
	uint32_t guest_max, guest_cnt;
	struct kv_peers peers; /* the own name first */
	struct kv_peers gone;  /* dropped, and still used */
	struct kv_guests guests;
	struct kv_mems mems;
	struct kv_regions regions;
	struct kv_transfers transfers;
	struct kv_gots gots;  /* to be taken */
	uint64_t queued[2];   /* bytes of notifications that arrive or wait; [1]: of strangers */
	uint64_t flush_marks; /* given so far */
	struct spw_kv_stat stat;
	struct spw_log_limit limit;
	uint32_t forks; /* spw_fork_cnt when it was opened */
	/* conf.thread */
	pthread_t thread;
	int wake_fd; /* an eventfd */
	bool running, stop;
	bool asleep; /* or about to be: it will poll wake_fd */
	bool wake;   /* to be woken when the lock is free again */
};

/* ---- agent.c ---- */

/* Thread of these: any. */
void kv_lock(struct spw_kv *kv);
/* The lock, for a public call. Returns: 0: it is held; -ECHILD with a text, and it is not: a child
 * of the process that opened the agent has neither its thread nor its NICs, and the lock may be
 * held for ever. */
int kv_enter(struct spw_kv *kv);
/* The same, and a peer by its name; the lock is held only if that is known. Errors: also those of
 * kv_peer_find. */
int kv_enter_peer(struct spw_kv *kv, const void *name, size_t name_bytes,
		  struct kv_peer **peer_out);
void kv_unlock(struct spw_kv *kv);
/* Advances everything by one turn. Returns: whether anything happened. */
bool kv_turn(struct spw_kv *kv);
/* A turn for a call that asks, unless the agent has a thread for that. */
void kv_ask(struct spw_kv *kv);

/* ---- run.c ---- */

int kv_run_start(struct spw_kv *kv);
/* Thread: any; without the lock. */
void kv_run_stop(struct spw_kv *kv);
/* There is work for the agent's thread, which may sleep. */
void kv_wake(struct spw_kv *kv);

/* ---- peer.c ---- */

/* Returns: NULL: none is known by this name. */
struct kv_peer *kv_peer_named(const struct spw_kv *kv, const void *name, size_t name_bytes);
/* Returns: NULL, and -ENOENT with a text in *rc_out; or -EINVAL: it is no name. */
struct kv_peer *kv_peer_find(struct spw_kv *kv, const void *name, size_t name_bytes, int *rc_out);
/* A peer without info. Returns: NULL: no memory. */
struct kv_peer *kv_peer_make(struct spw_kv *kv, const void *name, size_t name_bytes);
/* Returns: 0 while it may be asked; or its error, with a text. */
int kv_peer_usable(const struct kv_peer *peer);
/* Connects if something is asked of it, and moves what is. */
bool kv_peer_turn(struct kv_peer *peer);
/* Ends it with the text of spw_err, which gets its name. */
void kv_peer_end(struct kv_peer *peer, int error);
/* A region or transfer of it is gone. */
void kv_peer_put(struct kv_peer *peer);
void kv_peer_free(struct kv_peer *peer);

/* ---- guest.c ---- */

/* Accepts one connection. */
bool kv_guest_accept(struct spw_kv *kv);
bool kv_guest_turn(struct kv_guest *guest);
void kv_guest_end(struct kv_guest *guest);

/* ---- note.c ---- */

int kv_send_make(const void *text, size_t bytes, struct kv_send **send_out);
void kv_send_free(struct kv_send *send);
/* The connection stands: room for frames, and the first of them. */
int kv_send_begin(struct kv_peer *peer);
/* Frames of the peer's notifications. */
bool kv_send_turn(struct kv_peer *peer);
/* The peer ended: nothing of it is sent any more; transfers have ended before. */
void kv_send_end(struct kv_peer *peer);
/* A frame of a guest that has said its name. Returns: -EAGAIN: no room in the queue. */
int kv_got_take(struct kv_guest *guest, const struct kv_frame *frame, const uint8_t *data);
/* One that is in no list. */
void kv_got_free(struct spw_kv *kv, struct kv_got *got);

/* ---- move.c ---- */

bool kv_transfer_turn(struct spw_kv_transfer *transfer);
/* It has ended; with an error: with the text of spw_err. */
void kv_transfer_finish(struct spw_kv_transfer *transfer, int error);

/* ---- transfer.c ---- */

/* With what it still owns. */
void kv_transfer_free(struct spw_kv_transfer *transfer);

#endif
