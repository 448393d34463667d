/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "ucx_side.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

#include "base/spw_order.h"
#include "numbered.h"

#define DEPTH    8u
#define BYTES    (512u << 10) /* longest message */
#define LONG_ONE 16u          /* one message in so many is long and takes all rails */
#define NUMBERS  (1ull << 30) /* numbers of UCX's messages begin here */

/* One message of a direction: started, and not over before both ends are done with it. */
struct message {
	uint8_t *out, *in;
	void *send, *recv; /* NULL: done */
	ucp_tag_recv_info_t info;
	uint64_t n, bytes;
	bool busy;
};

struct way {
	ucp_worker_h to;
	ucp_ep_h ep;
	struct message message[DEPTH];
	uint64_t begun;
};

struct ucx_side {
	const char *devices[2];
	ucp_context_h context[2];
	ucp_worker_h worker[2];
	struct way way[2];
	uint8_t *memory;
	struct ucx_side_stat stat;
	pthread_t thread;
	uint64_t received; /* the thread counts [relaxed: ucx_side_received samples it] */
	bool stop;         /* [relaxed: nothing is published by it] */
};

static void must(ucs_status_t status, const char *what)
{
	if (status == UCS_OK)
		return;
	fprintf(stderr, "UCX: %s: %s\n", what, ucs_status_string(status));
	abort();
}

/* ---- set-up ---- */

static void open_worker(const char *devices, ucp_context_h *context_out, ucp_worker_h *worker_out)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
				     .features = UCP_FEATURE_TAG};
	const ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					    .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_config_t *config;

	must(ucp_config_read(NULL, NULL, &config), "configuration");
	must(ucp_config_modify(config, "TLS", "rc_mlx5,ud_mlx5:aux"), "transport");
	must(ucp_config_modify(config, "NET_DEVICES", devices), devices);
	must(ucp_config_modify(config, "MAX_RNDV_RAILS", "2"), "rails");
	must(ucp_init(&params, config, context_out), "open");
	ucp_config_release(config);
	must(ucp_worker_create(*context_out, &worker, worker_out), "worker");
}

static void connect_way(struct way *way, ucp_worker_h from, ucp_worker_h to)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *address;
	size_t bytes;

	must(ucp_worker_get_address(to, &address, &bytes), "address");
	params.address = address;
	must(ucp_ep_create(from, &params, &way->ep), "endpoint");
	ucp_worker_release_address(to, address);
	way->to = to;
}

static void open_side(struct ucx_side *side)
{
	for (uint32_t i = 0; i < 2; i++)
		open_worker(side->devices[i], &side->context[i], &side->worker[i]);
	for (uint32_t i = 0; i < 2; i++)
		connect_way(&side->way[i], side->worker[i], side->worker[!i]);
}

static void progress(struct ucx_side *side)
{
	ucp_worker_progress(side->worker[0]);
	ucp_worker_progress(side->worker[1]);
	sched_yield();
}

static void close_side(struct ucx_side *side)
{
	const ucp_request_param_t params = {0};

	for (uint32_t i = 0; i < 2; i++) {
		void *req = ucp_ep_close_nbx(side->way[i].ep, &params);

		while (UCS_PTR_IS_PTR(req) && ucp_request_check_status(req) == UCS_INPROGRESS)
			progress(side);
		must(UCS_PTR_IS_PTR(req) ? ucp_request_check_status(req) : UCS_PTR_STATUS(req),
		     "close");
		if (UCS_PTR_IS_PTR(req))
			ucp_request_free(req);
	}
	for (uint32_t i = 0; i < 2; i++) {
		ucp_worker_destroy(side->worker[i]);
		ucp_cleanup(side->context[i]);
	}
}

/* ---- messages ---- */

static uint64_t length_of(uint64_t n)
{
	const uint64_t word = numbered_word(n, 0) >> 20;

	return word % (n % LONG_ONE ? 9000 : BYTES + 1);
}

/* Whether the request is over. One that was over at once is NULL. */
static bool is_over(void **req, ucp_tag_recv_info_t *info)
{
	ucs_status_t status;

	if (!*req)
		return true;
	status = info ? ucp_tag_recv_request_test(*req, info) : ucp_request_check_status(*req);
	if (status == UCS_INPROGRESS)
		return false;
	must(status, info ? "receive" : "send");
	ucp_request_free(*req);
	*req = NULL;
	return true;
}

static void *started(void *req, const char *what)
{
	must(UCS_PTR_IS_ERR(req) ? UCS_PTR_STATUS(req) : UCS_OK, what);
	return req;
}

static void receive(struct way *way, struct message *m)
{
	const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO,
					    .recv_info.tag_info = &m->info};

	m->recv = started(ucp_tag_recv_nbx(way->to, m->in, BYTES, m->n, UINT64_MAX, &params),
			  "receive");
}

/* The receive of every other message comes first; the others find their message there. */
static void begin(struct ucx_side *side, struct way *way, struct message *m)
{
	const ucp_request_param_t params = {0};

	m->n = NUMBERS + way->begun++;
	m->bytes = length_of(m->n);
	m->busy = true;
	side->stat.sent++;
	side->stat.sent_bytes += m->bytes;
	numbered_fill(m->out, m->bytes, m->n);
	if (m->n % 2)
		receive(way, m);
	m->send = started(ucp_tag_send_nbx(way->ep, m->out, m->bytes, m->n, &params), "send");
	if (m->n % 2 == 0)
		receive(way, m);
}

static void end(struct ucx_side *side, struct message *m)
{
	const uint64_t wrong = numbered_wrong(m->in, m->bytes, m->n);

	if (m->info.length != m->bytes || m->info.sender_tag != m->n || wrong != m->bytes) {
		fprintf(stderr,
			"UCX: message %llu of %llu bytes came as %llu of %zu, wrong from byte %llu "
			"on\n",
			(unsigned long long)m->n, (unsigned long long)m->bytes,
			(unsigned long long)m->info.sender_tag, m->info.length,
			(unsigned long long)wrong);
		abort();
	}
	side->stat.received++;
	side->stat.received_bytes += m->info.length;
	spw_thr_count(&side->received, 1u);
	m->busy = false;
}

/* Returns: messages under way. */
static uint32_t turn(struct ucx_side *side, struct way *way, bool stop)
{
	uint32_t busy = 0;

	for (uint32_t i = 0; i < DEPTH; i++) {
		struct message *m = &way->message[i];

		if (m->busy && is_over(&m->send, NULL) && is_over(&m->recv, &m->info))
			end(side, m);
		if (!m->busy && !stop)
			begin(side, way, m);
		busy += m->busy;
	}
	return busy;
}

static void *run(void *arg)
{
	struct ucx_side *side = arg;
	ucp_tag_recv_info_t info;
	uint32_t busy = 1;

	open_side(side);
	while (busy) {
		const bool stop = spw_thr_load_rlx(&side->stop);

		busy = turn(side, &side->way[0], stop) + turn(side, &side->way[1], stop);
		progress(side);
	}
	for (uint32_t i = 0; i < 2; i++)
		if (ucp_tag_probe_nb(side->worker[i], 0, 0, 0, &info))
			must(UCS_ERR_MESSAGE_TRUNCATED, "a message came twice");
	close_side(side);
	return NULL;
}

/* ---- for others ---- */

struct ucx_side *ucx_side_start(const char *devices_a, const char *devices_b)
{
	struct ucx_side *side = calloc(1, sizeof(*side));

	side->devices[0] = devices_a;
	side->devices[1] = devices_b;
	side->memory = malloc(4ul * DEPTH * BYTES);
	for (uint32_t i = 0; i < 2 * DEPTH; i++) {
		side->way[i / DEPTH].message[i % DEPTH].out = side->memory + 2ul * i * BYTES;
		side->way[i / DEPTH].message[i % DEPTH].in = side->memory + (2ul * i + 1) * BYTES;
	}
	if (pthread_create(&side->thread, NULL, run, side))
		must(UCS_ERR_NO_RESOURCE, "thread");
	return side;
}

uint64_t ucx_side_received(const struct ucx_side *side)
{
	return spw_thr_load_rlx(&side->received);
}

void ucx_side_stop(struct ucx_side *side, struct ucx_side_stat *stat_out)
{
	spw_thr_store_rlx(&side->stop, true);
	pthread_join(side->thread, NULL);
	*stat_out = side->stat;
	free(side->memory);
	free(side);
}
