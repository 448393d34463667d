/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/port: what every driver on an RDMA device shares. Opening by name, the state of the port, GIDs, memory
 * registration, asynchronous events. Plain verbs only, so it holds for any RDMA device.
 *
 * All errors are one line that says what to do; the driver's caller puts the port's name in front.
 */
#ifndef SPW_PORT_RDMA_DEV_H
#define SPW_PORT_RDMA_DEV_H

#include <infiniband/verbs.h>
#include <pthread.h>

#include "port/spw_port.h"
#include "time/spw_time.h"

/* A region and its key; the key may change (rdma_dev_key_renew). */
struct rdma_region {
	struct spw_region region;
	struct ibv_mr *mr;             /* NULL: not attached */
};

struct rdma_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	char name[IBV_SYSFS_NAME_MAX];
	uint8_t port_num;
	int numa_node;                 /* -1 unknown */
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;     /* as of rdma_dev_open */
	struct spw_tsc tsc;
	uint64_t link_down_cnt;        /* written by the thread that calls rdma_dev_events_read; others sample it */
	bool gone;                     /* told once */
	struct rdma_region region[SPW_REGION_MAX]; /* by id */
	pthread_mutex_t lock;          /* keys, and what else the queues of a port share; never held by a burst */
};

/* ---- device ---------------------------------------------------------------------------------------- */

/* Purpose: opens the device, allocates a protection domain, reads capabilities and port. Calibrates the tick counter
 *          (20 ms). The link may be down: rdma_dev_check_link says so.
 * Shape:   name as ibv_devices prints it; port_num from 1.
 * Errors:  -ENODEV no such device (with the names that there are), no RDMA at all; -EACCES, -EPERM the device node may not
 *          be opened; -ERANGE no such port. *dev_out is then as after rdma_dev_close. Thread: setup. */
int rdma_dev_open(const char *name, uint8_t port_num, struct rdma_dev *dev_out);
/* Everything made on dev is gone before. A zeroed struct is fine. Thread: setup. */
void rdma_dev_close(struct rdma_dev *dev);

/* Purpose: reads the port again. Errors: -ENETDOWN when it is not active, with its state. Thread: setup. */
int rdma_dev_check_link(struct rdma_dev *dev);

/* Purpose: Mbit/s of the port as read last, 0 if the device says nothing that is known. Thread: any. */
uint32_t rdma_dev_speed_mbps(const struct rdma_dev *dev);
/* Purpose: payload of the largest RDMA packet, 256 .. 4096. Thread: any. */
uint32_t rdma_dev_mtu_bytes(const struct rdma_dev *dev);
/* Purpose: a counter of the port under sysfs ("hw_counters/out_of_buffer"). Returns: false if it cannot be read.
 * Thread: any; opens a file. */
bool rdma_dev_counter(const struct rdma_dev *dev, const char *path, uint64_t *value_out);

/* ---- addresses -------------------------------------------------------------------------------------- */

struct rdma_gid {
	union ibv_gid gid;
	uint8_t index;
};

/* Purpose: the GID that RoCE v2 goes out with. Shape: text an index, or NULL: the first RoCE v2 GID with an IPv4 address,
 *          else the first RoCE v2 one that is not link-local, else the first RoCE v2 one.
 * Errors:  -EINVAL not a number, past the table, empty, or not RoCE v2 (names one that is); -ENOENT the port has none.
 * Thread:  setup. */
int rdma_dev_gid(const struct rdma_dev *dev, const char *text, struct rdma_gid *gid_out);

/* ---- memory ----------------------------------------------------------------------------------------- */

/* Purpose: registers the whole region for receive and send; again: nothing.
 * Errors:  -ENOMEM, -EAGAIN: the limit of locked memory, how much was wanted, and how to raise it; others with errno's
 *          text. Owner: dev, until rdma_dev_close. Thread: setup. */
int rdma_dev_attach(struct rdma_dev *dev, const struct spw_region *region);
/* Purpose: the key of the pool's region. Errors: -EINVAL it was not attached. Thread: setup. */
int rdma_dev_key(struct rdma_dev *dev, const struct spw_pool *pool, uint32_t *lkey_out);
/* Purpose: the device refused bad_lkey: gives the region's key if that has changed since, else registers it anew. Queues that
 *          still use the old key meet the same error and come here too. Thread: any owner, outside bursts. */
int rdma_dev_key_renew(struct rdma_dev *dev, uint16_t region_id, uint32_t bad_lkey, uint32_t *lkey_out);
/* Purpose: registers a piece of memory that lives as long as the caller says. Shape: access IBV_ACCESS_*. Errors: as
 *          rdma_dev_attach. Owner: the caller, ibv_dereg_mr. Thread: setup. */
int rdma_mr_reg_bytes(const struct rdma_dev *dev, struct ibv_pd *pd, void *addr, size_t bytes, int access, struct ibv_mr **mr_out);

/* ---- clock ------------------------------------------------------------------------------------------ */

/* Purpose: spw_port_driver.pair_clock. Thread: any. */
int rdma_dev_pair_clock(struct rdma_dev *dev, uint64_t *nic_ticks_out, uint64_t *tsc_out, uint64_t *uncertainty_ns_out);
/* Returns: 0 if it has no clock that can be read. */
uint64_t rdma_dev_clock_hz(const struct rdma_dev *dev);

/* ---- events ----------------------------------------------------------------------------------------- */

/* Part of rdma_dev_open: makes the event file non-blocking. */
int rdma_dev_events_open(struct rdma_dev *dev);

/* Purpose: an event of a QP, CQ, SRQ or WQ; the element is valid during the call. */
typedef void rdma_dev_object_fn(void *arg, const struct ibv_async_event *event);

/* Purpose: reads asynchronous events without waiting. Port up and down, and the end of the device (told once), become
 *          events of the port; those of objects go to on_object.
 * Returns: events written, 0 .. cnt. Thread: one and the same (rdma_ctl.h). */
uint16_t rdma_dev_events_read(struct rdma_dev *dev, rdma_dev_object_fn *on_object, void *arg, struct spw_port_event *event,
			      uint16_t cnt);

#endif
