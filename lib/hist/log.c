/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * HdrHistogram's interval log (spw_hist_log.h): counts -> zig-zag LEB128 -> zlib -> base64, one
 * line for each interval. The generator and the data plane write their logs with it.
 *
 * One line of the log:
 *
 *   Tag=stage,start,length,max,  base64( cookie, bytes, zlib( head 40 B, counts ) )
 *
 *   head     cookie 4 | bytes 4 | index offset 4 | digits 4 | lowest 8 | highest 8 | ratio 8
 *   counts   zig-zag LEB128 of each count in order of value; a run of n empty buckets is -n
 *
 * All numbers of the head are big-endian. spw_hist's layout is that of an HdrHistogram with 2
 * digits, so counts are copied without conversion; overflow is added to the last bucket, because
 * the format has no place for it.
 *
 * Source: HdrHistogram's Java sources, AbstractHistogram.encodeIntoByteBuffer and
 * HistogramLogWriter (V2 cookies, log format 1.3).
 */
#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "hist/spw_hist_log.h"

#define COOKIE_V2            0x1c849313u /* 0x1c849303 with the word size nibble of V2 */
#define COOKIE_V2_COMPRESSED 0x1c849314u
#define HEAD_BYTES           40u
#define COUNT_BYTES_MAX      9u
#define DEFLATE_LEVEL        6

/* Writes a big-endian number and returns the address behind it. */
static uint8_t *log_put_be(uint8_t *at, uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
	return at + bytes;
}

/* Zig-zag LEB128: 7 bits a byte, lowest first; the ninth byte has 8. */
static uint8_t *log_put_count(uint8_t *at, int64_t value)
{
	uint64_t v = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
	uint32_t n = 1;

	for (; v >= 0x80 && n < COUNT_BYTES_MAX; n++, v >>= 7)
		*at++ = (uint8_t)(v | 0x80);
	*at++ = (uint8_t)v;
	return at;
}

/* All counts up to the last that is not zero; a run of n zeros is the number -n. */
static uint8_t *log_put_counts(uint8_t *at, const struct spw_hist *hist)
{
	uint32_t last = SPW_HIST_BUCKET_CNT - 1, zeros = 0;

	while (last > 0 && hist->count[last] == 0 && hist->overflow == 0)
		last--;
	for (uint32_t i = 0; i <= last; i++) {
		uint64_t count =
			hist->count[i] + (i == SPW_HIST_BUCKET_CNT - 1 ? hist->overflow : 0);

		if (count == 0) {
			zeros++;
			continue;
		}
		if (zeros)
			at = log_put_count(at, -(int64_t)zeros);
		zeros = 0;
		at = log_put_count(at, (int64_t)count);
	}
	return at;
}

/* The uncompressed form. Returns its length. */
static size_t log_encode_plain(uint8_t *out, const struct spw_hist *hist)
{
	const double ratio = 1.0;
	uint64_t ratio_bits;
	uint8_t *at = out, *end = log_put_counts(out + HEAD_BYTES, hist);

	memcpy(&ratio_bits, &ratio, sizeof(ratio_bits));
	at = log_put_be(at, COOKIE_V2, 4);
	at = log_put_be(at, (uint64_t)(end - out) - HEAD_BYTES, 4);
	at = log_put_be(at, 0, 4); /* normalizing index offset */
	at = log_put_be(at, 2, 4); /* significant digits */
	at = log_put_be(at, 1, 8); /* lowest discernible value */
	at = log_put_be(at, SPW_HIST_VALUE_MAX, 8);
	log_put_be(at, ratio_bits, 8);
	return (size_t)(end - out);
}

/* RFC 4648 with padding. NULL without memory. */
static char *log_base64(const uint8_t *in, size_t bytes)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *out = malloc((bytes + 2) / 3 * 4 + 1), *at = out;

	for (size_t i = 0; out && i < bytes; i += 3) {
		uint32_t left = (uint32_t)SPW_MIN(bytes - i, 3u), v = (uint32_t)in[i] << 16;

		v |= left > 1 ? (uint32_t)in[i + 1] << 8 : 0;
		v |= left > 2 ? in[i + 2] : 0;
		*at++ = digit[v >> 18];
		*at++ = digit[v >> 12 & 63];
		*at++ = left > 1 ? digit[v >> 6 & 63] : '=';
		*at++ = left > 2 ? digit[v & 63] : '=';
	}
	if (out)
		*at = '\0';
	return out;
}

/* Cookie and length precede the compressed data. Returns a string for free(), NULL without memory.
 */
char *spw_hist_log_encode(const struct spw_hist *hist)
{
	size_t plain_max = HEAD_BYTES + (size_t)SPW_HIST_BUCKET_CNT * 2 * COUNT_BYTES_MAX,
	       plain_bytes, packed_max, n;
	struct libdeflate_compressor *deflater = libdeflate_alloc_compressor(DEFLATE_LEVEL);
	uint8_t *plain = malloc(plain_max), *packed = NULL;
	char *text = NULL;

	if (deflater && plain) {
		plain_bytes = log_encode_plain(plain, hist);
		packed_max = libdeflate_zlib_compress_bound(deflater, plain_bytes);
		packed = malloc(packed_max + 8);
		n = packed ? libdeflate_zlib_compress(deflater, plain, plain_bytes, packed + 8,
						      packed_max)
			   : 0;
		if (n) {
			log_put_be(log_put_be(packed, COOKIE_V2_COMPRESSED, 4), n, 4);
			text = log_base64(packed, n + 8);
		}
	}
	libdeflate_free_compressor(deflater);
	free(plain);
	free(packed);
	return text;
}

/* A whole line, flushed, so that a full disk is reported with the line that it lost. */
static int log_put_line(FILE *file, const char *head, const char *tail)
{
	size_t head_bytes = strlen(head), tail_bytes = strlen(tail);

	if (fwrite(head, 1, head_bytes, file) != head_bytes ||
	    fwrite(tail, 1, tail_bytes, file) != tail_bytes || fwrite("\n", 1, 1, file) != 1 ||
	    fflush(file))
		return spw_err(EIO, "histogram log: cannot be written (%s)", strerror(errno));
	return 0;
}

int spw_hist_log_open(FILE *file, uint64_t start_ns)
{
	char head[160];

	snprintf(head, sizeof(head),
		 "#[Histogram log format version 1.3]\n#[StartTime: %.3f (seconds since epoch)]\n",
		 (double)start_ns / 1e9);
	return log_put_line(file, head,
			    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_"
			    "Compressed_Histogram\"");
}

int spw_hist_log_write(FILE *file, const char *tag, uint64_t start_ns, uint64_t interval_ns,
		       double value_scale, const struct spw_hist *hist)
{
	char head[256], *text;
	int rc;

	if (strpbrk(tag, ", \r\n") || strlen(tag) > 64)
		return spw_err(EINVAL,
			       "histogram log: the tag '%.64s' is too long, or has a comma, space "
			       "or line break",
			       tag);
	text = spw_hist_log_encode(hist);
	if (!text)
		return spw_err(ENOMEM, "histogram log: no memory for an interval");
	snprintf(head, sizeof(head), "%s%s%s%.3f,%.3f,%.3f,", tag[0] ? "Tag=" : "", tag,
		 tag[0] ? "," : "", (double)start_ns / 1e9, (double)interval_ns / 1e9,
		 (double)hist->max_value / value_scale);
	rc = log_put_line(file, head, text);
	free(text);
	return rc;
}
