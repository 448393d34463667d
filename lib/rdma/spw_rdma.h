/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An RDMA device as spinwire uses it: open by name, state of the port, GIDs, memory registration,
 * clock, asynchronous events. Plain verbs only, so it works for any RDMA device; shared by the
 * drivers of port/mlx5 and port/verbs, and by lib/peer.
 *
 * Every error is one line that says what to do; the caller puts the port's name in front.
 *
 *   rdma_dev_open -> rdma_dev_attach (regions) -> queues of the driver -> ... -> rdma_dev_close
 *                    rdma_dev_key                 rdma_dev_key_replace after an error
 */
#ifndef SPW_RDMA_H
#define SPW_RDMA_H

#include <infiniband/verbs.h>
#include <pthread.h>

#include "frame/spw_port_event.h"
#include "frame/spw_port_spec.h"
#include "mem/spw_mem.h"
#include "time/spw_time.h"

/* A registered region. Its key changes when rdma_dev_key_replace registers it again. */
struct rdma_region {
	struct spw_region region;
	struct ibv_mr *mr; /* NULL: not attached */
};

/* An open device and one of its ports. Owner: the driver's port. Read-only after setup except where
 * a field says otherwise. */
struct rdma_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	char name[IBV_SYSFS_NAME_MAX];
	uint8_t port_num;
	int numa_node; /* -1 unknown */
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port; /* as of rdma_dev_open */
	struct spw_tsc tsc;
	struct ibv_comp_channel *channel; /* rdma_dev_channel_open; NULL: none */
	bool has_ptp; /* no page of the clock: it is read by way of the PTP clock, */
	int ptp_fd;   /* of this file */
	/* Both written by the thread of rdma_dev_events_read, sampled by others. */
	uint64_t link_down_cnt;
	bool gone;                                 /* failed or removed */
	struct rdma_region region[SPW_REGION_MAX]; /* by id */
	/* Guards keys, and what else the queues of a port share; bursts never take it. */
	pthread_mutex_t lock;
};

/* ---- device ---- */

/* Purpose: the capabilities (capabilities(7), bit CAP_x) that a port of this specification needs
 * for as long as it is open: CAP_NET_RAW for raw queues and flow rules, which a recovery creates
 * again; none for mode=rc.
 * Thread: any.
 */
uint64_t rdma_caps(const struct spw_port_spec *spec);

/* Purpose: opens the device, allocates a protection domain, reads capabilities and port, and
 * calibrates the tick counter (20 ms). The link may be down; rdma_dev_check_link reports that.
 * Shape: name as ibv_devices prints it; port_num from 1.
 * Owner: the caller, until rdma_dev_close.
 * Thread: setup.
 * Errors: -ENODEV: no such device (the text lists those present), or no RDMA at all; -EACCES,
 * -EPERM: the device node may not be opened; -ERANGE: no such port. *dev_out is then as after
 * rdma_dev_close. */
int rdma_dev_open(const char *name, uint8_t port_num, struct rdma_dev *dev_out);
/* Purpose: deregisters the regions and closes the device. Every other object on it is destroyed.
 * Shape: a zeroed struct is fine.
 * Thread: setup. */
void rdma_dev_close(struct rdma_dev *dev);

/* What a user does about a device that is gone: a context of it never works again, even if a device
 * of the same name appears again, as on a DGX Spark when a cable is plugged in again. */
#define RDMA_GONE_TEXT "the device failed or was removed: restart this program when it is back"

/* Purpose: reads the state of the port again.
 * Thread: setup.
 * Errors: -ENETDOWN with the state, if the port is not active; -EIO, -ENODEV the device is gone. */
int rdma_dev_check_link(struct rdma_dev *dev);

/* Returns: Mbit/s of the port as last read; 0 if the device reports an unknown code. Thread: any.
 */
uint32_t rdma_dev_speed_mbps(const struct rdma_dev *dev);
/* Returns: bytes of payload of the largest RDMA packet, 256 .. 4096. Thread: any. */
uint32_t rdma_dev_mtu_bytes(const struct rdma_dev *dev);
/* Purpose: reads a counter of the port from sysfs, for example path "hw_counters/out_of_buffer".
 * Returns: false if it cannot be read.
 * Thread: any, outside the bursts (it opens a file). */
bool rdma_dev_counter(const struct rdma_dev *dev, const char *path, uint64_t *value_out);

/* ---- addresses ---- */

/* An entry of the port's GID table. */
struct rdma_gid {
	union ibv_gid gid;
	uint8_t index;
};

/* Purpose: the source GID for RoCE v2.
 * Shape: text is an index, or NULL: the first RoCE v2 GID with an IPv4 address, else the first that
 * is not link-local, else the first.
 * Thread: setup.
 * Errors: -EINVAL: no number, past the table, empty, or not RoCE v2 (the text names one that fits);
 * -ENOENT: the port has none. */
int rdma_dev_gid(const struct rdma_dev *dev, const char *text, struct rdma_gid *gid_out);

/* ---- memory ---- */

/* Purpose: registers the whole region for receive and send. Idempotent.
 * Owner: the registration is dev's, until rdma_dev_close; the region outlives it.
 * Thread: setup.
 * Errors: -ENOMEM, -EAGAIN: the limit of locked memory, with the size needed and how to raise it;
 * -ENOTSUP: the driver registers no dma-buf; others with errno's text. */
int rdma_dev_attach(struct rdma_dev *dev, const struct spw_region *region);
/* Purpose: the local key of an attached region.
 * Thread: setup.
 * Errors: -EINVAL: the region was not attached. */
int rdma_dev_key(struct rdma_dev *dev, uint16_t region_id, uint32_t *lkey_out);
/* Purpose: recovers from a key that the device refuses. If the region's key is still bad_lkey, the
 * region is registered again; otherwise another queue has done so, and *lkey_out is the new key.
 * Queues that still use the old key meet the same error and call this too.
 * Shape: the region was attached.
 * Thread: any owner, outside the bursts; takes dev->lock.
 * Errors: as rdma_dev_attach; *lkey_out is then the old key. */
int rdma_dev_key_replace(struct rdma_dev *dev, uint16_t region_id, uint32_t bad_lkey,
			 uint32_t *lkey_out);
/* Purpose: registers a range of memory in a protection domain.
 * Shape: access is a set of IBV_ACCESS_*.
 * Owner: *mr_out is the caller's, until ibv_dereg_mr; the memory outlives it.
 * Thread: setup, or the control thread.
 * Errors: as rdma_dev_attach. */
int rdma_mr_reg_bytes(const struct rdma_dev *dev, struct ibv_pd *pd, void *addr, size_t bytes,
		      int access, struct ibv_mr **mr_out);

/* A range of a dma-buf, and the address by which work requests name its first byte. */
struct rdma_dmabuf {
	int fd;          /* may be closed once it is registered */
	uint64_t offset; /* in the dma-buf */
	uint64_t addr;
	size_t bytes;
};

/* Purpose: registers a range of a dma-buf in the device's protection domain.
 * Shape: access is a set of IBV_ACCESS_*.
 * Owner: as rdma_mr_reg_bytes.
 * Thread: setup, or the control thread.
 * Errors: -ENOTSUP: the driver registers no dma-buf, or not this one; -EBADF: fd is not open (a
 * driver that registers none answers -ENOTSUP before it looks at fd); -ENOMEM, -EAGAIN as
 * rdma_dev_attach. */
int rdma_mr_reg_dmabuf(const struct rdma_dev *dev, const struct rdma_dmabuf *buf, int access,
		       struct ibv_mr **mr_out);

/* ---- clock ---- */

/* Purpose: finds the way to read the device's clock; part of rdma_dev_open. That is the page that
 * the kernel maps or, where it maps none (mlx5 with pages above 4096 bytes: Linux
 * drivers/infiniband/hw/mlx5/main.c, set_ucontext_resp), the PTP clock of the same card, converted
 * to ticks by the kernel's conversion page (mlx5dv_get_clock_info). The log names the second way,
 * or why there is none; then stamps are not used.
 * Thread: setup. */
void rdma_dev_clock_open(struct rdma_dev *dev);
/* Purpose: reads the device's clock and the CPU's as one pair (spw_port_driver.pair_clock).
 * Shape: the true offset lies within +-*uncertainty_ns_out; on the way by PTP that includes two
 * system calls, a few microseconds.
 * Thread: any, outside the bursts (about 150 us on a software device).
 * Errors: -ENOTSUP: no readable clock. */
int rdma_dev_pair_clock(struct rdma_dev *dev, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out);
/* Returns: ticks per second of the device's clock; 0 if it has no readable clock. Thread: any. */
uint64_t rdma_dev_clock_hz(const struct rdma_dev *dev);

/* ---- events ---- */

/* Purpose: makes the event file non-blocking; part of rdma_dev_open. Thread: setup. */
int rdma_dev_events_open(struct rdma_dev *dev);

/* Purpose: an event of a QP, CQ, SRQ or WQ; the element is valid during the call. */
typedef void rdma_dev_object_fn(void *arg, const struct ibv_async_event *event);

/* Purpose: reads asynchronous events without waiting. Port up, port down and (once) the end of the
 * device become events of the port; events of objects go to on_object.
 * Returns: events written, 0 .. cnt.
 * Thread: control (rdma/spw_rdma_ctl.h), and no other. */
uint16_t rdma_dev_events_read(struct rdma_dev *dev, rdma_dev_object_fn *on_object, void *arg,
			      struct spw_port_event *event, uint16_t cnt);

/* Purpose: gives the device a channel: CQs that mlx5_cq_make creates from now on raise completion
 *   events: dev->channel->fd can be read then. rdma_dev_close ends it.
 * Thread: setup.
 * Errors: -EMFILE, -ENOMEM: those of ibv_create_comp_channel(3), with a text. */
int rdma_dev_channel_open(struct rdma_dev *dev);

/* Purpose: takes completion events without waiting; on_event gets the context of each CQ.
 * Shape: at most RDMA_CHANNEL_MAX in one call; the descriptor can be read as long as more are left.
 * Thread: owner of the CQs, so that none is destroyed meanwhile. */
#define RDMA_CHANNEL_MAX 64u
void rdma_dev_channel_read(struct rdma_dev *dev, void (*on_event)(void *cq_context));

#endif
