/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Addresses for two machines that are cabled to each other. The linked ports of one are paired with
 * the linked ports of the other in order, and the halves of each pair likewise; each pair of halves
 * is a subnet of its own, or the kernel would send all traffic over one of them. Both machines make
 * the same plan: the one whose first port has the lower MAC address is .1.
 *
 * Called by main.c with two machines that were read or loaded; plan_print.c prints what is settled
 * here.
 *
 *    this machine            peer                 subnet
 *    port 0  half a  ──────  half a  port 0       10.net.0.0/24
 *            half b  ──────  half b               10.net.1.0/24
 *    port 1  half a  ──────  half a  port 1       10.net.2.0/24
 *
 * Nothing is changed but the file of --apply; the user runs netplan.
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

/* Functions that a plan may use: RDMA over Ethernet with a link. Names of functions end up in files
 * and commands, so odd ones are refused. */
static bool plan_is_plain(const char *name)
{
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			return false;
	return isalnum((unsigned char)name[0]);
}

static bool plan_is_usable(const struct spw_plat_nic *nic)
{
	return nic->carrier == 1 && nic->link_is_ethernet && !nic->default_route && !nic->is_vf &&
	       plan_is_plain(nic->netdev) && plan_is_plain(nic->rdma);
}

struct ports {
	const struct spw_plat_nic *half[PLAN_LINK_MAX][2];
	uint32_t half_cnt[PLAN_LINK_MAX];
	uint32_t cnt;
};

/* Functions by physical port: half_of refers to an earlier one, whose port is known by then. */
static void plan_ports(const struct spw_plat *plat, struct ports *out)
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

/* A receipt of this machine in place of the peer's would make a plan with itself. */
static bool plan_same_machine(const struct ports *a, const struct ports *b)
{
	for (uint32_t i = 0; i < a->cnt; i++)
		for (uint32_t k = 0; k < b->cnt; k++)
			if (a->half[i][0]->mac[0] &&
			    !strcmp(a->half[i][0]->mac, b->half[k][0]->mac))
				return true;
	return false;
}

/* What cannot be paired without a guess is refused, with what would make it unambiguous. */
static int plan_ports_check(const struct ports *own, const struct ports *peer)
{
	if (own->cnt == 0 || peer->cnt == 0)
		return spw_err(EINVAL,
			       "%s has no RDMA port with a link that is free of the default route; "
			       "plug the cable in, ip link set ... up, and look at spinwire-doctor",
			       own->cnt ? "the peer" : "this machine");
	if (plan_same_machine(own, peer))
		return spw_err(EINVAL,
			       "the peer is this machine: its first port has the same MAC "
			       "address; take the receipt of the other one%s",
			       own->half[0][0]->is_software
				       ? " (with-softhca --mac A,B gives an emulated one its own)"
				       : "");
	if (own->cnt != peer->cnt)
		return spw_err(
			EINVAL,
			"this machine has %u ports with a link and its peer %u: which cable "
			"leads where cannot be known; ip link set ... down on those that lead "
			"elsewhere",
			own->cnt, peer->cnt);
	return 0;
}

/* A function that has no partner shares the last one's of the other side. */
static int plan_links_make(struct plan *plan, const struct ports *own, const struct ports *peer)
{
	for (uint32_t p = 0; p < own->cnt; p++) {
		uint32_t halves = SPW_MAX(own->half_cnt[p], peer->half_cnt[p]);

		for (uint32_t h = 0; h < halves; h++) {
			if (plan->link_cnt == PLAN_LINK_MAX)
				return spw_err(EINVAL, "more than %u pairs of functions",
					       PLAN_LINK_MAX);
			plan->link[plan->link_cnt++] = (struct plan_link){
				.own = own->half[p][SPW_MIN(h, own->half_cnt[p] - 1)],
				.peer = peer->half[p][SPW_MIN(h, peer->half_cnt[p] - 1)],
				.cable = p};
		}
	}
	plan->cable_cnt = own->cnt;
	return 0;
}

/* Addresses that functions of the plan have now are replaced by it, so they take no net. */
static bool plan_has_nic(const struct plan *plan, const struct spw_plat_nic *nic)
{
	for (uint32_t i = 0; i < plan->link_cnt; i++)
		if (plan->link[i].own == nic || plan->link[i].peer == nic)
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

/* The same net on both machines: 10.net must be free on either. */
static int plan_net_choose(struct plan *plan, const struct spw_plat *own,
			   const struct spw_plat *peer)
{
	for (plan->net = NET_FIRST; plan->net <= NET_LAST; plan->net++)
		if (!plan_net_taken(plan, own, plan->net) && !plan_net_taken(plan, peer, plan->net))
			return 0;
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
	plan_netplan(plan, false, file);
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

int doctor_plan(const struct doctor_args *args, const struct spw_plat *own,
		const struct spw_plat *peer)
{
	struct ports own_ports, peer_ports;
	struct plan plan = {.own_name = "recorded", .peer_name = args->peer};
	int rc;

	if (!args->file_cnt)
		gethostname(plan.own_name, sizeof(plan.own_name) - 1);
	plan_ports(own, &own_ports);
	plan_ports(peer, &peer_ports);
	if ((rc = plan_ports_check(&own_ports, &peer_ports)) < 0 ||
	    (rc = plan_links_make(&plan, &own_ports, &peer_ports)) < 0 ||
	    (rc = plan_net_choose(&plan, own, peer)) < 0)
		return rc;
	/* The same comparison at the other machine comes out the other way round. */
	plan.own_is_first = strcmp(plan.link[0].own->mac, plan.link[0].peer->mac) < 0;
	if (!doctor_is_quiet(args))
		plan_print(&plan, own, peer);
	if (args->json &&
	    (rc = app_json_write("--json", plan_json(&plan, own, peer), args->json)) < 0)
		return rc;
	return args->apply ? plan_apply(&plan, args->apply, args->verbosity.quiet) : 0;
}
