/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two ends that are not alike: in their number of rails, MTU, drivers and addresses.
 */
#include <arpa/inet.h>

#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer_kit.h"

static struct kit k;

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	return 0;
}

static uint32_t rails_of(const struct spw_xfer_conn *conn)
{
	struct spw_xfer_rail_stat stat;
	uint32_t n = 0;

	while (spw_xfer_conn_rail_stat(conn, n, &stat))
		n++;
	return n;
}

static void pass_both_ways(void)
{
	kit_memory(&k, 1u << 20);
	kit_pass(&k, 1u << 20, 1);
	kit_pass(&k, 100, 2);
}

/* The rails are as many as the side with fewer has; a device may come twice. */
static void in_rails(void **state SPW_UNUSED)
{
	static const struct {
		const char *a, *b;
		uint32_t rails;
	} ends[] = {
		{"mlx5_0+mlx5_2", "mlx5_1", 1},
		{"mlx5_0", "mlx5_1+mlx5_3", 1},
		{"mlx5_0+mlx5_2", "mlx5_1+mlx5_1", 2},
		{"mlx5_0+verbs:mlx5_2", "verbs:mlx5_1+mlx5_3", 2},
		{"mlx5_0+mlx5_0+mlx5_2+mlx5_2", "mlx5_1+mlx5_3+mlx5_3", 3},
	};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(ends); i++) {
		kit_open(&k, ends[i].a, ends[i].b, NULL);
		kit_connect(&k);
		assert_int_equal(rails_of(k.ab), ends[i].rails);
		assert_int_equal(rails_of(k.ba), ends[i].rails);
		kit_wait_up(&k, ends[i].rails);
		pass_both_ways();
		if (i + 1 < SPW_ARRAY_CNT(ends))
			kit_close(&k);
	}
}

/* The smaller one counts, whichever side has it. */
static void in_mtu(void **state SPW_UNUSED)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct spw_xfer_rail_stat stat;

		kit_open(&k, "mlx5_0", "mlx5_1", NULL);
		(i ? k.a : k.b)->dev[0].mtu = 512;
		kit_connect(&k);
		assert_true(spw_xfer_conn_rail_stat(k.ab, 0, &stat));
		assert_int_equal(stat.mtu, 512);
		assert_true(spw_xfer_conn_rail_stat(k.ba, 0, &stat));
		assert_int_equal(stat.mtu, 512);
		pass_both_ways();
		if (!i)
			kit_close(&k);
	}
}

/* GID 1 is the port's link-local one, 3 that of its IPv4 address. */
static void in_the_kind_of_address(void **state SPW_UNUSED)
{
	struct spw_xfer_conf conf = {.rails = "mlx5_0", .gid = "1"};
	struct spw_xfer_handle handle;
	int rc;

	kit_open(&k, "mlx5_2", "mlx5_1", NULL);
	spw_xfer_close(k.a);
	assert_int_equal(spw_xfer_open(&conf, &k.a), 0);
	assert_int_equal(spw_xfer_listen(k.b, &handle, &k.listener), 0);
	while ((rc = spw_xfer_connect(k.a, &handle, &k.ab)) == -EAGAIN)
		kit_turn(&k);
	assert_int_equal(rc, -ENETUNREACH);
	assert_non_null(strstr(spw_err_text(), "IPv4 addresses, the other IPv6"));
}

/* TCP and RDMA over IPv6. */
static void all_of_it_over_ipv6(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.gid = "1", .bind = "[::1]:0"};

	kit_open(&k, "mlx5_0+mlx5_2", "mlx5_1+mlx5_3", &conf);
	kit_connect(&k);
	assert_int_equal(strncmp(spw_xfer_listener_text(k.listener), "[::1]:", 6), 0);
	kit_wait_up(&k, 2);
	pass_both_ways();
}

/* Messages of k while an endpoint asks the kernel for the MAC of an address that nobody has.
 * Returns: how many ms the longest one took. */
static uint64_t longest_while_asking(void)
{
	const struct spw_xfer_conf conf = {.rails = "mlx5_2"};
	struct spw_xfer_listener *listener;
	struct spw_xfer_conn *conn = NULL;
	struct spw_xfer_handle handle;
	struct spw_xfer *silent;
	uint64_t begin, longest = 0, end = kit_now_ms() + KIT_WAIT_MS;
	int rc = -EAGAIN;

	assert_int_equal(spw_xfer_open(&conf, &silent), 0);
	inet_pton(AF_INET6, "::ffff:10.77.77.77", silent->dev[0].gid.gid.raw);
	assert_int_equal(spw_xfer_listen(k.b, &handle, &listener), 0);
	while (rc == -EAGAIN && kit_now_ms() < end) {
		rc = spw_xfer_connect(silent, &handle, &conn);
		begin = kit_now_ms();
		kit_pass(&k, 1000, begin);
		longest = SPW_MAX(longest, kit_now_ms() - begin);
	}
	assert_int_equal(rc, -ENETUNREACH);
	assert_true(kit_now_ms() + KIT_WAIT_MS - end >= 900);
	spw_xfer_close(silent);
	spw_xfer_listener_close(listener);
	return longest;
}

/* The kernel waits a second for that MAC: the endpoint that asks it passes the messages of another
 * connection meanwhile. Without a core for that long nothing passes: who waits for the kernel does
 * so each time. */
static void in_who_answers(void **state SPW_UNUSED)
{
	uint64_t longest = 800;

	kit_open(&k, "mlx5_0", "mlx5_1", NULL);
	kit_connect(&k);
	kit_memory(&k, 1000);
	for (uint32_t i = 0; i < 3 && longest >= 800; i++)
		longest = longest_while_asking();
	if (longest >= 800)
		fail_msg("a message took %u ms", (unsigned)longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_teardown(f, close_kit)
		CASE(in_rails),
		CASE(in_mtu),
		CASE(in_the_kind_of_address),
		CASE(all_of_it_over_ipv6),
		CASE(in_who_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
