/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * READs and atomics at the responder (nic/transport/rc_rd.c): repeats and the places of new
 * requests. Requests go to rc_rsp_rx() as parsed packets, the answers are read off the cable. The
 * device lock is held throughout, so the NIC thread does nothing of its own.
 */
#include "../../kernel/kit.h"

#include "softhca/cable/cable.h"
#include "softhca/nic/transport/qp.h"

#define PLACES  4u
#define ANSWERS 32u

struct rd {
	struct kit k;
	struct nic_qp *q;
	struct cable_ops ops;
	const struct cable_ops *under;
	uint64_t *word; /* in the region */
	uint32_t rkey, mr;
	uint8_t frame[CABLE_FRAME_MAX];
	uint32_t len, cnt;
	struct wire_pkt got[ANSWERS];
};

static struct rd t;

static uint8_t *reserve(struct cable *c, const uint8_t *dmac, uint32_t dqpn, uint32_t len)
{
	(void)c, (void)dmac, (void)dqpn;
	t.len = len;
	return t.frame;
}

static void commit(struct cable *c, uint32_t flags)
{
	struct wire_pkt k;

	(void)c;
	if (wire_parse(t.frame, t.len, flags & CABLE_F_ICRC_VALID, &k) != WIRE_OK)
		return; /* ARP */
	assert_true(t.cnt < ANSWERS);
	t.got[t.cnt++] = k;
}

static void register_word(void)
{
	struct ib_uverbs_reg_mr req = {.length = 4096, .pd_handle = t.k.pd, .access_flags = 0xf};
	struct ib_uverbs_reg_mr_resp r;

	t.word = kit_ring(&t.k, req.length);
	req.start = req.hca_va = (uintptr_t)t.word;
	assert_int_equal(kit_cmd(&t.k, IB_USER_VERBS_CMD_REG_MR, &req, sizeof(req), &r, sizeof(r)),
			 0);
	t.rkey = r.rkey;
	t.mr = r.mr_handle;
}

static int open_rd(void **state)
{
	struct ib_uverbs_create_qp_resp r;

	(void)state;
	memset(&t, 0, sizeof(t));
	kit_open(&t.k);
	register_word();
	kit_rc_rtr(&t.k, &r);
	hca_lock(t.k.dev);
	t.q = hca_qp_get(t.k.dev, r.qpn)->nic;
	t.q->qp->attr.max_dest_rd_atomic = PLACES;
	t.q->qp->attr.access = 0xf;
	t.under = t.q->nd->cable->ops;
	t.ops = *t.under;
	t.ops.tx_reserve = reserve;
	t.ops.tx_commit = commit;
	t.q->nd->cable->ops = &t.ops;
	return 0;
}

static int close_rd(void **state)
{
	(void)state;
	t.q->nd->cable->ops = t.under;
	hca_unlock(t.k.dev);
	kit_close(&t.k);
	return 0;
}

static void read_part(uint32_t psn, uint32_t from, uint32_t bytes)
{
	rc_rsp_rx(t.q, &(struct wire_pkt){.op = WIRE_READ_REQ,
					  .hdrs = WIRE_H_FIRST | WIRE_H_LAST,
					  .psn = psn,
					  .va = (uintptr_t)t.word + from,
					  .rkey = t.rkey,
					  .dma_len = bytes});
}

/* READs of one word, with consecutive PSNs. */
static void reads(uint32_t psn, uint32_t cnt)
{
	while (cnt--)
		read_part(psn++, 0, 8);
}

static void add(uint32_t psn)
{
	rc_rsp_rx(t.q, &(struct wire_pkt){.op = WIRE_FETCH_ADD,
					  .hdrs = WIRE_H_FIRST | WIRE_H_LAST,
					  .psn = psn,
					  .va = (uintptr_t)t.word,
					  .rkey = t.rkey,
					  .swap_add = 1});
}

/* Sends what waits, and forgets what was sent before. */
static void answer(void)
{
	t.cnt = 0;
	while (rc_rsp_tx(t.q))
		;
}

static void expect_psns(uint32_t psn, uint32_t cnt)
{
	assert_int_equal(t.cnt, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(t.got[i].psn, psn + i);
	assert_int_equal(t.q->qp->state, HCA_QPS_RTR);
}

/* The peer timed out and repeated all; then the answers came, so it sends new ones. */
static void repeats_give_way(void **state)
{
	(void)state;
	reads(0, PLACES);
	answer();
	expect_psns(0, PLACES);
	reads(0, PLACES);
	reads(PLACES, 3);
	answer();
	expect_psns(3, PLACES); /* the repeat of 3, and the new ones */
	reads(0, PLACES);
	reads(7, PLACES);
	answer();
	expect_psns(7, PLACES);
}

static void too_many_are_refused(void **state)
{
	(void)state;
	reads(0, PLACES);
	reads(0, PLACES); /* no second chance */
	reads(PLACES, 1);
	assert_int_equal(t.q->qp->state, HCA_QPS_ERR);
	answer();
	assert_int_equal(t.cnt, 1);
	assert_int_equal(t.got[0].syndrome, WIRE_NAK_INV_REQ);
}

/* One request came twice, as a switch may deliver it: those behind it are still answered. */
static void one_repeat_of_many(void **state)
{
	(void)state;
	reads(0, PLACES);
	reads(1, 1);
	answer();
	expect_psns(0, PLACES);
	reads(1, 1);
	reads(4, 2);
	answer();
	assert_int_equal(t.cnt, 3);
	assert_int_equal(t.got[0].psn, 1);
	assert_int_equal(t.got[1].psn, 4);
	assert_int_equal(t.got[2].psn, 5);
}

/* The rest of a READ is asked for while the whole waits, and after. */
static void rest_of_a_read(void **state)
{
	const uint32_t mtu = t.q->mtu;

	(void)state;
	read_part(0, 0, 3 * mtu);
	read_part(1, mtu, 2 * mtu);
	answer();
	expect_psns(1, 2);
	assert_int_equal(t.got[0].op, WIRE_READ_FIRST);
	read_part(2, 2 * mtu, mtu);
	answer();
	expect_psns(2, 1);
	assert_int_equal(t.got[0].op, WIRE_READ_ONLY);
	read_part(2, 0, 2 * mtu); /* never requested */
	answer();
	assert_int_equal(t.cnt, 0);
}

static void atomics_happen_once(void **state)
{
	(void)state;
	for (uint32_t psn = 0; psn < PLACES; psn++)
		add(psn);
	answer();
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t psn = 0; psn < PLACES; psn++)
			add(psn);
		if (round)
			add(PLACES);
		answer();
		expect_psns(round, PLACES);
		for (uint32_t i = 0; i < PLACES; i++)
			assert_int_equal(t.got[i].orig, round + i);
	}
	assert_int_equal(*t.word, PLACES + 1);
}

/* The peer had the answer and its owner deregistered the region: a late repeat harms nobody. */
static void region_of_a_repeat_goes(void **state)
{
	const struct ib_uverbs_dereg_mr req = {.mr_handle = t.mr};

	(void)state;
	reads(0, 2);
	answer();
	reads(0, 2);
	hca_unlock(t.k.dev);
	assert_int_equal(kit_cmd(&t.k, IB_USER_VERBS_CMD_DEREG_MR, &req, sizeof(req), NULL, 0), 0);
	hca_lock(t.k.dev);
	answer();
	expect_psns(0, 0);
	reads(2, 1);
	assert_int_equal(t.q->qp->state, HCA_QPS_ERR); /* but a new one is refused */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(repeats_give_way, open_rd, close_rd),
		cmocka_unit_test_setup_teardown(too_many_are_refused, open_rd, close_rd),
		cmocka_unit_test_setup_teardown(one_repeat_of_many, open_rd, close_rd),
		cmocka_unit_test_setup_teardown(rest_of_a_read, open_rd, close_rd),
		cmocka_unit_test_setup_teardown(atomics_happen_once, open_rd, close_rd),
		cmocka_unit_test_setup_teardown(region_of_a_repeat_goes, open_rd, close_rd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
