/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the kernel does with a network interface that a port is about to take. For lib/rdma and
 * lib/port.
 */
#ifndef SPW_PLAT_NETDEV_H
#define SPW_PLAT_NETDEV_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: whether the kernel uses an interface, or one on top of it (bridge, bond, VLAN): it has
 *          the default route, or an address other than an IPv6 link-local one. lo, which software
 *          RDMA devices name, is in nobody's way.
 * Shape:   name as in "ip link"; why_out: up to 80 bytes, "eth0 has the default route".
 * Thread:  setup
 * Source:  proc_pid_net(5) route, ipv6_route; sysfs-class-net, upper_*. */
bool spw_netdev_in_use(const char *name, char *why_out, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
