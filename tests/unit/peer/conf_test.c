/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Keys, addresses, allow-lists, secrets and credits of mode=rc.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit_test.h"
#include "port/spw_port.h"
#include "peer/spw_peer_conf.h"
#include "peer/spw_peer_credit.h"

static int parse(const char *keys, struct spw_peer_conf *conf)
{
	struct spw_port_spec spec;
	char text[400];

	snprintf(text, sizeof(text), "null:x,%s", keys);
	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	return spw_peer_conf_parse(&spec, conf);
}

static bool allows(const struct spw_peer_conf *conf, const char *addr)
{
	struct sockaddr_in6 sa;

	assert_int_equal(spw_oob_addr_parse(addr, &sa), 0);
	return spw_peer_allowed(conf, &sa.sin6_addr);
}

static void keys_have_defaults(void **state SPW_UNUSED)
{
	struct spw_peer_conf conf;

	assert_int_equal(parse("listen=0.0.0.0:7000,peers=10.0.0.0/8", &conf), 0);
	assert_int_equal(conf.op, SPW_PEER_OP_SEND);
	assert_int_equal(conf.peer_max, 8);
	assert_int_equal(conf.secret.len, 0);
	assert_int_equal(conf.rnr_retry, 7);
	assert_int_equal(
		parse("connect=10.0.0.1:7000,connect=[fd00::1]:7001,op=write,credits=3,mtu=1024",
		      &conf),
		0);
	assert_int_equal(conf.op, SPW_PEER_OP_WRITE);
	assert_int_equal(conf.connect_cnt, 2);
	assert_int_equal(conf.peer_max, 2);
	assert_int_equal(ntohs(conf.connect_addr[1].sin6_port), 7001);
	assert_int_equal(conf.credits, 3);
}

static void wrong_keys_are_named(void **state SPW_UNUSED)
{
	static const struct {
		const char *keys, *says;
		int rc;
	} table[] = {
		{"op=send", "needs listen=ADDR:PORT or connect=", -EINVAL},
		{"listen=0.0.0.0:7000", "needs peers=", -EINVAL},
		{"connect=10.0.0.1:1,peers=10.0.0.1", "without listen=", -EINVAL},
		{"connect=10.0.0.1:1,gids=10.0.0.1", "without listen=", -EINVAL},
		{"connect=10.0.0.1:1,host_max=1", "without listen=", -EINVAL},
		{"listen=1.1.1.1:1,peers=10.0.0.1,gids=10.0.0.1/8",
		 "key gids: '10.0.0.1/8' has bits", -EINVAL},
		{"listen=1.1.1.1:1,peers=10.0.0.1,host_max=0", "1 .. 64", -ERANGE},
		{"connect=10.0.0.1", "is no address", -EINVAL},
		{"connect=host:7000", "use numbers", -EINVAL},
		{"connect=10.0.0.1:70000", "is no address", -EINVAL},
		{"connect=fd00::1:7000", "stands in [ ]", -EINVAL},
		{"connect=10.0.0.1:+7", "is no address", -EINVAL},
		{"listen=1.1.1.1:1,peers=10.0.0.1/8", "bits beyond its prefix", -EINVAL},
		{"listen=1.1.1.1:1,peers=10.0.0.0/33", "is no address or prefix", -EINVAL},
		{"listen=1.1.1.1:1,peers=", "is no address or prefix", -EINVAL},
		{"connect=1.1.1.1:1,op=read", "use send or write", -EINVAL},
		{"connect=1.1.1.1:1,mtu=1500", "path MTU is", -EINVAL},
		{"connect=1.1.1.1:1,credits=5000", "1 .. 4096", -ERANGE},
		{"connect=1.1.1.1:1,connect=1.1.1.2:1,peer_max=1",
		 "less than the 2 of connect=", -ERANGE},
		{"connect=1.1.1.1:1,listen=1.1.1.1:2,peers=1.1.1.1,peer_max=1", "leaves no room",
		 -EINVAL},
		{"connect=1.1.1.1:1,secret=/nowhere/s", "No such file", -ENOENT},
	};
	struct spw_peer_conf conf;

	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		assert_int_equal(parse(table[i].keys, &conf), table[i].rc);
		if (!strstr(spw_err_text(), table[i].says))
			fail_msg("'%s' gave: %s", table[i].keys, spw_err_text());
	}
}

static void only_listed_addresses_are_allowed(void **state SPW_UNUSED)
{
	struct spw_peer_conf conf;

	assert_int_equal(
		parse("listen=0.0.0.0:1,peers=10.1.0.0/16,peers=192.168.3.7,peers=fd00:aa::/32",
		      &conf),
		0);
	assert_true(allows(&conf, "10.1.255.255:9"));
	assert_false(allows(&conf, "10.2.0.0:9"));
	assert_false(allows(&conf, "10.0.255.255:9"));
	assert_true(allows(&conf, "192.168.3.7:9"));
	assert_false(allows(&conf, "192.168.3.6:9"));
	assert_true(allows(&conf, "[fd00:aa:1::5]:9"));
	assert_false(allows(&conf, "[fd00:ab::5]:9"));
	assert_false(allows(&conf, "[::1]:9"));
	assert_int_equal(parse("listen=0.0.0.0:1,peers=0.0.0.0/0", &conf), 0);
	assert_true(allows(&conf, "8.8.8.8:9"));
	assert_false(allows(&conf, "[2001::1]:9")); /* all of IPv4 is not all of IPv6 */
}

static bool gid_allowed(const struct spw_peer_conf *conf, const char *from, const char *gid)
{
	struct sockaddr_in6 a, g;

	assert_int_equal(spw_oob_addr_parse(from, &a), 0);
	assert_int_equal(spw_oob_addr_parse(gid, &g), 0);
	return spw_peer_gid_allowed(conf, &a.sin6_addr, g.sin6_addr.s6_addr);
}

static void a_gid_is_the_peers_own(void **state SPW_UNUSED)
{
	struct spw_peer_conf conf;

	assert_int_equal(parse("listen=0.0.0.0:1,peers=10.1.0.0/16,peers=127.0.0.0/8", &conf), 0);
	assert_true(gid_allowed(&conf, "10.1.0.1:9", "10.1.0.1:0"));
	assert_true(gid_allowed(&conf, "10.1.0.1:9", "10.1.7.7:0")); /* another interface of it */
	assert_false(gid_allowed(&conf, "10.1.0.1:9", "10.2.0.1:0"));
	assert_false(gid_allowed(&conf, "10.1.0.1:9", "[fe80::1]:0"));
	assert_true(gid_allowed(&conf, "127.0.0.1:9", "10.2.0.1:0"));
	assert_true(gid_allowed(&conf, "[::1]:9", "10.2.0.1:0"));
	assert_int_equal(
		parse("listen=0.0.0.0:1,peers=0.0.0.0/0,gids=10.2.0.0/16,gids=fe80::/10", &conf),
		0);
	assert_true(gid_allowed(&conf, "10.1.0.1:9", "10.2.0.1:0"));
	assert_true(gid_allowed(&conf, "10.1.0.1:9", "[fe80::1]:0"));
	assert_false(gid_allowed(&conf, "10.1.0.1:9", "10.1.0.1:0"));
	assert_false(
		gid_allowed(&conf, "127.0.0.1:9", "10.1.0.1:0")); /* who says which, means it */
}

static bool same_host(const char *a, const char *b)
{
	struct sockaddr_in6 x, y;

	assert_int_equal(spw_oob_addr_parse(a, &x), 0);
	assert_int_equal(spw_oob_addr_parse(b, &y), 0);
	return spw_oob_addr_same_host(&x.sin6_addr, &y.sin6_addr);
}

static void one_host_leaves_room(void **state SPW_UNUSED)
{
	char path[64], keys[200];
	struct spw_peer_conf conf;
	int fd;

	assert_int_equal(parse("listen=0.0.0.0:1,peers=10.0.0.0/24,peer_max=7", &conf), 0);
	assert_int_equal(spw_peer_host_max(&conf), 3);
	assert_int_equal(parse("listen=0.0.0.0:1,peers=10.0.0.0/"
			       "24,peer_max=3,connect=10.0.0.1:1,connect=10.0.0.2:1",
			       &conf),
			 0);
	assert_int_equal(spw_peer_host_max(&conf), 1);
	assert_int_equal(parse("listen=0.0.0.0:1,peers=10.0.0.1", &conf),
			 0); /* there is no other */
	assert_int_equal(spw_peer_host_max(&conf), 8);
	assert_int_equal(parse("listen=0.0.0.0:1,peers=10.0.0.0/24,host_max=5", &conf), 0);
	assert_int_equal(spw_peer_host_max(&conf), 5);
	strcpy(path, "/tmp/spw-rc-secret-XXXXXX");
	fd = mkstemp(path);
	assert_int_equal(write(fd, "0123456789abcdef", 16), 16);
	close(fd);
	snprintf(keys, sizeof(keys), "listen=0.0.0.0:1,peers=10.0.0.0/24,secret=%s", path);
	assert_int_equal(parse(keys, &conf), 0); /* they proved themselves */
	assert_int_equal(spw_peer_host_max(&conf), 8);
	unlink(path);
	assert_true(same_host("10.0.0.1:1", "10.0.0.1:2"));
	assert_false(same_host("10.0.0.1:1", "10.0.0.2:1"));
	assert_true(same_host("[fd00::1]:1", "[fd00::2:3:4:5]:1")); /* it may take any of them */
	assert_false(same_host("[fd00::1]:1", "[fd00:0:0:1::1]:1"));
	assert_false(same_host("[::1]:1", "10.0.0.1:1"));
}

static void addresses_print_as_they_are_written(void **state SPW_UNUSED)
{
	struct sockaddr_in6 sa;
	char text[64];

	assert_int_equal(spw_oob_addr_parse("127.0.0.1:7000", &sa), 0);
	assert_string_equal(spw_oob_addr_text(&sa, text), "127.0.0.1:7000");
	assert_int_equal(spw_oob_addr_parse("[fd00::1]:7000", &sa), 0);
	assert_string_equal(spw_oob_addr_text(&sa, text), "[fd00::1]:7000");
}

static char *write_secret(char *path, const char *bytes, size_t len, mode_t mode)
{
	int fd;

	strcpy(path, "/tmp/spw-rc-secret-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static void a_secret_is_read_without_its_newline(void **state SPW_UNUSED)
{
	struct spw_oob_secret secret;
	char path[64];

	assert_int_equal(
		spw_oob_secret_read(write_secret(path, "0123456789abcdef\n", 17, 0600), &secret),
		0);
	assert_int_equal(secret.len, 16);
	assert_memory_equal(secret.byte, "0123456789abcdef", 16);
	spw_oob_secret_wipe(&secret);
	assert_int_equal(secret.len, 0);
	unlink(path);
}

static void a_secret_that_others_can_read_is_refused(void **state SPW_UNUSED)
{
	static const mode_t mode[] = {0640, 0604, 0620, 0660, 0601};
	struct spw_oob_secret secret;
	char path[64];

	for (size_t i = 0; i < SPW_ARRAY_CNT(mode); i++) {
		assert_int_equal(
			spw_oob_secret_read(write_secret(path, "0123456789abcdef", 16, mode[i]),
					    &secret),
			-EPERM);
		assert_non_null(strstr(spw_err_text(), "chmod 600"));
		unlink(path);
	}
}

static void a_secret_has_a_length(void **state SPW_UNUSED)
{
	struct spw_oob_secret secret;
	char path[64], text[SPW_OOB_SECRET_MAX + 1];

	memset(text, 'x', sizeof(text));
	assert_int_equal(spw_oob_secret_read(write_secret(path, text, SPW_OOB_SECRET_MIN - 1, 0600),
					     &secret),
			 -EINVAL);
	unlink(path);
	assert_int_equal(spw_oob_secret_read(write_secret(path, text, SPW_OOB_SECRET_MAX + 1, 0600),
					     &secret),
			 -EINVAL);
	unlink(path);
	assert_int_equal(
		spw_oob_secret_read(write_secret(path, text, SPW_OOB_SECRET_MAX, 0600), &secret),
		0);
	unlink(path);
	assert_int_equal(spw_oob_secret_read("/tmp", &secret), -EINVAL);
}

/* RFC 4231 test case 1 has its own label-free message; ours is the same with an empty label, whose
 * ending 0 comes first. */
static void the_mac_is_hmac_sha256(void **state SPW_UNUSED)
{
	struct spw_oob_secret secret = {.len = 20}, none = {0};
	uint8_t mac[SPW_OOB_MAC_BYTES], other[SPW_OOB_MAC_BYTES];
	/* printf '\0Hi There' | openssl dgst -sha256 -mac HMAC -macopt
	 * hexkey:0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b */
	static const uint8_t want[4] = {0x54, 0x49, 0x57, 0x9b};
	const struct iovec text = {"Hi There", 8};

	memset(secret.byte, 0x0b, 20);
	spw_oob_mac(&secret, "", &text, 1, mac);
	assert_memory_equal(mac, want, sizeof(want));
	spw_oob_mac(&secret, "x", &text, 1, other);
	assert_false(spw_oob_mac_same(mac, other));
	spw_oob_mac(&none, "", &text, 1, other);
	memset(mac, 0, sizeof(mac));
	assert_true(spw_oob_mac_same(mac, other));
}

/* Two sides, messages and control messages in flight in random order of events: never more than the
 * window, never stuck, at most the reserve of control messages under way, at the wrap of the
 * counters too. */
static void credits_never_overrun_and_never_stall(void **state SPW_UNUSED)
{
	for (uint32_t window = 1; window <= 40; window++) {
		uint64_t seed = window;
		struct spw_peer_tx_credit tx = {.greeted = true};
		struct spw_peer_rx_credit rx;
		uint32_t wire = 0, held = 0, ctrl[64], ctrl_cnt = 0, sent = 0;

		spw_peer_tx_credit_start(&tx, window);
		spw_peer_rx_credit_start(&rx, window);
		tx.limit += UINT32_MAX - 100 - window; /* as if billions had gone before */
		tx.used += UINT32_MAX - 100 - window;
		rx.advertised += UINT32_MAX - 100 - window;
		rx.received += UINT32_MAX - 100 - window;
		rx.returned += UINT32_MAX - 100 - window;
		for (uint32_t turn = 0; sent < 2000; turn++) {
			assert_true(turn < 200000); /* it would be stuck */
			switch (unit_random(&seed) % 4) {
			case 0:
				if (spw_peer_tx_credit_left(&tx)) {
					tx.used++;
					wire++;
					sent++;
				}
				break;
			case 1:
				if (wire) {
					assert_true(spw_peer_rx_credit_take(&rx));
					wire--;
					held++;
				}
				break;
			case 2:
				if (held) {
					held--;
					rx.returned++;
				}
				if (spw_peer_rx_credit_due(&rx)) {
					rx.advertised = rx.returned;
					assert_true(ctrl_cnt + 1 < SPW_PEER_CTRL_RESERVE);
					ctrl[ctrl_cnt++] = rx.advertised;
				}
				break;
			default:
				if (ctrl_cnt) {
					assert_true(spw_peer_tx_credit_take(&tx, ctrl[0]));
					memmove(ctrl, ctrl + 1, --ctrl_cnt * sizeof(*ctrl));
				}
			}
			assert_true(spw_peer_tx_credit_left(&tx) + wire + held <= window);
		}
	}
}

static void impossible_credits_are_refused(void **state SPW_UNUSED)
{
	struct spw_peer_tx_credit tx = {.greeted = true};
	struct spw_peer_rx_credit rx;

	spw_peer_tx_credit_start(&tx, 8);
	assert_false(spw_peer_tx_credit_take(&tx, 8)); /* nothing new */
	assert_false(spw_peer_tx_credit_take(&tx, 9)); /* more than the window, nothing was sent */
	tx.used = 3;
	assert_false(spw_peer_tx_credit_take(&tx, 12));
	assert_false(spw_peer_tx_credit_take(&tx, 7)); /* back */
	assert_true(spw_peer_tx_credit_take(&tx, 11));
	spw_peer_rx_credit_start(&rx, 2);
	assert_true(spw_peer_rx_credit_take(&rx));
	assert_true(spw_peer_rx_credit_take(&rx));
	assert_false(spw_peer_rx_credit_take(&rx));
}

/* It says nothing new, once, and may come before the window is known; what it says must be possible
 * all the same. */
static void a_greeting_comes_once(void **state SPW_UNUSED)
{
	struct spw_peer_tx_credit tx = {0};
	struct spw_peer_rx_credit rx;

	spw_peer_rx_credit_start(&rx, 2);
	assert_false(spw_peer_credit_heard(&tx, &rx));
	assert_true(spw_peer_tx_credit_take(&tx, 8)); /* before the start */
	assert_true(spw_peer_credit_heard(&tx, &rx));
	spw_peer_tx_credit_start(&tx, 8);
	assert_int_equal(spw_peer_tx_credit_left(&tx), 8);
	assert_false(spw_peer_tx_credit_take(&tx, 8)); /* a second one */

	tx = (struct spw_peer_tx_credit){0};
	spw_peer_tx_credit_start(&tx, 8);
	assert_true(spw_peer_tx_credit_take(&tx, 8)); /* after it */
	assert_false(spw_peer_tx_credit_take(&tx, 8));

	tx = (struct spw_peer_tx_credit){0};
	spw_peer_tx_credit_start(&tx, 8);
	assert_false(spw_peer_tx_credit_take(&tx, 9)); /* claims a credit */
	assert_true(spw_peer_rx_credit_take(&rx));
	tx = (struct spw_peer_tx_credit){0};
	assert_true(spw_peer_credit_heard(&tx, &rx)); /* a message will do */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_have_defaults),
		cmocka_unit_test(wrong_keys_are_named),
		cmocka_unit_test(only_listed_addresses_are_allowed),
		cmocka_unit_test(addresses_print_as_they_are_written),
		cmocka_unit_test(a_secret_is_read_without_its_newline),
		cmocka_unit_test(a_secret_that_others_can_read_is_refused),
		cmocka_unit_test(a_secret_has_a_length),
		cmocka_unit_test(the_mac_is_hmac_sha256),
		cmocka_unit_test(credits_never_overrun_and_never_stall),
		cmocka_unit_test(impossible_credits_are_refused),
		cmocka_unit_test(a_greeting_comes_once),
		cmocka_unit_test(a_gid_is_the_peers_own),
		cmocka_unit_test(one_host_leaves_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
