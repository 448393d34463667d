/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/ncclnet: NCCL's net plugin over lib/xfer.
 *
 *   tables.c    the five tables that NCCL may load, all over the calls below
 *   context.c   one endpoint of lib/xfer per communicator, and the device that NCCL sees
 *   comm.c      listen, connect, accept, close          memory.c   registrations
 *   request.c   isend, irecv, iflush, test              log.c      lines to NCCL's logger
 *   report.c, report_json.c   NCCL_SPINWIRE_REPORT
 *   live.c      NCCL_SPINWIRE_LIVE                      watch.c    NCCL_SPINWIRE_HANG
 *   prof.c      NCCL's profiler tables, for live.c
 *
 * One device. NCCL sees a single device, which stands for all rails: a connection spreads each
 * message over them itself, so neither both halves of a port nor a second cable need a variable.
 *
 * Threads. NCCL calls from two threads of each communicator, one that connects and registers, and
 * one that transfers; and from the user's. lib/xfer wants one thread at a time per endpoint. So
 * each communicator has an endpoint of its own (versions 8 to 10 know no communicators: one for
 * all), with a mutex around every call. It is free whenever data moves, 20 ns; two communicators
 * never wait for each other, and a connection being made stops the transfers of its own
 * communicator only, for as long as the same calls would take within its own thread.
 *
 * Lifetime. A context is used by what NCCL made with it: it ends when the last user is gone, in
 * whatever order NCCL closes.
 */
#ifndef SPW_NCCLNET_NCCLNET_H
#define SPW_NCCLNET_NCCLNET_H

#include <pthread.h>

#include "base/spw_fork.h"
#include "ncclnet/nccl_abi.h"
#include "xfer/spw_xfer.h"

#define NNET_PART_MAX  SPW_XFER_PART_MAX
#define NNET_RECV_MAX  (SPW_XFER_REQ_MAX / NCCL_REQUEST_CNT) /* parts that always find room */
#define NNET_REQ_CNT   (2 * SPW_XFER_REQ_MAX)                /* transfers and flushes */
#define NNET_BYTES_MAX (1ull << 30)                          /* NCCL counts bytes in an int */
#define NNET_GONE_MS   30000u /* without any rail a connection ends: a switch may restart */
#define NNET_WAIT_MS   60000u /* NCCL's ranks may be this far apart when they connect */

struct nnet_comm;
struct nnet_report; /* report.h */
struct nnet_peer;
struct spw_hang_conn; /* live.h */
struct spw_hang_page;

/* A registration, shared by all that lie within it. */
struct nnet_mr {
	struct nnet_mr *next;
	struct nnet_ctx *ctx;
	struct spw_xfer_mem *mem; /* NULL: of 0 bytes */
	uint8_t *addr;
	size_t bytes;
	enum spw_xfer_mem_kind kind;
	uint32_t user_cnt;
};

/* A connection that is being made: NCCL repeats its call, with the same handle, until it is. */
struct nnet_pending {
	struct nnet_pending *next;
	struct spw_xfer_handle handle;
	struct spw_xfer_conn *conn;
	struct spw_hang_conn *live; /* NULL: not on the live page */
};

struct nnet_ctx {
	pthread_mutex_t lock; /* of all below, and of x */
	struct spw_xfer *x;
	struct nnet_comm *comms;
	struct nnet_mr *mrs;
	struct nnet_pending *pending;
	uint32_t user_cnt; /* NCCL itself, listeners, connections, registrations; context.c */
	uint64_t comm_id;
	struct nnet_report *report; /* NULL: none */
	struct spw_hang_page *live; /* NULL: none */
	struct nnet_ctx *next;      /* of the process */
};

struct nnet_listen {
	struct nnet_ctx *ctx;
	struct spw_xfer_listener *listener;
	struct spw_hang_conn *live; /* NULL: none, or the connection's that was accepted */
};

struct nnet_req {
	struct nnet_req *next_free;
	struct nnet_comm *comm;
	uint32_t left;      /* of x[]: not done */
	uint32_t part_cnt;  /* lengths that test reports */
	uint32_t x_cnt;     /* 1; of a flush the parts that were started */
	uint32_t flush_cnt; /* parts of a flush; 0: it is none */
	struct spw_xfer_req *x[NNET_PART_MAX];
	struct nnet_mr *mr[NNET_PART_MAX];
	uint64_t away_tsc, outages; /* as they were when it started; report.c */
	struct {
		void *addr;
		uint64_t bytes;
	} flush[NNET_PART_MAX]; /* of a flush: flush_cnt of them */
};

/* A sending or a receiving connection. */
struct nnet_comm {
	struct nnet_comm *next;
	struct nnet_ctx *ctx;
	struct spw_xfer_conn *conn; /* NULL: broken off (memory.c) */
	bool is_send;
	struct nnet_req *free_req;
	struct nnet_req req[NNET_REQ_CNT];
	struct nnet_peer *peer;        /* NULL: not recorded */
	uint64_t polled_tsc, away_tsc; /* last call; sum of long times without one */
	struct spw_hang_conn *live;    /* NULL: not on the live page */
	uint64_t live_calls;           /* of test */
	uint32_t live_tid;             /* of the thread that transfers; 0: not known yet */
};

/* ---- log.c ---- */

/* Lines of spinwire go to NCCL's logger from now on. */
void nnet_log_start(nccl_logger *logger);
/* Logs this thread's error text as a warning. Returns: rc as NCCL's result. */
int nnet_fail(int rc, const char *what);
int nnet_result(int rc);

/* ---- context.c ---- */

/* config may be NULL. *ctx_out is a user: nnet_ctx_put ends it. */
int nnet_ctx_open(uint64_t comm_id, const struct nccl_config *config, nccl_logger *logger,
		  struct nnet_ctx **ctx_out);
void nnet_ctx_get(struct nnet_ctx *ctx);
void nnet_ctx_put(struct nnet_ctx *ctx);
/* The context of versions 8 .. 10; NULL: there is none. */
int nnet_legacy_open(nccl_logger *logger);
struct nnet_ctx *nnet_legacy(void);
/* Logs one line, once. Returns: true. */
bool nnet_forked_refuse(void);
/* Whether this process was forked from the one that called init first. */
SPW_INLINE bool nnet_is_forked(void)
{
	return spw_unlikely(spw_fork_cnt) && nnet_forked_refuse();
}

/* What NCCL learns about the device. */
struct nnet_device {
	char pci_path[512];
	uint64_t guid;
	uint32_t mbps; /* that all rails carry together */
	bool dmabuf;
};
/* Returns: false: no context was opened. */
bool nnet_device(struct nnet_device *device_out);

/* ---- comm.c ---- */

int nnet_listen(struct nnet_ctx *ctx, int dev, void *handle_out, void **listen_out);
int nnet_connect(struct nnet_ctx *ctx, int dev, const void *handle, void **send_out);
int nnet_accept(void *listen, void **recv_out, void **offload);
int nnet_close_comm(void *comm);
int nnet_close_listen(void *listen);
/* Ends a connection, and with it what its requests do to memory. Under the lock. */
void nnet_comm_break(struct nnet_comm *comm);
/* Returns: 0; or the result of all its calls since it ended; lib/xfer logged why. Under the lock.
 */
int nnet_comm_check(struct nnet_comm *comm);

/* ---- memory.c ---- */

int nnet_reg_mr(void *comm, void *data, size_t bytes, int type, void **mr_out);
int nnet_reg_mr_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset, int fd,
		       void **mr_out);
int nnet_dereg_mr(void *comm, void *mr);

/* ---- request.c ---- */

int nnet_isend(void *send, void *data, size_t bytes, int tag, void *mr, void **req_out);
int nnet_irecv(void *recv, int n, void **data, const size_t *bytes, const int *tag, void **mr,
	       void **req_out);
int nnet_iflush(void *recv, int n, void **data, int *bytes, void **mr, void **req_out);
int nnet_test(void *req, int *done_out, int *bytes_out);

#endif
