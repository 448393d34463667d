/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A plan as text and JSON: what each half gets, the netplan files, and the variables that programs
 * want.
 * Source of the variables: NCCL and UCX user guides; of the format: netplan.io reference.
 *
 * Everything is printed as shell comments, YAML or export lines, for both machines: plan.c calls
 * plan_print, and plan_netplan once more for the file. Names of functions were checked by plan.c;
 * other text passes doctor_put.
 */
#include <stdio.h>
#include <stdlib.h>

#include "app_text.h"
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
static void plan_devices(const struct plan *plan, bool of_peer, char *out, size_t bytes)
{
	const struct spw_plat_nic *last = NULL;
	size_t n = 0;

	for (uint32_t i = 0; i < plan->link_cnt && n < bytes; i++) {
		const struct spw_plat_nic *nic = plan_end(&plan->link[i], of_peer);

		if (nic != last)
			n += (size_t)snprintf(out + n, bytes - n, "%s%s:1", i ? "," : "",
					      nic->rdma);
		last = nic;
	}
}

/* The equals sign in front of a value is NCCL's: an exact match of names instead of a prefix. */
static json_t *plan_variables(const struct plan *plan, bool of_peer)
{
	const char *first = plan_end(&plan->link[0], of_peer)->netdev;
	char devices[PLAN_LINK_MAX * (SPW_PLAT_NAME_MAX + 3)], rails[12];

	plan_devices(plan, of_peer, devices, sizeof(devices));
	snprintf(rails, sizeof(rails), "%u", SPW_MIN(plan->link_cnt, 4u));
	return json_pack("{s:s+,s:s+,s:s,s:s,s:s,s:s,s:s}", "NCCL_IB_HCA", "=", devices,
			 "NCCL_SOCKET_IFNAME", "=", first, "UCX_NET_DEVICES", devices,
			 "UCX_MAX_RNDV_RAILS", rails, "OMPI_MCA_pml", "ucx",
			 "OMPI_MCA_btl_tcp_if_include", first, "OMPI_MCA_oob_tcp_if_include",
			 first);
}

static void plan_variables_print(const struct plan *plan, bool of_peer)
{
	json_t *all = plan_variables(plan, of_peer), *value;
	const char *name;

	json_object_foreach (all, name, value)
		printf("export %s=%s\n", name, json_string_value(value));
	printf("unset NCCL_IB_GID_INDEX    # NCCL finds RoCE v2 over IPv4 itself since 2.21\n");
	json_decref(all);
}

/* Interfaces with the default route are named, so that nobody looks for them in the file. */
static void plan_machine(const struct plan *plan, const struct spw_plat *plat, bool of_peer)
{
	printf("\n# ---- %s (", of_peer ? "the peer" : "this machine");
	doctor_put(plat->machine[0] ? plat->machine : of_peer ? plan->peer_name : plan->own_name);
	printf("): /etc/netplan/60-spinwire.yaml, mode 0600, then netplan apply\n");
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (plat->nic[i].default_route) {
			printf("# ");
			doctor_put(plat->nic[i].netdev);
			printf(" has the default route and is left alone\n");
		}
	plan_netplan(plan, of_peer, stdout);
	printf("# ---- %s: variables\n", of_peer ? "the peer" : "this machine");
	plan_variables_print(plan, of_peer);
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

/* ---- JSON ---- */

static json_t *plan_end_json(const struct plan *plan, uint32_t i, bool of_peer)
{
	const struct spw_plat_nic *nic = plan_end(&plan->link[i], of_peer);
	char address[20];

	plan_address(plan, i, of_peer, address);
	return json_pack("{s:s,s:s,s:s}", "netdev", nic->netdev, "rdma", nic->rdma, "address",
			 address);
}

static json_t *plan_machine_json(const struct plan *plan, const struct spw_plat *plat, bool of_peer)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);
	json_t *out = NULL;

	if (!file)
		return NULL;
	plan_netplan(plan, of_peer, file);
	if (fclose(file) == 0)
		out = json_pack("{s:o,s:s,s:o}", "machine", app_json_text(plat->machine), "netplan",
				text, "variables", plan_variables(plan, of_peer));
	free(text);
	return out;
}

json_t *plan_json(const struct plan *plan, const struct spw_plat *own, const struct spw_plat *peer)
{
	json_t *links = json_array();

	for (uint32_t i = 0; i < plan->link_cnt; i++)
		json_array_append_new(links,
				      json_pack("{s:i,s:o,s:o}", "cable", (int)plan->link[i].cable,
						"own", plan_end_json(plan, i, false), "peer",
						plan_end_json(plan, i, true)));
	return json_pack("{s:s,s:s,s:i,s:o,s:o,s:o}", "schema", "spinwire.plan/1", "version",
			 SPW_VERSION, "cables", (int)plan->cable_cnt, "links", links, "own",
			 plan_machine_json(plan, own, false), "peer",
			 plan_machine_json(plan, peer, true));
}
