/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands on contexts, the device, its port, protection domains and address handles.
 * Source: Linux drivers/infiniband/hw/mlx5/main.c (mlx5_ib_alloc_ucontext, query_device).
 *
 * What is reported has one source: CAP_* (cmd.h) for limits of the model, the card (hca_card.h) for
 * what cards differ in, the device for its state. Create commands enforce the same numbers.
 *
 * uverbs.c calls these with the device lock held, but cmd_get_context, which takes it. What to know
 * before changing it: libmlx5 and DPDK choose sizes and formats by what is reported here, so a new
 * capability needs the model behind it first. Structures grow at their ends: response_length and
 * the length of the request name the part that both sides know.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <unistd.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

#define UCTX_REQ_V2_MIN_BYTES offsetof(struct mlx5_ib_alloc_ucontext_req_v2, max_cqe_version)
#define CQE_VERSION           1u /* user indices in CQEs */

/* ---- context ---- */

/* The request has grown over the years: its length says which fields exist. */
static int ucontext_check(const struct uv_call *c)
{
	const struct mlx5_ib_alloc_ucontext_req_v2 *req = c->uhw_in;

	if (c->uhw_in_bytes < sizeof(struct mlx5_ib_alloc_ucontext_req))
		return -EINVAL;
	if (req->total_num_bfregs == 0)
		return -EINVAL;
	if (c->uhw_in_bytes < UCTX_REQ_V2_MIN_BYTES)
		return 0;
	if (req->comp_mask || req->reserved0 || req->reserved1 || req->reserved2)
		return -EOPNOTSUPP;
	/* libmlx5 asks for DEVX first, and again without it after EINVAL. */
	if (req->flags & ~(uint32_t)MLX5_IB_ALLOC_UCTX_DEVX ||
	    (req->flags & MLX5_IB_ALLOC_UCTX_DEVX && !c->ctx->dev->cfg->card->devx))
		return -EINVAL;
	/* Register pages are allocated one by one; libraries that need all at once are refused. */
	return req->lib_caps & MLX5_LIB_CAP_DYN_UAR ? 0 : -EINVAL;
}

static bool ucontext_asks_devx(const struct uv_call *c)
{
	const struct mlx5_ib_alloc_ucontext_req_v2 *req = c->uhw_in;

	return c->uhw_in_bytes >= UCTX_REQ_V2_MIN_BYTES && req->flags & MLX5_IB_ALLOC_UCTX_DEVX;
}

/* What libmlx5 takes from here decides how it drives the queues: bf_reg_size 0 keeps it from
 * BlueFlame, cqe_version 1 makes it look for the user index in CQEs. */
static void ucontext_reply(struct uv_call *c)
{
	const struct hca_card *card = c->ctx->dev->cfg->card;
	const struct mlx5_ib_alloc_ucontext_resp resp = {
		.qp_tab_size = 1u << CAP_QP_LOG2,
		.bf_reg_size = card->write_combines ? 512 : 0,
		.cache_line_size = SPW_CACHE_LINE,
		.max_sq_desc_sz = CAP_SQ_DESC_BYTES,
		.max_rq_desc_sz = 512,
		.max_send_wqebb = CAP_WQE_CNT,
		.max_recv_wr = CAP_WQE_CNT,
		.max_srq_recv_wr = CAP_WQE_CNT - 1,
		.num_ports = 1,
		.comp_mask = (card->no_clock_page
				      ? 0
				      : MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET) |
			     MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS,
		.response_length = sizeof(resp),
		.cqe_version = CQE_VERSION,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE |
				 MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = card->min_inline_bytes ? MLX5_USER_INLINE_MODE_L2
							 : MLX5_USER_INLINE_MODE_NONE,
		.clock_info_versions = 1u << MLX5_IB_CLOCK_INFO_V1,
		.hca_core_clock_offset = 0,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
	};

	uv_uhw_reply(c, &resp, sizeof(resp));
}

/* nic_start is called without the lock; the thread that it starts finds no object of this context
 * yet. A second GET_CONTEXT on one descriptor is EINVAL, as in Linux. */
int cmd_get_context(struct uv_call *c)
{
	struct ib_uverbs_get_context_resp *resp = c->out;
	struct hca_ctx *ctx = c->ctx;
	int rc = ucontext_check(c), fd;

	if (!rc)
		rc = nic_start(ctx->dev);
	if (rc)
		return rc;
	hca_lock(ctx->dev);
	rc = ctx->ready ? -EINVAL : hca_async_open(ctx, &fd);
	if (!rc) {
		ctx->ready = true;
		ctx->devx = ucontext_asks_devx(c);
		ctx->raw_tx = hca_capable(CAP_NET_RAW);
		ctx->dev->user_cnt++;
	}
	hca_unlock(ctx->dev);
	if (rc)
		return rc;
	resp->async_fd = (uint32_t)fd;
	resp->num_comp_vectors = CAP_VECTOR_CNT;
	ucontext_reply(c);
	return 0;
}

/* ---- device ---- */

/* The bits above 32 are in the extended answer only. */
uint64_t hca_device_caps(const struct hca_dev *dev)
{
	const uint32_t raw = dev->cfg->card->raw_caps;
	uint64_t caps = IB_UVERBS_DEVICE_CHANGE_PHY_PORT | IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT |
			IB_UVERBS_DEVICE_SYS_IMAGE_GUID | IB_UVERBS_DEVICE_RC_RNR_NAK_GEN |
			IB_UVERBS_DEVICE_CURR_QP_STATE_MOD | IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING;

	if (raw & IB_UVERBS_RAW_PACKET_CAP_IP_CSUM)
		caps |= IB_UVERBS_DEVICE_RAW_IP_CSUM;
	if (raw & IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS)
		caps |= IB_UVERBS_DEVICE_RAW_SCATTER_FCS;
	return caps;
}

/* Where a table limits a number, half of the table is reported, and enforced (limits.c): a free
 * number is then found at once. */
static void device_fill(const struct hca_dev *dev, struct ib_uverbs_query_device_resp *r)
{
	*r = (struct ib_uverbs_query_device_resp){
		.fw_ver = hca_fw_ver(dev),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffffffffffff000ull,
		.vendor_id = 0x02c9,
		.vendor_part_id = dev->cfg->card->part_id,
		.max_qp = cap_max_qp(dev),
		.max_qp_wr = CAP_WQE_CNT,
		.device_cap_flags = (uint32_t)hca_device_caps(dev),
		.max_sge = CAP_SGE_CNT,
		.max_sge_rd = CAP_SGE_CNT,
		.max_cq = 1u << (CAP_CQ_LOG2 - 1),
		.max_cqe = CAP_CQE_CNT - 1,
		.max_mr = 1u << (CAP_MR_LOG2 - 1),
		.max_pd = CAP_PD_CNT,
		.max_qp_rd_atom = CAP_RD_ATOMIC,
		.max_res_rd_atom = CAP_RD_ATOMIC * cap_max_qp(dev),
		.max_qp_init_rd_atom = CAP_RD_ATOMIC,
		.atomic_cap = 1, /* IB_ATOMIC_HCA */
		.max_mcast_grp = CAP_MCAST_GRP_CNT,
		.max_mcast_qp_attach = CAP_MCAST_QP_CNT,
		.max_total_mcast_qp_attach = CAP_MCAST_GRP_CNT * CAP_MCAST_QP_CNT,
		.max_ah = INT32_MAX,
		.max_srq = 1u << (CAP_SRQ_LOG2 - 1),
		.max_srq_wr = CAP_WQE_CNT - 1,
		.max_srq_sge = CAP_SGE_CNT,
		.max_pkeys = CAP_PKEY_CNT,
		.local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	};
	hca_node_guid(dev, (uint8_t *)&r->node_guid);
	hca_system_guid(dev, (uint8_t *)&r->sys_image_guid);
}

/* A structure of zeros means that the card lacks the feature. */
static void device_uhw_reply(struct uv_call *c)
{
	const struct hca_card *card = c->ctx->dev->cfg->card;
	struct mlx5_ib_query_device_resp resp = {
		.response_length = sizeof(resp),
		.rss_caps = {.rx_hash_fields_mask = card->rss_fields,
			     .rx_hash_function = card->rss_fields ? MLX5_RX_HASH_FUNC_TOEPLITZ : 0},
		.cqe_comp_caps = {.max_num = card->mini_formats ? CAP_MINI_CQE_CNT : 0,
				  .supported_format = card->mini_formats},
		.flags = MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD,
	};

	if (card->stride_log2_max)
		resp.striding_rq_caps = (struct mlx5_ib_striding_rq_caps){
			.min_single_stride_log_num_of_bytes = card->stride_log2_min,
			.max_single_stride_log_num_of_bytes = card->stride_log2_max,
			.min_single_wqe_log_num_of_strides = card->strides_log2_min,
			.max_single_wqe_log_num_of_strides = card->strides_log2_max,
			.supported_qpts = 1u << IB_UVERBS_QPT_RAW_PACKET};
	uv_uhw_reply(c, &resp, sizeof(resp));
}

/* The old form; the extended one has the same fields at its beginning. */
int cmd_query_device(struct uv_call *c)
{
	device_fill(c->ctx->dev, c->out);
	return 0;
}

/* What packet QPs can do. Without hash fields the card has no RSS at all. */
static void device_fill_raw(const struct hca_card *card, struct ib_uverbs_ex_query_device_resp *r)
{
	r->raw_packet_caps = card->raw_caps;
	if (!card->rss_fields)
		return;
	r->rss_caps = (struct ib_uverbs_rss_caps){.supported_qpts = 1u << IB_UVERBS_QPT_RAW_PACKET,
						  .max_rwq_indirection_tables = CAP_RWQ_TBL_CNT,
						  .max_rwq_indirection_table_size =
							  1u << card->rss_table_log2};
}

/* response_length lets an old library read the part that it knows. */
int cmd_ex_query_device(struct uv_call *c)
{
	const struct ib_uverbs_ex_query_device *req = c->in;
	const struct hca_card *card = c->ctx->dev->cfg->card;
	struct ib_uverbs_ex_query_device_resp r = {
		.response_length = SPW_MIN(c->out_bytes, (uint32_t)sizeof(r)),
		.max_wq_type_rq = 1u << (CAP_WQ_LOG2 - 1),
		.cq_moderation_caps = {.max_cq_moderation_count = UINT16_MAX,
				       .max_cq_moderation_period = 0xfff},
	};

	if (req->comp_mask || req->reserved)
		return -EINVAL;
	if (card->stamps != HCA_STAMPS_NONE) {
		r.timestamp_mask = card->clock_mask;
		r.hca_core_clock = card->clock_khz;
	}
	device_fill_raw(card, &r);
	device_fill(c->ctx->dev, &r.base);
	r.device_cap_flags_ex = hca_device_caps(c->ctx->dev);
	memcpy(c->out, &r, r.response_length);
	device_uhw_reply(c);
	return 0;
}

uint8_t port_ib_mtu(uint32_t mtu_bytes)
{
	uint8_t mtu = 1;

	/* 80 bytes: the headers of the longest RoCE packet. */
	while (mtu < 5 && (256u << mtu) + 80u <= mtu_bytes)
		mtu++;
	return mtu;
}

/* The pair of lane count and lane speed that makes the rate (IB encodings). */
void hca_port_speed(uint32_t mbps, uint8_t *width_out, uint8_t *speed_out)
{
	static const struct {
		uint32_t mbps;
		uint8_t width, speed;
	} t[] = {{10000, 1, 8},   {25000, 1, 32},  {40000, 2, 8},   {50000, 1, 64},
		 {100000, 2, 32}, {200000, 2, 64}, {400000, 2, 128}};
	uint32_t i = 0;

	while (i + 1 < SPW_ARRAY_CNT(t) && t[i].mbps < mbps)
		i++;
	*width_out = t[i].width;
	*speed_out = t[i].speed;
}

/* The numbers are IBTA's port states and physical states. */
int cmd_query_port(struct uv_call *c)
{
	const struct ib_uverbs_query_port *req = c->in;
	const struct hca_dev *dev = c->ctx->dev;
	struct ib_uverbs_query_port_resp *r = c->out;

	if (req->port_num != 1)
		return -EINVAL;
	*r = (struct ib_uverbs_query_port_resp){
		.port_cap_flags = IB_UVERBS_PCF_CM_SUP | IB_UVERBS_PCF_IP_BASED_GIDS,
		.max_msg_sz = CAP_MSG_BYTES,
		.gid_tbl_len = HCA_GID_CNT,
		.pkey_tbl_len = CAP_PKEY_CNT,
		.state = dev->link_up ? 4 : 1, /* ACTIVE, DOWN */
		.max_mtu = 5,
		.active_mtu = port_ib_mtu(dev->mtu_bytes),
		.phys_state = dev->link_up ? 5 : 3, /* LinkUp, Disabled */
		.link_layer = 2,                    /* Ethernet */
	};
	hca_port_speed(hca_speed_mbps(dev), &r->active_width, &r->active_speed);
	return 0;
}

/* ---- protection domains ---- */

/* A PD has no part in the NIC: its address alone decides whether a queue may use a region
 * (hca_mr_at). */
int cmd_alloc_pd(struct uv_call *c)
{
	struct ib_uverbs_alloc_pd_resp *resp = c->out;
	struct hca_pd *pd = hca_obj_new(c->ctx, HCA_PD, sizeof(*pd), 0);

	if (!pd)
		return -ENOMEM;
	pd->pdn = pd->o.handle;
	resp->pd_handle = pd->o.handle;
	uv_uhw_reply(c, &(struct mlx5_ib_alloc_pd_resp){.pdn = pd->pdn},
		     sizeof(struct mlx5_ib_alloc_pd_resp));
	return 0;
}

void hca_pd_free(struct hca_pd *pd)
{
	hca_obj_free(&pd->o);
}

/* Busy while any object refers to it. */
int cmd_dealloc_pd(struct uv_call *c)
{
	const struct ib_uverbs_dealloc_pd *req = c->in;
	struct hca_pd *pd;
	int rc = hca_obj_find_destroy(c->ctx, HCA_PD, req->pd_handle, &pd);

	if (rc)
		return rc;
	if (pd->o.use_cnt)
		return -EBUSY;
	hca_pd_free(pd);
	return 0;
}

/* ---- address handles: libmlx5 builds them and needs only the MAC of the answer ---- */

/* As for a QP, the kernel waits for the MAC of the neighbour (Linux,
 * drivers/infiniband/core/verbs.c, rdma_create_user_ah). */
int cmd_create_ah(struct uv_call *c)
{
	const struct ib_uverbs_create_ah *req = c->in;
	struct ib_uverbs_create_ah_resp *resp = c->out;
	struct mlx5_ib_create_ah_resp uhw = {.response_length = sizeof(uhw)};
	struct hca_obj *ah;
	int rc;

	if (req->attr.port_num != 1 || !hca_obj_find(c->ctx, HCA_PD, req->pd_handle))
		return -EINVAL;
	/* On Ethernet every path has a GRH. */
	if (!req->attr.is_global || req->attr.grh.sgid_index >= HCA_GID_CNT)
		return -EINVAL;
	rc = nic_resolve(c->ctx->dev, req->attr.grh.sgid_index, req->attr.grh.dgid, uhw.dmac);
	if (rc)
		return rc;
	ah = hca_obj_new(c->ctx, HCA_AH, sizeof(*ah), req->user_handle);
	if (!ah)
		return -ENOMEM;
	resp->ah_handle = ah->handle;
	uv_uhw_reply(c, &uhw, sizeof(uhw));
	return 0;
}

int cmd_destroy_ah(struct uv_call *c)
{
	const struct ib_uverbs_destroy_ah *req = c->in;
	struct hca_obj *ah;
	int rc = hca_obj_find_destroy(c->ctx, HCA_AH, req->ah_handle, &ah);

	if (!rc)
		hca_obj_free(ah);
	return rc;
}
