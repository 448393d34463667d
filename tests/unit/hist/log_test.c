/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The encoding, read back by a decoder that was written for this test from the format's
 * description.
 */
#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>

#include "hist/spw_hist_log.h"
#include "unit_test.h"

static struct spw_hist hist, back;

static uint64_t get_be(const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

static size_t base64_read(const char *text, uint8_t *out)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0, held = 0;
	size_t n = 0;

	assert_int_equal(strlen(text) % 4, 0);
	for (; *text && *text != '='; text++) {
		assert_non_null(strchr(digit, *text));
		bits = bits << 6 | (uint32_t)(strchr(digit, *text) - digit);
		held += 6;
		if (held >= 8)
			out[n++] = (uint8_t)(bits >> (held -= 8));
	}
	return n;
}

static int64_t count_read(const uint8_t **at)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < 9; i++) {
		uint8_t byte = *(*at)++;

		v |= (uint64_t)(i < 8 ? byte & 0x7f : byte) << 7 * i;
		if (i == 8 || byte < 0x80)
			break;
	}
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static void decode(const char *text)
{
	static uint8_t packed[1 << 18], plain[1 << 18];
	struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
	size_t bytes = base64_read(text, packed), got;
	const uint8_t *at = plain + 40;
	uint32_t bucket = 0;

	spw_hist_clear(&back);
	assert_int_equal(get_be(packed, 4), 0x1c849314);
	assert_int_equal(get_be(packed + 4, 4), bytes - 8);
	assert_int_equal(libdeflate_zlib_decompress(inflater, packed + 8, bytes - 8, plain,
						    sizeof(plain), &got),
			 0);
	libdeflate_free_decompressor(inflater);
	assert_int_equal(get_be(plain, 4), 0x1c849313);
	assert_int_equal(get_be(plain + 4, 4), got - 40);
	assert_int_equal(get_be(plain + 8, 4), 0);
	assert_int_equal(get_be(plain + 12, 4), 2);
	assert_int_equal(get_be(plain + 16, 8), 1);
	assert_true(get_be(plain + 24, 8) == SPW_HIST_VALUE_MAX);
	assert_true(get_be(plain + 32, 8) == 0x3ff0000000000000ull);
	while (at < plain + got) {
		int64_t count = count_read(&at);

		assert_int_not_equal(count, 0);
		if (count < 0) {
			bucket += (uint32_t)-count;
			continue;
		}
		assert_true(bucket < SPW_HIST_BUCKET_CNT);
		back.count[bucket++] = (uint64_t)count;
	}
	assert_ptr_equal(at, plain + got);
}

static void counts_survive_the_round_trip(void **state)
{
	uint64_t seed = 41;

	(void)state;
	for (int run = 0; run < 60; run++) {
		char *text;

		spw_hist_clear(&hist);
		for (uint64_t i = unit_random_log(&seed, 12); i > 0; i--)
			spw_hist_record(&hist, unit_random_log(&seed, 40),
					1 + unit_random_log(&seed, 50));
		if (run == 1) { /* the longest of all encodings */
			spw_hist_clear(&hist);
			spw_hist_record(&hist, 0, INT64_MAX);
		}
		text = spw_hist_log_encode(&hist);
		assert_non_null(text);
		decode(text);
		free(text);
		if (spw_hist_total(&hist))
			assert_memory_equal(hist.count, back.count, sizeof(hist.count));
	}
}

/* Volatile: gcc at -O0 warns of the branch that a constant of this size never takes. */
static void overflow_is_counted_at_the_end(void **state)
{
	const volatile uint64_t beyond = UINT64_MAX;
	char *text;

	(void)state;
	spw_hist_clear(&hist);
	spw_hist_record(&hist, SPW_HIST_VALUE_MAX, 2);
	spw_hist_record(&hist, beyond, 5);
	text = spw_hist_log_encode(&hist);
	decode(text);
	free(text);
	assert_int_equal(back.count[SPW_HIST_BUCKET_CNT - 1], 7);
}

static void lines_have_the_columns_of_the_format(void **state)
{
	char *text = NULL, *line, *encoded = spw_hist_log_encode(&hist), want[128];
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	spw_hist_clear(&hist);
	spw_hist_record(&hist, 2500000, 10);
	free(encoded);
	encoded = spw_hist_log_encode(&hist);
	assert_int_equal(spw_hist_log_open(file, 1700000000500000000ull), 0);
	assert_int_equal(spw_hist_log_write(file, "start_end", 1700000001500000000ull, 1000000000,
					    1e6, &hist),
			 0);
	assert_int_equal(
		spw_hist_log_write(file, "", 1700000002500000000ull, 250000000, 1e6, &hist), 0);
	assert_int_equal(spw_hist_log_write(file, "a,b", 0, 0, 1, &hist), -EINVAL);
	fclose(file);
	assert_non_null(
		strstr(text, "#[Histogram log format version 1.3]\n#[StartTime: 1700000000.500 "));
	line = strstr(text, "Tag=start_end,1700000001.500,1.000,2.500,HIST");
	assert_non_null(line);
	assert_memory_equal(strstr(line, "HIST"), encoded, strlen(encoded));
	snprintf(want, sizeof(want), "\n1700000002.500,0.250,2.500,HIST");
	assert_non_null(strstr(text, want));
	free(text);
	free(encoded);
}

static void a_full_disk_is_reported(void **state)
{
	FILE *file = fopen("/dev/full", "w");

	(void)state;
	if (!file)
		skip();
	assert_int_equal(spw_hist_log_write(file, "", 0, 0, 1, &hist), -EIO);
	assert_non_null(strstr(spw_err_text(), "No space left"));
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_survive_the_round_trip),
		cmocka_unit_test(overflow_is_counted_at_the_end),
		cmocka_unit_test(lines_have_the_columns_of_the_format),
		cmocka_unit_test(a_full_disk_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
