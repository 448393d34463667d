/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The statistics of a network interface, as "ethtool -S" prints them: for lib/plat, which keeps all
 * of them as facts, and for lib/rdma, which asks for three. And what a physical port counts, by
 * which every driver shows whether its frames crossed a cable.
 */
#ifndef SPW_PLAT_ETHTOOL_H
#define SPW_PLAT_ETHTOOL_H

#include "frame/spw_port_event.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- statistics of an interface ---- */

/* Purpose: one ETHTOOL_* command of an interface; cmd as SIOCETHTOOL takes it.
 * Returns: 0, or -1 with errno. */
typedef int spw_ethtool_fn(void *arg, const char *netdev, void *cmd);

/* All statistics at one moment, in the driver's order. Fill it from zero. */
struct spw_ethtool_stats {
	struct ethtool_gstrings *names;
	struct ethtool_stats *values;
	uint32_t cnt;
};

/* Purpose: the kernel's answer: a spw_ethtool_fn of a socket of the caller's network namespace.
 * Shape:   arg: int *, a socket of any kind.
 * Thread:  any. */
int spw_ethtool_kernel(void *socket, const char *netdev, void *cmd);

/* Purpose: reads all statistics through call(arg, ...).
 * Owner:   the caller, until spw_ethtool_stats_free, also after an error.
 * Thread:  any, outside the bursts.
 * Errors:  without a text: -EOPNOTSUPP the interface has none, or more than is possible; -ENOMEM;
 *   else -errno of call. stats_out is then empty.
 * Source:  linux/ethtool.h. */
int spw_ethtool_stats_read(spw_ethtool_fn *call, void *arg, const char *netdev,
			   struct spw_ethtool_stats *stats_out);

/* Purpose: frees what was read; an empty one is fine.
 * Thread:  any. */
void spw_ethtool_stats_free(struct spw_ethtool_stats *stats);

#define SPW_ETHTOOL_NAME_MAX 33u /* with the ending 0 */

/* Purpose: name and value of statistic i.
 * Shape:   i 0 .. cnt - 1. The driver's name need not end; name_out does.
 * Thread:  any. */
uint64_t spw_ethtool_stats_at(const struct spw_ethtool_stats *stats, uint32_t i,
			      char name_out[SPW_ETHTOOL_NAME_MAX]);

/* Purpose: the value of one statistic, by its whole name.
 * Returns: false: there is none of this name.
 * Thread:  any. */
bool spw_ethtool_stats_find(const struct spw_ethtool_stats *stats, const char *name,
			    uint64_t *value_out);

/* ---- what a physical port counts ---- */

/* All functions of a port report the same numbers, whichever of them the frames are of; therefore
 * they are shown, and are not part of the ledger. Frames between functions of one port turn round
 * inside the NIC, and the packet counters stand still. Source: Linux
 * Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst. */
enum spw_phy_stat { SPW_PHY_RX, SPW_PHY_TX, SPW_PHY_DISCARDS, SPW_PHY_CNT };

struct spw_phy_count {
	uint64_t value; /* valid if known */
	bool known;     /* false: the port has no such counter, or it cannot be read */
};

/* Purpose: sets the phy_* and port_discards of stat to what was counted between two readings;
 *   unknown unless both knew the counter.
 * Thread:  any. */
void spw_phy_moved(const struct spw_phy_count base[SPW_PHY_CNT],
		   const struct spw_phy_count now[SPW_PHY_CNT], struct spw_port_stat *stat_out);

#ifdef __cplusplus
}
#endif
#endif
