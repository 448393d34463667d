/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The options of spinwire-gen reach their fields, and those that exclude each other are refused.
 */
#include <string.h>

#include "conf.h"
#include "unit_test.h"

static struct gen_conf conf;

static int args(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return gen_conf_args(&conf, argc, argv);
}
#define ARGS(...) args((char *[]){"spinwire-gen", "--port", "null:", __VA_ARGS__, NULL})

static void defaults_are_those_of_help(void **state)
{
	(void)state;
	assert_int_equal(ARGS("--seed", "1"), 0);
	assert_true(conf.plan.rate_fps == 1e6 && conf.plan.flow_cnt == 16 && conf.expect_echo);
	assert_true(conf.seconds_ns == 10000000000ull && conf.linger_ns == 1000000000ull);
	assert_true(conf.probe_ns == 100000000 && conf.slow_ns == 100000 && conf.hold_ns == 0);
	assert_int_equal(conf.slots, 8192);
	assert_int_equal(conf.trail_every, 1);
	assert_int_equal(conf.frame.src_ip, 0xc6120001);
}

static void options_reach_their_fields(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 7};

	(void)state;
	assert_int_equal(ARGS("--src-mac", "02:00:00:00:00:07", "--src-ip", "10.0.0.1", "--dst-ip",
			      "10.0.0.2", "--probe", "0", "--hold", "2s", "--run", "7",
			      "--trail-every", "8", "--echo=no", "--size", "64-1514", "--flows",
			      "3", "--warm-up", "1s", "--link-wait", "5s", "--slots", "128"),
			 0);
	assert_memory_equal(&conf.frame.src_mac, mac, sizeof(mac));
	assert_int_equal(conf.frame.src_ip, 0x0a000001);
	assert_int_equal(conf.frame.dst_ip, 0x0a000002);
	assert_true(conf.probe_ns == 0 && conf.hold_ns == 2000000000 && !conf.expect_echo);
	assert_true(conf.warm_up_ns == 1000000000 && conf.link_wait_ns == 5000000000ull);
	assert_int_equal(conf.frame.run, 7);
	assert_int_equal(conf.trail_every, 8);
	assert_int_equal(conf.plan.size_max, 1514);
	assert_int_equal(conf.plan.flow_cnt, 3);
	assert_int_equal(conf.slots, 128);
}

static void refused(int rc, const char *part)
{
	assert_true(rc < 0);
	if (!strstr(spw_err_text(), part))
		fail_msg("error \"%s\" lacks \"%s\"", spw_err_text(), part);
}

static void what_cannot_be_is_refused(void **state)
{
	(void)state;
	refused(ARGS("--warm-up", "10s"), "--warm-up: must be shorter than --seconds");
	refused(ARGS("--src-ip", "10.0.0"), "--src-ip: '10.0.0' is not an IPv4 address");
	refused(ARGS("--src-mac", "nonsense"), "--src-mac: 'nonsense' is not a MAC address");
	refused(ARGS("--trail-every", "3"), "a power of 2");
	refused(args((char *[]){"spinwire-gen", "--seed", "1", NULL}), "--port: is missing");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_help),
		cmocka_unit_test(options_reach_their_fields),
		cmocka_unit_test(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
