/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "devx_kit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

void box_put(uint8_t *box, uint32_t bit, uint32_t width, uint64_t v)
{
	for (uint32_t i = 0; i < width; i++) {
		const uint32_t at = bit + i, mask = 0x80u >> at % 8;

		if (v >> (width - 1 - i) & 1)
			box[at / 8] |= (uint8_t)mask;
		else
			box[at / 8] &= (uint8_t)~mask;
	}
}

uint64_t box_get(const uint8_t *box, uint32_t bit, uint32_t width)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < width; i++)
		v = v << 1 | (box[(bit + i) / 8] >> (7 - (bit + i) % 8) & 1);
	return v;
}

void box_start(struct box *b, uint32_t opcode)
{
	memset(b, 0, sizeof(*b));
	box_put(b->in, 0, 16, opcode);
}

int thing_try(struct ibv_context *ctx, struct box *b, uint32_t in_bytes, struct thing *t)
{
	errno = 0;
	t->obj = mlx5dv_devx_obj_create(ctx, b->in, in_bytes, b->out, sizeof(b->out));
	t->number = (uint32_t)box_get(b->out, 0x48, 24);
	return t->obj ? 0 : errno;
}

void thing_make(struct ibv_context *ctx, struct box *b, struct thing *t)
{
	assert_int_equal(thing_try(ctx, b, sizeof(b->in), t), 0);
	assert_int_equal(b->out[0], 0);
}

void thing_memory(struct ibv_context *ctx, struct thing *t, uint32_t bytes)
{
	t->mem = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
	assert_non_null(t->mem);
	memset(t->mem, 0, bytes);
	t->umem = mlx5dv_devx_umem_reg(ctx, t->mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(t->umem);
}

void thing_free(struct thing *t)
{
	if (t->obj)
		assert_int_equal(mlx5dv_devx_obj_destroy(t->obj), 0);
	if (t->umem)
		assert_int_equal(mlx5dv_devx_umem_dereg(t->umem), 0);
	free(t->mem);
	memset(t, 0, sizeof(*t));
}

int thing_modify(struct thing *t, struct box *b, uint32_t opcode)
{
	box_put(b->in, 0, 16, opcode);
	box_put(b->in, 0x48, 24, t->number);
	return mlx5dv_devx_obj_modify(t->obj, b->in, sizeof(b->in), b->out, sizeof(b->out));
}

void cq_box(struct box *b, const struct thing *t, uint32_t log2, uint32_t uar, uint32_t eqn)
{
	box_start(b, 0x400);
	box_put(b->in, 0x80 + 0x20, 32, t->umem->umem_id); /* of the record */
	box_put(b->in, 0x80 + 0x63, 5, log2);
	box_put(b->in, 0x80 + 0x68, 24, uar);
	box_put(b->in, 0x80 + 0xb8, 8, eqn);
	box_put(b->in, 0x80 + 0x1c0, 64, CQ_RECORDS(log2));
	box_put(b->in, 0x2c0, 32, t->umem->umem_id);
}
