/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What one end is, as far as the figures depend on it. Made from lib/plat at this end; of the other
 * end it comes over the control connection and is checked.
 */
#ifndef PERF_FACTS_H
#define PERF_FACTS_H

#include "perf.h"
#include "plat/spw_plat.h"

#define PERF_NIC_MAX     16u
#define PERF_FINDING_MAX 24u
#define PERF_BOND_MAX    4u

/* An RDMA function that could be a rail. */
struct perf_nic {
	char rdma[32], netdev[16], pci[16], guid[24];
	char ip[16];        /* of its RoCE v2 GID; "" none */
	uint32_t prefix;    /* bits of its subnet */
	uint32_t port;      /* functions of one physical port have the same number */
	uint32_t mtu;       /* 0 unknown */
	uint32_t link_mbps; /* negotiated; 0 unknown */
	uint32_t lanes;     /* PCIe; 0 unknown */
	uint32_t pcie_mtps; /* a lane; 0 unknown */
	uint32_t device;    /* PCI id */
	/* What a software device enforces at its port and its PCIe link; 0: nothing. */
	uint32_t port_enforced_mbps, pcie_enforced_mbps;
	bool up;
	bool in_kernel; /* ip is an address of netdev: TCP reaches it too */
};

struct perf_bond {
	char name[16], ip[16];
	char slaves[64]; /* "eth0+eth1" */
	uint32_t prefix;
};

struct perf_finding {
	char code[32], what[200], todo[240];
};

struct perf_end {
	char host[64], machine[64], kernel[96], version[32], gpu[96];
	char no_gpu[320]; /* why kernels cannot run there; "" they can */
	bool software;    /* its RDMA devices are software ConnectX */
	uint32_t cores;
	uint32_t busy_percent; /* of one core, that others took just before (busy.c) */
	uint64_t memory_max;   /* longest message for which it will allocate */
	struct perf_nic nic[PERF_NIC_MAX];
	uint32_t nic_cnt;
	struct spw_plat_rdma other[SPW_PLAT_RDMA_MAX]; /* RDMA devices that are no NIC */
	uint32_t other_cnt;
	struct perf_bond bond[PERF_BOND_MAX];
	uint32_t bond_cnt;
	struct perf_finding finding[PERF_FINDING_MAX]; /* of the doctor, about the network */
	uint32_t finding_cnt;
};

/* Purpose: reads this machine. Errors: those of spw_plat_read. */
int perf_facts_read(struct perf_end *end_out);
/* Purpose: the facts of a machine that lib/plat has read. */
void perf_facts_take(const struct spw_plat *plat, struct perf_end *end_out);
json_t *perf_facts_json(const struct perf_end *end);
/* Errors: -EPROTO. */
int perf_facts_parse(const json_t *json, struct perf_end *end_out);

/* Purpose: what an RDMA device of perf_end.other is, and why it is not taken. */
void perf_other_text(const struct spw_plat_rdma *dev, char *out, size_t bytes);

/* Returns: payload that its PCIe link can carry, in Mbit/s; 0 unknown: raw bits less the line code
 * (PCIe 1 and 2: 8b/10b, later ones: 128b/130b) and 24 bytes of header, framing and LCRC for each
 * 256 bytes. */
uint32_t perf_nic_pcie_mbps(const struct perf_nic *nic);
/* Returns: whether two functions sit on one PCIe link: same domain, bus and device. */
bool perf_nic_same_link(const struct perf_nic *a, const struct perf_nic *b);

#endif
