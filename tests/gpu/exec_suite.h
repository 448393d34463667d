/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One suite for all executors: what a backend must do, whoever runs the handler. */
#ifndef EXEC_SUITE_H
#define EXEC_SUITE_H

#include "exec/spw_exec.h"
#include "exec/spw_handler.h"

struct suite {
	enum spw_exec_kind kind;
	uint8_t *mem; /* region bytes that the executor can read */
	uint64_t mem_dev;
	size_t mem_bytes;
	bool flush; /* as if a NIC wrote the region's bytes into the GPU's memory */
};

#define SUITE_MEM_BYTES ((64u << 20) + (1u << 20))

/* Runs every test on one backend; returns how many failed. */
int suite_run(const struct suite *suite, const char *filter);

/* ---- for tests of one backend only ---- */

struct rig {
	struct spw_exec *exec;
	const struct spw_handler *handler;
	struct spw_region region;
	const struct suite *suite;
};

/* handler NULL: conf's. */
void rig_open(struct rig *rig, const struct suite *suite, const char *handler,
	      struct spw_exec_conf conf);
void rig_close(struct rig *rig);
/* Turns the control thread's and owners' wheels once, as a program would. */
void rig_turn(struct rig *rig);
/* The record of the next batch, empty; a frame for it (returns its bytes); push and wait; retire.
 * Ring 0 but rig_next. */
struct spw_gring_batch *rig_next(struct rig *rig, uint16_t ring);
uint8_t *rig_add(struct rig *rig, struct spw_gring_batch *b, uint32_t offset, uint32_t len,
		 uint16_t flags);
struct spw_gring_batch *rig_do(struct rig *rig, struct spw_gring_batch *b);
void rig_done(struct rig *rig, struct spw_gring_batch *b);
/* Waits for the oldest batch of a ring; fails the test after 20 s. */
struct spw_gring_batch *rig_reap(struct rig *rig, uint16_t ring);
uint64_t suite_random(uint64_t *state);
/* Batches of random sizes through one ring, sums checked, until done; cnt batches. */
void suite_laps(struct rig *rig, uint16_t ring, uint32_t cnt, uint64_t seed);

uint64_t suite_sum(const uint8_t *p, size_t len);

/* exec_suite_frames.c */
void suite_crc_known_answers(void **state);
void suite_sum_reads_each_byte_once(void **state);
void suite_sizes_and_batches_mix(void **state);
void suite_null_touches_nothing(void **state);
void suite_crc_right_and_wrong(void **state);
void suite_crc_of_messages(void **state);
void suite_damaged_frames_are_named(void **state);
void suite_echo_swaps_addresses_and_nothing_else(void **state);
void suite_message_of_64_mb(void **state);
/* exec_suite_state.c */
void suite_state_counts_every_frame(void **state);
void suite_rings_of_different_handlers(void **state);
/* exec_suite_place.c */
void suite_place_every_length_and_alignment(void **state);
void suite_place_large_frames(void **state);
void suite_place_heads(void **state);
void suite_place_neighbours(void **state);
void suite_place_batches_in_flight(void **state);

#endif
