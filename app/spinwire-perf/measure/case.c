/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One case as it travels between the ends, and reading the other end's messages: nothing of them
 * is trusted. Every number has an upper bound here, since lane.c allocates by it and loops run by
 * it; every text becomes one line that a terminal may have. Clocks and the mark of a result stand
 * here too, because all cases use them.
 *
 * Before a field is added: perf_case_json and perf_case_parse change together, and perf_proto
 * (control.h) with them, since the server refuses a case that lacks a number.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "base/spw_text.h"
#include "control/fields.h"
#include "measure/coll.h"
#include "time/spw_time.h"

/* What the other end may ask for at most; lane.c also refuses what this machine's memory cannot
 * hold. */
#define BYTES_MAX (16ull << 30)
#define MS_MAX    60000u

static const struct spw_enum_word op_word[] = {SPW_ENUM_WORDS(PERF_OP)};

const char *perf_op_name(enum perf_op op)
{
	return op_word[op].text;
}

int perf_op_parse(const char *name, enum perf_op *op_out)
{
	for (uint32_t i = 0; i < PERF_OP_CNT; i++)
		if (!strcmp(name, op_word[i].text)) {
			*op_out = (enum perf_op)i;
			return 0;
		}
	return spw_err(EINVAL, "%s: no such operation", name);
}

const char *perf_valid_name(enum perf_valid valid)
{
	static const char *const name[] = {"valid", "unverified", "invalid", "failed"};

	return name[valid];
}

/* Time-outs count only time in which this process ran: a stopped or preempted end must not blame
 * the other one. */
uint64_t perf_ran_ns(uint64_t *last_ns)
{
	const uint64_t now_ns = spw_monotonic_ns(), ran_ns = now_ns - *last_ns;

	*last_ns = now_ns;
	return SPW_MIN(ran_ns, SPW_TSC_STEP_NS);
}

uint64_t perf_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int perf_number(const json_t *json, const char *name, uint64_t max, uint64_t *value_out)
{
	const json_t *value = json_object_get(json, name);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > max)
		return spw_err(EPROTO, "the other end sent no %s of 0 to %" PRIu64, name, max);
	*value_out = (uint64_t)json_integer_value(value);
	return 0;
}

void perf_text(const json_t *json, const char *name, char *out, size_t bytes)
{
	const char *text = json_string_value(json_object_get(json, name));

	spw_text_show(text ? text : "", out, bytes);
}

/* Masks and counts as integers, enumerations by name: a value that is added later does not
 * renumber others. */
json_t *perf_case_json(const struct perf_case *what)
{
	return json_pack("{s:s,s:b,s:b,s:b,s:s,s:s,s:I,s:I,s:I,s:I}", "op", op_word[what->op].text,
			 "latency", what->latency, "both", what->both, "gpu", what->gpu, "coll",
			 perf_coll_name(what->coll), "net", perf_net_name(what->net), "bytes",
			 (json_int_t)what->bytes, "rails_mask", (json_int_t)what->rails, "streams",
			 (json_int_t)what->streams, "ms", (json_int_t)what->ms);
}

/* The server acts on what is accepted here. Bytes, streams and ms divide or end loops, so 0 is
 * refused. */
int perf_case_parse(const json_t *json, struct perf_case *what_out)
{
	const char *op = json_string_value(json_object_get(json, "op"));
	uint64_t rails = 0, streams = 0, ms = 0;
	int rc = op ? perf_op_parse(op, &what_out->op) : spw_err(EPROTO, "a case without op");

	what_out->latency = json_is_true(json_object_get(json, "latency"));
	what_out->both = json_is_true(json_object_get(json, "both"));
	what_out->gpu = json_is_true(json_object_get(json, "gpu"));
	what_out->coll = perf_coll_parse(json_string_value(json_object_get(json, "coll")));
	if (rc == 0 &&
	    !perf_net_parse(json_string_value(json_object_get(json, "net")), &what_out->net))
		rc = spw_err(EPROTO, "a case of an unknown net");
	if (rc == 0 && (what_out->op == PERF_COLL) != (what_out->coll != PERF_COLL_NONE))
		rc = spw_err(EPROTO, "a case of an unknown collective");
	if (rc == 0 && (rc = perf_number(json, "bytes", BYTES_MAX, &what_out->bytes)) == 0 &&
	    (rc = perf_number(json, "rails_mask", (1u << PERF_RAIL_MAX) - 1, &rails)) == 0 &&
	    (rc = perf_number(json, "streams", PERF_STREAM_MAX, &streams)) == 0 &&
	    (rc = perf_number(json, "ms", MS_MAX, &ms)) == 0) {
		what_out->rails = (uint32_t)rails;
		what_out->streams = (uint32_t)streams;
		what_out->ms = (uint32_t)ms;
	}
	if (rc == 0 && (what_out->bytes == 0 || streams == 0 || ms == 0))
		rc = spw_err(EPROTO, "a case of 0 bytes, streams or ms");
	return rc;
}

/* The counts of the other end become figures and loops' bounds, so they are limited to what JSON
 * can hold. */
static const struct perf_field flow_field[] = {
	PERF_FIELD_NUMBER("messages", struct perf_flow, messages, INT64_MAX),
	PERF_FIELD_NUMBER("bytes", struct perf_flow, bytes, INT64_MAX),
	PERF_FIELD_NUMBER("ns", struct perf_flow, ns, INT64_MAX),
	PERF_FIELD_NUMBER("total", struct perf_flow, total, INT64_MAX),
	PERF_FIELD_NUMBER("cpu_ns", struct perf_flow, cpu_ns, INT64_MAX),
	{0}};

json_t *perf_flow_json(const struct perf_flow *flow)
{
	return perf_fields_json(flow_field, flow);
}

int perf_flow_parse(const json_t *json, struct perf_flow *flow_out)
{
	return perf_fields_parse(flow_field, json, flow_out);
}

/* Marks only become worse (enum perf_valid is in that order), so the first reason of the worst one
 * stays. */
void perf_mark(struct perf_result *result, enum perf_valid valid, const char *fmt, ...)
{
	va_list args;

	if (valid <= result->valid)
		return;
	result->valid = valid;
	va_start(args, fmt);
	vsnprintf(result->why, sizeof(result->why), fmt, args);
	va_end(args);
}
