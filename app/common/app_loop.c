/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whether frames crossed the cable (app_loop.h). The reports of spinwire and spinwire-gen call it
 * with the final statistics of a port and of each of its rails. A port without these counters
 * gets no verdict.
 */
#include "app_loop.h"

#include <inttypes.h>

/* As many as a quiet cable carries of its own accord in a run (LLDP, ARP). */
#define FRAMES_MIN 64u

/* A message of a reliable connection is one packet or more, and its acknowledgement another: the
 * cable never carries fewer packets than frames. Half allows for counters that the driver refreshes
 * late. */
enum app_loop app_loop_judge(const struct spw_port_stat *stat)
{
	uint64_t frames = stat->rx_frames + stat->tx_frames;

	if (!stat->phy_known || frames < FRAMES_MIN)
		return APP_LOOP_UNKNOWN;
	return (stat->phy_rx_packets + stat->phy_tx_packets) >= frames / 2 ? APP_LOOP_CABLE
									   : APP_LOOP_INSIDE;
}

/* inside_nic is null where there were too few frames to judge by. */
json_t *app_loop_json(const struct spw_port_stat *stat)
{
	enum app_loop loop = app_loop_judge(stat);

	if (!stat->phy_known)
		return json_null();
	return json_pack("{s:I,s:I,s:o}", "rx_packets", (json_int_t)stat->phy_rx_packets,
			 "tx_packets", (json_int_t)stat->phy_tx_packets, "inside_nic",
			 loop == APP_LOOP_UNKNOWN ? json_null()
						  : json_boolean(loop == APP_LOOP_INSIDE));
}

void app_loop_print(FILE *file, const char *indent, const struct spw_port_stat *stat)
{
	if (!stat->phy_known)
		return;
	fprintf(file,
		"%sphysical port      %14" PRIu64 " packets received, %" PRIu64
		" sent, by all its functions\n",
		indent, stat->phy_rx_packets, stat->phy_tx_packets);
	if (app_loop_judge(stat) == APP_LOOP_INSIDE)
		fprintf(file,
			"%sNO CABLE: %" PRIu64
			" frames were received and sent, and the physical port counted %" PRIu64
			" packets: they turned round inside the NIC, between functions of one "
			"port; the figures say nothing about a cable\n",
			indent, stat->rx_frames + stat->tx_frames,
			stat->phy_rx_packets + stat->phy_tx_packets);
}
