/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A group: its memory, its endpoint, open and close.
 *
 *   words | note | staging 0, 1 | for each peer: slot 0, slot 1, note        one piece, pages apart
 *
 * The memory is not a region of lib/mem: those have ids, of which a process has eight, and serve
 * the pipe.
 *
 *   open    conf ─► endpoint ─► memory, registered ─► join ─► CUDA's state ─► the proxy's thread
 *   close   kernels end ─► the thread ends ─► peers are informed ─► endpoint ─► memory
 *
 * Close goes this way because each step uses what the later ones free: a kernel waits for the
 * proxy, the proxy's puts use the memory. Called by the group's owner (spw_coll.h), which alone may
 * close it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_fork.h"
#include "base/spw_monotonic.h"
#include "coll/coll.h"
#include "coll/spw_coll_reduce.h"

#define TIMEOUT_MS     5000u
#define TIMEOUT_MAX_MS 600000u
#define BYTES_LEAST    4u /* an element of the largest type */
#define JOIN_MS        20000u

/* ---- fork ---- */

int coll_check_process(const struct spw_coll *c)
{
	return spw_fork_check(c->forks, "group");
}

/* ---- memory ---- */

/* Takes the next piece, on pages of its own: a window shares none with another's. */
static uint8_t *coll_carve(uint8_t *base, size_t *at, size_t bytes)
{
	uint8_t *p = base ? base + *at : NULL;

	*at += SPW_ALIGN_UP(bytes, (size_t)sysconf(_SC_PAGESIZE));
	return p;
}

/* Returns: bytes of all pieces. base NULL: only counts. */
static size_t lay_out(struct spw_coll *c, uint8_t *base)
{
	const size_t put = SPW_COLL_HEAD_BYTES + c->slot_bytes;
	size_t at = 0;

	c->words = (struct spw_coll_words *)(void *)coll_carve(base, &at, sizeof(*c->words));
	c->note = (struct coll_note *)(void *)coll_carve(base, &at, sizeof(*c->note));
	for (uint32_t s = 0; s < SPW_COLL_SLOT_CNT; s++)
		c->stage[s] = coll_carve(base, &at, put);
	for (uint32_t i = 0; i < c->rank_cnt; i++)
		for (uint32_t w = 0; w < COLL_WINDOW_CNT && i != c->rank; w++)
			c->peer[i].mine[w] = coll_carve(base, &at,
							w == COLL_NOTE ? COLL_NOTE_BYTES
								       : SPW_COLL_FLAG_BYTES + put);
	return at;
}

/* Pages are touched here (MAP_POPULATE), not within the first calls. */
static int coll_memory_open(struct spw_coll *c)
{
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST};
	int rc;

	c->base_bytes = lay_out(c, NULL);
	if (c->conf.exec == SPW_COLL_CUDA) {
		rc = coll_gpu_open(c);
		if (rc)
			return rc;
	} else {
		void *p = mmap(NULL, c->base_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		if (p == MAP_FAILED)
			return spw_err(ENOMEM, "%zu MB for the windows of %u ranks",
				       c->base_bytes >> 20, c->rank_cnt);
		c->base = p;
	}
	lay_out(c, c->base);
	req.addr = c->base;
	req.bytes = c->base_bytes;
	return spw_xfer_mem_reg(c->x, &req, &c->mem);
}

/* After the endpoint: no NIC and no kernel touches it any more. */
static void memory_close(struct spw_coll *c)
{
	if (c->gpu)
		c->gpu->close(c);
	else if (c->base)
		munmap(c->base, c->base_bytes);
}

/* ---- open ---- */

/* Fills in defaults, and checks what can be checked without the peers. */
static int conf_take(struct spw_coll *c, const struct spw_coll_conf *conf)
{
	c->conf = *conf;
	c->rank = conf->rank;
	c->rank_cnt = conf->rank_cnt;
	c->conf.bytes_max = conf->bytes_max ? conf->bytes_max : SPW_COLL_BYTES_MAX;
	c->conf.timeout_ms = conf->timeout_ms ? conf->timeout_ms : TIMEOUT_MS;
	c->conf.join_ms = conf->join_ms ? conf->join_ms : JOIN_MS;
	if (!spw_in_range(conf->rank_cnt, 2, SPW_COLL_RANK_MAX) || conf->rank >= conf->rank_cnt)
		return spw_err(EINVAL, "rank %u of %u: 2 .. %u ranks, numbered from 0", conf->rank,
			       conf->rank_cnt, SPW_COLL_RANK_MAX);
	if (!conf->exchange)
		return spw_err(EINVAL, "no exchange: spw_coll_tcp_exchange, or one of your own");
	if (!spw_in_range(c->conf.bytes_max, BYTES_LEAST, SPW_COLL_BYTES_MAX))
		return spw_err(EINVAL, "bytes_max %u: %u .. %u", conf->bytes_max, BYTES_LEAST,
			       SPW_COLL_BYTES_MAX);
	if (c->conf.timeout_ms > TIMEOUT_MAX_MS || c->conf.join_ms > TIMEOUT_MAX_MS)
		return spw_err(EINVAL, "timeout_ms %u, join_ms %u: 1 .. %u", conf->timeout_ms,
			       conf->join_ms, TIMEOUT_MAX_MS);
	c->slot_bytes = SPW_ALIGN_UP(c->conf.bytes_max, SPW_COLL_CELL);
	c->timeout_ns = c->conf.timeout_ms * 1000000ull;
	c->proxy.next = 1;
	return 0;
}

/* On an error the caller closes what was opened: each step of close knows what it has to undo. */
static int coll_open_all(struct spw_coll *c, const struct spw_coll_conf *conf)
{
	int rc = conf_take(c, conf);

	rc = rc ? rc : spw_xfer_open(&c->conf.xfer, &c->x);
	rc = rc ? rc : coll_memory_open(c);
	rc = rc ? rc : coll_join(c);
	c->joined = !rc;
	/* Their owner may free them after open. */
	c->conf.xfer = (struct spw_xfer_conf){0};
	if (!rc && c->conf.exec == SPW_COLL_CUDA)
		rc = coll_gpu_start(c);
	if (!rc && c->conf.progress == SPW_COLL_THREAD)
		rc = coll_thread_start(c);
	return rc;
}

int spw_coll_open(const struct spw_coll_conf *conf, struct spw_coll **coll_out)
{
	struct spw_coll *c = aligned_alloc(_Alignof(struct spw_coll), sizeof(*c));
	int rc;

	*coll_out = NULL;
	if (!c)
		return spw_err(ENOMEM, "no memory for a group");
	memset(c, 0, sizeof(*c));
	spw_fork_watch();
	c->forks = spw_fork_cnt;
	rc = coll_open_all(c, conf);
	if (rc) {
		spw_coll_close(c);
		return spw_err_ctx(rc, "rank %u of %u", conf->rank, conf->rank_cnt);
	}
	*coll_out = c;
	return 0;
}

/* ---- close ---- */

/* The peers may still wait for what this rank has put: its QPs live until that is acknowledged. The
 * proxy's thread has ended, so this thread takes its turns. To ranks that are believed lost only
 * COLL_LOST_MS are spent. */
static void coll_notify(struct spw_coll *c)
{
	const uint64_t begin_ns = spw_monotonic_ns();
	struct coll_wait all = coll_wait_of(begin_ns, COLL_NOTIFY_MS * 1000000ull);
	struct coll_wait late = coll_wait_of(begin_ns, COLL_LOST_MS * 1000000ull);
	const uint32_t lost = spw_coll_lost(c);
	bool all_over = false, late_over = false;

	while (coll_turn(c) || (coll_puts_open(c, ~lost) && !all_over) ||
	       (coll_puts_open(c, lost) && !late_over)) {
		all_over = coll_wait_is_over(&all, spw_monotonic_ns());
		late_over = coll_wait_is_over(&late, spw_monotonic_ns());
	}
}

/* Also for a group that spw_coll_open could not finish. */
void spw_coll_close(struct spw_coll *coll)
{
	if (!coll || coll_check_process(coll)) /* a child has neither its thread nor its NIC */
		return;
	if (coll->gpu)
		coll->gpu->stop(coll);
	coll_thread_stop(coll);
	if (coll->joined)
		coll_notify(coll);
	spw_xfer_close(coll->x);
	memory_close(coll);
	free(coll);
}
