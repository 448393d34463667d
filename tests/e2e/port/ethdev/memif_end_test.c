/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A net_memif peer that leaves, by itself or by SIGKILL, while every queue of ours is polled by a
 * thread that never pauses. The peer is another process of this program ("peer ROLE SOCKET
 * QUEUES"): it floods all its queues, so that our threads are within a burst nearly always, and on
 * few cores they lose the core there. net_memif unmaps the rings in EAL's interrupt thread; unless
 * that waits for the bursts, this test ends by SIGSEGV.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spw_order.h"
#include "inter_test.h"

#define SLOTS  512u
#define ROUNDS 3 /* peers in turn; the last one leaves by itself */

extern char **environ;

static char sock[64];

struct poller {
	pthread_t thread;
	struct inter_port *ip;
	uint16_t queue;
	uint32_t stop;
	uint64_t frames;
};

/* ---- the peer ---- */

static volatile sig_atomic_t asked_to_end;

static void on_term(int number SPW_UNUSED)
{
	asked_to_end = 1;
}

static void flood(struct inter_port *ip, uint16_t q)
{
	struct spw_port_queue *pq = &ip->port->queue[q];
	struct spw_desc desc[SPW_BURST_MAX], *to[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	uint16_t n = spw_port_lend_burst(pq, slot, SPW_BURST_MAX), sent;

	for (uint16_t i = 0; i < n; i++) {
		desc[i] = (struct spw_desc){
			.slot = slot[i], .offset = ip->port->caps.slot_headroom, .len = 1500};
		to[i] = &desc[i];
	}
	sent = spw_port_tx_burst(pq, to, n);
	spw_port_release_burst(pq, slot + sent, (uint16_t)(n - sent));
}

static void spec_of(char *text, size_t bytes, const char *name, const char *role, const char *path)
{
	snprintf(text, bytes, "ethdev:%s,role=%s,socket=%s,socket-abstract=no,rsize=11", name, role,
		 path);
}

static int peer(const char *role, const char *path, uint16_t queues)
{
	struct inter_port ip;
	char spec[256];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, on_term);
	inter_eal_init();
	spec_of(spec, sizeof(spec), "net_memif9", role, path);
	inter_open(&ip, spec, 0, queues, SLOTS);
	raise(SIGSTOP); /* peer_start waits for this */
	while (!asked_to_end)
		for (uint16_t q = 0; q < queues; q++)
			flood(&ip, q);
	inter_close(&ip);
	return 0;
}

/* Returns when the peer's port is started. A server listens before that, but refuses a client until
 * then, and the client does not try again. */
static pid_t peer_start(const char *role, uint16_t queues)
{
	char cnt[8], self[] = "/proc/self/exe", word[] = "peer";
	char *argv[] = {self, word, (char *)(uintptr_t)role, sock, cnt, NULL};
	int status;
	pid_t pid;

	snprintf(cnt, sizeof(cnt), "%u", queues);
	assert_int_equal(posix_spawn(&pid, self, NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	kill(pid, SIGCONT);
	return pid;
}

static void peer_end(pid_t pid, int number)
{
	int status;

	kill(pid, number);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(number == SIGKILL ? WIFSIGNALED(status)
				      : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- our side ---- */

static void *poll_queue(void *arg)
{
	struct poller *p = arg;
	struct spw_port_queue *pq = &p->ip->port->queue[p->queue];
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];

	while (!spw_thr_load_acq(&p->stop)) {
		uint16_t n = spw_port_rx_burst(pq, desc, SPW_BURST_MAX);

		for (uint16_t i = 0; i < n; i++)
			slot[i] = desc[i].slot;
		spw_port_release_burst(pq, slot, n);
		spw_thr_count(&p->frames, n);
	}
	return NULL;
}

static void pollers_start(struct poller *p, struct inter_port *ip)
{
	for (uint16_t q = 0; q < ip->queue_cnt; q++) {
		p[q] = (struct poller){.ip = ip, .queue = q};
		assert_int_equal(pthread_create(&p[q].thread, NULL, poll_queue, &p[q]), 0);
	}
}

static void pollers_stop(struct poller *p, uint16_t cnt)
{
	for (uint16_t q = 0; q < cnt; q++) {
		spw_thr_store_rel(&p[q].stop, 1);
		pthread_join(p[q].thread, NULL);
	}
}

static void wait_frames(const struct poller *p, uint16_t cnt)
{
	uint64_t end = inter_now_ms() + INTER_WAIT_MS, base[INTER_QUEUE_MAX];

	for (uint16_t q = 0; q < cnt; q++)
		base[q] = spw_thr_load_rlx(&p[q].frames);
	for (uint16_t q = 0; q < cnt; q++)
		while (spw_thr_load_rlx(&p[q].frames) < base[q] + 1000) {
			if (inter_now_ms() > end)
				fail_msg("queue %u receives nothing", q);
			usleep(1000);
		}
}

static int how_to_end(int round)
{
	return round == ROUNDS - 1 ? SIGTERM : SIGKILL;
}

/* One server port of ours outlives its peers. */
static void clients_leave(uint16_t queues)
{
	struct poller poller[INTER_QUEUE_MAX];
	struct inter_port ip;
	char spec[256];

	spec_of(spec, sizeof(spec), "net_memif0", "server", sock);
	inter_open(&ip, spec, 0, queues, SLOTS);
	pollers_start(poller, &ip);
	for (int round = 0; round < ROUNDS; round++) {
		pid_t pid = peer_start("client", queues);

		inter_wait_event(&ip, SPW_PORT_EVENT_LINK_UP);
		wait_frames(poller, queues);
		peer_end(pid, how_to_end(round));
		inter_wait_event(&ip, SPW_PORT_EVENT_LINK_DOWN);
	}
	pollers_stop(poller, queues);
	inter_close(&ip);
}

/* A client never connects again: a port for each peer. */
static void server_leaves(uint16_t queues, int number)
{
	struct poller poller[INTER_QUEUE_MAX];
	pid_t pid = peer_start("server", queues);
	struct inter_port ip;
	char spec[256];

	spec_of(spec, sizeof(spec), "net_memif1", "client", sock);
	inter_open(&ip, spec, 0, queues, SLOTS);
	pollers_start(poller, &ip);
	inter_wait_event(&ip, SPW_PORT_EVENT_LINK_UP);
	wait_frames(poller, queues);
	peer_end(pid, number);
	inter_wait_event(&ip, SPW_PORT_EVENT_LINK_DOWN);
	pollers_stop(poller, queues);
	inter_close(&ip);
	unlink(sock); /* of a server that was killed */
}

static void clients_leave_while_all_queues_are_polled(void **state SPW_UNUSED)
{
	for (uint16_t queues = 1; queues <= INTER_QUEUE_MAX; queues *= 2)
		clients_leave(queues);
}

static void servers_leave_while_all_queues_are_polled(void **state SPW_UNUSED)
{
	for (uint16_t queues = 1; queues <= INTER_QUEUE_MAX; queues *= 2)
		for (int round = 0; round < ROUNDS; round++)
			server_leaves(queues, how_to_end(round));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test(clients_leave_while_all_queues_are_polled),
		cmocka_unit_test(servers_leave_while_all_queues_are_polled),
	};

	if (argc == 5 && !strcmp(argv[1], "peer"))
		return peer(argv[2], argv[3], (uint16_t)atoi(argv[4]));
	snprintf(sock, sizeof(sock), "/tmp/spw-inter-end-%d.sock", getpid());
	inter_eal_init();
	return cmocka_run_group_tests_name("inter-memif-end", test, NULL, NULL);
}
