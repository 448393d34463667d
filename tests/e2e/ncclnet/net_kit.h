/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The plugin as NCCL drives it: found by dlopen and by the name of a table, called through it. All
 * versions look alike here. NCCL's own layouts are not used: those of lib/ncclnet/nccl_abi.h are
 * what is tested, and NCCL itself tests them (tests/gpu/nccl_run.py).
 */
#ifndef SPW_NET_KIT_H
#define SPW_NET_KIT_H

#include "ncclnet/nccl_abi.h"

#define NET_PART_MAX 8
#define NET_LOG_MAX  8192

/* A grouped receive. */
struct net_group {
	int n;
	void *data[NET_PART_MAX + 1];
	size_t bytes[NET_PART_MAX + 1];
	int tag[NET_PART_MAX + 1];
	void *mr[NET_PART_MAX + 1];
};

struct net {
	int version;
	const void *table;
	void *ctx; /* from version 11 on */
};

/* Loads the plugin at $SPW_TEST_PLUGIN; without that, the one linked into this program. Returns:
 * false: it has no such table. */
bool net_load(struct net *net, int version);
/* A symbol of the plugin, once it is loaded; NULL: it has none of that name. */
void *net_symbol(const char *name);
/* What the plugin logged since the last call. */
const char *net_log(void);

/* The id of the communicator that net_init opens, from version 11 on. */
uint64_t net_comm(const struct net *net);
int net_init(struct net *net);
int net_finalize(struct net *net);
int net_devices(const struct net *net, int *cnt);
/* As version 12 has them; what an older version lacks is zero. */
int net_properties(const struct net *net, int dev, struct nccl_props_v12 *props);
int net_listen(const struct net *net, int dev, void *handle, void **listen);
int net_connect(const struct net *net, int dev, void *handle, void **send);
int net_accept(const struct net *net, void *listen, void **recv);
int net_reg(const struct net *net, void *comm, void *data, size_t bytes, int type, void **mr);
int net_reg_dmabuf(const struct net *net, void *comm, void *data, size_t bytes, uint64_t offset,
		   int fd, void **mr);
int net_dereg(const struct net *net, void *comm, void *mr);
int net_isend(const struct net *net, void *send, void *data, size_t bytes, int tag, void *mr,
	      void **req);
/* Without a request *req is NULL: NCCL would call again. */
int net_irecv(const struct net *net, void *recv, struct net_group *group, void **req);
int net_iflush(const struct net *net, void *recv, int n, void **data, int *bytes, void **mr,
	       void **req);
int net_test(const struct net *net, void *req, int *done, int *bytes);
int net_close_send(const struct net *net, void *send);
int net_close_recv(const struct net *net, void *recv);
int net_close_listen(const struct net *net, void *listen);

#endif
