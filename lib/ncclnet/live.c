/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The live page: made, shared out in entries, and the views of connections (live.h has who calls).
 *
 *   entry   taken[] says who has it, in memory of this process: what is on the page is only ever
 *           written. A view is put together in a copy, and stored by spw_hang_entry_write
 *
 * The lock orders users and entries; it is the last that is taken. A process that exits keeps its
 * page until the kernel frees it, since a thread of NCCL may still write.
 *
 * Before changing it: NCCL's test and isend come here once in NNET_LIVE_CALLS calls (live.h), never
 * each time. A reader may look at any moment, also in the middle of a change: what belongs together
 * is stored by spw_hang_entry_write. The page is never read to decide anything but whether a view
 * differs from the last one.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_fork.h"
#include "base/spw_log.h"
#include "ncclnet/live.h"
#include "time/spw_time.h"

#define CALIBRATE_MS 20u

_Static_assert((int)SPW_HANG_RAIL_UP == SPW_XFER_RAIL_UP &&
		       (int)SPW_HANG_RAIL_TRYING == SPW_XFER_RAIL_TRYING,
	       "states of rails are those of lib/xfer");
_Static_assert(SPW_HANG_RAIL_MAX == SPW_XFER_RAIL_MAX, "all rails fit");

static struct {
	pthread_mutex_t lock;
	struct spw_hang_page *page; /* NULL: none */
	int fd;
	int32_t pid;
	uint32_t user_cnt;
	struct spw_tsc tsc; /* hz 0: not calibrated */
	uint64_t view_tsc;  /* SPW_HANG_VIEW_US */
	bool taken_conn[SPW_HANG_CONN_MAX], taken_comm[SPW_HANG_COMM_MAX];
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the page ---- */

/* Only "0": any other value, and a variable that is not set, leave the page on. */
static bool live_is_off(void)
{
	const char *text = getenv("NCCL_SPINWIRE_LIVE");

	return text && !strcmp(text, "0");
}

/* Sealed after it is mapped: nobody else can write, and its size stays. A forked child has no
 * mapping. */
static int live_map(int fd, struct spw_hang_page **page_out)
{
	void *page;

	if (ftruncate(fd, SPW_HANG_PAGE_BYTES) || fchmod(fd, S_IRUSR))
		return -errno;
	page = mmap(NULL, SPW_HANG_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	if (madvise(page, SPW_HANG_PAGE_BYTES, MADV_DONTFORK) ||
	    fcntl(fd, F_ADD_SEALS, SPW_HANG_PAGE_SEALS | F_SEAL_FUTURE_WRITE)) {
		const int rc = -errno;

		munmap(page, SPW_HANG_PAGE_BYTES);
		return rc;
	}
	*page_out = page;
	return 0;
}

/* Once a process, under the lock: the first communicator pays CALIBRATE_MS. The result outlives the
 * page, as a page that is made again needs the same rate. */
static int live_calibrate(void)
{
	const int rc = live.tsc.hz ? 0 : spw_tsc_calibrate(CALIBRATE_MS, &live.tsc);

	live.view_tsc = rc ? 0 : spw_tsc_from_ns(&live.tsc, SPW_HANG_VIEW_US * 1000ull);
	return rc;
}

/* The magic is stored last (spw_hang_page_open), so no reader takes a page for whole that is not.
 * The pid is kept: the profiler compares it for each operation, and getpid() is a system call. */
static void live_fill(struct spw_hang_page *page)
{
	page->version = SPW_HANG_PAGE_VERSION;
	page->bytes = SPW_HANG_PAGE_BYTES;
	live.pid = getpid();
	page->pid = (uint32_t)live.pid;
	page->tsc_hz = live.tsc.hz;
	page->start_tsc = spw_tsc_now();
	snprintf(page->release, sizeof(page->release), "%s", SPW_VERSION);
	spw_hang_page_open(page);
}

/* Under the lock. Without a page NCCL works as before: it is a warning, never an error. The
 * descriptor stays open as long as the page, because it is the only way in for a reader. */
static struct spw_hang_page *live_make(void)
{
	int rc = live_calibrate(), fd = -1;

	if (!rc) {
		fd = memfd_create(SPW_HANG_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
		rc = fd < 0 ? -errno : live_map(fd, &live.page);
	}
	if (rc) {
		spw_warn("no live page, so spinwire-doctor hang knows less of this process: %s",
			 strerror(-rc));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	spw_fork_watch();
	live.fd = fd;
	live_fill(live.page);
	return live.page;
}

/* Read from the environment each time: NCCL may open its next communicator after the program has
 * changed it. */
struct spw_hang_page *nnet_live_open(void)
{
	struct spw_hang_page *page;

	if (live_is_off())
		return NULL;
	pthread_mutex_lock(&live.lock);
	page = live.page ? live.page : live_make();
	live.user_cnt += !!page;
	pthread_mutex_unlock(&live.lock);
	return page;
}

/* Each user calls it once, after its last store: what it wrote to is unmapped with the last one. */
void nnet_live_close(struct spw_hang_page *page)
{
	if (!page)
		return;
	pthread_mutex_lock(&live.lock);
	if (!--live.user_cnt) {
		munmap(page, SPW_HANG_PAGE_BYTES);
		close(live.fd);
		live.page = NULL;
	}
	pthread_mutex_unlock(&live.lock);
}

int32_t nnet_live_pid(void)
{
	return live.pid;
}

/* Contexts open in several threads, and a count has one writer at a time: hence the lock. */
void nnet_live_net(struct nnet_ctx *ctx, int change)
{
	if (!ctx->live)
		return;
	pthread_mutex_lock(&live.lock);
	if (change > 0)
		spw_thr_count(&ctx->live->nets_opened, 1);
	else
		spw_thr_count(&ctx->live->nets_closed, 1);
	pthread_mutex_unlock(&live.lock);
}

/* ---- entries ---- */

/* Returns: the index of an entry that is the caller's now; cnt: none is free. */
static uint32_t live_take(bool *taken, uint32_t cnt, uint64_t *left_out, const char *what)
{
	bool first = false;
	uint32_t i;

	pthread_mutex_lock(&live.lock);
	for (i = 0; i < cnt && taken[i]; i++)
		;
	if (i < cnt) {
		taken[i] = true;
	} else {
		first = !*left_out;
		spw_thr_count(left_out, 1);
	}
	pthread_mutex_unlock(&live.lock);
	if (first)
		spw_info("the live page has room for %u %s: those beyond are not on it", cnt, what);
	return i;
}

/* The entry must read as free on the page by now: its next user may come at once. */
static void live_give(bool *taken)
{
	pthread_mutex_lock(&live.lock);
	*taken = false;
	pthread_mutex_unlock(&live.lock);
}

/* The search is linear, and only made when a communicator opens. */
struct spw_hang_comm *nnet_live_comm(struct spw_hang_page *page)
{
	const uint32_t i = live_take(live.taken_comm, SPW_HANG_COMM_MAX, &page->comms_left_out,
				     "communicators");

	return i < SPW_HANG_COMM_MAX ? &page->comm[i] : NULL;
}

void nnet_live_comm_free(struct spw_hang_page *page, struct spw_hang_comm *at)
{
	if (at)
		live_give(&live.taken_comm[at - page->comm]);
}

/* All of an entry but its mark, its words of counts too: of a new user's they begin at 0. */
static void live_store(struct spw_hang_conn *at, const struct spw_hang_conn *from)
{
	spw_hang_entry_write(&at->mark, &at->calls, &from->calls,
			     sizeof(*at) - offsetof(struct spw_hang_conn, calls));
}

/* Cut if it is longer; the rest of the field is 0 or left from a longer text, which no reader
 * passes. */
static void live_peer(struct spw_hang_conn_view *view, const char *peer)
{
	snprintf(view->peer, sizeof(view->peer), "%s", peer);
}

/* The entry is on the page before NCCL asks the first time, so a rank that nobody ever joins is
 * seen to wait from the start. The thread is the one that waits: until there is a connection no
 * other is known. */
struct spw_hang_conn *nnet_live_wait(struct nnet_ctx *ctx, enum spw_hang_conn_state state,
				     const char *peer)
{
	struct spw_hang_page *page = ctx->live;
	const uint64_t now = spw_tsc_now();
	struct spw_hang_conn copy = {.view = {.state = state,
					      .is_send = state == SPW_HANG_CONN_CONNECTING,
					      .comm_hash = ctx->comm_id,
					      .state_tsc = now,
					      .taken_tsc = now}};
	uint32_t i;

	if (!page)
		return NULL;
	i = live_take(live.taken_conn, SPW_HANG_CONN_MAX, &page->conns_left_out, "connections");
	if (i == SPW_HANG_CONN_MAX)
		return NULL;
	copy.view.tid = (uint32_t)gettid();
	live_peer(&copy.view, peer);
	live_store(&page->conn[i], &copy);
	return &page->conn[i];
}

/* NCCL polls connect and accept, thousands of times a second: only a text that changed is worth a
 * write under the mark. */
void nnet_live_asked(struct spw_hang_conn *at, const char *peer)
{
	struct spw_hang_conn_view copy;

	if (!at)
		return;
	spw_thr_count(&at->calls, 1);
	spw_thr_store_rlx(&at->called_tsc, spw_tsc_now());
	copy = at->view;
	live_peer(&copy, peer);
	if (memcmp(copy.peer, at->view.peer, sizeof(copy.peer)))
		spw_hang_entry_write(&at->mark, &at->view, &copy, sizeof(copy));
}

/* First what readers see, then the entry itself: see live_give. */
void nnet_live_end(struct nnet_ctx *ctx, struct spw_hang_conn *at)
{
	static const struct spw_hang_conn none;

	if (!at)
		return;
	live_store(at, &none);
	live_give(&live.taken_conn[at - ctx->live->conn]);
}

/* The entry changes from what was waited for to the connection in one place, so a reader finds it
 * at the same index. Its counts begin at 0, since those of waiting were calls of connect. */
void nnet_live_ready(struct nnet_comm *comm, struct spw_hang_conn *at)
{
	struct nnet_ctx *ctx = comm->ctx;
	struct spw_hang_conn copy = {.view = {.is_send = comm->is_send,
					      .comm_hash = ctx->comm_id,
					      .pair = spw_xfer_conn_pair(comm->conn)}};

	comm->live = at ? at : nnet_live_wait(ctx, SPW_HANG_CONN_CONNECTING, "");
	if (!comm->live)
		return;
	live_store(comm->live, &copy);
	nnet_live_view(comm);
}

/* ---- views ---- */

/* The last byte of each text stays 0. */
static void live_rails(struct spw_hang_conn *to, const struct spw_xfer_conn *conn,
		       const struct spw_xfer_look *look)
{
	struct spw_xfer_rail_stat stat;
	uint32_t i;

	for (i = 0; i < SPW_HANG_RAIL_MAX && spw_xfer_conn_rail_stat(conn, i, &stat); i++) {
		struct spw_hang_rail *rail = &to->rail[i];

		*rail = (struct spw_hang_rail){.state = stat.state,
					       .qpn = look->rail[i].qpn,
					       .mbps = stat.mbps,
					       .open_bytes = look->rail[i].open_bytes,
					       .acked_bytes = stat.tx_bytes,
					       .resent_chunks = stat.resent_chunks,
					       .outages = stat.outages,
					       .down_tsc = look->rail[i].down_tsc};
		memcpy(rail->device, stat.device, sizeof(rail->device) - 1);
		memcpy(rail->why, stat.why, sizeof(rail->why) - 1);
	}
	to->view.rail_cnt = i;
}

/* Field by field: the page's layout is a format of its own and does not follow lib/xfer's. */
static void live_stages(struct spw_hang_conn_view *view, const struct spw_xfer_look *look)
{
	view->oldest_tsc = look->oldest_tsc;
	view->waiting = look->waiting;
	view->granted = look->granted;
	view->posted = look->posted;
	view->acked = look->acked;
	view->receiving = look->receiving;
	view->received = look->received;
	view->flushing = look->flushing;
}

/* Bytes, stages or requests differ from those of the view before. */
static bool live_moved(const struct spw_hang_conn *now, const struct spw_hang_conn *was)
{
	bool moved = now->view.taken_begun != was->view.taken_begun ||
		     now->view.taken_ended != was->view.taken_ended ||
		     memcmp(&now->view.waiting, &was->view.waiting,
			    offsetof(struct spw_hang_conn_view, rail_cnt) -
				    offsetof(struct spw_hang_conn_view, waiting));

	for (uint32_t i = 0; i < SPW_HANG_RAIL_MAX; i++)
		moved |= now->rail[i].acked_bytes != was->rail[i].acked_bytes;
	return moved;
}

/* Under the context's lock, as all that transfers. The copy begins as the last view, so what is not
 * filled here stays as it was. */
void nnet_live_view(struct nnet_comm *comm)
{
	struct spw_hang_conn *at = comm->live, copy;
	struct spw_xfer_look look;
	uint32_t state;

	if (!at || !comm->conn)
		return;
	copy = *at;
	spw_xfer_conn_look(comm->conn, &look);
	copy.view.taken_tsc = spw_tsc_now();
	copy.view.taken_calls = at->calls;
	copy.view.taken_begun = at->begun;
	copy.view.taken_ended = at->ended;
	copy.view.error = spw_xfer_conn_error(comm->conn);
	state = copy.view.error ? SPW_HANG_CONN_FAILED : SPW_HANG_CONN_READY;
	if (copy.view.state != state)
		copy.view.state_tsc = copy.view.taken_tsc;
	copy.view.state = state;
	copy.view.tid = comm->live_tid;
	live_peer(&copy.view, spw_xfer_conn_text(comm->conn));
	live_stages(&copy.view, &look);
	live_rails(&copy, comm->conn, &look);
	if (live_moved(&copy, at))
		copy.view.moved_tsc = copy.view.taken_tsc;
	spw_hang_entry_write(&at->mark, &at->view, &copy.view,
			     sizeof(copy) - offsetof(struct spw_hang_conn, view));
}

/* The first look always takes a view: until then the entry does not say which thread transfers. */
void nnet_live_look(struct nnet_comm *comm)
{
	struct spw_hang_conn *at = comm->live;
	uint64_t now;

	if (!at)
		return;
	now = spw_tsc_now();
	spw_thr_store_rlx(&at->calls, comm->live_calls);
	spw_thr_store_rlx(&at->called_tsc, now);
	if (comm->live_tid && now - at->view.taken_tsc < live.view_tsc)
		return;
	comm->live_tid = (uint32_t)gettid();
	nnet_live_view(comm);
}
