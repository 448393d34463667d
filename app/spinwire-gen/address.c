/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The MAC addresses of the frames, where the user left them out (address.h). A NIC's function that
 * shares its port lets in only its own address and broadcast, so a made-up one reaches nobody
 * there.
 */
#include "address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_log.h"

#define ATF_COM 0x2u /* linux/if_arp.h: the entry is complete */

static const struct rte_ether_addr src_dflt = {{2, 0, 0, 0, 0, 1}}, dst_dflt = {{2, 0, 0, 0, 0, 2}};

/* proc_pid_net(5), arp: address, type, flags, MAC, mask, device. */
bool gen_address_neighbour(FILE *arp, uint32_t ip, struct rte_ether_addr *mac_out)
{
	char line[256], addr[INET_ADDRSTRLEN], mac[RTE_ETHER_ADDR_FMT_SIZE];
	unsigned int flags;
	struct in_addr at;

	while (fgets(line, sizeof(line), arp))
		if (sscanf(line, "%15s %*x %x %17s", addr, &flags, mac) == 3 && flags & ATF_COM &&
		    inet_pton(AF_INET, addr, &at) == 1 && ntohl(at.s_addr) == ip &&
		    rte_ether_unformat_addr(mac, mac_out) == 0)
			return true;
	return false;
}

/* The kernel's table is read once; no ARP request is sent, since the port may be one that the
 * kernel does not have. */
static bool address_neighbour(uint32_t ip, struct rte_ether_addr *mac_out)
{
	FILE *arp = fopen("/proc/net/arp", "re");
	bool found = arp && gen_address_neighbour(arp, ip, mac_out);

	if (arp)
		fclose(arp);
	return found;
}

void gen_address_fill(struct gen_frame_conf *frame, const struct spw_port *port)
{
	struct rte_ether_addr own;

	if (port->caps.messages)
		return;
	memcpy(own.addr_bytes, port->caps.mac, sizeof(own.addr_bytes));
	if (rte_is_zero_ether_addr(&frame->src_mac))
		frame->src_mac = rte_is_zero_ether_addr(&own) ? src_dflt : own;
	if (!rte_is_zero_ether_addr(&frame->dst_mac) ||
	    address_neighbour(frame->dst_ip, &frame->dst_mac))
		return;
	frame->dst_mac = dst_dflt;
	if (!rte_is_zero_ether_addr(&own))
		spw_info(
			"port %s: frames go to " RTE_ETHER_ADDR_PRT_FMT
			", since --dst-mac is not given and the kernel has no neighbour with "
			"--dst-ip; a VF, an SF or half of a DGX Spark's port receives only its own "
			"address",
			port->name, RTE_ETHER_ADDR_BYTES(&dst_dflt));
}
