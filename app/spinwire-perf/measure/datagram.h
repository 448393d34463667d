/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One end of an unreliable datagram (UD) flow: single packets that nothing holds back and nothing
 * sends again, so that the stamp of a send completion is the moment at which the NIC has sent it.
 * (Of a reliable connection it is that of the acknowledgement.) Plain verbs.
 */
#ifndef PERF_DATAGRAM_H
#define PERF_DATAGRAM_H

#include "perf.h"
#include "rdma/spw_rdma.h"

#define PERF_DATAGRAM_SLOTS 256u /* receives posted */
#define PERF_DATAGRAM_AHEAD 32u  /* sends under way */

struct perf_datagram {
	struct rdma_dev dev;
	struct rdma_gid gid;
	struct ibv_cq_ex *cq; /* of both queues */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah; /* the other end */
	uint8_t *mem;      /* slots, each behind room for a GRH */
	uint32_t bytes;    /* of a message */
	uint32_t far_qpn;
	uint64_t posted, sent, came;
	bool wrong; /* a message carried other bytes than the pattern */
};

/* Purpose: opens a device and a queue pair; the messages carry the pattern of seed.
 * Owner: the caller, until perf_datagram_close, which a zeroed struct is fine for.
 * Thread of all: main.
 * Errors: -EMSGSIZE more than one packet carries; those of rdma_dev_open and rdma_mr_reg_bytes. */
int perf_datagram_open(const char *device, uint32_t bytes, uint64_t seed,
		       struct perf_datagram *d_out);
void perf_datagram_close(struct perf_datagram *d);

/* Purpose: what the other end must know to reach this one; _reach: takes that of the other end.
 * Errors: -EPROTO; -EHOSTUNREACH no address handle for it. */
json_t *perf_datagram_json(const struct perf_datagram *d);
int perf_datagram_reach(struct perf_datagram *d, const json_t *far);

/* Purpose: starts one message. Returns: 0; -EAGAIN PERF_DATAGRAM_AHEAD are under way. */
int perf_datagram_post(struct perf_datagram *d);
/* Purpose: takes completions of sends, oldest first.
 * Shape: stamp_out[PERF_DATAGRAM_AHEAD] are ticks of the device's clock.
 * Returns: how many, or -EIO. */
int perf_datagram_sent(struct perf_datagram *d, uint64_t *stamp_out);
/* Purpose: posts all receives. */
int perf_datagram_listen(struct perf_datagram *d);
/* Purpose: takes what came, compares it with the pattern of seed, and posts the receives again.
 * Returns: how many, or -EIO. */
int perf_datagram_take(struct perf_datagram *d, uint64_t seed);

#endif
