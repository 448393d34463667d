/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RDMA ports: state, link, and the counters that say whether packets were lost. Source: Linux
 * Documentation/ABI/stable/sysfs-class-infiniband, rdma-core's and the kernel's hw_counters of
 * mlx5. A kernel that lacks a counter has no file of it, which leaves it unknown.
 *
 *   sys/class/infiniband/DEV/ports/N/state, rate           state, mbps
 *                               .../N/gid_attrs/ndevs/0    netdev
 *                               .../N/hw_counters/NAME     the column of that name
 *   sys/class/infiniband/DEV/device/net/                   netdev, of a port without a GID
 *                               .../aer_dev_(non)fatal     aer
 *   sys/class/net/NETDEV/carrier, mtu                      carrier, mtu
 *   ethtool, NETDEV, rx_pause_ctrl_phy                     pauses; of the running machine only
 *
 * Counters are totals, of all that uses the port: a rule asks whether one changed between two
 * snapshots, never whether it is 0. A new counter is a column of SPW_HANG_PORT_LIST and a line of
 * read_port.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hang/read/read_impl.h"
#include "plat/spw_plat.h"

#define DEVICES_MAX 64
#define PORTS_MAX   8

#define CLASS "sys/class/infiniband/%s/"
#define PORT  CLASS "ports/%s/"

/* The network device that carries its frames. */
static void read_port_netdev(struct hang_read *r, const char *dev, const char *port,
			     struct spw_hang_port_row *row)
{
	char **name;
	int cnt;

	if (hang_line(r, row->netdev, sizeof(row->netdev), PORT "gid_attrs/ndevs/0", dev, port))
		return;
	cnt = hang_names(r, &name, 1, CLASS "device/net", dev);
	if (cnt > 0)
		snprintf(row->netdev, sizeof(row->netdev), "%s", name[0]);
	if (cnt >= 0)
		hang_names_free(name, cnt);
}

/* Without a network device there is no carrier; one that is set down cannot be asked. */
static void read_port_link(struct hang_read *r, struct spw_hang_port_row *row)
{
	uint64_t pauses;

	row->carrier = hang_number(r, "sys/class/net/%s/carrier", row->netdev);
	row->mtu = hang_number(r, "sys/class/net/%s/mtu", row->netdev);
	if (hang_is_live(r) && spw_plat_count_read(row->netdev, "rx_pause_ctrl_phy", &pauses) == 0)
		row->pauses = spw_hang_num((int64_t)pauses);
}

/* "TOTAL_ERR_NONFATAL 2" is the last line of aer_dev_nonfatal. One of the two files alone would be
 * a sum that is too small: it is unknown if either is missing. */
static struct spw_hang_num read_port_aer(struct hang_read *r, const char *dev)
{
	struct spw_hang_num sum = {0}, one;
	static const char *const file[] = {"nonfatal", "fatal"}, *const total[] = {
									 "TOTAL_ERR_NONFATAL",
									 "TOTAL_ERR_FATAL"};
	char text[4096];

	for (size_t i = 0; i < SPW_ARRAY_CNT(file); i++) {
		hang_bytes(r, text, sizeof(text), CLASS "device/aer_dev_%s", dev, file[i]);
		one = hang_labelled(text, total[i]);
		if (!one.known)
			return one;
		sum = spw_hang_num(sum.value + one.value);
	}
	return sum;
}

/* "4: ACTIVE", "200 Gb/sec (4X HDR)" */
static void read_port_state(struct hang_read *r, const char *dev, const char *port,
			    struct spw_hang_port_row *row)
{
	char text[64];
	const char *state;

	if (hang_line(r, text, sizeof(text), PORT "state", dev, port)) {
		state = strchr(text, ' ');
		snprintf(row->state, sizeof(row->state), "%.11s", state ? state + 1 : text);
	}
	if (hang_line(r, text, sizeof(text), PORT "rate", dev, port) && atof(text) > 0)
		row->mbps = spw_hang_num((int64_t)(atof(text) * 1000));
}

/* The column has the name of the kernel's file. */
#define COUNTER(name) row->name = hang_number(r, PORT "hw_counters/" #name, dev, port)

static void read_port(struct hang_read *r, const char *dev, const char *port)
{
	struct spw_hang_port_row *row = spw_hang_row_add(r->snap, SPW_HANG_TABLE_port);

	if (!row)
		return;
	snprintf(row->device, sizeof(row->device), "%s", dev);
	row->port = spw_hang_num(atoi(port));
	read_port_state(r, dev, port, row);
	read_port_netdev(r, dev, port, row);
	if (row->netdev[0])
		read_port_link(r, row);
	row->aer = read_port_aer(r, dev);
	COUNTER(packet_seq_err);
	COUNTER(local_ack_timeout_err);
	COUNTER(rnr_nak_retry_err);
	COUNTER(implied_nak_seq_err);
	COUNTER(roce_adp_retrans);
	COUNTER(req_transport_retries_exceeded);
	COUNTER(out_of_sequence);
	COUNTER(duplicate_request);
	COUNTER(out_of_buffer);
}

/* All devices, not only those of the job: which rail uses which one is on the live pages. */
void hang_ports_read(struct hang_read *r)
{
	char **dev, **port;
	int cnt = hang_names(r, &dev, DEVICES_MAX, "sys/class/infiniband");

	for (int i = 0; i < cnt; i++) {
		int ports = hang_names(r, &port, PORTS_MAX, CLASS "ports", dev[i]);

		for (int k = 0; k < ports; k++)
			read_port(r, dev[i], port[k]);
		if (ports >= 0)
			hang_names_free(port, ports);
	}
	if (cnt >= 0)
		hang_names_free(dev, cnt);
	if (cnt <= 0)
		snprintf(r->snap->why[SPW_HANG_SOURCE_counters], sizeof(r->snap->why[0]),
			 "this host has no RDMA device");
}
