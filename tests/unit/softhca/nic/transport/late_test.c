/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A time-out takes effect only after both NIC threads have run (nic/transport/rc_ack.c,
 * rc_answer_may_come). One packet is in flight and its timer has expired; the cable says how many
 * turns the peer has taken. The device lock is held throughout, so the NIC thread does nothing of
 * its own.
 */
#include "../../kernel/kit.h"

#include "softhca/cable/cable.h"
#include "softhca/nic/transport/qp.h"

static struct {
	struct kit k;
	struct nic_qp *q;
	struct cable_ops ops;
	const struct cable_ops *under;
	uint64_t turns;
} t;

static uint64_t turns(struct cable *c, const uint8_t *dmac, uint32_t dqpn)
{
	(void)c, (void)dmac, (void)dqpn;
	return t.turns;
}

static int open_late(void **state)
{
	struct ib_uverbs_create_qp_resp r;

	(void)state;
	memset(&t, 0, sizeof(t));
	kit_open(&t.k);
	kit_rc_rtr(&t.k, &r);
	assert_int_equal(kit_modify(&t.k, r.qp_handle,
				    QPA_SQ_PSN | QPA_MAX_RD_ATOMIC | QPA_RETRY_CNT | QPA_RNR_RETRY |
					    QPA_TIMEOUT,
				    HCA_QPS_RTS),
			 0);
	hca_lock(t.k.dev);
	t.q = hca_qp_get(t.k.dev, r.qpn)->nic;
	t.under = t.q->nd->cable->ops;
	t.ops = *t.under;
	t.ops.turns = turns;
	t.q->nd->cable->ops = &t.ops;
	t.q->swr_tail = t.q->swr_cur = 1;
	sq_swr(t.q, 0)->pkts = 1;
	t.q->max_psn = t.q->snd_psn = 1;
	rc_timer_start(t.q);
	assert_int_not_equal(t.q->deadline_ns, 0);
	t.q->nd->now_ns = t.q->deadline_ns;
	return 0;
}

static int close_late(void **state)
{
	(void)state;
	t.q->nd->cable->ops = t.under;
	hca_unlock(t.k.dev);
	kit_close(&t.k);
	return 0;
}

/* Rounds until the packet is repeated, 100 at most. */
static uint32_t rounds(void)
{
	for (uint32_t n = 1; n <= 100; n++) {
		rc_timer(t.q, t.q->nd->now_ns);
		if (t.q->retries)
			return n;
	}
	return 0;
}

static void peer_without_a_core(void **state)
{
	(void)state;
	t.turns = 7;
	assert_int_equal(rounds(), 0);
	t.turns = 8; /* begun before the time-out, perhaps */
	assert_int_equal(rounds(), 0);
	t.turns = 9;
	assert_int_equal(rounds(), 2);
	assert_true(t.q->deadline_ns > t.q->nd->now_ns);
}

/* Only shm: shows turns. This thread may have had no core either. */
static void unknown_peer(void **state)
{
	(void)state;
	assert_int_equal(rounds(), 3);
}

static void more_to_read(void **state)
{
	(void)state;
	t.q->nd->rx_more = true;
	assert_int_equal(rounds(), 0);
	t.q->nd->rx_more = false;
	assert_int_equal(rounds(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(peer_without_a_core, open_late, close_late),
		cmocka_unit_test_setup_teardown(unknown_peer, open_late, close_late),
		cmocka_unit_test_setup_teardown(more_to_read, open_late, close_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
