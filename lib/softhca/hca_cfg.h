/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What `tools/with-softhca` was asked for, as the library gets it: one environment variable,
 * SPW_SOFTHCA="option=value;option=value;...", with the names of the script's long options.
 */
#ifndef SPW_SOFTHCA_HCA_CFG_H
#define SPW_SOFTHCA_HCA_CFG_H

#include "base/spw_types.h"

#define HCA_DEV_MAX 8u
#define HCA_GID_CNT 4u /* link-local v1, v2; IPv4-mapped v1, v2 */
#define HCA_NAME_BYTES 32u
#define HCA_TEXT_BYTES 256u

struct hca_dev_cfg {
	char name[HCA_NAME_BYTES];   /* as in /sys/class/infiniband */
	char netdev[HCA_NAME_BYTES]; /* an existing interface that stands beside it, "" for none */
	uint16_t pci_domain;
	uint8_t pci_bus, pci_dev, pci_func;
	uint8_t mac[6];              /* all 0 in the configuration: derived from the cable port */
	uint8_t ip[4];               /* likewise */
};

struct hca_cfg {
	struct hca_dev_cfg dev[HCA_DEV_MAX];
	uint32_t dev_cnt;
	uint32_t uverbs_first;       /* number of the first device file: past the machine's own (proc_load) */
	uint32_t speed_mbps;         /* 10000 .. 400000 */
	uint32_t mtu_bytes;          /* largest IP packet, 576 .. 9600; the IB MTU is the largest that fits */
	uint16_t part_id;            /* PCI device: 0x101d ConnectX-6 Dx, 0x1021 ConnectX-7 */
	uint64_t seed;               /* of everything random */
	char cable[HCA_TEXT_BYTES];  /* shm:NAME | afpacket:IFACE | unix:MINE,PEER */
	char fault[HCA_TEXT_BYTES];  /* for the NIC, "" for none */
	char control[HCA_TEXT_BYTES]; /* path of the control socket, "" for none */
	char trace[HCA_TEXT_BYTES];  /* trace directory or file, "" for none */
	int32_t nic_cpu;             /* the NIC thread's, -1: any that the process had at its start */
	bool cqe_enhanced;           /* layout of compressed CQEs */
	char clock[HCA_TEXT_BYTES];  /* offset=NS,ppm=F: of the NIC clock, "" for none */
};

/* Purpose: reads the options; text NULL or "" gives the defaults (one mlx5_0 on cable shm:default).
 * Errors:  -EINVAL with a text that names the option. Thread: any. */
int hca_cfg_parse(const char *text, struct hca_cfg *cfg_out);

#endif
