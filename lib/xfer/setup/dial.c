/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A client's TCP connection to a listener that has several addresses, of which perhaps only one
 * leads there: that of the cable between the two machines. Addresses in a subnet of this machine
 * come first. The next one is tried when the last has failed, or after NEXT_MS (RFC 8305, happy
 * eyeballs, with its delay); the first that stands is taken.
 *
 *   dial_order ─► address 0 ─┬─ stands: the others are closed
 *                            ├─ fails: the next at once
 *                            └─ NEXT_MS without an answer: the next beside it
 *
 * Called by listen.c (start) and conn.c (each turn, while the connection is in XFER_CONN_TCP).
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "oob/spw_oob_addr.h"
#include "oob/spw_oob_socket.h"
#include "xfer/connection.h"
#include "xfer/reach.h"

#define NEXT_MS 250u

/* A stable sort in two groups. */
static void dial_order(struct xfer_address *at)
{
	const struct xfer_address was = *at;
	uint32_t n = 0;

	for (uint32_t near = 2; near--;)
		for (uint32_t i = 0; i < was.addr_cnt; i++)
			if (xfer_local_reaches(&was.addr[i].sin6_addr) == near)
				at->addr[n++] = was.addr[i];
}

/* The first error counts: addresses that are likely to lead there come first. */
static void dial_note(struct xfer_dial *d, int error)
{
	d->error = d->error ? d->error : error;
}

/* Its name in messages: the address that it has, or that was begun last. */
static void dial_name(struct spw_xfer_conn *conn, uint32_t addr)
{
	char text[64];

	snprintf(conn->text, sizeof(conn->text), "%s",
		 spw_oob_addr_text(&conn->peer.addr[addr], text));
}

/* A socket that cannot be made counts as an address that failed. */
static void dial_next(struct spw_xfer_conn *conn, uint64_t now_ms)
{
	struct xfer_dial *d = &conn->dial;
	const int fd = spw_oob_socket_connect(&conn->peer.addr[d->cnt]);

	dial_name(conn, d->cnt);
	d->fd[d->cnt++] = fd;
	d->next_ms = now_ms + NEXT_MS;
	if (fd < 0)
		dial_note(d, -fd);
	else
		d->open++;
}

void xfer_dial_start(struct spw_xfer_conn *conn, uint64_t now_ms)
{
	if (conn->peer.addr_cnt > 1)
		dial_order(&conn->peer);
	dial_next(conn, now_ms);
}

int xfer_dial_turn(struct spw_xfer_conn *conn, uint64_t now_ms)
{
	struct xfer_dial *d = &conn->dial;

	for (uint32_t i = 0; i < d->cnt; i++) {
		const int fd = d->fd[i], rc = fd < 0 ? -EAGAIN : spw_oob_socket_connected(fd);

		if (rc == -EAGAIN)
			continue;
		d->open--;
		d->fd[i] = -1;
		if (!rc) {
			dial_name(conn, i);
			xfer_dial_end(d);
			return fd;
		}
		dial_note(d, -rc);
		close(fd);
	}
	if (d->cnt < conn->peer.addr_cnt && (!d->open || now_ms >= d->next_ms))
		dial_next(conn, now_ms);
	return d->open || d->cnt < conn->peer.addr_cnt ? -EAGAIN : -d->error;
}

/* Idempotent; also for a connection that never dialed. */
void xfer_dial_end(struct xfer_dial *d)
{
	for (uint32_t i = 0; i < d->cnt; i++)
		if (d->fd[i] >= 0)
			close(d->fd[i]);
	d->cnt = d->open = 0;
}
