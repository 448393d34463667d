/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * PyTorch's flight recorder: what each rank has called, in which order, and where in the program.
 * A thread of the job writes the dump, so it is asked in the last snapshot only, and only where the
 * variables of the process name a pipe; a dump that is older than a minute says nothing about now.
 *
 *   TORCH_NCCL_DEBUG_INFO_PIPE_FILE=P           a byte to P<rank>.pipe asks for a dump
 *   TORCH_FR_DUMP_TEMP_FILE=F                   it appears as F<rank>
 *   --torch-dump=F                              F<rank> as this host has it, written since the
 *                                               process began; nobody is asked
 *
 * A recorded host has the file at the same path, below proc/PID/root. Source: PyTorch,
 * torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, ProcessGroupNCCL.cpp.
 *
 * spw_hang_read calls it last of all collectors. Nothing of a dump is trusted, although only one of
 * the process's own user is read: it is data (pickle.h), its counts are bounded below, and its
 * texts are shown by whoever prints them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "base/spw_proc.h"
#include "hang/read/pickle.h"
#include "hang/read/read_impl.h"

/* What is beyond these counts is left out. */
#define GROUPS_MAX    64u
#define ROWS_MAX      256u /* of a process */
#define ENTRIES_MAX   100000u
#define FRAMES_MAX    128u
#define SIZES_MAX     32u /* more do not fit into a row */
#define ENVIRON_BYTES (128u << 10)
#define DUMP_BYTES    (16u << 20)
#define FRESH_S       60
#define WAIT_MS       1500u
#define STEP_MS       50u

/* ---- a dump ---- */

struct dump {
	struct pickle p;
	struct hang_read *r;
	const struct spw_hang_proc_row *proc;
	uint32_t group_cnt, row_cnt;
	char group[GROUPS_MAX][24];
	const struct pickle_value *newest[GROUPS_MAX]; /* entries */
};

/* A member of another type is as good as none. */
static struct spw_hang_num recorder_number(const struct dump *d, const struct pickle_value *entry,
					   const char *name)
{
	const struct pickle_value *value = pickle_member(&d->p, entry, name);

	return value && value->kind == PICKLE_INT ? spw_hang_num(value->number)
						  : (struct spw_hang_num){0};
}

/* The name of a group is alike on all ranks; behind it stands a description. */
static void recorder_group(const struct dump *d, const struct pickle_value *entry, char out[24])
{
	uint32_t cursor = 0;

	pickle_text(pickle_next(&d->p, pickle_member(&d->p, entry, "process_group"), &cursor), out,
		    24);
}

/* Entries stand in the order in which they were made. */
static void recorder_newest(struct dump *d, const struct pickle_value *entry)
{
	char name[24];
	uint32_t i = 0;

	recorder_group(d, entry, name);
	while (i < d->group_cnt && strcmp(d->group[i], name))
		i++;
	if (i == GROUPS_MAX)
		return;
	if (i == d->group_cnt)
		memcpy(d->group[d->group_cnt++], name, sizeof(name));
	d->newest[i] = entry;
}

static bool recorder_is_newest(const struct dump *d, const struct pickle_value *entry)
{
	for (uint32_t i = 0; i < d->group_cnt; i++)
		if (d->newest[i] == entry)
			return true;
	return false;
}

/* Appends "4096 2x8" for [[4096], [2, 8]]; what does not fit is cut. */
static void recorder_sizes(const struct dump *d, const struct pickle_value *sizes, char *out,
			   size_t bytes)
{
	const struct pickle_value *shape, *size;
	uint32_t at = 0, in;
	size_t used = strlen(out);

	for (uint32_t i = 0;
	     i < SIZES_MAX && used < bytes && (shape = pickle_next(&d->p, sizes, &at)); i++) {
		const char *before = used ? " " : "";

		for (in = 0; used < bytes && (size = pickle_next(&d->p, shape, &in)); before = "x")
			used += (size_t)snprintf(out + used, bytes - used, "%s%" PRId64, before,
						 size->kind == PICKLE_INT ? size->number : -1);
	}
}

/* The innermost frame that is not PyTorch's own; else the innermost. */
static void recorder_site(const struct dump *d, const struct pickle_value *frames, char *out,
			  size_t bytes)
{
	const struct pickle_value *frame;
	char file[120], function[64];
	uint32_t cursor = 0;

	for (uint32_t i = 0; i < FRAMES_MAX && (frame = pickle_next(&d->p, frames, &cursor)); i++) {
		pickle_text(pickle_member(&d->p, frame, "filename"), file, sizeof(file));
		pickle_text(pickle_member(&d->p, frame, "name"), function, sizeof(function));
		if (out[0] && strstr(file, "/torch/"))
			continue;
		snprintf(out, bytes, "%s:%" PRId64 " %s", file,
			 recorder_number(d, frame, "line").value, function);
		if (!strstr(file, "/torch/"))
			return;
	}
}

/* PyTorch counts point-to-point operations and collectives apart, and dates entries by the wall
 * clock: an age is only computed against the wall clock of this host, which is the rank's own. */
static void recorder_row(struct dump *d, const struct pickle_value *entry)
{
	struct spw_hang_op_row *row;
	const struct pickle_value *created = pickle_member(&d->p, entry, "time_created_ns");
	const bool is_p2p = recorder_number(d, entry, "is_p2p").value;

	if (d->row_cnt == ROWS_MAX || !(row = spw_hang_row_add(d->r->snap, SPW_HANG_TABLE_op)))
		return;
	d->row_cnt++;
	row->pid = d->proc->pid;
	row->rank = d->proc->rank;
	recorder_group(d, entry, row->group);
	row->is_p2p = spw_hang_num(is_p2p);
	row->sequence = recorder_number(d, entry, is_p2p ? "p2p_seq_id" : "collective_seq_id");
	pickle_text(pickle_member(&d->p, entry, "profiling_name"), row->function,
		    sizeof(row->function));
	pickle_text(pickle_member(&d->p, entry, "state"), row->state, sizeof(row->state));
	recorder_sizes(d, pickle_member(&d->p, entry, "input_sizes"), row->sizes,
		       sizeof(row->sizes));
	recorder_sizes(d, pickle_member(&d->p, entry, "output_sizes"), row->sizes,
		       sizeof(row->sizes));
	recorder_site(d, pickle_member(&d->p, entry, "frames"), row->site, sizeof(row->site));
	/* a moment of the wall clock is above what a fact may be */
	if (created && created->kind == PICKLE_INT && d->r->now_real_ns &&
	    spw_in_range(created->number, 1, d->r->now_real_ns))
		row->age_ns = spw_hang_num(d->r->now_real_ns - created->number);
}

/* Twice over the list: which entry is the newest of its group is known at its end only. */
static int recorder_entries(struct dump *d)
{
	const struct pickle_value *entries = pickle_member(&d->p, d->p.top, "entries"), *entry;
	uint32_t cursor = 0;
	char state[16];

	if (!entries || entries->kind != PICKLE_LIST)
		return spw_err(EPROTO, "a pickle without \"entries\": no flight recorder's");
	for (uint32_t i = 0; i < ENTRIES_MAX && (entry = pickle_next(&d->p, entries, &cursor)); i++)
		recorder_newest(d, entry);
	cursor = 0;
	for (uint32_t i = 0; i < ENTRIES_MAX && (entry = pickle_next(&d->p, entries, &cursor));
	     i++) {
		pickle_text(pickle_member(&d->p, entry, "state"), state, sizeof(state));
		if (strcmp(state, "completed") || recorder_is_newest(d, entry))
			recorder_row(d, entry);
	}
	return 0;
}

int hang_recorder_rows(struct hang_read *r, const struct spw_hang_proc_row *proc, const void *dump,
		       size_t bytes)
{
	struct dump d = {.r = r, .proc = proc};
	int rc = pickle_read(&d.p, dump, bytes);

	if (rc == 0)
		rc = recorder_entries(&d);
	pickle_free(&d.p);
	return rc;
}

/* ---- files ---- */

/* "" if it is not set. */
static const char *recorder_variable(const char *environ, size_t bytes, const char *const *name)
{
	const char *value = NULL;

	for (; *name && !value; name++)
		value = spw_proc_variable(environ, bytes, *name);
	return value ? value : "";
}

struct recorder_files {
	char dump[HANG_PATH_BYTES], pipe[HANG_PATH_BYTES]; /* "" unknown, not set */
};

/* Paths that do not begin with / depend on the folder of the process, and are left out. */
static void recorder_files_find(struct hang_read *r, const struct spw_hang_proc_row *proc,
				struct recorder_files *out)
{
	static const char *const dump[] = {"TORCH_FR_DUMP_TEMP_FILE",
					   "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", NULL},
				 *const pipe[] = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", NULL};
	char *environ = malloc(ENVIRON_BYTES);
	ssize_t n = environ ? hang_bytes(r, environ, ENVIRON_BYTES, "proc/%" PRId64 "/environ",
					 proc->pid.value)
			    : -ENOMEM;
	const char *file = n > 0 ? recorder_variable(environ, (size_t)n, dump) : "";
	const char *fifo = n > 0 ? recorder_variable(environ, (size_t)n, pipe) : "";

	*out = (struct recorder_files){.dump = ""};
	if (r->where->torch_dump && proc->rank.known)
		hang_path(r, out->dump, "%s%" PRId64, r->where->torch_dump + 1, proc->rank.value);
	else if (n > 0 && proc->rank.known) {
		hang_path(r, out->dump, "proc/%" PRId64 "/root%s%" PRId64, proc->pid.value,
			  file[0] == '/' ? file : "/tmp/nccl_trace_rank_", proc->rank.value);
		if (fifo[0] == '/')
			hang_path(r, out->pipe, "proc/%" PRId64 "/root%s%" PRId64 ".pipe",
				  proc->pid.value, fifo, proc->rank.value);
	}
	free(environ);
}

/* A dump has a name that anybody can guess, in a folder where anybody may write: only what the user
 * of the process made is its own. */
static bool recorder_is_of(const struct hang_read *r, const struct spw_hang_proc_row *proc,
			   const struct stat *st)
{
	char path[HANG_PATH_BYTES];
	struct stat owner;

	return hang_path(r, path, "proc/%" PRId64, proc->pid.value) && stat(path, &owner) == 0 &&
	       owner.st_uid == st->st_uid;
}

/* When the process began, by the wall clock: a file of that name may be of a rank before it. */
static time_t recorder_start(const struct hang_read *r, const struct spw_hang_proc_row *proc)
{
	const struct spw_hang_num up = hang_number(r, "proc/uptime");
	const int64_t now = r->now_real_ns / 1000000000;

	return up.known ? (time_t)(now - (up.value - proc->start.value / sysconf(_SC_CLK_TCK))) : 0;
}

/* Nothing is written but into a pipe that somebody reads. */
static bool recorder_ask(const struct hang_read *r, const struct spw_hang_proc_row *proc,
			 const char *path)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	bool asked;

	if (fd < 0)
		return false;
	asked = fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && recorder_is_of(r, proc, &st) &&
		write(fd, "1\n", 2) == 2;
	close(fd);
	return asked;
}

/* A dump that is still being written is cut: it is read again until the time is over. */
static int recorder_dump_read(struct hang_read *r, const struct spw_hang_proc_row *proc,
			      const char *path, time_t since, char *room)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	ssize_t n = -1;
	int rc = -ENOENT;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && recorder_is_of(r, proc, &st) &&
	    st.st_mtime >= since)
		n = read(fd, room, DUMP_BYTES);
	if (fd >= 0)
		close(fd);
	if (n > 0)
		rc = hang_recorder_rows(r, proc, room, (size_t)n);
	return rc;
}

/* A process that was asked must have written since; one that was not may have dumped at its own
 * timeout a short while ago. */
static int recorder_read(struct hang_read *r, const struct spw_hang_proc_row *proc, char *room,
			 uint64_t until_ms)
{
	struct recorder_files files;
	const struct timespec step = {.tv_nsec = STEP_MS * 1000000};
	time_t since = (time_t)(r->now_real_ns / 1000000000);
	bool asked;
	int rc;

	recorder_files_find(r, proc, &files);
	if (!files.dump[0])
		return -ENOENT;
	asked = hang_is_live(r) && files.pipe[0] && recorder_ask(r, proc, files.pipe);
	since = SPW_MAX(since - (asked ? 0 : FRESH_S), recorder_start(r, proc));
	if (r->where->torch_dump)
		since = recorder_start(r, proc);
	rc = recorder_dump_read(r, proc, files.dump, since, room);
	while (rc < 0 && asked && spw_monotonic_ms() < until_ms) {
		nanosleep(&step, NULL);
		rc = recorder_dump_read(r, proc, files.dump, since, room);
	}
	return rc;
}

/* One time limit for all processes together, so that a host with many ranks answers as soon. */
void hang_recorder_read(struct hang_read *r)
{
	char *room = r->where->last ? malloc(DUMP_BYTES) : NULL;
	char *why = r->snap->why[SPW_HANG_SOURCE_recorder];
	const uint64_t until_ms = spw_monotonic_ms() + WAIT_MS;
	int rc = -ENOENT;

	for (uint32_t i = 0; room && i < r->snap->proc_cnt; i++)
		if (!r->snap->proc[i].gone.value)
			rc = recorder_read(r, &r->snap->proc[i], room, until_ms);
	free(room);
	if (!r->where->last)
		snprintf(why, sizeof(r->snap->why[0]), "asked in the last snapshot only");
	else if (!r->snap->op_cnt)
		snprintf(why, sizeof(r->snap->why[0]), "%.63s",
			 rc == -EPROTO ? spw_err_text()
			 : r->where->torch_dump
				 ? "no dump there that the process's user wrote since it began"
				 : "no dump of now (TORCH_NCCL_DEBUG_INFO_PIPE_FILE not set)");
}
