/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * CRC-32C by many lanes; see crc32c.h. Included in device compilation only. */

/* v * x. */
static __device__ __forceinline__ uint32_t spwd_gf_x(uint32_t v)
{
	return (v >> 1) ^ (SPW_CRC32C_POLY & (0u - (v & 1)));
}

/* a * b; with a constant a the compiler folds the chain of its multiples into 32 constants. */
static __device__ __forceinline__ uint32_t spwd_gf_mul(uint32_t a, uint32_t b)
{
	uint32_t p = 0;

#pragma unroll
	for (int i = 31; i >= 0; i--) {
		p ^= a & (0u - ((b >> i) & 1));
		a = spwd_gf_x(a);
	}
	return p;
}

/* x^n for a constant n, folded at compile time. */
template <uint32_t N> static __device__ __forceinline__ constexpr uint32_t spwd_gf_pow()
{
	uint32_t sq = 0x40000000u, r = 0x80000000u; /* x^1, x^0 */

	for (uint32_t n = N; n; n >>= 1) {
		uint32_t a = sq, p = 0;

		if (n & 1) {
			for (int i = 31; i >= 0; i--) {
				p ^= ((r >> i) & 1) ? a : 0;
				a = (a >> 1) ^ ((a & 1) ? SPW_CRC32C_POLY : 0);
			}
			r = p;
		}
		a = sq;
		p = 0;
		for (int i = 31; i >= 0; i--) {
			p ^= ((sq >> i) & 1) ? a : 0;
			a = (a >> 1) ^ ((a & 1) ? SPW_CRC32C_POLY : 0);
		}
		sq = p;
	}
	return r;
}

template <uint32_t N> static __device__ __forceinline__ uint32_t spwd_gf_shift(uint32_t v)
{
	constexpr uint32_t k = spwd_gf_pow<N>();

	return spwd_gf_mul(k, v);
}

/* v * x^(128 * cells), cells < 2048: one multiplication a bit. */
static __device__ __forceinline__ uint32_t spwd_gf_shift_cells(uint32_t v, uint32_t cells,
							       uint32_t lanes)
{
	v = cells & 1 ? spwd_gf_shift<128>(v) : v;
	v = cells & 2 ? spwd_gf_shift<256>(v) : v;
	v = cells & 4 ? spwd_gf_shift<512>(v) : v;
	v = cells & 8 ? spwd_gf_shift<1024>(v) : v;
	v = cells & 16 ? spwd_gf_shift<2048>(v) : v;
	if (lanes <= 32)
		return v;
	v = cells & 32 ? spwd_gf_shift<4096>(v) : v;
	v = cells & 64 ? spwd_gf_shift<8192>(v) : v;
	v = cells & 128 ? spwd_gf_shift<16384>(v) : v;
	v = cells & 256 ? spwd_gf_shift<32768>(v) : v;
	v = cells & 512 ? spwd_gf_shift<65536>(v) : v;
	v = cells & 1024 ? spwd_gf_shift<131072>(v) : v;
	return v;
}

/* The all-ones start value covers the first four bytes of the part; this is its share of the word
 * at byte at. */
static __device__ __forceinline__ uint32_t spwd_crc32c_start(int32_t at)
{
	if (at <= -4 || at >= 4)
		return 0;
	return at < 0 ? 0xffffffffu << (-8 * at) : 0xffffffffu >> (8 * at);
}

/* Parts too short for the fold: all lanes do the same. */
static __device__ __noinline__ uint32_t spwd_crc32c_short(const uint8_t *addr, uint32_t len)
{
	uint32_t reg = 0xffffffffu;

	for (uint32_t i = 0; i < len; i++) {
		reg ^= spwd_load_u8(addr + i);
		for (int bit = 0; bit < 8; bit++)
			reg = spwd_gf_x(reg);
	}
	return reg;
}

static __device__ __forceinline__ bool spwd_crc32c_matches(const struct spw_frame *part,
							   struct spw_lanes lanes, uint32_t trailer)
{
	uint32_t reg = 0, want = ~trailer, pad, one_turn, behind;

	if (part->len < 16)
		return spwd_crc32c_short(part->addr, part->len) == want;
	one_turn = lanes.cnt == 32 ? spwd_gf_pow<128 * 32>()
				   : spwd_gf_shift_cells(0x80000000u, lanes.cnt, lanes.cnt);
	spw_for_each_chunk(c, part, lanes)
	{
		if (!c->len)
			continue;
		if (lanes.cnt == 32)
			reg = spwd_gf_shift<128 * 32>(reg);
		else
			reg = spwd_gf_mul(one_turn, reg);
		reg ^= spwd_gf_shift<128>(c->w[0] ^ spwd_crc32c_start(c->off));
		reg ^= spwd_gf_shift<96>(c->w[1] ^ spwd_crc32c_start(c->off + 4));
		reg ^= spwd_gf_shift<64>(c->w[2] ^ spwd_crc32c_start(c->off + 8));
		reg ^= spwd_gf_shift<32>(c->w[3] ^ spwd_crc32c_start(c->off + 12));
	}
	/* from this lane's last cell to the frame's: a lane without cells has 0 to shift */
	behind = (spw_walk_last_cell(part) % lanes.cnt + lanes.cnt - lanes.idx) % lanes.cnt;
	reg = spw_lanes_xor(lanes, spwd_gf_shift_cells(reg, behind, lanes.cnt));
	pad = (0u - (uint32_t)(uintptr_t)(part->addr + part->len)) & 15;
	for (uint32_t i = 0; i < pad * 8; i++)
		want = spwd_gf_x(want);
	return reg == want;
}
