/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a user of mode=rc can get wrong, and what a machine can refuse: one line each from either
 * driver, that says what to do; and afterwards nothing is left, so that the next try works.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "rc_kit.h"

static const char *const driver[] = {"mlx5", "verbs"};

struct refusal {
	const char *keys; /* behind "DRIVER:", %u is a port number that is free */
	int rc;
	const char *words[4];
	const char *fail; /* what the device refuses */
	uint32_t slots;
};

static struct kit_conf with(char *spec, size_t bytes, const char *name, const char *keys)
{
	int n = snprintf(spec, bytes, "%s:", name);

	snprintf(spec + n, bytes - (size_t)n, keys, kit_free_port());
	return (struct kit_conf){.spec = spec, .queues = 1, .profile = "throughput"};
}

#define GOOD "mlx5_0,mode=rc,listen=127.0.0.1:%u,peers=127.0.0.1"

static void works(const char *name)
{
	char spec[256];
	struct kit_conf conf = with(spec, sizeof(spec), name, GOOD);
	struct kit_port p;

	if (kit_port_open(&p, 0, &conf))
		fail_msg("%s", spw_err_text());
	kit_port_close(&p);
}

static void all_refused(const struct refusal *r, size_t cnt)
{
	for (size_t i = 0; i < cnt * SPW_ARRAY_CNT(driver);
	     i++, r += i % SPW_ARRAY_CNT(driver) == 0) {
		char spec[256];
		struct kit_conf conf =
			with(spec, sizeof(spec), driver[i % SPW_ARRAY_CNT(driver)], r->keys);

		conf.slots = r->slots;
		if (r->fail)
			kit_control(0, "fault fail=%s", r->fail);
		kit_refused(&conf, r->rc, r->words);
		if (r->fail)
			kit_control(0, "fault fail=none");
	}
	for (size_t i = 0; i < SPW_ARRAY_CNT(driver); i++)
		works(driver[i]);
}

static void test_keys(void **state)
{
	static const struct refusal cases[] = {
		{"mlx5_0,mode=rc", -EINVAL, {"listen=ADDR:PORT", "connect=ADDR:PORT"}, NULL, 0},
		{"mlx5_0,mode=rc,listen=127.0.0.1:%u",
		 -EINVAL,
		 {"peers=ADDR", "who may connect"},
		 NULL,
		 0},
		{"mode=rc,listen=127.0.0.1:%u,peers=127.0.0.1",
		 -EINVAL,
		 {"no device", "ibv_devices"},
		 NULL,
		 0},
		{"mlx5_7,mode=rc,listen=127.0.0.1:%u,peers=127.0.0.1",
		 -ENODEV,
		 {"'mlx5_7'", "this machine has mlx5_"},
		 NULL,
		 0},
		{GOOD ",op=read", -EINVAL, {"op=read", "send or write"}, NULL, 0},
		{GOOD ",mtu=1000", -EINVAL, {"mtu=1000", "1024"}, NULL, 0},
		{GOOD ",gid=0", -EINVAL, {"GID 0 of mlx5_0 is not RoCE v2", "gid=3"}, NULL, 0},
		{GOOD ",gid=200", -EINVAL, {"GID 200 is not in the table"}, NULL, 0},
		{GOOD ",colour=red", -EINVAL, {"'colour'", "op=send"}, NULL, 0},
		{GOOD ",secret=/nonexistent",
		 -ENOENT,
		 {"secret=/nonexistent", "No such file"},
		 NULL,
		 0},
		{GOOD ",peer_max=64",
		 -EINVAL,
		 {"32 slots are too few for 64 peers", "peer_max="},
		 NULL,
		 32},
		{"mlx5_0,mode=rc,listen=192.0.2.1:%u,peers=127.0.0.1",
		 -EADDRNOTAVAIL,
		 {"listen=192.0.2.1", "ip addr"},
		 NULL,
		 0},
	};

	(void)state;
	all_refused(cases, SPW_ARRAY_CNT(cases));
}

static void test_machine_says_no(void **state)
{
	static const struct refusal cases[] = {
		{GOOD, -EACCES, {"mlx5_0", "/dev/infiniband/uverbs0", "root"}, "open:EACCES", 0},
		{GOOD,
		 -ENOMEM,
		 {"cannot be locked", "limit of locked memory", "--slots"},
		 "reg_mr:ENOMEM",
		 0},
		{GOOD ",op=write",
		 -ENOMEM,
		 {"cannot be locked", "limit of locked memory", "--slots"},
		 "reg_mr:ENOMEM",
		 0},
		{GOOD,
		 -ENOMEM,
		 {"completion queue", "Cannot allocate memory"},
		 "create_cq:ENOMEM",
		 0},
		{GOOD,
		 -ENOMEM,
		 {"queue pair", "Cannot allocate memory", "peer_max="},
		 "create_qp:ENOMEM",
		 0},
		{GOOD ",srq=1",
		 -ENOMEM,
		 {"shared receive queue", "Cannot allocate memory", "peer_max="},
		 "create_srq:ENOMEM",
		 0},
		{GOOD, -ENOMEM, {"ibv_alloc_pd", "Cannot allocate memory"}, "alloc_pd:ENOMEM", 0},
		{GOOD, -EIO, {"ibv_query_port"}, "query_port:EIO", 0},
	};

	(void)state;
	all_refused(cases, SPW_ARRAY_CNT(cases));
}

static void test_address_in_use(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	for (size_t i = 0; i < SPW_ARRAY_CNT(driver); i++) {
		struct kit_conf conf = {.queues = 1, .profile = "latency"};
		char spec[256];

		snprintf(spec, sizeof(spec),
			 "%s:mlx5_0,mode=rc,listen=127.0.0.1:%u,peers=127.0.0.1", driver[i],
			 ntohs(addr.sin_port));
		conf.spec = spec;
		kit_refused(
			&conf, -EADDRINUSE,
			(const char *const[]){"listen=127.0.0.1:", "in use", "another port", NULL});
	}
	close(fd);
}

static void test_link_is_down(void **state)
{
	(void)state;
	works(driver[0]); /* the NIC runs, and so does its clock for faults */
	kit_control(0, "link-down=3600s");
	for (size_t i = 0; i < SPW_ARRAY_CNT(driver); i++) {
		char spec[256];
		struct kit_conf conf = with(spec, sizeof(spec), driver[i], GOOD);

		kit_refused(&conf, -ENETDOWN,
			    (const char *const[]){"mlx5_0 port 1 is", "cable", "ip link set dev",
						  NULL});
	}
	kit_control(0, "link-down=0s");
	for (double start = kit_seconds();
	     !strstr(kit_control(0, "status"), "link=1") && kit_seconds() - start < KIT_WAIT_S;)
		;
	works(driver[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_machine_says_no),
		cmocka_unit_test(test_address_in_use),
		cmocka_unit_test(test_link_is_down),
	};

	return cmocka_run_group_tests_name("mode=rc, bad input", tests, NULL, NULL);
}
