/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Frames (wire.h) over a channel (oob/spw_oob_channel.h): keeps what TCP does not take at once.
 * Never waits. Called by conn.c. out[] holds the frames that TCP has not taken, the first of them
 * perhaps in part: a peer that does not read fills it, and its connection ends (-ENOBUFS).
 */
#include <errno.h>
#include <string.h>

#include "xfer/connection.h"

/* The kernel reports an error once, and the end of the stream afterwards. */
static int link_ended(struct xfer_link *link, int error)
{
	link->error = link->error ? link->error : error;
	return -ECONNRESET;
}

/* Called by each turn of the connection, and for each frame that is sent. */
int xfer_link_flush(struct xfer_link *link)
{
	uint16_t len;

	while (link->out_len) {
		int rc;

		memcpy(&len, link->out, sizeof(len));
		rc = spw_oob_channel_send(&link->ch, link->out + sizeof(len), len);
		if (rc)
			return rc == -EAGAIN ? 0 : link_ended(link, -rc);
		link->out_len -= (uint32_t)sizeof(len) + len;
		memmove(link->out, link->out + sizeof(len) + len, link->out_len);
	}
	return 0;
}

int xfer_link_send(struct xfer_link *link, const struct xfer_frame *frame)
{
	uint8_t *at = link->out + link->out_len;
	uint16_t len;

	if (link->out_len + sizeof(len) + XFER_FRAME_MAX > sizeof(link->out))
		return -ENOBUFS;
	len = (uint16_t)xfer_wire_encode(frame, at + sizeof(len));
	memcpy(at, &len, sizeof(len));
	link->out_len += (uint32_t)sizeof(len) + len;
	return xfer_link_flush(link);
}

int xfer_link_receive(struct xfer_link *link, struct xfer_frame *frame_out)
{
	uint32_t len;
	const int rc = spw_oob_channel_receive(&link->ch, link->in, sizeof(link->in), &len);

	switch (rc) {
	case 0:
		return xfer_wire_parse(link->in, len, frame_out) ? -EPROTO : 1;
	case -EAGAIN:
		return 0;
	case -EACCES:
	case -EMSGSIZE:
	case -EPROTO:
	case -EPROTONOSUPPORT:
		return rc;
	default:
		return link_ended(link, -rc);
	}
}
