/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls of lib/xfer that lib/coll makes, between threads of one process: for ThreadSanitizer,
 * which cannot run under the software ConnectX (its runtime and the preloaded library call each
 * other for ever), and for machines without rdma-core. tests/e2e/coll runs the same tests over the
 * real library.
 *
 * A put is made some turns after it was asked for: data, barrier, flag words, as a NIC does; it is
 * acknowledged some turns later, and until then its source is read again, as for a retransmission:
 * it must not have changed. No lock is shared by two ranks' data paths, so only lib/coll's own
 * words order them. A lane's lock keeps a window from being freed under a put.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../unit_test.h"
#include "xfer/spw_xfer.h"

#define TURNS_MAX 4u   /* until a put is made */
#define ACK_MAX   256u /* until it is acknowledged */

struct spw_xfer_window {
	uint8_t *addr;
	uint64_t bytes;
	uint32_t known; /* released when the rest is there */
};

/* One direction: what the receiver exposed, and whether it has closed. */
struct lane {
	pthread_mutex_t lock;
	struct spw_xfer_window window[SPW_XFER_WINDOW_MAX];
	uint32_t exposed;
	bool closed;
};

struct pair {
	struct lane lane[2]; /* [0]: written by the side that connected */
	uint32_t users;
};

struct spw_xfer_req {
	struct spw_xfer_req *next;
	struct spw_xfer_conn *conn;
	struct spw_xfer_access access;
	uint32_t turns; /* left until it is made, then until it is acknowledged */
	bool made;
	int error;
	uint8_t *sent; /* what was read when it was made */
};

struct spw_xfer_conn {
	struct spw_xfer_conn *next;
	struct pair *pair;
	struct lane *out, *in;
	struct spw_xfer_req *first; /* under way, in order */
	uint64_t seed;
};

struct spw_xfer_listener {
	struct spw_xfer_listener *next;
	struct spw_xfer *x;
	uint64_t key;
	struct pair *pair; /* a connection that waits */
};

struct spw_xfer {
	struct spw_xfer_conn *conns;
};

struct spw_xfer_mem {
	int unused;
};

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static struct spw_xfer_listener *listeners;
static uint64_t keys;
static struct spw_xfer_mem any_mem;

/* ---- endpoint ---- */

int spw_xfer_open(const struct spw_xfer_conf *conf SPW_UNUSED, struct spw_xfer **x_out)
{
	*x_out = calloc(1, sizeof(**x_out));
	return 0;
}

int spw_xfer_mem_reg(struct spw_xfer *x SPW_UNUSED, const struct spw_xfer_mem_req *req SPW_UNUSED,
		     struct spw_xfer_mem **mem_out)
{
	*mem_out = &any_mem;
	return 0;
}

static void conn_close(struct spw_xfer_conn *conn)
{
	bool last;

	for (uint32_t i = 0; i < 2; i++) {
		pthread_mutex_lock(&conn->pair->lane[i].lock);
		conn->pair->lane[i].closed = true;
		pthread_mutex_unlock(&conn->pair->lane[i].lock);
	}
	pthread_mutex_lock(&table);
	last = --conn->pair->users == 0;
	pthread_mutex_unlock(&table);
	if (last)
		free(conn->pair);
	while (conn->first) {
		struct spw_xfer_req *req = conn->first;

		conn->first = req->next;
		free(req->sent);
		free(req);
	}
	free(conn);
}

void spw_xfer_close(struct spw_xfer *x)
{
	if (!x)
		return;
	for (struct spw_xfer_listener *l = listeners, *next; l; l = next) {
		next = l->next;
		if (l->x == x)
			spw_xfer_listener_close(l);
	}
	while (x->conns) {
		struct spw_xfer_conn *conn = x->conns;

		x->conns = conn->next;
		conn_close(conn);
	}
	free(x);
}

/* ---- connections ---- */

int spw_xfer_listen(struct spw_xfer *x, struct spw_xfer_handle *handle_out,
		    struct spw_xfer_listener **listener_out)
{
	struct spw_xfer_listener *l = calloc(1, sizeof(*l));

	pthread_mutex_lock(&table);
	l->x = x;
	l->key = ++keys;
	l->next = listeners;
	listeners = l;
	pthread_mutex_unlock(&table);
	memset(handle_out, 0, sizeof(*handle_out));
	memcpy(handle_out->byte, &l->key, sizeof(l->key));
	*listener_out = l;
	return 0;
}

void spw_xfer_listener_close(struct spw_xfer_listener *listener)
{
	struct spw_xfer_listener **at = &listeners;

	pthread_mutex_lock(&table);
	while (*at != listener)
		at = &(*at)->next;
	*at = listener->next;
	pthread_mutex_unlock(&table);
	free(listener);
}

static int conn_make(struct spw_xfer *x, struct pair *pair, uint32_t side,
		     struct spw_xfer_conn **conn_out)
{
	struct spw_xfer_conn *conn = calloc(1, sizeof(*conn));

	conn->pair = pair;
	conn->out = &pair->lane[side];
	conn->in = &pair->lane[!side];
	conn->seed = (uintptr_t)conn;
	conn->next = x->conns;
	x->conns = conn;
	*conn_out = conn;
	return 0;
}

int spw_xfer_connect(struct spw_xfer *x, const struct spw_xfer_handle *handle,
		     struct spw_xfer_conn **conn)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	uint64_t key;

	memcpy(&key, handle->byte, sizeof(key));
	pair->users = 2;
	for (uint32_t i = 0; i < 2; i++)
		pthread_mutex_init(&pair->lane[i].lock, NULL);
	pthread_mutex_lock(&table);
	for (struct spw_xfer_listener *l = listeners; l; l = l->next)
		if (l->key == key)
			l->pair = pair;
	pthread_mutex_unlock(&table);
	return conn_make(x, pair, 0, conn);
}

int spw_xfer_accept(struct spw_xfer_listener *listener, struct spw_xfer_conn **conn_out)
{
	struct pair *pair;

	pthread_mutex_lock(&table);
	pair = listener->pair;
	pthread_mutex_unlock(&table);
	return pair ? conn_make(listener->x, pair, 1, conn_out) : -EAGAIN;
}

int spw_xfer_conn_error(const struct spw_xfer_conn *conn)
{
	bool closed;

	pthread_mutex_lock(&conn->out->lock);
	closed = conn->out->closed;
	pthread_mutex_unlock(&conn->out->lock);
	return closed ? -ECONNRESET : 0;
}

/* ---- windows ---- */

int spw_xfer_window_expose(struct spw_xfer_conn *conn, struct spw_xfer_mem *mem SPW_UNUSED,
			   void *addr, uint64_t bytes)
{
	struct spw_xfer_window *w = &conn->in->window[conn->in->exposed++];

	w->addr = addr;
	w->bytes = bytes;
	spw_thr_store_rel(&w->known, 1u); /* as the frame that announces it */
	return 0;
}

int spw_xfer_window_remote(struct spw_xfer_conn *conn, uint32_t idx,
			   struct spw_xfer_window **window_out)
{
	struct spw_xfer_window *w = &conn->out->window[idx];

	*window_out = NULL;
	if (!spw_thr_load_acq(&w->known))
		return -EAGAIN;
	*window_out = w;
	return 0;
}

uint64_t spw_xfer_window_bytes(const struct spw_xfer_window *window)
{
	return window->bytes;
}

int spw_xfer_put(struct spw_xfer_conn *conn, const struct spw_xfer_access *access,
		 struct spw_xfer_req **req_out)
{
	struct spw_xfer_req *req = calloc(1, sizeof(*req)), **at = &conn->first;

	req->conn = conn;
	req->access = *access;
	req->turns = (uint32_t)(unit_random(&conn->seed) % TURNS_MAX);
	while (*at)
		at = &(*at)->next;
	*at = req;
	*req_out = req;
	return 0;
}

/* As a NIC writes: all of the data, then the flag word of rail 0. */
static int make(struct spw_xfer_conn *conn, const struct spw_xfer_access *a)
{
	uint64_t *flag;
	int rc = 0;

	pthread_mutex_lock(&conn->out->lock);
	if (conn->out->closed) {
		rc = -ECONNRESET;
	} else {
		memcpy(a->window->addr + a->offset, a->addr, a->bytes);
		spw_dma_to_device();
		flag = (uint64_t *)(void *)(a->window->addr + a->flag_offset);
		spw_dma_store(flag, a->flag << 4 | 1u);
	}
	pthread_mutex_unlock(&conn->out->lock);
	return rc;
}

static uint32_t conn_turn(struct spw_xfer_conn *conn)
{
	uint32_t n = 0;

	for (struct spw_xfer_req *r = conn->first; r; r = r->next) {
		if (r->turns && r->turns--)
			continue;
		if (r->made)
			continue;
		r->error = make(conn, &r->access);
		r->sent = malloc(r->access.bytes);
		memcpy(r->sent, r->access.addr, r->access.bytes);
		r->made = true;
		r->turns = (uint32_t)(unit_random(&conn->seed) % ACK_MAX);
		n++;
	}
	return n;
}

int spw_xfer_test(struct spw_xfer_req *req, bool *done_out, uint64_t *bytes_out SPW_UNUSED)
{
	struct spw_xfer_req **at = &req->conn->first;
	const int error = req->error;

	*done_out = req->made && !req->turns;
	if (!*done_out)
		return 0;
	while (*at != req)
		at = &(*at)->next;
	*at = req->next;
	if (memcmp(req->sent, req->access.addr, req->access.bytes) != 0) {
		print_error("a put's source changed before the put was acknowledged\n");
		abort(); /* no assertion of cmocka: this is a thread of its own */
	}
	free(req->sent);
	free(req);
	return error;
}

uint32_t spw_xfer_progress(struct spw_xfer *x)
{
	uint32_t n = 0;

	for (struct spw_xfer_conn *conn = x->conns; conn; conn = conn->next)
		n += conn_turn(conn);
	return n;
}

/* Asked only for a group of the CUDA executor. */
bool spw_xfer_conn_rail_stat(const struct spw_xfer_conn *conn SPW_UNUSED, uint32_t idx SPW_UNUSED,
			     struct spw_xfer_rail_stat *stat_out SPW_UNUSED)
{
	return false;
}
