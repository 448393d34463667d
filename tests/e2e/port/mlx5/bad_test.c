/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a user can get wrong, and what a machine can refuse: one line each, that says what to do;
 * and afterwards nothing is left, so that the next try works.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "rdma/spw_rdma.h"
#include "port_kit.h"

#define REFUSED(conf, rc, ...) kit_refused(&(conf), rc, (const char *const[]){__VA_ARGS__, NULL})

static struct kit_conf with(const char *spec)
{
	return (struct kit_conf){.spec = spec, .queues = 1, .profile = "latency"};
}

static void works(void)
{
	struct kit_conf conf = with("mlx5:mlx5_0,mode=eth");
	struct kit_port p;

	if (kit_port_open(&p, 0, &conf))
		fail_msg("%s", spw_err_text());
	kit_port_close(&p);
}

static void test_keys(void **state)
{
	static const struct {
		const char *spec;
		int rc;
		const char *words[4];
	} cases[] = {
		{"mlx5:mlx5_0,mode=ether", -EINVAL, {"mode=ether", "mode=eth"}},
		{"mlx5:mlx5_0,colour=red", -EINVAL, {"'colour'", "flow=all"}},
		{"mlx5:mode=eth", -EINVAL, {"no device", "ibv_devices"}},
		{"mlx5:mlx5_0,mtu=20000", -ERANGE, {"mtu=20000", "9978"}},
		{"mlx5:mlx5_0,tx_inline=14", -EINVAL, {"tx_inline=14", "0 or 18"}},
		{"mlx5:mlx5_0,mac=02:00:00:00:01", -EINVAL, {"mac=02:00:00:00:01", "six bytes"}},
		{"mlx5:mlx5_0,mac=02:00:00:00:00:01:7", -EINVAL, {"six bytes"}},
		{"mlx5:mlx5_0,vlan=4095", -EINVAL, {"vlan=4095", "0 .. 4094"}},
		{"mlx5:mlx5_0,udp=0", -EINVAL, {"udp=0", "1 .. 65535"}},
		{"mlx5:mlx5_0,tcp=80x", -EINVAL, {"tcp=80x"}},
		{"mlx5:mlx5_0,ipv4=1.2.3", -EINVAL, {"ipv4=1.2.3", "IPv4"}},
		{"mlx5:mlx5_0,ipv6=1.2.3.4", -EINVAL, {"ipv6=1.2.3.4", "IPv6"}},
		{"mlx5:mlx5_0,group=239.1.2", -EINVAL, {"group=239.1.2", "group=239.1.2.3"}},
		{"mlx5:mlx5_0,group=10.0.0.7", -EINVAL, {"group=10.0.0.7", "224.0.1.0"}},
		{"verbs:mlx5_0,group=10.0.0.7", -EINVAL, {"group=10.0.0.7", "224.0.1.0"}},
		{"mlx5:mlx5_0,group=239.1.2.3,vlan=7", -EINVAL, {"group=", "leave mac=, vlan="}},
		{"mlx5:mlx5_0,mode=rc,group=239.1.2.3", -EINVAL, {"'group'"}},
		{"verbs:mlx5_0,mode=rc,group=239.1.2.3", -EINVAL, {"'group'"}},
		{"mlx5:mlx5_0,flow=some", -EINVAL, {"flow=some", "flow=all"}},
		{"mlx5:mlx5_0,flow=all,udp=9", -EINVAL, {"flow=all", "leave it out"}},
		{"mlx5:mlx5_7", -ENODEV, {"'mlx5_7'", "this machine has mlx5_"}},
	};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		struct kit_conf conf = with(cases[i].spec);

		kit_refused(&conf, cases[i].rc, cases[i].words);
	}
	works();
}

static void test_pools(void **state)
{
	struct kit_conf conf = with("mlx5:mlx5_0");

	(void)state;
	conf.ring = 4096;
	REFUSED(conf, -EINVAL, "4096 slots cannot fill a receive ring of 4096",
		"more slots or a smaller ring");
	conf.ring = 65536;
	REFUSED(conf, -EINVAL, "65536", "up to 32768");
	conf.ring = 0;
	conf.slots = 64;
	REFUSED(conf, -EINVAL, "64 slots are too few", "128");
	conf.slots = 0;
	conf.slot_bytes = 1472;
	REFUSED(conf, -EINVAL, "1472", "1536");
	conf.slot_bytes = 2048;
	conf.spec = "mlx5:mlx5_0,mtu=4000";
	REFUSED(conf, -EINVAL, "2048", "4032");
	works();
}

static void test_machine_says_no(void **state)
{
	static const struct {
		const char *fail;
		int rc;
		const char *words[5];
	} cases[] = {
		{"open:EACCES", -EACCES, {"mlx5_0", "/dev/infiniband/uverbs0", "root"}},
		{"open:EMFILE", -EMFILE, {"mlx5_0", "cannot be opened", "Too many open files"}},
		{"reg_mr:ENOMEM",
		 -ENOMEM,
		 {"8192 KiB cannot be locked", "limit of locked memory", "--slots"}},
		{"reg_mr:EAGAIN", -EAGAIN, {"cannot be locked", "limit of locked memory"}},
		{"reg_mr:EFAULT", -EFAULT, {"Bad address", "--memory"}},
		{"create_cq:ENOMEM",
		 -ENOMEM,
		 {"completion queue of 1024 entries", "Cannot allocate memory"}},
		{"create_wq:EPERM", -EPERM, {"CAP_NET_RAW", "setcap"}},
		{"create_wq:ENOMEM", -ENOMEM, {"receive queue"}},
		{"create_qp:EPERM", -EPERM, {"CAP_NET_RAW", "setcap"}},
		{"modify_wq:EIO", -EIO, {"receive queue to state"}},
		{"modify_qp:EIO", -EIO, {"send queue to state"}},
		{"create_rwq_ind_table:ENOMEM", -ENOMEM, {"RSS table", "fewer queues"}},
		{"create_flow:EPERM", -EPERM, {"CAP_NET_RAW", "setcap"}},
		{"create_flow:EOPNOTSUPP",
		 -EOPNOTSUPP,
		 {"mlx5_0 refuses the flow rule", "IPv4, UDP port 9, to a MAC address",
		  "name other frames"}},
		{"query_port:EIO", -EIO, {"ibv_query_port"}},
	};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		struct kit_conf conf = with("mlx5:mlx5_0,udp=9,mac=02:00:00:00:00:02");

		kit_control(0, "fault fail=%s", cases[i].fail);
		kit_refused(&conf, cases[i].rc, cases[i].words);
		kit_control(0, "fault fail=none");
	}
	works();
}

/* Takes CAP_IPC_LOCK out of the thread's effective set, or puts it back. */
static void lock_capability(bool have)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct set[2];

	assert_int_equal(syscall(SYS_capget, &head, set), 0);
	set[0].effective &= ~(1u << CAP_IPC_LOCK);
	set[0].effective |= have ? set[0].permitted & 1u << CAP_IPC_LOCK : 0;
	assert_int_equal(syscall(SYS_capset, &head, set), 0);
}

/* Whether mlock(2) does nothing and succeeds, as under ASan. */
#ifdef __SANITIZE_ADDRESS__
#define MLOCK_IS_EMPTY 1
#else
#define MLOCK_IS_EMPTY 0
#endif

/* A limit is named as the cause where it holds. lib/mem raises the soft limit to the hard one when
 * mlock fails; if that is none, memory is the next suspect. */
static void test_limit_of_locked_memory(void **state)
{
	struct kit_conf conf = with("mlx5:mlx5_0");
	char limit[64] = "limit of locked memory";
	struct rlimit old, small;
	rlim_t holds;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
	small = (struct rlimit){.rlim_cur = 64 << 10, .rlim_max = old.rlim_max};
	holds = MLOCK_IS_EMPTY ? small.rlim_cur : small.rlim_max;
	if (holds != RLIM_INFINITY)
		snprintf(limit, sizeof(limit), "limit of locked memory: %llu KiB, ",
			 (unsigned long long)holds >> 10);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &small), 0);
	kit_control(0, "fault fail=reg_mr:ENOMEM");
	lock_capability(false);
	REFUSED(conf, -ENOMEM, "8192 KiB cannot be locked", limit, "--slots",
		holds == RLIM_INFINITY ? "dmesg" : "ulimit -l unlimited");
	lock_capability(true);
	kit_control(0, "fault fail=none");
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
	works();
}

static void test_link_is_down(void **state)
{
	struct kit_conf conf = with("mlx5:mlx5_0");

	(void)state;
	works(); /* the NIC runs, and so does its clock for faults */
	kit_control(0, "link-down=3600s");
	REFUSED(conf, -ENETDOWN, "mlx5_0 port 1 is", "cable", "ip link set dev");
	kit_control(0, "link-down=0s");
	for (double start = kit_seconds();
	     !strstr(kit_control(0, "status"), "link=1") && kit_seconds() - start < KIT_WAIT_S;)
		;
	works();
}

static void test_gids(void **state)
{
	static const struct {
		const char *text;
		int rc;
		const char *words[4];
	} cases[] = {
		{"0", -EINVAL, {"GID 0 of mlx5_0 is not RoCE v2", "gid=3", "::ffff:"}},
		{"2", -EINVAL, {"GID 2 of mlx5_0 is not RoCE v2"}},
		{"200", -EINVAL, {"GID 200 is not in the table"}},
		{"-1", -EINVAL, {"gid=-1 is not an index"}},
		{"3x", -EINVAL, {"gid=3x is not an index"}},
	};
	struct rdma_gid gid;
	struct rdma_dev dev;

	(void)state;
	assert_int_equal(rdma_dev_open("mlx5_0", 1, &dev), 0);
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		assert_int_equal(rdma_dev_gid(&dev, cases[i].text, &gid), cases[i].rc);
		kit_refused_with(cases[i].text, cases[i].words);
	}
	assert_int_equal(rdma_dev_gid(&dev, NULL, &gid), 0);
	assert_int_equal(gid.index, 3);
	assert_int_equal(rdma_dev_gid(&dev, "1", &gid), 0);
	assert_int_equal(gid.index, 1);
	assert_int_equal(rdma_dev_speed_mbps(&dev), 100000);
	assert_int_equal(rdma_dev_mtu_bytes(&dev), 4096);
	rdma_dev_close(&dev);
	assert_int_equal(rdma_dev_open("mlx5_0", 2, &dev), -ERANGE);
	kit_refused_with("port 2", (const char *const[]){"no port 2", "1 .. 1", NULL});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_pools),
		cmocka_unit_test(test_machine_says_no),
		cmocka_unit_test(test_limit_of_locked_memory),
		cmocka_unit_test(test_link_is_down),
		cmocka_unit_test(test_gids),
	};

	return cmocka_run_group_tests_name("mlx5 bad input", tests, NULL, NULL);
}
