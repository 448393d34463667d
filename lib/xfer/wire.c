/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Frames, handles and blobs as bytes (wire.h has the formats). A cursor walks over the fields of a
 * type, in one function for each type that serves both directions: `put` says which, so encoder and
 * decoder cannot disagree.
 *
 *   link.c     struct xfer_frame ─► xfer_wire_encode ─► a message of the channel
 *              the channel's next message ─► xfer_wire_parse: fields, ranges
 *
 * Every frame of a peer is checked here against the limits of its fields; whether it fits the
 * state of the connection is checked by who takes it. Integers are big-endian. A change of any
 * format needs another XFER_VERSION.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "oob/spw_oob_cursor.h"
#include "oob/spw_oob_door.h"
#include "xfer/wire.h"

#define HANDLE_MAGIC "SPWH"

#define OFFER_BYTES (2 * XFER_KEY_BYTES + 12u + SPW_XFER_RAIL_MAX * 28u)

_Static_assert(XFER_HEAD_BYTES + OFFER_BYTES <= SPW_OOB_FIRST_MAX,
	       "an OFFER is a door's first message");

/* ---- the fields of each type ---- */

/* In the order of struct xfer_frame. Unused places of an array are sent, too: a type has one
 * length. */
static void frame_fields(struct spw_oob_cursor *c, struct xfer_frame *f)
{
	switch (f->type) {
	case XFER_FRAME_OFFER:
	case XFER_FRAME_ACCEPT:
		spw_oob_cursor_bytes(c, f->offer.key, sizeof(f->offer.key));
		spw_oob_cursor_u64(c, &f->offer.box_addr);
		spw_oob_cursor_bytes(c, f->offer.export_key, sizeof(f->offer.export_key));
		spw_oob_cursor_u32(c, &f->offer.dev_cnt);
		for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++) {
			spw_oob_cursor_bytes(c, f->offer.end[i].gid, sizeof(f->offer.end[i].gid));
			spw_oob_cursor_u16(c, &f->offer.end[i].mtu);
			spw_oob_cursor_u16(c, &f->offer.end[i].prefix);
			spw_oob_cursor_u16(c, &f->offer.end[i].in_order);
			spw_oob_cursor_u16(c, &f->offer.end[i].read_max);
			spw_oob_cursor_u32(c, &f->offer.end[i].rkey);
		}
		break;
	case XFER_FRAME_REJECT:
		spw_oob_cursor_u32(c, &f->reject.reason);
		break;
	case XFER_FRAME_RAIL:
		spw_oob_cursor_u32(c, &f->rail.rail);
		spw_oob_cursor_u32(c, &f->rail.qp_generation);
		spw_oob_cursor_u32(c, &f->rail.qpn);
		spw_oob_cursor_u32(c, &f->rail.psn);
		spw_oob_cursor_u32(c, &f->rail.rail_cnt);
		spw_oob_cursor_u32(c, &f->rail.client_dev);
		spw_oob_cursor_u32(c, &f->rail.peer_dev);
		break;
	case XFER_FRAME_DOWN:
		spw_oob_cursor_u32(c, &f->down.rail);
		spw_oob_cursor_u32(c, &f->down.qp_generation);
		spw_oob_cursor_u32(c, &f->down.generation);
		for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
			spw_oob_cursor_u32(c, &f->down.open[i]);
		break;
	case XFER_FRAME_WINDOW:
		spw_oob_cursor_u32(c, &f->window.idx);
		spw_oob_cursor_u32(c, &f->window.is_host);
		spw_oob_cursor_u64(c, &f->window.addr);
		spw_oob_cursor_u64(c, &f->window.bytes);
		for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++)
			spw_oob_cursor_u32(c, &f->window.rkey[i]);
		break;
	default:
		break;
	}
}

/* Bytes of a frame; 0: no such type. */
static size_t frame_bytes(unsigned type)
{
	static const uint16_t body[XFER_FRAME_CNT] = {
		[XFER_FRAME_OFFER] = OFFER_BYTES,
		[XFER_FRAME_ACCEPT] = OFFER_BYTES,
		[XFER_FRAME_REJECT] = 4,
		[XFER_FRAME_RAIL] = 28,
		[XFER_FRAME_DOWN] = 12 + XFER_SLOT_CNT * 4,
		[XFER_FRAME_WINDOW] = 24 + SPW_XFER_RAIL_MAX * 4,
	};

	return type < XFER_FRAME_CNT && body[type] ? XFER_HEAD_BYTES + body[type] : 0;
}

/* The cursor writes fields back as it reads them, so it works on a copy. */
size_t xfer_wire_encode(const struct xfer_frame *frame, uint8_t *bytes_out)
{
	struct spw_oob_cursor c = {.at = bytes_out + XFER_HEAD_BYTES, .put = true};
	struct xfer_frame copy = *frame;

	memset(bytes_out, 0, XFER_HEAD_BYTES);
	bytes_out[0] = (uint8_t)frame->type;
	frame_fields(&c, &copy);
	return frame_bytes(frame->type);
}

/* ---- ranges ---- */

/* Any GID is possible: one of zeros stands for a device that is gone. */
static bool end_is_sound(const struct xfer_end *end)
{
	return SPW_IS_POW2(end->mtu) && spw_in_range(end->mtu, 256, 4096) && end->prefix <= 128 &&
	       end->in_order <= 1 && spw_in_range(end->read_max, 1, UINT8_MAX);
}

/* The mailbox begins on a cache line, and its offsets must not overflow. */
static bool offer_is_sound(const struct xfer_frame *f)
{
	if (!spw_in_range(f->offer.dev_cnt, 1, SPW_XFER_RAIL_MAX) || f->offer.box_addr % 64 ||
	    f->offer.box_addr > UINT64_MAX - (1u << 20))
		return false;
	for (uint32_t i = 0; i < f->offer.dev_cnt; i++)
		if (!end_is_sound(&f->offer.end[i]))
			return false;
	return true;
}

/* What later serves as an index or a shift is limited here. */
static bool frame_is_sound(const struct xfer_frame *f)
{
	switch (f->type) {
	case XFER_FRAME_OFFER:
	case XFER_FRAME_ACCEPT:
		return offer_is_sound(f);
	case XFER_FRAME_REJECT:
		return spw_in_range(f->reject.reason, XFER_REJECT_KEY, XFER_REJECT_RAILS);
	case XFER_FRAME_RAIL:
		return f->rail.rail < f->rail.rail_cnt && f->rail.rail_cnt <= SPW_XFER_RAIL_MAX &&
		       f->rail.client_dev < SPW_XFER_RAIL_MAX &&
		       f->rail.peer_dev < SPW_XFER_RAIL_MAX && f->rail.qp_generation &&
		       f->rail.qpn < 1u << 24 && f->rail.psn < 1u << 24;
	case XFER_FRAME_DOWN:
		for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
			if (f->down.open[i] != XFER_NO_SEQ && xfer_slot_of(f->down.open[i]) != i)
				return false;
		return f->down.rail < SPW_XFER_RAIL_MAX;
	case XFER_FRAME_WINDOW:
		return f->window.idx < SPW_XFER_WINDOW_MAX && f->window.is_host <= 1 &&
		       spw_in_range(f->window.bytes, 1, SPW_XFER_BYTES_MAX) &&
		       f->window.addr <= UINT64_MAX - f->window.bytes;
	default:
		return true;
	}
}

int xfer_wire_parse(const uint8_t *from, size_t len, struct xfer_frame *frame_out)
{
	struct spw_oob_cursor c = {.at = (uint8_t *)(uintptr_t)from + XFER_HEAD_BYTES};

	memset(frame_out, 0, sizeof(*frame_out));
	if (!len || len != frame_bytes(from[0]) || from[1] || from[2] || from[3])
		return -EPROTO;
	frame_out->type = (enum xfer_frame_type)from[0];
	frame_fields(&c, frame_out);
	return frame_is_sound(frame_out) ? 0 : -EPROTO;
}

/* ---- handles ----
 *
 *   0 "SPWH"   4 u16 version   6 u16 addresses   8 key   24 for each: u16 port, address   .. zeros
 */

/* Port and address are in network order already. */
static void handle_fields(struct spw_oob_cursor *c, struct xfer_address *at)
{
	spw_oob_cursor_bytes(c, at->key, sizeof(at->key));
	for (uint32_t i = 0; i < at->addr_cnt; i++) {
		spw_oob_cursor_bytes(c, &at->addr[i].sin6_port, 2);
		spw_oob_cursor_bytes(c, &at->addr[i].sin6_addr, 16);
	}
}
_Static_assert(8 + XFER_KEY_BYTES + XFER_ADDRESS_MAX * 18 <= SPW_XFER_HANDLE_BYTES, "it fits");

void xfer_wire_handle_put(const struct xfer_address *at, struct spw_xfer_handle *handle_out)
{
	struct spw_oob_cursor c = {.at = handle_out->byte, .put = true};
	struct xfer_address copy = *at;
	uint16_t version = XFER_VERSION, cnt = (uint16_t)at->addr_cnt;

	memset(handle_out, 0, sizeof(*handle_out));
	spw_oob_cursor_bytes(&c, (uint8_t[]){'S', 'P', 'W', 'H'}, 4);
	spw_oob_cursor_u16(&c, &version);
	spw_oob_cursor_u16(&c, &cnt);
	handle_fields(&c, &copy);
}

int xfer_wire_handle_get(const struct spw_xfer_handle *handle, struct xfer_address *at_out)
{
	struct spw_xfer_handle copy = *handle;
	struct spw_oob_cursor c = {.at = copy.byte + 4};
	uint16_t version = 0, cnt = 0;

	memset(at_out, 0, sizeof(*at_out));
	spw_oob_cursor_u16(&c, &version);
	spw_oob_cursor_u16(&c, &cnt);
	if (memcmp(copy.byte, HANDLE_MAGIC, 4))
		return spw_err(EINVAL,
			       "these %u bytes are no handle: pass on what the listener gave",
			       SPW_XFER_HANDLE_BYTES);
	if (version != XFER_VERSION)
		return spw_err(EINVAL,
			       "a handle of version %u of the exchange, and this end speaks %u: "
			       "install the same spinwire at both ends",
			       version, XFER_VERSION);
	if (!spw_in_range(cnt, 1, XFER_ADDRESS_MAX))
		return spw_err(EINVAL, "a handle with %u addresses: 1 .. %u", cnt,
			       XFER_ADDRESS_MAX);
	at_out->addr_cnt = cnt;
	handle_fields(&c, at_out);
	for (uint32_t i = 0; i < cnt; i++)
		at_out->addr[i].sin6_family = AF_INET6;
	return 0;
}

/* ---- blobs ----
 *
 *   0 u64 address   8 u32[4] keys   24 u64: is_host 1 | bytes 39 | MAC 24
 *
 * The MAC is of all bits before it, with the key of the endpoint. It keeps apart what is easily
 * mixed up, and would write to memory of the wrong process: endpoints, connections, and one that
 * was started again. What guards memory is the peer's NIC.
 */

#define MAC_BITS  24u
#define HOST_BIT  (1ull << 63)
#define MAC_LABEL "spinwire xfer blob"

static uint64_t blob_mac(const uint8_t *blob, const uint8_t export_key[XFER_KEY_BYTES])
{
	struct spw_oob_secret key = {.len = XFER_KEY_BYTES};
	const struct iovec part = {(void *)(uintptr_t)blob, SPW_XFER_BLOB_BYTES - MAC_BITS / 8};
	uint8_t mac[SPW_OOB_MAC_BYTES];

	memcpy(key.byte, export_key, XFER_KEY_BYTES);
	spw_oob_mac(&key, MAC_LABEL, &part, 1, mac);
	return (uint64_t)mac[0] << 16 | (uint64_t)mac[1] << 8 | mac[2];
}

static void blob_fields(struct spw_oob_cursor *c, struct xfer_export *e, uint64_t *tail)
{
	spw_oob_cursor_u64(c, &e->addr);
	for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++)
		spw_oob_cursor_u32(c, &e->rkey[i]);
	spw_oob_cursor_u64(c, tail);
}

void xfer_wire_blob_put(const struct xfer_export *e, const uint8_t export_key[XFER_KEY_BYTES],
			struct spw_xfer_blob *blob_out)
{
	uint64_t tail = (e->is_host ? HOST_BIT : 0) | e->bytes << MAC_BITS;
	struct spw_oob_cursor c = {.at = blob_out->byte, .put = true};
	struct xfer_export copy = *e;

	blob_fields(&c, &copy, &tail);
	tail |= blob_mac(blob_out->byte, export_key);
	c.at = blob_out->byte;
	blob_fields(&c, &copy, &tail);
}

int xfer_wire_blob_get(const uint8_t *bytes, size_t len, const uint8_t export_key[XFER_KEY_BYTES],
		       struct xfer_export *e_out)
{
	struct spw_oob_cursor c = {.at = (uint8_t *)(uintptr_t)bytes};
	uint64_t tail = 0;

	memset(e_out, 0, sizeof(*e_out));
	if (len != SPW_XFER_BLOB_BYTES)
		return spw_err(EINVAL, "a blob of %zu bytes: it has %u", len, SPW_XFER_BLOB_BYTES);
	blob_fields(&c, e_out, &tail);
	e_out->is_host = tail & HOST_BIT;
	e_out->bytes = (tail & ~HOST_BIT) >> MAC_BITS;
	if ((tail & ((1u << MAC_BITS) - 1)) != blob_mac(bytes, export_key))
		return spw_err(EINVAL,
			       "this blob was changed, or is not of the endpoint at the other "
			       "end: it may have been started again; ask it for a new one");
	if (!e_out->bytes || e_out->addr > UINT64_MAX - e_out->bytes)
		return spw_err(EINVAL, "a blob of impossible size");
	return 0;
}
