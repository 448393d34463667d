/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Handles: all addresses survive, and what is no handle of this version is refused by name. Blobs:
 * a changed bit, a cut, and the key of another endpoint are refused.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "unit_test.h"
#include "xfer/wire.h"

static void addresses_survive(void **state SPW_UNUSED)
{
	struct xfer_address at = {.addr_cnt = XFER_ADDRESS_MAX, .key = "0123456789abcde"}, got;
	struct spw_xfer_handle handle;

	for (uint32_t i = 0; i < XFER_ADDRESS_MAX; i++) {
		at.addr[i].sin6_family = AF_INET6;
		at.addr[i].sin6_port = htons((uint16_t)(7000 + i));
		at.addr[i].sin6_addr.s6_addr[15] = (uint8_t)(i + 1);
	}
	xfer_wire_handle_put(&at, &handle);
	assert_int_equal(xfer_wire_handle_get(&handle, &got), 0);
	assert_memory_equal(&got, &at, sizeof(at));
}

static void other_bytes_are_refused(void **state SPW_UNUSED)
{
	struct xfer_address at = {.addr_cnt = 1};
	struct spw_xfer_handle handle;

	xfer_wire_handle_put(&at, &handle);
	handle.byte[7] = XFER_ADDRESS_MAX + 1;
	assert_int_equal(xfer_wire_handle_get(&handle, &at), -EINVAL);
	handle.byte[7] = 0;
	assert_int_equal(xfer_wire_handle_get(&handle, &at), -EINVAL);
	handle.byte[7] = 1;
	handle.byte[5] = 2;
	assert_int_equal(xfer_wire_handle_get(&handle, &at), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "version 2"));
	handle.byte[0] = 'X';
	assert_int_equal(xfer_wire_handle_get(&handle, &at), -EINVAL);
}

static void blobs_survive_and_nothing_else_is_one(void **state SPW_UNUSED)
{
	static const uint8_t key[2][XFER_KEY_BYTES] = {"0123456789abcde", "0123456789abcdf"};
	const struct xfer_export e = {0xffff800012345678, XFER_EXPORT_MAX, {1, 0, ~0u, 7}, true};
	struct spw_xfer_blob blob, changed;
	uint8_t longer[SPW_XFER_BLOB_BYTES + 1] = {0};
	struct xfer_export got;

	xfer_wire_blob_put(&e, key[0], &blob);
	assert_int_equal(xfer_wire_blob_get(blob.byte, sizeof(blob.byte), key[0], &got), 0);
	assert_int_equal(got.addr, e.addr);
	assert_int_equal(got.bytes, e.bytes);
	assert_true(got.is_host);
	assert_memory_equal(got.rkey, e.rkey, sizeof(e.rkey));
	assert_int_equal(xfer_wire_blob_get(blob.byte, sizeof(blob.byte), key[1], &got), -EINVAL);
	memcpy(longer, blob.byte, sizeof(blob.byte));
	for (size_t len = 0; len <= sizeof(longer); len++)
		assert_int_equal(xfer_wire_blob_get(longer, len, key[0], &got),
				 len == sizeof(blob.byte) ? 0 : -EINVAL);
	for (uint32_t i = 0; i < SPW_XFER_BLOB_BYTES * 8; i++) {
		changed = blob;
		changed.byte[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_int_equal(
			xfer_wire_blob_get(changed.byte, sizeof(changed.byte), key[0], &got),
			-EINVAL);
	}
	for (uint32_t i = 0; i < 2; i++) {
		const struct xfer_export bad = {.addr = UINT64_MAX - 1, .bytes = i ? 0 : 3};

		xfer_wire_blob_put(&bad, key[0], &blob);
		assert_int_equal(xfer_wire_blob_get(blob.byte, sizeof(blob.byte), key[0], &got),
				 -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_survive),
		cmocka_unit_test(other_bytes_are_refused),
		cmocka_unit_test(blobs_survive_and_nothing_else_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
