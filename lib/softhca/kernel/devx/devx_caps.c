/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * QUERY_HCA_CAP and QUERY_NIC_VPORT_CONTEXT: the card's row and the model's limits as capability
 * pages. They say what query_device says (a test compares them); everything else reads 0, which
 * means that the card cannot do it.
 *
 *   op_mod = page << 1 | current: both kinds are the same here, since nothing is configurable
 *
 * What to know before changing it: a bit here turns programs towards commands. DPDK takes software
 * steering, hairpin queues, meters and flow counters from these pages; libmlx5 QoS, LAG and
 * signatures; UCX its whole way of making queues. So a bit needs its commands first, and the test
 * that compares pages with query_device its line.
 *
 *   0   general          rows of caps_objects and caps_general
 *   1   Ethernet         checksums, VLAN, inline headers, FCS
 *   4   RoCE             stamps of QPs
 *   2, 3, 7, 12, 15, 32  zeros: no paging, no atomics in PCI, no flow tables of one's own, no QoS,
 *                        no memory on the device, nothing of the second general page
 *   others               refused: this firmware has no such page
 */
#include <errno.h>

#include "softhca/kernel/devx/devx.h"

#define PAGE_AT  16u /* in the answer */
#define VPORT_AT 16u
/* op_mod: page << 1 | (0: what firmware could do, 1: what it does). */
enum { PAGE_GENERAL = 0, PAGE_ETHERNET = 1, PAGE_ODP = 2, PAGE_ATOMIC = 3, PAGE_ROCE = 4 };
enum { PAGE_FLOW_TABLE = 7, PAGE_QOS = 12, PAGE_DEVICE_MEMORY = 15, PAGE_GENERAL_2 = 32 };
enum { INLINE_L2 = 0, INLINE_NOT_REQUIRED = 2 };
enum { PORT_ETHERNET = 1 };
/* Of sq_ts_format and its like. No queue has both kinds here: a stamp is what the clock is set to.
 */
enum { TS_FREE_RUNNING = 0, TS_REAL_TIME = 1 };

static uint32_t caps_ts(const struct hca_card *card)
{
	return card->stamps == HCA_STAMPS_REAL_TIME ? TS_REAL_TIME : TS_FREE_RUNNING;
}

/* Where a table limits a number, half of it: as device_fill reports (cmd_dev.c). */
static void caps_objects(const struct hca_dev *dev, uint8_t *p)
{
	const struct hca_card *card = dev->cfg->card;

	devx_put(p, DEVX_CAP_LOG_MAX_QP, spw_log2_floor64(cap_max_qp(dev)));
	devx_put(p, DEVX_CAP_LOG_MAX_QP_SZ, spw_log2_floor64(CAP_WQE_CNT));
	devx_put(p, DEVX_CAP_LOG_MAX_CQ, CAP_CQ_LOG2 - 1);
	devx_put(p, DEVX_CAP_LOG_MAX_CQ_SZ, spw_log2_floor64(CAP_CQE_CNT));
	devx_put(p, DEVX_CAP_LOG_MAX_SRQ, CAP_SRQ_LOG2 - 1);
	devx_put(p, DEVX_CAP_LOG_MAX_SRQ_SZ, spw_log2_floor64(CAP_WQE_CNT));
	devx_put(p, DEVX_CAP_LOG_MAX_MKEY, CAP_MR_LOG2 - 1);
	devx_put(p, DEVX_CAP_LOG_MAX_MRW_SZ, 64);
	devx_put(p, DEVX_CAP_LOG_MAX_RA_REQ_QP, spw_log2_floor64(CAP_RD_ATOMIC));
	devx_put(p, DEVX_CAP_LOG_MAX_RA_RES_QP, spw_log2_floor64(CAP_RD_ATOMIC));
	devx_put(p, DEVX_CAP_LOG_MAX_PD, spw_log2_floor64(CAP_PD_CNT));
	devx_put(p, DEVX_CAP_LOG_MAX_TD, CAP_WQ_LOG2 - 1);
	devx_put(p, DEVX_CAP_LOG_MAX_RQ, CAP_WQ_LOG2 - 1);
	devx_put(p, DEVX_CAP_LOG_MAX_SQ, spw_log2_floor64(cap_max_qp(dev)));
	devx_put(p, DEVX_CAP_LOG_MAX_TIR, CAP_WQ_LOG2 - 1);
	devx_put(p, DEVX_CAP_LOG_MAX_TIS, CAP_WQ_LOG2 - 1);
	devx_put(p, DEVX_CAP_LOG_MAX_RQT, spw_log2_floor64(CAP_RWQ_TBL_CNT));
	devx_put(p, DEVX_CAP_LOG_MAX_RQT_SIZE, card->rss_table_log2);
	devx_put(p, DEVX_CAP_LOG_MAX_WQ_SZ, spw_log2_floor64(CAP_WQE_CNT));
	devx_put(p, DEVX_CAP_LOG_MIN_STRIDE_SZ_RQ, 4);
	devx_put(p, DEVX_CAP_LOG_MAX_STRIDE_SZ_RQ, 10);
	devx_put(p, DEVX_CAP_LOG_MIN_STRIDE_SZ_SQ, 6);
	devx_put(p, DEVX_CAP_LOG_MAX_STRIDE_SZ_SQ, 6);
	devx_put(p, DEVX_CAP_MAX_WQE_SZ_SQ, CAP_SQ_DESC_BYTES);
	devx_put(p, DEVX_CAP_MAX_WQE_SZ_RQ, 512);
}

/* A card has 30 for log_max_msg. It stays 0 as long as DEVX makes no QPs and RMPs: UCX, which finds
 * 30 there, makes its queues by DEVX and has no other way; with 0 it makes them by verbs. Bits of
 * bulks and dumps of flow counters stay 0, so that DPDK makes a counter for each rule. */
static void caps_general(const struct hca_dev *dev, uint8_t *p)
{
	const struct hca_card *card = dev->cfg->card;

	caps_objects(dev, p);
	devx_put(p, DEVX_CAP_VHCA_ID, dev->idx + 1);
	devx_put(p, DEVX_CAP_DATA_IN_ORDER, card->data_in_order);
	devx_put(p, DEVX_CAP_GID_TABLE_SIZE, HCA_GID_CNT);
	devx_put(p, DEVX_CAP_PORT_TYPE, PORT_ETHERNET);
	devx_put(p, DEVX_CAP_NUM_PORTS, 1);
	devx_put(p, DEVX_CAP_CQE_VERSION, 1);
	devx_put(p, DEVX_CAP_COMPACT_AV, 1);
	devx_put(p, DEVX_CAP_STRIDING_RQ, card->stride_log2_max != 0);
	devx_put(p, DEVX_CAP_EXT_STRIDE_RANGE, card->stride_log2_max && card->strides_log2_min < 9);
	devx_put(p, DEVX_CAP_ETH_NET_OFFLOADS, 1);
	devx_put(p, DEVX_CAP_NIC_FLOW_TABLE, 1);
	devx_put(p, DEVX_CAP_ROCE, 1);
	devx_put(p, DEVX_CAP_CQ_OI, card->cq_ignore_overrun);
	devx_put(p, DEVX_CAP_CQ_MODERATION, 1);
	devx_put(p, DEVX_CAP_RC, 1);
	devx_put(p, DEVX_CAP_UC, 1);
	devx_put(p, DEVX_CAP_UD, 1);
	devx_put(p, DEVX_CAP_UAR_4K, 1);
	devx_put(p, DEVX_CAP_BF, card->write_combines);
	devx_put(p, DEVX_CAP_LOG_BF_REG_SIZE, card->write_combines ? 9 : 0);
	devx_put(p, DEVX_CAP_SQ_TS_FORMAT, caps_ts(card));
	devx_put(p, DEVX_CAP_RQ_TS_FORMAT, caps_ts(card));
	devx_put(p, DEVX_CAP_FREQUENCY_MHZ, card->clock_khz / 1000);
	devx_put(p, DEVX_CAP_FREQUENCY_KHZ, card->clock_khz);
	devx_put(p, DEVX_CAP_CQE_COMPRESSION, card->mini_formats != 0);
	devx_put(p, DEVX_CAP_MINI_STRIDX,
		 !!(card->mini_formats & MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX));
	devx_put(p, DEVX_CAP_ENHANCED_COMP, card->mini_formats != 0);
	devx_put(p, DEVX_CAP_CQE_COMP_MAX, card->mini_formats ? CAP_MINI_CQE_CNT : 0);
}

static void caps_ethernet(const struct hca_card *card, uint8_t *p)
{
	devx_put(p, DEVX_ETH_CSUM, !!(card->raw_caps & IB_UVERBS_RAW_PACKET_CAP_IP_CSUM));
	devx_put(p, DEVX_ETH_VLAN, !!(card->raw_caps & IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING));
	devx_put(p, DEVX_ETH_VLAN_INSERT, 1);
	devx_put(p, DEVX_ETH_INLINE_MODE, card->min_inline_bytes ? INLINE_L2 : INLINE_NOT_REQUIRED);
	devx_put(p, DEVX_ETH_RSS_TABLE, card->rss_table_log2);
	devx_put(p, DEVX_ETH_SCATTER_FCS,
		 !!(card->raw_caps & IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS));
}

/* Pages of what the model lacks are zeros, as for a card that lacks it. */
int devx_query_hca_cap(struct devx_cmd *c)
{
	const struct hca_dev *dev = c->ctx->dev;

	switch (c->op_mod >> 1) {
	case PAGE_GENERAL:
		caps_general(dev, c->out + PAGE_AT);
		return 0;
	case PAGE_ETHERNET:
		caps_ethernet(dev->cfg->card, c->out + PAGE_AT);
		return 0;
	case PAGE_ROCE:
		devx_put(c->out + PAGE_AT, DEVX_ROCE_QP_TS_FORMAT, caps_ts(dev->cfg->card));
		return 0;
	case PAGE_ODP:
	case PAGE_ATOMIC:
	case PAGE_FLOW_TABLE:
	case PAGE_QOS:
	case PAGE_DEVICE_MEMORY:
	case PAGE_GENERAL_2:
		return 0;
	default:
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_IN_OP_MOD);
	}
}

/* roce_en with a capability page that has no fl_rc_qp_when_roce_enabled keeps programs from
 * software steering, which the model lacks. */
int devx_query_nic_vport(struct devx_cmd *c)
{
	const struct hca_card *card = c->ctx->dev->cfg->card;

	devx_put(c->out + VPORT_AT, DEVX_VPORT_MIN_INLINE, card->min_inline_bytes ? 1 : 0);
	devx_put(c->out + VPORT_AT, DEVX_VPORT_ROCE_EN, 1);
	return 0;
}
