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

#include <rte_ether.h>

#include "base/spw_log.h"

#define ATF_COM 0x2u /* linux/if_arp.h: the entry is complete */

static const uint8_t none[ETH_ALEN], src_dflt[ETH_ALEN] = {2, 0, 0, 0, 0, 1},
				     dst_dflt[ETH_ALEN] = {2, 0, 0, 0, 0, 2};

bool gen_address_parse(const char *text, uint8_t mac_out[ETH_ALEN])
{
	return rte_ether_unformat_addr(text, (struct rte_ether_addr *)mac_out) == 0;
}

void gen_address_text(const uint8_t mac[ETH_ALEN], char text_out[GEN_MAC_TEXT_BYTES])
{
	rte_ether_format_addr(text_out, GEN_MAC_TEXT_BYTES, (const struct rte_ether_addr *)mac);
}

static bool address_is_none(const uint8_t mac[ETH_ALEN])
{
	return !memcmp(mac, none, ETH_ALEN);
}

/* proc_pid_net(5), arp: address, type, flags, MAC, mask, device. */
bool gen_address_neighbour(FILE *arp, uint32_t ip, uint8_t mac_out[ETH_ALEN])
{
	char line[256], addr[INET_ADDRSTRLEN], mac[GEN_MAC_TEXT_BYTES];
	unsigned int flags;
	struct in_addr at;

	while (fgets(line, sizeof(line), arp))
		if (sscanf(line, "%15s %*x %x %17s", addr, &flags, mac) == 3 && flags & ATF_COM &&
		    inet_pton(AF_INET, addr, &at) == 1 && ntohl(at.s_addr) == ip &&
		    gen_address_parse(mac, mac_out))
			return true;
	return false;
}

/* The kernel's table is read once; no ARP request is sent, since the port may be one that the
 * kernel does not have. */
static bool address_neighbour(uint32_t ip, uint8_t mac_out[ETH_ALEN])
{
	FILE *arp = fopen("/proc/net/arp", "re");
	bool found = arp && gen_address_neighbour(arp, ip, mac_out);

	if (arp)
		fclose(arp);
	return found;
}

void gen_address_fill(struct gen_frame_conf *frame, const struct spw_port *port)
{
	const uint8_t *own = port->caps.mac;
	char text[GEN_MAC_TEXT_BYTES];

	if (port->caps.messages)
		return;
	if (address_is_none(frame->src_mac))
		memcpy(frame->src_mac, address_is_none(own) ? src_dflt : own, ETH_ALEN);
	if (!address_is_none(frame->dst_mac) || address_neighbour(frame->dst_ip, frame->dst_mac))
		return;
	memcpy(frame->dst_mac, dst_dflt, ETH_ALEN);
	gen_address_text(dst_dflt, text);
	if (!address_is_none(own))
		spw_info(
			"port %s: frames go to %s, since --dst-mac is not given and the kernel has "
			"no neighbour with "
			"--dst-ip; a VF, an SF or half of a DGX Spark's port receives only its own "
			"address",
			port->name, text);
}
