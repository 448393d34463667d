/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects of a topology: of each lane of a port with a description, a page, object memory, a
 * table of moves and a window (lib/obj). Called by spw_topo_open when the queues are set up, so
 * that no NIC registers this memory, and before the executors, which get its regions.
 *
 *   region 0 .. n-1   the pools                         attached to every port
 *   region n          tables of moves, a lane each      the lcore writes, executors read
 *   region n+1 ..     objects, a lane each              executors write; other processes map it
 *   page              receipts and states, a lane each  the lcore's and the consumer's; a memfd
 *
 * Consumers are other processes, or this one. One that ends without giving its buffers back is
 * found by the control thread: a pidfd of it is readable then, whoever has its number by now.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "exec/spw_place.h"
#include "topo.h"

#define BUFFER_ALIGN    256u
#define BATCH_CNT_MIN   256u /* what a table is made for, where the executor has fewer batches */
#define MOVES_PER_BATCH 128u /* of which the table has room when all batches are under way */

/* Moves of a stream's table. The lcore reuses an entry once the batch that named it has retired, so
 * the table has to last for all batches that can be under way at once. */
static uint32_t topo_table_cnt(const struct spw_topo *topo)
{
	return SPW_MAX(topo->conf.exec.batch_cnt, BATCH_CNT_MIN) * MOVES_PER_BATCH;
}

static uint32_t topo_stream_cnt(const struct spw_topo *topo)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		cnt += topo->conf.port[topo->lane[i]->conf.port].objects != NULL;
	return cnt;
}

/* shared: other processes can map it, and it may be a GPU's own; the lcore writes the others.
 * Regions are released with the topology, also those that were added before an error. */
static int topo_region_add(struct spw_topo *topo, size_t bytes, int numa_node, bool shared,
			   const char *what)
{
	const struct spw_mem_req req = {
		.kind = shared ? topo->conf.memory.objects : SPW_MEM_AUTO,
		.bytes = bytes,
		.numa_node = numa_node,
		.executor_is_gpu = topo_conf_is_gpu(&topo->conf),
		.shared = shared,
	};
	int rc = topo->region_cnt < SPW_REGION_MAX
			 ? spw_region_alloc(&req, &topo->region[topo->region_cnt])
			 : spw_err(ENOSPC,
				   "all %d memory regions are in use: have fewer queues "
				   "with objects",
				   SPW_REGION_MAX);

	if (rc < 0)
		return spw_err_ctx(rc, "%s", what);
	topo->region_cnt++;
	return 0;
}

/* Several queues of a port, or ports of one description, have a stream each: camera, camera#1. */
static void stream_name_distinct(const struct spw_topo *topo, struct spw_obj_page *page,
				 uint32_t idx)
{
	char number[12];

	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		const struct spw_obj_page *other = topo->lane[i]->stream.page;

		if (!other || other == page || strcmp(other->name, page->name))
			continue;
		snprintf(number, sizeof(number), "#%u", idx);
		page->name[sizeof(page->name) - sizeof(number)] = '\0';
		strcat(page->name, number);
		return;
	}
}

static int stream_page_open(const struct spw_topo *topo, struct spw_topo_lane *lane,
			    const struct spw_obj_desc *desc, uint32_t idx)
{
	struct spw_topo_stream *s = &lane->stream;
	void *page;
	int rc = spw_mem_share(spw_obj_page_bytes(desc->rule.buffers), &page, &s->page_bytes,
			       &s->page_fd);

	if (rc < 0)
		return rc;
	s->page = page;
	spw_obj_page_init(s->page, desc, s->stride, topo->conf.tsc.hz);
	stream_name_distinct(topo, s->page, idx);
	return 0;
}

/* One region for all buffers of a stream, so that a consumer maps and registers it once. The stride
 * aligns each object to BUFFER_ALIGN, which DLPack asks for. */
static int stream_memory_open(struct spw_topo *topo, struct spw_topo_lane *lane,
			      const struct spw_obj_desc *desc)
{
	struct spw_topo_stream *s = &lane->stream;
	size_t bytes;

	s->stride = SPW_ALIGN_UP(desc->shape.bytes, (uint64_t)BUFFER_ALIGN);
	if (s->stride < desc->shape.bytes ||
	    __builtin_mul_overflow(s->stride, desc->rule.buffers, &bytes))
		return spw_err(ENOMEM, "%u objects of %llu bytes do not fit an address space",
			       desc->rule.buffers, (unsigned long long)desc->shape.bytes);
	s->region = topo->region_cnt;
	return topo_region_add(topo, bytes, lane->conf.numa_node, true, "memory of objects");
}

/* idx: of the stream, whose moves stand at that place of the tables' region. */
static int stream_window_open(struct spw_topo *topo, struct spw_topo_lane *lane,
			      const struct spw_obj_desc *desc, uint32_t idx)
{
	const struct spw_region *tables = &topo->region[topo->slot_region_cnt];
	struct spw_topo_stream *s = &lane->stream;
	const struct spw_obj_conf oc = {
		.desc = desc,
		.page = s->page,
		.region = topo->region[s->region].id,
		.tsc_hz = topo->conf.tsc.hz,
	};

	s->place.region = tables->id;
	s->place.offset = (uint64_t)idx * topo_table_cnt(topo) * sizeof(struct spw_move);
	s->table = (struct spw_move *)(void *)(tables->host_va + s->place.offset);
	s->handler = spw_place_handler;
	s->handler.initial = &s->place;
	if (topo->conf.pipe.receipts &&
	    !(s->receipt = calloc(SPW_PIPE_RECEIPT_CNT, sizeof(*s->receipt))))
		return spw_err(ENOMEM, "no memory for receipts");
	return spw_obj_open(&oc, spw_pipe_receipt_put, &lane->pipe, &s->obj);
}

/* The page describes the memory (its stride), and the window fills both: hence the order. */
static int stream_open(struct spw_topo *topo, struct spw_topo_lane *lane, uint32_t idx)
{
	const struct spw_obj_desc *desc = topo->conf.port[lane->conf.port].objects;
	const uint32_t head = lane->port->caps.head_bytes, least = spw_obj_plan_head(&desc->plan);
	int rc;

	lane->stream.page_fd = lane->stream.consumer_fd = -1;
	if (head && head < least)
		return spw_err(EINVAL,
			       "objects %s: fields lie in the first %u bytes of a frame, and "
			       "port %s has split=%u: use %u or more",
			       desc->name, least, lane->port->name, head, least);
	if ((rc = stream_memory_open(topo, lane, desc)) < 0 ||
	    (rc = stream_page_open(topo, lane, desc, idx)) < 0 ||
	    (rc = stream_window_open(topo, lane, desc, idx)) < 0)
		return spw_err_ctx(rc, "objects %s", desc->name);
	return 0;
}

int topo_objects_open(struct spw_topo *topo)
{
	const uint32_t cnt = topo_stream_cnt(topo);
	uint32_t idx = 0;
	int rc;

	topo->slot_region_cnt = topo->region_cnt;
	if (!cnt)
		return 0;
	rc = topo_region_add(topo, (size_t)cnt * topo_table_cnt(topo) * sizeof(struct spw_move),
			     topo->lane[0]->conf.numa_node, false, "tables of moves");
	for (uint32_t i = 0; i < topo->lane_cnt && rc == 0; i++)
		if (topo->conf.port[topo->lane[i]->conf.port].objects)
			rc = stream_open(topo, topo->lane[i], idx++);
	return rc;
}

/* An object that takes longer is slow: as the run says, or it is late by its own deadline. */
static uint64_t stream_slow_ns(const struct spw_topo *topo, const struct spw_topo_lane *lane)
{
	const struct spw_obj_desc *desc = topo->conf.port[lane->conf.port].objects;

	if (!desc || topo->conf.pipe.slow_object_ns)
		return topo->conf.pipe.slow_object_ns;
	return desc->rule.deadline_ns;
}

struct spw_pipe_objects topo_pipe_objects(const struct spw_topo *topo, struct spw_topo_lane *lane)
{
	return (struct spw_pipe_objects){
		.obj = lane->stream.obj,
		.table = lane->stream.table,
		.table_cnt = topo_table_cnt(topo),
		.tsc = topo->conf.tsc,
		.slow_tsc = spw_tsc_from_ns(&topo->conf.tsc, stream_slow_ns(topo, lane)),
		.receipt = lane->stream.receipt,
	};
}

/* ---- consumers ---- */

/* Returns the buffers that the process had taken, and frees its claim, so that a consumer that is
 * started again finds the stream. spw_obj_page_reclaim refuses if another process has the claim. */
static void stream_consumer_end(struct spw_topo_stream *s, const char *how)
{
	int freed = spw_obj_page_reclaim(s->page, s->consumer_pid);

	close(s->consumer_fd);
	s->consumer_fd = -1;
	if (freed >= 0)
		spw_info("objects %s: consumer %u %s; %d object%s that it held %s free again",
			 s->page->name, s->consumer_pid, how, freed, freed == 1 ? "" : "s",
			 freed == 1 ? "is" : "are");
}

/* A consumer that is new gets a pidfd; one that ended is reclaimed. */
static void stream_consumer_turn(struct spw_topo_stream *s)
{
	const uint32_t pid = spw_thr_load_rlx(&s->page->consumer_pid);
	struct pollfd fd = {.fd = s->consumer_fd, .events = POLLIN};

	if (s->consumer_fd >= 0 && pid != s->consumer_pid) {
		close(s->consumer_fd);
		s->consumer_fd = -1;
	}
	if (s->consumer_fd >= 0) {
		if (poll(&fd, 1, 0) == 1)
			stream_consumer_end(s, "ended");
		return;
	}
	if (!pid || pid == (uint32_t)getpid())
		return;
	s->consumer_pid = pid;
	s->consumer_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (s->consumer_fd < 0 && errno == ESRCH)
		stream_consumer_end(s, "is not there");
}

void spw_topo_consumers(struct spw_topo *topo)
{
	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		struct spw_topo_stream *s = &topo->lane[i]->stream;

		if (!s->obj)
			continue;
		stream_consumer_turn(s);
		spw_region_hand(&topo->region[s->region]);
	}
}

/* ---- end ---- */

void topo_objects_close(struct spw_topo_lane *lane)
{
	struct spw_topo_stream *s = &lane->stream;

	spw_obj_close(s->obj);
	free(s->receipt);
	if (s->page) {
		spw_mem_share_free(s->page, s->page_bytes, s->page_fd);
		if (s->consumer_fd >= 0)
			close(s->consumer_fd);
	}
}
