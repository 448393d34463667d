/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The flight recorder's ring and its file (spw_flight.h); read.c reads the file. The records
 * themselves are written by the owner through spw_flight_take, from rec.c's neighbours and
 * lib/pipe.
 *
 *   memory   | segment 0 | 1 | ... | SPW_FLIGHT_SEG_CNT - 1 | spare |
 *
 * The spare segment takes the records that have no place: while the other half of the ring is
 * frozen and this half is full. Nothing in it is ever read.
 */
#include "flight/spw_flight.h"

#include <errno.h>
#include <numa.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_file.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define PAGE_BYTES ((size_t)4096)
/* What one turn may add: a burst with raw completions (a port has room for 10 KiB of them), its
 * snaps, two completions, housekeeping; at the end of a run
 * the judgement of all batches that were described. */
#define TURN_BYTES ((size_t)36 << 10)

/* ---- memory ---- */

static size_t ring_turn_bytes(uint32_t snap_bytes)
{
	return TURN_BYTES + SPW_FLIGHT_FRAME_MAX * (size_t)(snap_bytes + 8);
}

static void ring_write_on(struct spw_flight *flight, uint8_t *memory)
{
	flight->at = flight->fetched = memory;
	flight->hard_end = memory + flight->seg_bytes;
	flight->end = flight->hard_end - ring_turn_bytes(flight->snap_bytes);
	flight->ripe = memory + flight->seg_bytes / 2;
}

/* Written once here, so that no page is missing when the owner writes it. */
int spw_flight_open(struct spw_flight *flight, size_t bytes, uint32_t snap_bytes, int numa_node)
{
	size_t seg = SPW_ALIGN_UP(bytes / SPW_FLIGHT_SEG_CNT, PAGE_BYTES);
	void *at;

	memset(flight, 0, sizeof(*flight));
	if (snap_bytes > SPW_FLIGHT_SNAP_MAX)
		return spw_err(EINVAL, "recording: %u bytes of a frame; at most %u", snap_bytes,
			       SPW_FLIGHT_SNAP_MAX);
	if (seg < 4 * ring_turn_bytes(snap_bytes))
		return spw_err(EINVAL, "recording: %zu bytes are too few: give it %zu MiB", bytes,
			       (4 * ring_turn_bytes(snap_bytes) * SPW_FLIGHT_SEG_CNT >> 20) + 1);
	flight->bytes = SPW_ALIGN_UP((SPW_FLIGHT_SEG_CNT + 1) * seg, HUGE_BYTES);
	at = mmap(NULL, flight->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return spw_err(ENOMEM, "recording: no memory for %zu MiB", flight->bytes >> 20);
	if (numa_node >= 0 && numa_available() >= 0 && numa_node <= numa_max_node())
		numa_tonode_memory(at, flight->bytes, numa_node);
	madvise(at, flight->bytes, MADV_HUGEPAGE); /* a wish */
	memset(at, 0, flight->bytes);
	flight->memory = at;
	flight->seg_bytes = seg;
	flight->snap_bytes = snap_bytes;
	ring_write_on(flight, flight->memory);
	return 0;
}

void spw_flight_close(struct spw_flight *flight)
{
	if (flight->memory)
		munmap(flight->memory, flight->bytes);
	memset(flight, 0, sizeof(*flight));
}

static uint8_t *seg_memory(const struct spw_flight *flight, uint64_t number)
{
	return flight->memory + number % SPW_FLIGHT_SEG_CNT * flight->seg_bytes;
}

static struct spw_flight_seg *seg_head(struct spw_flight *flight, uint64_t number)
{
	return &flight->head[number % SPW_FLIGHT_SEG_CNT];
}

/* ---- owner ---- */

/* Must not happen within a turn's room: the record is lost, and the segment says so. */
void *spw_flight_spare(struct spw_flight *flight)
{
	flight->off = true;
	return flight->memory + SPW_FLIGHT_SEG_CNT * flight->seg_bytes;
}

void spw_flight_gap(void *flight, const struct spw_rec_gap *gap, uint64_t empty_tsc)
{
	struct spw_flight_gap *note = spw_flight_take(
		flight, SPW_FLIGHT_GAP, 0, (uint16_t)(gap->regime << 8 | gap->hold), sizeof(*note));

	note->from = gap->from;
	note->to = gap->to;
	note->lost = gap->lost;
	note->empty = empty_tsc;
}

/* Whether the place of segment `number` is one that control reads. */
static bool seg_is_frozen(const struct spw_flight *flight, uint64_t number)
{
	uint64_t before = number - SPW_FLIGHT_SEG_CNT;

	return number >= SPW_FLIGHT_SEG_CNT && before >= flight->frozen_from &&
	       before <= flight->frozen_to &&
	       spw_thr_load_acq(&flight->done) != flight->granted; /* [F6 acquire, pairs with F5] */
}

static void seg_leave(struct spw_flight *flight)
{
	struct spw_flight_seg *head = seg_head(flight, flight->seg);

	head->number = flight->seg;
	head->bytes = (uint32_t)(flight->at - seg_memory(flight, flight->seg));
}

static void ring_freeze(struct spw_flight *flight)
{
	uint64_t most = SPW_FLIGHT_SEG_CNT / 2;

	flight->frozen_to = flight->seg;
	flight->frozen_from = flight->seg + 1 - SPW_MIN(most, flight->seg + 1);
}

/* While there is no place the segment's number stays: it is the one that comes back, broken. */
void spw_flight_next(struct spw_flight *flight)
{
	uint64_t ask = spw_thr_load_acq(&flight->ask); /* [F2 acquire, pairs with F1] */
	bool off = flight->off;

	if (!off) {
		seg_leave(flight);
		if (ask != flight->granted) {
			ring_freeze(flight);
			/* [F3 release, pairs with F4] */
			spw_thr_store_rel(&flight->granted, ask);
		}
		flight->seg++;
	}
	flight->off = seg_is_frozen(flight, flight->seg);
	if (flight->off) {
		spw_thr_count(&flight->missed_cnt, 1);
		ring_write_on(flight, flight->memory + SPW_FLIGHT_SEG_CNT * flight->seg_bytes);
		return;
	}
	seg_head(flight, flight->seg)->broken = off;
	ring_write_on(flight, seg_memory(flight, flight->seg));
}

_Static_assert(SPW_DESC_NIC_STAMP < 1u << SPW_FLIGHT_FLAG_BITS, "the flags fit into a row");
_Static_assert(SPW_DESC_LEN_MAX < 1ull << (32 - SPW_FLIGHT_FLAG_BITS), "and so does the length");

/* The sums of a burst, for a replay that reads raw completions again. */
void spw_flight_sum(const struct spw_desc *desc, uint32_t cnt, struct spw_flight_sums *sums_out)
{
	struct spw_flight_sums sums = {0};

#pragma GCC unroll 4
	for (uint32_t i = 0; i < cnt; i++) {
		sums.stamps += desc[i].nic_stamp;
		sums.lens += desc[i].len;
		sums.metas += desc[i].meta;
		sums.flags += desc[i].flags;
	}
	*sums_out = sums;
}

/* ---- control ---- */

/* The owner complies when it next leaves a segment; until then it records on. */
void spw_flight_ask(struct spw_flight *flight)
{
	spw_thr_store_rel(&flight->ask, flight->ask + 1); /* [F1 release, pairs with F2] */
}

bool spw_flight_is_granted(const struct spw_flight *flight)
{
	return spw_thr_load_acq(&flight->granted) == flight->ask; /* [F4 acquire, pairs with F3] */
}

/* From now on the owner may write the frozen half again. */
void spw_flight_return(struct spw_flight *flight)
{
	spw_thr_store_rel(&flight->done, flight->ask); /* [F5 release, pairs with F6] */
}

void spw_flight_freeze(struct spw_flight *flight)
{
	if (!flight->off)
		seg_leave(flight);
	flight->seg -= flight->off;
	flight->ask = ++flight->granted;
	ring_freeze(flight);
	/* The owner has ended: the older half of the ring may be read too. */
	flight->frozen_from = flight->seg + 1 - SPW_MIN(SPW_FLIGHT_SEG_CNT, flight->seg + 1);
}

/* ---- file ---- */

/* When segment `number` began: its first record is a STATE. */
static uint64_t seg_began(const struct spw_flight *flight, uint64_t number)
{
	const struct spw_flight_state *state = (const void *)seg_memory(flight, number);

	return state->rec.kind == SPW_FLIGHT_STATE ? state->last_tsc : 0;
}

/* The first segment to write: the last of those that began before the window, so that the window
 * is whole. */
static uint64_t file_window_from(const struct spw_flight *flight, uint64_t window_tsc)
{
	uint64_t from = flight->frozen_from, end = seg_began(flight, flight->frozen_to);

	while (window_tsc && from + 1 < flight->frozen_to &&
	       end - seg_began(flight, from + 1) > window_tsc)
		from++;
	return from;
}

static bool file_put_lane(int fd, struct spw_flight *flight, const struct spw_flight_lane *lane)
{
	uint64_t from = flight->frozen_to + 1 - lane->seg_cnt;
	bool ok = spw_file_put(fd, lane, sizeof(*lane));

	for (; ok && from <= flight->frozen_to; from++) {
		const struct spw_flight_seg *head = seg_head(flight, from);

		ok = spw_file_put(fd, head, sizeof(*head)) &&
		     spw_file_put(fd, seg_memory(flight, from), head->bytes);
	}
	return ok;
}

/* Bytes of the whole file. Its head states them, so that a reader recognises a file that was cut.
 */
static uint64_t file_count(struct spw_flight *const *flight, struct spw_flight_lane *lane,
			   uint32_t cnt, uint64_t window_tsc)
{
	uint64_t sum = sizeof(struct spw_flight_file) + cnt * sizeof(*lane);

	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t from = file_window_from(flight[i], window_tsc);

		lane[i].seg_cnt = (uint32_t)(flight[i]->frozen_to + 1 - from);
		for (; from <= flight[i]->frozen_to; from++)
			sum += sizeof(struct spw_flight_seg) + seg_head(flight[i], from)->bytes;
	}
	return sum;
}

/* What was written is on the disk before the name is: after a power cut the name must not lead to
 * an empty file. */
static int file_write(int fd, struct spw_flight *const *flight, const struct spw_flight_lane *lane,
		      const struct spw_flight_file *file)
{
	bool ok = spw_file_put(fd, file, sizeof(*file));

	for (uint32_t i = 0; ok && i < file->lane_cnt; i++)
		ok = file_put_lane(fd, flight[i], &lane[i]);
	return ok && fsync(fd) == 0 ? 0 : -errno;
}

/* The file appears whole or not at all (base/spw_file.h). */
int spw_flight_write(struct spw_flight *const *flight, struct spw_flight_lane *lane,
		     struct spw_flight_file *file, uint64_t window_tsc, const char *path)
{
	struct spw_file to;
	int rc;

	file->magic = SPW_FLIGHT_MAGIC;
	file->version = SPW_FLIGHT_VERSION;
	file->file_bytes = file_count(flight, lane, file->lane_cnt, window_tsc);
	rc = spw_file_begin(path, 0600, &to);
	if (!rc)
		rc = spw_file_end(&to, -file_write(to.fd, flight, lane, file));
	return rc ? spw_err_ctx(rc, "recording") : 0;
}
