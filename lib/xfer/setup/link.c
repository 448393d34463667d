/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Frames over a TCP connection (wire.h): appends and checks MACs, keeps what TCP does not take at
 * once, reads no more bytes than the next frame has. Never waits.
 *
 *   MAC = spw_oob_mac("spinwire xfer", nonces | from client? | number of the frame | its bytes)
 *
 * Called by conn.c. in[] holds the frame that is being read, out[] those that TCP has not taken: a
 * peer that does not read fills it, and its connection ends (-ENOBUFS).
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "oob/spw_oob_socket.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"

#define LABEL      "spinwire xfer"
#define PREFIX_LEN (2u * SPW_OOB_NONCE_BYTES + 9u)

void xfer_link_start(struct xfer_link *link, int fd)
{
	memset(link, 0, sizeof(*link));
	link->fd = fd;
}

/* number: a frame that is repeated, left out or moved has another. from_client: none can be turned
 * back. */
static void link_mac(const struct spw_xfer_conn *conn, bool from_client, uint64_t number,
		     const uint8_t *bytes, size_t len, uint8_t mac_out[SPW_OOB_MAC_BYTES])
{
	uint8_t text[PREFIX_LEN + XFER_FRAME_MAX];
	spw_be64 be = spw_cpu_to_be64(number);

	memcpy(text, conn->link.nonce, sizeof(conn->link.nonce));
	text[2 * SPW_OOB_NONCE_BYTES] = from_client;
	memcpy(text + 2 * SPW_OOB_NONCE_BYTES + 1, &be, sizeof(be));
	memcpy(text + PREFIX_LEN, bytes, len);
	spw_oob_mac(&conn->x->secret, LABEL, text, PREFIX_LEN + len, mac_out);
}

/* The kernel reports an error once, and the end of the stream afterwards. */
static int link_ended(struct xfer_link *link, int error)
{
	link->error = link->error ? link->error : error;
	return -ECONNRESET;
}

/* Called by each turn of the connection, and for each frame that is sent. */
int xfer_link_flush(struct spw_xfer_conn *conn)
{
	struct xfer_link *link = &conn->link;
	ssize_t n;

	if (!link->out_len)
		return 0;
	n = send(link->fd, link->out, link->out_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return link_ended(link, errno);
	link->out_len -= (uint32_t)n;
	memmove(link->out, link->out + n, link->out_len);
	return 0;
}

/* Frames without a MAC are not numbered: they come before the nonces are known. */
int xfer_link_send(struct spw_xfer_conn *conn, const struct xfer_frame *frame)
{
	struct xfer_link *link = &conn->link;
	uint8_t *at = link->out + link->out_len;
	const size_t mac = xfer_wire_mac_bytes(frame->type);
	size_t len;

	if (link->out_len + XFER_FRAME_MAX > sizeof(link->out))
		return -ENOBUFS;
	len = xfer_wire_encode(frame, at);
	if (mac)
		link_mac(conn, conn->is_client, link->out_cnt++, at, len, at + len);
	link->out_len += (uint32_t)(len + mac);
	return xfer_link_flush(conn);
}

/* Reads until link->in holds len bytes. Returns: 1, 0 or -ECONNRESET. */
static int link_fill(struct xfer_link *link, size_t len)
{
	const int rc = spw_oob_socket_read(link->fd, link->in, len, &link->in_len);

	return !rc ? 1 : rc == -EAGAIN ? 0 : link_ended(link, -rc);
}

/* The frame is parsed before its MAC is compared, and used only afterwards. */
int xfer_link_receive(struct spw_xfer_conn *conn, struct xfer_frame *frame_out)
{
	struct xfer_link *link = &conn->link;
	uint8_t mac[SPW_OOB_MAC_BYTES];
	uint16_t version;
	size_t plain;
	int len, rc = link_fill(link, XFER_HEAD_BYTES);

	if (rc <= 0)
		return rc;
	len = xfer_wire_head(link->in, &version);
	link->version = version;
	if (len < 0)
		return len;
	rc = link_fill(link, (size_t)len);
	if (rc <= 0)
		return rc;
	plain = (size_t)len - xfer_wire_mac_bytes(link->in[6]);
	if (xfer_wire_parse(link->in, plain, frame_out))
		return -EPROTO;
	link->in_len = 0;
	if (plain == (size_t)len)
		return 1;
	link_mac(conn, !conn->is_client, link->in_cnt++, link->in, plain, mac);
	return spw_oob_mac_same(mac, link->in + plain) ? 1 : -EACCES;
}
