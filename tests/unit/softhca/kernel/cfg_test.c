/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The options of tools/with-softhca, as hca_cfg_parse reads them.
 */
#include "kit.h"

#include "base/spw_err.h"

static void defaults(void **state)
{
	struct hca_cfg c;

	(void)state;
	assert_int_equal(hca_cfg_parse(NULL, &c), 0);
	assert_int_equal(c.dev_cnt, 1);
	assert_string_equal(c.dev[0].name, "mlx5_0");
	assert_string_equal(c.cable, "shm:default");
	assert_int_equal(c.speed_mbps, 100000);
	assert_int_equal(c.nic_cpu, -1);
}

static void everything(void **state)
{
	struct hca_cfg c;

	(void)state;
	assert_int_equal(
		hca_cfg_parse("devices=2;name=a,b;speed=400;mtu=1500;cable=unix:/x,/"
			      "y;mac=02:00:00:00:00:0a;"
			      "ip=10.0.0.1,10.0.0.2;seed=0x10;pci=0001:02:03.4;netdev=lo;"
			      "fault=loss=0.5,dup=0.1;"
			      "control=/tmp/c;trace=/tmp/t;clock=ppm=3;nic-cpu=2;nic-threads=3;"
			      "machine=2,77",
			      &c),
		0);
	assert_int_equal(c.dev_cnt, 2);
	assert_string_equal(c.dev[1].name, "b");
	assert_int_equal(c.speed_mbps, 400000);
	assert_int_equal(c.mtu_bytes, 1500);
	assert_int_equal(c.dev[0].mac[5], 10);
	assert_int_equal(c.dev[1].ip[3], 2);
	assert_int_equal(c.seed, 16);
	assert_int_equal(c.machine, 77ull << 32 | 17);
	assert_int_equal(c.dev[0].pci_bus, 2);
	assert_int_equal(c.dev[0].pci_func, 4);
	assert_string_equal(c.fault, "loss=0.5,dup=0.1");
	assert_int_equal(c.nic_cpu, 2);
	assert_int_equal(c.nic_threads, 3);
}

/* Ports take turns on the cables, and each word of the list is checked. */
static void a_cable_for_each_port(void **state)
{
	char cable[HCA_TEXT_BYTES];
	struct hca_cfg c;

	(void)state;
	assert_int_equal(hca_cfg_parse("devices=3;cable=shm:a+unix:/x,/y", &c), 0);
	hca_cfg_cable(&c, 0, cable);
	assert_string_equal(cable, "shm:a");
	hca_cfg_cable(&c, 1, cable);
	assert_string_equal(cable, "unix:/x,/y");
	hca_cfg_cable(&c, 2, cable);
	assert_string_equal(cable, "shm:a");
	assert_int_equal(hca_cfg_parse("cable=shm:one", &c), 0);
	hca_cfg_cable(&c, 1, cable);
	assert_string_equal(cable, "shm:one");
}

static void spark(void **state)
{
	struct hca_cfg c;

	(void)state;
	assert_int_equal(hca_cfg_parse("as=dgx-spark", &c), 0);
	assert_int_equal(c.dev_cnt, 4);
	assert_string_equal(c.dev[2].name, "roceP2p1s0f0");
	assert_int_equal(c.dev[2].pci_domain, 2);
	assert_int_equal(c.card->part_id, 0x1021);
}

/* Each is refused, and the text names the option. */
static void refusals(void **state)
{
	static const char *const bad[][2] = {{"devices=0", "--devices"},
					     {"devices=9", "--devices"},
					     {"devices=x", "--devices"},
					     {"speed=33", "--speed"},
					     {"mtu=9601", "--mtu"},
					     {"cable=tcp:1", "--cable"},
					     {"cable=shm:a+", "--cable"},
					     {"cable=shm:a+b", "--cable"},
					     {"nic-threads=0", "--nic-threads"},
					     {"nic-threads=17", "--nic-threads"},
					     {"machine=8191,1", "--machine"},
					     {"machine=1", "--machine"},
					     {"nic-cpu=-1", "--nic-cpu"},
					     {"nic-cpu=1024", "--nic-cpu"},
					     {"as=cray", "--as"},
					     {"mac=01:00:00:00:00:01", "--mac"},
					     {"mac=2", "--mac"},
					     {"ip=10.0.0", "--ip"},
					     {"pci=1:2:3", "--pci"},
					     {"name=a/b", "--name"},
					     {"devices=2;name=a,a", "--name"},
					     {"seed=-1", "--seed"},
					     {"colour=red", "--colour"},
					     {"devices", "--devices"},
					     {"name=a,b,c,d,e,f,g,h,i", "--name"},
					     {"control=", "--control"},
					     {"adversary=", "--adversary"},
					     {"adversary=-1", "--adversary"},
					     {"adversary=x", "--adversary"},
					     {"adversary=1x", "--adversary"},
					     {"adversary=1,", "--adversary"},
					     {"adversary=1,rude", "--adversary"},
					     {"adversary=99999999999999999999", "--adversary"},
					     {"adversary=1;cable=afpacket:lo", "--adversary"},
					     {"cable=afpacket:lo;adversary=1", "--adversary"}};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(bad); i++) {
		struct hca_cfg c;

		if (hca_cfg_parse(bad[i][0], &c) != -EINVAL)
			fail_msg("%s was taken", bad[i][0]);
		if (!strstr(spw_err_text(), bad[i][1]))
			fail_msg("%s: '%s' does not name the option", bad[i][0], spw_err_text());
	}
}

/* A function alone on its port gets every frame; what is said overrides the card, in any order. */
static void what_a_port_lets_in(void **state)
{
	static const struct {
		const char *text;
		enum hca_accept accept;
	} rows[] = {{"", HCA_ACCEPT_ALL},
		    {"as=vf", HCA_ACCEPT_OWN},
		    {"as=dgx-spark", HCA_ACCEPT_OWN},
		    {"accept=own", HCA_ACCEPT_OWN},
		    {"accept=all;as=sf", HCA_ACCEPT_ALL},
		    {"as=sf;accept=multicast", HCA_ACCEPT_MULTICAST}};
	struct hca_cfg c;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(rows); i++) {
		assert_int_equal(hca_cfg_parse(rows[i].text, &c), 0);
		assert_int_equal(c.accept, rows[i].accept);
	}
}

static void adversary(void **state)
{
	struct hca_cfg c;

	(void)state;
	assert_int_equal(hca_cfg_parse("", &c), 0);
	assert_int_equal(c.adversary.what, 0);
	assert_int_equal(hca_cfg_parse("adversary=0x10", &c), 0);
	assert_int_equal(c.adversary.seed, 16);
	assert_true(c.adversary.what & HCA_ADV_holes && c.adversary.what & HCA_ADV_late_cqe);
	assert_int_equal(hca_cfg_parse("adversary=7,poison,late-wqe", &c), 0);
	assert_int_equal(c.adversary.seed, 7);
	assert_int_equal(c.adversary.what, HCA_ADV_poison | HCA_ADV_late_wqe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(defaults),
					   cmocka_unit_test(everything),
					   cmocka_unit_test(a_cable_for_each_port),
					   cmocka_unit_test(spark),
					   cmocka_unit_test(refusals),
					   cmocka_unit_test(what_a_port_lets_in),
					   cmocka_unit_test(adversary)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
