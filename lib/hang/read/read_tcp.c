/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * TCP connections of the processes under NCCL that nobody has answered, and the addresses of this
 * host: together they say which machine, or which wrong interface, a rank waits for at the start.
 *
 *   proc/PID/net/tcp   " 0: 0100000A:A3F2 0200000A:1B58 02 ... INODE": 02 is SYN_SENT
 *   proc/PID/fd/N      "socket:[INODE]": whose it is
 *
 * The kernel lists the connections of a whole network namespace, with every process in it, so each
 * one is matched with the descriptors of the process by its inode. That walk is the expensive part;
 * it is made for connections in SYN_SENT alone, which are few.
 *
 * A SYN that is on its way is in that state for a moment too: net.c blames only one that the first
 * and the last snapshot have with the same two addresses.
 *
 * Addresses are words as the kernel has them in memory, so a recording is read on a machine of its
 * own byte order. Source: proc(5), Linux
 * Documentation/networking/proc_net_tcp.rst.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hang/read/read_impl.h"

#define TABLE_BYTES (1u << 20) /* of a table; what exceeds it is not read */
#define FDS_MAX     4096       /* of a process */
#define SYN_SENT    2u         /* TCP_SYN_SENT of the kernel's net/tcp_states.h */

/* "0100000A:1B58" as "10.0.0.1:7000", 32 digits as "[fd00::1]:7000". */
static bool read_tcp_address(const char *hex, char *out, size_t bytes)
{
	const size_t digits = strcspn(hex, ":");
	char text[INET6_ADDRSTRLEN];
	unsigned int port;
	uint32_t word[4];

	if ((digits != 8 && digits != 32) || sscanf(hex + digits, ":%4x", &port) != 1)
		return false;
	for (size_t i = 0; i < digits / 8; i++)
		if (sscanf(hex + 8 * i, "%8x", &word[i]) != 1)
			return false;
	if (!inet_ntop(digits == 8 ? AF_INET : AF_INET6, word, text, sizeof(text)))
		return false;
	snprintf(out, bytes, digits == 8 ? "%s:%u" : "[%s]:%u", text, port);
	return true;
}

/* Whether a process has the socket: its connections, not those of others in its namespace. */
static bool read_tcp_is_of(struct hang_read *r, int64_t pid, unsigned long inode)
{
	char **fd, link[64], wanted[64];
	int cnt = hang_names(r, &fd, FDS_MAX, "proc/%" PRId64 "/fd", pid);
	bool is = false;

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	for (int i = 0; i < cnt && !is; i++)
		is = hang_link(r, link, sizeof(link), "proc/%" PRId64 "/fd/%s", pid, fd[i]) &&
		     !strcmp(link, wanted);
	if (cnt >= 0)
		hang_names_free(fd, cnt);
	return is;
}

/* The table's heading does not match the format and is passed over like any malformed line. */
static void read_tcp_line(struct hang_read *r, int64_t pid, const char *line)
{
	char local[48], remote[48];
	struct spw_hang_dial_row found = {.pid = spw_hang_num(pid), .state = "SYN_SENT"}, *row;
	unsigned int state;
	unsigned long inode;

	if (sscanf(line, " %*d: %47s %47s %2x %*s %*s %*s %*d %*d %lu", local, remote, &state,
		   &inode) != 4 ||
	    state != SYN_SENT || !read_tcp_address(local, found.local, sizeof(found.local)) ||
	    !read_tcp_address(remote, found.remote, sizeof(found.remote)) ||
	    !read_tcp_is_of(r, pid, inode) ||
	    !(row = spw_hang_row_add(r->snap, SPW_HANG_TABLE_dial)))
		return;
	*row = found;
}

/* As hang_peer_host compares them: as text, without port. Loopback is among them. */
static void read_tcp_addrs(struct hang_read *r)
{
	struct ifaddrs *all, *at;

	if (!hang_is_live(r) || getifaddrs(&all) < 0)
		return;
	for (at = all; at; at = at->ifa_next) {
		const int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
		const void *raw =
			family == AF_INET
				? (const void *)&((struct sockaddr_in *)(void *)at->ifa_addr)
					  ->sin_addr
				: (const void *)&((struct sockaddr_in6 *)(void *)at->ifa_addr)
					  ->sin6_addr;
		struct spw_hang_addr_row *row;

		if ((family == AF_INET || family == AF_INET6) &&
		    (row = spw_hang_row_add(r->snap, SPW_HANG_TABLE_addr)))
			inet_ntop(family, raw, row->addr, sizeof(row->addr));
	}
	freeifaddrs(all);
}

/* The file `addr` of a recorded host (read_impl.h). */
static void read_tcp_addrs_recorded(struct hang_read *r)
{
	char text[4096], *line, *rest = text;
	struct spw_hang_addr_row *row;

	if (hang_bytes(r, text, sizeof(text), "addr") < 0)
		return;
	while ((line = strsep(&rest, "\n")))
		if (line[0] && (row = spw_hang_row_add(r->snap, SPW_HANG_TABLE_addr)))
			snprintf(row->addr, sizeof(row->addr), "%.55s", line);
}

void hang_tcp_read(struct hang_read *r)
{
	static const char *const table[] = {"tcp", "tcp6"};
	char *text = malloc(TABLE_BYTES), *line, *rest;

	for (uint32_t i = 0; text && i < r->snap->proc_cnt; i++)
		for (size_t k = 0; k < SPW_ARRAY_CNT(table); k++) {
			const int64_t pid = r->snap->proc[i].pid.value;

			if (r->snap->proc[i].gone.value ||
			    hang_bytes(r, text, TABLE_BYTES, "proc/%" PRId64 "/net/%s", pid,
				       table[k]) <= 0)
				continue;
			rest = text;
			while ((line = strsep(&rest, "\n")))
				read_tcp_line(r, pid, line);
		}
	free(text);
	if (hang_is_live(r))
		read_tcp_addrs(r);
	else
		read_tcp_addrs_recorded(r);
}
