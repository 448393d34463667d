/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A raw packet QP on an mlx5 device by plain verbs, for benchmarks and tests that write and read
 * rings by hand, or that need a source of frames.
 */
#ifndef SPW_BENCH_RAW_SIDE_H
#define SPW_BENCH_RAW_SIDE_H

#include <infiniband/verbs.h>

#include "base/spw_types.h"

#define RAW_FRAME_BYTES 60u

struct raw_side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq_ex *cq; /* of both directions */
	struct ibv_qp *qp;
	struct ibv_flow *flow; /* of raw_side_steer, or NULL */
	uint8_t *bytes;        /* registered */
};

/* Purpose: opens the device of that name (NULL: the first one), registers bytes of memory, makes a
 *          CQ of exactly cnt entries and a QP in RTS.
 * Shape:   cnt a power of 2; compressed: the CQ takes mini CQEs in the hash format.
 * Errors:  2 and a text on stderr. */
int raw_side_open(struct raw_side *s, const char *name, size_t bytes, uint32_t cnt,
		  bool compressed);

/* Purpose: steers frames to this address to the QP.
 * Errors:  2 and a text. */
int raw_side_steer(struct raw_side *s, const uint8_t *mac);

/* Purpose: posts cnt frames to dst_mac as one list with one doorbell, and does not wait; the last
 *          one is signalled.
 * Shape:   cnt up to what open was given; nothing else may be in the send queue.
 * Errors:  2 and a text. */
int raw_side_send(struct raw_side *s, const uint8_t *dst_mac, uint32_t cnt);

/* Purpose: waits until the frames of raw_side_send are on the wire, ms at most.
 * Errors:  3 and a text. */
int raw_side_sent(struct raw_side *s, uint32_t ms);

/* Purpose: destroys everything. A zeroed one is fine.
 * Returns: not 0 if an object could not be destroyed. */
int raw_side_close(struct raw_side *s);

#endif
