/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What group= may say, and the rules that groups and ports make together.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/spw_err.h"
#include "port/spw_port.h"
#include "rdma/spw_rdma_flow.h"
#include "unit_test.h"

static int parse(const char *keys, struct rdma_flow_conf *conf)
{
	struct spw_port_spec spec;
	char text[512];

	snprintf(text, sizeof(text), "mlx5:mlx5_0,%s", keys);
	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	return rdma_flow_parse(&spec, conf);
}

/* Every group with every port, IPv4 and UDP alone, wherever the keys stand. */
static void test_rules(void **state)
{
	static const char *const order[] = {
		"group=239.1.2.3,group=10.0.0.7@232.1.2.4,udp=9,udp=11",
		"udp=9,group=239.1.2.3,udp=11,group=10.0.0.7@232.1.2.4"};
	struct rdma_flow_conf conf;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(order); i++) {
		assert_int_equal(parse(order[i], &conf), 0);
		assert_false(conf.by_default);
		assert_int_equal(conf.rule_cnt, 4);
		for (uint32_t r = 0; r < conf.rule_cnt; r++) {
			assert_int_equal(conf.rule[r].rule.l3, RDMA_L3_IPV4);
			assert_int_equal(conf.rule[r].rule.l4, RDMA_L4_UDP);
			assert_int_equal(conf.rule[r].rule.port, r < 2 ? 9 : 11);
			assert_int_equal(conf.rule[r].rule.group.addr_be,
					 inet_addr(r % 2 ? "232.1.2.4" : "239.1.2.3"));
			assert_int_equal(conf.rule[r].rule.group.source_be,
					 r % 2 ? inet_addr("10.0.0.7") : 0);
		}
	}
	assert_int_equal(parse("group=224.0.1.0", &conf), 0);
	assert_int_equal(conf.rule_cnt, 1);
	assert_int_equal(conf.rule[0].rule.port, 0);
	assert_int_equal(parse("group=10.0.0.7@232.1.2.3,group=10.0.0.8@232.1.2.3", &conf), 0);
	assert_int_equal(conf.rule_cnt, 2);
}

static void test_refused(void **state)
{
	static const struct {
		const char *keys, *says;
	} table[] = {
		{"group=", "group= is no IPv4 address"},
		{"group=239.1.2", "group=239.1.2 is no IPv4 address"},
		{"group=ff0e::1", "is no IPv4 address"},
		{"group=@239.1.2.3", "is no IPv4 address"},
		{"group=0.0.0.0@239.1.2.3", "is no IPv4 address"},
		{"group=100.100.100.1000@239.1.2.3", "is no IPv4 address"},
		{"group=10.0.0.7@", "is no IPv4 address"},
		{"group=10.0.0.7", "no group that can be joined"},
		{"group=223.255.255.255", "no group that can be joined"},
		{"group=224.0.0.1", "no group that can be joined"},
		{"group=224.0.0.255", "no group that can be joined"},
		{"group=240.0.0.0", "no group that can be joined"},
		{"group=239.1.2.3,group=239.1.2.3", "has this group already"},
		{"group=239.1.2.3,group=10.0.0.7@239.1.2.3", "has this group already"},
		{"group=10.0.0.7@239.1.2.3,group=239.1.2.3", "has this group already"},
		{"group=239.1.2.3,mac=02:00:00:00:00:01", "leave mac="},
		{"group=239.1.2.3,vlan=7", "leave mac="},
		{"group=239.1.2.3,ipv4=10.0.0.1", "leave mac="},
		{"group=239.1.2.3,ipv6=fd00::1", "leave mac="},
		{"group=239.1.2.3,tcp=80", "leave mac="},
		{"group=239.1.2.3,flow=all", "flow=all takes every frame"},
	};
	struct rdma_flow_conf conf;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		assert_int_equal(parse(table[i].keys, &conf), -EINVAL);
		assert_non_null(strstr(spw_err_text(), table[i].says));
	}
}

/* What one more key means while the port runs: the conditions stay. */
static void test_rule(void **state)
{
	struct rdma_flow_conf conf, rules;

	(void)state;
	assert_int_equal(parse("udp=9", &conf), 0);
	assert_int_equal(rdma_flow_parse_rule(&conf, "tcp=80", &rules), 0);
	assert_int_equal(rules.rule_cnt, 2);
	assert_int_equal(rules.rule[1].rule.l3, RDMA_L3_IPV6);
	assert_int_equal(rules.rule[1].rule.port, 80);
	assert_int_equal(parse("ipv4=10.0.0.1", &conf), 0);
	assert_int_equal(rdma_flow_parse_rule(&conf, "udp=9", &rules), 0);
	assert_int_equal(rules.rule_cnt, 1);
	assert_int_equal(parse("group=239.1.2.3,group=239.1.2.4", &conf), 0);
	assert_int_equal(rdma_flow_parse_rule(&conf, "udp=9", &rules), 0);
	assert_int_equal(rules.rule_cnt, 2);
	assert_int_equal(rdma_flow_parse_rule(&conf, "tcp=9", &rules), -EINVAL);
	assert_int_equal(rdma_flow_parse_rule(&conf, "udp=0", &rules), -EINVAL);
	assert_int_equal(rdma_flow_parse_rule(&conf, "udp=-1", &rules), -EINVAL);
	assert_int_equal(rdma_flow_parse_rule(&conf, "udp=65536", &rules), -EINVAL);
	assert_int_equal(rdma_flow_parse_rule(&conf, "udp=", &rules), -EINVAL);
	assert_int_equal(rdma_flow_parse_rule(&conf, "udp=9,udp=8", &rules), -EINVAL);
	assert_int_equal(rdma_flow_parse_rule(&conf, "mac=02:00:00:00:00:01", &rules), -ENOTSUP);
	assert_int_equal(rdma_flow_parse_rule(&conf, "", &rules), -ENOTSUP);
}

/* cnt groups, and ports of each. */
static int parse_many(uint32_t group_cnt, uint32_t port_cnt, struct rdma_flow_conf *conf)
{
	char keys[512] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < group_cnt + port_cnt; i++)
		at += (size_t)snprintf(keys + at, sizeof(keys) - at,
				       i < group_cnt ? "%sgroup=239.1.2.%u" : "%sudp=%u",
				       at ? "," : "", i + 1);
	return parse(keys, conf);
}

static void test_limits(void **state)
{
	struct rdma_flow_conf conf;

	(void)state;
	assert_int_equal(parse_many(RDMA_FLOW_GROUP_MAX, 2, &conf), 0);
	assert_int_equal(conf.rule_cnt, RDMA_FLOW_RULE_MAX);
	assert_int_equal(parse_many(RDMA_FLOW_GROUP_MAX, 3, &conf), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "groups times ports"));
	assert_int_equal(parse_many(RDMA_FLOW_GROUP_MAX + 1, 0, &conf), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "more than 16 of group="));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
