/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a consumer sees of an object: the type of its elements, on the wire and in memory, its
 * dimensions and strides; with which conversion executors get from one to the other; and whether
 * the places of frames can make an object whole.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "frame/spw_move.h"
#include "obj/desc.h"

static const struct desc_type {
	const char *name;
	uint8_t code, bits,
		part_bytes; /* DLPack's; bytes of what has an order: half of a complex */
} desc_type[] = {{"int8", 0, 8, 1},       {"uint8", 1, 8, 1},       {"int16", 0, 16, 2},
		 {"uint16", 1, 16, 2},    {"int32", 0, 32, 4},      {"uint32", 1, 32, 4},
		 {"int64", 0, 64, 8},     {"uint64", 1, 64, 8},     {"float16", 2, 16, 2},
		 {"float32", 2, 32, 4},   {"float64", 2, 64, 8},    {"bfloat16", 4, 16, 2},
		 {"complex64", 5, 64, 4}, {"complex128", 5, 128, 8}};

static const char *type_name(uint32_t idx, const void *arg)
{
	(void)arg;
	return desc_type[idx].name;
}

int desc_type_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_choice(at, type_name, NULL, SPW_ARRAY_CNT(desc_type), &b->type);
}

int desc_wire_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_choice(at, type_name, NULL, SPW_ARRAY_CNT(desc_type), &b->wire);
}

int desc_wire_order_read(struct desc_build *b, const struct desc_at *at)
{
	bool little;
	int rc = desc_order_read(at, &little);

	b->big_wire = !little;
	return rc;
}

static int dim_read(struct desc_build *b, const struct desc_at *at)
{
	struct spw_obj_shape *shape = &b->desc->shape;
	uint64_t dim;
	int rc;

	if (shape->ndim == SPW_OBJ_DIM_MAX)
		return desc_fail(at, spw_err(EINVAL, "more than %u dimensions", SPW_OBJ_DIM_MAX));
	rc = desc_number(b, at, 1, DESC_BYTES_MAX, &dim);
	shape->dim[shape->ndim++] = (int64_t)dim;
	return rc;
}

/* Row-major strides until `strides` says others. */
int desc_shape_read(struct desc_build *b, const struct desc_at *at)
{
	struct spw_obj_shape *shape = &b->desc->shape;
	uint64_t cnt = 1;
	int rc = desc_list_read(b, at, "a list of dimensions, as [480, 640]", dim_read);

	if (rc == 0 && shape->ndim == 0)
		rc = desc_fail(at, spw_err(EINVAL, "a shape without dimensions"));
	for (uint32_t i = shape->ndim; rc == 0 && i-- > 0;) {
		shape->stride[i] = (int64_t)cnt;
		if (__builtin_mul_overflow(cnt, (uint64_t)shape->dim[i], &cnt) ||
		    cnt > DESC_BYTES_MAX)
			rc = desc_fail(at, spw_err(EINVAL, "an object above 1 TiB"));
	}
	return rc;
}

/* A permutation of the dimensions (planes, columns first): every element lies within the object,
 * and on no other. Dimensions are taken by growing stride; each must step over what those before it
 * reach. */
static int strides_check(const struct spw_obj_shape *shape, uint64_t elements)
{
	uint64_t reach = 1, span; /* elements from the first on that smaller strides reach */
	uint32_t done = 0;

	for (uint32_t n = 0; n < shape->ndim; n++) {
		uint32_t least = SPW_OBJ_DIM_MAX;

		for (uint32_t i = 0; i < shape->ndim; i++)
			if (!(done >> i & 1) &&
			    (least == SPW_OBJ_DIM_MAX || shape->stride[i] < shape->stride[least]))
				least = i;
		done |= 1u << least;
		if ((uint64_t)shape->stride[least] < reach && shape->dim[least] > 1)
			return spw_err(EINVAL, "stride %lld overlaps another dimension",
				       (long long)shape->stride[least]);
		if (__builtin_mul_overflow((uint64_t)shape->stride[least],
					   (uint64_t)shape->dim[least] - 1, &span) ||
		    __builtin_add_overflow(reach, span, &reach) || reach > elements)
			return spw_err(EINVAL, "stride %lld leads out of the object",
				       (long long)shape->stride[least]);
	}
	return 0;
}

int desc_strides_read(struct desc_build *b, const struct desc_at *at)
{
	struct spw_obj_shape *shape = &b->desc->shape;
	uint64_t elements = (uint64_t)(shape->dim[0] * shape->stride[0]), stride;
	struct desc_at item;
	uint32_t i;
	int rc = spw_yaml_expect_list(at->yaml, at->node, "a list of strides, in elements");

	if (rc)
		return rc;
	for (i = 0; desc_item(at, i, &item); i++) {
		rc = i < shape->ndim ? desc_number(b, &item, 1, DESC_BYTES_MAX, &stride)
				     : desc_fail(&item, spw_err(EINVAL, "more strides than "
									"dimensions"));
		if (rc)
			return rc;
		shape->stride[i] = (int64_t)stride;
	}
	if (i < shape->ndim)
		return desc_fail(at, spw_err(EINVAL, "fewer strides than dimensions"));
	rc = strides_check(shape, elements);
	return rc ? desc_fail(at, rc) : 0;
}

/* What executors can convert: spw_move.h. Without a conversion only the byte order can differ,
 * which is that of the parts of an element: the halves of a complex number are swapped one by one
 * and stay in their places. Consumers get the byte order of the host, little. */
static int op_choose(const struct desc_build *b, uint32_t *op_out)
{
	static const struct {
		const char *wire, *type;
		enum spw_move_op little, big;
	} conversion[] = {{"int8", "float16", SPW_MOVE_OP_i8_f16, SPW_MOVE_OP_i8_f16},
			  {"int8", "float32", SPW_MOVE_OP_i8_f32, SPW_MOVE_OP_i8_f32},
			  {"uint8", "float16", SPW_MOVE_OP_u8_f16, SPW_MOVE_OP_u8_f16},
			  {"uint8", "float32", SPW_MOVE_OP_u8_f32, SPW_MOVE_OP_u8_f32},
			  {"int16", "float32", SPW_MOVE_OP_i16_f32, SPW_MOVE_OP_i16be_f32}};
	static const enum spw_move_op swap[] = {[1] = SPW_MOVE_OP_copy,
						[2] = SPW_MOVE_OP_swap16,
						[4] = SPW_MOVE_OP_swap32,
						[8] = SPW_MOVE_OP_swap64};
	const struct desc_type *wire = &desc_type[b->wire], *type = &desc_type[b->type];

	if (wire == type) {
		*op_out = b->big_wire ? swap[wire->part_bytes] : SPW_MOVE_OP_copy;
		return 0;
	}
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(conversion); i++) {
		if (strcmp(conversion[i].wire, wire->name) ||
		    strcmp(conversion[i].type, type->name))
			continue;
		*op_out = b->big_wire ? conversion[i].big : conversion[i].little;
		return 0;
	}
	return spw_err(EINVAL,
		       "type: wire %s does not become %s; int8 and uint8 become float16 or "
		       "float32, int16 becomes float32",
		       wire->name, type->name);
}

/* An object has two sizes: plan.object_bytes as it is on the wire, in which places, granules and
 * receipts count, and shape.bytes as a consumer maps it, after the conversion. */
int desc_shape_finish(struct desc_build *b)
{
	struct spw_obj_shape *shape = &b->desc->shape;
	uint64_t elements = 1;
	int rc = op_choose(b, &b->desc->rule.op);

	if (rc)
		return desc_fail(&b->at, rc);
	for (uint32_t i = 0; i < shape->ndim; i++)
		elements *= (uint64_t)shape->dim[i]; /* desc_shape_read has bounded it */
	shape->type_code = desc_type[b->type].code;
	shape->type_bits = desc_type[b->type].bits;
	shape->bytes = elements * (shape->type_bits / 8);
	b->desc->plan.object_bytes = elements * (desc_type[b->wire].bits / 8);
	if (shape->bytes > DESC_BYTES_MAX / b->desc->rule.buffers)
		return desc_fail(&b->at,
				 spw_err(EINVAL,
					 "%u buffers of %llu bytes are more than 1 TiB: "
					 "fewer buffers, or a smaller shape",
					 b->desc->rule.buffers, (unsigned long long)shape->bytes));
	if (b->desc->rule.open_max >= b->desc->rule.buffers)
		return desc_fail(&b->at, spw_err(EINVAL,
						 "open: %u of %u buffers; one at least is for the "
						 "consumer",
						 b->desc->rule.open_max, b->desc->rule.buffers));
	return 0;
}

/* ---- what can never be whole ---- */

/* The largest number that divides all places; 0: they are all 0. */
uint64_t desc_place_granule(const struct desc_sum *place)
{
	uint64_t granule = 0;

	for (uint32_t i = 0; i < place->cnt; i++) {
		uint64_t divisor = desc_divisor(place->term[i].times, place->term[i].over);

		granule = desc_divisor(granule, place->term[i].times / divisor);
	}
	return granule;
}

/* The granule is the unit in which bytes are present or missing, so each costs a bit per object.
 * The largest unit that all places share is the cheapest that is exact; a multiple of an element,
 * since executors convert whole elements. If all places are 0, a frame is the object. */
int desc_granule_choose(struct desc_build *b)
{
	struct spw_obj_plan *plan = &b->desc->plan;
	uint64_t wire = desc_type[b->wire].part_bytes, granule = b->desc->rule.granule;

	if (granule == 0) {
		granule = desc_place_granule(b->place.cnt ? &b->place : &b->segments.place);
		granule = granule ? granule / desc_divisor(granule, wire) * wire
				  : plan->object_bytes;
	}
	if (granule % wire)
		return desc_fail(&b->at,
				 spw_err(EINVAL,
					 "a granule of %llu bytes is not made of "
					 "elements of %llu",
					 (unsigned long long)granule, (unsigned long long)wire));
	if (granule > plan->object_bytes)
		return desc_fail(&b->at, spw_err(EINVAL,
						 "a granule of %llu bytes is larger than "
						 "the object of %llu",
						 (unsigned long long)granule,
						 (unsigned long long)plan->object_bytes));
	b->desc->rule.granule = granule;
	plan_granule_set(plan, granule);
	return 0;
}

/* part * STEP: the places of an object follow each other, and are the object. Only this common form
 * can be judged without frames; places that come from fields are judged frame by frame. A mistake
 * in `per` or `bytes` would otherwise show only as objects that are never complete. */
int desc_places_check(const struct desc_build *b)
{
	const struct desc_term *place = &b->place.term[0];
	uint64_t per = b->per ? b->per : 1, total;
	uint64_t fixed = desc_sum_constant(&b->bytes);

	if (b->place.cnt != 1 || place->reg != PLAN_REG_PART || place->by_cnt || place->minus ||
	    place->over != 1)
		return 0;
	if (fixed && fixed > place->times)
		return desc_fail(&b->place.at,
				 spw_err(EINVAL, "places %llu bytes apart overlap: bytes is %llu",
					 (unsigned long long)place->times,
					 (unsigned long long)fixed));
	if (fixed && fixed < place->times)
		return desc_fail(&b->place.at,
				 spw_err(EINVAL,
					 "places %llu bytes apart leave gaps: bytes is %llu, so no "
					 "object would be complete",
					 (unsigned long long)place->times,
					 (unsigned long long)fixed));
	if (__builtin_mul_overflow(per, place->times, &total) ||
	    (fixed && total - place->times >= b->desc->plan.object_bytes) ||
	    total < b->desc->plan.object_bytes)
		return desc_fail(&b->place.at,
				 spw_err(EINVAL,
					 "%llu places of %llu bytes are not an object of %llu "
					 "bytes (shape and wire)",
					 (unsigned long long)per, (unsigned long long)place->times,
					 (unsigned long long)b->desc->plan.object_bytes));
	return 0;
}
