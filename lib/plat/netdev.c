/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whether the kernel uses a network interface (spw_netdev.h): the default route, addresses, and the
 * interfaces on top of it. All is read from the network namespace of the caller, but for the last,
 * which sysfs shows of the namespace that mounted it.
 *
 * lib/port (ethdev) and lib/rdma ask before they take frames away from the kernel, which would cut
 * off whoever is logged in through the interface. Read anew each time, not from the facts: routes
 * come and go.
 *
 *    name ── default route? ── address? ── upper_NAME (bond, bridge, VLAN): the same of each
 */
#include "plat/spw_netdev.h"

#include <arpa/inet.h>
#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>

#define UPPER "/upper_"

/* proc_net_route: interface, destination, gateway, flags, three counts, mask. */
static bool netdev_is_default4(const char *line, char name_out[IF_NAMESIZE])
{
	unsigned int to, mask;

	return sscanf(line, "%15s %x %*x %*x %*d %*d %*d %x", name_out, &to, &mask) == 3 && !to &&
	       !mask;
}

/* ipv6_route: destination, its length, five fields more, metric, flags ... interface. Every table
 * ends with a default route through lo that rejects (RTF_REJECT, linux/ipv6_route.h). */
static bool netdev_is_default6(const char *line, char name_out[IF_NAMESIZE])
{
	unsigned int bits, flags;

	return sscanf(line, "%*32s %x %*s %*s %*s %*s %*s %*s %x %15s", &bits, &flags, name_out) ==
		       3 &&
	       !bits && !(flags & RTF_REJECT);
}

/* A table that cannot be read has no route in it: no reason to refuse. */
static bool netdev_routes_through(const char *path,
				  bool (*is_default)(const char *line, char *name_out),
				  const char *name)
{
	char line[256], found[IF_NAMESIZE];
	FILE *f = fopen(path, "re");
	bool yes = false;

	while (f && !yes && fgets(line, sizeof(line), f))
		yes = is_default(line, found) && !strcmp(found, name);
	if (f)
		fclose(f);
	return yes;
}

/* The text of an address that others may use; an IPv6 link-local one is on every interface. */
static bool netdev_addr_text(const struct sockaddr *addr, char *text_out, socklen_t bytes)
{
	const struct sockaddr_in6 *six = (const void *)addr;

	if (addr->sa_family == AF_INET)
		return inet_ntop(AF_INET,
				 &((const struct sockaddr_in *)(const void *)addr)->sin_addr,
				 text_out, bytes);
	return addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) &&
	       inet_ntop(AF_INET6, &six->sin6_addr, text_out, bytes);
}

static bool netdev_has_address(const char *name, char *text_out, socklen_t bytes)
{
	struct ifaddrs *all = NULL;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (struct ifaddrs *a = all; a && !found; a = a->ifa_next)
		found = !strcmp(a->ifa_name, name) && a->ifa_addr &&
			netdev_addr_text(a->ifa_addr, text_out, bytes);
	freeifaddrs(all);
	return found;
}

/* why_out is set only with true. */
static bool netdev_own_use(const char *name, char *why_out, size_t bytes)
{
	char addr[INET6_ADDRSTRLEN];

	if (netdev_routes_through("/proc/net/route", netdev_is_default4, name) ||
	    netdev_routes_through("/proc/net/ipv6_route", netdev_is_default6, name)) {
		snprintf(why_out, bytes, "%s has the default route", name);
		return true;
	}
	if (!netdev_has_address(name, addr, sizeof(addr)))
		return false;
	snprintf(why_out, bytes, "%s has the address %s", name, addr);
	return true;
}

bool spw_netdev_in_use(const char *name, char *why_out, size_t bytes)
{
	char pattern[64];
	glob_t upper;
	bool used;

	if (!strcmp(name, "lo")) /* has unreachable default routes, and no port can take it */
		return false;
	used = netdev_own_use(name, why_out, bytes);
	snprintf(pattern, sizeof(pattern), "/sys/class/net/%.15s" UPPER "*", name);
	if (used || glob(pattern, 0, NULL, &upper))
		return used;
	for (size_t i = 0; i < upper.gl_pathc && !used; i++)
		used = netdev_own_use(strstr(upper.gl_pathv[i], UPPER) + strlen(UPPER), why_out,
				      bytes);
	globfree(&upper);
	return used;
}
