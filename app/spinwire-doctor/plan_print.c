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

/* The function of a machine at this link; NULL: the link is the others'. */
static const struct spw_plat_nic *plan_end(const struct plan_link *link, uint32_t machine)
{
	for (uint32_t i = 0; i < 2; i++)
		if (link->machine[i] == machine)
			return link->end[i];
	return NULL;
}

/* The third number is the link's: each link is a subnet of its own. */
static void plan_address(const struct plan *plan, uint32_t link, uint32_t machine, char out[20])
{
	snprintf(out, 20, "10.%u.%u.%u", plan->net, link, plan->machine[machine].number);
}

/* One function may have several addresses: its links follow each other, so an entry stays open
 * until it changes. */
void plan_netplan(const struct plan *plan, uint32_t machine, FILE *file)
{
	const struct spw_plat_nic *open = NULL;
	char ip[20];

	fprintf(file, "network:\n  version: 2\n  ethernets:\n");
	for (uint32_t i = 0; i < plan->link_cnt; i++) {
		const struct spw_plat_nic *nic = plan_end(&plan->link[i], machine);

		if (!nic)
			continue;
		if (nic != open)
			fprintf(file,
				"    %s:\n      dhcp4: false\n      link-local: []\n      mtu: %u\n"
				"      addresses:\n",
				nic->netdev, MTU);
		open = nic;
		plan_address(plan, i, machine, ip);
		fprintf(file, "        - %s/24\n", ip);
	}
}

/* ---- variables ---- */

/* Devices joined by commas, each once. Returns: the machine's links with one other machine. */
static uint32_t plan_devices(const struct plan *plan, uint32_t machine, char *out, size_t bytes)
{
	const struct spw_plat_nic *last = NULL;
	uint32_t with[PLAN_MACHINE_MAX] = {0}, most = 0;
	size_t n = 0;

	for (uint32_t i = 0; i < plan->link_cnt && n < bytes; i++) {
		const struct plan_link *link = &plan->link[i];
		const struct spw_plat_nic *nic = plan_end(link, machine);
		const uint32_t other = link->machine[link->machine[0] == machine];

		if (nic && nic != last)
			n += (size_t)snprintf(out + n, bytes - n, "%s%s:1", n ? "," : "",
					      nic->rdma);
		if (nic) {
			last = nic;
			with[other]++;
			most = SPW_MAX(most, with[other]);
		}
	}
	return most;
}

/* By which programs find each other: of two machines the first cable; of three, which no single
 * cable joins, what leads out of them. NULL: there is none, or its name is odd. */
static const char *plan_meeting(const struct plan *plan, uint32_t machine)
{
	const struct spw_plat *plat = plan->machine[machine].plat;

	if (plan->machine_cnt == 2)
		return plan_end(&plan->link[0], machine)->netdev;
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (plat->nic[i].default_route && plan_is_plain(plat->nic[i].netdev))
			return plat->nic[i].netdev;
	return NULL;
}

/* The equals sign in front of a value is NCCL's: an exact match of names instead of a prefix. In a
 * triangle NCCL's own NET/IB takes the device in the other end's subnet only with
 * SUBNET_AWARE_ROUTING, and if halves are devices of their own. */
static json_t *plan_variables(const struct plan *plan, uint32_t machine)
{
	char devices[PLAN_LINK_MAX * (SPW_PLAT_NAME_MAX + 3)], rails[12], exact[32];
	const char *meeting = plan_meeting(plan, machine);
	const uint32_t links = plan_devices(plan, machine, devices, sizeof(devices));

	snprintf(exact, sizeof(exact), "=%s", meeting ? meeting : "");
	snprintf(rails, sizeof(rails), "%u", SPW_MIN(links, 4u));
	return json_pack("{s:s+,s:s*,s:s*,s:s*,s:s,s:s,s:s,s:s*,s:s*}", "NCCL_IB_HCA", "=", devices,
			 "NCCL_SOCKET_IFNAME", meeting ? exact : NULL,
			 "NCCL_IB_SUBNET_AWARE_ROUTING", plan->machine_cnt == 3 ? "1" : NULL,
			 "NCCL_IB_MERGE_NICS", plan->machine_cnt == 3 ? "0" : NULL,
			 "UCX_NET_DEVICES", devices, "UCX_MAX_RNDV_RAILS", rails, "OMPI_MCA_pml",
			 "ucx", "OMPI_MCA_btl_tcp_if_include", meeting,
			 "OMPI_MCA_oob_tcp_if_include", meeting);
}

static void plan_variables_print(const struct plan *plan, uint32_t machine)
{
	json_t *all = plan_variables(plan, machine), *value;
	const char *name;

	json_object_foreach (all, name, value)
		printf("export %s=%s\n", name, json_string_value(value));
	if (!plan_meeting(plan, machine))
		printf("# NCCL_SOCKET_IFNAME, OMPI_MCA_btl_tcp_if_include and "
		       "OMPI_MCA_oob_tcp_if_include: an interface that reaches both others\n");
	printf("unset NCCL_IB_GID_INDEX    # NCCL finds RoCE v2 over IPv4 itself since 2.21\n");
	json_decref(all);
}

/* ---- text ---- */

/* Interfaces with the default route are named, so that nobody looks for them in the file. */
static void plan_machine_print(const struct plan *plan, uint32_t machine)
{
	const struct plan_machine *m = &plan->machine[machine];

	printf("\n# ---- %s (", plan_who(plan, machine));
	doctor_put(m->plat->machine[0] ? m->plat->machine : m->name);
	printf("): /etc/netplan/60-spinwire.yaml, mode 0600, then netplan apply\n");
	for (uint32_t i = 0; i < m->plat->nic_cnt; i++)
		if (m->plat->nic[i].default_route) {
			printf("# ");
			doctor_put(m->plat->nic[i].netdev);
			printf(" has the default route and is left alone\n");
		}
	plan_netplan(plan, machine, stdout);
	printf("# ---- %s: variables\n", plan_who(plan, machine));
	plan_variables_print(plan, machine);
}

static void plan_names_print(const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->machine_cnt; i++) {
		printf("# .%u is %s", plan->machine[i].number, plan_who(plan, i));
		if (i) {
			printf(", ");
			doctor_put(plan->machine[i].name);
		}
		printf("\n");
	}
}

static void plan_assumed_print(const struct plan *plan)
{
	if (plan->machine_cnt == 3)
		printf("# assumed: a cable from the first port of .1 to the second of .2, of .2 to "
		       ".3, of .3 to .1. If a\n# ping fails, exchange the two cables of a "
		       "machine.\n");
	else if (plan->cable_cnt > 1)
		printf("# assumed: ports are cabled in order. If a ping fails, exchange the two "
		       "cables at one end.\n");
}

/* All machines' parts are printed at any of them, so that one call is enough. */
void plan_print(const struct plan *plan)
{
	printf("# %u cable%s, %u pairs of functions; each pair is a subnet\n", plan->cable_cnt,
	       plan->cable_cnt == 1 ? "" : "s", plan->link_cnt);
	if (plan->machine_cnt == 3)
		plan_names_print(plan);
	for (uint32_t i = 0; i < plan->link_cnt; i++) {
		const struct plan_link *link = &plan->link[i];
		char a[20], b[20];

		plan_address(plan, i, link->machine[0], a);
		plan_address(plan, i, link->machine[1], b);
		printf("# cable %u: %-16s %-14s <-> %-14s %s\n", link->cable, link->end[0]->netdev,
		       a, b, link->end[1]->netdev);
	}
	plan_assumed_print(plan);
	for (uint32_t i = 0; i < plan->machine_cnt; i++)
		plan_machine_print(plan, i);
	printf("\n# ---- then, on %s: spinwire-doctor; ping -M do -s 8972 the other end%s "
	       "addresses\n",
	       plan->machine_cnt == 3 ? "all" : "both", plan->machine_cnt == 3 ? "s'" : "'s");
}

/* ---- JSON ---- */

static json_t *plan_end_json(const struct plan *plan, uint32_t i, uint32_t end)
{
	const struct plan_link *link = &plan->link[i];
	char address[20];

	plan_address(plan, i, link->machine[end], address);
	return json_pack("{s:i,s:s,s:s,s:s}", "machine", (int)link->machine[end], "netdev",
			 link->end[end]->netdev, "rdma", link->end[end]->rdma, "address", address);
}

static json_t *plan_machine_json(const struct plan *plan, uint32_t machine)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);
	json_t *out = NULL;

	if (!file)
		return NULL;
	plan_netplan(plan, machine, file);
	if (fclose(file) == 0)
		out = json_pack("{s:o,s:s,s:o}", "machine",
				app_json_text(plan->machine[machine].plat->machine), "netplan",
				text, "variables", plan_variables(plan, machine));
	free(text);
	return out;
}

json_t *plan_json(const struct plan *plan)
{
	json_t *links = json_array(), *machines = json_array();

	for (uint32_t i = 0; i < plan->link_cnt; i++)
		json_array_append_new(
			links, json_pack("{s:i,s:[o,o]}", "cable", (int)plan->link[i].cable, "ends",
					 plan_end_json(plan, i, 0), plan_end_json(plan, i, 1)));
	for (uint32_t i = 0; i < plan->machine_cnt; i++)
		json_array_append_new(machines, plan_machine_json(plan, i));
	return json_pack("{s:s,s:s,s:i,s:o,s:o}", "schema", "spinwire.plan/2", "version",
			 SPW_VERSION, "cables", (int)plan->cable_cnt, "links", links, "machines",
			 machines);
}
