/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: frames of a connection over TCP (link.c).
 * Thread of all functions: the endpoint's owner.
 */
#ifndef SPW_XFER_LINK_H
#define SPW_XFER_LINK_H

#include "xfer/wire.h"

#define XFER_OUT_BYTES 16384u /* frames that TCP has not taken yet */

struct spw_xfer_conn;

/* Frames over TCP, one after the other, in each direction. */
struct xfer_link {
	int fd, error;                          /* error: the first errno of its end; 0: none */
	uint16_t version;                       /* of the peer's last frame */
	uint8_t nonce[2 * SPW_OOB_NONCE_BYTES]; /* the client's, the server's */
	uint64_t in_cnt, out_cnt;               /* frames with a MAC so far */
	size_t in_len;
	uint32_t out_len;
	uint8_t in[XFER_FRAME_MAX];
	uint8_t out[XFER_OUT_BYTES];
};

void xfer_link_start(struct xfer_link *link, int fd);
/* Sends a frame, or keeps it until TCP takes it. Errors: -ENOBUFS: the peer does not read. */
int xfer_link_send(struct spw_xfer_conn *conn, const struct xfer_frame *frame);
/* Returns: 1: a whole and proved frame; 0: none yet; -errno without a text: -ECONNRESET the end,
 * -EPROTO, -EPROTONOSUPPORT, -EACCES the MAC is wrong. */
int xfer_link_receive(struct spw_xfer_conn *conn, struct xfer_frame *frame_out);
/* Sends what was kept. */
int xfer_link_flush(struct spw_xfer_conn *conn);

#endif
