/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * mlx5: NVIDIA NICs by direct verbs. Chooses the mode; each mode is a driver of its own behind the
 * one name, and its open puts its own table into the port. Their keys: eth/port.c, rc/port.c, and
 * what all RDMA drivers share in rdma/flow_keys.c and peer/conf.c. need is asked before EAL starts,
 * so it looks at the text alone. A build without mlx5dv has no such driver (port.c).
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/rc_port.h"
#include "port/mlx5/eth/eth.h"
#include "port/mlx5/rc/rc.h"

static int mlx5_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		     struct spw_port **port_out)
{
	const char *mode = spw_port_spec_find(spec, "mode");

	if (!mode || !strcmp(mode, "eth"))
		return mlx5_eth_open(spec, index, queue_cnt, port_out);
	if (!strcmp(mode, "rc"))
		return port_mlx5_rc_driver.open(spec, index, queue_cnt, port_out);
	return spw_err(EINVAL, "mode=%s is not known: use mode=eth or mode=rc", mode);
}

static const struct spw_port_keys *const mlx5_sets[] = {&mlx5_eth_keys, &rdma_flow_keys,
							&mlx5_rc_keys, &spw_peer_keys, NULL};

const struct spw_port_driver port_mlx5_driver = {
	.name = "mlx5",
	.about = "a ConnectX or BlueField NIC by direct verbs, as mlx5:mlx5_0 (ibv_devices lists "
		 "them)",
	.keys = mlx5_sets,
	.need = port_rdma_need,
	.open = mlx5_open,
};
