/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Counters of ports, read twice: those that move between the two readings hurt now. The second
 * reading is kept in the tree below later/. Source: Linux
 * Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst, rdma-core's and the
 * kernel's hw_counters of mlx5.
 *
 *    plat_counts_read(r, false)   first reading, kept in the tree
 *    ... sample_ms ...            plat.c waits
 *    plat_counts_read(r, true)    a fresh tree reads again ─► later/... ─► count.later
 *
 * Of a card's hundreds only the counters in the two lists below are noted: a finding about another
 * one (findings/nic.c) needs its name here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

static const char *const eth_name[] = {
	"rx_packets_phy",    "tx_packets_phy",    "rx_discards_phy",  "tx_discards_phy",
	"rx_pause_ctrl_phy", "tx_pause_ctrl_phy", "rx_global_pause",  "tx_global_pause",
	"rx_prio3_pause",    "tx_prio3_pause",    "rx_out_of_buffer", "outbound_pci_stalled_wr",
	"rx_symbol_err_phy", "rx_crc_errors_phy", "rx_ecn_mark",      "link_down_events_phy",
};

static const char *const hw_name[] = {
	"out_of_buffer",
	"out_of_sequence",
	"packet_seq_err",
	"np_cnp_sent",
	"np_ecn_marked_roce_packets",
	"rp_cnp_handled",
	"local_ack_timeout_err",
	"rnr_nak_retry_err",
	"rx_icrc_encapsulated",
	"req_cqe_error",
	"req_transport_retries_exceeded",
	"roce_adp_retrans",
	"roce_adp_retrans_to",
};

/* The value after "NAME " at the start of a line. */
static bool counts_stat(const char *text, const char *name, uint64_t *value_out)
{
	size_t len = strlen(name);

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		if (!strncmp(text, name, len) && text[len] == ' ') {
			*value_out = strtoull(text + len + 1, NULL, 10);
			return true;
		}
	return false;
}

/* The second reading only updates what the first one found: a counter that appears between the two
 * has no difference. */
static void counts_keep(struct spw_plat_nic *nic, const char *name, uint64_t value, bool later)
{
	for (uint32_t i = 0; i < nic->count_cnt; i++)
		if (!strcmp(nic->count[i].name, name)) {
			nic->count[i].later = value;
			return;
		}
	if (later || nic->count_cnt == SPW_PLAT_COUNT_MAX)
		return;
	plat_copy(nic->count[nic->count_cnt].name, sizeof(nic->count[0].name), name);
	nic->count[nic->count_cnt].first = nic->count[nic->count_cnt].later = value;
	nic->count_cnt++;
}

/* One text holds all statistics of an interface: asking a card for one costs as much as for all. */
static void counts_eth_read(struct plat_read *r, struct spw_plat_nic *nic, const char *path,
			    bool later)
{
	const char *text;
	char value[24];
	uint64_t count;

	if (plat_tree_read(r->tree, path, &text))
		return;
	for (size_t i = 0; i < SPW_ARRAY_CNT(eth_name); i++) {
		if (!counts_stat(text, eth_name[i], &count))
			continue;
		counts_keep(nic, eth_name[i], count, later);
		snprintf(value, sizeof(value), "%llu", (unsigned long long)count);
		plat_note(r, eth_name[i], value, path, NULL);
	}
}

/* A kernel that lacks a counter has no file of it, which leaves the counter out. */
static void counts_hw_read(struct plat_read *r, struct spw_plat_nic *nic, bool later)
{
	char path[160];

	for (size_t i = 0; i < SPW_ARRAY_CNT(hw_name); i++) {
		int64_t count;

		snprintf(path, sizeof(path), "%ssys/class/infiniband/%s/ports/1/hw_counters/%s",
			 later ? "later/" : "", nic->rdma, hw_name[i]);
		count = plat_number(r, hw_name[i], -1, "%s", path);
		if (count >= 0)
			counts_keep(nic, hw_name[i], (uint64_t)count, later);
	}
}

/* Reads a live counter again, as later/PATH. A live tree would return what it holds. */
static void counts_refresh(struct plat_read *r, const char *path)
{
	char later[PLAT_TREE_PATH_MAX];
	struct plat_tree *fresh;
	const char *text;

	snprintf(later, sizeof(later), "later/%.400s", path);
	if (plat_tree_new(true, &fresh))
		return;
	if (!strncmp(path, "ethtool/", 8)) {
		char dev[16];

		plat_copy(dev, SPW_MIN(sizeof(dev), strcspn(path + 8, "/") + 1), path + 8);
		plat_probe_stats(fresh, dev);
	}
	if (plat_tree_read(fresh, path, &text) == 0)
		plat_tree_put(r->tree, later, text);
	plat_tree_free(fresh);
}

/* Only what the first reading could have found. */
static void counts_nic_refresh(struct plat_read *r, const struct spw_plat_nic *nic)
{
	char path[160];

	snprintf(path, sizeof(path), "ethtool/%s/stats", nic->netdev);
	if (nic->netdev[0])
		counts_refresh(r, path);
	for (size_t i = 0; i < SPW_ARRAY_CNT(hw_name) && nic->rdma[0]; i++) {
		snprintf(path, sizeof(path), "sys/class/infiniband/%s/ports/1/hw_counters/%s",
			 nic->rdma, hw_name[i]);
		counts_refresh(r, path);
	}
}

/* A recorded tree is read as it is: it has its own later/. */
void plat_counts_read(struct plat_read *r, bool later)
{
	char path[96];

	for (uint32_t i = 0; i < r->plat->nic_cnt; i++) {
		struct spw_plat_nic *nic = &r->plat->nic[i];
		const char *name = nic->netdev[0] ? nic->netdev : nic->rdma;

		if (later && plat_tree_is_live(r->tree))
			counts_nic_refresh(r, nic);
		else if (nic->netdev[0] && plat_tree_is_live(r->tree))
			plat_probe_stats(r->tree, nic->netdev);
		plat_of(r, later ? "later nic %.32s" : "nic %.32s", name);
		snprintf(path, sizeof(path), "%sethtool/%s/stats", later ? "later/" : "",
			 nic->netdev);
		if (nic->netdev[0])
			counts_eth_read(r, nic, path, later);
		if (nic->rdma[0])
			counts_hw_read(r, nic, later);
	}
}

/* For callers that want one counter now, without the facts of a machine. */
int spw_plat_count_read(const char *netdev, const char *name, uint64_t *value_out)
{
	struct plat_tree *fresh;
	const char *text;
	char path[64];
	int rc = plat_tree_new(true, &fresh);

	if (rc < 0)
		return rc;
	plat_probe_stats(fresh, netdev);
	snprintf(path, sizeof(path), "ethtool/%.15s/stats", netdev);
	rc = plat_tree_read(fresh, path, &text) == 0 && counts_stat(text, name, value_out)
		     ? 0
		     : -ENOENT;
	plat_tree_free(fresh);
	return rc;
}
