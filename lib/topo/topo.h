/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of lib/topo share: the steps of spw_topo_open that have a file of their own.
 */
#ifndef TOPO_H
#define TOPO_H

#include "topo/spw_topo.h"

#define TOPO_EXEC_STOP_MS 2000u

/* Sizes the pools by what the ports ask for, allocates the regions, carves the pools. Ports are
 * open. */
int topo_memory_open(struct spw_topo *topo);

/* Page, memory, window and handler of each lane whose port has objects; queues are set up. close:
 * of one lane. */
int topo_objects_open(struct spw_topo *topo);
void topo_objects_close(struct spw_topo_lane *lane);

/* What the lane's pipe needs of them; obj NULL: it has none. */
struct spw_pipe_objects topo_pipe_objects(const struct spw_topo *topo, struct spw_topo_lane *lane);

/* A lane's handler as the configuration names it: a lane with objects runs a copy of it
 * (stat.c). */
const struct spw_handler *topo_lane_handler(const struct spw_topo *topo, uint32_t lane);

/* First pairs of every foreign clock, so that the first frame finds a map. Executor is open. */
int topo_clocks_open(struct spw_topo *topo);

/* The sums over all executors (stat.c). */
void topo_exec_stat(struct spw_topo *topo, struct spw_exec_stat *stat_out);

/* Whether any executor of the configuration is a GPU's: the memory must suit it. */
SPW_INLINE bool topo_conf_is_gpu(const struct spw_topo_conf *conf)
{
	bool gpu = false;

	for (uint32_t w = 0; w < conf->exec.backend_cnt && w < SPW_PIPE_BACKEND_MAX; w++)
		gpu |= conf->exec.backend[w].kind >= SPW_EXEC_CUDA_PERSISTENT;
	return gpu;
}

SPW_INLINE bool topo_backend_is_gpu(const struct spw_topo_backend *backend)
{
	return backend->kind >= SPW_EXEC_CUDA_PERSISTENT;
}

#endif
