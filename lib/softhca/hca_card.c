/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cards of --as: data, and nothing else. Each row names where its values come from; a value
 * that no public dump shows is marked "believed", and docs/060 lists those. What all rows share
 * (30 SGEs, 32768 WQEs, 4194303 CQEs) is in kernel/cmd.h.
 *
 * Sources, by the letter used below:
 *   P  Linux drivers/net/ethernet/mellanox/mlx5/core/main.c (PCI ids), pci.ids
 *   N  Mellanox/network-operator pull 2633: the last firmware of each card
 *   U  ibv_devinfo -v of ConnectX-5, openucx/ucx issues 8139 and 9830 (156250 kHz, 63-bit mask,
 *      262144 QPs)
 *   V  ibv_devinfo -v of a ConnectX-7, openucx/ucx issue 10317
 *   L  mlx5_core log of a ConnectX-4 Lx with firmware 14.32.1010, RROrg/rr issue 353 (2^17 QPs);
 *      ethtool -i of one, isc-projects/ethq issue 8 (board id)
 *   D  DPDK drivers/common/mlx5/mlx5_devx_cmds.c and net/mlx5 mlx5_set_min_inline (18 bytes)
 *   K  Linux drivers/infiniband/hw/mlx5/main.c (what query_device derives from firmware bits)
 *   S  ibstat of a GB10, geerlingguy/sbc-reviews issue 92 (firmware, GUIDs, 200 and 40 Gb/s)
 *   Q  NVIDIA/daqiri, docs/tutorials/system_configuration.md (ports p0, p1 of the four functions)
 *   G  NVIDIA/dgx-spark-playbooks pull 108 (Gen5 x4; the state of 13 Gb/s)
 */
#include "softhca/hca_card.h"

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdio.h>
#include <string.h>

#define RAW_ALL                                                                            \
	(IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING | IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS | \
	 IB_UVERBS_RAW_PACKET_CAP_IP_CSUM)
#define RAW_NO_FCS (IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING | IB_UVERBS_RAW_PACKET_CAP_IP_CSUM)
#define RSS_ALL                                                                          \
	(MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4 | MLX5_RX_HASH_SRC_IPV6 |         \
	 MLX5_RX_HASH_DST_IPV6 | MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP | \
	 MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP)
#define MINI_ALL                                                     \
	(MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM | \
	 MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX)
#define MINI_OLD (MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM)

/* Groups of fields that most rows share. Hash fields, 2^9 queues and strides of 2^6 to 2^13 bytes:
 * K. The 63-bit mask: U. */
#define FW(major, minor, sub) .fw_major = (major), .fw_minor = (minor), .fw_sub = (sub)
#define PCIE(speed, lanes)    .pcie_speed = speed " GT/s PCIe", .pcie_width = (lanes)
#define RSS                   .rss_fields = RSS_ALL, .rss_table_log2 = 9
#define STRIDES_FROM(log2)                                                       \
	.stride_log2_min = 6, .stride_log2_max = 13, .strides_log2_min = (log2), \
	.strides_log2_max = 16
#define CQES(formats)    .mini_formats = (formats), .cq_ignore_overrun = true
#define CLOCK(kind, khz) .stamps = (kind), .clock_khz = (khz), .clock_mask = 0x7fffffffffffffffull
#define USUAL            .devx = true, .write_combines = true, .counts_wq_drops = true

/* The default card. Part id: P. Its clock is believed: dumps of its generation have 1 GHz. */
#define CX6DX                                                                               \
	.part_id = 0x101d, .subsys_id = 0x0042, FW(22, 38, 1002), .hca_type = "MT4125",     \
	.board_id = "MT_0000000000", .speed_mbps = 100000, PCIE("16.0", 16), .qp_log2 = 18, \
	.raw_caps = RAW_ALL, RSS, STRIDES_FROM(3), CQES(MINI_ALL), CLOCK(HCA_STAMPS_BOTH, 1000000)

/* Part id: P, V. Ids and firmware: V. Type: S. */
#define CX7(kind)                                                                               \
	.part_id = 0x1021, .subsys_id = 0x0041, FW(28, 39, 2048), .hca_type = "MT4129",         \
	.board_id = "LNV0000000056", .speed_mbps = 200000, PCIE("32.0", 16), .qp_log2 = 18,     \
	.raw_caps = RAW_ALL, RSS, STRIDES_FROM(3), CQES(MINI_ALL), CLOCK(kind, 1000000), USUAL, \
	.data_in_order = true

static const struct hca_card cards[] = {
	{
		/* 18 inline bytes: D. Mini-CQEs without stride index, no real-time clock, 2^9
		 * strides a WQE at least: believed. */
		.name = "cx4lx",
		.part_id = 0x1015, /* P */
		.subsys_id = 0x0016,
		FW(14, 32, 1010), /* N, L */
		.hca_type = "MT4117",
		.board_id = "MT_2420110034", /* L */
		.speed_mbps = 25000,
		PCIE("8.0", 8),
		.qp_log2 = 17, /* L */
		.min_inline_bytes = 18,
		.raw_caps = RAW_ALL,
		RSS,
		STRIDES_FROM(9),
		CQES(MINI_OLD),
		CLOCK(HCA_STAMPS_FREE_RUNNING, 156250),
		USUAL,
	},
	{
		.name = "cx5",
		.part_id = 0x1017, /* P */
		.subsys_id = 0x0008,
		FW(16, 35, 4554), /* N */
		.hca_type = "MT4119",
		.board_id = "MT_0000000080", /* U */
		.speed_mbps = 100000,
		PCIE("8.0", 16),
		.qp_log2 = 18, /* U */
		.raw_caps = RAW_ALL,
		RSS,
		STRIDES_FROM(9), /* believed */
		CQES(MINI_ALL),
		CLOCK(HCA_STAMPS_FREE_RUNNING, 156250), /* U */
		USUAL,
	},
	{.name = "cx6dx", CX6DX, USUAL, .data_in_order = true},
	{.name = "cx7", CX7(HCA_STAMPS_BOTH)},
	{
		.name = "bf3",
		.part_id = 0xa2dc,   /* P */
		.subsys_id = 0x0009, /* believed */
		FW(32, 46, 1006),    /* N */
		.hca_type = "MT41692",
		.board_id = "MT_0000000884", /* believed */
		.speed_mbps = 200000,
		PCIE("32.0", 16),
		.qp_log2 = 18,
		.raw_caps = RAW_ALL,
		RSS,
		STRIDES_FROM(3),
		CQES(MINI_ALL),
		CLOCK(HCA_STAMPS_BOTH, 1000000),
		USUAL,
		.data_in_order = true, /* believed */
	},
	{
		/* Of a ConnectX-6 Dx. 2^12 QPs, no real-time clock, no FCS for the application, no
		 * statistics of the physical port: believed. */
		.name = "vf",
		.part_id = 0x101e, /* P */
		.subsys_id = 0x0042,
		FW(22, 46, 1006), /* N */
		.hca_type = "MT4126",
		.board_id = "MT_0000000359", /* believed */
		.is_vf = true,
		.shares_port = true,
		.speed_mbps = 100000,
		PCIE("16.0", 16),
		.qp_log2 = 12,
		.raw_caps = RAW_NO_FCS,
		RSS,
		STRIDES_FROM(3),
		CQES(MINI_ALL),
		CLOCK(HCA_STAMPS_FREE_RUNNING, 1000000),
		USUAL,
		.data_in_order = true, /* believed */
	},
	{
		/* Of a ConnectX-7, with the ids of its PCI function (K). The rest as for a VF. */
		.name = "sf",
		.part_id = 0x1021,
		.subsys_id = 0x0041,
		FW(28, 39, 2048),
		.hca_type = "MT4129",
		.board_id = "LNV0000000056",
		.is_sf = true,
		.shares_port = true,
		.speed_mbps = 200000,
		PCIE("32.0", 16),
		.qp_log2 = 12,
		.raw_caps = RAW_NO_FCS,
		RSS,
		STRIDES_FROM(3),
		CQES(MINI_ALL),
		CLOCK(HCA_STAMPS_FREE_RUNNING, 1000000),
		USUAL,
		.data_in_order = true, /* believed */
	},
	/* A kernel or firmware that offers no DevX. */
	{.name = "no-devx", CX6DX, .write_combines = true, .counts_wq_drops = true},
	/* A machine that does not combine writes: a VM, some arm64. */
	{.name = "no-wc", CX6DX, .devx = true, .counts_wq_drops = true, .data_in_order = true},
	/* A kernel whose pages are larger than 4096 bytes (K, set_ucontext_resp). */
	{.name = "64k-pages", CX6DX, USUAL, .no_clock_page = true},
	/* A ConnectX-7 whose firmware is set to REAL_TIME_CLOCK_ENABLE. */
	{.name = "real-time", CX7(HCA_STAMPS_REAL_TIME)},
	{
		/* No real card: a ConnectX-4 Lx without all that a driver can do without. RSS over
		 * two queues; no raw capability, striding, compression, stamps, DEVX or write
		 * combining. */
		.name = "poor",
		.part_id = 0x1015,
		.subsys_id = 0x0016,
		FW(14, 18, 1000),
		.hca_type = "MT4117",
		.board_id = "MT_2420110034",
		.speed_mbps = 10000,
		PCIE("8.0", 4),
		.qp_log2 = 8,
		.min_inline_bytes = 18,
		.rss_fields = RSS_ALL,
		.rss_table_log2 = 1,
		CLOCK(HCA_STAMPS_NONE, 156250),
	},
	{
		/* The ConnectX-7 of a GB10: two PCIe Gen5 x4 links, one a domain (G), each shared
		 * by one function of both ports (Q), of 96 to 100 Gb/s (S). */
		.name = "dgx-spark",
		.part_id = 0x1021,
		.subsys_id = 0x0041, /* believed */
		FW(28, 45, 4028),    /* S, G */
		.hca_type = "MT4129",
		.board_id = "NVD0000000087", /* believed */
		.speed_mbps = 200000,
		PCIE("32.0", 4),
		.pcie_mbps = 100000,
		.qp_log2 = 18,
		.raw_caps = RAW_ALL,
		RSS,
		STRIDES_FROM(3),
		CQES(MINI_ALL),
		CLOCK(HCA_STAMPS_BOTH, 1000000),
		USUAL, /* data_in_order: libibverbs does not ask on aarch64 */
		.shares_port = true,
		.func_cnt = 4,
		.func = {{"rocep1s0f0", "enp1s0f0np0", 0, 1, 0, 0},
			 {"rocep1s0f1", "enp1s0f1np1", 0, 1, 1, 1},
			 {"roceP2p1s0f0", "enP2p1s0f0np0", 2, 1, 0, 0},
			 {"roceP2p1s0f1", "enP2p1s0f1np1", 2, 1, 1, 1}},
	},
};

const struct hca_card *const hca_card_default = &cards[2];

const struct hca_card *hca_card_find(const char *name)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(cards); i++)
		if (strcmp(cards[i].name, name) == 0)
			return &cards[i];
	return NULL;
}

void hca_card_names(char *text, size_t bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(cards) && n < bytes; i++)
		n += (size_t)snprintf(text + n, bytes - n, "%s%s", i ? ", " : "", cards[i].name);
}
