/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A receive work queue that gets what its own port sends to itself, for the litmus
 * (spw_rdma_loop.h). Called by port/mlx5/eth and port/verbs/eth before start.
 *
 *   queue i ─► frame from and to our own MAC ─► NIC ─► rule: our MAC, the litmus's type ─► queue i
 *
 * An mlx5 NIC returns a frame to its own function only if the receiving QP asks for it, which plain
 * verbs cannot do: MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC. A switch that gets such a frame all
 * the same drops it, because its destination lies where it came from. No other frame matches the
 * rule, so a busy wire does not disturb.
 *
 * The MAC address is that of the port's default GID (Linux drivers/infiniband/core/roce_gid_mgmt.c:
 * link-local with the interface's EUI-64, whatever addresses the interface has).
 */
#include "rdma/spw_rdma_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#ifdef SPW_HAVE_MLX5DV
#include <infiniband/mlx5dv.h>
#endif

/* A modified EUI-64 (RFC 4291, appendix A): ff:fe in the middle, the universal bit inverted. */
static bool rdma_loop_mac_of_gid(const uint8_t *raw, uint8_t *mac)
{
	static const uint8_t link_local[8] = {0xfe, 0x80};

	if (memcmp(raw, link_local, sizeof(link_local)) || raw[11] != 0xff || raw[12] != 0xfe)
		return false;
	memcpy(mac, raw + 8, 3);
	memcpy(mac + 3, raw + 13, 3);
	mac[0] ^= 2;
	return true;
}

/* The GID is searched, not taken by index: with addresses on the interface the default one need not
 * be the first. */
static int rdma_loop_own_mac(const struct rdma_dev *dev, uint8_t *mac)
{
	for (int i = 0; i < dev->port.gid_tbl_len; i++) {
		union ibv_gid gid;

		if (!ibv_query_gid(dev->ctx, dev->port_num, i, &gid) &&
		    rdma_loop_mac_of_gid(gid.raw, mac))
			return 0;
	}
	return spw_err(ENOTSUP, "%s has no GID that shows its MAC address", dev->name);
}

static struct ibv_qp *rdma_loop_qp_create(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
#ifdef SPW_HAVE_MLX5DV
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC,
	};

	if (mlx5dv_is_supported(ctx->device))
		return mlx5dv_create_qp(ctx, attr, &dv);
#endif
	return ibv_create_qp_ex(ctx, attr);
}

/* On an error the caller ends the loop, which destroys what was made. */
static int rdma_loop_qp_make(const struct rdma_dev *dev, struct ibv_wq *wq, struct rdma_loop *loop)
{
	uint8_t key[40] = {0}; /* no field is hashed, and the length is checked all the same */
	struct ibv_rwq_ind_table_init_attr table = {.ind_tbl = &wq};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = dev->pd,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				 .rx_hash_key_len = sizeof(key),
				 .rx_hash_key = key},
	};

	loop->table = ibv_create_rwq_ind_table(dev->ctx, &table);
	if (!loop->table)
		return spw_err(ENOTSUP, "%s makes no table of one queue: %s", dev->name,
			       strerror(errno));
	attr.rwq_ind_tbl = loop->table;
	loop->qp = rdma_loop_qp_create(dev->ctx, &attr);
	return loop->qp ? 0
			: spw_err(ENOTSUP, "%s makes no QP that receives its own frames: %s",
				  dev->name, strerror(errno));
}

static int rdma_loop_rule_make(const struct rdma_dev *dev, uint16_t type, const uint8_t *mac,
			       struct rdma_loop *loop)
{
	struct request {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth; /* verbs reads it behind the attr */
	} req = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(req),
			 .num_of_specs = 1,
			 .port = dev->port_num},
		.eth = {.type = IBV_FLOW_SPEC_ETH,
			.size = sizeof(req.eth),
			.val = {.ether_type = htons(type)},
			.mask = {.ether_type = 0xffff}},
	};

	_Static_assert(offsetof(struct request, eth) == sizeof(req.attr), "no gap");
	memcpy(req.eth.val.dst_mac, mac, 6);
	memset(req.eth.mask.dst_mac, 0xff, 6);
	loop->flow = ibv_create_flow(loop->qp, &req.attr);
	return loop->flow ? 0
			  : spw_err(ENOTSUP, "%s takes no rule for its own frames: %s", dev->name,
				    strerror(errno));
}

void rdma_loop_end(struct rdma_loop *loop)
{
	if (loop->flow)
		ibv_destroy_flow(loop->flow);
	if (loop->qp)
		ibv_destroy_qp(loop->qp);
	if (loop->table)
		ibv_destroy_rwq_ind_table(loop->table);
	memset(loop, 0, sizeof(*loop));
}

int rdma_loop_make(const struct rdma_dev *dev, struct ibv_wq *wq, uint16_t type,
		   struct rdma_loop *loop, uint8_t *head_out)
{
	uint8_t mac[6];
	int rc;

	rdma_loop_end(loop);
	rc = rdma_loop_own_mac(dev, mac);
	rc = rc ? rc : rdma_loop_qp_make(dev, wq, loop);
	rc = rc ? rc : rdma_loop_rule_make(dev, type, mac, loop);
	if (rc) {
		rdma_loop_end(loop);
		return rc;
	}
	memcpy(head_out, mac, 6);
	memcpy(head_out + 6, mac, 6);
	head_out[12] = (uint8_t)(type >> 8);
	head_out[13] = (uint8_t)type;
	return 0;
}
