/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cards that the software ConnectX can be (--as NAME): one row of data for each, in hca_card.c.
 * A field is what the card reports; beside it stands who enforces it. The kernel side reports the
 * row through query commands and the emulated /sys, and refuses what the row lacks with the errno
 * of Linux; the NIC reads it where hardware differs (clock, inline headers). Nothing else may test
 * the name of a card.
 */
#ifndef SPW_SOFTHCA_HCA_CARD_H
#define SPW_SOFTHCA_HCA_CARD_H

#include "base/spw_types.h"

/* One PCI function of a card with a fixed layout; a card without one takes --devices. */
struct hca_card_func {
	const char *rdma, *netdev; /* udev's names */
	uint16_t pci_domain;
	uint8_t pci_bus, pci_func;
	uint8_t port; /* physical port, from 0: functions with the same one are its halves */
};

#define HCA_CARD_FUNCS 4u

/* Where stamps come from. A device that lacks the kind that a CQ asks for refuses the CQ. */
enum hca_stamps {
	HCA_STAMPS_NONE,         /* hca_core_clock and timestamp mask read 0 */
	HCA_STAMPS_FREE_RUNNING, /* ticks of clock_khz since power on */
	HCA_STAMPS_BOTH,         /* or real time, if the driver asks (no verbs program can) */
	HCA_STAMPS_REAL_TIME,    /* real time only (REAL_TIME_CLOCK_ENABLE) */
};

struct hca_card {
	const char *name; /* of --as */

	/* Identity: query_device, the PCI function and the RDMA device in /sys, ethtool -i. */
	uint16_t part_id;   /* PCI device and vendor_part_id */
	uint16_t subsys_id; /* PCI subsystem device */
	uint8_t fw_major;
	uint16_t fw_minor, fw_sub;
	const char *hca_type, *board_id;
	bool is_vf; /* no counters of the physical port: ethtool -S has no *_phy statistics */
	bool is_sf; /* the RDMA device is below an auxiliary device of the PCI function */
	/* Other functions have the same port: a switch in front of this one passes only frames to
	 * its own L2 addresses (nic/eth/l2.c). A function alone on its port gets all. */
	bool shares_port;

	/* Links. speed_mbps holds unless --speed follows --as. All functions of a PCI
	 * domain share one link of pcie_width lanes. */
	uint32_t speed_mbps;
	const char *pcie_speed; /* as /sys has it: "32.0 GT/s PCIe" */
	uint8_t pcie_width;     /* lanes of one function */

	/* Objects. Reported as the smaller of this and the model's own limit (kernel/cmd.h), and
	 * enforced there. */
	uint8_t qp_log2; /* most QPs: 1 << qp_log2 */

	/* Raw Ethernet. */
	uint8_t min_inline_bytes; /* of a raw send WQE, 0 or 18: eth_min_inline of GET_CONTEXT. A
				   * WQE with fewer is an error. */
	uint32_t raw_caps;        /* IB_UVERBS_RAW_PACKET_CAP_*; WQs and QPs without are refused */
	uint64_t rss_fields;      /* MLX5_RX_HASH_* that an RSS QP may hash; 0: no RSS QPs */
	uint8_t rss_table_log2;   /* largest indirection table */
	uint8_t stride_log2_min, stride_log2_max;   /* bytes of a stride; max 0: no striding WQs */
	uint8_t strides_log2_min, strides_log2_max; /* strides of a WQE */

	/* CQEs. */
	uint8_t mini_formats;   /* MLX5_IB_CQE_RES_FORMAT_*; 0: a compressed CQ is refused */
	bool cq_ignore_overrun; /* false: the flag is refused (old firmware) */

	/* Firmware commands of applications, and create_qp returns SQ, RQ and TIS numbers for them;
	 * false: GET_CONTEXT with the flag is EINVAL. */
	bool devx;

	/* qp_data_in_order of QUERY_HCA_CAP: a QP stores the bytes of each WRITE in their order
	 * (devx_query_qp). libibverbs asks on x86 only. */
	bool data_in_order;

	/* Clock: the NIC counts in clock_khz and wraps at clock_mask; both reported. */
	enum hca_stamps stamps;
	uint32_t clock_khz;
	uint64_t clock_mask;
	bool no_clock_page; /* the kernel maps no page of the clock itself, as with 64K pages */

	/* Registers. */
	bool write_combines;  /* bf_reg_size; false: it is 0, BlueFlame registers cannot be had, and
			       * 64-byte writes are not taken */
	bool counts_wq_drops; /* out_of_buffer includes frames that found no WQE of a WQ */

	/* The functions of a card that always has the same ones; func_cnt 0: as --devices says. */
	uint8_t func_cnt;
	struct hca_card_func func[HCA_CARD_FUNCS];
	uint32_t pcie_mbps; /* payload that one PCI domain carries; what --rate card enforces */
};

/* Returns: the row, or NULL: there is no such card. */
const struct hca_card *hca_card_find(const char *name);
/* The card without --as. */
extern const struct hca_card *const hca_card_default;
/* Purpose: the names of all cards, separated by ", ". */
void hca_card_names(char *text, size_t bytes);

#endif
