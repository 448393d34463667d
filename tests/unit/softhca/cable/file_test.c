/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a shm: cable refuses and survives: addresses in use, files of other users, a lock that is
 * not released, a file that is truncated.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cable_kit.h"
#include "unit_userns.h"

/* ---- addresses ---- */

static void expect_refused(const struct cable_id *want, int rc, const char *text)
{
	struct cable_id id = *want;
	struct cable *c = NULL;

	assert_int_equal(cable_shm_open(name, &id, &c), rc);
	if (!strstr(spw_err_text(), text))
		fail_msg("\"%s\" is not in: %s", text, spw_err_text());
}

/* A second NIC with the MAC or IPv4 address of a live one is refused, and the text names the owner;
 * the address of a dead one is free. */
static void same_address_is_refused(void **state)
{
	struct cable_id first = {.mac = {2, 0, 0, 0, 0, 9}, .ip = {10, 0, 0, 9}}, id;
	struct cable *a = NULL, *b = NULL;
	char pid[32];

	(void)state;
	snprintf(pid, sizeof(pid), "process %d (port 0)", (int)getpid());
	assert_int_equal(cable_shm_open(name, &first, &a), 0);
	expect_refused(&(struct cable_id){.mac = {2, 0, 0, 0, 0, 9}}, -EADDRINUSE, pid);
	expect_refused(&(struct cable_id){.mac = {2, 0, 0, 0, 0, 9}}, -EADDRINUSE, "--mac");
	expect_refused(&(struct cable_id){.ip = {10, 0, 0, 9}}, -EADDRINUSE, "10.0.0.9");
	b = join(&id); /* a refusal leaves no trace */
	assert_int_equal(id.port, 1);
	b->ops->close(b);
	a->ops->close(a);
	id = (struct cable_id){.mac = {2, 0, 0, 0, 0, 9}, .ip = {10, 0, 0, 9}};
	assert_int_equal(cable_shm_open(name, &id, &a), 0);
	a->ops->close(a);
}

/* An address that the cable chooses is checked like one that the caller names. */
static void chosen_address_is_checked_too(void **state)
{
	struct cable_id first = {.ip = {10, 53, 0, 2}};
	struct cable *a = NULL;

	(void)state;
	assert_int_equal(cable_shm_open(name, &first, &a), 0);
	expect_refused(&(struct cable_id){0}, -EADDRINUSE, "--ip");
	a->ops->close(a);
}

static void dead_holder_keeps_no_address(void **state)
{
	struct cable_id id = {.mac = {2, 0, 0, 0, 0, 9}}, again = id;
	struct cable *a = join(&(struct cable_id){0}), *b = NULL;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(cable_shm_open(name, &id, &b) != 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(cable_shm_open(name, &again, &b),
			 0); /* it died without leaving, and nobody has reaped its port yet */
	a->ops->close(a);
	b->ops->close(b);
}

/* ---- files that are refused ---- */

static void file_of_another_user(void **state)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	(void)state;
	if (fchown(fd, 65534, 65534)) {
		close(fd);
		unlink(path);
		skip();
	}
	expect_refused(&(struct cable_id){0}, -EPERM, "another user");
	close(fd);
	unlink(path);
}

static void file_that_others_may_open(void **state)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	(void)state;
	assert_int_equal(fchmod(fd, 0606), 0);
	expect_refused(&(struct cable_id){0}, -EPERM, "other users may open it");
	close(fd);
	unlink(path);
}

static void no_regular_file(void **state)
{
	char target[160];

	(void)state;
	snprintf(target, sizeof(target), "/dev/shm/%s.target",
		 name); /* without our prefix: it is not swept */
	close(open(target, O_RDWR | O_CREAT, 0600));
	assert_int_equal(symlink(target, path), 0);
	expect_refused(&(struct cable_id){0}, -ELOOP, "symbolic link");
	unlink(path);
	assert_int_equal(link(target, path), 0);
	expect_refused(&(struct cable_id){0}, -EPERM, "second name");
	unlink(path);
	unlink(target);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_refused(&(struct cable_id){0}, -EPERM, "no regular file");
	unlink(path);
}

static void lock_is_not_waited_for_for_ever(void **state)
{
	const int fd = open(path, O_RDWR | O_CREAT, 0600);

	(void)state;
	assert_int_equal(shm_lock(fd, F_OFD_SETLK, F_WRLCK, SHM_LOCK_TABLE), 0);
	expect_refused(&(struct cable_id){0}, -ETIMEDOUT, "has held its lock");
	close(fd);
	unlink(path);
}

/* ---- a file that is truncated ---- */

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (!cable_shm_repair(info->si_addr))
		signal(sig, SIG_DFL);
}

static void use_all(struct cable *c, const uint8_t *dmac, const uint8_t *smac)
{
	struct cable_frame f[CABLE_BURST];

	for (uint32_t i = 0; i < 8; i++)
		put(c, dmac, smac, i, 200);
	cable_tx_flush(c);
	for (unsigned i = 0; i < 8; i++)
		cable_rx_release(c, cable_rx_burst(c, f, CABLE_BURST));
}

/* In the middle of traffic: every call still returns, both ends learn that the cable is lost, and a
 * new one can be made. */
static void cut(off_t to)
{
	struct sigaction sa = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, old;
	struct cable_id a_id, b_id, c_id;
	struct cable *a = join(&a_id), *b = join(&b_id), *c;

	sigaction(SIGBUS, &sa, &old);
	use_all(a, b_id.mac, a_id.mac);
	put(a, b_id.mac, a_id.mac, 9, 200);
	cable_tx_flush(a);
	assert_int_equal(truncate(path, to), 0);
	use_all(a, b_id.mac, a_id.mac);
	use_all(b, a_id.mac, b_id.mac);
	a->ops->tick(a, 1000000000ull);
	b->ops->tick(b, 1000000000ull);
	assert_true(a->lost && b->lost);
	use_all(a, b_id.mac, a_id.mac);
	assert_int_equal(a->ops->lookup(a, b_id.ip, c_id.mac), 0);
	unlink(path);
	c = join(&c_id);
	a->ops->close(a);
	b->ops->close(b);
	assert_int_equal(access(path, F_OK), 0); /* not theirs */
	assert_false(c->lost);
	c->ops->close(c);
	sigaction(SIGBUS, &old, NULL);
}

static void file_cut_to_nothing(void **state)
{
	(void)state;
	cut(0);
}
static void file_cut_in_the_rings(void **state)
{
	(void)state;
	cut(SHM_HDR_SPAN);
}

/* Truncated and grown again before any access: none fails, and still it is detected. */
static void file_made_anew(void **state)
{
	struct cable_id id;
	struct cable *a = join(&id);

	(void)state;
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(truncate(path, SHM_FILE_BYTES), 0);
	a->ops->tick(a, 1000000000ull);
	assert_true(a->lost);
	a->ops->close(a);
	unlink(path);
}

/* In "unshare -r" everybody is user 0, and root's cable is not theirs. */
static int is_named_by_the_user(unsigned uid)
{
	char want[64], got[64];

	snprintf(want, sizeof(want), "/dev/shm/spinwire-%u-spinwire", uid);
	shm_path("spinwire", got, sizeof(got));
	return strcmp(got, want) != 0;
}

static void a_namespace_has_not_roots_name(void **state SPW_UNUSED)
{
	const int rc = unit_userns_run(1, is_named_by_the_user);

	if (rc == UNIT_USERNS_NONE)
		skip();
	assert_int_equal(rc, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_namespace_has_not_roots_name),
		cmocka_unit_test_setup(same_address_is_refused, fresh_name),
		cmocka_unit_test_setup(chosen_address_is_checked_too, fresh_name),
		cmocka_unit_test_setup(dead_holder_keeps_no_address, fresh_name),
		cmocka_unit_test_setup(file_of_another_user, fresh_name),
		cmocka_unit_test_setup(file_that_others_may_open, fresh_name),
		cmocka_unit_test_setup(no_regular_file, fresh_name),
		cmocka_unit_test_setup(lock_is_not_waited_for_for_ever, fresh_name),
		cmocka_unit_test_setup(file_cut_to_nothing, fresh_name),
		cmocka_unit_test_setup(file_cut_in_the_rings, fresh_name),
		cmocka_unit_test_setup(file_made_anew, fresh_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
