/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Agents that know each other by name, move lists of pieces between their memories, and notify each
 * other: what a mover of KV caches needs, over the rails of lib/xfer.
 *
 *   spw_kv_open ─► spw_kv_mem_reg ─► spw_kv_info, spw_kv_mem_blob   bytes, for the caller to carry
 *        the other agent's bytes ─► spw_kv_peer_load, spw_kv_region_load
 *        spw_kv_transfer_make ─► spw_kv_post ─► spw_kv_check ─► again, or spw_kv_release
 *        spw_kv_notify ─► the other agent's spw_kv_note_take ─► spw_kv_note_free
 *   spw_kv_close
 *
 * Nothing waits for another agent. Loading an agent's info only stores it; the first transfer,
 * notification or spw_kv_peer_connect connects, and what was asked is under way until then. Each
 * agent makes the connection for what it asks itself, so two that ask each other have two:
 *
 *   A ── transfers, notifications of A ──► B
 *   A ◄── transfers, notifications of B ── B
 *
 * An agent whose info was never loaded here may connect and notify, too: a stranger. Its name is
 * what it says first.
 *
 * When an agent ends, dies or cannot be reached, all that was asked of it ends with one error, and
 * so do later calls: it stays known, with the reason, until spw_kv_peer_drop. Then its name may be
 * loaded again, with the same info or that of its next incarnation.
 *
 * Trust: as lib/xfer (spw_xfer.h). Who knows an agent's info may connect to it under any name but
 * one that was loaded there with another info, and with a blob of its memory read and write that.
 *
 * Thread: every call may come from any thread; an agent has a lock of its own. With conf.thread a
 * thread of the library makes progress; it sleeps while there is nothing to do. Without it the
 * calls that ask (check, connect, note_take) are the only progress: an agent that calls none of
 * them neither moves bytes nor answers others.
 *
 * Fork: a child has neither its parent's threads nor its NICs. There every call that can fail
 * returns -ECHILD, statistics are empty, and spw_kv_close leaves everything as it is; the parent
 * goes on. A child opens agents of its own.
 */
#ifndef SPW_KV_H
#define SPW_KV_H

#include "xfer/spw_xfer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_KV_NAME_MAX    255u        /* bytes of a name; any bytes, at least one */
#define SPW_KV_NOTE_MAX    (16u << 20) /* bytes of a notification */
#define SPW_KV_INFO_BYTES  160u
#define SPW_KV_QUEUE_BYTES (64ull << 20) /* default of conf.queue_bytes */
#define SPW_KV_GUEST_MAX   256u          /* default of conf.guest_max */
#define SPW_KV_SPIN_US     50u           /* conf.thread: it sleeps after so long without work */

struct spw_kv;          /* an agent */
struct spw_kv_mem;      /* memory of this agent */
struct spw_kv_region;   /* memory of an agent that was loaded here */
struct spw_kv_transfer; /* two lists of pieces, to be moved as often as wanted */

/* ---- agent ---- */

struct spw_kv_conf {
	struct spw_xfer_conf xfer; /* rails, addresses, secret; all zero: the defaults */
	const void *name;          /* copied */
	size_t name_bytes;         /* 1 .. SPW_KV_NAME_MAX */
	/* Memory of notifications that arrived and were not taken: from there on the senders are
	 * held up. Strangers get half of it together, so none of them holds up the others. 48 MiB
	 * or more; 0: SPW_KV_QUEUE_BYTES. The same limit holds for what waits to be sent to one
	 * agent, but for the notifications of transfers. */
	uint64_t queue_bytes;
	uint32_t guest_max; /* connections that others have to this agent, of some 260 KB each;
			     * 0: SPW_KV_GUEST_MAX */
	bool thread;        /* makes progress by itself */
};

/* Purpose: opens an agent: an endpoint of lib/xfer, and a listener.
 * Owner: the caller, until spw_kv_close.
 * Thread: any; takes milliseconds.
 * Errors: -EINVAL a key of conf; those of spw_xfer_open and spw_xfer_listen; -ENOMEM; with a
 *   thread: -EMFILE, -EAGAIN. */
int spw_kv_open(const struct spw_kv_conf *conf, struct spw_kv **kv_out);

/* Purpose: ends an agent: its connections, transfers, regions and memories. What others have under
 *   way with it ends with -ECONNRESET there.
 * Shape: NULL is fine. Thread: any, the last call. */
void spw_kv_close(struct spw_kv *kv);

/* How to connect to one incarnation of an agent: plain bytes, to be passed on as they are.
 *
 *   "SPWK", u16 version, u16 0, id[16], handle[128] of lib/xfer, check[8]     big-endian
 *
 * The check is the beginning of an HMAC-SHA-256 under the id over what precedes it: it finds
 * damage, and guards nothing. */
struct spw_kv_info {
	uint8_t byte[SPW_KV_INFO_BYTES];
};

/* Purpose: this agent's info, the same each time. Thread: any. */
void spw_kv_info(const struct spw_kv *kv, struct spw_kv_info *info_out);

/* ---- other agents ---- */

/* Purpose: names an agent, and stores how to connect to it. Loading the same info again is fine.
 * Shape: the own name takes the own info, and needs none: it is always known.
 * Thread: any; never waits.
 * Errors: -EINVAL no name, or bytes that are no info of this version, cut or changed; -EEXIST the
 *   name has another info, live or ended: drop it first; -ENOMEM. */
int spw_kv_peer_load(struct spw_kv *kv, const void *name, size_t name_bytes, const void *info,
		     size_t info_bytes);

/* Purpose: connects, if no connection stands yet; need not be called.
 * Returns: 0: it stands; -EAGAIN: not yet: call again.
 * Thread: any; never waits; makes progress.
 * Errors: -ENOENT no such name; of an agent that ended, here and in all calls below that name it:
 *   -ECONNRESET it closed or died; -ECONNREFUSED nobody listens there, or another incarnation or
 *   secret; -ETIMEDOUT no answer; others of spw_xfer_connect. The text begins with its name. */
int spw_kv_peer_connect(struct spw_kv *kv, const void *name, size_t name_bytes);

/* Purpose: forgets an agent, and closes the connections with it in both directions. Transfers with
 *   it that are under way end with -ECONNRESET; these and its regions stay the caller's to release,
 *   and are of no other use. What it notified before is still there to be taken, but for what
 *   the queue had no room for.
 * Thread: any.
 * Errors: -ENOENT; -EINVAL the own name. */
int spw_kv_peer_drop(struct spw_kv *kv, const void *name, size_t name_bytes);

/* ---- notifications ---- */

/* Purpose: sends bytes to an agent, which reads them with the name of this one. Those to one agent
 *   arrive in the order of these calls, each once; a transfer's takes its place when the bytes of
 *   the transfer have arrived.
 * Shape: bytes 0 .. SPW_KV_NOTE_MAX; text is copied. If the agent ends, what it has not received is
 *   lost: spw_kv_peer_connect says so.
 * Returns: 0: it is on its way; -EAGAIN: conf.queue_bytes wait to be sent to this agent.
 * Thread: any; never waits.
 * Errors: -EMSGSIZE; -ENOMEM; those of spw_kv_peer_connect. */
int spw_kv_notify(struct spw_kv *kv, const void *name, size_t name_bytes, const void *text,
		  size_t bytes);

struct spw_kv_note {
	const void *name; /* of the sender */
	const void *text;
	size_t name_bytes, bytes;
};

/* Purpose: the oldest notification that arrived and was not taken.
 * Owner: *note_out is the caller's, until spw_kv_note_free; it outlives the agent.
 * Returns: 0; -EAGAIN: there is none.
 * Order: what a transfer of the sender wrote before its notification is visible to this thread.
 * Thread: any; makes progress. */
int spw_kv_note_take(struct spw_kv *kv, struct spw_kv_note **note_out);

/* Purpose: frees it. Shape: NULL is fine. Thread: any. */
void spw_kv_note_free(struct spw_kv_note *note);

/* ---- memory ---- */

/* Purpose: registers memory of this agent, for its transfers and for those of other agents.
 * Shape: as spw_xfer_mem_reg; req->exported is not read: all of it is for other agents.
 * Owner: *mem_out is the caller's, until spw_kv_mem_dereg or spw_kv_close; the memory outlives it.
 * Thread: any; pins pages, and holds up the agent meanwhile.
 * Errors: those of spw_xfer_mem_reg; -ERANGE it has 512 GiB or more. */
int spw_kv_mem_reg(struct spw_kv *kv, const struct spw_xfer_mem_req *req,
		   struct spw_kv_mem **mem_out);

/* Purpose: ends a registration. Transfers of other agents that still reach for it fail there.
 * Shape: NULL is fine. Thread: any.
 * Errors: -EBUSY a transfer of this agent, or a region of its own name, uses it. */
int spw_kv_mem_dereg(struct spw_kv_mem *mem);

/* Purpose: the bytes by which another agent loads this memory. Thread: any. */
void spw_kv_mem_blob(const struct spw_kv_mem *mem, struct spw_xfer_blob *blob_out);

/* Purpose: memory of an agent that was loaded, by its blob, for transfers with it.
 * Shape: mem_bytes: its length as its owner gave it, the bound of what transfers name. Whether the
 *   blob is the agent's own and of this length is found out when a connection stands.
 * Owner: *region_out is the caller's, until spw_kv_region_drop or spw_kv_close.
 * Thread: any; never waits.
 * Errors: -EINVAL no blob by its length; of the own name: no blob of its memory; -ENOMEM; those of
 *   spw_kv_peer_connect. */
int spw_kv_region_load(struct spw_kv *kv, const void *name, size_t name_bytes, const void *blob,
		       size_t blob_bytes, uint64_t mem_bytes, struct spw_kv_region **region_out);

/* Purpose: forgets a region.
 * Shape: NULL is fine. Thread: any.
 * Errors: -EBUSY a transfer uses it. */
int spw_kv_region_drop(struct spw_kv_region *region);

/* ---- transfers ---- */

struct spw_kv_near {
	struct spw_kv_mem *mem;
	void *addr; /* in it */
	uint64_t bytes;
};

struct spw_kv_far {
	struct spw_kv_region *region; /* all of one agent */
	uint64_t offset;              /* in it */
	uint64_t bytes;
};

struct spw_kv_lists {
	const struct spw_kv_near *near;
	const struct spw_kv_far *far;
	uint32_t near_cnt, far_cnt; /* equal; 0 .. SPW_XFER_PIECE_MAX */
	bool write;                 /* near to far; else far to near */
};

/* Purpose: a transfer between near[i] and far[i], of equal length, with the agent of this name.
 *   Pieces that follow each other at both ends become one. Pieces that overlap where they are
 *   written: each byte is of any of them.
 * Shape: each within its memory or region, 0 .. SPW_XFER_BYTES_MAX bytes. The lists may be freed
 *   after the call.
 * Owner: *transfer_out is the caller's, until spw_kv_release or spw_kv_close; its memories and
 *   regions are in use until then.
 * Thread: any; takes some ns a piece.
 * Errors: -EINVAL counts or lengths differ, a region of another agent; -ERANGE with the number of
 *   the piece; -EOPNOTSUPP with the own name, dma-bufs: no CPU can copy them; -ENOMEM; those of
 *   spw_kv_peer_connect. */
int spw_kv_transfer_make(struct spw_kv *kv, const void *name, size_t name_bytes,
			 const struct spw_kv_lists *lists, struct spw_kv_transfer **transfer_out);

/* Purpose: starts the transfer; with a note it notifies the agent after all of its bytes are there,
 *   of a read: after all of them were read.
 * Shape: note NULL: none; note_bytes 0 .. SPW_KV_NOTE_MAX; it is copied. Several transfers under
 *   way move in any order.
 * Owner: its bytes are the library's until spw_kv_check has not returned -EAGAIN.
 * Thread: any; never waits.
 * Errors: -EBUSY the last post is not done; -EMSGSIZE; -ENOMEM; those of spw_kv_peer_connect. */
int spw_kv_post(struct spw_kv_transfer *transfer, const void *note, size_t note_bytes);

/* Purpose: whether what was posted last is done.
 * Returns: 0: all bytes have moved, and the notification is in the agent's memory; also if nothing
 *   was posted. -EAGAIN: not yet.
 * Order: the bytes of a read that is done are visible to this thread, and to kernels that start
 *   afterwards.
 * Thread: any; makes progress.
 * Errors, each time until the next post: -EINVAL a blob that is not the agent's, or of another
 *   length; -EREMOTEIO its NIC refused access: the memory is not registered any more; those of
 *   spw_kv_peer_connect. Any of the bytes may have moved. */
int spw_kv_check(struct spw_kv_transfer *transfer);

/* Purpose: frees a transfer. If it is under way it is cancelled: it does not notify any more, but
 *   for a notification that has begun, and any of its bytes may have moved.
 * Shape: the pointer is of no use afterwards, whatever is returned. NULL is fine.
 * Returns: 0: it is gone; -EINPROGRESS: NICs still move bytes of it, and it frees itself when they
 *   have finished: until then its memories and regions are in use (spw_kv_mem_dereg: -EBUSY), and
 *   its bytes must stay mapped.
 * Thread: any; never waits. */
int spw_kv_release(struct spw_kv_transfer *transfer);

/* ---- what happened ---- */

/* Totals of an agent since it was opened. */
struct spw_kv_stat {
	uint64_t posted, done, failed, cancelled; /* transfers */
	uint64_t written_bytes, read_bytes;       /* of those that are done, to others */
	uint64_t copied_bytes;                    /* likewise, with the own name */
	uint64_t tx_notes, tx_note_bytes;         /* that arrived at others, or here */
	uint64_t rx_notes, rx_note_bytes;         /* that arrived here */
	uint64_t queued_bytes;                    /* of them, in memory now */
	uint64_t held;        /* times a sender was held up, because the queue was full */
	uint64_t guests;      /* connections that others have to this agent now */
	uint64_t refused;     /* of others, ended here: too many, a breach, a name in use */
	uint64_t peers_ended; /* agents that ended or could not be reached */
	uint64_t sleeps;      /* of the agent's thread */
};

/* Purpose: the totals. Thread: any. */
void spw_kv_stat(struct spw_kv *kv, struct spw_kv_stat *stat_out);

enum spw_kv_state {
	SPW_KV_IDLE,       /* known, and nothing was asked of it */
	SPW_KV_CONNECTING, /* what was asked waits */
	SPW_KV_UP,
	SPW_KV_ENDED,
};

/* One agent that is known here, and the rails that carry what this one asks of it. */
struct spw_kv_peer_stat {
	uint8_t name[SPW_KV_NAME_MAX];
	uint8_t name_bytes;
	enum spw_kv_state state;
	int error;                          /* why it ended; 0: it did not */
	char why[256];                      /* the same in words */
	uint64_t written_bytes, read_bytes; /* of transfers that are done */
	uint32_t rail_cnt;                  /* as it is, or was when it ended */
	struct spw_xfer_rail_stat rail[SPW_XFER_RAIL_MAX];
};

/* Purpose: the agents that are known, this one first.
 * Shape: idx from 0.
 * Returns: false: there is no such entry.
 * Thread: any. */
bool spw_kv_peer_stat(struct spw_kv *kv, uint32_t idx, struct spw_kv_peer_stat *stat_out);

/* Purpose: the devices of this agent; as spw_xfer_rail_stat. Thread: any. */
bool spw_kv_rail_stat(struct spw_kv *kv, uint32_t idx, struct spw_xfer_rail_stat *stat_out);

#ifdef __cplusplus
}
#endif
#endif
