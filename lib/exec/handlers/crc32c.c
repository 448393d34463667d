/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * CRC-32C on the host: by the CPU's own instruction where there is one, else eight bytes per step
 * from tables that are filled once, at the first call.
 *
 * CRC-32C (Castagnoli), reflected: polynomial 0x82f63b78, register starts at all ones and is
 * inverted at the end. Tables: table[k][b] is byte b followed by k zero bytes, so eight look-ups
 * advance the register by eight bytes ("slicing by 8").
 *
 * Sources: RFC 3720, appendix B.4 (test values); M. Kounavis, F. Berry, "A Systematic Approach to
 * Building High Performance Software-Based CRC Generators" (2005).
 */
#include <pthread.h>
#include <string.h>

#include "exec/handlers/crc32c.h"

static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

/* Table 0 by definition, bit by bit; table k from table k - 1, one zero byte more. */
static void crc_fill(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t v = i;

		for (int bit = 0; bit < 8; bit++)
			v = (v >> 1) ^ (v & 1 ? SPW_CRC32C_POLY : 0);
		crc_table[0][i] = v;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			crc_table[k][i] = crc_table[0][crc_table[k - 1][i] & 0xff] ^
					  crc_table[k - 1][i] >> 8;
}

/* The last bytes, where the length is no multiple of eight. */
static uint32_t crc_bytes(uint32_t reg, const uint8_t *p, size_t len)
{
	while (len--)
		reg = crc_table[0][(reg ^ *p++) & 0xff] ^ reg >> 8;
	return reg;
}

/* Little-endian words, read byte by byte: data may be unaligned. */
static uint32_t crc_by_table(uint32_t reg, const uint8_t *p, size_t len)
{
	pthread_once(&crc_once, crc_fill);
	for (; len >= 8; p += 8, len -= 8) {
		uint32_t v = reg ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
				    (uint32_t)p[3] << 24);

		reg = crc_table[7][v & 0xff] ^ crc_table[6][v >> 8 & 0xff] ^
		      crc_table[5][v >> 16 & 0xff] ^ crc_table[4][v >> 24] ^ crc_table[3][p[4]] ^
		      crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
	}
	return crc_bytes(reg, p, len);
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_cpu(uint32_t reg, const uint8_t *p,
							     size_t len)
{
	uint64_t v, r = reg;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&v, p, 8);
		r = __builtin_ia32_crc32di(r, v);
	}
	for (reg = (uint32_t)r; len; len--)
		reg = __builtin_ia32_crc32qi(reg, *p++);
	return reg;
}

static bool crc_has_cpu(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

static uint32_t crc_by_cpu(uint32_t reg, const uint8_t *p, size_t len)
{
	uint64_t v;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&v, p, 8);
		reg = __crc32cd(reg, v);
	}
	while (len--)
		reg = __crc32cb(reg, *p++);
	return reg;
}

static bool crc_has_cpu(void)
{
	return true;
}
#else
#define crc_by_cpu crc_by_table

static bool crc_has_cpu(void)
{
	return false;
}
#endif

/* The CPU is asked at each call; the answer is a cached word. */
uint32_t spw_crc32c(uint32_t crc, const void *data, size_t len)
{
	return ~(crc_has_cpu() ? crc_by_cpu(~crc, data, len) : crc_by_table(~crc, data, len));
}
