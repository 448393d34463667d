/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * verbs: any RDMA device through libibverbs. Chooses the driver of the mode; port.c of the library
 * finds it by name.
 * need is asked before EAL starts, so it looks at the text alone. Each mode has a table of its own,
 * which its open puts into the port; all later calls go through that one.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/rc_port.h"
#include "peer/spw_peer_conf.h"
#include "port/verbs/verbs.h"
#include "rdma/spw_rdma_flow.h"

static int verbs_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		      struct spw_port **port_out)
{
	const char *mode = spw_port_spec_find(spec, "mode");

	if (!spec->device[0])
		return spw_err(EINVAL, "no device: use verbs:mlx5_0,mode=eth or verbs:rxe0,mode=rc "
				       "(ibv_devices lists them)");
	if (!mode || !strcmp(mode, "eth"))
		return verbs_eth_open(spec, index, queue_cnt, port_out);
	if (!strcmp(mode, "rc"))
		return verbs_rc_open(spec, index, queue_cnt, port_out);
	return spw_err(EINVAL, "mode=%s is not known: use mode=eth or mode=rc", mode);
}

static const struct spw_port_keys *const verbs_sets[] = {&verbs_eth_keys, &rdma_flow_keys,
							 &verbs_rc_keys, &spw_peer_keys, NULL};

const struct spw_port_driver port_verbs_driver = {
	.name = "verbs",
	.about = "any RDMA device by plain verbs, as verbs:rxe0 (ibv_devices lists them)",
	.keys = verbs_sets,
	.need = port_rdma_need,
	.open = verbs_open,
};
