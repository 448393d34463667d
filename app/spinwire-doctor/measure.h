/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to the measure_*.c files: what RDMA ports carry, by plain RDMA WRITEs over a reliable
 * connection, and whether the packets crossed a cable, by the counters of the physical port.
 *
 *   measure.c ── which pairs ──┬── measure_end.c   one end: a device, a QP, 1 MiB of memory
 *                              └── measure_peer.c  asks the other machine over ssh
 *                                  measure_answer.c, there: opens ends as it is asked to
 */
#ifndef DOCTOR_MEASURE_H
#define DOCTOR_MEASURE_H

#include "doctor.h"
#include "rdma/spw_rdma.h"
#include "rdma/spw_rdma_netdev.h"

#define MEASURE_ENDS_MAX 4u /* that run at once */
#define MEASURE_MS       400u

/* What one end reports to the other. */
struct measure_addr {
	uint32_t qpn, rkey, mtu_bytes;
	uint64_t addr;
	union ibv_gid gid;
};

struct measure_end {
	struct rdma_dev dev;
	struct rdma_gid gid;
	struct rdma_phy phy;
	uint8_t *buf;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct measure_addr there;
	uint32_t mtu_bytes; /* of the connection */
	uint32_t posted;    /* WRITEs in flight */
	uint64_t bytes;     /* acknowledged */
};

/* Opens a device and makes a QP. Close it after an error too. Errors: those of lib/rdma. */
int measure_end_open(const char *device, struct measure_end *end);
void measure_end_addr(const struct measure_end *end, struct measure_addr *out);
/* Connects it to the other end. Errors: the errno of ibv_modify_qp, with a text. */
int measure_end_join(struct measure_end *end, const struct measure_addr *there);
void measure_end_close(struct measure_end *end);

struct measure_result {
	int64_t mbps, packets, wire; /* as in struct spw_plat_pair */
};

/* Writes from all ends at once for ms, after a short warm-up. The wire is that of end[0]'s port.
 * Returns: 0; -ETIMEDOUT: nothing was acknowledged, or no more. */
int measure_run(struct measure_end *end, uint32_t cnt, uint32_t ms, struct measure_result *out);

/* ---- pairs ---- */

struct measure_list {
	struct spw_plat_pair pair[SPW_PLAT_PAIR_MAX];
	uint32_t cnt;
};

#define MEASURE_TRIES \
	3u /* a core that was preempted is no slow cable: the best of so many counts */

/* Takes a try into the pair. Returns: whether another one is worth it: it looks slow. */
bool measure_take(struct spw_plat_pair *pair, const struct measure_result *got);

/* Adds a pair; mbps -1: no answer. A full list takes no more. */
void measure_add(struct measure_list *list, const struct spw_plat_pair *pair);

/* Whether a function can be measured: an active Ethernet port with an address for RoCE v2. */
bool measure_is_usable(const struct spw_plat_nic *nic);

/* measure_peer.c: pairs to and from another machine. Errors: -EIO, -EPROTO. */
int measure_peer(const struct doctor_args *args, const struct spw_plat *plat,
		 struct measure_list *list);

/* An address as JSON. Returns: false if it is not one. */
json_t *measure_addr_json(const struct measure_addr *addr);
bool measure_addr_parse(const json_t *json, struct measure_addr *out);

#endif
