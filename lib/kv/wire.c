/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Info and frames as bytes (wire.h has the formats). Whatever is read is a stranger's: lengths are
 * compared before a field is read, and what has one meaning only is compared with it.
 */
#include "kv/wire.h"

#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "oob/spw_oob_auth.h"
#include "oob/spw_oob_cursor.h"

#define INFO_MAGIC  "SPWK"
#define INFO_LABEL  "spinwire kv info"
#define INFO_ID     8u /* where the id lies */
#define INFO_HANDLE (INFO_ID + KV_ID_BYTES)
#define INFO_CHECK  (INFO_HANDLE + SPW_XFER_HANDLE_BYTES)
#define CHECK_BYTES 8u

_Static_assert(INFO_CHECK + CHECK_BYTES == SPW_KV_INFO_BYTES, "an info is filled");
_Static_assert(KV_ID_BYTES + SPW_KV_NAME_MAX <= KV_PIECE_BYTES, "a hello is one frame");

/* ---- frames ---- */

/* bits: what `frame` does not hold, as one number. */
static void frame_walk(struct spw_oob_cursor *c, struct kv_frame *frame, uint32_t *bits,
		       uint32_t *zero)
{
	spw_oob_cursor_u32(c, bits);
	spw_oob_cursor_u32(c, &frame->bytes);
	spw_oob_cursor_u32(c, &frame->at);
	spw_oob_cursor_u32(c, zero);
}

/* 'K', 'V', version, 0: the type is added. */
#define FRAME_BITS ((uint32_t)'K' << 24 | (uint32_t)'V' << 16 | KV_VERSION << 8)

void kv_frame_put(const struct kv_frame *frame, uint8_t *to)
{
	struct spw_oob_cursor c = {.at = to, .put = true};
	uint32_t bits = FRAME_BITS | (uint32_t)frame->type, zero = 0;
	struct kv_frame copy = *frame;

	frame_walk(&c, &copy, &bits, &zero);
}

/* A frame has exactly the bytes that its head speaks of. */
int kv_frame_get(const uint8_t *from, uint64_t len, struct kv_frame *f)
{
	struct spw_oob_cursor c = {.at = (uint8_t *)(uintptr_t)from};
	uint32_t bits, zero;

	if (len < KV_HEAD_BYTES)
		return -EPROTO;
	frame_walk(&c, f, &bits, &zero);
	if ((bits & ~0xffu) != FRAME_BITS || zero || f->bytes > SPW_KV_NOTE_MAX ||
	    f->at > f->bytes || f->at % KV_PIECE_BYTES || (f->at == f->bytes && f->bytes))
		return -EPROTO;
	f->type = (enum kv_frame_type)(bits & 0xff);
	f->len = kv_frame_len(f->bytes, f->at);
	return len == KV_HEAD_BYTES + f->len ? 0 : -EPROTO;
}

uint32_t kv_hello_put(const struct kv_hello *hello, uint8_t *to)
{
	const struct kv_frame frame = {.type = KV_FRAME_HELLO,
				       .bytes = KV_ID_BYTES + hello->name.len};

	kv_frame_put(&frame, to);
	memcpy(to + KV_HEAD_BYTES, hello->id, KV_ID_BYTES);
	memcpy(to + KV_HEAD_BYTES + KV_ID_BYTES, hello->name.byte, hello->name.len);
	return KV_HEAD_BYTES + frame.bytes;
}

int kv_hello_get(const struct kv_frame *frame, const uint8_t *data, struct kv_hello *hello_out)
{
	if (frame->type != KV_FRAME_HELLO ||
	    !spw_in_range(frame->bytes, KV_ID_BYTES + 1, KV_ID_BYTES + SPW_KV_NAME_MAX))
		return -EPROTO;
	memcpy(hello_out->id, data, KV_ID_BYTES);
	hello_out->name.len = frame->bytes - KV_ID_BYTES;
	memcpy(hello_out->name.byte, data + KV_ID_BYTES, hello_out->name.len);
	return 0;
}

bool kv_name_is(const struct kv_name *name, const void *at, size_t len)
{
	return name->len == len && !memcmp(name->byte, at, len);
}

/* ---- info ---- */

/* The id is the key: a check over bytes of another incarnation does not fit by chance. */
static void info_check(const uint8_t *info, uint8_t check_out[CHECK_BYTES])
{
	struct spw_oob_secret key = {.len = KV_ID_BYTES};
	const struct iovec part = {(void *)(uintptr_t)info, INFO_CHECK};
	uint8_t mac[SPW_OOB_MAC_BYTES];

	memcpy(key.byte, info + INFO_ID, KV_ID_BYTES);
	spw_oob_mac(&key, INFO_LABEL, &part, 1, mac);
	memcpy(check_out, mac, CHECK_BYTES);
}

void kv_info_put(const uint8_t id[KV_ID_BYTES], const struct spw_xfer_handle *handle,
		 struct spw_kv_info *info_out)
{
	uint8_t *at = info_out->byte;
	const spw_be16 version = spw_cpu_to_be16(KV_VERSION);

	memset(at, 0, SPW_KV_INFO_BYTES);
	memcpy(at, INFO_MAGIC, 4);
	memcpy(at + 4, &version, sizeof(version));
	memcpy(at + INFO_ID, id, KV_ID_BYTES);
	memcpy(at + INFO_HANDLE, handle->byte, SPW_XFER_HANDLE_BYTES);
	info_check(at, at + INFO_CHECK);
}

int kv_info_check(const void *info, size_t bytes)
{
	const uint8_t *at = info;
	uint8_t check[CHECK_BYTES];

	if (bytes < 6 || memcmp(at, INFO_MAGIC, 4))
		return spw_err(EINVAL,
			       "%zu bytes that are no agent's info: pass on what "
			       "spw_kv_info gave there, whole",
			       bytes);
	if (spw_be16_load(at + 4) != KV_VERSION)
		return spw_err(EINVAL,
			       "an agent of version %u, this one is of version %u: use the "
			       "same release at both ends",
			       spw_be16_load(at + 4), KV_VERSION);
	if (bytes != SPW_KV_INFO_BYTES)
		return spw_err(EINVAL, "an agent's info of %zu bytes: it has %u", bytes,
			       SPW_KV_INFO_BYTES);
	info_check(at, check);
	if (memcmp(check, at + INFO_CHECK, CHECK_BYTES))
		return spw_err(EINVAL, "an agent's info was changed on its way");
	return 0;
}

const uint8_t *kv_info_id(const struct spw_kv_info *info)
{
	return info->byte + INFO_ID;
}

struct spw_xfer_handle kv_info_handle(const struct spw_kv_info *info)
{
	struct spw_xfer_handle handle;

	memcpy(handle.byte, info->byte + INFO_HANDLE, sizeof(handle.byte));
	return handle;
}
