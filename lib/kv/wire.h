/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/kv: its bytes on the wire. Everything is big-endian. An agent's info is described
 * in spw_kv.h; over a connection go frames, each a message of lib/xfer with tag 0:
 *
 *   u8 'K', u8 'V', u8 version, u8 type     u32 bytes, of the whole     u32 at     u32 0
 *   then what lies at `at` of the whole, as much as is left, at most KV_PIECE_BYTES
 *
 *   HELLO   the first, once: id[16], name      of who made the connection
 *   NOTE    a notification, from `at` 0 on, in order, without another one in between
 *
 * Pure. Thread of all: any.
 */
#ifndef SPW_KV_WIRE_H
#define SPW_KV_WIRE_H

#include "kv/spw_kv.h"

#define KV_VERSION     1u
#define KV_ID_BYTES    16u
#define KV_HEAD_BYTES  16u
#define KV_PIECE_BYTES 8192u
#define KV_FRAME_BYTES (KV_HEAD_BYTES + KV_PIECE_BYTES)

struct kv_name {
	uint32_t len;
	uint8_t byte[SPW_KV_NAME_MAX];
};

/* Who an agent is: its incarnation, and its name. */
struct kv_hello {
	uint8_t id[KV_ID_BYTES];
	struct kv_name name;
};

enum kv_frame_type { KV_FRAME_HELLO = 1, KV_FRAME_NOTE = 2 };

struct kv_frame {
	enum kv_frame_type type;
	uint32_t bytes, at;
	uint32_t len; /* in this frame */
};

/* Bytes of a whole that go with the frame at `at`. */
SPW_INLINE uint32_t kv_frame_len(uint32_t bytes, uint32_t at)
{
	return SPW_MIN(bytes - at, KV_PIECE_BYTES);
}

/* Writes a head. to: KV_HEAD_BYTES. */
void kv_frame_put(const struct kv_frame *frame, uint8_t *to);
/* Reads one of a message of len bytes. Errors: -EPROTO without a text. */
int kv_frame_get(const uint8_t *from, uint64_t len, struct kv_frame *frame_out);

/* Writes a whole frame. to: KV_FRAME_BYTES. Returns: its bytes. */
uint32_t kv_hello_put(const struct kv_hello *hello, uint8_t *to);
/* Errors: -EPROTO without a text. */
int kv_hello_get(const struct kv_frame *frame, const uint8_t *data, struct kv_hello *hello_out);

bool kv_name_is(const struct kv_name *name, const void *at, size_t len);

/* id 16 random bytes. */
void kv_info_put(const uint8_t id[KV_ID_BYTES], const struct spw_xfer_handle *handle,
		 struct spw_kv_info *info_out);
/* Errors: -EINVAL with a text. */
int kv_info_check(const void *info, size_t bytes);
const uint8_t *kv_info_id(const struct spw_kv_info *info);
struct spw_xfer_handle kv_info_handle(const struct spw_kv_info *info);

#endif
