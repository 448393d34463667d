/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: frames of a connection over its channel (link.c).
 * Thread of all functions: the endpoint's owner.
 */
#ifndef SPW_XFER_LINK_H
#define SPW_XFER_LINK_H

#include "xfer/wire.h"

#define XFER_OUT_BYTES 16384u /* frames that TCP has not taken yet */

/* Frames over a channel, one after the other, in each direction. */
struct xfer_link {
	struct spw_oob_channel ch;
	int error; /* the first errno of its end; 0: none */
	uint32_t out_len;
	uint8_t in[XFER_FRAME_MAX];
	uint8_t out[XFER_OUT_BYTES]; /* u16 bytes, the bytes; again and again */
};

/* Sends a frame, or keeps it until TCP takes it. Errors: -ENOBUFS: the peer does not read. */
int xfer_link_send(struct xfer_link *link, const struct xfer_frame *frame);
/* Returns: 1: a whole and proved frame; 0: none yet; -errno without a text: -ECONNRESET the end;
 * -EPROTO; those of spw_oob_channel_receive. */
int xfer_link_receive(struct xfer_link *link, struct xfer_frame *frame_out);
/* Sends what was kept. */
int xfer_link_flush(struct xfer_link *link);

#endif
