/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/coll.
 *
 *   coll.c    open, close           join.c   exchange, connections, windows
 *   proxy.c   posts become puts     end.c    how a group ends, and who is to blame
 *   cpu.c     the cpu executor      tcp.c    an exchange over TCP; door.c lets its ranks in
 *   gpu.c     the CUDA executor; cuda/, in the CUDA module, has its kernels and all calls of CUDA
 *
 * Who writes what: the proxy (its thread, or the owner with SPW_COLL_CALLER) has the endpoint and
 * all of struct coll_peer after open; the executor has round, call and wait. They share struct
 * spw_coll_words only.
 */
#ifndef SPW_COLL_COLL_H
#define SPW_COLL_COLL_H

#include <pthread.h>

#include "coll/spw_coll.h"
#include "coll/wait.h"

#define COLL_NAME_BYTES 64u
#define COLL_NOTE       SPW_COLL_SLOT_CNT /* number of the window for notes */
#define COLL_WINDOW_CNT (SPW_COLL_SLOT_CNT + 1u)
#define COLL_NOTE_BYTES (SPW_COLL_FLAG_BYTES + 64u)
#define COLL_NOTIFY_MS  1000u
#define COLL_LOST_MS    50u /* to a rank that is believed lost: it may only be late */
#define COLL_NO_ROUND   UINT64_MAX

/* What a rank writes into the note windows of its peers when the group has ended for it. A cause
 * that came by a note is passed on as it is, so that every rank learns the first one. */
struct coll_note {
	uint64_t session;
	uint64_t end; /* spw_coll_end_word of the cause; never SPW_COLL_NOTICE */
	uint64_t by;  /* the rank where the group ended first */
	uint64_t zero[5];
};
SPW_ASSERT_SIZE(struct coll_note, 64);

struct coll_peer {
	/* proxy */
	struct spw_xfer_conn *conn;
	struct spw_xfer_window *window[COLL_WINDOW_CNT]; /* the peer's, for this rank */
	struct spw_xfer_req *req[COLL_WINDOW_CNT];       /* puts under way */
	bool gone;                                       /* its connection has ended */
	/* constant after open */
	uint8_t *mine[COLL_WINDOW_CNT]; /* this rank's, which the peer writes */
	char name[COLL_NAME_BYTES];     /* host and process */
	/* open */
	struct spw_xfer_listener *listener;
	struct spw_xfer_handle handle;
};

struct spw_coll {
	/* constant after open */
	uint32_t rank, rank_cnt;
	uint32_t slot_bytes; /* of data, a multiple of SPW_COLL_CELL */
	struct spw_coll_conf conf;
	uint32_t forks; /* base/spw_fork.h */
	uint64_t session;
	uint64_t timeout_ns;
	struct spw_coll_words *words;
	uint8_t *stage[SPW_COLL_SLOT_CNT];
	struct coll_note *note; /* this rank's, as it is put */
	struct coll_peer peer[SPW_COLL_RANK_MAX];
	struct spw_xfer *x;
	struct spw_xfer_mem *mem;
	uint8_t *base; /* one piece of memory for all of these */
	size_t base_bytes;
	const struct coll_cuda_ops *gpu; /* SPW_COLL_CUDA, once the module is open; else NULL */
	struct coll_cuda *cuda;
	/* proxy */
	struct {
		uint64_t next; /* round whose post is awaited */
		uint64_t acked;
		bool noted; /* the end was reported to the peers */
	} proxy SPW_ALIGNED(128);
	pthread_t thread;
	bool thread_runs;
	bool joined; /* all peers are there: the proxy may run */
	uint32_t stop;
	/* executor on the CPU, and the owner */
	struct {
		uint64_t round;        /* last one that was begun */
		struct coll_wait wait; /* for the others' contributions */
		bool busy;
		struct spw_coll_call call; /* or a piece of it */
		struct spw_coll_head head; /* its count is the whole call's */
	} cpu SPW_ALIGNED(128);
	char error_text[256];
	int error;
};

/* ---- coll.c ---- */

/* Returns: -ECHILD: this process was forked from the one that opened the group. */
int coll_check_process(const struct spw_coll *c);

/* ---- join.c ---- */

/* Exchanges, connects, exposes: all of open that needs the peers. */
int coll_join(struct spw_coll *c);

/* ---- proxy.c ---- */

/* One turn: takes posts, tests puts, watches peers. Returns what there was to do. */
uint32_t coll_turn(struct spw_coll *c);
int coll_thread_start(struct spw_coll *c);
/* Ends the thread; the caller is the proxy from then on. */
void coll_thread_stop(struct spw_coll *c);
/* Whether puts are under way to any of these ranks. */
bool coll_puts_open(const struct spw_coll *c, uint32_t ranks);

/* ---- end.c ---- */

/* Ends the group for this cause, unless it has ended. Any thread. */
void coll_end(struct spw_coll *c, uint64_t end_word);
/* What the peers are to learn about this end. */
struct coll_note coll_note_of(const struct spw_coll *c, uint64_t end_word);
/* The word of the end, 0: the group goes on. */
uint64_t coll_ended(const struct spw_coll *c);
/* What a call asks for is possible, in pieces if it is long. */
int coll_check_call(struct spw_coll *c, const struct spw_coll_call *call);
/* Piece idx of a call, as much of it as one round takes. Of a gather, out is rank 0's place; that
 * of the next rank lies call->count elements behind it. false: there are no more; a barrier has
 * one. */
bool coll_piece_at(const struct spw_coll *c, const struct spw_coll_call *call, uint64_t idx,
		   struct spw_coll_call *piece_out);
/* whole: elements of the call, of which this is a piece. */
struct spw_coll_head coll_head_of(const struct spw_coll *c, const struct spw_coll_call *call,
				  uint64_t whole, uint64_t round);

/* ---- gpu.c ---- */

/* Opens the module, and allocates the group's memory: base, of base_bytes, zeroed; the GPU maps it.
 */
int coll_gpu_open(struct spw_coll *c);
/* After the memory was laid out, and the connections are there. */
int coll_gpu_start(struct spw_coll *c);

/* cuda/cuda.c, in the CUDA module. It calls nothing else of lib/coll. */
struct coll_cuda_ops {
	int (*open)(struct spw_coll *c);
	int (*start)(struct spw_coll *c, uint32_t rail_cnt);
	/* The call has been checked. */
	int (*launch)(struct spw_coll *c, const struct spw_coll_call *call, uint64_t whole,
		      void *stream);
	void (*device)(const struct spw_coll *c, struct spw_coll_dev *dev_out);
	/* Waits for the device's kernels. */
	void (*stop)(struct spw_coll *c);
	/* Frees the memory, too. */
	void (*close)(struct spw_coll *c);
};

#endif
