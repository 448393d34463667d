/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Addresses for two machines that are cabled to each other, or for three in a triangle. Of two, the
 * linked ports of one are paired with those of the other in order; of three, a cable leads from the
 * first port of each machine to the second of the next. The halves of ports are paired in order,
 * and each pair of halves is a subnet of its own, or the kernel would send all traffic over one of
 * them. All machines make the same plan: they are numbered by the MAC addresses of their first
 * ports.
 *
 *    two                                          three
 *    port 0  half a  ── 10.net.0.0/24 ── half a  port 0         1 port 0 ── cable 0 ── port 1 of 2
 *            half b  ── 10.net.1.0/24 ── half b                 2 port 0 ── cable 1 ── port 1 of 3
 *    port 1  half a  ── 10.net.2.0/24 ── half a  port 1         3 port 0 ── cable 2 ── port 1 of 1
 *
 * Called by main.c with machines that were read or loaded; plan_print.c prints what is settled
 * here. Nothing is changed but the file of --apply; the user runs netplan.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "app_json.h"
#include "plan.h"

#define NET_FIRST 10u
#define NET_LAST  250u

bool plan_is_plain(const char *name)
{
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			return false;
	return isalnum((unsigned char)name[0]);
}

/* Functions that a plan may use: RDMA over Ethernet with a link. */
static bool plan_is_usable(const struct spw_plat_nic *nic)
{
	return nic->carrier == 1 && nic->link_is_ethernet && !nic->default_route && !nic->is_vf &&
	       plan_is_plain(nic->netdev) && plan_is_plain(nic->rdma);
}

/* Functions by physical port: half_of refers to an earlier one, whose port is known by then. */
static void plan_ports_find(const struct spw_plat *plat, struct plan_ports *out)
{
	int32_t port_of[SPW_PLAT_NIC_MAX];

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i];
		int32_t port = nic->half_of >= 0 ? port_of[nic->half_of] : -1;

		port_of[i] = -1;
		if (!plan_is_usable(nic))
			continue;
		if (port < 0 && out->cnt < PLAN_LINK_MAX)
			port = (int32_t)out->cnt++;
		port_of[i] = port;
		if (port >= 0 && out->half_cnt[port] < 2)
			out->half[port][out->half_cnt[port]++] = nic;
	}
}

const char *plan_who(const struct plan *plan, uint32_t machine)
{
	static char text[16];

	if (machine == 0)
		return "this machine";
	if (plan->machine_cnt == 2)
		return "the peer";
	snprintf(text, sizeof(text), "peer %u", machine);
	return text;
}

/* A receipt of this machine in place of the peer's would make a plan with itself. */
static bool plan_same_machine(const struct plan_ports *a, const struct plan_ports *b)
{
	for (uint32_t i = 0; i < a->cnt; i++)
		for (uint32_t k = 0; k < b->cnt; k++)
			if (a->half[i][0]->mac[0] &&
			    !strcmp(a->half[i][0]->mac, b->half[k][0]->mac))
				return true;
	return false;
}

static int plan_check_differ(const struct plan *plan)
{
	const bool soft = plan->machine[0].ports.half[0][0]->is_software;

	for (uint32_t i = 1; i < plan->machine_cnt; i++)
		for (uint32_t k = 0; k < i; k++)
			if (plan_same_machine(&plan->machine[i].ports, &plan->machine[k].ports))
				return spw_err(
					EINVAL,
					"%s is %s: a port of it has the same MAC address; take the "
					"receipt of the other one%s",
					plan_who(plan, i), k ? "the other peer" : "this machine",
					soft ? " (with-softhca --mac A,B gives an emulated one its "
					       "own)"
					     : "");
	return 0;
}

/* What cannot be paired without a guess is refused, with what would make it unambiguous. */
static int plan_ports_check(const struct plan *plan)
{
	const struct plan_machine *m = plan->machine;

	for (uint32_t i = 0; i < plan->machine_cnt; i++) {
		if (m[i].ports.cnt == 0)
			return spw_err(EINVAL,
				       "%s has no RDMA port with a link that is free of the "
				       "default route; plug the cable in, ip link set ... up, and "
				       "look at spinwire-doctor",
				       plan_who(plan, i));
		if (plan->machine_cnt == 3 && m[i].ports.cnt != 2)
			return spw_err(EINVAL,
				       "%s has %u port%s with a link: in a triangle each machine "
				       "has two, to both others",
				       plan_who(plan, i), m[i].ports.cnt,
				       m[i].ports.cnt == 1 ? "" : "s");
	}
	if (m[0].ports.cnt != m[1].ports.cnt)
		return spw_err(
			EINVAL,
			"this machine has %u ports with a link and its peer %u: which cable "
			"leads where cannot be known; ip link set ... down on those that lead "
			"elsewhere",
			m[0].ports.cnt, m[1].ports.cnt);
	return plan_check_differ(plan);
}

static const char *plan_first_mac(const struct plan_machine *m)
{
	return m->ports.half[0][0]->mac;
}

/* From 1, in the order of the MAC addresses of first ports. */
static void plan_number(struct plan *plan)
{
	for (uint32_t i = 0; i < plan->machine_cnt; i++) {
		plan->machine[i].number = 1;
		for (uint32_t k = 0; k < plan->machine_cnt; k++) {
			const int order = strcmp(plan_first_mac(&plan->machine[k]),
						 plan_first_mac(&plan->machine[i]));

			plan->machine[i].number += order < 0 || (order == 0 && k < i);
		}
	}
}

/* ---- cables ---- */

/* The halves of port pa of machine a with those of port pb of b. A function that has no partner
 * shares the last one's of the other side. */
static int plan_cable_make(struct plan *plan, uint32_t a, uint32_t pa, uint32_t b, uint32_t pb)
{
	const struct plan_ports *from = &plan->machine[a].ports, *to = &plan->machine[b].ports;
	const uint32_t halves = SPW_MAX(from->half_cnt[pa], to->half_cnt[pb]);

	for (uint32_t h = 0; h < halves; h++) {
		if (plan->link_cnt == PLAN_LINK_MAX)
			return spw_err(EINVAL, "more than %u pairs of functions", PLAN_LINK_MAX);
		plan->link[plan->link_cnt++] = (struct plan_link){
			.end = {from->half[pa][SPW_MIN(h, from->half_cnt[pa] - 1)],
				to->half[pb][SPW_MIN(h, to->half_cnt[pb] - 1)]},
			.machine = {a, b},
			.cable = plan->cable_cnt};
	}
	plan->cable_cnt++;
	return 0;
}

static uint32_t plan_numbered(const struct plan *plan, uint32_t number)
{
	uint32_t i = 0;

	while (plan->machine[i].number != number)
		i++;
	return i;
}

static int plan_cables_make(struct plan *plan)
{
	int rc = 0;

	if (plan->machine_cnt == 3) {
		for (uint32_t n = 1; n <= 3 && !rc; n++)
			rc = plan_cable_make(plan, plan_numbered(plan, n), 0,
					     plan_numbered(plan, n % 3 + 1), 1);
		return rc;
	}
	for (uint32_t p = 0; p < plan->machine[0].ports.cnt && !rc; p++)
		rc = plan_cable_make(plan, 0, p, 1, p);
	return rc;
}

/* ---- subnets ---- */

/* Addresses that functions of the plan have now are replaced by it, so they take no net. */
static bool plan_has_nic(const struct plan *plan, const struct spw_plat_nic *nic)
{
	for (uint32_t i = 0; i < plan->link_cnt; i++)
		if (plan->link[i].end[0] == nic || plan->link[i].end[1] == nic)
			return true;
	return false;
}

/* Whether an interface outside the plan has an address in 10.net. */
static bool plan_net_taken(const struct plan *plan, const struct spw_plat *plat, uint32_t net)
{
	char start[16];

	snprintf(start, sizeof(start), "10.%u.", net);
	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const char *at = strstr(plat->nic[i].ipv4, start);

		if (at && (at == plat->nic[i].ipv4 || at[-1] == ' ') &&
		    !plan_has_nic(plan, &plat->nic[i]))
			return true;
	}
	return false;
}

/* The same net on all machines: 10.net must be free on each. */
static int plan_net_choose(struct plan *plan)
{
	for (plan->net = NET_FIRST; plan->net <= NET_LAST; plan->net++) {
		uint32_t i = 0;

		while (i < plan->machine_cnt &&
		       !plan_net_taken(plan, plan->machine[i].plat, plan->net))
			i++;
		if (i == plan->machine_cnt)
			return 0;
	}
	return spw_err(EINVAL, "every subnet 10.%u to 10.%u is in use", NET_FIRST, NET_LAST);
}

/* ---- apply ---- */

static int plan_write_error(const char *path)
{
	if (errno == ENOENT)
		return spw_err(ENOENT,
			       "%s: its folder is missing; --apply takes the root of a system that "
			       "has etc/netplan (/, or install netplan.io), or make the folder: "
			       "mkdir -p",
			       path);
	return spw_err(EIO, "%s: cannot write: %s", path, strerror(errno));
}

/* Writes beside the file and renames: whoever looks finds the old file or the whole new one. */
static int plan_apply(const struct plan *plan, const char *root, bool quiet)
{
	char path[PATH_MAX], temp[PATH_MAX + 8];
	FILE *file;
	bool whole;
	int fd;

	snprintf(path, sizeof(path), "%s/etc/netplan/60-spinwire.yaml", root);
	snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
	fd = mkstemp(temp); /* mode 0600, as netplan wants */
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file)
		return plan_write_error(path);
	plan_netplan(plan, 0, file);
	whole = fflush(file) == 0 && fsync(fd) == 0;
	whole = fclose(file) == 0 && whole;
	if (!whole || rename(temp, path)) {
		unlink(temp);
		return plan_write_error(path);
	}
	if (!quiet)
		printf("# written: %s; netplan apply makes it so\n", path);
	return 0;
}

int doctor_plan(const struct doctor_args *args, struct spw_plat *const *plat, uint32_t cnt)
{
	struct plan plan = {.machine_cnt = cnt, .own_name = "recorded"};
	int rc;

	if (!args->file_cnt)
		gethostname(plan.own_name, sizeof(plan.own_name) - 1);
	for (uint32_t i = 0; i < cnt; i++) {
		plan.machine[i].plat = plat[i];
		plan.machine[i].name = i ? args->peer[i - 1] : plan.own_name;
		plan_ports_find(plat[i], &plan.machine[i].ports);
	}
	if ((rc = plan_ports_check(&plan)) < 0)
		return rc;
	plan_number(&plan);
	if ((rc = plan_cables_make(&plan)) < 0 || (rc = plan_net_choose(&plan)) < 0)
		return rc;
	if (!doctor_is_quiet(args))
		plan_print(&plan);
	if (args->json && (rc = app_json_write("--json", plan_json(&plan), args->json)) < 0)
		return rc;
	return args->apply ? plan_apply(&plan, args->apply, args->verbosity.quiet) : 0;
}
