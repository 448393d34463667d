/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The arithmetic of spw_coll_reduce.h. References: the compiler's _Float16, and for bf16 a search
 * of the nearest value in double, which holds every sum of two neighbours exactly.
 */
#include "../unit_test.h"

#include <math.h>
#include <stdlib.h>

#include "coll/spw_coll_reduce.h"

static bool is_nan16(uint16_t v, uint16_t inf)
{
	return (v & 0x7fff) > inf;
}

/* ---- f16 ---- */

static float f16_reference(uint16_t v)
{
	_Float16 h;

	memcpy(&h, &v, sizeof(h));
	return (float)h;
}

static uint16_t f16_round(float v)
{
	const _Float16 h = (_Float16)v;
	uint16_t bits;

	memcpy(&bits, &h, sizeof(bits));
	return isnan(v) ? 0x7e00 : bits;
}

static void every_f16_becomes_f32(void **state SPW_UNUSED)
{
	for (uint32_t v = 0; v < 65536; v++) {
		const float got = spw_coll_f32_of_f16((uint16_t)v),
			    want = f16_reference((uint16_t)v);

		if (is_nan16((uint16_t)v, 0x7c00))
			assert_true(isnan(got));
		else
			assert_int_equal(spw_coll_bits_of(got), spw_coll_bits_of(want));
	}
}

/* Around each value and around the middle to the next: every decision that rounding makes. */
static void f32_becomes_the_nearest_f16(void **state SPW_UNUSED)
{
	for (uint32_t v = 0; v < 65536; v++) {
		const double low = (double)f16_reference((uint16_t)v),
			     high = (double)f16_reference((uint16_t)(v + 1));
		const float at[] = {(float)low, (float)((low + high) / 2)};

		for (uint32_t i = 0; i < 2; i++)
			for (int32_t step = -2; step <= 2; step++) {
				const float f =
					spw_coll_f32_of(spw_coll_bits_of(at[i]) + (uint32_t)step);

				assert_int_equal(spw_coll_f16_of_f32(f), f16_round(f));
			}
	}
}

/* A sample of all f32: each exponent and sign, with low and high bits that vary. */
static void any_f32_becomes_f16(void **state SPW_UNUSED)
{
	for (uint64_t v = 0; v <= UINT32_MAX; v += 1021) {
		const float f = spw_coll_f32_of((uint32_t)v);

		assert_int_equal(spw_coll_f16_of_f32(f), f16_round(f));
	}
}

/* ---- bf16 ---- */

/* The neighbour of smaller magnitude is the first half of f; the nearer one wins, the even one of
 * two. */
static uint16_t bf16_round(float f)
{
	const uint16_t low = (uint16_t)(spw_coll_bits_of(f) >> 16), high = (uint16_t)(low + 1);
	const double exact = f, a = (double)spw_coll_f32_of_bf16(low);
	/* beyond the largest lies 2^128 */
	const double b = (high & 0x7fff) == 0x7f80 ? copysign(0x1p128, exact)
						   : (double)spw_coll_f32_of_bf16(high);

	if (isnan(f))
		return 0x7fc0;
	if (isinf(f) || exact == a)
		return low;
	if (fabs(exact - a) != fabs(b - exact))
		return fabs(exact - a) < fabs(b - exact) ? low : high;
	return low & 1 ? high : low;
}

static void bf16_and_f32(void **state SPW_UNUSED)
{
	for (uint32_t v = 0; v < 65536; v++) {
		const float f = spw_coll_f32_of_bf16((uint16_t)v);

		assert_int_equal(spw_coll_bits_of(f), v << 16);
		assert_int_equal(spw_coll_bf16_of_f32(f),
				 is_nan16((uint16_t)v, 0x7f80) ? 0x7fc0 : v);
		for (uint32_t low = 0; low < 65536;
		     low += 1 + 127 * (low != 0 && (low & 0x7ff0) != 0x7ff0)) {
			const float g = spw_coll_f32_of(v << 16 | low);

			assert_int_equal(spw_coll_bf16_of_f32(g), bf16_round(g));
		}
	}
}

/* ---- whole contributions ---- */

struct give {
	enum spw_coll_type type;
	enum spw_coll_op op;
	uint32_t ranks;
	uint64_t count;
};

static float get(const uint8_t *at, uint64_t i, enum spw_coll_type type)
{
	uint16_t half;
	float f;

	if (type == SPW_COLL_F32) {
		memcpy(&f, at + 4 * i, sizeof(f));
		return f;
	}
	memcpy(&half, at + 2 * i, sizeof(half));
	return type == SPW_COLL_F16 ? f16_reference(half) : spw_coll_f32_of_bf16(half);
}

static uint32_t expected(uint8_t *const *at, const struct give *g, uint64_t i)
{
	float acc = get(at[0], i, g->type);

	for (uint32_t r = 1; r < g->ranks; r++) {
		const float v = get(at[r], i, g->type);

		if (g->op == SPW_COLL_SUM)
			acc += v;
		else if (isnan(acc) || isnan(v))
			acc = NAN;
		else if (v > acc)
			acc = v;
	}
	if (g->type == SPW_COLL_F32)
		return isnan(acc) ? 0x7fc00000u : spw_coll_bits_of(acc);
	return g->type == SPW_COLL_F16 ? f16_round(acc) : bf16_round(acc);
}

static void reduce(const struct spw_coll_parts *parts, void *out, const struct give *g)
{
#define OF(t)                                                                       \
	(g->op == SPW_COLL_SUM ? spw_coll_reduce(parts, out, t, SPW_COLL_SUM, 0, 1) \
			       : spw_coll_reduce(parts, out, t, SPW_COLL_MAX, 0, 1))
	if (g->type == SPW_COLL_F32)
		OF(SPW_COLL_F32);
	else if (g->type == SPW_COLL_BF16)
		OF(SPW_COLL_BF16);
	else
		OF(SPW_COLL_F16);
#undef OF
}

/* Random bits: NaNs, infinities and denormals are among them. The slots of others have room for
 * whole cells; that of this rank ends with its last element, where ASan watches. */
static void check(const struct give *g, uint64_t *seed)
{
	const uint32_t bytes = spw_coll_type_bytes(g->type),
		       own = (uint32_t)unit_random(seed) % g->ranks;
	const size_t room = SPW_ALIGN_UP(g->count * bytes, (size_t)SPW_COLL_CELL);
	struct spw_coll_parts parts = {.cnt = g->ranks, .own = own, .count = g->count};
	uint8_t *at[SPW_COLL_RANK_MAX], *out = malloc(g->count * bytes + 1);

	assert_non_null(out);
	for (uint32_t r = 0; r < g->ranks; r++) {
		at[r] = malloc(r == own ? g->count * bytes + 1 : room + 1);
		assert_non_null(at[r]);
		for (size_t i = 0; i < g->count * bytes; i++)
			at[r][i] = (uint8_t)unit_random(seed);
		parts.at[r] = at[r];
	}
	reduce(&parts, out, g);
	for (uint64_t i = 0; i < g->count; i++) {
		uint32_t got = 0;

		memcpy(&got, out + i * bytes, bytes);
		assert_int_equal(got, expected(at, g, i));
	}
	reduce(&parts, at[own], g); /* in place */
	assert_memory_equal(at[own], out, g->count * bytes);
	for (uint32_t r = 0; r < g->ranks; r++)
		free(at[r]);
	free(out);
}

static void every_bit_of_a_reduction(void **state SPW_UNUSED)
{
	static const uint64_t counts[] = {0, 1, 2, 3, 4, 7, 8, 9, 1000, 4097};
	uint64_t seed = 1;

	for (uint32_t ranks = 2; ranks <= SPW_COLL_RANK_MAX; ranks++)
		for (uint32_t type = 0; type < 3; type++)
			for (uint32_t op = 0; op < 2; op++)
				for (uint32_t i = 0; i < SPW_ARRAY_CNT(counts); i++)
					check(&(struct give){(enum spw_coll_type)type,
							     (enum spw_coll_op)op, ranks,
							     counts[i]},
					      &seed);
}

/* Zeros of both signs, one NaN among numbers, and a sum that overflows f16 only on its way. */
static void special_values(void **state SPW_UNUSED)
{
	const float zero[2] = {0.0f, -0.0f}, odd[2] = {NAN, 1.0f};
	const uint16_t big[3] = {0x7bff, 0x7bff, 0xfbff}; /* 65504, 65504, -65504 */
	float f;
	uint16_t h;

	for (uint32_t i = 0; i < 2; i++) {
		struct spw_coll_parts p = {.cnt = 2, .own = 0, .count = 1};
		float cell[2][4] = {{zero[i]}, {zero[!i]}};

		p.at[0] = (uint8_t *)cell[0];
		p.at[1] = (uint8_t *)cell[1];
		spw_coll_reduce(&p, &f, SPW_COLL_F32, SPW_COLL_MAX, 0, 1);
		assert_int_equal(spw_coll_bits_of(f), spw_coll_bits_of(zero[i]));
		cell[0][0] = odd[i];
		cell[1][0] = odd[!i];
		spw_coll_reduce(&p, &f, SPW_COLL_F32, SPW_COLL_MAX, 0, 1);
		assert_int_equal(spw_coll_bits_of(f), 0x7fc00000);
		spw_coll_reduce(&p, &f, SPW_COLL_F32, SPW_COLL_SUM, 0, 1);
		assert_int_equal(spw_coll_bits_of(f), 0x7fc00000);
	}
	struct spw_coll_parts p = {.cnt = 3, .own = 1, .count = 1};
	uint16_t cell[3][8] = {{big[0]}, {big[1]}, {big[2]}};

	for (uint32_t i = 0; i < 3; i++)
		p.at[i] = (uint8_t *)cell[i];
	spw_coll_reduce(&p, &h, SPW_COLL_F16, SPW_COLL_SUM, 0, 1);
	assert_int_equal(h, big[0]);
}

/* ---- words ---- */

static void a_flag_needs_all_rails_it_names(void **state SPW_UNUSED)
{
	const uint64_t flag = spw_coll_flag(0x123456789abcdefull, 77);
	uint64_t w[4] = {flag << 4 | 0x5, 0, 0, 0};

	assert_false(spw_coll_flag_is(w, flag));
	w[2] = w[0];
	assert_true(spw_coll_flag_is(w, flag));
	assert_false(spw_coll_flag_is(w, flag + 1));
	assert_false(spw_coll_flag_is(w, spw_coll_flag(0x123456789abcdeeull, 77)));
	w[2] = flag << 4 | 0x4; /* a put that came over rail 2 alone */
	assert_true(spw_coll_flag_is(w, flag));
	assert_true(spw_coll_flag(0, 1) >= 1 && spw_coll_flag(UINT64_MAX, UINT64_MAX) < 1ull << 60);
}

static void heads_that_differ_are_noticed(void **state SPW_UNUSED)
{
	const struct spw_coll_head own = {
		.session = 5, .round = 9, .count = 3, .version = 1, .rank = 0};
	struct spw_coll_head h = own;

	h.rank = 1;
	assert_int_equal(spw_coll_head_judge(&own, &h, 1), SPW_COLL_OK);
	assert_int_equal(spw_coll_head_judge(&own, &h, 2), SPW_COLL_BREACH);
#define WITH(field, value, want)                                              \
	do {                                                                  \
		struct spw_coll_head other = h;                               \
		other.field = value;                                          \
		assert_int_equal(spw_coll_head_judge(&own, &other, 1), want); \
	} while (0)
	WITH(session, 6, SPW_COLL_BREACH);
	WITH(round, 7, SPW_COLL_BREACH);
	WITH(version, 2, SPW_COLL_BREACH);
	WITH(count, 4, SPW_COLL_DIFFERS);
	WITH(kind, SPW_COLL_ALL_GATHER, SPW_COLL_DIFFERS);
	WITH(type, SPW_COLL_F16, SPW_COLL_DIFFERS);
	WITH(op, SPW_COLL_MAX, SPW_COLL_DIFFERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_f16_becomes_f32),
		cmocka_unit_test(f32_becomes_the_nearest_f16),
		cmocka_unit_test(any_f32_becomes_f16),
		cmocka_unit_test(bf16_and_f32),
		cmocka_unit_test(every_bit_of_a_reduction),
		cmocka_unit_test(special_values),
		cmocka_unit_test(a_flag_needs_all_rails_it_names),
		cmocka_unit_test(heads_that_differ_are_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
