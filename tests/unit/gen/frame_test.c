/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ip.h>

#include "gen/spw_gen_frame.h"

static const struct gen_frame_conf conf = {.src_mac = {2, 0, 0, 0, 0, 1},
					   .dst_mac = {2, 0, 0, 0, 0, 2},
					   .src_ip = 0x0a000001,
					   .dst_ip = 0x0a000002,
					   .run = 77};

/* In memory of exactly its size, so that ASan sees a read or write beyond it. */
static uint8_t *make(uint16_t bytes, uint16_t flow, uint32_t seq, uint64_t due_ns)
{
	struct gen_headers headers;
	uint8_t *frame = malloc(bytes);

	memset(frame, 0xee, bytes);
	gen_frame_template(&conf, 0, &headers);
	gen_frame_write(&headers, frame, bytes,
			&(struct gen_mark){.flow = flow, .seq = seq, .due_ns = due_ns});
	return frame;
}

static enum gen_kind kind_of(const uint8_t *frame, uint32_t bytes)
{
	struct gen_seen_frame seen;

	gen_frame_read(frame, bytes, false, conf.run, &seen);
	return seen.kind;
}

static void every_size_comes_back(void **state)
{
	(void)state;
	for (uint16_t bytes = 64; bytes <= 9600;
	     bytes = (uint16_t)(bytes < 200 ? bytes + 1 : bytes + 97)) {
		uint8_t *frame = make(bytes, 300, 0xfffffffe, 0x123456789abcull);
		struct gen_seen_frame seen;

		gen_frame_read(frame, bytes, false, conf.run, &seen);
		assert_int_equal(seen.kind, GEN_KIND_ECHO);
		assert_int_equal(seen.flow, 300);
		assert_int_equal(seen.seq, 0xfffffffe);
		assert_int_equal(seen.due_ns, 0x123456789abcull);
		free(frame);
	}
}

static void headers_are_valid_on_the_wire(void **state)
{
	uint8_t *frame = make(1000, 5, 1, 1);
	struct gen_headers *h = (struct gen_headers *)frame;
	uint16_t sum = h->ip.check;

	(void)state;
	h->ip.check = 0;
	assert_int_equal(rte_ipv4_cksum((void *)&h->ip), sum);
	assert_int_equal(rte_be_to_cpu_16(h->ip.tot_len), 986);
	assert_int_equal(rte_be_to_cpu_16(h->udp.len), 966);
	assert_int_equal(rte_be_to_cpu_16(h->udp.source), 16389);
	free(frame);
}

/* Against the polynomial of RFC 3720, bit by bit. */
static void trailer_is_crc32c(void **state)
{
	uint8_t *frame = make(64, 9, 8, 7);
	uint32_t crc = 0xffffffff;

	(void)state;
	for (int i = 0; i < 18; i++) {
		crc ^= frame[GEN_PAYLOAD_OFFSET + i];
		for (int b = 0; b < 8; b++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	crc = ~crc;
	for (int i = 0; i < 4; i++)
		assert_int_equal(frame[60 + i], crc >> (8 * i) & 0xff);
	free(frame);
}

static void any_flipped_payload_bit_is_seen(void **state)
{
	uint8_t *frame = make(200, 1, 2, 3);

	(void)state;
	for (uint32_t bit = (GEN_PAYLOAD_OFFSET + 3) * 8; bit < 200 * 8; bit++) {
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(kind_of(frame, 200), GEN_KIND_CORRUPTED);
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(kind_of(frame, 200), GEN_KIND_ECHO);
	free(frame);
}

static void an_older_run_is_recognised(void **state)
{
	uint8_t *frame = make(64, 1, 2, 3);
	struct gen_seen_frame seen;

	(void)state;
	gen_frame_read(frame, 64, false, 78, &seen);
	assert_int_equal(seen.kind, GEN_KIND_OLD_RUN);
	free(frame);
}

static void cut_and_lying_frames_are_foreign(void **state)
{
	(void)state;
	for (uint32_t bytes = 0; bytes < 64; bytes++) {
		uint8_t *whole = make(64, 1, 2, 3), *cut = malloc(bytes ? bytes : 1);

		memcpy(cut, whole, bytes);
		assert_int_equal(kind_of(cut, bytes), GEN_KIND_FOREIGN);
		free(cut);
		free(whole);
	}
	for (uint32_t udp_bytes = 0; udp_bytes < 65536; udp_bytes++) {
		uint8_t *frame = make(100, 1, 2, 3);

		((struct gen_headers *)frame)->udp.len = rte_cpu_to_be_16((uint16_t)udp_bytes);
		assert_int_equal(kind_of(frame, 100) == GEN_KIND_ECHO, udp_bytes == 66);
		free(frame);
	}
}

/* A PMD may deliver padding behind the IP packet. */
static void padding_is_no_harm(void **state)
{
	uint8_t *frame = make(64, 1, 2, 3), *padded = calloc(1, 80);

	(void)state;
	memcpy(padded, frame, 64);
	assert_int_equal(kind_of(padded, 80), GEN_KIND_ECHO);
	free(padded);
	free(frame);
}

/* The number is where frame/spw_ident.h reads it, and the CRC covers it; without a stream there is
 * none. */
static void a_stream_has_a_number(void **state)
{
	const struct gen_mark mark = {.flow = 3, .seq = 4, .number = 0x89abcdef, .due_ns = 5};
	struct gen_frame_conf with = conf;
	struct gen_headers headers;
	uint32_t stream, number;

	(void)state;
	with.stream = true;
	gen_frame_template(&with, 11, &headers);
	for (uint16_t bytes = GEN_STREAM_SIZE_MIN; bytes <= 80; bytes++) {
		uint8_t *frame = malloc(bytes);

		gen_frame_write(&headers, frame, bytes, &mark);
		assert_true(spw_ident_stream(frame + SPW_IDENT_ETH_OFFSET, &stream, &number));
		assert_int_equal(stream, 11);
		assert_int_equal(number, 0x89abcdef);
		assert_int_equal(kind_of(frame, bytes), GEN_KIND_ECHO);
		frame[SPW_IDENT_ETH_OFFSET + SPW_IDENT_BYTES] ^= 1;
		assert_int_equal(kind_of(frame, bytes), GEN_KIND_CORRUPTED);
		free(frame);
		frame = make(bytes, 3, 4, 5);
		assert_false(spw_ident_stream(frame + SPW_IDENT_ETH_OFFSET, &stream, &number));
		free(frame);
	}
}

/* A message is the payload alone, and not taken for a frame, nor a frame for a message. */
static void a_message_comes_back(void **state)
{
	struct gen_headers headers;
	struct gen_seen_frame seen;

	(void)state;
	gen_frame_template(&conf, 0, &headers);
	for (uint16_t bytes = 64; bytes <= 9600; bytes = (uint16_t)(bytes + 97)) {
		uint8_t *message = malloc(bytes), *frame = make(bytes, 1, 2, 3);

		gen_message_write(&headers, message, bytes,
				  &(struct gen_mark){.flow = 40, .seq = 41, .due_ns = 42});
		gen_frame_read(message, bytes, true, conf.run, &seen);
		assert_int_equal(seen.kind, GEN_KIND_ECHO);
		assert_int_equal(seen.flow, 40);
		assert_int_equal(seen.seq, 41);
		assert_int_equal(seen.due_ns, 42);
		message[bytes - 1] ^= 1;
		gen_frame_read(message, bytes, true, conf.run, &seen);
		assert_int_equal(seen.kind, GEN_KIND_CORRUPTED);
		gen_frame_read(message, bytes, false, conf.run, &seen);
		assert_int_equal(seen.kind, GEN_KIND_FOREIGN);
		gen_frame_read(frame, bytes, true, conf.run, &seen);
		assert_int_equal(seen.kind, GEN_KIND_FOREIGN);
		free(message);
		free(frame);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_comes_back),
		cmocka_unit_test(headers_are_valid_on_the_wire),
		cmocka_unit_test(trailer_is_crc32c),
		cmocka_unit_test(any_flipped_payload_bit_is_seen),
		cmocka_unit_test(an_older_run_is_recognised),
		cmocka_unit_test(cut_and_lying_frames_are_foreign),
		cmocka_unit_test(padding_is_no_harm),
		cmocka_unit_test(a_stream_has_a_number),
		cmocka_unit_test(a_message_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
