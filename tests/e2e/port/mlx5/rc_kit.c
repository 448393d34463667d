/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "rc_kit.h"

#include <stdio.h>
#include <unistd.h>

#define AT_THE_DOOR 8u /* PEER_HALF_PER_ADDR of lib/port/rdma */

static bool all_up(const struct kit_run *run, uint32_t cnt)
{
	return run->a.events.cnt[SPW_PORT_EVENT_PEER_UP] >= cnt &&
	       run->b.events.cnt[SPW_PORT_EVENT_PEER_UP] >= cnt;
}

void rc_kit_wait_up(struct kit_run *run, uint32_t cnt)
{
	double start = kit_seconds();

	while (!all_up(run, cnt)) {
		kit_turn(run, false);
		usleep(100);
		if (kit_seconds() - start > KIT_WAIT_S)
			fail_msg("a has %u peers up, b %u",
				 run->a.events.cnt[SPW_PORT_EVENT_PEER_UP],
				 run->b.events.cnt[SPW_PORT_EVENT_PEER_UP]);
	}
}

void rc_kit_open(struct kit_run *run, const struct rc_kit *k)
{
	struct kit_conf a = {.queues = k->queues,
			     .profile = k->profile,
			     .slots = k->slots,
			     .slot_bytes = k->slot_bytes},
			b = a;
	char spec_a[512], spec_b[512];
	uint16_t port = kit_free_port();
	int n = snprintf(spec_a, sizeof(spec_a), "%s:mlx5_0,mode=rc,op=%s,srq=%d%s",
			 k->driver_a ? k->driver_a : "mlx5", k->op, k->srq,
			 k->extra ? k->extra : "");

	for (uint32_t i = 0; i < k->peers; i++)
		n += snprintf(spec_a + n, sizeof(spec_a) - (size_t)n, ",connect=127.0.0.1:%u",
			      port);
	snprintf(spec_b, sizeof(spec_b),
		 "%s:mlx5_1,mode=rc,op=%s,srq=%d,peer_max=%u,listen=127.0.0.1:%u,peers=127.0.0.1%s",
		 k->driver_b ? k->driver_b : "mlx5", k->op, k->srq, k->peers, port,
		 k->extra ? k->extra : "");
	a.spec = spec_a;
	b.spec = spec_b;
	kit_open(run, &a, &b);
	run->peers = k->peers;
	rc_kit_wait_up(run, k->peers);
}

/* Until every message that was taken came back, and its echo was acknowledged; port_kit no longer
 * waits for what stood still for long, so its count of messages sent does not serve. */
static void settle(struct kit_run *run, struct spw_port_stat *stat)
{
	for (double start = kit_seconds(); kit_seconds() - start < KIT_WAIT_S; usleep(100)) {
		kit_turn(run, false);
		spw_port_stat(run->b.port, stat);
		if (run->echoed == run->a.taken &&
		    stat->tx_frames + stat->tx_flushed == run->a.taken)
			break;
	}
}

/* Those that knock at the same time, more than the door lets in from one address, come again. */
static bool may_be(const struct kit_run *run, unsigned err)
{
	return err == SPW_PORT_ERR_no_credit ||
	       (err == SPW_PORT_ERR_refused && run->peers > AT_THE_DOOR);
}

void rc_kit_check_clean(struct kit_run *run)
{
	struct spw_port_stat stat;

	settle(run, &stat);
	assert_int_equal(run->echoed, run->a.taken);
	assert_int_equal(run->bad, 0);
	assert_int_equal(stat.missed_frames, 0);
	assert_int_equal(stat.wire_frames, run->a.taken);
	assert_int_equal(stat.tx_frames, run->a.taken);
	for (unsigned i = 0; i < SPW_PORT_ERR_CNT; i++)
		if (stat.err[i] && !may_be(run, i))
			fail_msg("b counts %llu of %s", (unsigned long long)stat.err[i],
				 spw_port_err_name(i));
}
