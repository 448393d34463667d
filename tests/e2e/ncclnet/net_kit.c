/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_kit.h"

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[NET_LOG_MAX], log_copy[NET_LOG_MAX];

static SPW_PRINTF(5, 6) void logger(enum nccl_log_level level, unsigned long flags,
				    const char *file, int line, const char *fmt, ...)
{
	char text[2048];
	va_list ap;
	size_t n;

	(void)flags;
	(void)file;
	(void)line;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&log_lock);
	n = strlen(log_text);
	snprintf(log_text + n, sizeof(log_text) - n, "%s%s\n",
		 level == NCCL_LOG_WARN ? "WARN " : "INFO ", text);
	fprintf(stderr, "%s %s\n", level == NCCL_LOG_WARN ? "WARN" : "INFO", text);
	pthread_mutex_unlock(&log_lock);
}

const char *net_log(void)
{
	pthread_mutex_lock(&log_lock);
	memcpy(log_copy, log_text, sizeof(log_copy));
	log_text[0] = '\0';
	pthread_mutex_unlock(&log_lock);
	return log_copy;
}

static void *library;

void *net_symbol(const char *name)
{
	return dlsym(library, name);
}

bool net_load(struct net *net, int version)
{
	const char *path = getenv("SPW_TEST_PLUGIN");
	char symbol[32];

	if (!library)
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "SPW_TEST_PLUGIN: %s\n", dlerror());
		exit(2);
	}
	snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
	*net = (struct net){.version = version, .table = net_symbol(symbol)};
	return net->table != NULL;
}

/* Calls a member that all five tables have. */
#define CALL(NET, MEMBER, ...)                                                                     \
	((NET)->version == 8    ? ((const struct nccl_net_v8 *)(NET)->table)->MEMBER(__VA_ARGS__)  \
	 : (NET)->version == 9  ? ((const struct nccl_net_v9 *)(NET)->table)->MEMBER(__VA_ARGS__)  \
	 : (NET)->version == 10 ? ((const struct nccl_net_v10 *)(NET)->table)->MEMBER(__VA_ARGS__) \
	 : (NET)->version == 11                                                                    \
		 ? ((const struct nccl_net_v11 *)(NET)->table)->MEMBER(__VA_ARGS__)                \
		 : ((const struct nccl_net_v12 *)(NET)->table)->MEMBER(__VA_ARGS__))

#define V8(NET)  ((const struct nccl_net_v8 *)(NET)->table)
#define V9(NET)  ((const struct nccl_net_v9 *)(NET)->table)
#define V10(NET) ((const struct nccl_net_v10 *)(NET)->table)
#define V11(NET) ((const struct nccl_net_v11 *)(NET)->table)
#define V12(NET) ((const struct nccl_net_v12 *)(NET)->table)

/* As many as versions, unless a test must be told apart from others on this machine. */
uint64_t net_comm(const struct net *net)
{
	const char *text = getenv("SPW_TEST_COMM");

	return text ? strtoull(text, NULL, 10) : (uint64_t)net->version;
}

int net_init(struct net *net)
{
	struct nccl_config config = {.traffic_class = NCCL_UNDEFINED};

	switch (net->version) {
	case 8:
		return V8(net)->init(logger);
	case 9:
		return V9(net)->init(logger);
	case 10:
		return V10(net)->init(logger, NULL);
	case 11:
		return V11(net)->init(&net->ctx, net_comm(net), &config, logger, NULL);
	default:
		return V12(net)->init(&net->ctx, net_comm(net), &config, logger, NULL);
	}
}

int net_finalize(struct net *net)
{
	void *ctx = net->ctx;

	net->ctx = NULL;
	return net->version == 11   ? V11(net)->finalize(ctx)
	       : net->version == 12 ? V12(net)->finalize(ctx)
				    : NCCL_SUCCESS;
}

int net_devices(const struct net *net, int *cnt)
{
	return CALL(net, devices, cnt);
}

static void from_v8(const struct nccl_props_v8 *p, struct nccl_props_v12 *props)
{
	*props = (struct nccl_props_v12){.name = p->name,
					 .pci_path = p->pci_path,
					 .guid = p->guid,
					 .ptr_support = p->ptr_support,
					 .reg_is_global = p->reg_is_global,
					 .mbps = p->mbps,
					 .port = p->port,
					 .latency = p->latency,
					 .comm_max = p->comm_max,
					 .recv_max = p->recv_max,
					 .offload = p->offload,
					 .offload_version = p->offload_version};
}

static void from_v9(const struct nccl_props_v9 *p, struct nccl_props_v12 *props)
{
	memset(props, 0, sizeof(*props));
	memcpy(props, p, offsetof(struct nccl_props_v9, p2p_bytes_max));
	props->p2p_bytes_max = p->p2p_bytes_max;
	props->coll_bytes_max = p->coll_bytes_max;
}

int net_properties(const struct net *net, int dev, struct nccl_props_v12 *props)
{
	struct nccl_props_v8 p8;
	struct nccl_props_v11 p11;
	int rc;

	memset(&p8, 0xaa, sizeof(p8));
	memset(&p11, 0xaa, sizeof(p11));
	memset(props, 0xaa, sizeof(*props));
	switch (net->version) {
	case 8:
		rc = V8(net)->properties(dev, &p8);
		from_v8(&p8, props);
		return rc;
	case 9:
		rc = V9(net)->properties(dev, &p11.v9);
		break;
	case 10:
		rc = V10(net)->properties(dev, &p11.v9);
		break;
	case 11:
		rc = V11(net)->properties(dev, &p11);
		break;
	default:
		return V12(net)->properties(dev, props);
	}
	from_v9(&p11.v9, props);
	return rc;
}

int net_listen(const struct net *net, int dev, void *handle, void **listen)
{
	switch (net->version) {
	case 8:
		return V8(net)->listen(dev, handle, listen);
	case 9:
		return V9(net)->listen(dev, handle, listen);
	case 10:
		return V10(net)->listen(dev, handle, listen);
	case 11:
		return V11(net)->listen(net->ctx, dev, handle, listen);
	default:
		return V12(net)->listen(net->ctx, dev, handle, listen);
	}
}

int net_connect(const struct net *net, int dev, void *handle, void **send)
{
	struct nccl_config config = {.traffic_class = NCCL_UNDEFINED};

	switch (net->version) {
	case 8:
		return V8(net)->connect(dev, handle, send, NULL);
	case 9:
		return V9(net)->connect(dev, handle, send, NULL);
	case 10:
		return V10(net)->connect(dev, &config, handle, send, NULL);
	case 11:
		return V11(net)->connect(net->ctx, dev, handle, send, NULL);
	default:
		return V12(net)->connect(net->ctx, dev, handle, send, NULL);
	}
}

int net_accept(const struct net *net, void *listen, void **recv)
{
	return CALL(net, accept, listen, recv, NULL);
}

int net_reg(const struct net *net, void *comm, void *data, size_t bytes, int type, void **mr)
{
	return CALL(net, reg_mr, comm, data, bytes, type, mr);
}

int net_reg_dmabuf(const struct net *net, void *comm, void *data, size_t bytes, uint64_t offset,
		   int fd, void **mr)
{
	return CALL(net, reg_mr_dmabuf, comm, data, bytes, NCCL_PTR_CUDA, offset, fd, mr);
}

int net_dereg(const struct net *net, void *comm, void *mr)
{
	return CALL(net, dereg_mr, comm, mr);
}

int net_isend(const struct net *net, void *send, void *data, size_t bytes, int tag, void *mr,
	      void **req)
{
	switch (net->version) {
	case 8:
		return V8(net)->isend(send, data, (int)bytes, tag, mr, req);
	case 9:
		return V9(net)->isend(send, data, bytes, tag, mr, req);
	case 10:
		return V10(net)->isend(send, data, bytes, tag, mr, NULL, req);
	case 11:
		return V11(net)->isend(send, data, bytes, tag, mr, NULL, req);
	default:
		return V12(net)->isend(send, data, bytes, tag, mr, NULL, req);
	}
}

int net_irecv(const struct net *net, void *recv, struct net_group *g, void **req)
{
	int narrow[NET_PART_MAX + 1];

	*req = NULL;
	for (int i = 0; i < g->n; i++)
		narrow[i] = (int)g->bytes[i];
	switch (net->version) {
	case 8:
		return V8(net)->irecv(recv, g->n, g->data, narrow, g->tag, g->mr, req);
	case 9:
		return V9(net)->irecv(recv, g->n, g->data, g->bytes, g->tag, g->mr, req);
	case 10:
		return V10(net)->irecv(recv, g->n, g->data, g->bytes, g->tag, g->mr, NULL, req);
	case 11:
		return V11(net)->irecv(recv, g->n, g->data, g->bytes, g->tag, g->mr, NULL, req);
	default:
		return V12(net)->irecv(recv, g->n, g->data, g->bytes, g->tag, g->mr, NULL, req);
	}
}

int net_iflush(const struct net *net, void *recv, int n, void **data, int *bytes, void **mr,
	       void **req)
{
	return CALL(net, iflush, recv, n, data, bytes, mr, req);
}

int net_test(const struct net *net, void *req, int *done, int *bytes)
{
	return CALL(net, test, req, done, bytes);
}

int net_close_send(const struct net *net, void *send)
{
	return CALL(net, close_send, send);
}

int net_close_recv(const struct net *net, void *recv)
{
	return CALL(net, close_recv, recv);
}

int net_close_listen(const struct net *net, void *listen)
{
	return CALL(net, close_listen, listen);
}
