/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to plan.c, which makes a plan, and plan_print.c, which prints it.
 */
#ifndef DOCTOR_PLAN_H
#define DOCTOR_PLAN_H

#include "doctor.h"

#define PLAN_LINK_MAX    16u
#define PLAN_MACHINE_MAX (1 + DOCTOR_PEER_MAX)

/* Functions with a link, by physical port. */
struct plan_ports {
	const struct spw_plat_nic *half[PLAN_LINK_MAX][2];
	uint32_t half_cnt[PLAN_LINK_MAX];
	uint32_t cnt;
};

struct plan_machine {
	const struct spw_plat *plat;
	struct plan_ports ports;
	uint32_t
		number; /* from 1: the last number of its addresses; the same in everybody's plan */
	/* What a machine without a product name is called: its host, or the file it came from. */
	const char *name;
};

/* Two functions, at the two ends of a cable. Each pair is a subnet. */
struct plan_link {
	const struct spw_plat_nic *end[2];
	uint32_t machine[2]; /* whose they are; of two machines end[0] is this one's */
	uint32_t cable;
};

struct plan {
	struct plan_machine machine[PLAN_MACHINE_MAX]; /* [0] is this one */
	uint32_t machine_cnt;
	struct plan_link link[PLAN_LINK_MAX];
	uint32_t link_cnt, cable_cnt;
	uint32_t net; /* subnets are 10.net.0.0/24, 10.net.1.0/24 ... */
	char own_name[65];
};

void plan_print(const struct plan *plan);
/* Returns: NULL if memory ran out. */
json_t *plan_json(const struct plan *plan);

/* The netplan file of a machine, into file. */
void plan_netplan(const struct plan *plan, uint32_t machine, FILE *file);

/* Whether this name of an interface or a device may stand in a file or a command: names that come
 * from another machine do. */
bool plan_is_plain(const char *name);

/* "this machine", "the peer", "peer 2". Valid until the next call. Thread: one. */
const char *plan_who(const struct plan *plan, uint32_t machine);

#endif
