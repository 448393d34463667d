/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Live pages (spw_hang_page.h) as rows. The page belongs to another process, which may write
 * anything: the file must be sealed against shrinking before it is mapped, each entry is copied
 * first, and what is out of range stays unknown.
 *
 *   proc/PID/fd/N ─► size, seals, magic, version ─► its pid is one of NSpid ─► entries ─► rows
 *
 * hang_procs_read asks which descriptors are pages (hang_is_page_link, hang_page_is_of),
 * hang_pages_read makes their rows. The fuzzer and the tests enter at hang_page_comm_rows and
 * hang_page_conn_rows.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hang/read/read_page.h"

#define FDS_MAX 4096
/* Rates of a counter that can be true; an age by another one is not known. */
#define HZ_MIN 1000000u
#define HZ_MAX 100000000000u

bool hang_is_page_link(const char *link)
{
	return !strcmp(link, SPW_HANG_PAGE_LINK);
}

/* ---- the file ---- */

/* Returns: the page, mapped or, of a recorded machine, read; NULL: it is none. */
static struct spw_hang_page *read_page_open(const struct hang_read *r, int64_t pid,
					    const char *name)
{
	const int seals = SPW_HANG_PAGE_SEALS;
	char path[HANG_PATH_BYTES];
	struct stat st;
	void *map = MAP_FAILED;
	int fd = -1;

	if (hang_path(r, path, "proc/%" PRId64 "/fd/%s", pid, name))
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == SPW_HANG_PAGE_BYTES) {
		if (hang_is_live(r) && (fcntl(fd, F_GET_SEALS) & seals) == seals)
			map = mmap(NULL, SPW_HANG_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		if (!hang_is_live(r))
			map = mmap(NULL, SPW_HANG_PAGE_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (!hang_is_live(r) && map != MAP_FAILED &&
		    read(fd, map, SPW_HANG_PAGE_BYTES) != SPW_HANG_PAGE_BYTES) {
			munmap(map, SPW_HANG_PAGE_BYTES);
			map = MAP_FAILED;
		}
	}
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

static void read_page_close(struct spw_hang_page *page)
{
	munmap(page, SPW_HANG_PAGE_BYTES);
}

const char *hang_ns_first(const char *status)
{
	const char *at = strstr(status, "\nNSpid:");

	return at ? at + 7 : "";
}

bool hang_ns_next(const char **at, int64_t *id_out)
{
	const char *from = *at;
	char *end;

	if (!*from || *from == '\n')
		return false;
	*id_out = strtoll(from, &end, 10);
	*at = end;
	return end != from;
}

bool hang_ns_has(const char *status, int64_t number)
{
	const char *at = hang_ns_first(status);
	int64_t id;

	while (hang_ns_next(&at, &id))
		if (id == number)
			return true;
	return false;
}

/* The page has the pid of its own PID namespace, /proc the one of the reader's: only NSpid has
 * both. */
bool hang_page_is_of(const struct hang_read *r, int64_t pid, const char *fd)
{
	struct spw_hang_page *page = read_page_open(r, pid, fd);
	char status[4096];
	bool is = false;

	if (!page)
		return false;
	if (hang_bytes(r, status, sizeof(status), "proc/%" PRId64 "/status", pid) > 0)
		is = spw_hang_page_is_open(page) && hang_ns_has(status, page->pid);
	read_page_close(page);
	return is;
}

/* ---- rows ---- */

/* A text of the page need not end. */
#define PAGE_TEXT(out, in)                                                                         \
	snprintf(out, sizeof(out), "%.*s", (int)strnlen(in, SPW_MIN(sizeof(in), sizeof(out) - 1)), \
		 in)

/* Ticks since then as ns; not known: never, in the future, or no sane rate. */
static struct spw_hang_num read_page_age(const struct hang_page_view *v, uint64_t tsc)
{
	const uint64_t ticks = v->now_tsc - tsc;

	if (!tsc || !v->now_tsc || tsc > v->now_tsc || !spw_in_range(v->tsc_hz, HZ_MIN, HZ_MAX))
		return (struct spw_hang_num){0};
	return spw_hang_num((int64_t)SPW_MIN((unsigned __int128)ticks * 1000000000u / v->tsc_hz,
					     (unsigned __int128)INT64_MAX));
}

/* As read_page_age; -1 if it never was. */
static struct spw_hang_num read_page_age_or_none(const struct hang_page_view *v, uint64_t tsc)
{
	return tsc ? read_page_age(v, tsc) : spw_hang_num(-1);
}

/* Counts are unsigned on the page and signed in facts; what does not fit is no count. */
static struct spw_hang_num read_page_count(uint64_t value)
{
	return value <= INT64_MAX ? spw_hang_num((int64_t)value) : (struct spw_hang_num){0};
}

/* -1 is "not known" on the page. */
static struct spw_hang_num read_page_natural(int32_t value)
{
	return value >= 0 ? spw_hang_num(value) : (struct spw_hang_num){0};
}

/* As text: JSON has no 64-bit numbers, and hashes are only compared. 0 is "not known" and stays "".
 */
static void read_page_hash(char *out, size_t bytes, uint64_t hash)
{
	if (hash)
		snprintf(out, bytes, "%016" PRIx64, hash);
}

/* Without a function nothing was enqueued, and the zeros behind it are not facts. */
static void read_page_op(const struct hang_page_view *v, const struct spw_hang_op *op,
			 struct spw_hang_comm_row *row)
{
	PAGE_TEXT(row->function, op->function);
	if (!row->function[0])
		return;
	PAGE_TEXT(row->datatype, op->datatype);
	PAGE_TEXT(row->algorithm, op->algorithm);
	row->sequence = read_page_count(op->sequence);
	row->count = read_page_count(op->count);
	row->root = read_page_natural(op->root);
	row->enqueued_ns = read_page_age(v, op->begun_tsc);
}

static void read_page_comm(const struct hang_page_view *v, const struct spw_hang_comm *c,
			   struct spw_hang_comm_row *row)
{
	row->pid = spw_hang_num(v->pid);
	read_page_hash(row->comm, sizeof(row->comm), c->comm_hash);
	row->rank = read_page_natural(c->rank);
	row->rank_cnt = read_page_natural(c->rank_cnt);
	row->node_cnt = read_page_natural(c->node_cnt);
	PAGE_TEXT(row->name, c->name);
	row->opened_ns = read_page_age(v, c->opened_tsc);
	row->colls = read_page_count(c->colls);
	row->p2ps = read_page_count(c->p2ps);
	row->sends_begun = read_page_count(c->sends_begun);
	row->sends_ended = read_page_count(c->sends_ended);
	row->recvs_begun = read_page_count(c->recvs_begun);
	row->recvs_ended = read_page_count(c->recvs_ended);
	read_page_op(v, &c->coll, row);
}

/* One copy, which is then read as often as needed: the page changes meanwhile. */
int hang_page_comm_rows(const struct spw_hang_comm *entry, const struct hang_page_view *v,
			struct spw_hang_snap *snap)
{
	struct spw_hang_comm_row *row;
	struct spw_hang_comm c;

	if (!spw_hang_entry_read(entry, &c, sizeof(c)))
		return -1;
	if (!c.used || !(row = spw_hang_row_add(snap, SPW_HANG_TABLE_comm)))
		return 0;
	read_page_comm(v, &c, row);
	return 1;
}

/* A state that this version does not have makes no row, so that no rule takes it for one it has. */
static void read_page_rail(const struct hang_page_view *v, uint32_t entry, uint32_t idx,
			   const struct spw_hang_rail *rail, struct spw_hang_snap *snap)
{
	static const char *const state[] = {"", "trying", "up"};
	struct spw_hang_rail_row *row;

	if (rail->state == SPW_HANG_RAIL_UNUSED || rail->state >= SPW_ARRAY_CNT(state) ||
	    !(row = spw_hang_row_add(snap, SPW_HANG_TABLE_rail)))
		return;
	row->pid = spw_hang_num(v->pid);
	row->entry = spw_hang_num(entry);
	row->rail = spw_hang_num(idx);
	snprintf(row->state, sizeof(row->state), "%s", state[rail->state]);
	PAGE_TEXT(row->device, rail->device);
	PAGE_TEXT(row->why, rail->why);
	row->qpn = spw_hang_num(rail->qpn);
	if (rail->mbps)
		row->mbps = spw_hang_num(rail->mbps);
	row->open_bytes = read_page_count(rail->open_bytes);
	row->acked_bytes = read_page_count(rail->acked_bytes);
	row->resent = read_page_count(rail->resent_chunks);
	row->outages = read_page_count(rail->outages);
	row->down_ns = read_page_age_or_none(v, rail->down_tsc);
}

/* The caller has checked c->state. tid is of the rank's namespace; read_thread.c makes it this
 * one's. */
static void read_page_view(const struct hang_page_view *v, const struct spw_hang_conn_view *c,
			   struct spw_hang_conn_row *row)
{
	static const char *const state[] = {"", "listening", "connecting", "ready", "failed"};

	snprintf(row->state, sizeof(row->state), "%s", state[c->state]);
	row->is_send = spw_hang_num(c->is_send != 0);
	row->tid = spw_hang_num(c->tid);
	row->error = spw_hang_num(c->error < 0 ? -(int64_t)c->error : c->error);
	read_page_hash(row->comm, sizeof(row->comm), c->comm_hash);
	read_page_hash(row->pair, sizeof(row->pair), c->pair);
	row->state_ns = read_page_age(v, c->state_tsc);
	row->moved_ns = read_page_age(v, c->moved_tsc);
	row->view_age_ns = read_page_age(v, c->taken_tsc);
	PAGE_TEXT(row->peer, c->peer);
}

/* Stages are those of the view. A rank that has gone idle is not looked at again: of a view that
 * has missed a request only their number is known, and none of none. */
static void read_page_stages(const struct hang_page_view *v, const struct spw_hang_conn *c,
			     struct spw_hang_conn_row *row)
{
	const struct spw_hang_conn_view *view = &c->view;
	const struct {
		struct spw_hang_num *to;
		uint32_t value;
	} stage[] = {{&row->waiting, view->waiting},     {&row->granted, view->granted},
		     {&row->posted, view->posted},       {&row->acked, view->acked},
		     {&row->receiving, view->receiving}, {&row->received, view->received},
		     {&row->flushing, view->flushing}};
	const bool fresh = spw_hang_conn_is_fresh(c);

	if (!fresh && c->begun != c->ended)
		return;
	for (size_t i = 0; i < SPW_ARRAY_CNT(stage); i++)
		*stage[i].to = spw_hang_num(fresh ? stage[i].value : 0);
	row->oldest_ns = read_page_age_or_none(v, fresh ? view->oldest_tsc : 0);
}

int hang_page_conn_rows(const struct spw_hang_conn *entry, uint32_t idx,
			const struct hang_page_view *v, struct spw_hang_snap *snap)
{
	struct spw_hang_conn_row *row;
	struct spw_hang_conn c;

	if (!spw_hang_entry_read(entry, &c, sizeof(c)))
		return -1;
	if (!spw_in_range(c.view.state, SPW_HANG_CONN_LISTENING, SPW_HANG_CONN_FAILED) ||
	    !(row = spw_hang_row_add(snap, SPW_HANG_TABLE_conn)))
		return 0;
	row->pid = spw_hang_num(v->pid);
	row->entry = spw_hang_num(idx);
	row->calls = read_page_count(c.calls);
	row->begun = read_page_count(c.begun);
	row->ended = read_page_count(c.ended);
	row->called_ns = read_page_age(v, c.called_tsc);
	read_page_view(v, &c.view, row);
	read_page_stages(v, &c, row);
	for (uint32_t i = 0; i < SPW_MIN(c.view.rail_cnt, SPW_HANG_RAIL_MAX); i++)
		read_page_rail(v, idx, i, &c.rail[i], snap);
	return 1;
}

/* What a page lacks: entries that had no room on it, and those that cannot be read. */
struct read_page_lacks {
	uint64_t conns, comms;
};

/* Returns: how many communicators it has. */
static uint32_t read_page_rows(const struct spw_hang_page *page, const struct hang_page_view *v,
			       struct spw_hang_snap *snap, struct read_page_lacks *lacks_out)
{
	uint32_t comms = 0;

	lacks_out->conns = spw_thr_load_rlx(&page->conns_left_out);
	lacks_out->comms = spw_thr_load_rlx(&page->comms_left_out);
	for (uint32_t i = 0; i < SPW_HANG_COMM_MAX; i++) {
		const int got = hang_page_comm_rows(&page->comm[i], v, snap);

		comms += got > 0;
		lacks_out->comms += got < 0;
	}
	for (uint32_t i = 0; i < SPW_HANG_CONN_MAX; i++)
		lacks_out->conns += hang_page_conn_rows(&page->conn[i], i, v, snap) < 0;
	return comms;
}

/* ---- processes ---- */

/* A page that lacks entries shows what it has, but not what is absent: that nothing is under way
 * cannot be known of it. The value stays for the next snapshot, which looks at the page again. */
static void read_page_lacks(struct hang_read *r, struct spw_hang_proc_row *row,
			    const struct read_page_lacks *lacks)
{
	row->page.known = lacks->conns == 0;
	row->profiler.known = lacks->comms == 0;
	if (lacks->conns)
		snprintf(r->snap->why[SPW_HANG_SOURCE_page], sizeof(r->snap->why[0]),
			 "the page of %" PRId64 " lacks %" PRIu64 " connections", row->pid.value,
			 lacks->conns);
	if (lacks->comms)
		snprintf(r->snap->why[SPW_HANG_SOURCE_profiler], sizeof(r->snap->why[0]),
			 "the page of %" PRId64 " lacks %" PRIu64 " communicators", row->pid.value,
			 lacks->comms);
}

/* The page may have ended since the process was looked at: then nothing is added. */
static void read_page_of(struct hang_read *r, struct spw_hang_proc_row *row)
{
	struct spw_hang_page *page = NULL;
	struct hang_page_view v = {.pid = row->pid.value, .now_tsc = r->now_tsc};
	struct read_page_lacks lacks;
	char **fd, link[HANG_PATH_BYTES];
	int cnt = hang_names(r, &fd, FDS_MAX, "proc/%" PRId64 "/fd", row->pid.value);

	for (int i = 0; i < cnt && !page; i++)
		if ((!hang_is_live(r) || (hang_link(r, link, sizeof(link), "proc/%" PRId64 "/fd/%s",
						    row->pid.value, fd[i]) &&
					  hang_is_page_link(link))) &&
		    hang_page_is_of(r, row->pid.value, fd[i]))
			page = read_page_open(r, row->pid.value, fd[i]);
	hang_names_free(fd, SPW_MAX(cnt, 0));
	if (!page)
		return;
	v.tsc_hz = page->tsc_hz;
	row->profiler = spw_hang_num(read_page_rows(page, &v, r->snap, &lacks) > 0);
	read_page_lacks(r, row, &lacks);
	read_page_close(page);
}

void hang_pages_read(struct hang_read *r)
{
	char *why = r->snap->why[SPW_HANG_SOURCE_page];
	bool any = false, profiled = false;

	for (uint32_t i = 0; i < r->snap->proc_cnt; i++) {
		struct spw_hang_proc_row *row = &r->snap->proc[i];

		if (!row->page.value || row->gone.value)
			continue;
		read_page_of(r, row);
		any = true;
		profiled = profiled || row->profiler.value;
	}
	if (!any)
		snprintf(why, sizeof(r->snap->why[0]), "no process has one");
	if (!profiled && !r->snap->why[SPW_HANG_SOURCE_profiler][0])
		snprintf(r->snap->why[SPW_HANG_SOURCE_profiler], sizeof(r->snap->why[0]),
			 "no process has a communicator on its page");
}
