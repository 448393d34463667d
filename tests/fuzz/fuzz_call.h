/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One ioctl of the fuzzed application, in its memory, as rdma-core lays them out.
 */
#ifndef FUZZ_CALL_H
#define FUZZ_CALL_H

#include <rdma/rdma_user_ioctl_cmds.h>

#include "fuzz_arena.h"
#include "softhca/kernel/uverbs.h"

#define IN_AT   (FUZZ_ARENA + FUZZ_ARENA_BYTES / 2)
#define OUT_AT  (IN_AT + 65536)
#define CALL_AT (OUT_AT + 65536)

/* Returns: its attributes, to be filled in. */
static inline struct ib_uverbs_attr *call_start(uint16_t object, uint16_t method, uint16_t cnt)
{
	struct ib_uverbs_ioctl_hdr *h = (void *)CALL_AT;

	*h = (struct ib_uverbs_ioctl_hdr){
		.length = (uint16_t)(sizeof(*h) + cnt * sizeof(struct ib_uverbs_attr)),
		.object_id = object,
		.method_id = method,
		.num_attrs = cnt,
		.driver_id = RDMA_DRIVER_MLX5};
	return (void *)(h + 1);
}

static inline struct ib_uverbs_attr attr(uint16_t id, size_t bytes, uint64_t data)
{
	return (struct ib_uverbs_attr){.attr_id = id,
				       .len = (uint16_t)bytes,
				       .flags = UVERBS_ATTR_F_MANDATORY,
				       .data = data};
}

#endif
