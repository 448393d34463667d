/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Authenticated messages over TCP (spw_peer_channel.h). Pure but for send(2) and recv(2) on the
 * caller's socket. A message is three parts, one behind the other: length, bytes, MAC; in_at and
 * out_at say how far the one under way is.
 */
#include "peer/spw_peer_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define MAGIC     0x53505743u /* "SPWC" */
#define VERSION   1u
#define LEN_BYTES 4u
#define DENIED    UINT32_MAX /* in place of a length */

static const char *const label[] = {"spinwire channel server", "spinwire channel client"};

static void put32(uint8_t *at, uint32_t v)
{
	const spw_be32 be = spw_cpu_to_be32(v);

	memcpy(at, &be, sizeof(be));
}

static void mac_of(const struct peer_channel *ch, bool from_client, uint64_t number,
		   const void *bytes, uint32_t len, uint8_t mac_out[PEER_MAC_BYTES])
{
	uint8_t head[sizeof(ch->nonce) + 8 + LEN_BYTES];
	const spw_be64 be = spw_cpu_to_be64(number);
	const struct iovec part[] = {{head, sizeof(head)}, {(void *)(uintptr_t)bytes, len}};

	memcpy(head, ch->nonce, sizeof(ch->nonce));
	memcpy(head + sizeof(ch->nonce), &be, sizeof(be));
	put32(head + sizeof(ch->nonce) + sizeof(be), len);
	peer_mac_parts(ch->secret, label[from_client], part, SPW_ARRAY_CNT(part), mac_out);
}

/* ---- begin ---- */

int peer_channel_begin(struct peer_channel *ch, int fd, bool is_client,
		       const struct peer_secret *secret)
{
	uint8_t hello[sizeof(ch->head)], *own = ch->nonce + (is_client ? 0 : PEER_NONCE_BYTES);
	ssize_t n;
	int rc;

	*ch = (struct peer_channel){.fd = fd, .is_client = is_client, .secret = secret};
	rc = peer_nonce(own);
	if (rc)
		return rc;
	put32(hello, MAGIC);
	put32(hello + 4, VERSION << 16 | (secret->len > 0));
	memcpy(hello + 8, own, PEER_NONCE_BYTES);
	n = send(fd, hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL); /* a new socket has room */
	return n == (ssize_t)sizeof(hello) ? 0 : n < 0 ? -errno : -ECONNRESET;
}

/* ---- receive ---- */

/* Reads the part [from, from + len) of what is under way. */
static int fill(struct peer_channel *ch, void *part, size_t from, size_t len)
{
	while (ch->in_at < from + len) {
		const size_t done = ch->in_at - from;
		ssize_t n = recv(ch->fd, (uint8_t *)part + done, len - done, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? -ECONNRESET : errno == EWOULDBLOCK ? -EAGAIN : -errno;
		ch->in_at += (size_t)n;
	}
	return 0;
}

int peer_channel_greet(struct peer_channel *ch)
{
	int rc = ch->greeted ? 0 : fill(ch, ch->head, 0, sizeof(ch->head));

	if (rc || ch->greeted)
		return rc;
	if (spw_be32_load(ch->head) != MAGIC || spw_be32_load(ch->head + 4) >> 16 != VERSION)
		return -EPROTO;
	memcpy(ch->nonce + (ch->is_client ? PEER_NONCE_BYTES : 0), ch->head + 8, PEER_NONCE_BYTES);
	ch->greeted = true;
	ch->in_at = 0;
	ch->far_has_secret = spw_be32_load(ch->head + 4) & 1u;
	return ch->far_has_secret == (ch->secret->len > 0) ? 0 : -EACCES;
}

int peer_channel_receive(struct peer_channel *ch, void *bytes, uint32_t max, uint32_t *len_out)
{
	uint8_t mac[PEER_MAC_BYTES];
	int rc = peer_channel_greet(ch);
	uint32_t len;

	rc = rc ? rc : fill(ch, ch->head, 0, LEN_BYTES);
	if (rc)
		return rc;
	len = spw_be32_load(ch->head);
	if (len > max)
		return len == DENIED ? -EACCES : -EMSGSIZE;
	rc = fill(ch, bytes, LEN_BYTES, len);
	rc = rc ? rc : fill(ch, ch->in_mac, LEN_BYTES + (size_t)len, sizeof(ch->in_mac));
	if (rc)
		return rc;
	mac_of(ch, !ch->is_client, ch->received_cnt++, bytes, len, mac);
	ch->in_at = 0;
	*len_out = len;
	return peer_mac_same(mac, ch->in_mac) ? 0 : -EACCES;
}

void peer_channel_deny(const struct peer_channel *ch)
{
	uint8_t denied[LEN_BYTES];

	put32(denied, DENIED);
	(void)send(ch->fd, denied, sizeof(denied), MSG_DONTWAIT | MSG_NOSIGNAL); /* a courtesy */
}

bool peer_channel_is_closed(const struct peer_channel *ch)
{
	uint8_t byte;
	ssize_t n = recv(ch->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return n == 0 || (n < 0 && errno != EWOULDBLOCK && errno != EINTR);
}

/* ---- send ---- */

static int drain(struct peer_channel *ch, const void *part, size_t from, size_t len)
{
	while (ch->out_at < from + len) {
		const size_t done = ch->out_at - from;
		ssize_t n = send(ch->fd, (const uint8_t *)part + done, len - done,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
		ch->out_at += (size_t)n;
	}
	return 0;
}

int peer_channel_send(struct peer_channel *ch, const void *bytes, uint32_t len)
{
	uint8_t head[LEN_BYTES];
	int rc;

	put32(head, len);
	if (!ch->out_at)
		mac_of(ch, ch->is_client, ch->sent_cnt, bytes, len, ch->out_mac);
	rc = drain(ch, head, 0, sizeof(head));
	rc = rc ? rc : drain(ch, bytes, LEN_BYTES, len);
	rc = rc ? rc : drain(ch, ch->out_mac, LEN_BYTES + (size_t)len, sizeof(ch->out_mac));
	if (rc)
		return rc;
	ch->out_at = 0;
	ch->sent_cnt++;
	return 0;
}
