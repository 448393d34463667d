/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control path's own calls: what the parts of the kernel side say to each other.
 * Return 0 or -errno as the kernel would; "locked" means: under the device lock.
 */
#ifndef SPW_SOFTHCA_CTL_H
#define SPW_SOFTHCA_CTL_H

#include "softhca/hca_obj.h"

/* ---- devices (hca_dev.c) ------------------------------------------------------------------------- */

/* Purpose: the devices of the configuration, attached to their cables, identities settled.
 * Errors:  -EINVAL, -ENOMEM or what the cable said, with a text. Owner: the caller, until hca_devs_close. */
int hca_devs_open(const struct hca_cfg *cfg, struct hca_dev **devs_out);
void hca_devs_close(struct hca_dev *devs, uint32_t cnt);

/* Numbers. add: gives a free index in [first, 2^max_log2), stores obj there. -ENOMEM when all are taken. */
int hca_tbl_add(struct hca_tbl *t, void *obj, uint32_t first, uint32_t max_log2, uint32_t *idx_out);
void hca_tbl_del(struct hca_tbl *t, uint32_t idx);
void hca_tbl_free(struct hca_tbl *t);

/* What the identity pages and the device query say alike. */
uint64_t hca_fw_ver(const struct hca_dev *dev); /* major << 32 | minor << 16 | sub */
uint32_t hca_netdev_ifindex(const struct hca_dev *dev);
void hca_port_speed(uint32_t mbps, uint8_t *width_out, uint8_t *speed_out);

/* ---- contexts and objects (hca_ctx.c) ------------------------------------------------------------ */

/* Purpose: one open of the character device. ctx->fd is a new memfd; the application closes it.
 *          The NIC thread starts with the first GET_CONTEXT of the device. */
int hca_ctx_open(struct hca_dev *dev, struct hca_ctx **ctx_out);
/* Destroys everything that the context still has. Not locked: it takes the lock itself. */
void hca_ctx_close(struct hca_ctx *ctx);

/* Makes an object of `bytes`, zeroed, with a handle. Locked. NULL: out of memory. */
void *hca_obj_new(struct hca_ctx *ctx, enum hca_obj_type type, size_t bytes, uint64_t user_handle);
/* NULL if the context has no such object. */
void *hca_obj_find(struct hca_ctx *ctx, enum hca_obj_type type, uint32_t handle);
/* As a destroy command finds its object: 0, -ENOENT (no such handle), -EINVAL (another type). */
int hca_obj_find_destroy(struct hca_ctx *ctx, enum hca_obj_type type, uint32_t handle, void *obj_out);
void hca_obj_free(struct hca_obj *o);

/* Undo one object completely; also what closing a context does. Locked. */
void hca_pd_free(struct hca_pd *pd);
void hca_mr_free(struct hca_mr *mr);
void hca_cq_free(struct hca_cq *cq);
void hca_srq_free(struct hca_srq *srq);
void hca_wq_free(struct hca_wq *wq);
void hca_rwq_tbl_free(struct hca_rwq_tbl *t);
void hca_qp_free(struct hca_qp *qp);
void hca_flow_free(struct hca_obj *flow);
void hca_uar_free(struct hca_uar *uar);

/* ---- register pages (uar.c) ---------------------------------------------------------------------- */

int hca_uar_map_ctx(struct hca_ctx *ctx); /* makes ctx->fd and the clock pages */
void hca_uar_unmap_ctx(struct hca_ctx *ctx);
int hca_uar_alloc(struct hca_ctx *ctx, struct hca_uar **uar_out, uint64_t *mmap_off_out);
/* The page of this context that a create command names; NULL if it has no such page. */
struct hca_uar *hca_uar_find(struct hca_ctx *ctx, uint32_t index);
void hca_uar_bind_qp(struct hca_uar *uar, struct hca_qp *qp);
void hca_uar_unbind_qp(struct hca_qp *qp);
void hca_uar_bind_cq(struct hca_uar *uar, struct hca_cq *cq);
void hca_uar_unbind_cq(struct hca_cq *cq);

/* ---- events (events.c) --------------------------------------------------------------------------- */

int hca_async_open(struct hca_ctx *ctx, int *fd_out); /* fd: read end, belongs to the application */
void hca_async_close(struct hca_ctx *ctx);
int hca_channel_open(struct hca_ctx *ctx, int *fd_out);
struct hca_comp_channel *hca_channel_get(struct hca_ctx *ctx, int fd); /* takes a reference */
void hca_channel_put(struct hca_comp_channel *ch);
/* The application closed fd: true if it was a channel. */
bool hca_channel_fd_closed(struct hca_ctx *ctx, int fd);
/* Takes back what the application has not read of an object that goes away. */
void hca_event_purge_cq(struct hca_cq *cq);
void hca_event_purge_async(struct hca_obj *o);

/* ---- application memory (umem.c) ----------------------------------------------------------------- */

/* [addr, addr + len) is mapped, and writable if asked: 0, else -EFAULT. */
int hca_umem_check(uint64_t addr, uint64_t len, bool write);
/* Copies that a wrong pointer makes fail (-EFAULT), not crash. */
int hca_umem_read(void *dst, uint64_t src, size_t len);
int hca_umem_write(uint64_t dst, const void *src, size_t len);

/* ---- memory regions (cmd_mr.c) ------------------------------------------------------------------- */

struct hca_mr_req {
	uint64_t start, length, iova;
	uint32_t pd_handle, access;
	int fd; /* dma-buf; -1: application memory */
};

int hca_mr_make(struct hca_ctx *ctx, const struct hca_mr_req *req, struct hca_mr **mr_out);

#endif
