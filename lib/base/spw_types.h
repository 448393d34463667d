/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What every part shares: compiler attributes, big-endian types, small arithmetic. Needs no
 * library; compiles as C17, C++17 and CUDA C++. All functions here are pure. Thread: any.
 */
#ifndef SPW_BASE_TYPES_H
#define SPW_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Assert the layouts of hot structs, and of those that hardware, files or other processes share. */
#ifdef __cplusplus
#define SPW_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type " size")
#define SPW_ASSERT_OFFSET(type, field, off) \
	static_assert(offsetof(type, field) == (off), #type "." #field)
#else
#define SPW_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " size")
#define SPW_ASSERT_OFFSET(type, field, off) \
	_Static_assert(offsetof(type, field) == (off), #type "." #field)
#endif

/* The same on x86, Neoverse and Cortex-X. Prefetchers fetch lines in pairs, so data of two writers
 * is kept two lines apart. */
#define SPW_CACHE_LINE 64u

/* Attributes by their meaning. SPW_COLD: out of line and away from the hot code, for what seldom
 * happens; SPW_INLINE: inlined even where the compiler would not, for steps of a data path. */
#define SPW_ALIGNED(n)               __attribute__((aligned(n)))
#define SPW_PACKED                   __attribute__((packed))
#define SPW_INLINE                   static inline __attribute__((always_inline))
#define SPW_COLD                     __attribute__((cold, noinline))
#define SPW_NOINLINE                 __attribute__((noinline))
#define SPW_UNUSED                   __attribute__((unused))
#define SPW_PRINTF(fmt_idx, arg_idx) __attribute__((format(printf, fmt_idx, arg_idx)))
#define spw_likely(x)                __builtin_expect(!!(x), 1)
#define spw_unlikely(x)              __builtin_expect(!!(x), 0)

/* SPW_MIN and SPW_MAX evaluate an argument twice: none may have a side effect. */
#define SPW_ARRAY_CNT(a)                    (sizeof(a) / sizeof((a)[0]))
#define SPW_MIN(a, b)                       ((a) < (b) ? (a) : (b))
#define SPW_MAX(a, b)                       ((a) > (b) ? (a) : (b))
#define spw_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* The next multiple of align, which is a power of 2. x + align - 1 must not overflow. */
#define SPW_ALIGN_UP(x, align) (((x) + ((align)-1)) & ~((__typeof__(x))(align)-1))
#define SPW_IS_POW2(x)         ((x) != 0 && ((x) & ((x)-1)) == 0)

/* Integers whose bytes are in network order in memory. sparse refuses arithmetic on them; for other
 * compilers they are plain integers. */
#ifdef __CHECKER__
#define SPW_BITWISE __attribute__((bitwise))
#define SPW_FORCE   __attribute__((force))
#else
#define SPW_BITWISE
#define SPW_FORCE
#endif
typedef uint16_t SPW_BITWISE spw_be16;
typedef uint32_t SPW_BITWISE spw_be32;
typedef uint64_t SPW_BITWISE spw_be64;

/* From the CPU's order to network order, and the same back. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SPW_SWAP16(x) __builtin_bswap16(x)
#define SPW_SWAP32(x) __builtin_bswap32(x)
#define SPW_SWAP64(x) __builtin_bswap64(x)
#else
#define SPW_SWAP16(x) (x)
#define SPW_SWAP32(x) (x)
#define SPW_SWAP64(x) (x)
#endif

/* Purpose: a value of network order, as the CPU computes with it. Pure. */
SPW_INLINE uint16_t spw_be16_to_cpu(spw_be16 x)
{
	return SPW_SWAP16((SPW_FORCE uint16_t)x);
}
SPW_INLINE uint32_t spw_be32_to_cpu(spw_be32 x)
{
	return SPW_SWAP32((SPW_FORCE uint32_t)x);
}
SPW_INLINE uint64_t spw_be64_to_cpu(spw_be64 x)
{
	return SPW_SWAP64((SPW_FORCE uint64_t)x);
}
/* Purpose: a value of the CPU, in network order. Pure. */
SPW_INLINE spw_be16 spw_cpu_to_be16(uint16_t x)
{
	return (SPW_FORCE spw_be16)SPW_SWAP16(x);
}
SPW_INLINE spw_be32 spw_cpu_to_be32(uint32_t x)
{
	return (SPW_FORCE spw_be32)SPW_SWAP32(x);
}
SPW_INLINE spw_be64 spw_cpu_to_be64(uint64_t x)
{
	return (SPW_FORCE spw_be64)SPW_SWAP64(x);
}

/* Big-endian numbers in memory, at any alignment. */
SPW_INLINE uint16_t spw_be16_load(const void *at)
{
	spw_be16 v;

	__builtin_memcpy(&v, at, sizeof(v));
	return spw_be16_to_cpu(v);
}
SPW_INLINE uint32_t spw_be32_load(const void *at)
{
	spw_be32 v;

	__builtin_memcpy(&v, at, sizeof(v));
	return spw_be32_to_cpu(v);
}
/* Purpose: reads 8 bytes of network order, at any alignment. Pure. */
SPW_INLINE uint64_t spw_be64_load(const void *at)
{
	spw_be64 v;

	__builtin_memcpy(&v, at, sizeof(v));
	return spw_be64_to_cpu(v);
}

/* The smallest power of 2 that is not below x. x: 0 .. 2^31; 1 for 0. */
SPW_INLINE uint32_t spw_pow2_ceil32(uint32_t x)
{
	return x <= 1 ? 1 : 1u << (32 - __builtin_clz(x - 1));
}

/* Whether min <= v <= max. A negative v is out of any range of non-negative bounds, because it
 * converts to a value above INT64_MAX. */
SPW_INLINE bool spw_in_range(uint64_t v, uint64_t min, uint64_t max)
{
	return v >= min && v <= max;
}

/* Whether 1 <= v <= max, by one comparison: 0 wraps around to the largest value. For data paths. */
SPW_INLINE bool spw_in_1_to(uint32_t v, uint32_t max)
{
	return v - 1 < max;
}

/* The base-2 logarithm, rounded down. x > 0. */
SPW_INLINE uint32_t spw_log2_floor64(uint64_t x)
{
	return 63u - (uint32_t)__builtin_clzll(x);
}

#endif
