/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The binary interface between NCCL and a net plugin, versions 8 .. 12, as far as this plugin needs
 * it. NCCL looks up the symbol ncclNetPlugin_vN, newest first, and calls through that table.
 *
 *   version   since NCCL   what differs from the one before
 *   8         2.20         the oldest here
 *   9         2.24         sizes are size_t; properties of virtual devices, largest messages
 *   10        2.26         init and connect with more arguments; handles of the profiler
 *   11        2.28         a context per communicator, and finalize
 *   12        2.30         eight virtual devices instead of four; rail and plane
 *
 * Source: the layout of NVIDIA's public headers src/include/plugin/net/net_v8.h .. net_v12.h
 * (NCCL 2.30.7), restated. Sizes and offsets are those of LP64 and asserted.
 */
#ifndef SPW_NCCLNET_NCCL_ABI_H
#define SPW_NCCLNET_NCCL_ABI_H

#include "base/spw_types.h"

#define NCCL_HANDLE_BYTES 128u
#define NCCL_REQUEST_CNT  32u /* NCCL may have so many under way on a connection */
#define NCCL_VDEV_CNT_V9  4u
#define NCCL_VDEV_CNT_V12 8u
#define NCCL_UNDEFINED    (-1)
/* Kinds of memory, as bits of ptr_support and as the type of a registration. */
#define NCCL_PTR_HOST   1
#define NCCL_PTR_CUDA   2
#define NCCL_PTR_DMABUF 4

enum nccl_result {
	NCCL_SUCCESS,
	NCCL_CUDA_ERROR,
	NCCL_SYSTEM_ERROR,
	NCCL_INTERNAL_ERROR,
	NCCL_INVALID_ARGUMENT,
	NCCL_INVALID_USAGE,
	NCCL_REMOTE_ERROR,
};

enum nccl_log_level { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 };
#define NCCL_LOG_INIT 0x01ul
#define NCCL_LOG_NET  0x10ul
typedef void nccl_logger(enum nccl_log_level level, unsigned long flags, const char *file, int line,
			 const char *fmt, ...) SPW_PRINTF(5, 6);

/* Of a communicator, since version 10. */
struct nccl_config {
	int32_t traffic_class; /* NCCL_UNDEFINED: not given */
};

/* ---- properties of a device ---- */

struct nccl_props_v8 {
	const char *name;
	const char *pci_path; /* in /sys */
	uint64_t guid;        /* equal for the functions of one adapter */
	int32_t ptr_support;
	int32_t reg_is_global; /* a registration holds for all connections */
	int32_t mbps;
	int32_t port;
	float latency; /* in us; 0: unknown */
	int32_t comm_max;
	int32_t recv_max; /* parts of a grouped receive */
	int32_t offload, offload_version;
};
SPW_ASSERT_SIZE(struct nccl_props_v8, 64);
SPW_ASSERT_OFFSET(struct nccl_props_v8, mbps, 32);

struct nccl_props_v9 { /* of version 10, too */
	const char *name;
	const char *pci_path;
	uint64_t guid;
	int32_t ptr_support;
	int32_t reg_is_global;
	int32_t force_flush;
	int32_t mbps;
	int32_t port;
	float latency;
	int32_t comm_max;
	int32_t recv_max;
	int32_t offload, offload_version;
	int32_t vdev_cnt; /* devices that it stands for: 1, itself */
	int32_t vdev[NCCL_VDEV_CNT_V9];
	size_t p2p_bytes_max, coll_bytes_max; /* longest message */
};
SPW_ASSERT_SIZE(struct nccl_props_v9, 104);
SPW_ASSERT_OFFSET(struct nccl_props_v9, vdev_cnt, 64);
SPW_ASSERT_OFFSET(struct nccl_props_v9, p2p_bytes_max, 88);

struct nccl_props_v11 {
	struct nccl_props_v9 v9;
	int32_t multi_request_max;
};
SPW_ASSERT_SIZE(struct nccl_props_v11, 112);
SPW_ASSERT_OFFSET(struct nccl_props_v11, multi_request_max, 104);

struct nccl_props_v12 {
	const char *name;
	const char *pci_path;
	uint64_t guid;
	int32_t ptr_support;
	int32_t reg_is_global;
	int32_t force_flush;
	int32_t mbps;
	int32_t port;
	float latency;
	int32_t comm_max;
	int32_t recv_max;
	int32_t offload, offload_version;
	int32_t vdev_cnt;
	int32_t vdev[NCCL_VDEV_CNT_V12];
	size_t p2p_bytes_max, coll_bytes_max;
	int32_t multi_request_max;
	int16_t rail_id, plane_id; /* NCCL_UNDEFINED */
};
SPW_ASSERT_SIZE(struct nccl_props_v12, 128);
SPW_ASSERT_OFFSET(struct nccl_props_v12, p2p_bytes_max, 104);
SPW_ASSERT_OFFSET(struct nccl_props_v12, rail_id, 124);

/* ---- tables ---- */

/* A grouped receive: n of each. */
#define NCCL_RECV_GROUP void *recv, int n, void **data, size_t *bytes, int *tag, void **mr

/* Calls that all versions share. Each returns an enum nccl_result. `offload` is a handle for
 * devices that do the work by themselves: not used. */
#define NCCL_NET_MIDDLE                                                                       \
	int (*accept)(void *listen, void **recv_out, void **offload);                         \
	int (*reg_mr)(void *comm, void *data, size_t bytes, int type, void **mr_out);         \
	int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset, \
			     int fd, void **mr_out);                                          \
	int (*dereg_mr)(void *comm, void *mr)

#define NCCL_NET_END                                                                          \
	int (*iflush)(void *recv, int n, void **data, int *bytes, void **mr, void **req_out); \
	int (*test)(void *req, int *done_out, int *bytes_out);                                \
	int (*close_send)(void *send);                                                        \
	int (*close_recv)(void *recv);                                                        \
	int (*close_listen)(void *listen);                                                    \
	int (*device_mr)(void *comm, void *mr, void **mr_out); /* may be NULL */              \
	int (*irecv_consumed)(void *recv, int n, void *req)    /* may be NULL */

struct nccl_net_v8 {
	const char *name;
	int (*init)(nccl_logger *log);
	int (*devices)(int *cnt_out);
	int (*properties)(int dev, struct nccl_props_v8 *props_out);
	int (*listen)(int dev, void *handle_out, void **listen_out);
	int (*connect)(int dev, void *handle, void **send_out, void **offload);
	NCCL_NET_MIDDLE;
	int (*isend)(void *send, void *data, int bytes, int tag, void *mr, void **req_out);
	int (*irecv)(void *recv, int n, void **data, int *bytes, int *tag, void **mr,
		     void **req_io);
	NCCL_NET_END;
};
SPW_ASSERT_SIZE(struct nccl_net_v8, 19 * 8);

struct nccl_net_v9 {
	const char *name;
	int (*init)(nccl_logger *log);
	int (*devices)(int *cnt_out);
	int (*properties)(int dev, struct nccl_props_v9 *props_out);
	int (*listen)(int dev, void *handle_out, void **listen_out);
	int (*connect)(int dev, void *handle, void **send_out, void **offload);
	NCCL_NET_MIDDLE;
	int (*isend)(void *send, void *data, size_t bytes, int tag, void *mr, void **req_out);
	int (*irecv)(NCCL_RECV_GROUP, void **req_io);
	NCCL_NET_END;
	int (*make_vdevice)(int *dev_out, void *devices); /* NULL: NCCL joins no devices */
};
SPW_ASSERT_SIZE(struct nccl_net_v9, 20 * 8);

/* `p`: handles of NCCL's profiler. */
#define NCCL_NET_TRANSFERS                                                             \
	int (*isend)(void *send, void *data, size_t bytes, int tag, void *mr, void *p, \
		     void **req_out);                                                  \
	int (*irecv)(NCCL_RECV_GROUP, void **p, void **req_io)

struct nccl_net_v10 {
	const char *name;
	int (*init)(nccl_logger *log, void *profiler);
	int (*devices)(int *cnt_out);
	int (*properties)(int dev, struct nccl_props_v9 *props_out);
	int (*listen)(int dev, void *handle_out, void **listen_out);
	int (*connect)(int dev, struct nccl_config *config, void *handle, void **send_out,
		       void **offload);
	NCCL_NET_MIDDLE;
	NCCL_NET_TRANSFERS;
	NCCL_NET_END;
	int (*make_vdevice)(int *dev_out, void *devices);
};
SPW_ASSERT_SIZE(struct nccl_net_v10, 20 * 8);

/* Versions 11 and 12 differ in their properties only. */
#define NCCL_NET_CONTEXT(PROPS)                                                            \
	const char *name;                                                                  \
	int (*init)(void **ctx_out, uint64_t comm_id, struct nccl_config *config,          \
		    nccl_logger *log, void *profiler);                                     \
	int (*devices)(int *cnt_out);                                                      \
	int (*properties)(int dev, PROPS *props_out);                                      \
	int (*listen)(void *ctx, int dev, void *handle_out, void **listen_out);            \
	int (*connect)(void *ctx, int dev, void *handle, void **send_out, void **offload); \
	NCCL_NET_MIDDLE;                                                                   \
	NCCL_NET_TRANSFERS;                                                                \
	NCCL_NET_END;                                                                      \
	int (*make_vdevice)(int *dev_out, void *devices);                                  \
	int (*finalize)(void *ctx);                                                        \
	int (*set_attributes)(void *ctx, void *attributes) /* hints; may be NULL */

struct nccl_net_v11 {
	NCCL_NET_CONTEXT(struct nccl_props_v11);
};
SPW_ASSERT_SIZE(struct nccl_net_v11, 22 * 8);
SPW_ASSERT_OFFSET(struct nccl_net_v11, isend, 10 * 8);
SPW_ASSERT_OFFSET(struct nccl_net_v11, finalize, 20 * 8);

struct nccl_net_v12 {
	NCCL_NET_CONTEXT(struct nccl_props_v12);
};
SPW_ASSERT_SIZE(struct nccl_net_v12, 22 * 8);

#endif
