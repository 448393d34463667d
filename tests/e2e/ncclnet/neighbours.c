/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "neighbours.h"

#include <stdio.h>

static uint64_t wire_frames(const struct kit_port *port)
{
	struct spw_port_stat stat;

	spw_port_stat(port->port, &stat);
	return stat.wire_frames;
}

void neighbours_start(struct neighbours *n, const char *rule)
{
	struct kit_conf a = {.queues = 1, .profile = "latency"}, b = a;
	char spec[2][48];

	n->ucx = ucx_side_start("mlx5_0:1,mlx5_2:1", "mlx5_1:1,mlx5_3:1");
	snprintf(spec[0], sizeof(spec[0]), "mlx5:mlx5_0,mode=eth,%s", rule);
	snprintf(spec[1], sizeof(spec[1]), "mlx5:mlx5_1,mode=eth,%s", rule);
	a.spec = spec[0];
	b.spec = spec[1];
	kit_open(&n->run, &a, &b);
	n->run.b.echoes_all = true;
}

void neighbours_turn(struct neighbours *n)
{
	kit_turn(&n->run, true);
}

void neighbours_stop(struct neighbours *n, struct ucx_side_stat *ucx_out)
{
	struct kit_run *run = &n->run;

	kit_settle(run);
	ucx_side_stop(n->ucx, ucx_out);
	assert_int_equal(run->echoed, run->sent);
	assert_int_equal(run->bad, 0);
	assert_int_equal(wire_frames(&run->b), run->sent);
	assert_int_equal(wire_frames(&run->a), run->sent);
	assert_int_equal(ucx_out->sent, ucx_out->received);
	assert_int_equal(ucx_out->sent_bytes, ucx_out->received_bytes);
	kit_close(run); /* checks the ledger of both ports */
}
