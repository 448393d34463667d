/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>

#include "../unit_test.h"
#include "port/port.h"

static void a_spec_is_taken_apart(void **state SPW_UNUSED)
{
	struct spw_port_spec spec, copy;

	assert_int_equal(
		spw_port_spec_parse("ethdev:net_memif0,role=server,socket=/run/x.sock,a=", &spec),
		0);
	copy = spec;
	memset(&spec, 0xff, sizeof(spec)); /* a copy stands alone */
	assert_string_equal(copy.driver, "ethdev");
	assert_string_equal(copy.device, "net_memif0");
	assert_int_equal(copy.arg_cnt, 3);
	assert_string_equal(spw_port_spec_key(&copy, 1), "socket");
	assert_string_equal(spw_port_spec_value(&copy, 1), "/run/x.sock");
	assert_string_equal(spw_port_spec_find(&copy, "role"), "server");
	assert_string_equal(spw_port_spec_find(&copy, "a"), "");
	assert_null(spw_port_spec_find(&copy, "nothing"));
}

static void the_forms_of_a_spec(void **state SPW_UNUSED)
{
	struct spw_port_spec spec;

	assert_int_equal(spw_port_spec_parse("ethdev:0000:01:00.0,rx_vec_en=0", &spec), 0);
	assert_string_equal(spec.device, "0000:01:00.0");
	assert_int_equal(spw_port_spec_parse("null", &spec), 0);
	assert_string_equal(spec.device, "");
	assert_int_equal(spw_port_spec_parse("null:size=64,size=128,x=a=b", &spec), 0);
	assert_string_equal(spec.device, "");
	assert_string_equal(spw_port_spec_find(&spec, "size"), "128");
	assert_string_equal(spw_port_spec_find(&spec, "x"), "a=b");
}

static void wrong_specs_name_the_place(void **state SPW_UNUSED)
{
	static const struct {
		const char *text, *says;
	} table[] = {
		{"", "character 1: the driver is not known"},
		{"eth:x", "character 1: the driver is not known"},
		{"averyveryverylongdrivername:x", "the driver is not known"},
		{"null:a,b", "character 8: expected key=value"},
		{"null:a,=b", "character 8: expected key=value"},
		{"null:a,k=v,", "character 11: a comma with nothing after it"},
		{"null:,k=v,,x=y", "character 11: expected key=value"},
		{"null:a\tb", "character 7: not a printable"},
		{"null:\xc3\xa4", "character 6: not a printable"},
	};
	struct spw_port_spec spec;

	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		assert_int_equal(spw_port_spec_parse(table[i].text, &spec), -EINVAL);
		if (!strstr(spw_err_text(), table[i].says) ||
		    !strstr(spw_err_text(), "with driver ethdev, "))
			fail_msg("'%s' gave: %s", table[i].text, spw_err_text());
	}
}

static void limits_hold(void **state SPW_UNUSED)
{
	struct spw_port_spec spec;
	char text[1200] = "null:";
	size_t n = 5;

	for (int i = 0; i < SPW_PORT_ARG_MAX; i++)
		n += (size_t)sprintf(text + n, "%sk%d=%d", i ? "," : "", i, i);
	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	assert_int_equal(spec.arg_cnt, SPW_PORT_ARG_MAX);
	assert_string_equal(spw_port_spec_find(&spec, "k31"), "31");
	sprintf(text + n, ",k=v");
	assert_int_equal(spw_port_spec_parse(text, &spec), -EINVAL);
	memset(text + 5, 'd', 127);
	text[5 + 127] = '\0';
	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	assert_int_equal(strlen(spec.device), 127);
	strcpy(text + 5 + 127, "d");
	assert_int_equal(spw_port_spec_parse(text, &spec), -EINVAL);
	memset(text, 'x', 1100);
	memcpy(text, "null:a,k=", 9);
	text[511] = '\0';
	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	text[511] = 'x';
	text[512] = '\0';
	assert_int_equal(spw_port_spec_parse(text, &spec), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "too long"));
}

static void numbers_have_suffixes_and_limits(void **state SPW_UNUSED)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t value;
	} table[] = {
		{"null:n=0", 0, 0},
		{"null:n=7", 0, 7},
		{"null:n=3k", 0, 3000},
		{"null:n=2M", 0, 2000000},
		{"null:n=1G", 0, 1000000000},
		{"null:m=9", 0, 42},
		{"null:n=", -EINVAL, 42},
		{"null:n=-1", -EINVAL, 42},
		{"null:n= 1", -EINVAL, 42},
		{"null:n=1kk", -EINVAL, 42},
		{"null:n=1x", -EINVAL, 42},
		{"null:n=2G", -ERANGE, 42},
		{"null:n=18446744073709551616", -ERANGE, 42},
		{"null:n=18446744073709551615G", -ERANGE, 42},
	};
	struct spw_port_spec spec;
	uint64_t value;

	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		assert_int_equal(spw_port_spec_parse(table[i].text, &spec), 0);
		assert_int_equal(spw_port_spec_u64(&spec, "n", 42, 0, 1500000000, &value),
				 table[i].rc);
		assert_int_equal(value, table[i].value);
	}
}

static void rates_have_units(void **state SPW_UNUSED)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t value;
	} table[] = {
		{"null:rate=20kpps", 0, 20000},  {"null:rate=3pps", 0, 3},
		{"null:rate=2M", 0, 2000000},    {"null:rate=2kp", -EINVAL, 0},
		{"null:rate=2ppsk", -EINVAL, 0},
	};
	struct spw_port_spec spec;
	uint64_t value;

	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		assert_int_equal(spw_port_spec_parse(table[i].text, &spec), 0);
		assert_int_equal(spw_port_spec_u64(&spec, "rate", 0, 0, UINT64_MAX, &value),
				 table[i].rc);
		assert_int_equal(value, table[i].value);
	}
	assert_int_equal(spw_port_spec_parse("null:n=2kpps", &spec), 0);
	assert_int_equal(spw_port_spec_u64(&spec, "n", 0, 0, UINT64_MAX, &value), -EINVAL);
}

static void needs_by_port(void **state SPW_UNUSED)
{
	static const struct {
		const char *text;
		bool pci;
		const char *allow;
		uint64_t caps;
	} table[] = {
		{"ethdev:0000:01:00.0", true, "0000:01:00.0", SPW_PORT_CAPS_ALL},
		{"ethdev:01:00.0,mtu=9000,rx_vec_en=0,promisc=0,txq_inline_max=0", true,
		 "0000:01:00.0,rx_vec_en=0,txq_inline_max=0", SPW_PORT_CAPS_ALL},
		{"ethdev:net_tap0", false, "", SPW_PORT_CAPS_ALL},
		{"ethdev:net_memif0,role=client", false, "", 0},
		{"ethdev:net_af_packet0,iface=lo", false, "",
		 1ull << CAP_NET_RAW | 1ull << CAP_NET_ADMIN},
		{"null:size=64", false, "", 0},
		{"fault:ethdev:net_af_packet0,iface=lo", false, "",
		 1ull << CAP_NET_RAW | 1ull << CAP_NET_ADMIN},
#ifdef SPW_HAVE_RDMA
		{"verbs:rxe0", false, "", 1ull << CAP_NET_RAW},
		{"verbs:rxe0,mode=eth", false, "", 1ull << CAP_NET_RAW},
		{"verbs:rxe0,mode=rc,listen=127.0.0.1:1", false, "", 0},
		{"fault:verbs:rxe0,mode=rc", false, "", 0},
#endif
	};
	struct spw_port_need need;
	struct spw_port_spec spec;

	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		assert_int_equal(spw_port_spec_parse(table[i].text, &spec), 0);
		assert_int_equal(spw_port_need(&spec, &need), 0);
		assert_int_equal(need.pci, table[i].pci);
		assert_string_equal(need.allow[0], table[i].allow);
		assert_int_equal(need.caps, table[i].caps);
	}
}

/* Whatever the bytes: a verdict, and every key and value a string within the store. */
static void any_bytes_are_survived(void **state SPW_UNUSED)
{
	static const char alphabet[] = "null:ethdev,,==::ab0.\x01\xff";
	uint64_t random = 7;
	uint32_t good = 0;

	for (int round = 0; round < 200000; round++) {
		size_t len = unit_random(&random) % 40;
		struct spw_port_spec spec;
		char text[48] = "null:";

		for (size_t i = round & 1 ? 5 : 0; i < len; i++)
			text[i] = alphabet[unit_random(&random) % (sizeof(alphabet) - 1)];
		if (spw_port_spec_parse(text, &spec))
			continue;
		good++;
		for (uint32_t i = 0; i < spec.arg_cnt; i++) {
			assert_true(strlen(spw_port_spec_key(&spec, i)) > 0);
			assert_true(spw_port_spec_value(&spec, i) +
					    strlen(spw_port_spec_value(&spec, i)) <
				    spec.store + sizeof(spec.store));
		}
	}
	assert_true(good > 1000);
}

static void counters_have_names(void **state SPW_UNUSED)
{
	assert_string_equal(spw_port_drop_name(SPW_PORT_DROP_too_long), "too_long");
	assert_string_equal(spw_port_err_name(SPW_PORT_ERR_no_slot), "no_slot");
	assert_string_equal(spw_port_drop_name(SPW_PORT_DROP_CNT), "?");
	assert_string_equal(spw_port_err_name(SPW_PORT_ERR_CNT), "?");
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test(a_spec_is_taken_apart),
		cmocka_unit_test(the_forms_of_a_spec),
		cmocka_unit_test(wrong_specs_name_the_place),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(numbers_have_suffixes_and_limits),
		cmocka_unit_test(rates_have_units),
		cmocka_unit_test(needs_by_port),
		cmocka_unit_test(any_bytes_are_survived),
		cmocka_unit_test(counters_have_names),
	};

	return cmocka_run_group_tests_name("port-spec", test, NULL, NULL);
}
