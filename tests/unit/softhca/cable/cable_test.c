/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cables: order and content over many laps, groups, full rings, a peer that dies, malformed
 * rings, files of another version, addresses in use.
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

static void order_and_content_over_laps(void **state)
{
	struct cable_id a_id, b_id;
	struct cable *a = join(&a_id), *b = join(&b_id);
	struct cable_frame f[CABLE_BURST];
	uint32_t sent = 0, got = 0;
	uint64_t seed = 3;

	(void)state;
	assert_int_not_equal(a_id.port, b_id.port);
	assert_memory_not_equal(a_id.mac, b_id.mac, 6);
	while (got < 20000) {
		const uint32_t burst = (uint32_t)(unit_random(&seed) % 96);
		uint32_t n, use;

		for (uint32_t i = 0; i < burst; i++) {
			const uint32_t len = 18 + (sent * 7919u) % 4200;

			if (!put(a, b_id.mac, a_id.mac, sent, len))
				break;
			sent++;
		}
		cable_tx_flush(a);
		n = cable_rx_burst(b, f, CABLE_BURST);
		use = n ? (uint32_t)(unit_random(&seed) % (n + 1))
			: 0; /* the rest must come again */
		for (uint32_t i = 0; i < use; i++, got++) {
			assert_int_equal(number_of(&f[i]), got);
			assert_int_equal(f[i].len, 18 + (got * 7919u) % 4200);
			assert_int_equal(f[i].flags, got & 1);
			assert_int_equal(f[i].data[f[i].len - 1],
					 f[i].len > 18 ? (got & 0xff) : f[i].data[17]);
		}
		cable_rx_release(b, use);
	}
	assert_int_equal(b->stat.rx_bad, 0);
	assert_int_equal(a->stat.tx_dropped, 0);
	a->ops->close(a);
	b->ops->close(b);
	assert_int_equal(access(path, F_OK), -1); /* the last one removes the file */
}

static void groups_reach_all_others(void **state)
{
	static const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct cable_id id[4];
	struct cable *c[4];
	struct cable_frame f[CABLE_BURST];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		c[i] = join(&id[i]);
	assert_true(put(c[2], all, id[2].mac, 77, 64));
	assert_true(put(c[2], id[2].mac, id[2].mac, 78, 64)); /* to itself */
	cable_tx_flush(c[2]);
	for (unsigned i = 0; i < 4; i++) {
		const uint32_t n = cable_rx_burst(c[i], f, CABLE_BURST);

		assert_int_equal(n, 1);
		assert_int_equal(number_of(&f[0]), i == 2 ? 78 : 77);
		cable_rx_release(c[i], n);
	}
	for (unsigned i = 0; i < 4; i++)
		c[i]->ops->close(c[i]);
}

/* The number of the one frame that came; 0: none did. */
static uint32_t came(struct cable *c)
{
	struct cable_frame f[CABLE_BURST];
	const uint32_t n = cable_rx_burst(c, f, CABLE_BURST), number = n ? number_of(&f[0]) : 0;

	assert_in_range(n, 0, 1);
	cable_rx_release(c, n);
	return number;
}

/* Two processes of one machine have its card's address; a third machine has another. */
static void one_function_in_two_processes(void **state)
{
	struct cable_id a_id, b_id, far_id, wrong_id = {.func = 2ull << 32 | 17};
	struct cable *a = join_as(1ull << 32 | 9, &a_id), *b = join_as(1ull << 32 | 9, &b_id),
		     *far = join_as(1ull << 32 | 17, &far_id), *wrong = NULL;

	(void)state;
	assert_memory_equal(a_id.mac, b_id.mac, 6);
	assert_memory_equal(a_id.ip, b_id.ip, 4);
	assert_memory_not_equal(a_id.mac, far_id.mac, 6);
	assert_memory_not_equal(a_id.ip, far_id.ip, 4);
	/* As far's, but of another machine: its number was given away twice. */
	assert_int_equal(cable_shm_open(name, &wrong_id, &wrong), -EADDRINUSE);

	assert_int_equal(came(far), 0);
	assert_int_equal(came(b), 0); /* b is used from here on, a is not */
	assert_int_equal(b->twins, 1u << a_id.port);
	assert_true(put(far, a_id.mac, far_id.mac, 1, 64));
	assert_true(put_to(far, a_id.mac, a_id.port << 16 | 5, far_id.mac, 2, 64));
	cable_tx_flush(far);
	assert_int_equal(came(b), 1);
	assert_int_equal(came(a), 2);

	assert_true(put(far, a_id.mac, far_id.mac, 3, 64)); /* now both are */
	cable_tx_flush(far);
	assert_int_equal(came(a), 3);
	assert_int_equal(came(b), 3);
	assert_true(put_to(a, a_id.mac, b_id.port << 16 | 5, a_id.mac, 4, 64));
	cable_tx_flush(a);
	assert_int_equal(came(b), 4);
	assert_int_equal(came(a), 0);
	assert_true(cable_turns(far, a_id.mac, 0) == 0); /* which of the two? */
	assert_true(cable_turns(far, a_id.mac, b_id.port << 16 | 5) > 0);
	a->ops->close(a);
	b->ops->close(b);
	far->ops->close(far);
}

static void full_ring_waits_then_drops(void **state)
{
	struct cable_id a_id, b_id;
	struct cable *a = join(&a_id), *b = join(&b_id);
	uint64_t now_ns = 1000000000ull;
	uint32_t n = 0, ticks = 0;

	(void)state;
	a->ops->tick(a, now_ns);
	while (put(a, b_id.mac, a_id.mac, n, 1000))
		n++;
	assert_in_range(n, 900, 1100);
	a->ops->tick(a, now_ns += 2000000000ull); /* the sender itself stood still */
	assert_false(put(a, b_id.mac, a_id.mac, n, 1000));
	assert_int_equal(a->stat.tx_dropped, 0);
	for (; !put(a, b_id.mac, a_id.mac, n, 1000); ticks++) /* nobody drains */
		a->ops->tick(a, now_ns += 20000000);
	assert_int_equal(ticks, (CABLE_STUCK_NS - CABLE_LOOK_NS) / 20000000);
	assert_int_equal(a->stat.tx_dropped, 1);
	a->ops->close(a);
	b->ops->close(b);
}

/* Each burst is a turn; of an end that takes none for long, or stalls, nobody knows. */
static void turns_are_shown(void **state)
{
	struct cable_id a_id, b_id;
	struct cable *a = join(&a_id), *b = join(&b_id);
	uint64_t now_ns = 1000000000ull, turns;
	struct cable_frame f;

	(void)state;
	(void)cable_rx_burst(b, &f, 1);
	turns = cable_turns(a, b_id.mac, 0);
	assert_int_not_equal(turns, 0);
	(void)cable_rx_burst(b, &f, 1);
	assert_int_equal(cable_turns(a, b_id.mac, 0), turns + 1);
	cable_stalls(b);
	assert_int_equal(cable_turns(a, b_id.mac, 0), 0);
	(void)cable_rx_burst(b, &f, 1);
	assert_int_equal(cable_turns(a, b_id.mac, 0), turns + 2);
	for (uint64_t ns = 0; ns <= CABLE_STUCK_NS; ns += 20000000) {
		a->ops->tick(a, now_ns += 20000000);
		turns = cable_turns(a, b_id.mac, 0);
	}
	assert_int_equal(turns, 0);
	(void)cable_rx_burst(b, &f, 1);
	assert_int_not_equal(cable_turns(a, b_id.mac, 0), 0);
	a->ops->close(a);
	b->ops->close(b);
}

/* Each end learns of a change with its next burst. */
static void expect_carrier(struct cable *c, uint32_t own, bool want)
{
	struct cable_frame f;

	c->changed = false;
	(void)cable_rx_burst(c, &f, 1);
	assert_true(c->changed);
	assert_int_equal(cable_link_up(c, own), want);
}

static void either_end_takes_the_cable_down(void **state)
{
	struct cable_id a_id, b_id;
	struct cable *a = join(&a_id), *b;

	(void)state;
	assert_true(cable_link_up(a, 0)); /* alone */
	b = join(&b_id);
	expect_carrier(a, 0, true);
	cable_link_set(a, false);
	expect_carrier(b, 0, false);
	assert_true(cable_link_up(a, 0)); /* what a itself knows is not shown to it */
	cable_link_set(b, false);
	expect_carrier(a, 0, false);
	cable_link_set(a, true);
	expect_carrier(b, 0, true);
	a->ops->close(a);
	expect_carrier(b, 0, true); /* alone again */
	a = join(&a_id);
	assert_false(cable_link_up(a, 0)); /* b is down */
	cable_link_set(a, false);
	expect_carrier(b, 0, false);
	a->ops->close(a);
	expect_carrier(b, 0, true); /* an end that left down */
	a = join(&a_id);
	expect_carrier(b, 0, true); /* whoever takes its place is up */
	a->ops->close(a);
	b->ops->close(b);
}

/* Three ends: a switch. Two that are halves of one port are one end. */
static void a_switch_keeps_the_carrier(void **state)
{
	struct cable_id id[3];
	struct cable *end[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		end[i] = join(&id[i]);
	cable_link_set(end[0], false);
	expect_carrier(end[1], 0, true);
	assert_false(cable_link_up(end[1], 1u << id[1].port | 1u << id[2].port));
	cable_link_set(end[2], false);
	expect_carrier(end[1], 0, false);
	for (unsigned i = 0; i < 3; i++)
		end[i]->ops->close(end[i]);
}

static void killed_peer_frees_its_port(void **state)
{
	struct cable_id a_id, b_id, c_id;
	struct cable *a = join(&a_id), *c;
	struct cable_frame f[CABLE_BURST];
	int to_parent[2];
	pid_t child;

	(void)state;
	assert_int_equal(pipe(to_parent), 0);
	child = fork();
	if (child == 0) {
		struct cable *b = NULL;

		memset(&b_id, 0, sizeof(b_id));
		if (cable_shm_open(name, &b_id, &b) || write(to_parent[1], &b_id, sizeof(b_id)) < 0)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(to_parent[0], &b_id, sizeof(b_id)), sizeof(b_id));
	for (uint32_t i = 0; i < 10; i++)
		assert_true(put(a, b_id.mac, a_id.mac, i, 100));
	cable_tx_flush(a);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	a->ops->tick(a, 1000000000ull);
	assert_int_equal(((struct cable_shm *)a)->hdr->port[b_id.port].live, 0);
	c = join(&c_id);
	assert_int_equal(c_id.port, b_id.port);
	assert_int_equal(cable_rx_burst(c, f, CABLE_BURST),
			 0); /* nothing that was sent to the dead one */
	assert_true(put(a, c_id.mac, a_id.mac, 500, 100));
	cable_tx_flush(a);
	assert_int_equal(cable_rx_burst(c, f, CABLE_BURST), 1);
	assert_int_equal(number_of(&f[0]), 500);
	a->ops->close(a);
	c->ops->close(c);
	close(to_parent[0]);
	close(to_parent[1]);
}

/* A writer that stores random bytes: no frame outside the ring, no endless loop, and the receiver
 * goes on. */
static void hostile_ring_is_survived(void **state)
{
	struct cable_id a_id, b_id;
	struct cable *a = join(&a_id), *b = join(&b_id);
	struct cable_shm *sb = (struct cable_shm *)b;
	struct shm_ring *ring = (struct shm_ring *)(sb->base + SHM_RING_AT(b_id.port, a_id.port));
	struct cable_frame f[CABLE_BURST];
	uint64_t seed = 5;

	(void)state;
	assert_true(put(a, b_id.mac, a_id.mac, 0, 100));
	cable_tx_flush(a);
	for (unsigned turn = 0; turn < 2000; turn++) {
		const uint64_t head = ring->head;
		uint32_t n;

		for (unsigned i = 0; i < 256; i++)
			ring->data[(head + i) & (SHM_RING_BYTES - 1)] =
				(uint8_t)(unit_random(&seed) % 5 ? 0 : unit_random(&seed));
		ring->tail = turn % 3 ? head + (unit_random(&seed) & 0xfff0) : unit_random(&seed);
		n = cable_rx_burst(b, f, CABLE_BURST);
		for (uint32_t i = 0; i < n; i++) {
			assert_true(f[i].len <= CABLE_FRAME_MAX);
			assert_true(f[i].data >= ring->data &&
				    f[i].data + f[i].len <= ring->data + SHM_RING_BYTES);
		}
		cable_rx_release(b, n);
	}
	assert_true(b->stat.rx_bad > 0);
	a->ops->close(a);
	b->ops->close(b);
}

static void other_version_is_refused(void **state)
{
	struct cable_id id;
	struct cable *a = join(&id), *b = NULL;
	const uint32_t other = SHM_VERSION + 1;
	int fd;

	(void)state;
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &other, sizeof(other), offsetof(struct shm_hdr, version)),
			 sizeof(other));
	memset(&id, 0, sizeof(id));
	assert_int_equal(cable_shm_open(name, &id, &b), -EPROTO);
	assert_non_null(strstr(spw_err_text(), "another version"));
	close(fd);
	a->ops->close(a);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(write(fd, "short", 5), 5);
	assert_int_equal(cable_shm_open(name, &id, &b), -EPROTO);
	close(fd);
	unlink(path);
}

static void seventeenth_port_is_refused(void **state)
{
	struct cable *c[SHM_PORTS], *more = NULL;
	struct cable_id id;

	(void)state;
	for (unsigned i = 0; i < SHM_PORTS; i++)
		c[i] = join(&id);
	memset(&id, 0, sizeof(id));
	assert_int_equal(cable_shm_open(name, &id, &more), -ENOSPC);
	for (unsigned i = 0; i < SHM_PORTS; i++)
		c[i]->ops->close(c[i]);
}

static void unix_datagrams_carry_frames(void **state)
{
	char ab[256], ba[256];
	struct cable_id a_id = {0}, b_id = {0};
	struct cable *a = NULL, *b = NULL;
	struct cable_frame f[CABLE_BURST];
	uint32_t got = 0;

	(void)state;
	snprintf(ab, sizeof(ab), "unix:/tmp/%s.a,/tmp/%s.b", name, name);
	snprintf(ba, sizeof(ba), "unix:/tmp/%s.b,/tmp/%s.a", name, name);
	assert_int_equal(cable_open(ab, &a_id, &a), 0);
	assert_int_equal(cable_open(ba, &b_id, &b), 0);
	assert_memory_not_equal(a_id.mac, b_id.mac, 6);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t n;

		assert_true(put(a, b_id.mac, a_id.mac, i, 60 + i * 7));
		cable_tx_flush(a);
		n = cable_rx_burst(b, f, CABLE_BURST);
		for (uint32_t k = 0; k < n; k++, got++) {
			assert_int_equal(number_of(&f[k]), got);
			assert_int_equal(f[k].len, 60 + got * 7);
		}
		cable_rx_release(b, n);
	}
	assert_int_equal(got, 200);
	a->ops->close(a);
	assert_true(put(b, a_id.mac, b_id.mac, 1, 60));
	cable_tx_flush(b); /* no receiver: lost, not fatal */
	assert_int_equal(b->stat.tx_dropped, 1);
	b->ops->close(b);
	assert_int_equal(cable_open("unix:onlyone", &a_id, &a), -EINVAL);
	assert_int_equal(cable_open("rope:x", &a_id, &a), -EINVAL);
}

/* ---- a socket in use ---- */

static void unix_end_that_is_taken(void **state)
{
	struct cable_id id = {0};
	struct cable *a = NULL, *b = NULL;
	char ab[256], mine[128];
	int fd;

	(void)state;
	snprintf(ab, sizeof(ab), "unix:/tmp/%s.a,/tmp/%s.b", name, name);
	snprintf(mine, sizeof(mine), "/tmp/%s.a", name);
	assert_int_equal(cable_open(ab, &id, &a), 0);
	assert_int_equal(cable_open(ab, &id, &b), -EADDRINUSE);
	((struct cable *)a)->ops->forked(a); /* as if killed: the socket's file stays */
	assert_int_equal(cable_open(ab, &id, &b), 0);
	b->ops->close(b);
	fd = open(mine, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(cable_open(ab, &id, &b), -EEXIST);
	assert_int_equal(access(mine, F_OK), 0);
	close(fd);
	a->ops->close(a); /* removes its file */
	assert_int_equal(access(mine, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(order_and_content_over_laps, fresh_name),
		cmocka_unit_test_setup(groups_reach_all_others, fresh_name),
		cmocka_unit_test_setup(one_function_in_two_processes, fresh_name),
		cmocka_unit_test_setup(full_ring_waits_then_drops, fresh_name),
		cmocka_unit_test_setup(turns_are_shown, fresh_name),
		cmocka_unit_test_setup(either_end_takes_the_cable_down, fresh_name),
		cmocka_unit_test_setup(a_switch_keeps_the_carrier, fresh_name),
		cmocka_unit_test_setup(killed_peer_frees_its_port, fresh_name),
		cmocka_unit_test_setup(hostile_ring_is_survived, fresh_name),
		cmocka_unit_test_setup(other_version_is_refused, fresh_name),
		cmocka_unit_test_setup(seventeenth_port_is_refused, fresh_name),
		cmocka_unit_test_setup(unix_datagrams_carry_frames, fresh_name),
		cmocka_unit_test_setup(unix_end_that_is_taken, fresh_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
