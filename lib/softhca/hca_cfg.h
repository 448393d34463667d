/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The configuration of the software ConnectX. tools/with-softhca passes its options to the
 * preloaded library in one environment variable, SPW_SOFTHCA="option=value;option=value;...", under
 * the names of its long options; softhca-check parses the same text before the program starts.
 */
#ifndef SPW_SOFTHCA_HCA_CFG_H
#define SPW_SOFTHCA_HCA_CFG_H

#include "softhca/hca_adversary.h"
#include "softhca/hca_card.h"

#define HCA_DEV_MAX     8u
#define HCA_MACHINE_MAX 8190u
#define HCA_GID_CNT     4u /* link-local v1, v2; IPv4-mapped v1, v2 */
#define HCA_NAME_BYTES  32u
#define HCA_TEXT_BYTES  256u

/* What a port lets in beside frames to its own MAC and broadcast (nic/eth/l2.c). */
enum hca_accept { HCA_ACCEPT_BY_CARD, HCA_ACCEPT_OWN, HCA_ACCEPT_MULTICAST, HCA_ACCEPT_ALL };

struct hca_dev_cfg {
	char name[HCA_NAME_BYTES]; /* as in /sys/class/infiniband */
	/* Interface that poses as this port's, "" for none: of the machine (--netdev), or one that
	 * only the emulated /sys and ethtool know, if the card has a fixed layout. */
	char netdev[HCA_NAME_BYTES];
	bool netdev_emulated;
	uint16_t pci_domain;
	uint8_t pci_bus, pci_dev, pci_func;
	uint8_t mac[6]; /* all 0: the cable chooses it, see struct cable_id */
	uint8_t ip[4];  /* likewise */
	uint8_t port;   /* physical port of the card */
};

#define HCA_NIC_THREADS_MAX 16u

struct hca_cfg {
	const struct hca_card *card; /* what all devices are; never NULL */
	struct hca_dev_cfg dev[HCA_DEV_MAX];
	uint32_t dev_cnt;
	/* N of the first /dev/infiniband/uverbsN: past the machine's own; set by proc_load. */
	uint32_t uverbs_first;
	uint32_t speed_mbps; /* 10000 .. 400000; reported */
	/* Enforced on each physical port, and on the PCIe link of each PCI slot. 0: not enforced.
	 * rate_card: as the port reports and as the card's row says. */
	bool rate_card;
	uint32_t rate_port_mbps, rate_pcie_mbps;
	bool rate_no_pause; /* what PCIe does not take is lost; its sender is not paused */
	/* Largest IP packet, 576 .. 9600. The port reports the largest IB MTU that fits into it. */
	uint32_t mtu_bytes;
	/* Whose card it is: of all processes below one with-softhca, which are on one machine; 0:
	 * of this process alone. The sum with a device's index is the cable_id.func of its end. */
	uint64_t machine;
	uint64_t seed; /* of all random faults */
	/* shm:NAME | afpacket:IFACE | unix:MINE,PEER | udp:PEER; several with + between:
	 * hca_cfg_cable */
	char cable[HCA_TEXT_BYTES];
	char fault[HCA_TEXT_BYTES];   /* faults to inject (inject/fault.h), "" for none */
	char control[HCA_TEXT_BYTES]; /* path of the control socket, "" for none */
	char trace[HCA_TEXT_BYTES];   /* trace directory or file, "" for none */
	char trail[HCA_TEXT_BYTES];   /* file for stamps of the generator's frames, "" for none */
	uint32_t trail_every;         /* one in so many frames of a flow; a power of 2 */
	/* File that lists what a card would not forgive, "" for none; set by proc_load. */
	char strict_log[HCA_TEXT_BYTES];
	struct hca_adversary adversary;
	int32_t nic_cpu;        /* CPU of the NIC thread; -1: any of the process's at load time */
	uint32_t nic_threads;   /* 1 .. 16: the NIC thread and its helpers; 0: by the cores */
	enum hca_accept accept; /* never BY_CARD; the flags of an interface may widen it */
	bool trap_blueflame;    /* compare BlueFlame copies with their WQEs (inject/blueflame.c) */
	bool cqe_enhanced;      /* compressed CQEs have the enhanced layout; else the basic one */
	int64_t clock_offset;   /* of the NIC clock, ns */
	double clock_ppm;       /* -1000 .. 1000 */
};

#define HCA_SPEEDS "10, 25, 40, 50, 100, 200 or 400 (Gb/s)"
/* Purpose: reads one of HCA_SPEEDS. Returns: false: it is none of them. Thread: any. */
bool hca_cfg_speed(const char *text, uint32_t *mbps_out);

/* Purpose: parses the options. text NULL or "": the defaults, one device mlx5_0 on shm:default.
 * Shape:   a later option wins over an earlier one; an option for each device takes values
 *          separated by commas, and adds devices if it has more values than there are.
 * Errors:  -EINVAL with a text that names the option and what it takes; -ENOMEM.
 * Thread:  any. */
int hca_cfg_parse(const char *text, struct hca_cfg *cfg_out);

/* Purpose: the machine of NUMBER,PID. Returns: false: it is none. Thread: any. */
bool hca_cfg_machine(const char *text, uint64_t *machine_out);

/* Purpose: are these cables (cable_open), with + between? Thread: any. */
bool hca_cfg_cable_known(const char *cables);

/* Purpose: the cable of a physical port: of N cables, port p is on the one numbered p % N.
 * Shape:   cable_out: HCA_TEXT_BYTES.
 * Thread:  any. */
void hca_cfg_cable(const struct hca_cfg *cfg, uint32_t port, char *cable_out);

#endif
