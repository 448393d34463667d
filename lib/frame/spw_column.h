/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rows of a burst in columns: the first row as it is, and of the others what differs from it, in as
 * few bytes as the column's largest difference needs. The flight recorder keeps descriptors and
 * CQEs so (flight/spw_flight.h, port/mlx5/eth/raw.h), since the memory that it writes is its cost.
 *
 *   rows       stamp 0x5a10, length 64 | 0x5a1a, 64 | 0x5a24, 64 | 0x5a38, 64
 *   columns    stamp  first 0x5a10, then value XOR first in 2 bytes: 0, 0x0a, 0x34, 0x28
 *              length first 64, then nothing: no row differs
 *
 * The machine is little-endian: the low bytes of a value come first. Columns of a file may be any
 * bytes; who reads them compares spw_columns_bytes() with what is there.
 */
#ifndef SPW_FRAME_COLUMN_H
#define SPW_FRAME_COLUMN_H

#include <string.h>

#include "base/spw_order.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns of a burst; a row function may leave some at 0, which then take no bytes. */
#define SPW_COLUMN_CNT       4u
#define SPW_COLUMN_ROW_WORDS 8u /* a row has at most */

/* What differs follows, one column after the other. */
struct spw_columns {
	uint64_t first[SPW_COLUMN_CNT];
};
SPW_ASSERT_SIZE(struct spw_columns, 32);

/* Reads row i of rows into value[]: each bit of a value is a bit of the row, or 0. */
typedef void spw_column_row(const void *rows, uint32_t i, uint64_t value[SPW_COLUMN_CNT]);

/* Returns: bytes of a value in column c: 0, 2, 4 or 8. widths has two bits for each column.
 * Thread: any; pure. */
SPW_INLINE uint32_t spw_column_width(uint32_t widths, uint32_t c)
{
	const uint32_t log2 = widths >> (2 * c) & 3;

	return log2 ? 1u << log2 : 0;
}

/* Returns: bytes of cnt rows, struct spw_columns included; a multiple of 8. Thread: any; pure. */
SPW_INLINE uint32_t spw_columns_bytes(uint32_t widths, uint32_t cnt)
{
	uint32_t each = 0;

	for (uint32_t c = 0; c < SPW_COLUMN_CNT; c++)
		each += spw_column_width(widths, c);
	return (uint32_t)sizeof(struct spw_columns) + SPW_ALIGN_UP(each * cnt, 8u);
}

/* Private: the width of a column whose values differ in these bits, as log2; 0: in none.
 * Thread: any; pure. */
SPW_INLINE uint32_t spw_column_log2(uint64_t differ)
{
	if (!differ)
		return 0;
	return differ >> 32 ? 3 : differ >> 16 ? 2 : 1;
}

/* Private: writes one column of values of `bytes`, a constant. Returns: where the next column
 * begins. Thread: owner. */
SPW_INLINE uint8_t *spw_column_put_each(spw_column_row *row, const void *rows, uint32_t cnt,
					uint32_t c, uint64_t first, size_t bytes, uint8_t *to)
{
	uint64_t value[SPW_COLUMN_CNT];

#pragma GCC unroll 4
	for (uint32_t i = 0; i < cnt; i++) {
		row(rows, i, value);
		value[c] ^= first;
		memcpy(to + i * bytes, &value[c], bytes);
	}
	return to + cnt * bytes;
}

/* Private: writes one column. A loop for each width, so that a value is one store. Thread: owner.
 */
SPW_INLINE uint8_t *spw_column_put(spw_column_row *row, const void *rows, uint32_t cnt, uint32_t c,
				   uint64_t first, uint32_t width, uint8_t *to)
{
	switch (width) {
	case 2:
		return spw_column_put_each(row, rows, cnt, c, first, 2, to);
	case 4:
		return spw_column_put_each(row, rows, cnt, c, first, 4, to);
	case 8:
		return spw_column_put_each(row, rows, cnt, c, first, 8, to);
	default:
		return to;
	}
}

/* Private: two words of a row; rows are of any type. */
typedef uint64_t spw_column_pair __attribute__((vector_size(16), may_alias, aligned(8)));

/* Private: in each word of a row, the bits that one of cnt rows has and another has not. Rows of
 * pairs come from a device. Others a port has just written word by word, and a longer load would
 * wait until they are in the cache. Thread: owner. */
SPW_INLINE void spw_rows_differ(const uint64_t *rows, uint32_t words, uint32_t cnt,
				uint64_t *differ_out)
{
	const uint32_t pairs = words % 2 ? 0 : words / 2;
	spw_column_pair any[SPW_COLUMN_ROW_WORDS / 2] = {{0}}, all[SPW_COLUMN_ROW_WORDS / 2];
	uint64_t differ[SPW_COLUMN_ROW_WORDS] = {0};

	memset(all, 0xff, sizeof(all));
#pragma GCC unroll 4
	for (uint32_t i = 0; i < cnt; i++) {
		const uint64_t *row = rows + (size_t)i * words;

		for (uint32_t p = 0; p < pairs; p++) {
			any[p] |= ((const spw_column_pair *)row)[p];
			all[p] &= ((const spw_column_pair *)row)[p];
		}
		for (uint32_t w = 2 * pairs; w < words; w++)
			differ[w] |= spw_load_alone64(&row[w]) ^ rows[w];
	}
	for (uint32_t p = 0; p < pairs; p++)
		any[p] ^= all[p];
	memcpy(differ, any, 2 * pairs * sizeof(differ[0]));
	memcpy(differ_out, differ, sizeof(differ));
}

/* Purpose: writes cnt rows in columns.
 * Shape:   cnt >= 1; rows of words * 8 bytes. row and words are constants, so that only what a row
 *          reads is looked at. to: room for cnt rows of 8 bytes a column; bytes that only fill
 *          the last 8 stay as they were.
 * Returns: the widths, for spw_columns_bytes.
 * Thread:  owner of to. */
SPW_INLINE uint32_t spw_columns_put(spw_column_row *row, const void *rows, uint32_t words,
				    uint32_t cnt, struct spw_columns *to)
{
	uint64_t first[SPW_COLUMN_CNT], differ[SPW_COLUMN_CNT], word[SPW_COLUMN_ROW_WORDS];
	uint8_t *at = (uint8_t *)(to + 1);
	uint32_t widths = 0;

	row(rows, 0, first);
	memcpy(to->first, first, sizeof(first));
	spw_rows_differ((const uint64_t *)rows, words, cnt, word);
	row(word, 0, differ);
	for (uint32_t c = 0; c < SPW_COLUMN_CNT; c++)
		widths |= spw_column_log2(differ[c]) << (2 * c);
	/* One by one, so that each reads no more than its own column. */
	at = spw_column_put(row, rows, cnt, 0, first[0], spw_column_width(widths, 0), at);
	at = spw_column_put(row, rows, cnt, 1, first[1], spw_column_width(widths, 1), at);
	at = spw_column_put(row, rows, cnt, 2, first[2], spw_column_width(widths, 2), at);
	spw_column_put(row, rows, cnt, 3, first[3], spw_column_width(widths, 3), at);
	return widths;
}

/* Purpose: the values of row i of cnt rows.
 * Shape:   columns has spw_columns_bytes(widths, cnt) bytes; i < cnt.
 * Thread:  any. */
SPW_INLINE void spw_columns_get(const struct spw_columns *columns, uint32_t widths, uint32_t cnt,
				uint32_t i, uint64_t value_out[SPW_COLUMN_CNT])
{
	const uint8_t *at = (const uint8_t *)(columns + 1);

	for (uint32_t c = 0; c < SPW_COLUMN_CNT; c++) {
		const uint32_t width = spw_column_width(widths, c);
		uint64_t differs = 0;

		memcpy(&differs, at + (size_t)i * width, width);
		value_out[c] = columns->first[c] ^ differs;
		at += (size_t)cnt * width;
	}
}

#ifdef __cplusplus
}
#endif
#endif
