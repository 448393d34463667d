/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The object model of the software ConnectX. The kernel side (kernel/) creates these objects on the
 * application's commands; the NIC (nic/) works on them. Both run in the application's own process,
 * so the buffer addresses that libmlx5 passes in a command are plain pointers.
 *
 * Locking: one lock per device. A command holds it from look-up to answer (hca_lock); the NIC
 * thread holds it for one round of work (hca_lock_nic) and lets waiting commands go first. When a
 * destroy command returns, neither side may touch the object or its buffers: libmlx5 frees them.
 *
 * Writers: the kernel side, under the lock; of fields marked "N" the NIC, under the lock as well.
 * The NIC's own state of an object hangs on its `nic` pointer: created in nic_*_create, freed in
 * nic_*_destroy (nic/nic.h), never touched by the kernel side.
 *
 * Sources: <rdma/ib_user_verbs.h> and <rdma/mlx5-abi.h> (names, ranges), rdma-core (layout of
 * buffers).
 */
#ifndef SPW_SOFTHCA_HCA_OBJ_H
#define SPW_SOFTHCA_HCA_OBJ_H

#include <pthread.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "base/spw_order.h"
#include "softhca/hca_cfg.h"
#include "softhca/hca_cnt.h"
#include "softhca/hca_gid.h"

struct nic_dev;
struct nic_cq;
struct nic_srq;
struct nic_wq;
struct nic_tir;
struct nic_qp;
struct hca_ctx;
struct hca_dev;
struct devx_file;
struct devx_sub;

/* The values of enum ib_qp_state. */
enum hca_qp_state {
	HCA_QPS_RESET,
	HCA_QPS_INIT,
	HCA_QPS_RTR,
	HCA_QPS_RTS,
	HCA_QPS_SQD,
	HCA_QPS_SQE,
	HCA_QPS_ERR,
};

enum hca_wq_state { HCA_WQS_RESET, HCA_WQS_RDY, HCA_WQS_ERR };

/* The values of enum ib_event_type. */
enum hca_event {
	HCA_EVENT_CQ_ERR = 0,
	HCA_EVENT_QP_FATAL = 1,
	HCA_EVENT_QP_REQ_ERR = 2,
	HCA_EVENT_QP_ACCESS_ERR = 3,
	HCA_EVENT_COMM_EST = 4,
	HCA_EVENT_SQ_DRAINED = 5,
	HCA_EVENT_PATH_MIG = 6,
	HCA_EVENT_PATH_MIG_ERR = 7,
	HCA_EVENT_DEVICE_FATAL = 8,
	HCA_EVENT_PORT_ACTIVE = 9,
	HCA_EVENT_PORT_ERR = 10,
	HCA_EVENT_LID_CHANGE = 11,
	HCA_EVENT_GID_CHANGE = 18,
	HCA_EVENT_SRQ_ERR = 14,
	HCA_EVENT_SRQ_LIMIT_REACHED = 15,
	HCA_EVENT_QP_LAST_WQE_REACHED = 16,
	HCA_EVENT_WQ_FATAL = 19,
};

enum hca_obj_type {
	HCA_PD = 1,
	HCA_MR,
	HCA_AH,
	HCA_CQ,
	HCA_SRQ,
	HCA_WQ,
	HCA_RWQ_TBL,
	HCA_TIR,
	HCA_QP,
	HCA_MATCHER,
	HCA_FLOW,
	HCA_UAR,
	HCA_UMEM, /* from here on: by DEVX only */
	HCA_TD,
	HCA_TIS,
	HCA_Q_CNT,
	HCA_FLOW_CNT,
};
#define HCA_OBJ_TYPES (HCA_FLOW_CNT + 1)

/* First in every object. */
struct hca_obj {
	struct hca_ctx *ctx;
	uint32_t handle;         /* the application's name for it; unique in its context */
	uint32_t res_id;         /* netlink's; unique on the device, in this process */
	uint32_t use_cnt;        /* objects that refer to it: destroying it is EBUSY until 0 */
	uint32_t async_sent;     /* asynchronous events sent about it and not withdrawn */
	uint8_t type;            /* enum hca_obj_type */
	bool devx;               /* made by DEVX: verbs commands do not find it */
	uint64_t pinned_pages;   /* of its rings or its range: kernel/limits.c */
	uint64_t user_handle;    /* names the object in events */
	struct hca_obj *held[3]; /* DEVX: umems, its TD, TIS or counter, which it counts as used */
	struct devx_sub *devx_subs; /* DEVX: who gets its events */
};

/* A range of application memory in which DEVX objects have their rings and records. */
struct hca_umem {
	struct hca_obj o;
	uint64_t addr, bytes;
	bool writable;
};

/* A set of counters that receive queues name (ALLOC_Q_COUNTER). */
struct hca_q_cnt {
	struct hca_obj o;
	uint32_t id;            /* 8 bits */
	uint32_t out_of_buffer; /* N */
};

/* What flow rules count that name it (ALLOC_FLOW_COUNTER). */
struct hca_flow_cnt {
	struct hca_obj o;
	uint64_t frames, bytes; /* N */
};

struct hca_pd {
	struct hca_obj o;
	uint32_t pdn;
};

#define HCA_UAR_REGS 2u /* BlueFlame registers of a page, two halves each */

/* What the NIC found when it last looked at a BlueFlame register (run/doorbell.c). */
struct hca_bf {
	uint8_t last;   /* enum halves */
	uint64_t value; /* the doorbell, if it was in one half */
};

/* One 4 KB register page. The NIC and the application map the same memory (a memfd). */
struct hca_uar {
	struct hca_obj o;
	uint32_t index;                 /* device-wide; what create_qp and create_cq name */
	uint8_t *page;                  /* the NIC's own mapping, 4096 bytes */
	bool fast;                      /* N: the last two doorbells were close together */
	uint64_t rung_ns;               /* N: time of the last doorbell */
	struct hca_bf bf[HCA_UAR_REGS]; /* N */
	struct hca_qp *qps;             /* SQs that ring here, by uar_next */
	struct hca_cq *cqs;             /* CQs that arm here, by uar_next */
};

struct hca_mr {
	struct hca_obj o;
	struct hca_pd *pd;
	uint8_t *host; /* where byte `iova` lies in this process */
	uint64_t iova; /* address of the first byte in WQEs and requests of peers */
	uint64_t length_bytes;
	uint32_t access; /* IB_UVERBS_ACCESS_* */
	uint32_t key;    /* lkey = rkey = index << 8 | tag; never 0x100 */
	bool revoked;    /* N: by an injected fault; every access fails */
	void *map;       /* dma-buf: our mapping, unmapped with the region; else NULL */
	uint64_t map_bytes;
};

struct hca_cq {
	struct hca_obj o;
	uint8_t *buf;    /* ncqe * cqe_bytes */
	spw_be32 *dbrec; /* [0] consumer index, [1] arm word (0xffffffff until the first arming) */
	uint32_t cqn;
	uint32_t ncqe;       /* power of 2 */
	uint32_t cqe_bytes;  /* 64 or 128 (the CQE is then in the upper half) */
	bool comp_en;        /* compress: write title and mini-CQEs */
	uint8_t comp_format; /* MLX5_IB_CQE_RES_FORMAT_*, one bit */
	bool comp_enhanced;  /* the layout; else basic */
	bool ignore_overrun;
	bool asks_stamps; /* free-running ones, of every queue that completes to it */
	uint16_t mod_cnt, mod_period_us;
	struct hca_comp_channel *channel; /* or NULL: arming has no effect */
	uint32_t comp_sent;               /* completion events sent for it and not withdrawn */
	struct hca_uar *uar;
	struct hca_cq *uar_next;
	struct nic_cq *nic;
};

struct hca_srq {
	struct hca_obj o;
	struct hca_pd *pd;
	uint8_t *buf;    /* wqe_cnt << wqe_shift: 16 B next segment, then data segments */
	spw_be32 *dbrec; /* [0] WQEs posted so far, mod 2^16 */
	uint32_t srqn;
	uint32_t wqe_cnt; /* power of 2 */
	uint32_t wqe_shift;
	uint32_t max_wr, max_sge;
	uint32_t uidx;  /* goes into CQEs */
	uint32_t limit; /* set by a command; N: 0 once SRQ_LIMIT_REACHED has been raised */
	struct nic_srq *nic;
};

/* A cyclic receive queue: a QP's own, or a WQ's. */
struct hca_rq {
	uint8_t *buf;     /* wqe_cnt << wqe_shift */
	spw_be32 *dbrec;  /* RCV_DBR: WQEs posted so far, mod 2^16 */
	uint32_t wqe_cnt; /* power of 2; 0: no receive queue */
	uint32_t wqe_shift;
	uint32_t max_sge;
};

struct hca_wq {
	struct hca_obj o;
	struct hca_pd *pd;
	struct hca_cq *cq;
	struct hca_rq rq;
	uint32_t wqn;
	uint32_t max_wr;
	uint32_t uidx; /* goes into CQEs */
	uint8_t state; /* enum hca_wq_state; N: ERR on a fatal error */
	bool striding;
	bool two_byte_shift;
	uint8_t stride_log2_bytes;
	uint8_t strides_log2_cnt;
	uint32_t flags;        /* IB_UVERBS_WQ_FLAGS_* */
	struct hca_q_cnt *cnt; /* or NULL */
	struct nic_wq *nic;
};

struct hca_rwq_tbl {
	struct hca_obj o;
	uint32_t log2_cnt;
	uint32_t max;       /* DEVX: to which it may grow */
	struct hca_wq **wq; /* 1 << log2_cnt */
};

/* Transport interface receive: which queue gets a frame that a flow rule sends here. Each packet QP
 * has one; others are made by DEVX. Destroying one to which a rule points is EBUSY. */
struct hca_tir {
	struct hca_obj o;        /* of a QP: ctx and use_cnt only, and no handle */
	struct hca_qp *qp;       /* owner; NULL: made by DEVX */
	struct hca_wq *wq;       /* direct: this queue */
	struct hca_rwq_tbl *tbl; /* indirect: by the hash. Neither: the ring of qp */
	uint64_t fields;         /* MLX5_RX_HASH_*; 0: the hash is 0 */
	uint8_t key[40];         /* of Toeplitz */
	bool self_lb_mc;         /* its context's own multicast too */
	struct nic_tir *nic;
};

/* The attributes that modify_qp set, host byte order, the encodings of the IB specification. */
struct hca_qp_attr {
	struct ib_uverbs_qp_dest
		av; /* dgid, sgid_index, flow label, hop limit, traffic class, sl */
	struct ib_uverbs_qp_dest alt_av;
	uint32_t qkey, rq_psn, sq_psn, dest_qpn, access, rate_limit;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t path_mtu; /* 1..5: 256 << (n - 1) bytes */
	uint8_t path_mig_state;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, timeout, retry_cnt, rnr_retry, port, alt_port, alt_timeout;
	bool sqd_notify;
};

struct hca_qp {
	struct hca_obj o;
	struct hca_pd *pd;
	struct hca_cq *send_cq, *recv_cq; /* NULL where there is none (RSS) */
	struct hca_srq *srq;
	uint32_t qpn;     /* device-wide, and different on every port of one cable */
	uint8_t qp_type;  /* IB_UVERBS_QPT_* */
	uint8_t state;    /* enum hca_qp_state; N: ERR, SQE, and SQD's draining */
	bool sq_draining; /* N clears, and raises HCA_EVENT_SQ_DRAINED if attr.sqd_notify */
	bool sig_all;
	bool is_rss;           /* no rings: frames go through tir.tbl */
	uint32_t create_flags; /* IB_UVERBS_QP_CREATE_* */
	uint32_t flags;        /* MLX5_QP_FLAG_* */
	uint32_t uidx;         /* goes into CQEs */
	struct ib_uverbs_qp_cap cap;
	uint8_t *sq_buf;       /* sq_wqebb_cnt * 64 bytes */
	spw_be32 *sq_dbrec;    /* SND_DBR */
	uint32_t sq_wqebb_cnt; /* power of 2; 0: no send queue */
	struct hca_rq rq;      /* wqe_cnt 0 with an SRQ or RSS */
	struct hca_tir tir;    /* RAW_PACKET */
	struct hca_qp_attr attr;
	struct hca_uar *uar;
	struct hca_qp *uar_next;
	struct nic_qp *nic;
};

/* One attachment of a UD or RAW_PACKET QP to a multicast group. */
struct hca_mcast {
	struct hca_mcast *next;
	struct hca_qp *qp;
	uint8_t gid[16];
};

/* Objects by number; the NIC looks one up for every frame and WQE. */
struct hca_tbl {
	void **slot;
	uint32_t cap; /* power of 2 */
	uint32_t used;
	uint32_t cursor; /* numbers are assigned in turn, so that a stale one seldom hits */
	uint8_t *tag;    /* of the slot's last key (MRs only) */
};

/* One open of /dev/infiniband/uverbsN. */
struct hca_ctx {
	struct hca_dev *dev;
	struct hca_ctx *next;
	int fd;          /* the application's; a memfd that holds the register and clock pages */
	uint32_t res_id; /* as of an object */
	bool ready;      /* GET_CONTEXT has been answered */
	bool devx;       /* and asked for DEVX */
	bool raw_tx;     /* DEVX: and had CAP_NET_RAW then */
	struct hca_async *async;
	struct hca_comp_channel *channels;
	struct hca_tbl objs;                   /* by handle */
	spw_be64 *core_clock;                  /* N refreshes: the NIC clock */
	struct mlx5_ib_clock_info *clock_info; /* N refreshes, by its `sign` protocol */
};

/* What has a rate: a physical port, or a PCIe link. Written by the NIC thread, relaxed: a lost
 * booking is a frame too many. */
struct hca_rate {
	uint64_t mbps;        /* 0: as fast as the machine */
	uint64_t until_ns[2]; /* HCA_TX, HCA_RX: booked up to this time */
};
enum { HCA_TX, HCA_RX };

/* The card under the functions of this process. A function that is half of a port shares it. */
struct hca_chip {
	struct {
		uint32_t speed_mbps;    /* N: as negotiated with the other end */
		uint64_t down_until_ns; /* N: fault link-down=; 0: never */
		struct hca_rate rate;
	} port[HCA_DEV_MAX];
	struct hca_rate pcie[HCA_DEV_MAX]; /* by the first function behind the link */
	uint32_t paced;                    /* N: some port or link has a rate */
	uint64_t unplugged_ns;             /* N: time of the control command; 0: never */
	uint32_t gone;                     /* N: all functions have left the bus */
};

struct hca_dev {
	pthread_mutex_t mutex;
	uint32_t cmd_waiting; /* commands that want the mutex */
	uint32_t idx;
	const struct hca_cfg *cfg; /* of the process, fixed */
	struct hca_chip *chip;     /* of all functions, owned by the first */
	uint32_t pcie;             /* index of its link in chip->pcie */
	uint32_t gone;             /* N: it has left the bus */
	struct hca_dev_cfg id; /* name, PCI address, MAC, IP; final once nic_attach has returned */
	uint32_t cable_port;   /* N, by nic_attach: this NIC's port of the cable */
	uint8_t link_up;       /* N: 1 or 0; each change is reported by hca_event_port() */
	uint32_t mtu_bytes;    /* largest IP packet */
	uint8_t gid[HCA_GID_CNT][16];
	struct hca_tbl qps, cqs, srqs, wqs, mrs, uars, q_cnts;
	uint32_t obj_cnt[HCA_OBJ_TYPES]; /* of all contexts */
	uint32_t user_cnt;               /* contexts that are ready */
	uint32_t self_lb_cnt;            /* TIRs that want the function's own frames */
	uint32_t res_last;               /* the last res_id assigned */
	struct hca_ctx *ctxs;
	struct hca_mcast *mcast;
	struct hca_cnt cnt;       /* N */
	uint32_t cm_work;         /* the connection manager has something for the NIC: cm/cm.h */
	pthread_mutex_t ev_mutex; /* DEVX: kernel/devx_events.h */
	struct devx_file *devx_files; /* of all contexts */
	struct devx_sub *devx_subs;   /* who gets events of the port */
	struct nic_dev *nic;
};

/* The functions of a process lie one after the other, cfg->dev_cnt of them. */
SPW_INLINE const struct hca_dev *hca_first(const struct hca_dev *dev)
{
	return dev - dev->idx;
}

SPW_INLINE bool hca_is_gone(const struct hca_dev *dev)
{
	return spw_thr_load_rlx(&dev->gone) || spw_thr_load_rlx(&dev->chip->gone);
}

/* Do two functions lead to the same physical port? Also true of one function and itself. */
SPW_INLINE bool hca_same_port(const struct hca_dev *a, const struct hca_dev *b)
{
	return a->id.port == b->id.port;
}

/* Removes an item from a singly linked list; no-op if it is not in the list. */
#define HCA_UNLINK(head, item, next)             \
	do {                                     \
		__typeof__(head) *at_ = &(head); \
                                                 \
		while (*at_ && *at_ != (item))   \
			at_ = &(*at_)->next;     \
		if (*at_)                        \
			*at_ = (item)->next;     \
	} while (0)

/* ---- the device lock ---- */

SPW_INLINE void hca_lock(struct hca_dev *dev)
{
	spw_thr_fetch_add(&dev->cmd_waiting, 1u);
	pthread_mutex_lock(&dev->mutex);
	spw_thr_fetch_add(&dev->cmd_waiting, -1u);
}

SPW_INLINE void hca_unlock(struct hca_dev *dev)
{
	pthread_mutex_unlock(&dev->mutex);
}

/* For the NIC thread. Returns: false: a command is waiting, the device is left out of this round.
 */
SPW_INLINE bool hca_lock_nic(struct hca_dev *dev)
{
	if (spw_thr_load_rlx(&dev->cmd_waiting))
		return false;
	pthread_mutex_lock(&dev->mutex);
	return true;
}

/* ---- look-up by number, under the lock; NULL if there is none ---- */

SPW_INLINE void *hca_tbl_get(const struct hca_tbl *t, uint32_t idx)
{
	return spw_likely(idx < t->cap) ? t->slot[idx] : NULL;
}

/* QPNs carry the cable port in bits 16..23. */
#define HCA_QPN_SLOT(qpn) ((qpn)&0xffffu)

SPW_INLINE struct hca_qp *hca_qp_get(const struct hca_dev *dev, uint32_t qpn)
{
	struct hca_qp *qp = hca_tbl_get(&dev->qps, HCA_QPN_SLOT(qpn));

	return qp && qp->qpn == qpn ? qp : NULL;
}

/* The MR that a key of a WQE or of a peer names; NULL as well if its tag differs or it was revoked.
 */
SPW_INLINE struct hca_mr *hca_mr_get(const struct hca_dev *dev, uint32_t key)
{
	struct hca_mr *mr = hca_tbl_get(&dev->mrs, key >> 8);

	return mr && mr->key == key && !mr->revoked ? mr : NULL;
}

/* Address of [va, va + len) of the MR in this process. NULL: not inside the region, another PD, or
 * access bits are missing. */
SPW_INLINE uint8_t *hca_mr_at(const struct hca_mr *mr, const struct hca_pd *pd, uint64_t va,
			      uint64_t len, uint32_t access)
{
	uint64_t off = va - mr->iova;

	if (mr->pd != pd || (mr->access & access) != access)
		return NULL;
	if (off > mr->length_bytes || len > mr->length_bytes - off)
		return NULL;
	return mr->host + off;
}

#endif
