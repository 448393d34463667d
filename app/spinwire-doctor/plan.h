/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to plan.c, which makes a plan, and plan_print.c, which prints it.
 */
#ifndef DOCTOR_PLAN_H
#define DOCTOR_PLAN_H

#include "doctor.h"

#define PLAN_LINK_MAX 16u

/* Two functions, one of each machine, at the two ends of a cable. Each pair is a subnet. */
struct plan_link {
	const struct spw_plat_nic *own, *peer;
	uint32_t cable;
};

struct plan {
	struct plan_link link[PLAN_LINK_MAX];
	uint32_t link_cnt, cable_cnt;
	uint32_t net;      /* subnets are 10.net.0.0/24, 10.net.1.0/24 ... */
	bool own_is_first; /* this machine is .1 and its peer .2, or the reverse */
	/* What a machine without a product name is called: its host, or the file it came from. */
	char own_name[65];
	const char *peer_name;
};

void plan_print(const struct plan *plan, const struct spw_plat *own, const struct spw_plat *peer);
/* Returns: NULL if memory ran out. */
json_t *plan_json(const struct plan *plan, const struct spw_plat *own, const struct spw_plat *peer);

/* The netplan file of this machine, or its peer's, into file. */
void plan_netplan(const struct plan *plan, bool of_peer, FILE *file);

#endif
