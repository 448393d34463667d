/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The kernel side's own calls: what its files, the preload library and tests use of each other.
 * The NIC uses none of them (kernel.h is its header).
 *
 *   uverbs.c, ioctl.c  decode a command     cmd_*.c     execute it: check, build the object, answer
 *   hca_dev.c          devices, numbers     hca_ctx.c   contexts, handles
 *   uar.c              register pages       events.c    completion and asynchronous events
 *   umem.c             checked copies       sysfs*.c, tree.c   the emulated /sys and /dev
 *   limits.c           rights, locked memory, numbers of objects
 *
 * Calls return 0 or -errno, the value that Linux returns for the same mistake. "Locked" means: call
 * with the device lock held (hca_lock).
 */
#ifndef SPW_SOFTHCA_CTL_H
#define SPW_SOFTHCA_CTL_H

#include "softhca/hca_obj.h"

/* ---- devices (hca_dev.c) ---- */

/* Purpose: creates the devices of the configuration, attaches them to their cables and settles
 *          their identities (MAC, IP, GIDs).
 * Owner:   the caller, until hca_devs_close. cfg must outlive them.
 * Errors:  -EINVAL, -ENOMEM or the cable's error, with a text. Thread: setup. */
int hca_devs_open(const struct hca_cfg *cfg, struct hca_dev **devs_out);
/* Purpose: closes the contexts that are still open, detaches and frees the devices. */
void hca_devs_close(struct hca_dev *devs, uint32_t cnt);
/* Purpose: at process exit, in place of hca_devs_close; see nic_leave. */
void hca_devs_leave(struct hca_dev *devs, uint32_t cnt);

/* Purpose: stores obj at a free number in [first, 2^max_log2). Errors: -ENOMEM, also when all are
 * taken. Locked. */
int hca_tbl_add(struct hca_tbl *t, void *obj, uint32_t first, uint32_t max_log2, uint32_t *idx_out);
void hca_tbl_del(struct hca_tbl *t, uint32_t idx); /* idx not in the table: no-op */
void hca_tbl_free(struct hca_tbl *t);

/* Facts that sysfs and the query commands both report. */
uint64_t hca_device_caps(const struct hca_dev *dev); /* IB_UVERBS_DEVICE_* */
uint64_t hca_fw_ver(const struct hca_dev *dev);      /* major << 32 | minor << 16 | sub */
uint32_t hca_netdev_ifindex(const struct hca_dev *dev);
/* In wire order. The functions of a card with a fixed layout have one system image. */
void hca_node_guid(const struct hca_dev *dev, uint8_t guid_out[8]);
void hca_system_guid(const struct hca_dev *dev, uint8_t guid_out[8]);
/* As the port negotiated. */
uint32_t hca_speed_mbps(const struct hca_dev *dev);
void hca_port_speed(uint32_t mbps, uint8_t *width_out, uint8_t *speed_out); /* IB encodings */

/* ---- contexts and objects (hca_ctx.c) ---- */

/* Purpose: one open of the character device. The NIC thread starts with the first GET_CONTEXT.
 * Owner:   ctx: the caller, until hca_ctx_close; ctx->fd, a new memfd: the application closes it.
 */
int hca_ctx_open(struct hca_dev *dev, struct hca_ctx **ctx_out);
/* Purpose: destroys all objects that the context still has, and frees it. Not locked: takes the
 * lock itself. */
void hca_ctx_close(struct hca_ctx *ctx);

/* Purpose: a zeroed object of `bytes`, which begins with struct hca_obj, under a new handle.
 * Returns: NULL: out of memory, or beyond the device's limit; -ENOMEM for both. Locked. */
void *hca_obj_new(struct hca_ctx *ctx, enum hca_obj_type type, size_t bytes, uint64_t user_handle);
/* Returns: NULL: the context has no object of that type under the handle. Locked. */
void *hca_obj_find(struct hca_ctx *ctx, enum hca_obj_type type, uint32_t handle);
/* Purpose: the look-up of a destroy command. Errors: -ENOENT (no such handle), -EINVAL (an object
 * of another type). Locked. */
int hca_obj_find_destroy(struct hca_ctx *ctx, enum hca_obj_type type, uint32_t handle,
			 void *obj_out);
void hca_obj_free(struct hca_obj *o);
/* Purpose: the same for a handle that DEVX made, which verbs commands do not find. */
void *hca_devx_find(struct hca_ctx *ctx, enum hca_obj_type type, uint32_t handle);
/* Purpose: `other` is in use until o is freed; at most as many as `held` has places. */
void hca_obj_hold(struct hca_obj *o, struct hca_obj *other);

/* Purpose: undoes one object completely, whatever it is. Locked. */
void hca_obj_destroy(struct hca_obj *o);
/* Undo one object completely; shared by the destroy commands and hca_ctx_close. Locked. */
void hca_pd_free(struct hca_pd *pd);
void hca_mr_free(struct hca_mr *mr);
void hca_cq_free(struct hca_cq *cq);
void hca_srq_free(struct hca_srq *srq);
void hca_wq_free(struct hca_wq *wq);
void hca_rwq_tbl_free(struct hca_rwq_tbl *t);
void hca_tir_free(struct hca_tir *tir);
void hca_qp_free(struct hca_qp *qp);
void hca_flow_free(struct hca_obj *flow);
void hca_uar_free(struct hca_uar *uar);

/* ---- queues (cmd_cq.c, cmd_wq.c, cmd_srq.c, cmd_qp.c) ---- */

/* Purpose: the last step of creation: gives the object, whose contents are complete, its number and
 *          the NIC's part, and counts its references. uar: where its doorbells are rung; NULL: of a
 *          QP without a send queue.
 * Errors:  -ENOMEM; the caller frees the object (hca_obj_free). Locked. */
int hca_cq_attach(struct hca_cq *cq, struct hca_uar *uar);
int hca_wq_attach(struct hca_wq *wq);
int hca_srq_attach(struct hca_srq *srq);
int hca_qp_attach(struct hca_qp *qp, struct hca_uar *uar);
/* Purpose: counts a table as a user of its queues; d is 1, or -1 as an unsigned number. Locked. */
void hca_rwq_refs(struct hca_wq **queues, uint32_t log2_cnt, uint32_t d);
/* Purpose: an indirection table over queues, cnt of them, a power of 2. Owner of `queues`: the
 *          table, from malloc; the caller again after a failure. Locked. */
int hca_rwq_tbl_make(struct hca_ctx *ctx, struct hca_wq **queues, uint32_t log2_cnt,
		     struct hca_rwq_tbl **tbl_out);

/* ---- TIRs (tir.c) ---- */

/* Purpose: a TIR that no QP owns. want: what it does (all but o, qp and nic). Errors: -ENOMEM.
 * Locked. */
int hca_tir_make(struct hca_ctx *ctx, const struct hca_tir *want, struct hca_tir **tir_out);
/* Purpose: counts the TIR as a user of its queue or table; d is 1, or -1 as an unsigned number. */
void hca_tir_refs(struct hca_tir *tir, uint32_t d);

/* ---- what Linux refuses to a process (limits.c) ---- */

/* Returns: whether the calling thread has the capability (CAP_NET_RAW). */
bool hca_capable(unsigned int capability);
/* Purpose: counts the pages of a ring or a region as locked memory, until the object is freed.
 * Errors: -ENOMEM beyond RLIMIT_MEMLOCK, -EPERM with a limit of 0. */
int hca_obj_pin(struct hca_obj *o, uint64_t addr, uint64_t bytes);
void hca_obj_unpin(struct hca_obj *o);
/* Purpose: the same in place of what the object has pinned; both count for a moment. */
int hca_obj_repin(struct hca_obj *o, uint64_t addr, uint64_t bytes);
/* Returns: whether the device may have one more. Locked. */
bool hca_obj_room(const struct hca_dev *dev, enum hca_obj_type type);
/* Errors: -ENOMEM: no room for one more QP in the group, or one more group. Locked. */
int hca_mcast_room(const struct hca_dev *dev, const uint8_t gid[16]);

/* ---- register pages (uar.c) ---- */

int hca_uar_map_ctx(struct hca_ctx *ctx); /* creates ctx->fd and maps the clock pages */
void hca_uar_unmap_ctx(struct hca_ctx *ctx);
/* Purpose: a new register page; mmap_off_out is what the application passes to mmap. Locked. */
int hca_uar_alloc(struct hca_ctx *ctx, struct hca_uar **uar_out, uint64_t *mmap_off_out);
/* Returns: NULL: the context has no such page. Locked. */
struct hca_uar *hca_uar_find(struct hca_ctx *ctx, uint32_t index);
/* Purpose: from now on doorbells of the queue are expected in this page. Locked. */
void hca_uar_bind_qp(struct hca_uar *uar, struct hca_qp *qp);
void hca_uar_unbind_qp(struct hca_qp *qp);
void hca_uar_bind_cq(struct hca_uar *uar, struct hca_cq *cq);
void hca_uar_unbind_cq(struct hca_cq *cq);

/* ---- events (events.c; raised through kernel.h) ---- */

/* Purpose: creates an event file. Owner of fd_out: the application. Locked. */
int hca_async_open(struct hca_ctx *ctx, int *fd_out);
int hca_channel_open(struct hca_ctx *ctx, int *fd_out);
/* Purpose: no more asynchronous events. A thread that waits for one goes on waiting. Locked. */
void hca_async_close(struct hca_ctx *ctx);
/* Purpose: the channel behind fd, with a reference more; NULL if it is none. Locked. */
struct hca_comp_channel *hca_channel_get(struct hca_ctx *ctx, int fd);
void hca_channel_put(struct hca_comp_channel *ch);
/* Purpose: the application closes fd. Returns: it was a channel of this context. Locked. */
bool hca_channel_fd_closed(struct hca_ctx *ctx, int fd);
/* Purpose: withdraws events about an object that the application has not read yet, and takes them
 * off the object's count of reported events. Locked. */
void hca_event_purge_cq(struct hca_cq *cq);
void hca_event_purge_async(struct hca_obj *o);

/* ---- application memory (umem.c) ---- */

/* Purpose: is [addr, addr + len) mapped, and writable if `write`? Errors: -EFAULT. */
int hca_umem_check(uint64_t addr, uint64_t len, bool write);
/* Purpose: copies for which a wrong address is -EFAULT, not a crash. */
int hca_umem_read(void *dst, uint64_t src, size_t len);
int hca_umem_write(uint64_t dst, const void *src, size_t len);

/* ---- memory regions (cmd_mr.c) ---- */

struct hca_mr_req {
	uint64_t start, length, iova;
	uint32_t pd_handle, access;
	int fd; /* dma-buf; -1: application memory */
};

/* Purpose: registers a region. Errors: as REG_MR of Linux. Locked. */
int hca_mr_make(struct hca_ctx *ctx, const struct hca_mr_req *req, struct hca_mr **mr_out);

#endif
