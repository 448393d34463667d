/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects of the devices as rows, which the RES commands of NETLINK_RDMA show: those of this
 * process, by the device's lists, and those of the machine's other processes, which send theirs.
 */
#ifndef SPW_SOFTHCA_NL_ROW_H
#define SPW_SOFTHCA_NL_ROW_H

#include <netinet/in.h>

#include "softhca/hca_obj.h"

/* In the order in which the kernel lists them (enum rdma_restrack_type). */
enum nl_kind { NL_PD, NL_CQ, NL_QP, NL_CM_ID, NL_MR, NL_CTX, NL_SRQ, NL_KINDS };

/* Numbers only: rows travel between processes as they are in memory. */
struct nl_row {
	uint32_t dev; /* index of the device */
	uint8_t kind; /* enum nl_kind */
	uint8_t type, state, mig_state;
	uint32_t id;        /* QP: its number; else of the device's list of objects */
	uint32_t pid;       /* 0: of another PID namespace */
	uint32_t port, qpn; /* qpn: of a CM_ID */
	uint32_t pdn, ctxn, srqn;
	uint32_t rqpn, rq_psn, sq_psn;
	uint32_t key, cqe, ps;
	uint64_t bytes, use_cnt;
	struct sockaddr_in6 src, dst; /* family 0: none */
};

struct nl_rows {
	struct nl_row *row; /* from malloc */
	uint32_t cnt, room;
};

/* Returns: a number that no object of another process of the machine has. res_id: unique among
 * those of its kind in this one. */
uint32_t nl_row_id(const struct hca_dev *dev, uint32_t res_id);
/* Returns: a zeroed row at the end; NULL: no memory. */
struct nl_row *nl_row_add(struct nl_rows *rows);
/* Purpose: all objects of this process on the devices. Takes the device locks. Thread: any. */
void nl_rows_own(struct hca_dev *devs, uint32_t cnt, struct nl_rows *rows);
/* Purpose: adds those of the machine's other processes (nl_machine.c), then sorts all by number.
 *          Waits for processes that do not answer NL_WAIT_MS at most. */
void nl_rows_all(struct hca_dev *devs, uint32_t cnt, struct nl_rows *rows);
void nl_rows_free(struct nl_rows *rows);

/* Purpose: rows of what the kernel side does not know: rdma_cm's identifiers. Called without a
 *          device lock. NULL: none. */
typedef void nl_more_fn(struct nl_rows *rows);
void nl_rows_more(nl_more_fn *fn);

#endif
