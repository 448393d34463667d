/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NCCL_SPINWIRE_REPORT=FILE: what became of every message, by communicator and peer. A context
 * records until it ends; the file is written whenever one ends, and when the process exits, with
 * all communicators so far.
 */
#ifndef SPW_NCCLNET_REPORT_H
#define SPW_NCCLNET_REPORT_H

#include "ncclnet/ncclnet.h"
#include "rec/spw_stamps.h"
#include "time/spw_time.h"

/* One machine at the other end. */
struct nnet_peer {
	struct spw_stamps_rec rec;
	struct nnet_peer *next;
	char addr[64];
	uint32_t conn_cnt;
	struct spw_xfer_rail_stat rail[SPW_XFER_RAIL_MAX]; /* sums of connections that ended */
	uint32_t rail_cnt;
};

struct nnet_report {
	struct spw_tsc tsc;
	uint64_t start_tsc;
	uint64_t away_tsc; /* a longer time without a call of a connection counts as not polled */
	double ticks_per_byte;
	struct nnet_peer *peers;
};

/* All under the lock of the context; they do nothing if it has no report. */

/* After the endpoint is open. Returns: NULL: no report is asked for, or there is no memory. */
struct nnet_report *nnet_report_open(struct nnet_ctx *ctx);
void nnet_report_conn(struct nnet_comm *comm);
void nnet_report_conn_end(struct nnet_comm *comm);
/* A request starts; its connection was called. */
void nnet_report_start(struct nnet_req *req);
/* NCCL asks for a request of this connection. */
void nnet_report_polled(struct nnet_comm *comm);
SPW_INLINE void nnet_report_poll(struct nnet_comm *comm)
{
	if (spw_unlikely(comm->peer))
		nnet_report_polled(comm);
}
void nnet_report_done(const struct nnet_req *req, const struct spw_xfer_stamps *stamps,
		      uint64_t bytes);
/* Adds the context to the file, and frees its report. */
void nnet_report_end(struct nnet_ctx *ctx);

#endif
