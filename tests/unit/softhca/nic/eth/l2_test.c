/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a port lets in before its flow rules, and its own multicast in a second context
 * (nic/eth/l2.c). A frame that reaches a QP without receive WQEs counts in out_of_buffer, any other
 * does not.
 */
#include "../../kernel/kit.h"

#include "softhca/nic/eth/eth.h"

static const uint8_t other[6] = {2, 0, 0, 0, 0, 0x77};
static const uint8_t group[6] = {1, 0, 0x5e, 0, 0, 1};
static const uint8_t everyone[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

/* A raw QP that takes every frame, ready to send, in the kit's context. */
static struct hca_qp *taker(struct kit *k)
{
	struct ib_uverbs_create_qp_resp r;
	struct ib_uverbs_create_flow rule = {.flow_attr = {.type = FLOW_NORMAL, .port = 1}};
	struct ib_uverbs_create_flow_resp flow;
	uint32_t cq;

	assert_int_equal(kit_cq(k, -1, &cq), 0);
	assert_int_equal(kit_qp(k, IB_UVERBS_QPT_RAW_PACKET, cq, &r), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, QPA_PORT, HCA_QPS_INIT), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, 0, HCA_QPS_RTR), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, 0, HCA_QPS_RTS), 0);
	rule.qp_handle = r.qp_handle;
	assert_int_equal(kit_cmd(k,
				 IB_USER_VERBS_EX_CMD_CREATE_FLOW | IB_USER_VERBS_CMD_FLAG_EXTENDED,
				 &rule, sizeof(rule), &flow, sizeof(flow)),
			 0);
	return hca_qp_get(k->dev, r.qpn);
}

static bool lets_in_long(struct kit *k, const uint8_t *dmac, uint32_t len)
{
	static uint8_t bytes[2048];
	const struct cable_frame f = {.data = bytes, .len = len};
	const uint64_t before = k->dev->cnt.out_of_buffer;

	memcpy(bytes, dmac, 6);
	bytes[12] = 0x88;
	bytes[13] = 0xb5;
	hca_lock(k->dev);
	assert_true(rx_frame(k->dev->nic, &f));
	hca_unlock(k->dev);
	return k->dev->cnt.out_of_buffer != before;
}

static bool lets_in(struct kit *k, const uint8_t *dmac)
{
	return lets_in_long(k, dmac, 64);
}

static void accept(struct kit *k, enum hca_accept what)
{
	hca_lock(k->dev);
	k->cfg.accept = what;
	l2_refresh(k->dev->nic);
	hca_unlock(k->dev);
}

static void addresses(void **state)
{
	struct kit k;
	uint64_t seen;

	(void)state;
	kit_open(&k);
	taker(&k);
	assert_true(lets_in(&k, other)); /* alone on its port */
	accept(&k, HCA_ACCEPT_OWN);
	assert_true(lets_in(&k, k.dev->id.mac));
	assert_true(lets_in(&k, everyone));
	seen = k.dev->cnt.port_rcv_packets;
	assert_false(lets_in(&k, other));
	assert_false(lets_in(&k, group));
	assert_int_equal(k.dev->cnt.port_rcv_packets, seen + 2); /* the wire's counters have them */
	accept(&k, HCA_ACCEPT_MULTICAST);
	assert_true(lets_in(&k, group));
	assert_false(lets_in(&k, other));
	accept(&k, HCA_ACCEPT_ALL);
	assert_true(lets_in(&k, group));
	assert_true(lets_in(&k, other));
	kit_close(&k);
}

/* A frame above the port's MTU, with header and VLAN tag, is dropped there. */
static void mtu(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k);
	taker(&k);
	k.dev->mtu_bytes = 1500;
	assert_true(lets_in_long(&k, k.dev->id.mac, 1518));
	assert_false(lets_in_long(&k, k.dev->id.mac, 1519));
	assert_int_equal(k.dev->cnt.rx_oversize_pkts_phy, 1);
	assert_int_equal(k.dev->cnt.port_rcv_packets, 1);
	kit_close(&k);
}

/* Returns: how many QPs got what `from` sent. */
static uint64_t looped(struct kit *k, struct hca_qp *from, const uint8_t *dmac)
{
	const uint64_t before = k->dev->cnt.out_of_buffer;
	uint8_t bytes[64] = {0};

	memcpy(bytes, dmac, 6);
	hca_lock(k->dev);
	l2_loop(from->nic, bytes, sizeof(bytes));
	hca_unlock(k->dev);
	return k->dev->cnt.out_of_buffer - before;
}

static void second_context(void **state)
{
	struct hca_qp *first, *second;
	struct hca_ctx *ctx;
	struct kit k, two;
	int fd;

	(void)state;
	kit_open(&k);
	accept(&k, HCA_ACCEPT_MULTICAST);
	first = taker(&k);
	assert_int_equal(looped(&k, first, group), 0); /* alone: nothing comes back */
	two = k;
	kit_context(&two);
	second = taker(&two);
	assert_int_equal(looped(&k, first, group), 1);
	assert_int_equal(looped(&k, second, group), 1);
	assert_int_equal(looped(&k, first, everyone), 1);
	assert_int_equal(looped(&k, first, other), 0);
	ctx = two.ctx;
	fd = ctx->fd;
	hca_ctx_close(ctx);
	close(fd);
	assert_int_equal(looped(&k, first, group), 0);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test(mtu),
		cmocka_unit_test(second_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
