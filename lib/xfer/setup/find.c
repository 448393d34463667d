/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The rails of this machine, by the facts of lib/plat: every RDMA function with an active Ethernet
 * port and an address for RoCE v2, so both halves of a port and both cables of a DGX Spark. What is
 * left out is kept with its reason, for spw_xfer_rail_stat.
 *
 * Called by spw_xfer_open where the caller names no rails. What is found but cannot be opened is
 * added to what was left out (endpoint.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/spw_plat.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/filter.h"

/* Why a function cannot be a rail; NULL: it can. In the order in which a user would look: choice,
 * cable, kind of link, address, rights, number. */
static const char *find_blame(const struct spw_plat_nic *nic, const char *hca, uint32_t have)
{
	if (!xfer_filter_has(hca, nic->rdma, 1))
		return "NCCL_IB_HCA leaves it out";
	if (!nic->port_active)
		return "its port is not active: plug in the cable, or bring its interface up";
	if (!nic->link_is_ethernet)
		return "its link is not Ethernet";
	if (nic->gids_known && nic->gid_v2_ipv4 < 0 && !nic->gid_v2_ipv6)
		return "it has no address for RoCE v2: give its interface an IP address";
	if (nic->uverbs_error > 0)
		return "its device file may not be opened: see rails= for the reason";
	if (have == SPW_XFER_RAIL_MAX)
		return "four others were found first: name the rails";
	return NULL;
}

/* Both texts are copied; beyond XFER_LEFT_OUT_MAX devices none is kept. */
void xfer_leave_out(struct spw_xfer *x, const char *device, const char *why)
{
	struct spw_xfer_rail_stat *s;

	if (x->left_out_cnt == XFER_LEFT_OUT_MAX)
		return;
	s = &x->left_out[x->left_out_cnt++];
	snprintf(s->device, sizeof(s->device), "%s", device);
	snprintf(s->why, sizeof(s->why), "%.127s", why);
}

/* One line with the reason of each device, since any of them may be the one meant. */
int xfer_found_nothing(const struct spw_xfer *x)
{
	char list[512] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < x->left_out_cnt && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "; %s: %s", x->left_out[i].device,
				      x->left_out[i].why);
	return spw_err(ENODEV, "no device can be a rail%s",
		       *list ? list : ": there is no RDMA device (modprobe mlx5_ib)");
}

/* No GPU is asked for: opening the CUDA driver takes a second. Nor is where a device sits. */
int xfer_find(struct spw_xfer *x, const char *hca, char *rails_out, size_t bytes)
{
	const struct spw_plat_from from = {.cuda_lib = "", .nvml_lib = "", .skip_hwloc = true};
	struct spw_plat *plat;
	uint32_t have = 0;
	size_t n = 0;
	int rc = spw_plat_read(&from, &plat);

	if (rc)
		return rc;
	rails_out[0] = '\0';
	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i];
		const char *why = *nic->rdma ? find_blame(nic, hca, have) : NULL;

		if (!*nic->rdma)
			continue;
		if (why)
			xfer_leave_out(x, nic->rdma, why);
		else
			n += (size_t)snprintf(rails_out + n, bytes - n, "%s%s", have++ ? "+" : "",
					      nic->rdma);
	}
	spw_plat_free(plat);
	return have ? 0 : xfer_found_nothing(x);
}
