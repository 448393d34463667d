/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Authenticated messages over TCP (spw_oob_channel.h). Pure but for send(2) and recv(2) on the
 * caller's socket. A message is three parts, one behind the other: length, bytes, MAC; in_at and
 * out_at say how far the one under way is.
 *
 *   out   at 0: MAC computed ─► length ─► bytes ─► MAC ─► at 0 again, sent_cnt + 1
 *   in    length, refused if > max ─► bytes ─► MAC, compared ─► at 0 again
 *
 * Both MACs cover the number of the message in its direction, so a message that is repeated or left
 * out has another MAC. Nothing is kept of the bytes: a caller repeats its call with the same buffer
 * after -EAGAIN. Called by door.c, lib/peer, lib/xfer, lib/coll and spinwire-perf.
 */
#include "oob/spw_oob_channel.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define MAGIC_BYTES 4u
#define LEN_BYTES   4u
#define DENIED      UINT32_MAX /* in place of a length */

static const char *const label[] = {"spinwire channel server", "spinwire channel client"};

static void channel_put32(uint8_t *at, uint32_t v)
{
	const spw_be32 be = spw_cpu_to_be32(v);

	memcpy(at, &be, sizeof(be));
}

uint64_t spw_oob_channel_pair(const struct spw_oob_channel *ch)
{
	struct sha256_ctx ctx;
	uint64_t pair;

	sha256_init(&ctx);
	sha256_update(&ctx, sizeof(ch->nonce), ch->nonce);
	sha256_digest(&ctx, sizeof(pair), (uint8_t *)&pair);
	return pair ? pair : 1;
}

static void channel_mac(const struct spw_oob_channel *ch, bool from_client, uint64_t number,
			const void *bytes, uint32_t len, uint8_t mac_out[SPW_OOB_MAC_BYTES])
{
	struct {
		spw_be64 number;
		char magic[MAGIC_BYTES];
		spw_be32 version;
	} head = {.number = spw_cpu_to_be64(number),
		  .version = spw_cpu_to_be32(ch->proto->version)};
	const struct iovec part[] = {{(void *)(uintptr_t)ch->nonce, sizeof(ch->nonce)},
				     {&head, sizeof(head)},
				     {(void *)(uintptr_t)bytes, len}};

	memcpy(head.magic, ch->proto->magic, MAGIC_BYTES);
	spw_oob_mac(ch->secret, label[from_client], part, SPW_ARRAY_CNT(part), mac_out);
}

/* ---- begin ---- */

int spw_oob_channel_begin(struct spw_oob_channel *ch, int fd, bool is_client,
			  const struct spw_oob_secret *secret, const struct spw_oob_proto *proto)
{
	uint8_t hello[sizeof(ch->head)], *own = ch->nonce + (is_client ? 0 : SPW_OOB_NONCE_BYTES);
	ssize_t n;
	int rc;

	*ch = (struct spw_oob_channel){
		.fd = fd, .is_client = is_client, .secret = secret, .proto = proto};
	rc = spw_oob_nonce(own);
	if (rc)
		return rc;
	memcpy(hello, proto->magic, MAGIC_BYTES);
	channel_put32(hello + MAGIC_BYTES, (uint32_t)proto->version << 16 | (secret->len > 0));
	memcpy(hello + 8, own, SPW_OOB_NONCE_BYTES);
	n = send(fd, hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL); /* a new socket has room */
	return n == (ssize_t)sizeof(hello) ? 0 : n < 0 ? -errno : -ECONNRESET;
}

/* ---- receive ---- */

/* Reads the part [from, from + len) of what is under way; what was read before is passed over. */
static int channel_fill(struct spw_oob_channel *ch, void *part, size_t from, size_t len)
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

/* A secret at one end only is found here, before anything is sent that needs a MAC: the message can
 * then name the cause. */
int spw_oob_channel_greet(struct spw_oob_channel *ch)
{
	int rc = ch->greeted ? 0 : channel_fill(ch, ch->head, 0, 8);

	if (rc || ch->greeted)
		return rc;
	if (memcmp(ch->head, ch->proto->magic, MAGIC_BYTES))
		return -EPROTO;
	ch->far_version = (uint16_t)(spw_be32_load(ch->head + MAGIC_BYTES) >> 16);
	if (ch->far_version != ch->proto->version)
		return -EPROTONOSUPPORT;
	rc = channel_fill(ch, ch->head + 8, 8, SPW_OOB_NONCE_BYTES);
	if (rc)
		return rc;
	memcpy(ch->nonce + (ch->is_client ? SPW_OOB_NONCE_BYTES : 0), ch->head + 8,
	       SPW_OOB_NONCE_BYTES);
	ch->greeted = true;
	ch->in_at = 0;
	ch->far_has_secret = spw_be32_load(ch->head + 4) & 1u;
	return ch->far_has_secret == (ch->secret->len > 0) ? 0 : -EACCES;
}

int spw_oob_channel_receive(struct spw_oob_channel *ch, void *bytes, uint32_t max,
			    uint32_t *len_out)
{
	uint8_t mac[SPW_OOB_MAC_BYTES];
	int rc = spw_oob_channel_greet(ch);
	uint32_t len;

	rc = rc ? rc : channel_fill(ch, ch->head, 0, LEN_BYTES);
	if (rc)
		return rc;
	len = spw_be32_load(ch->head);
	if (len > max)
		return len == DENIED ? -EACCES : -EMSGSIZE;
	rc = channel_fill(ch, bytes, LEN_BYTES, len);
	rc = rc ? rc : channel_fill(ch, ch->in_mac, LEN_BYTES + (size_t)len, sizeof(ch->in_mac));
	if (rc)
		return rc;
	channel_mac(ch, !ch->is_client, ch->received_cnt++, bytes, len, mac);
	ch->in_at = 0;
	*len_out = len;
	return spw_oob_mac_same(mac, ch->in_mac) ? 0 : -EACCES;
}

void spw_oob_channel_deny(const struct spw_oob_channel *ch)
{
	uint8_t denied[LEN_BYTES];

	channel_put32(denied, DENIED);
	(void)send(ch->fd, denied, sizeof(denied), MSG_DONTWAIT | MSG_NOSIGNAL); /* a courtesy */
}

/* -EACCES comes from three places: one secret is absent, ours was denied, or theirs is wrong. */
static const char *channel_secret_reason(const struct spw_oob_channel *ch)
{
	if (!ch->greeted || ch->far_has_secret == (ch->secret->len > 0))
		return "the secrets differ";
	return ch->far_has_secret ? "it wants a secret, and this end has none"
				  : "it has no secret, and this end was given one";
}

const char *spw_oob_channel_reason(const struct spw_oob_channel *ch, int rc, char *text_out)
{
	const char *text;

	switch (-rc) {
	case EACCES:
		text = channel_secret_reason(ch);
		break;
	case EPROTONOSUPPORT:
		snprintf(text_out, SPW_OOB_REASON_BYTES,
			 "it speaks version %u of the protocol, this end %u: install the same "
			 "spinwire at both ends",
			 ch->far_version, ch->proto->version);
		return text_out;
	case EPROTO:
	case EMSGSIZE:
		text = "it does not speak this protocol";
		break;
	case EPERM:
		text = "its address is not allowed";
		break;
	case EBUSY:
		text = "it proved nothing, and others wait";
		break;
	case ETIMEDOUT:
		text = "it did not answer in time";
		break;
	case ECONNRESET:
		text = "it closed the connection";
		break;
	default:
		text = strerror(-rc);
	}
	snprintf(text_out, SPW_OOB_REASON_BYTES, "%s", text);
	return text_out;
}

bool spw_oob_channel_is_closed(const struct spw_oob_channel *ch)
{
	uint8_t byte;
	ssize_t n = recv(ch->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return n == 0 || (n < 0 && errno != EWOULDBLOCK && errno != EINTR);
}

/* ---- send ---- */

/* As channel_fill, for sending: parts that were sent before are skipped by out_at. */
static int channel_drain(struct spw_oob_channel *ch, const void *part, size_t from, size_t len)
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

int spw_oob_channel_send(struct spw_oob_channel *ch, const void *bytes, uint32_t len)
{
	uint8_t head[LEN_BYTES];
	int rc;

	channel_put32(head, len);
	if (!ch->out_at)
		channel_mac(ch, ch->is_client, ch->sent_cnt, bytes, len, ch->out_mac);
	rc = channel_drain(ch, head, 0, sizeof(head));
	rc = rc ? rc : channel_drain(ch, bytes, LEN_BYTES, len);
	rc = rc ? rc : channel_drain(ch, ch->out_mac, LEN_BYTES + (size_t)len, sizeof(ch->out_mac));
	if (rc)
		return rc;
	ch->out_at = 0;
	ch->sent_cnt++;
	return 0;
}
