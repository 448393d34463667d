/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Handles: all addresses survive, and what is no handle of this version is refused by name.
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_survive),
		cmocka_unit_test(other_bytes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
