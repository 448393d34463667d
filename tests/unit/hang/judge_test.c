/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Recorded cases and the answer to each; and with any evidence taken away, the same answer, or
 * unknown. The cases are made by vectors.py.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "hang/spw_hang.h"
#include "unit_test.h"

#define LAST (SPW_HANG_SNAP_CNT - 1)

static json_t *vectors;

/* "culprit 1 gpu": outcome, ranks and layer. */
static void answer_show(const struct spw_hang_answer *a, char *out, size_t room)
{
	size_t at = (size_t)snprintf(out, room, "%s", spw_hang_outcome_name(a->outcome));

	for (uint32_t i = 0; i < a->verdict_cnt && a->outcome == SPW_HANG_OUTCOME_culprit; i++)
		at += (size_t)snprintf(out + at, room - at, " %ld %s", (long)a->verdict[i].rank,
				       spw_hang_layer_name(a->verdict[i].layer));
}

static void case_read(const json_t *vector, struct spw_hang_case *c)
{
	memset(c, 0, sizeof(*c));
	assert_int_equal(spw_hang_case_read(vector, c), 0);
}

static const char *vector_text(const json_t *vector, const char *key)
{
	return json_string_value(json_object_get(vector, key));
}

static void answers_are_as_expected(void **state)
{
	uint32_t faults = 0;
	json_t *vector;
	size_t i;

	(void)state;
	json_array_foreach (vectors, i, vector) {
		struct spw_hang_answer answer;
		struct spw_hang_case c;
		char got[128];

		case_read(vector, &c);
		spw_hang_judge(&c, &answer);
		answer_show(&answer, got, sizeof(got));
		if (strcmp(got, vector_text(vector, "expect"))) {
			print_message("%s: %s, expected %s; missing: %s\n",
				      vector_text(vector, "name"), got,
				      vector_text(vector, "expect"), answer.missing);
			faults++;
		}
		if (answer.outcome == SPW_HANG_OUTCOME_unknown)
			assert_true(answer.missing[0]);
		for (uint32_t v = 0; v < answer.verdict_cnt; v++)
			assert_true(!answer.verdict[v].explained ||
				    (answer.verdict[v].what[0] && answer.verdict[v].todo[0] &&
				     answer.verdict[v].evidence[0]));
		spw_hang_case_free(&c);
	}
	assert_true(i >= 90);
	assert_int_equal(faults, 0);
}

/* The page of a process that was killed, or not found, is another user's: what it says of its peer
 * stands in the answer, as one line. */
static void foreign_texts_are_one_line(void **state)
{
	static const char *const name[] = {"killed", "killed-on-a-host-that-was-not-asked"};
	uint32_t shown = 0;
	json_t *vector;
	size_t i;

	(void)state;
	json_array_foreach (vectors, i, vector) {
		struct spw_hang_answer answer;
		struct spw_hang_case c;

		if (strcmp(vector_text(vector, "name"), name[0]) &&
		    strcmp(vector_text(vector, "name"), name[1]))
			continue;
		case_read(vector, &c);
		for (uint32_t h = 0; h < c.host_cnt; h++)
			for (uint32_t k = 0; k < c.host[h].snap[LAST].conn_cnt; k++) {
				char *peer = c.host[h].snap[LAST].conn[k].peer;

				strcpy(peer + strlen(peer), " \x1b[2J\nrank 0");
			}
		spw_hang_judge(&c, &answer);
		assert_null(strpbrk(answer.missing, "\x1b\n"));
		assert_null(strpbrk(answer.verdict[0].evidence, "\x1b\n"));
		shown += strstr(answer.missing, "[2J") || strstr(answer.verdict[0].evidence, "[2J");
		spw_hang_case_free(&c);
	}
	assert_int_equal(shown, SPW_ARRAY_CNT(name));
}

/* ---- less evidence ---- */

enum cut {
	CUT_HOST,
	CUT_PAGE,
	CUT_PROFILER,
	CUT_PROC,
	CUT_CGROUP,
	CUT_COUNTERS,
	CUT_QP,
	CUT_GPU,
	CUT_RECORDER,
	CUT_STACKS,
	CUT_CNT
};

static void why(struct spw_hang_snap *snap, enum spw_hang_source source)
{
	snprintf(snap->why[source], sizeof(snap->why[source]), "taken away");
}

static void page_cut(struct spw_hang_snap *snap)
{
	snap->comm_cnt = snap->conn_cnt = snap->rail_cnt = 0;
	why(snap, SPW_HANG_SOURCE_page);
	why(snap, SPW_HANG_SOURCE_profiler);
	for (uint32_t i = 0; i < snap->proc_cnt; i++)
		snap->proc[i].page.known = snap->proc[i].profiler.known = false;
}

static void profiler_cut(struct spw_hang_snap *snap)
{
	snap->comm_cnt = 0;
	why(snap, SPW_HANG_SOURCE_profiler);
	for (uint32_t i = 0; i < snap->proc_cnt; i++)
		snap->proc[i].profiler.known = false;
}

static void cgroup_cut(struct spw_hang_snap *snap)
{
	why(snap, SPW_HANG_SOURCE_cgroup);
	for (uint32_t i = 0; i < snap->proc_cnt; i++)
		snap->proc[i].frozen.known = snap->proc[i].throttled_us.known = false;
}

static void snap_cut(struct spw_hang_snap *snap, uint32_t cuts)
{
	if (cuts & (1u << CUT_PAGE))
		page_cut(snap);
	if (cuts & (1u << CUT_PROFILER))
		profiler_cut(snap);
	if (cuts & (1u << CUT_CGROUP))
		cgroup_cut(snap);
	if (cuts & (1u << CUT_PROC)) {
		snap->proc_cnt = snap->thread_cnt = snap->dial_cnt = 0;
		why(snap, SPW_HANG_SOURCE_proc);
	}
	if (cuts & (1u << CUT_COUNTERS)) {
		snap->port_cnt = 0;
		why(snap, SPW_HANG_SOURCE_counters);
	}
	if (cuts & (1u << CUT_QP)) {
		snap->qp_cnt = 0;
		why(snap, SPW_HANG_SOURCE_qp);
	}
	if (cuts & (1u << CUT_GPU)) {
		snap->gpu_cnt = 0;
		why(snap, SPW_HANG_SOURCE_gpu);
	}
	if (cuts & (1u << CUT_RECORDER)) {
		snap->op_cnt = 0;
		why(snap, SPW_HANG_SOURCE_recorder);
	}
	for (uint32_t i = 0; i < snap->thread_cnt && cuts & (1u << CUT_STACKS); i++)
		snap->thread[i].frame[0] = '\0';
}

static void host_cut(struct spw_hang_host *host, uint32_t cuts)
{
	if (cuts & (1u << CUT_HOST))
		snprintf(host->silent, sizeof(host->silent), "taken away");
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
		snap_cut(&host->snap[s], cuts);
}

static void *rows_copy(const void *rows, size_t bytes)
{
	void *copy = malloc(bytes + 1);

	assert_non_null(copy);
	return bytes ? memcpy(copy, rows, bytes) : copy;
}

/* Of the rows that a cut writes to; the others are those of whole. Freed by copy_free. */
static void case_copy(const struct spw_hang_case *whole, struct spw_hang_case *copy)
{
	*copy = *whole;
	for (uint32_t h = 0; h < copy->host_cnt; h++)
		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
			struct spw_hang_snap *snap = &copy->host[h].snap[s];

			snap->proc = rows_copy(snap->proc, snap->proc_cnt * sizeof(*snap->proc));
			snap->thread =
				rows_copy(snap->thread, snap->thread_cnt * sizeof(*snap->thread));
		}
}

static void copy_free(struct spw_hang_case *copy)
{
	for (uint32_t h = 0; h < copy->host_cnt; h++)
		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
			free(copy->host[h].snap[s].proc);
			free(copy->host[h].snap[s].thread);
		}
}

/* Whether each " RANK LAYER" of an answer is one of those that are expected, in the same order. */
static bool names_are_among(const char *got, const char *expect)
{
	const size_t outcome = strlen("culprit");

	if (strncmp(got, "culprit ", outcome + 1) || strncmp(expect, "culprit ", outcome + 1))
		return !strcmp(got, expect);
	for (got += outcome, expect += outcome; *got;) {
		const size_t rank = 1 + strcspn(got + 1, " ");
		const size_t bytes = rank + 1 + strcspn(got + rank + 1, " ");

		while (*expect &&
		       (strncmp(expect, got, bytes) || (expect[bytes] && expect[bytes] != ' ')))
			expect += 1 + strcspn(expect + 1, " ");
		if (!*expect)
			return false;
		got += bytes;
		expect += bytes;
	}
	return true;
}

/* cuts: of each host, CUT_CNT bits. */
static void vector_cut(const json_t *vector, const struct spw_hang_case *whole, uint64_t cuts)
{
	struct spw_hang_answer answer;
	struct spw_hang_case c;
	char got[128];

	case_copy(whole, &c);
	for (uint32_t h = 0; h < c.host_cnt; h++)
		host_cut(&c.host[h], (uint32_t)(cuts >> (h * CUT_CNT)) & ((1u << CUT_CNT) - 1));
	spw_hang_judge(&c, &answer);
	answer_show(&answer, got, sizeof(got));
	if (answer.outcome != SPW_HANG_OUTCOME_unknown &&
	    !names_are_among(got, vector_text(vector, "expect")))
		fail_msg("%s without %llx: %s, expected %s or unknown", vector_text(vector, "name"),
			 (unsigned long long)cuts, got, vector_text(vector, "expect"));
	copy_free(&c);
}

/* Every subset on one host, and on all alike; and any mixture. */
static void less_evidence_gives_no_other_name(void **state)
{
	uint64_t seed = 29;
	json_t *vector;
	size_t i;

	(void)state;
	json_array_foreach (vectors, i, vector) {
		struct spw_hang_case whole;
		uint32_t hosts;

		case_read(vector, &whole);
		hosts = whole.host_cnt;
		for (uint64_t cuts = 1; cuts < 1u << CUT_CNT; cuts += cuts & 1 ? 2 : 1)
			for (uint32_t h = 0; h < hosts; h++)
				vector_cut(vector, &whole, cuts << (h * CUT_CNT));
		for (uint32_t n = 0; n < 200; n++)
			vector_cut(vector, &whole,
				   unit_random(&seed) & unit_random(&seed) &
					   ((1ull << (hosts * CUT_CNT)) - 1));
		spw_hang_case_free(&whole);
	}
}

/* ---- as JSON ---- */

static void a_case_is_read_as_it_was_written(void **state)
{
	json_t *vector;
	size_t i;

	(void)state;
	json_array_foreach (vectors, i, vector) {
		struct spw_hang_case c;
		json_t *again;

		case_read(vector, &c);
		again = spw_hang_case_json(&c);
		spw_hang_case_free(&c);
		assert_non_null(again);
		case_read(again, &c);
		spw_hang_case_free(&c);
		json_decref(again);
	}
}

static void what_is_no_case_is_refused(void **state)
{
	static const char *const no_case[] = {
		"{}", "[]", "{\"schema\": \"spinwire.hangcase/2\", \"hosts\": []}",
		"{\"schema\": \"spinwire.hangcase/1\", \"hosts\": 7}"};
	static struct spw_hang_case c;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(no_case); i++) {
		json_t *doc = json_loads(no_case[i], 0, NULL);

		assert_int_equal(spw_hang_case_read(doc, &c), -EPROTO);
		json_decref(doc);
	}
}

/* ---- one job of several ---- */

/* A process with one connection. */
static void process_add(struct spw_hang_snap *snap, int64_t pid, const char *pair, const char *comm)
{
	struct spw_hang_proc_row *proc = spw_hang_row_add(snap, SPW_HANG_TABLE_proc);
	struct spw_hang_conn_row *conn = spw_hang_row_add(snap, SPW_HANG_TABLE_conn);

	proc->pid = conn->pid = spw_hang_num(pid);
	strcpy(conn->pair, pair);
	strcpy(conn->comm, comm);
}

/* Joined by a connection, by a communicator of which an earlier snapshot knew, or not at all. */
static void a_job_is_cut_out(void **state)
{
	struct spw_hang_host host = {0};

	(void)state;
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
		process_add(&host.snap[s], 6, "ff", "dead");
		process_add(&host.snap[s], 7, "aa", s ? "" : "c0de");
		process_add(&host.snap[s], 8, "aa", "");
		process_add(&host.snap[s], 9, "", s ? "" : "c0de");
		process_add(&host.snap[s], 10, "", "");
	}
	spw_hang_host_focus(&host, 8);
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
		assert_int_equal(host.snap[s].proc_cnt, 3);
		assert_int_equal(host.snap[s].conn_cnt, 3);
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(host.snap[s].proc[i].pid.value, 7 + i);
			assert_int_equal(host.snap[s].conn[i].pid.value, 7 + i);
		}
		spw_hang_snap_free(&host.snap[s]);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_as_expected),
		cmocka_unit_test(foreign_texts_are_one_line),
		cmocka_unit_test(less_evidence_gives_no_other_name),
		cmocka_unit_test(a_case_is_read_as_it_was_written),
		cmocka_unit_test(what_is_no_case_is_refused),
		cmocka_unit_test(a_job_is_cut_out),
	};
	int rc;

	vectors = argc == 2 ? json_load_file(argv[1], 0, NULL) : NULL;
	if (!json_is_array(vectors))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	json_decref(vectors);
	return rc;
}
