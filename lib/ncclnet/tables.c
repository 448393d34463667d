/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The tables by which NCCL finds the plugin; those of a profiler (prof.c) are the only other
 * symbols of the library. Each call is turned into the one of ncclnet.h that it stands for.
 *
 *   version   context               init, connect           lengths   properties
 *   8         one of the process    logger                  int       v8
 *   9         the same              logger                  size_t    v9
 *   10        the same              more arguments, unused  size_t    v9
 *   11        of each communicator  config of communicator  size_t    v11
 *   12        the same              the same                size_t    v12
 *
 * NCCL loads the newest table that it knows (nccl_abi.h). Arguments for a profiler are not used,
 * and neither are those for an offload into the GPU.
 */
#include "ncclnet/ncclnet.h"

#define EXPORT __attribute__((visibility("default")))

/* One device since a context was opened; none before. */
static int table_devices(int *cnt_out)
{
	struct nnet_device d;

	*cnt_out = nnet_device(&d);
	return NCCL_SUCCESS;
}

/* ---- properties ---- */

/* The texts of properties are NCCL's to keep, and those of the device do not change. */
static const char *table_path_of(const struct nnet_device *d)
{
	static char path[sizeof(d->pci_path)];

	if (!*path)
		__builtin_memcpy(path, d->pci_path, sizeof(path));
	return *path ? path : NULL;
}

/* A macro, because the same fields lie at other offsets in each version's struct. reg_is_global 0:
 * NCCL registers a buffer with each connection (memory.c). */
#define FILL(P, D)                                                                      \
	do {                                                                            \
		(P)->name = "spinwire";                                                 \
		(P)->pci_path = table_path_of(D);                                       \
		(P)->guid = (D)->guid;                                                  \
		(P)->ptr_support = NCCL_PTR_HOST | ((D)->dmabuf ? NCCL_PTR_DMABUF : 0); \
		(P)->reg_is_global = 0;                                                 \
		(P)->mbps = (int32_t)(D)->mbps;                                         \
		(P)->port = 1;                                                          \
		(P)->latency = 0;                                                       \
		(P)->comm_max = 65536;                                                  \
		(P)->recv_max = NNET_RECV_MAX;                                          \
		(P)->offload = (P)->offload_version = 0;                                \
	} while (0)

#define FILL_SINCE_9(P, D)                                                 \
	do {                                                               \
		FILL(P, D);                                                \
		(P)->force_flush = 0;                                      \
		(P)->vdev_cnt = 1;                                         \
		(P)->vdev[0] = 0;                                          \
		(P)->p2p_bytes_max = (P)->coll_bytes_max = NNET_BYTES_MAX; \
	} while (0)

static bool table_device_of(int dev, struct nnet_device *d)
{
	return nnet_device(d) && dev == 0;
}

static int properties_v8(int dev, struct nccl_props_v8 *p)
{
	struct nnet_device d;

	if (!table_device_of(dev, &d))
		return NCCL_INVALID_ARGUMENT;
	FILL(p, &d);
	return NCCL_SUCCESS;
}

static int properties_v9(int dev, struct nccl_props_v9 *p)
{
	struct nnet_device d;

	if (!table_device_of(dev, &d))
		return NCCL_INVALID_ARGUMENT;
	FILL_SINCE_9(p, &d);
	return NCCL_SUCCESS;
}

static int properties_v11(int dev, struct nccl_props_v11 *p)
{
	p->multi_request_max = 1;
	return properties_v9(dev, &p->v9);
}

/* Rails and planes of a fabric are not known here: undefined. */
static int properties_v12(int dev, struct nccl_props_v12 *p)
{
	struct nnet_device d;

	if (!table_device_of(dev, &d))
		return NCCL_INVALID_ARGUMENT;
	FILL_SINCE_9(p, &d);
	p->multi_request_max = 1;
	p->rail_id = p->plane_id = NCCL_UNDEFINED;
	return NCCL_SUCCESS;
}

/* ---- versions 8 .. 10: one context for the process ---- */

static int init_v10(nccl_logger *log, void *profiler)
{
	(void)profiler;
	return nnet_legacy_open(log);
}

static int listen_v8(int dev, void *handle_out, void **listen_out)
{
	return nnet_listen(nnet_legacy(), dev, handle_out, listen_out);
}

static int connect_v8(int dev, void *handle, void **send_out, void **offload)
{
	(void)offload;
	return nnet_connect(nnet_legacy(), dev, handle, send_out);
}

/* The traffic class that config carries has no effect in this version: the process has one
 * endpoint. */
static int connect_v10(int dev, struct nccl_config *config, void *handle, void **send_out,
		       void **offload)
{
	(void)config;
	return connect_v8(dev, handle, send_out, offload);
}

/* A length below 0 becomes one that is refused as too long. */
static int isend_v8(void *send, void *data, int bytes, int tag, void *mr, void **req_out)
{
	return nnet_isend(send, data, bytes < 0 ? SIZE_MAX : (size_t)bytes, tag, mr, req_out);
}

/* As isend_v8. NNET_PART_MAX bounds what is read; a longer group is refused by nnet_irecv. */
static int irecv_v8(void *recv, int n, void **data, int *bytes, int *tag, void **mr, void **req_io)
{
	size_t wide[NNET_PART_MAX];

	for (int i = 0; i < n && i < (int)NNET_PART_MAX; i++)
		wide[i] = bytes[i] < 0 ? SIZE_MAX : (size_t)bytes[i];
	return nnet_irecv(recv, n, data, wide, tag, mr, req_io);
}

static int irecv_v9(NCCL_RECV_GROUP, void **req_io)
{
	return nnet_irecv(recv, n, data, bytes, tag, mr, req_io);
}

/* ---- versions 10 .. 12 ---- */

static int isend_v10(void *send, void *data, size_t bytes, int tag, void *mr, void *p,
		     void **req_out)
{
	(void)p;
	return nnet_isend(send, data, bytes, tag, mr, req_out);
}

static int irecv_v10(NCCL_RECV_GROUP, void **p, void **req_io)
{
	(void)p;
	return nnet_irecv(recv, n, data, bytes, tag, mr, req_io);
}

/* ---- versions 11 and 12: a context per communicator ---- */

/* *ctx_out is NULL after an error; NCCL finalizes it all the same. */
static int init_v11(void **ctx_out, uint64_t comm_id, struct nccl_config *config, nccl_logger *log,
		    void *profiler)
{
	struct nnet_ctx *ctx;
	int result = nnet_ctx_open(comm_id, config, log, &ctx);

	(void)profiler;
	*ctx_out = ctx;
	return result;
}

static int listen_v11(void *ctx, int dev, void *handle_out, void **listen_out)
{
	return nnet_listen(ctx, dev, handle_out, listen_out);
}

static int connect_v11(void *ctx, int dev, void *handle, void **send_out, void **offload)
{
	(void)offload;
	return nnet_connect(ctx, dev, handle, send_out);
}

/* NCCL calls it after an init that failed, too. */
static int finalize_v11(void *ctx)
{
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (ctx)
		nnet_ctx_put(ctx);
	return NCCL_SUCCESS;
}

/* ---- the tables ---- */

#define SHARED                                                                                 \
	.name = "spinwire", .devices = table_devices, .accept = nnet_accept,                   \
	.reg_mr = nnet_reg_mr, .reg_mr_dmabuf = nnet_reg_mr_dmabuf, .dereg_mr = nnet_dereg_mr, \
	.iflush = nnet_iflush, .test = nnet_test, .close_send = nnet_close_comm,               \
	.close_recv = nnet_close_comm, .close_listen = nnet_close_listen

extern const struct nccl_net_v8 ncclNetPlugin_v8;
EXPORT const struct nccl_net_v8 ncclNetPlugin_v8 = {
	SHARED,
	.init = nnet_legacy_open,
	.properties = properties_v8,
	.listen = listen_v8,
	.connect = connect_v8,
	.isend = isend_v8,
	.irecv = irecv_v8,
};

extern const struct nccl_net_v9 ncclNetPlugin_v9;
EXPORT const struct nccl_net_v9 ncclNetPlugin_v9 = {
	SHARED,
	.init = nnet_legacy_open,
	.properties = properties_v9,
	.listen = listen_v8,
	.connect = connect_v8,
	.isend = nnet_isend,
	.irecv = irecv_v9,
};

extern const struct nccl_net_v10 ncclNetPlugin_v10;
EXPORT const struct nccl_net_v10 ncclNetPlugin_v10 = {
	SHARED,
	.init = init_v10,
	.properties = properties_v9,
	.listen = listen_v8,
	.connect = connect_v10,
	.isend = isend_v10,
	.irecv = irecv_v10,
};

#define WITH_CONTEXT                                                                        \
	.init = init_v11, .listen = listen_v11, .connect = connect_v11, .isend = isend_v10, \
	.irecv = irecv_v10, .finalize = finalize_v11

extern const struct nccl_net_v11 ncclNetPlugin_v11;
EXPORT const struct nccl_net_v11 ncclNetPlugin_v11 = {
	SHARED,
	WITH_CONTEXT,
	.properties = properties_v11,
};

extern const struct nccl_net_v12 ncclNetPlugin_v12;
EXPORT const struct nccl_net_v12 ncclNetPlugin_v12 = {
	SHARED,
	WITH_CONTEXT,
	.properties = properties_v12,
};
