/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads the files of ring.c. A file may be torn, or made by somebody else: everything by which a
 * reader indexes, divides or allocates is checked here, once, before any record is used; the first
 * fault ends the reading with one line that names its place.
 *
 * lib/replay and app/spinwire's --replay read through this, tests/fuzz feeds it anything.
 *
 *    file │ head │ lane 0: conf, segment head + records, segment ... │ lane 1 ...
 *           file_check  lane_check                 records_check
 *
 * Before a record is changed or added: its size stands in kind_bytes, and a field by which a
 * reader indexes needs a check in rec_is_sound. Records are used in place, so each begins at a
 * multiple of 8 bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "flight/spw_flight.h"

#define FILE_MAX ((size_t)64 << 30)

/* Where a check stands: the bytes that are left, and where they are in the file. */
struct cursor {
	const uint8_t *at;
	size_t left, offset;
};

/* All reading goes through here, so nothing beyond the end is read. */
static const void *cursor_take(struct cursor *in, size_t bytes)
{
	const void *at = in->at;

	if (bytes > in->left)
		return NULL;
	in->at += bytes;
	in->left -= bytes;
	in->offset += bytes;
	return at;
}

/* ---- records ---- */

/* Bytes of each kind; of POLL, SNAP, STATE and RAW the least. */
static const uint32_t kind_bytes[SPW_FLIGHT_KIND_CNT] = {
	[SPW_FLIGHT_STATE] = sizeof(struct spw_flight_state),
	[SPW_FLIGHT_POLL] = sizeof(struct spw_flight_poll),
	[SPW_FLIGHT_SNAP] = sizeof(struct spw_flight_rec),
	[SPW_FLIGHT_DONE] = sizeof(struct spw_flight_done),
	[SPW_FLIGHT_GAP] = sizeof(struct spw_flight_gap),
	[SPW_FLIGHT_DRY] = sizeof(struct spw_flight_dry),
	[SPW_FLIGHT_CLOCK] = sizeof(struct spw_flight_clock),
	[SPW_FLIGHT_IDENT] = sizeof(struct spw_flight_ident),
	[SPW_FLIGHT_JUDGED] = sizeof(struct spw_flight_judged),
	[SPW_FLIGHT_EVENT] = sizeof(struct spw_flight_event),
	[SPW_FLIGHT_RAW] = sizeof(struct spw_flight_raw),
};

/* Differences of stamps are unsigned: an order that is wrong would become a time of centuries. */
static bool gap_is_sound(const struct spw_rec_gap *gap)
{
	return gap->from <= gap->to && gap->lost <= gap->to - gap->from &&
	       (unsigned)gap->regime < SPW_REGIME_CNT && (unsigned)gap->hold < SPW_HOLD_CNT;
}

/* A shift of 64 bits or more is undefined in C. */
static bool clock_is_sound(const struct spw_flight_clock *clock)
{
	return clock->exec_map.scale.shift < 64 && clock->nic_map.scale.shift < 64;
}

static bool dry_is_sound(uint64_t from, uint64_t to, uint64_t dry)
{
	return from <= to && dry <= to - from;
}

/* The window of a replay begins with these numbers: they become indices of a ring. */
static bool state_is_sound(const struct spw_flight_state *s, const struct spw_flight_lane *lane)
{
	bool ok = s->rec.what < SPW_DROP_CNT && s->backend < lane->backend_cnt &&
		  s->unit_cnt == lane->backend[s->backend].unit_cnt &&
		  s->rec.bytes == sizeof(*s) + s->unit_cnt * sizeof(uint64_t) &&
		  clock_is_sound(&s->clock) && s->retired_seq <= s->tail_seq &&
		  s->tail_seq <= s->head_seq &&
		  s->head_seq - s->retired_seq <= 1ull << lane->backend[s->backend].batch_log2;

	for (uint32_t i = 0; ok && i < SPW_REC_GAP_CNT; i++)
		ok = gap_is_sound(&s->gap[i]);
	for (uint32_t i = 0; ok && i < SPW_FLIGHT_DRY_CNT; i++)
		ok = dry_is_sound(s->dry[i].from, s->dry[i].to, s->dry[i].dry);
	return ok;
}

/* Frames stand as columns, or as raw completions whose reader checks them itself. */
static bool poll_is_sound(const struct spw_flight_poll *p)
{
	const uint32_t bytes = p->rec.bytes - (uint32_t)sizeof(*p);
	const uint32_t widths = p->rec.what >> SPW_FLIGHT_WIDTHS_SHIFT;

	return p->rec.cnt >= 1 && p->rec.cnt <= SPW_FLIGHT_FRAME_MAX &&
	       (p->rec.what & SPW_FLIGHT_CQES ? bytes >= sizeof(struct spw_flight_sums)
					      : bytes == spw_columns_bytes(widths, p->rec.cnt));
}

static bool judged_is_sound(const struct spw_flight_judged *j)
{
	return (j->rec.what & 0xff) < SPW_CAUSE_CNT;
}

/* The same gap as in a STATE, in its own record. */
static bool gap_rec_is_sound(const struct spw_flight_gap *g)
{
	struct spw_rec_gap gap = {g->from, g->to, g->lost, (enum spw_regime)(g->rec.what >> 8),
				  (enum spw_hold)(g->rec.what & 0xff)};

	return gap_is_sound(&gap);
}

/* Kinds without a case have no field that could lead anywhere. */
static bool rec_is_sound(const struct spw_flight_rec *rec, const struct spw_flight_lane *lane)
{
	const struct spw_flight_dry *dry = (const void *)rec;

	switch (rec->kind) {
	case SPW_FLIGHT_STATE:
		return state_is_sound((const void *)rec, lane);
	case SPW_FLIGHT_POLL:
		return poll_is_sound((const void *)rec);
	case SPW_FLIGHT_SNAP:
		return rec->cnt <= SPW_FLIGHT_FRAME_MAX;
	case SPW_FLIGHT_GAP:
		return gap_rec_is_sound((const void *)rec);
	case SPW_FLIGHT_DRY:
		return dry_is_sound(dry->from, dry->to, 0);
	case SPW_FLIGHT_CLOCK:
		return clock_is_sound((const void *)rec);
	case SPW_FLIGHT_JUDGED:
		return judged_is_sound((const void *)rec);
	case SPW_FLIGHT_EVENT:
		return rec->what < SPW_DROP_CNT;
	default:
		return true;
	}
}

/* Before anything of the record but its head is read. */
static bool rec_size_is_sound(const struct spw_flight_rec *rec, size_t left)
{
	bool varies = rec->kind == SPW_FLIGHT_STATE || rec->kind == SPW_FLIGHT_POLL ||
		      rec->kind == SPW_FLIGHT_SNAP || rec->kind == SPW_FLIGHT_RAW;

	return rec->kind > 0 && rec->kind < SPW_FLIGHT_KIND_CNT && rec->bytes % 8 == 0 &&
	       rec->bytes <= left && rec->bytes >= kind_bytes[rec->kind] &&
	       (varies || rec->bytes == kind_bytes[rec->kind]);
}

/* Every segment can be the first of a window, so each begins with a STATE. */
static int records_check(struct cursor *in, size_t bytes, const struct spw_flight_lane *lane)
{
	bool first = true;

	for (size_t end = in->offset + bytes; in->offset < end; first = false) {
		const struct spw_flight_rec *rec = (const void *)in->at;
		size_t left = end - in->offset;

		if (left < sizeof(*rec) || !rec_size_is_sound(rec, left) ||
		    !rec_is_sound(rec, lane))
			return spw_err(EPROTO,
				       "byte %zu is no record of a recording: the file is "
				       "torn or was changed",
				       in->offset);
		if (first && rec->kind != SPW_FLIGHT_STATE)
			return spw_err(EPROTO, "byte %zu: a segment does not begin with a state",
				       in->offset);
		cursor_take(in, rec->bytes);
	}
	return 0;
}

/* ---- file ---- */

/* Texts are printed later: each must end within its field. */
static bool text_is_sound(const char *text, size_t bytes)
{
	return memchr(text, 0, bytes) != NULL;
}

/* The bounds are those of the executor ring (exec/spw_gring.h). */
static bool backend_is_sound(const struct spw_flight_backend *w)
{
	return text_is_sound(w->exec, sizeof(w->exec)) && w->batch_log2 >= 1 &&
	       w->batch_log2 <= 12 && w->unit_cnt >= 1 && w->unit_cnt <= 256 &&
	       w->share_log2 < 64 && w->learns <= SPW_CAUSE_EXEC_LAUNCHED;
}

static bool lane_is_sound(const struct spw_flight_lane *l)
{
	bool ok = text_is_sound(l->port, sizeof(l->port)) &&
		  text_is_sound(l->handler, sizeof(l->handler)) &&
		  text_is_sound(l->plugin, sizeof(l->plugin)) && l->backend_cnt >= 1 &&
		  l->backend_cnt <= SPW_FLIGHT_BACKEND_MAX && l->snap_bytes <= SPW_FLIGHT_SNAP_MAX;

	for (uint32_t w = 0; ok && w < l->backend_cnt; w++)
		ok = backend_is_sound(&l->backend[w]);
	return ok;
}

/* Segments are noted in the order of the file; lib/replay looks at their numbers. */
static int lane_check(struct cursor *in, struct spw_flight_read_lane *lane)
{
	const struct spw_flight_lane *conf = cursor_take(in, sizeof(*conf));

	if (!conf || !lane_is_sound(conf) || conf->seg_cnt > SPW_FLIGHT_SEG_CNT)
		return spw_err(EPROTO,
			       "byte %zu is no lane of a recording: the file is torn or "
			       "was changed",
			       in->offset);
	lane->conf = conf;
	for (uint32_t i = 0; i < conf->seg_cnt; i++) {
		const struct spw_flight_seg *seg = cursor_take(in, sizeof(*seg));
		int rc;

		if (!seg || seg->bytes % 8 || seg->bytes > in->left)
			return spw_err(EPROTO, "byte %zu: segment %u of %u is cut off", in->offset,
				       i + 1, conf->seg_cnt);
		lane->seg[i] = seg;
		if ((rc = records_check(in, seg->bytes, conf)) < 0)
			return rc;
	}
	return 0;
}

/* The version comes before the size, so that an older file is not reported as torn. */
static int file_check(const struct spw_flight_file *file, size_t bytes)
{
	if (bytes < sizeof(*file) || file->magic != SPW_FLIGHT_MAGIC)
		return spw_err(EPROTO, "no recording of spinwire --record, or one of a machine "
				       "with another byte order");
	if (file->version != SPW_FLIGHT_VERSION)
		return spw_err(EPROTO,
			       "a recording of format %u; this program reads format %u: "
			       "use the spinwire that wrote it",
			       file->version, SPW_FLIGHT_VERSION);
	if (file->file_bytes != bytes)
		return spw_err(EPROTO,
			       "the recording has %zu bytes and should have %" PRIu64
			       ": it is cut off",
			       bytes, file->file_bytes);
	if (file->lane_cnt < 1 || file->lane_cnt > SPW_FLIGHT_LANE_MAX || !file->tsc_hz ||
	    !text_is_sound(file->why, sizeof(file->why)))
		return spw_err(EPROTO, "the head of the recording was changed");
	return 0;
}

/* The memory stays the caller's, and everything that is returned points into it. */
int spw_flight_read_memory(const uint8_t *memory, size_t bytes, struct spw_flight_read *read_out)
{
	struct cursor in = {memory, bytes, 0};
	int rc;

	memset(read_out, 0, sizeof(*read_out));
	read_out->file = (const void *)memory;
	if ((rc = file_check(read_out->file, bytes)) < 0)
		return rc;
	cursor_take(&in, sizeof(*read_out->file));
	for (uint32_t i = 0; i < read_out->file->lane_cnt; i++)
		if ((rc = lane_check(&in, &read_out->lane[i])) < 0)
			return rc;
	return in.left ? spw_err(EPROTO, "%zu bytes follow the last lane", in.left) : 0;
}

/* EINTR is repeated; a file that ends early was cut while it was read. */
static int file_read(int fd, uint8_t *to, size_t bytes)
{
	while (bytes) {
		ssize_t n = read(fd, to, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		to += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* A regular file only: a pipe has no size to check against. */
static int file_load(int fd, uint8_t **memory_out, size_t *bytes_out)
{
	struct stat st;

	if (fstat(fd, &st))
		return spw_err(errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size > FILE_MAX)
		return spw_err(EPROTO, "no recording of spinwire --record");
	*bytes_out = (size_t)st.st_size;
	*memory_out = malloc(*bytes_out + 1);
	if (!*memory_out)
		return spw_err(ENOMEM, "no memory for %zu MiB", *bytes_out >> 20);
	return file_read(fd, *memory_out, *bytes_out) ? spw_err(EIO, "it cannot be read") : 0;
}

/* Read into memory, not mapped: a file that another process cuts would end in SIGBUS. */
int spw_flight_read_open(const char *path, struct spw_flight_read *read_out)
{
	uint8_t *memory = NULL;
	size_t bytes = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	memset(read_out, 0, sizeof(*read_out));
	if (fd < 0)
		return spw_err(errno, "%s: %s", path, strerror(errno));
	rc = file_load(fd, &memory, &bytes);
	close(fd);
	if (!rc)
		rc = spw_flight_read_memory(memory, bytes, read_out);
	if (rc) {
		free(memory);
		return spw_err_ctx(rc, "%s", path);
	}
	read_out->memory = memory;
	return 0;
}

void spw_flight_read_close(struct spw_flight_read *read)
{
	free(read->memory);
	memset(read, 0, sizeof(*read));
}

/* NULL: the segment is empty. */
const struct spw_flight_rec *spw_flight_first(const struct spw_flight_seg *seg)
{
	return seg->bytes ? (const void *)(seg + 1) : NULL;
}

/* Sizes were checked, so the next record lies whole within the segment, or there is none. */
const struct spw_flight_rec *spw_flight_after(const struct spw_flight_seg *seg,
					      const struct spw_flight_rec *rec)
{
	const uint8_t *next = (const uint8_t *)rec + rec->bytes;

	return next < (const uint8_t *)(seg + 1) + seg->bytes ? (const void *)next : NULL;
}
