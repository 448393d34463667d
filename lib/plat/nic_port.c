/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The network interface and the RDMA port of a function. Source: Linux
 * Documentation/ABI/testing/sysfs-class-net, Documentation/ABI/stable/sysfs-class-infiniband.
 *
 * nics.c calls these after the PCIe function was read. GIDs decide what RDMA can reach, so NCCL's
 * and UCX's own rule is followed: the finding names the entry that they will take.
 *
 *    gids/0   fe80::...            link-local, RoCE v1
 *    gids/2   ::ffff:169.254.1.2   RoCE v2 over IPv4: the first one, taken though link-local
 *    gids/3   ::ffff:10.0.0.1      RoCE v2 over IPv4: routable
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

#define PORT "sys/class/infiniband/%s/ports/1/"

/* ---- Ethernet ---- */

/* The number after a word: "speed 200000 max 200000", "max". */
static int64_t port_word_number(const char *text, const char *word, int64_t dflt)
{
	const char *at = strstr(text, word);
	char *end;
	int64_t value;

	if (!at)
		return dflt;
	value = strtoll(at + strlen(word), &end, 10);
	return end == at + strlen(word) ? dflt : value;
}

/* Whether the interface has the default route: its line in route has destination and mask 0. */
static bool port_has_default_route(struct plat_read *r, const char *dev)
{
	const char *text;
	size_t len = strlen(dev);

	if (plat_tree_read(r->tree, "proc/net/route", &text))
		return false;
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		if (!strncmp(text, dev, len) && !strncmp(text + len, "\t00000000\t", 10))
			return true;
	return false;
}

/* phys_switch_id and phys_port_name are what devlink calls the port: equal for two halves of one
 * port. */
void plat_nic_eth_read(struct plat_read *r, struct spw_plat_nic *nic, const char *dir)
{
	const char *dev = nic->netdev;
	char text[96];

	plat_text(r, "switch_id", nic->switch_id, sizeof(nic->switch_id), "%s/phys_switch_id", dir);
	plat_text(r, "port_name", nic->port_name, sizeof(nic->port_name), "%s/phys_port_name", dir);
	plat_text(r, "mac", nic->mac, sizeof(nic->mac), "%s/address", dir);
	nic->mtu = (uint32_t)plat_count(r, "mtu", "%s/mtu", dir);
	nic->carrier = (int32_t)plat_number(r, "carrier", -1, "%s/carrier", dir);
	nic->speed_mbit = plat_number(r, "speed", -1, "%s/speed", dir);
	plat_text(r, "link_modes", text, sizeof(text), "ethtool/%s/link", dev);
	nic->speed_max_mbit = port_word_number(text, "max ", -1);
	plat_text(r, "pause", text, sizeof(text), "ethtool/%s/pause", dev);
	if (plat_tree_is_live(r->tree))
		plat_probe_dcb(r->tree, dev);
	nic->pfc = (int32_t)plat_number(r, "pfc", -1, "dcb/%s/pfc", dev);
	plat_text(r, "dscp", text, sizeof(text), "dcb/%s/dscp", dev);
	plat_text(r, "driver_firmware", text, sizeof(text), "ethtool/%s/firmware", dev);
	nic->ipv4_known = plat_text(r, "ipv4", nic->ipv4, sizeof(nic->ipv4), "addr/%s", dev);
	plat_link_name(r, "bond", nic->bond, sizeof(nic->bond), "%s/master", dir);
	nic->default_route = port_has_default_route(r, dev);
	plat_note(r, "default_route", nic->default_route ? "1" : "0", "/proc/net/route", NULL);
}

/* ---- RDMA ---- */

/* "0000:0000:0000:0000:0000:ffff:0a00:0001" as "10.0.0.1". Returns: false if it is not IPv4. */
static bool port_gid_ipv4(const char *gid, char out[16])
{
	unsigned int high, low;

	if (strncmp(gid, "0000:0000:0000:0000:0000:ffff:", 30) ||
	    sscanf(gid + 30, "%4x:%4x", &high, &low) != 2)
		return false;
	snprintf(out, 16, "%u.%u.%u.%u", high >> 8 & 255, high & 255, low >> 8 & 255, low & 255);
	return true;
}

/* "fe80:..." is link-local, and zeros are an empty entry. */
static bool port_gid_ipv6(const char *gid)
{
	unsigned int first;

	return strncmp(gid, "0000:0000:0000:0000:", 20) && sscanf(gid, "%4x:", &first) == 1 &&
	       (first & 0xffc0) != 0xfe80;
}

struct gid_walk {
	struct plat_read *r;
	struct spw_plat_nic *nic;
};

/* The first entry of RoCE v2 over IPv4, link-local or not, is the one that NCCL takes (2.21 or
 * later, src/transport/net_ib/connect.cc, ncclUpdateGidIndex) and UCX (src/uct/ib/base/ib_device.c,
 * uct_ib_device_select_gid). */
static bool port_gid_read(const char *number, void *arg)
{
	struct gid_walk *walk = arg;
	struct spw_plat_nic *nic = walk->nic;
	int32_t idx = atoi(number);
	char gid[48], type[16], ip[16] = "";

	if (!plat_text(walk->r, "", gid, sizeof(gid), PORT "gids/%.8s", nic->rdma, number) ||
	    (!port_gid_ipv4(gid, ip) && !port_gid_ipv6(gid)))
		return true;
	nic->gids_known = plat_text(walk->r, "", type, sizeof(type), PORT "gid_attrs/types/%.8s",
				    nic->rdma, number);
	if (strcmp(type, "RoCE v2"))
		return true;
	if (!*ip) {
		nic->gid_v2_ipv6 = true;
		return true;
	}
	nic->gid_v2_ipv4_cnt++;
	if (nic->gid_v2_ipv4 < 0 || idx < nic->gid_v2_ipv4) {
		nic->gid_v2_ipv4 = idx;
		plat_copy(nic->gid_ipv4, sizeof(nic->gid_ipv4), ip);
	}
	if (strncmp(ip, "169.254.", 8) && (nic->gid_routable < 0 || idx < nic->gid_routable))
		nic->gid_routable = idx;
	return true;
}

static void port_gids_read(struct plat_read *r, struct spw_plat_nic *nic)
{
	char path[128], text[32], source[160];

	snprintf(path, sizeof(path), PORT "gids", nic->rdma);
	nic->gids_known = plat_is_there(r, "%s", path);
	plat_tree_each(r->tree, path, port_gid_read, &(struct gid_walk){r, nic});
	snprintf(text, sizeof(text), "%d", nic->gid_v2_ipv4);
	snprintf(source, sizeof(source), "/" PORT "{gids,gid_attrs/types}/*", nic->rdma);
	plat_note(r, "gid_roce_v2_ipv4", nic->gid_v2_ipv4 < 0 ? "none" : text, source,
		  nic->gids_known ? NULL : "absent");
	plat_note(r, "gid_address", nic->gid_ipv4, source, nic->gid_ipv4[0] ? NULL : "none");
}

/* The largest RDMA packet that fits an Ethernet MTU together with the largest headers that it may
 * need. Source: Linux include/rdma/ib_addr.h, iboe_get_mtu(). */
static uint32_t port_path_mtu(uint32_t mtu)
{
	const uint32_t headers = 40 + 8 + 12 + 4 + 28 + 4;
	uint32_t best = 0;

	for (uint32_t bytes = 256; bytes <= 4096; bytes *= 2)
		if (mtu >= bytes + headers)
			best = bytes;
	return best;
}

/* Ends the walk at the device's own entry; access is tried, because rights alone do not decide it.
 */
static bool port_uverbs_read(const char *name, void *arg)
{
	struct gid_walk *walk = arg;
	struct plat_read *r = walk->r;
	struct spw_plat_nic *nic = walk->nic;
	char text[32], path[96];
	const char *unused;

	if (!plat_text(r, "", text, sizeof(text), "sys/class/infiniband_verbs/%.16s/ibdev", name) ||
	    strcmp(text, nic->rdma))
		return true;
	plat_copy(nic->uverbs, sizeof(nic->uverbs), name);
	snprintf(path, sizeof(path), "dev/infiniband/%.16s", name);
	if (plat_tree_is_live(r->tree))
		plat_probe_access(r->tree, path);
	snprintf(path, sizeof(path), "access/dev/infiniband/%.16s", name);
	nic->uverbs_error = plat_tree_read(r->tree, path, &unused);
	plat_text(r, "uverbs_access", text, sizeof(text), "%s", path);
	return false;
}

/* Port 1 only: mlx5 makes a device for each port. */
void plat_nic_rdma_read(struct plat_read *r, struct spw_plat_nic *nic)
{
	char text[32];

	plat_note(r, "rdma_device", nic->rdma, "/sys/class/infiniband", NULL);
	plat_text(r, "sys_image_guid", nic->serial_guid, sizeof(nic->serial_guid),
		  "sys/class/infiniband/%s/sys_image_guid", nic->rdma);
	plat_text(r, "firmware", nic->firmware, sizeof(nic->firmware),
		  "sys/class/infiniband/%s/fw_ver", nic->rdma);
	plat_text(r, "board", text, sizeof(text), "sys/class/infiniband/%s/board_id", nic->rdma);
	/* A file that no card has (lib/softhca/kernel/sysfs.c). */
	nic->is_software = plat_text(r, "", text, sizeof(text),
				     "sys/class/infiniband/%s/enforced_mbps", nic->rdma);
	if (plat_text(r, "port_state", text, sizeof(text), PORT "state", nic->rdma))
		nic->port_active = !strncmp(text, "4:", 2);
	plat_text(r, "link_layer", text, sizeof(text), PORT "link_layer", nic->rdma);
	nic->link_is_ethernet = !strcmp(text, "Ethernet");
	nic->link_is_infiniband = !strcmp(text, "InfiniBand");
	plat_text(r, "rate", text, sizeof(text), PORT "rate", nic->rdma);
	port_gids_read(r, nic);
	nic->path_mtu = nic->link_is_ethernet ? port_path_mtu(nic->mtu) : 0;
	snprintf(text, sizeof(text), "%u", nic->path_mtu);
	plat_note(r, "path_mtu", nic->path_mtu ? text : "",
		  "from mtu, by the rule of the kernel's iboe_get_mtu()",
		  nic->path_mtu ? NULL : "the MTU is unknown or below 352");
	plat_tree_each(r->tree, "sys/class/infiniband_verbs", port_uverbs_read,
		       &(struct gid_walk){r, nic});
}
