/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: an endpoint, its devices, memories and listeners.
 * Thread of all functions: the endpoint's owner.
 */
#ifndef SPW_XFER_ENDPOINT_H
#define SPW_XFER_ENDPOINT_H

#include "base/spw_log.h"
#include "oob/spw_oob_door.h"
#include "rdma/spw_rdma.h"
#include "xfer/list.h"
#include "xfer/wire.h"

#define XFER_LEFT_OUT_MAX 32u

/* One rail of the endpoint: a device, opened once for each time that conf names it. */
struct xfer_dev {
	struct rdma_dev rdma;
	struct rdma_gid gid;
	uint16_t prefix; /* struct xfer_end */
	uint16_t mtu;    /* path MTU in bytes */
	uint8_t read_max;
	bool direct;
	bool in_order; /* struct xfer_end */
	bool atomics;
	bool link_up;
	struct ibv_td
		*td; /* direct: one doorbell register for all QPs of the endpoint; NULL: none */
	struct ibv_pd *domain;  /* rdma.pd with td; or rdma.pd itself */
	uint32_t bf_off;        /* which half of the BlueFlame register is next */
	struct xfer_loop *loop; /* flush.c; NULL: not needed so far */
};

struct spw_xfer {
	struct spw_xfer_conf conf; /* texts are NULL; defaults filled in */
	struct sockaddr_in6 bind;
	bool bind_given;
	struct spw_oob_secret secret;
	uint8_t export_key[XFER_KEY_BYTES]; /* random: of the blobs of its memory */
	struct xfer_dev dev[SPW_XFER_RAIL_MAX];
	uint32_t dev_cnt;
	struct spw_xfer_rail_stat left_out[XFER_LEFT_OUT_MAX];
	uint32_t left_out_cnt;
	struct xfer_list conns, listeners, mems;
	struct xfer_list resolves; /* of rails that were abandoned meanwhile */
	int epoll_fd;
	uint64_t house_tsc, house_every_tsc; /* next turn of the house; between two turns */
	uint64_t clock_ms;                   /* of all waits: xfer_clock_turn */
	uint64_t looked_ms, step_ms;         /* when it was last moved; how far it moves at most */
	struct spw_xfer_stat stat;
	/* What a caller can find out: requests done, connections that are ready or failed, windows;
	 * and how much of it there was when it last asked whether it may sleep (sleep.c). */
	uint64_t news, news_seen;
	struct spw_log_limit limit;
};

struct spw_xfer_mem {
	struct xfer_list link;
	struct spw_xfer *x;
	struct spw_xfer_mem_req req;
	uint32_t user_cnt;                    /* requests and windows */
	struct ibv_mr *mr[SPW_XFER_RAIL_MAX]; /* by device */
};

struct spw_xfer_listener {
	struct xfer_list link;
	struct spw_xfer *x;
	struct spw_oob_door *door; /* listens on each of at.addr */
	struct xfer_address at;
	bool keyed;
	char text[64];
};

/* ---- endpoint.c ---- */

/* Sockets, events of devices and CQs, and deadlines. Returns: descriptors that could be read. */
uint32_t xfer_house(struct spw_xfer *x);
/* One turn over the data of all connections. Returns: completions. */
uint32_t xfer_data_turn(struct spw_xfer *x);
/* Moves the clock of all waits up to now. Returns: what it showed before. */
uint64_t xfer_clock_turn(struct spw_xfer *x);
uint64_t xfer_now_ns(void);

/* ---- find.c ---- */

/* The rails of this machine that hca admits, as conf.rails would name them. */
int xfer_find(struct spw_xfer *x, const char *hca, char *rails_out, size_t bytes);
/* One that cannot be a rail. */
void xfer_leave_out(struct spw_xfer *x, const char *device, const char *why);
/* Returns: -ENODEV, with all that were left out as its text. */
int xfer_found_nothing(const struct spw_xfer *x);

/* ---- mem.c ---- */

/* Errors: -ERANGE. */
int xfer_mem_check(const struct spw_xfer *x, const struct spw_xfer_mem *mem, uint64_t addr,
		   uint64_t bytes);

/* ---- listen.c ---- */

/* Who comes in; heard: there may be somebody. */
void xfer_listener_turn(struct spw_xfer_listener *listener, uint64_t now_ms, bool heard);

/* ---- flush.c ---- */

void xfer_loop_close(struct xfer_dev *dev);
/* Whether the QPs of a device store the bytes of a WRITE in the order of their addresses, as far as
 * a CPU can observe. Only a QP in RTS can be asked: one that is connected to itself. */
bool xfer_loop_in_order(const struct spw_xfer *x, struct xfer_dev *dev);
/* Whether a flush is under way on it: those raise no events. */
bool xfer_loop_busy(struct xfer_dev *dev);

/* ---- sleep.c ---- */

/* Takes the completion events of a device. */
void xfer_channel_turn(struct xfer_dev *dev);

/* What begins from now on does without a device that is gone; its keys are 0. */
SPW_INLINE bool xfer_dev_is_gone(const struct xfer_dev *dev)
{
	return dev->rdma.gone;
}

SPW_INLINE uint32_t xfer_rkey(const struct ibv_mr *mr)
{
	return mr ? mr->rkey : 0;
}

#endif
