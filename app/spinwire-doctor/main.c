/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-doctor [command] [options]: start here. This file is what each command does (doctor.h
 * draws the files).
 *
 *    check, replay   source ─ (measure) ─ table or facts ─ JSON ─ receipt ─ status of the findings
 *    record          source ─ tree ─ file
 *    hang            facts of the ranks ─ judge ─ answer ─ JSON, case
 *    plan            both machines ─ plan ─ file with --apply
 *
 * An exit status is that of the findings only if everything that was asked for could be written.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "app_program.h"
#include "app_file.h"
#include "app_json.h"
#include "app_life.h"
#include "base/spw_err.h"
#include "doctor.h"

#define PROGRAM "spinwire-doctor"

/* A recorded machine where files are named, else this one. */
static int doctor_machine_read(const struct doctor_args *args, struct spw_plat **plat_out)
{
	return args->file_cnt ? doctor_load(args->file, args->file_cnt, plat_out)
			      : doctor_live(plat_out);
}

/* Before the machine is read and measured, which takes seconds. */
static int doctor_outputs_try(const struct doctor_args *args)
{
	int rc = app_file_take("--json", args->json);

	rc = rc ? rc : app_file_take("--csv", args->csv);
	return rc ? rc : app_file_take("--receipt", args->receipt);
}

/* stdout has one of the reports alone, or nothing. */
bool doctor_is_quiet(const struct doctor_args *args)
{
	return args->verbosity.quiet || app_file_is_stdout(args->json) ||
	       app_file_is_stdout(args->csv) || app_file_is_stdout(args->receipt) ||
	       app_file_is_stdout(args->save);
}

/* check and replay. As of every command, the exit status is returned, or -errno. */
static int doctor_examine(const struct doctor_args *args)
{
	struct spw_plat *plat;
	int rc = doctor_outputs_try(args), status;

	if (rc < 0 || (rc = doctor_machine_read(args, &plat)) < 0)
		return rc;
	if (args->measure && (rc = doctor_measure(args, plat)) < 0) {
		spw_plat_free(plat);
		return rc;
	}
	if (!doctor_is_quiet(args) && args->facts)
		doctor_facts(plat);
	else if (!doctor_is_quiet(args))
		doctor_table(plat, args->full);
	if (args->json)
		rc = app_json_write("--json", doctor_json(plat, args->facts), args->json);
	if (args->csv && app_json_csv(doctor_pairs_json(plat), args->csv))
		rc = -EIO;
	if (args->receipt && app_json_write("--receipt", doctor_receipt(plat), args->receipt))
		rc = -EIO;
	status = doctor_status(plat);
	spw_plat_free(plat);
	return rc ? rc : status;
}

/* The file is no receipt: a user can change it. */
static int doctor_record(const struct doctor_args *args)
{
	const char *path = args->file[0];
	struct spw_plat *plat = NULL;
	int rc = app_file_take("record", path);

	if (rc == 0)
		rc = doctor_live(&plat);
	if (rc == 0)
		rc = app_json_write("record", spw_plat_record(plat), path);
	spw_plat_free(plat);
	return rc;
}

/* The status says whether they differ. */
static int doctor_diff_report(const struct doctor_args *args, const struct spw_plat *a,
			      const struct spw_plat *b)
{
	json_t *diff = doctor_diff(a, b);
	const bool differ = json_array_size(json_object_get(diff, "findings")) ||
			    json_array_size(json_object_get(diff, "facts"));
	int rc = diff ? 0 : spw_err(ENOMEM, "diff: no memory");

	if (!doctor_is_quiet(args))
		doctor_diff_table(diff);
	if (rc == 0 && args->json)
		rc = app_json_write("--json", json_incref(diff), args->json);
	json_decref(diff);
	return rc ? rc : differ ? APP_MACHINE : APP_GOOD;
}

/* Each file is a whole machine: changes to one are not taken here. */
static int doctor_diff_files(const struct doctor_args *args)
{
	struct spw_plat *a = NULL, *b = NULL;
	int rc = app_file_take("--json", args->json);

	if (rc == 0)
		rc = doctor_load(&args->file[0], 1, &a);
	if (rc == 0)
		rc = doctor_load(&args->file[1], 1, &b);
	if (rc == 0)
		rc = doctor_diff_report(args, a, b);
	spw_plat_free(a);
	spw_plat_free(b);
	return rc;
}

/* Nothing is measured; the plan rests on links and addresses as they are read. */
static int doctor_plan_read(const struct doctor_args *args)
{
	struct spw_plat *plat[1 + DOCTOR_PEER_MAX] = {NULL};
	uint32_t cnt = 1;
	int rc = app_file_take("--json", args->json);

	rc = rc ? rc : doctor_machine_read(args, &plat[0]);
	for (; rc == 0 && cnt <= DOCTOR_PEER_MAX && args->peer[cnt - 1]; cnt++)
		rc = doctor_peer(args->peer[cnt - 1], &plat[cnt]);
	if (rc == 0)
		rc = doctor_plan(args, plat, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		spw_plat_free(plat[i]);
	return rc;
}

/* check and replay examine a machine. */
static int doctor_run(const struct doctor_args *args)
{
	static const struct {
		const char *name;
		int (*run)(const struct doctor_args *args);
	} other[] = {{"record", doctor_record},  {"diff", doctor_diff_files},
		     {"cores", doctor_cores},    {"idle", doctor_idle},
		     {"plan", doctor_plan_read}, {"answer", doctor_answer},
		     {"hang", doctor_hang}};

	for (size_t i = 0; i < SPW_ARRAY_CNT(other); i++)
		if (!strcmp(args->command, other[i].name))
			return other[i].run(args);
	return doctor_examine(args);
}

int main(int argc, char **argv)
{
	static struct doctor_args args;
	int rc;

	app_program_start(PROGRAM);
	app_life_ends(PROGRAM);
	rc = doctor_args(&args, argc, argv);
	rc = rc > 0 ? APP_GOOD : rc < 0 ? rc : doctor_run(&args);
	return app_end(PROGRAM, rc < 0 ? app_complain(PROGRAM, rc) : rc);
}
