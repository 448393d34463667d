/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A plan as text: what each half gets, the netplan files, and the variables that programs want.
 * Source of the variables: NCCL and UCX user guides; of the format: netplan.io reference.
 *
 * Everything is printed as shell comments, YAML or export lines, for both machines: plan.c calls
 * plan_print, and plan_netplan once more for the file. Names of functions were checked by plan.c;
 * other text passes doctor_put.
 */
#include <stdio.h>
#include <string.h>

#include "plan.h"

#define MTU 9000u

static const struct spw_plat_nic *plan_end(const struct plan_link *link, bool of_peer)
{
	return of_peer ? link->peer : link->own;
}

/* The third number is the link's: each link is a subnet of its own. */
static void plan_address(const struct plan *plan, uint32_t i, bool of_peer, char out[20])
{
	snprintf(out, 20, "10.%u.%u.%u", plan->net, i, plan->own_is_first != of_peer ? 1 : 2);
}

/* One function may have several addresses: its links follow each other, so an entry stays open
 * until it changes. */
void plan_netplan(const struct plan *plan, bool of_peer, FILE *file)
{
	const struct spw_plat_nic *open = NULL;
	char ip[20];

	fprintf(file, "network:\n  version: 2\n  ethernets:\n");
	for (uint32_t i = 0; i < plan->link_cnt; i++) {
		const struct spw_plat_nic *nic = plan_end(&plan->link[i], of_peer);

		if (nic != open)
			fprintf(file,
				"    %s:\n      dhcp4: false\n      link-local: []\n      mtu: %u\n"
				"      addresses:\n",
				nic->netdev, MTU);
		open = nic;
		plan_address(plan, i, of_peer, ip);
		fprintf(file, "        - %s/24\n", ip);
	}
}

/* Devices joined by commas, each once. */
static void plan_devices(const struct plan *plan, bool of_peer, const char *suffix)
{
	const struct spw_plat_nic *last = NULL;

	for (uint32_t i = 0; i < plan->link_cnt; i++) {
		const struct spw_plat_nic *nic = plan_end(&plan->link[i], of_peer);

		if (nic != last)
			printf("%s%s%s", i ? "," : "", nic->rdma, suffix);
		last = nic;
	}
}

/* The doubled equals sign is NCCL's: an exact match of names instead of a prefix. */
static void plan_variables(const struct plan *plan, bool of_peer)
{
	const char *first = plan_end(&plan->link[0], of_peer)->netdev;

	printf("export NCCL_IB_HCA==");
	plan_devices(plan, of_peer, ":1");
	printf("\nexport NCCL_SOCKET_IFNAME==%s\n"
	       "unset NCCL_IB_GID_INDEX    # NCCL finds RoCE v2 over IPv4 itself since 2.21\n"
	       "export UCX_NET_DEVICES=",
	       first);
	plan_devices(plan, of_peer, ":1");
	printf("\nexport UCX_MAX_RNDV_RAILS=%u\n", SPW_MIN(plan->link_cnt, 4u));
	printf("export OMPI_MCA_pml=ucx OMPI_MCA_btl_tcp_if_include=%s "
	       "OMPI_MCA_oob_tcp_if_include=%s\n",
	       first, first);
}

/* Interfaces with the default route are named, so that nobody looks for them in the file. */
static void plan_machine(const struct plan *plan, const struct spw_plat *plat, bool of_peer)
{
	printf("\n# ---- %s (", of_peer ? "the peer" : "this machine");
	doctor_put(plat->machine[0] ? plat->machine : "unknown");
	printf("): /etc/netplan/60-spinwire.yaml, mode 0600, then netplan apply\n");
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (plat->nic[i].default_route) {
			printf("# ");
			doctor_put(plat->nic[i].netdev);
			printf(" has the default route and is left alone\n");
		}
	plan_netplan(plan, of_peer, stdout);
	printf("# ---- %s: variables\n", of_peer ? "the peer" : "this machine");
	plan_variables(plan, of_peer);
}

/* Both machines' parts are printed at either one, so that one call is enough. */
void plan_print(const struct plan *plan, const struct spw_plat *own, const struct spw_plat *peer)
{
	printf("# %u cable%s, %u pairs of functions; each pair is a subnet\n", plan->cable_cnt,
	       plan->cable_cnt == 1 ? "" : "s", plan->link_cnt);
	for (uint32_t i = 0; i < plan->link_cnt; i++) {
		char a[20], b[20];

		plan_address(plan, i, false, a);
		plan_address(plan, i, true, b);
		printf("# cable %u: %-16s %-14s <-> %-14s %s\n", plan->link[i].cable,
		       plan->link[i].own->netdev, a, b, plan->link[i].peer->netdev);
	}
	if (plan->cable_cnt > 1)
		printf("# assumed: ports are cabled in order. If a ping fails, exchange the two "
		       "cables at one end.\n");
	plan_machine(plan, own, false);
	plan_machine(plan, peer, true);
	printf("\n# ---- then, on both: spinwire-doctor; ping -M do -s 8972 the other end's "
	       "addresses\n");
}
