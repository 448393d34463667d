/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One-shot collectives (lib/coll) between the two ends: kernels in a stream where both have a GPU,
 * else each end's thread. Both make the same calls:
 *
 *   client   {"case", "rails"}         ->   server
 *            {"blob"}                 <->   {"blob"}        the group's exchange
 *                                     <-    {"ready"}
 *            1 checked, WARM calls    ...   likewise
 *            {"do": "run", "calls"}    ->
 *            calls, timed; 1 checked  ...   likewise
 *                                     <-    {"flow", "phy"}
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "measure/coll.h"
#include "coll/spw_coll.h"
#include "measure/gpu.h"
#include "result/phy.h"
#include "session.h"

#define ANSWER_MS 30000u
#define JOIN_MS   5000u
#define WARM      10u
#define CALLS_MAX 100000u

/* One case at one end, from the group's opening to its close. */
struct oneshot {
	struct perf_session *s;
	const struct perf_case *what;
	struct spw_coll *coll;
	struct spw_region region; /* of kernels; else bytes 0 */
	uint8_t *mem;             /* in, then out, for the CPU */
	uint32_t rank;
	bool cuda;
	char rails[160];
};

/* ---- the group ---- */

/* The group's exchange (spw_coll_conf.exchange) over the control connection: what each rank adds,
 * in hex. */
static int oneshot_exchange(void *arg, const void *mine, void *all, size_t bytes)
{
	struct oneshot *o = arg;
	const uint8_t *from = mine;
	uint8_t *to = all;
	char *text = malloc(2 * bytes + 1);
	json_t *answer = NULL;
	const char *got;
	int rc;

	if (!text)
		return spw_err(ENOMEM, "no memory for an exchange");
	for (size_t i = 0; i < bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", from[i]);
	rc = perf_ctl_send(&o->s->ctl, json_pack("{s:s}", "blob", text));
	free(text);
	if (rc < 0 || (rc = perf_ctl_order(&o->s->ctl, ANSWER_MS, &answer)) < 0)
		return rc;
	got = json_string_value(json_object_get(answer, "blob"));
	if (!got || strlen(got) != 2 * bytes)
		rc = spw_err(EPROTO, "the other end sent nothing to join a group with");
	memcpy(to + o->rank * bytes, mine, bytes);
	to += (1 - o->rank) * bytes;
	for (size_t i = 0; i < bytes && rc == 0; i++)
		if (sscanf(got + 2 * i, "%2hhx", &to[i]) != 1)
			rc = spw_err(EPROTO, "the other end sent no bytes");
	json_decref(answer);
	return rc;
}

/* An all-gather returns the parts of all ranks, an all-reduce as much as each has given. */
static uint64_t out_bytes(const struct perf_case *what)
{
	return what->coll == PERF_COLL_ALL_GATHER ? what->bytes : perf_coll_part_bytes(what);
}

/* Input and output lie one behind the other in one memory: in at 0, out at the bytes of one rank's
 * part. */
static int group_open(struct oneshot *o)
{
	uint64_t part = perf_coll_part_bytes(o->what);
	struct spw_mem_req req = {.kind = SPW_MEM_AUTO,
				  .bytes = part + out_bytes(o->what),
				  .numa_node = -1,
				  .executor_is_gpu = o->cuda};
	char bind[64];
	struct spw_coll_conf conf = {.rank = o->rank,
				     .rank_cnt = PERF_COLL_RANKS,
				     .exchange = oneshot_exchange,
				     .exchange_arg = o,
				     .exec = o->cuda ? SPW_COLL_CUDA : SPW_COLL_CPU,
				     .progress = o->cuda ? SPW_COLL_THREAD : SPW_COLL_CALLER,
				     .bytes_max = (uint32_t)part,
				     .join_ms = JOIN_MS,
				     .xfer = {.rails = o->rails, .bind = bind}};
	const char *own = o->s->ctl.local;
	int rc = 0;

	snprintf(bind, sizeof(bind), strchr(own, ':') ? "[%s]:0" : "%s:0", own);
	if (part > SPW_COLL_BYTES_MAX)
		return spw_err(EMSGSIZE, "one-shot calls take up to %u bytes of each rank",
			       SPW_COLL_BYTES_MAX);
	if (o->cuda)
		rc = spw_region_alloc(&req, &o->region);
	o->mem = o->cuda ? o->region.host_va
			 : aligned_alloc(SPW_CACHE_LINE,
					 SPW_ALIGN_UP(req.bytes, (size_t)SPW_CACHE_LINE));
	if (rc == 0 && !o->mem)
		rc = spw_err(ENOMEM, "no memory for a collective of %zu bytes", req.bytes);
	return rc ? rc : spw_coll_open(&conf, &o->coll);
}

/* Also after an error of group_open: what is not there is NULL or of 0 bytes. */
static void group_close(struct oneshot *o)
{
	spw_coll_close(o->coll);
	if (!o->cuda)
		free(o->mem);
	spw_region_free(&o->region);
}

/* ---- calls ---- */

/* Launches are asynchronous with a GPU; the wait makes the time of a row that of the finished
 * calls. */
static int calls_make(struct oneshot *o, uint64_t cnt)
{
	uint64_t part = perf_coll_part_bytes(o->what);
	uint64_t at = o->cuda ? o->region.dev_va : (uintptr_t)o->mem;
	struct spw_coll_call call = {.kind = o->what->coll == PERF_COLL_ALL_GATHER
						     ? SPW_COLL_ALL_GATHER
						     : SPW_COLL_ALL_REDUCE,
				     .type = SPW_COLL_F32,
				     .op = SPW_COLL_SUM,
				     .count = part / sizeof(float),
				     .in = (const void *)(uintptr_t)at,
				     .out = (void *)(uintptr_t)(at + part)};
	int rc = 0;

	for (uint64_t i = 0; i < cnt && rc == 0; i++)
		rc = o->cuda ? spw_coll_launch(o->coll, &call, NULL) : spw_coll_run(o->coll, &call);
	if (rc == 0 && o->cuda)
		rc = perf_gpu_wait();
	return rc ? rc : spw_coll_error(o->coll);
}

/* Sums of small whole numbers are exact in f32, so results are compared for equality. */
static float oneshot_wanted(const struct oneshot *o, uint64_t idx)
{
	uint64_t each = perf_coll_part_bytes(o->what) / sizeof(float);

	return o->what->coll == PERF_COLL_ALL_GATHER
		       ? perf_coll_value((uint32_t)(idx / each), idx % each)
		       : perf_coll_value(0, idx) + perf_coll_value(1, idx);
}

/* One call whose numbers are made before and compared after it. */
static int call_checked(struct oneshot *o)
{
	uint64_t part = perf_coll_part_bytes(o->what);
	float *in = (float *)(void *)o->mem;
	float *out = (float *)(void *)(o->mem + part);
	int rc;

	for (uint64_t i = 0; i < part / sizeof(*in); i++)
		in[i] = perf_coll_value(o->rank, i);
	memset(out, 0, out_bytes(o->what));
	rc = calls_make(o, 1);
	for (uint64_t i = 0; i < out_bytes(o->what) / sizeof(*out) && rc == 0; i++)
		if (out[i] < oneshot_wanted(o, i) || out[i] > oneshot_wanted(o, i))
			rc = spw_err(EBADMSG, "element %llu of %s is wrong: %g instead of %g",
				     (unsigned long long)i, perf_coll_name(o->what->coll),
				     (double)out[i], (double)oneshot_wanted(o, i));
	return rc;
}

/* ---- the client's end ---- */

/* The number of calls is derived from the warm-up and sent to the other end: both must make
 * equally many, or one waits for a call that never comes. */
static int oneshot_time(struct oneshot *o, struct perf_result *result)
{
	uint64_t start = spw_monotonic_ns(), cpu, calls;
	int rc = calls_make(o, WARM);

	calls = result->what.ms * 1000000ull * WARM / SPW_MAX(spw_monotonic_ns() - start, 1ull);
	calls = SPW_MIN(SPW_MAX(calls, 1ull), (uint64_t)CALLS_MAX);
	rc = rc ? rc
		: perf_ctl_send(&o->s->ctl,
				json_pack("{s:s,s:I}", "do", "run", "calls", (json_int_t)calls));
	cpu = perf_cpu_ns();
	rc = rc ? rc : calls_make(o, 1); /* the other end begins as well */
	start = spw_monotonic_ns();
	rc = rc ? rc : calls_make(o, calls);
	result->own = (struct perf_flow){.messages = calls,
					 .bytes = calls * perf_coll_bus_bytes(&result->what),
					 .ns = spw_monotonic_ns() - start,
					 .total = calls + 1,
					 .cpu_ns = perf_cpu_ns() - cpu};
	return rc;
}

/* call_checked stands before and after the timed part at both ends, in the same order as in
 * serve_calls. */
static int oneshot_measure(struct oneshot *o, struct perf_result *result)
{
	struct perf_phy before, own, peer;
	json_t *answer = NULL;
	int rc = group_open(o);

	rc = rc ? rc : perf_ctl_recv(&o->s->ctl, ANSWER_MS, &answer); /* ready */
	json_decref(answer);
	answer = NULL;
	rc = rc ? rc : call_checked(o);
	perf_phy_read(&o->s->own, o->rails, &before);
	rc = rc ? rc : oneshot_time(o, result);
	rc = rc ? rc : call_checked(o);
	rc = rc ? rc : perf_ctl_recv(&o->s->ctl, ANSWER_MS, &answer);
	if (rc < 0)
		return rc;
	perf_phy_since(&o->s->own, o->rails, &before, &own);
	rc = perf_flow_parse(json_object_get(answer, "flow"), &result->peer);
	rc = rc ? rc : perf_phy_parse(json_object_get(answer, "phy"), &peer);
	json_decref(answer);
	if (rc == 0)
		perf_coll_phy_judge(&own, &peer, result);
	return rc;
}

/* The server learns its own devices from the client, which has paired them. */
static void rails_take(struct oneshot *o, const struct perf_case *what, char *theirs, size_t bytes)
{
	perf_rails_text(&o->s->rails, what->rails, 1, false, o->rails, sizeof(o->rails));
	perf_rails_text(&o->s->rails, what->rails, 1, true, theirs, bytes);
}

/* Kernels run only if both ends have a GPU. */
int perf_oneshot_client(struct perf_session *s, struct perf_result *result)
{
	struct oneshot o = {.s = s, .what = &result->what};
	char theirs[160];
	int rc;

	o.cuda = !s->own.no_gpu[0] && !s->peer.no_gpu[0];
	rails_take(&o, &result->what, theirs, sizeof(theirs));
	snprintf(result->path, sizeof(result->path), "%s",
		 o.cuda ? "kernels in a stream" : "a CPU thread at each end");
	rc = perf_ctl_send(&s->ctl,
			   json_pack("{s:o,s:s,s:b}", "case", perf_case_json(&result->what),
				     "rails", theirs, "cuda", o.cuda));
	rc = rc ? rc : oneshot_measure(&o, result);
	group_close(&o);
	return rc ? perf_ctl_give_up(&s->ctl, rc) : 0;
}

/* ---- the server's end ---- */

/* One call more than counted: the client starts its clock after it. */
static int serve_calls(struct oneshot *o, struct perf_flow *flow)
{
	json_t *order = NULL;
	uint64_t calls = 0, cpu;
	int rc = call_checked(o);

	rc = rc ? rc : calls_make(o, WARM);
	rc = rc ? rc : perf_ctl_order(&o->s->ctl, ANSWER_MS, &order);
	rc = rc ? rc : perf_number(order, "calls", CALLS_MAX, &calls);
	json_decref(order);
	cpu = perf_cpu_ns();
	rc = rc ? rc : calls_make(o, calls + 1);
	*flow = (struct perf_flow){
		.messages = calls, .total = calls + 1, .cpu_ns = perf_cpu_ns() - cpu};
	return rc ? rc : call_checked(o);
}

/* The counters begin earlier than the client's: bytes too many make no row invalid. */
int perf_oneshot_server(struct perf_session *s, const struct perf_case *what, const json_t *request)
{
	struct oneshot o = {.s = s, .what = what, .rank = 1};
	struct perf_flow flow;
	struct perf_phy before, moved;
	int rc;

	o.cuda = json_is_true(json_object_get(request, "cuda"));
	perf_text(request, "rails", o.rails, sizeof(o.rails));
	perf_phy_read(&s->own, o.rails, &before);
	rc = group_open(&o);
	rc = rc ? rc : perf_ctl_send(&s->ctl, json_pack("{s:b}", "ready", 1));
	rc = rc ? rc : serve_calls(&o, &flow);
	perf_phy_since(&s->own, o.rails, &before, &moved);
	if (rc < 0)
		rc = perf_ctl_refuse(&s->ctl, rc);
	else
		rc = perf_ctl_send(&s->ctl, json_pack("{s:o,s:o}", "flow", perf_flow_json(&flow),
						      "phy", perf_phy_json(&moved)));
	group_close(&o);
	return rc;
}
