/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * MACs of GIDs. A real card relies on the kernel's neighbour table; here the sources are, in order:
 *
 *   the GID itself   multicast groups, and link-local addresses made from a MAC
 *   the cable        shared memory: the port table has the address of every NIC
 *   the cache        learnt from ARP answers and arriving RoCE packets; NIC_NEIGH_MAX entries
 *
 * nic_resolve() asks by ARP for what is missing, and the command that wants it waits
 * (kernel/uverbs.c). As on a machine without gateways: an IPv4 address is asked for on the cable of
 * the source address, whatever its subnet (Linux, net/ipv4/route.c, ip_route_output_key_hash_rcu: a
 * destination without a route is on the link that was named). A link-local address needs its
 * neighbour, too, where the cable knows its NICs.
 *
 * Sources: RFC 826 (ARP), RFC 1112, RFC 2464, RFC 4291 (groups and link-local addresses).
 */
#include <errno.h>

#include "base/spw_log.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/up.h"

#define ASK_NS    1000000000ull /* Linux: retrans_time of a neighbour */
#define ARP_BYTES 60u

static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

/* NULL only without `make`. */
static struct nic_neigh *neigh_entry(struct nic_dev *nd, const uint8_t gid[16], bool make)
{
	struct nic_neigh *n;

	for (uint32_t i = 0; i < SPW_MIN(nd->neigh_cnt, NIC_NEIGH_MAX); i++)
		if (memcmp(nd->neigh[i].gid, gid, 16) == 0)
			return &nd->neigh[i];
	if (!make)
		return NULL;
	n = &nd->neigh[nd->neigh_cnt++ % NIC_NEIGH_MAX]; /* replaces the oldest */
	memset(n, 0, sizeof(*n));
	memcpy(n->gid, gid, 16);
	return n;
}

/* In this order: a group of IPv4, a group of IPv6, a link-local address with ff:fe in it. */
static bool neigh_from_gid(const uint8_t gid[16], uint8_t mac[6])
{
	if (hca_gid_is_ip4_group(gid)) {
		memcpy(mac, (const uint8_t[6]){0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15]},
		       6);
		return true;
	}
	if (gid[0] == 0xff) {
		memcpy(mac, (const uint8_t[6]){0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}, 6);
		return true;
	}
	if (gid[0] == 0xfe && gid[1] == 0x80 && gid[11] == 0xff && gid[12] == 0xfe) {
		memcpy(mac,
		       (const uint8_t[6]){gid[8] ^ 2, gid[9], gid[10], gid[13], gid[14], gid[15]},
		       6);
		return true;
	}
	return false;
}

/* By what is known now; asks nobody. */
bool neigh_find(struct nic_dev *nd, const uint8_t gid[16], uint8_t mac_out[6])
{
	const struct nic_neigh *n;

	if (neigh_from_gid(gid, mac_out))
		return true;
	if (hca_gid_is_ip4(gid) && memcmp(gid + 12, nd->dev->id.ip, 4) == 0) {
		memcpy(mac_out, nd->dev->id.mac, 6);
		return true;
	}
	if (hca_gid_is_ip4(gid) && nd->cable->ops->lookup &&
	    nd->cable->ops->lookup(nd->cable, gid + 12, mac_out))
		return true;
	n = neigh_entry(nd, gid, false);
	if (!n || !n->known)
		return false;
	memcpy(mac_out, n->mac, 6);
	return true;
}

/* op 1 asks, 2 answers dmac. Without room on the cable the frame is lost: who waits asks again. */
static void neigh_arp_send(struct nic_dev *nd, uint16_t op, const uint8_t dmac[6],
			   const uint8_t dip[4])
{
	uint8_t *p = nic_tx_reserve(nd, dmac, 0, ARP_BYTES);

	if (!p)
		return;
	memset(p, 0, ARP_BYTES);
	memcpy(p, dmac, 6);
	memcpy(p + 6, nd->dev->id.mac, 6);
	spw_prm_st16(p + 12, 0x0806);
	spw_prm_st64(p + 14, 0x0001080006040000ull | op);
	memcpy(p + 22, nd->dev->id.mac, 6);
	memcpy(p + 28, nd->dev->id.ip, 4);
	if (op == 2)
		memcpy(p + 32, dmac, 6);
	memcpy(p + 38, dip, 4);
	nic_tx_commit(nd, p, ARP_BYTES, false, 0, false, 0);
}

/* A new MAC replaces the old one, but a QP that has one keeps it. */
void neigh_learn(struct nic_dev *nd, const uint8_t gid[16], const uint8_t mac[6])
{
	struct nic_neigh *n = neigh_entry(nd, gid, true);

	if (n->known && memcmp(n->mac, mac, 6) == 0)
		return;
	memcpy(n->mac, mac, 6);
	n->known = true;
	qp_neigh_learnt(nd);
}

/* Another station announces one of this NIC's addresses: frames for either may reach the other.
 * Logged once. A cable of NICs alone refuses such a one, and has processes that share a card. */
static void neigh_conflict_check(struct nic_dev *nd, const uint8_t *f)
{
	const struct hca_dev_cfg *id = &nd->dev->id;
	const bool same_mac = memcmp(f + 22, id->mac, 6) == 0,
		   same_ip = memcmp(f + 28, id->ip, 4) == 0;

	if (spw_likely(!same_mac && !same_ip) || nd->conflict_logged || nd->cable->trusts)
		return;
	nd->conflict_logged = true;
	spw_warn("%s: %02x:%02x:%02x:%02x:%02x:%02x at %u.%u.%u.%u is on this cable too and has "
		 "the same %s; give each NIC its own --%s",
		 id->name, f[22], f[23], f[24], f[25], f[26], f[27], f[28], f[29], f[30], f[31],
		 same_mac ? "MAC" : "address", same_mac ? "mac" : "ip");
}

/* ARP between other stations is looked at for conflicts only. */
void neigh_arp_rx(struct nic_dev *nd, const uint8_t *f, uint32_t len)
{
	uint8_t gid[16] = {[10] = 0xff, [11] = 0xff};

	if (len < 42 || spw_prm_ld16(f + 12) != 0x0806 ||
	    spw_prm_ld64(f + 14) >> 16 != 0x000108000604ull)
		return;
	neigh_conflict_check(nd, f);
	if (memcmp(f + 38, nd->dev->id.ip, 4) != 0)
		return;
	memcpy(gid + 12, f + 28, 4);
	neigh_learn(nd, gid, f + 22);
	if (spw_prm_ld16(f + 20) == 1)
		neigh_arp_send(nd, 2, f + 22, f + 28);
}

/* Once in ASK_NS for an address, however many commands wait for it. */
static void neigh_ask(struct nic_dev *nd, const uint8_t dgid[16])
{
	struct nic_neigh *n = neigh_entry(nd, dgid, true);
	const uint64_t now = nic_now_ns();

	if (now - n->asked_ns <= ASK_NS)
		return;
	n->asked_ns = now;
	neigh_arp_send(nd, 1, broadcast, dgid + 12);
	nic_tx_flush(nd);
}

static bool gid_is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* The MAC is in the address, but the kernel uses it only if that neighbour answers. RoCE v1 does
 * not ask. */
static bool neigh_answers(struct nic_dev *nd, uint32_t sgid_index, const uint8_t mac[6])
{
	return !sgid_index || !nd->cable->ops->has || !memcmp(mac, nd->dev->id.mac, 6) ||
	       nd->cable->ops->has(nd->cable, mac);
}

int nic_resolve(struct hca_dev *dev, uint32_t sgid_index, const uint8_t dgid[16],
		uint8_t mac_out[6])
{
	const bool v4 = hca_gid_is_ip4(dgid), group = dgid[0] == 0xff || hca_gid_is_ip4_group(dgid);
	const bool local = gid_is_link_local(dgid);
	struct nic_dev *nd = dev->nic;

	if (!group && v4 != hca_gid_is_ip4(dev->gid[sgid_index]))
		return -EINVAL;
	if (neigh_find(nd, dgid, mac_out) &&
	    (!local || group || neigh_answers(nd, sgid_index, mac_out)))
		return 0;
	memcpy(mac_out, broadcast, 6);
	if (!v4 && !local)
		return -ENETUNREACH; /* from a link-local address, without a route */
	if (v4)
		neigh_ask(nd, dgid);
	return -EAGAIN;
}
