/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a user writes for a host: names and numbers, with and without a port, and what is no host.
 */
#include "../unit_test.h"

#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "oob/spw_oob_addr.h"
#include "oob/spw_oob_host.h"

static void every_form_is_resolved(void **state SPW_UNUSED)
{
	static const struct {
		const char *text, *port, *name, *addr;
	} form[] = {
		{"10.0.0.1:7000", NULL, "10.0.0.1", "10.0.0.1:7000"},
		{"10.0.0.1:7000", "9", "10.0.0.1", "10.0.0.1:7000"},
		{"10.0.0.1", "9", "10.0.0.1", "10.0.0.1:9"},
		{"[fd00::1]:7000", NULL, "fd00::1", "[fd00::1]:7000"},
		{"[fd00::1]:7000", "9", "fd00::1", "[fd00::1]:7000"},
		{"[fd00::1]", "9", "fd00::1", "[fd00::1]:9"},
		{"fd00::1", "9", "fd00::1", "[fd00::1]:9"},
		{"fd00::1:7000", NULL, "fd00::1", "[fd00::1]:7000"}, /* a port is wanted */
	};
	struct spw_oob_host host;
	char text[64];

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(form); i++) {
		assert_int_equal(spw_oob_host_resolve(form[i].text, form[i].port, false, &host), 0);
		assert_string_equal(host.name, form[i].name);
		assert_int_equal(host.addr_cnt, 1);
		assert_string_equal(spw_oob_addr_text(&host.addr[0], text), form[i].addr);
	}
}

static void no_host_listens_on_all_addresses(void **state SPW_UNUSED)
{
	struct spw_oob_host host;

	assert_int_equal(spw_oob_host_resolve(":7000", NULL, true, &host), 0);
	assert_true(host.addr_cnt > 0);
	for (uint32_t i = 0; i < host.addr_cnt; i++)
		assert_int_equal(host.addr[i].sin6_addr.s6_addr[15], 0);
}

static void what_is_no_host_is_refused(void **state SPW_UNUSED)
{
	static const char *const wrong[] = {"10.0.0.1", "10.0.0.1:",          "[fd00::1]",
					    "",         "10.0.0.1:123456789", NULL};
	struct spw_oob_host host;
	char longest[300];

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		assert_int_equal(spw_oob_host_resolve(wrong[i], NULL, false, &host), -EINVAL);
		assert_non_null(strstr(spw_err_text(), "expected HOST:PORT"));
	}
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(spw_oob_host_resolve(longest, "9", false, &host), -EINVAL);
	assert_int_equal(spw_oob_host_resolve("no-such-host.invalid:9", NULL, false, &host),
			 -ENOENT);
	for (const char *const *port = (const char *const[]){"65536", "99999", "http", NULL}; *port;
	     port++) {
		assert_int_equal(spw_oob_host_resolve("127.0.0.1", *port, false, &host), -EINVAL);
		assert_non_null(strstr(spw_err_text(), "is no TCP port"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_is_resolved),
		cmocka_unit_test(no_host_listens_on_all_addresses),
		cmocka_unit_test(what_is_no_host_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
