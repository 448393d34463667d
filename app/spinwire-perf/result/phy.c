/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Counters of the wire (phy.h). Source: Linux
 * Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst.
 *
 * Case files read the counters before and after the timed part at both ends, and judge both
 * together: bytes must have left one port and entered the other. The counters include headers, and
 * other traffic; a row is refused only if they moved by less than its payload.
 */
#include "result/phy.h"

#include <stdio.h>
#include <string.h>

#include "measure/coll.h"

#define PHY_LEAST 0.98       /* of the payload; headers make it more */
#define PHY_MIN   (1u << 20) /* less drowns in other traffic and in coarse counters */

/* Rails are named by RDMA device, the ports of TCP rows by interface: both are accepted. */
static const struct perf_nic *phy_nic_named(const struct perf_end *own, const char *word)
{
	for (uint32_t i = 0; i < own->nic_cnt; i++)
		if (!strcmp(own->nic[i].rdma, word) || !strcmp(own->nic[i].netdev, word))
			return &own->nic[i];
	return NULL;
}

/* The words may be the other end's: nothing but ports of this machine is looked up. */
static bool is_slave(const struct perf_end *own, const char *word)
{
	char slaves[sizeof(own->bond[0].slaves)], *rest;

	for (uint32_t i = 0; i < own->bond_cnt; i++) {
		memcpy(slaves, own->bond[i].slaves, sizeof(slaves));
		for (char *name = strtok_r(slaves, "+", &rest); name;
		     name = strtok_r(NULL, "+", &rest))
			if (!strcmp(name, word))
				return true;
	}
	return false;
}

/* Reads both counters or none: half of a port would be judged as loss. */
static bool port_add(const char *netdev, const char *word, struct perf_phy *phy)
{
	uint64_t tx, rx;

	if (!netdev[0])
		snprintf(phy->why, sizeof(phy->why), "%.32s has no network interface to ask", word);
	else if (spw_plat_count_read(netdev, "tx_bytes_phy", &tx) < 0 ||
		 spw_plat_count_read(netdev, "rx_bytes_phy", &rx) < 0)
		snprintf(phy->why, sizeof(phy->why), "%.32s reports no tx_bytes_phy (ethtool -S)",
			 netdev);
	else {
		phy->tx += tx;
		phy->rx += rx;
		return true;
	}
	return false;
}

/* A port is counted once, also if several functions or QPs of the list lie on it. */
void perf_phy_read(const struct perf_end *own, const char *rails, struct perf_phy *phy_out)
{
	uint64_t ports = 0;
	char text[160], *rest = NULL;

	memset(phy_out, 0, sizeof(*phy_out));
	snprintf(text, sizeof(text), "%s", rails);
	phy_out->known = text[0] != '\0';
	if (!phy_out->known)
		snprintf(phy_out->why, sizeof(phy_out->why), "no port is known");
	for (char *word = strtok_r(text, "+", &rest); word && phy_out->known;
	     word = strtok_r(NULL, "+", &rest)) {
		const struct perf_nic *nic = phy_nic_named(own, word);

		if (!nic && !is_slave(own, word)) {
			phy_out->known = false;
			snprintf(phy_out->why, sizeof(phy_out->why), "%.32s is no port of %.32s",
				 word, own->host);
			return;
		}
		if (nic && (ports >> (nic->port & 63) & 1))
			continue;
		ports |= nic ? 1ull << (nic->port & 63) : 0;
		phy_out->known = port_add(nic ? nic->netdev : word, word, phy_out);
	}
}

/* What was unknown before stays so: a difference to nothing would be the counter itself. */
void perf_phy_since(const struct perf_end *own, const char *ports, const struct perf_phy *before,
		    struct perf_phy *moved_out)
{
	perf_phy_read(own, ports, moved_out);
	if (!before->known)
		*moved_out = *before;
	if (!moved_out->known)
		return;
	moved_out->tx -= before->tx;
	moved_out->rx -= before->rx;
}

json_t *perf_phy_json(const struct perf_phy *moved)
{
	if (!moved->known)
		return json_pack("{s:s}", "unknown", moved->why);
	return json_pack("{s:I,s:I}", "tx", (json_int_t)moved->tx, "rx", (json_int_t)moved->rx);
}

/* A reason instead of numbers is no error: the row is unverified then. */
int perf_phy_parse(const json_t *json, struct perf_phy *phy_out)
{
	int rc;

	memset(phy_out, 0, sizeof(*phy_out));
	perf_text(json, "unknown", phy_out->why, sizeof(phy_out->why));
	if (phy_out->why[0])
		return 0;
	phy_out->known = true;
	rc = perf_number(json, "tx", INT64_MAX, &phy_out->tx);
	return rc ? rc : perf_number(json, "rx", INT64_MAX, &phy_out->rx);
}

/* A READ moves bytes against the direction of its requests, so out and in are exchanged. */
void perf_phy_judge(const struct perf_phy *own, const struct perf_phy *peer,
		    struct perf_result *result)
{
	bool read = result->what.op == PERF_READ;
	uint64_t here = result->own.total * result->what.bytes;
	uint64_t there = result->what.both || (result->what.latency && !read &&
					       result->what.op != PERF_EGRESS)
				 ? result->peer.total * result->what.bytes
				 : 0;
	uint64_t out = read ? there : here, in = read ? here : there;

	if (!own->known || !peer->known) {
		perf_mark(result, PERF_UNVERIFIED, "PHY counters cannot be read: %s",
			  own->known ? peer->why : own->why);
		return;
	}
	if (out > PHY_MIN && (double)SPW_MIN(own->tx, peer->rx) < PHY_LEAST * (double)out)
		perf_mark(result, PERF_INVALID,
			  "%llu bytes were sent, but the PHY counters moved by %llu: they did not "
			  "cross the wire",
			  (unsigned long long)out, (unsigned long long)SPW_MIN(own->tx, peer->rx));
	if (in > PHY_MIN && (double)SPW_MIN(own->rx, peer->tx) < PHY_LEAST * (double)in)
		perf_mark(result, PERF_INVALID,
			  "%llu bytes were received, but the PHY counters moved by %llu: they did "
			  "not cross the wire",
			  (unsigned long long)in, (unsigned long long)SPW_MIN(own->rx, peer->tx));
}

/* Maps the collective to the row that moves the same bytes, and takes over the verdict of that. */
void perf_coll_phy_judge(const struct perf_phy *own, const struct perf_phy *peer,
			 struct perf_result *result)
{
	bool one_way = result->what.coll == PERF_COLL_BROADCAST;
	struct perf_result moved = {.what = {.op = one_way ? PERF_READ : PERF_WRITE,
					     .both = !one_way,
					     .bytes = perf_coll_bus_bytes(&result->what)},
				    .own = result->own,
				    .peer = result->own};

	perf_phy_judge(own, peer, &moved);
	if (moved.valid)
		perf_mark(result, moved.valid, "%s", moved.why);
}
