/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * exit_test malloc|verbs MICROSECONDS: exit(0) from a signal handler that interrupts malloc, or
 * verbs that hold the device lock. */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static void on_alarm(int sig)
{
	(void)sig;
	exit(0);
}

static void loop_malloc(void)
{
	void *block[64] = {0};

	for (unsigned i = 0;; i++) {
		free(block[i % 64]);
		block[i % 64] = malloc(1 + i * 7919 % 100000);
	}
}

static void loop_verbs(struct ibv_pd *pd)
{
	static char buf[4096];
	struct ibv_mr *mr;

	while ((mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE)) &&
	       ibv_dereg_mr(mr) == 0)
		;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	const struct itimerval in = {.it_value.tv_usec = argc == 3 ? atol(argv[2]) : 0};

	if (!pd || !in.it_value.tv_usec)
		return 1;
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &in, NULL);
	if (strcmp(argv[1], "malloc") == 0)
		loop_malloc();
	loop_verbs(pd);
	return 2; /* a verb failed */
}
