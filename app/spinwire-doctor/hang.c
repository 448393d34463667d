/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-doctor hang: who hangs the collective, while it hangs. lib/hang reads and judges; this
 * file takes the snapshots, here and over ssh, and writes what came of it.
 *
 *   this host    snapshots at 0, 0.5 and 5 s ─┐
 *   --hosts      each: ssh spinwire-doctor    ├─► case ─► judge ─► ten lines, --json, --save
 *                hang --save=-  (at once) ────┤
 *   --replay     files of --save ─────────────┘ in place of both
 *
 * A host that has not answered SILENT_MS after this one's last snapshot is silent: the answer then
 * says so.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app_file.h"
#include "app_json.h"
#include "app_life.h"
#include "base/spw_err.h"
#include "doctor.h"
#include "hang/spw_hang.h"
#include "ssh.h"

#define PROGRAM   "spinwire-doctor"
#define SILENT_MS 5000u

/* The other hosts of a question. */
struct others {
	uint32_t cnt;
	char name[SPW_HANG_HOST_MAX][SPW_HANG_HOST_NAME];
	struct doctor_ssh ssh[SPW_HANG_HOST_MAX];
	bool started[SPW_HANG_HOST_MAX];
};

/* ---- this host ---- */

static bool hang_nap(uint64_t until_ns, void *arg)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
				       .tv_nsec = (long)(until_ns % 1000000000)};

	(void)arg;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return true;
}

/* ---- other hosts ---- */

/* This host is asked anyway. */
static bool others_has(const struct others *others, const char *name)
{
	char own[SPW_HANG_HOST_NAME] = "";

	gethostname(own, sizeof(own) - 1);
	for (uint32_t i = 0; i < others->cnt; i++)
		if (!strcmp(others->name[i], name))
			return true;
	return !strcmp(own, name);
}

/* Which of them are names of hosts is checked by doctor_ssh_start. */
static int others_parse(const char *list, struct others *others)
{
	while (list && *list) {
		const size_t bytes = strcspn(list, ",");
		char *name = others->name[others->cnt];

		if (others->cnt == SPW_HANG_HOST_MAX - 1)
			return spw_err(EINVAL, "--hosts: more than %u", SPW_HANG_HOST_MAX - 1);
		if (bytes == 0 || bytes >= SPW_HANG_HOST_NAME)
			return spw_err(EINVAL, "--hosts %s: names with commas between them", list);
		memcpy(name, list, bytes);
		name[bytes] = '\0';
		if (!others_has(others, name))
			others->cnt++;
		list += bytes + (list[bytes] == ',');
	}
	return 0;
}

/* All at once, so that their snapshots are of the same time. */
static int others_start(const struct doctor_args *args, struct others *others)
{
	char dump[512];
	const char *word[DOCTOR_SSH_WORD_MAX + 1] = {"hang", "--save=-"};
	uint32_t cnt = 2;

	snprintf(dump, sizeof(dump), "--torch-dump=%s", args->torch_dump ? args->torch_dump : "");
	if (args->torch_dump)
		word[cnt++] = dump;
	if (args->stacks)
		word[cnt++] = "--stacks";
	for (uint32_t i = 0; i < others->cnt; i++) {
		const int rc = doctor_ssh_start("--hosts", others->name[i], word, &others->ssh[i]);

		others->started[i] = true;
		if (rc)
			return rc;
	}
	return 0;
}

/* One host's answer. Not to answer is a fact like any other, so it is no error of this program. */
static void others_read(struct others *others, uint32_t i, uint64_t until, struct spw_hang_case *c)
{
	json_t *doc = NULL;
	const uint32_t first = c->host_cnt;
	const int rc = doctor_ssh_json(&others->ssh[i], others->name[i], until, &doc);

	if (rc || spw_hang_case_read(doc, c) || c->host_cnt == first) {
		if (c->host_cnt < SPW_HANG_HOST_MAX) {
			struct spw_hang_host *host = &c->host[first];

			c->host_cnt = first + 1;
			snprintf(host->name, sizeof(host->name), "%s", others->name[i]);
			snprintf(host->silent, sizeof(host->silent), "%.60s",
				 rc == -ETIMEDOUT ? "no answer in time over ssh"
						  : "spinwire-doctor does not answer over ssh");
		}
	}
	json_decref(doc);
}

/* The others are started before this host is read, and read after it. */
static int hang_live(const struct doctor_args *args, struct spw_hang_case *c)
{
	static struct others others;
	uint64_t until;
	int rc = others_parse(args->hosts, &others);

	rc = rc ? rc : others_start(args, &others);
	app_life_phase(5000000000ull, "three looks at the ranks");
	rc = rc ? rc
		: spw_hang_host_read(&(struct spw_hang_where){.root = "",
							      .pid = args->hang_pid,
							      .last = true,
							      .torch_dump = args->torch_dump,
							      .stacks = args->stacks},
				     hang_nap, NULL, c);
	until = doctor_ssh_until(SILENT_MS + (args->stacks ? SPW_HANG_STACKS_MS : 0));
	for (uint32_t i = 0; i < others.cnt && rc == 0; i++)
		others_read(&others, i, until, c);
	for (uint32_t i = 0; i < others.cnt; i++)
		if (others.started[i])
			doctor_ssh_end(&others.ssh[i]);
	app_life_clear();
	return rc;
}

/* ---- recorded ---- */

/* Several files are one case: each host may have saved its own. */
static int hang_replay(const struct doctor_args *args, struct spw_hang_case *c)
{
	int rc = 0;

	for (uint32_t i = 0; i < args->file_cnt && rc == 0; i++) {
		json_t *doc;

		rc = doctor_json_load(args->file[i], &doc);
		rc = rc ? rc : spw_hang_case_read(doc, c);
		json_decref(doc);
	}
	return rc;
}

/* ---- the command ---- */

static void hang_line_put(const char *line, void *arg)
{
	(void)arg;
	puts(line);
}

/* As the man page says. */
static int hang_status(const struct spw_hang_answer *answer)
{
	static const int status[SPW_HANG_OUTCOME_CNT] = {[SPW_HANG_OUTCOME_moves] = 0,
							 [SPW_HANG_OUTCOME_culprit] = 1,
							 [SPW_HANG_OUTCOME_unknown] = 2};

	return status[answer->outcome];
}

int doctor_hang(const struct doctor_args *args)
{
	static struct spw_hang_case c;
	struct spw_hang_answer answer;
	int rc = app_file_take("--json", args->json);

	rc = rc ? rc : app_file_take("--save", args->save);
	if (rc == 0 && !doctor_is_quiet(args))
		app_life_start(PROGRAM);
	if (rc == 0)
		rc = args->file_cnt ? hang_replay(args, &c) : hang_live(args, &c);
	if (rc == 0) {
		spw_hang_judge(&c, &answer);
		if (!doctor_is_quiet(args))
			spw_hang_answer_lines(&answer, hang_line_put, NULL);
		if (args->json)
			rc = app_json_write("--json", spw_hang_answer_json(&answer), args->json);
		if (args->save && app_json_write("--save", spw_hang_case_json(&c), args->save))
			rc = -EIO;
	}
	spw_hang_case_free(&c);
	return rc ? rc : hang_status(&answer);
}
