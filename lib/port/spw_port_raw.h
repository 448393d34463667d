/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Raw completions: what a burst read from its device's completion ring, byte for byte, and the
 * state in which it began to read. The flight recorder keeps them, and the reader below runs them
 * through the very function that ran them first, on memory of its own.
 *
 *   rx_burst ── descriptors ──► the caller                    to be compared
 *       └────── raw ──────────► queue.raw->to ─ ─ file ─ ─► spw_port_raw_run ──► descriptors
 *
 * The bytes of one burst stand alone: nothing of the bursts before is needed. Their format is the
 * driver's (port/mlx5/eth/raw.h), which the shape names. A driver without a ring that it reads by
 * itself keeps none.
 */
#ifndef SPW_PORT_RAW_H
#define SPW_PORT_RAW_H

#include "port/spw_port.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PORT_RAW_MAX 10240u /* bytes that one burst may keep */

enum spw_port_raw_kind { SPW_PORT_RAW_NONE, SPW_PORT_RAW_MLX5_ETH, SPW_PORT_RAW_KIND_CNT };

/* What a reader must know of the queue; constant, and part of recordings. */
struct spw_port_raw_shape {
	uint32_t kind; /* enum spw_port_raw_kind; the rest is the driver's */
	uint32_t flags;
	uint32_t room_bytes; /* the longest frame that a slot can take */
	uint8_t cq_log2, rq_log2, group_log2, reserved;
};
SPW_ASSERT_SIZE(struct spw_port_raw_shape, 16);

/* Where a queue keeps them; owner only. */
struct spw_port_raw {
	uint8_t *to;    /* set by the caller before a burst: room for SPW_PORT_RAW_MAX bytes */
	uint32_t bytes; /* set by the burst: how many it wrote, a multiple of 8; 0: none */
	struct spw_port_raw_shape shape;
};

/* Purpose: from now on the bursts of a queue keep their raw completions. queue.raw is set, and
 *          until its first caller sets `to` they go nowhere.
 * Shape:   queue 0 .. port->queue_cnt - 1, set up.
 * Order:   before start.
 * Thread:  setup
 * Errors:  -ENOTSUP the driver keeps none; -ENOMEM. */
int spw_port_raw_keep(struct spw_port *port, uint16_t queue);

struct spw_port_raw_reader; /* opaque */

/* Purpose: makes a queue of that shape, with neither device nor frames.
 * Owner:   the caller, until spw_port_raw_close.
 * Thread:  any
 * Errors:  -EPROTO no queue has that shape; -ENOMEM. With a text. */
int spw_port_raw_open(const struct spw_port_raw_shape *shape,
		      struct spw_port_raw_reader **reader_out);

/* Purpose: runs the raw completions of one burst. They may be any bytes.
 * Shape:   raw 8-byte aligned. desc_out[0 .. SPW_BURST_MAX - 1]; of each descriptor the length, the
 *          flags, meta and the stamp come from the completion. Slots do not, and mean nothing.
 * Thread:  any, one at a time
 * Returns: descriptors, 0 .. SPW_BURST_MAX; -EPROTO the bytes are not what a burst writes. */
int spw_port_raw_run(struct spw_port_raw_reader *reader, const uint8_t *raw, uint32_t bytes,
		     struct spw_desc *desc_out);

/* Purpose: frees it; NULL is allowed. Thread: any */
void spw_port_raw_close(struct spw_port_raw_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
