/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --slo 20us@p99.9: which executors such a run opens, what the log says of each change
 * (topo/spw_slo.h makes them), and what the summary says at the end.
 *
 *   topology.c   app_slo_backends: what to open; app_slo_open
 *   control.c    app_slo_turn, every 20 ms ─► spw_slo_watch_turn ─► another executor or burst
 *   summary      app_slo_json, app_slo_print
 *
 * lib/topo decides; this file has the option and the words.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "app_json.h"
#include "app_text.h"
#include "base/spw_err.h"
#include "base/spw_log.h"
#include "topo/spw_slo.h"

#define SAY_AFTER 3u /* measurements in a row that differ from what was said of the objective */

struct app_slo {
	struct spw_slo_watch watch;
	char point[16]; /* "p99.9" */
	uint32_t tries, changes, measured, kept;
	bool said_kept, said; /* what was said last of the objective, and whether */
	uint32_t differ;      /* measurements in a row that were not so */
};

/* ---- the option ---- */

/* "20us@p99.9" */
static int slo_parse(const char *text, struct spw_slo_conf *conf_out, char *point,
		     size_t point_bytes)
{
	const char *at = strchr(text, '@');
	char limit[32], *end;
	double percent;
	int rc;

	if (!at || at[1] != 'p' || at == text || (size_t)(at - text) >= sizeof(limit))
		return spw_err(EINVAL, "--slo %s: a time and a percentile, such as 20us@p99.9",
			       text);
	snprintf(limit, sizeof(limit), "%.*s", (int)(at - text), text);
	percent = strtod(at + 2, &end);
	if (*end || end == at + 2 || !(percent >= 1 && percent <= 99.999))
		return spw_err(EINVAL, "--slo %s: %s is not p1 .. p99.999", text, at + 1);
	snprintf(point, point_bytes, "%s", at + 1);
	conf_out->ppm = (uint32_t)(percent * 10000 + 0.5);
	rc = spw_opt_quantity(limit, SPW_OPT_UNIT_NS, 0, &conf_out->limit_ns);
	return rc ? spw_err_ctx(rc, "--slo %s", text) : 0;
}

/* Only to refuse a wrong text early; the result is parsed again when it is used. */
int app_slo_try(const char *text)
{
	struct spw_slo_conf conf;
	char point[64];

	return text[0] ? slo_parse(text, &conf, point, sizeof(point)) : 0;
}

/* The policy sees executors by the index that the topology gave them. */
int app_slo_open(struct app *app)
{
	struct spw_slo_conf conf = {.backend_cnt = app->topo.backend_cnt,
				    .burst = (uint16_t)app->conf.run.burst};
	struct app_slo *slo;
	int rc;

	if (!app->conf.run.slo[0])
		return 0;
	if (!app->conf.run.stamps)
		return spw_err(EINVAL, "--slo needs stages: leave out --stamps no");
	slo = calloc(1, sizeof(*slo));
	if (!slo)
		return spw_err(ENOMEM, "--slo: no memory");
	rc = slo_parse(app->conf.run.slo, &conf, slo->point, sizeof(slo->point));
	rc = rc ? rc : spw_slo_watch_init(&slo->watch, &conf);
	if (rc < 0) {
		free(slo);
		return rc;
	}
	app->slo = slo;
	return 0;
}

void app_slo_close(struct app *app)
{
	free(app->slo);
	app->slo = NULL;
}

/* Of a resident kernel that was asked for the number of CTAs is chosen, of other executors nothing.
 * GPU memory without a GPU leaves none: it is refused when it is allocated. */
void app_slo_backends(struct app *app, bool cpu_spare, enum spw_exec_kind chosen)
{
	struct spw_topo_conf *tc = &app->topo_conf;
	const struct spw_slo_machine machine = {
		.kind = app->conf.executor.kind,
		.cpu_reads = tc->memory.kind != SPW_MEM_GPU && tc->memory.objects != SPW_MEM_GPU,
		.cpu_spare = cpu_spare,
		.gpu = chosen == SPW_EXEC_CUDA_PERSISTENT,
		.ctas = (uint16_t)app->conf.executor.ctas,
	};
	struct spw_topo_exec backend[SPW_PIPE_BACKEND_MAX];
	uint32_t cnt;

	if (!app->conf.run.slo[0] ||
	    (machine.kind != SPW_EXEC_AUTO && machine.kind != SPW_EXEC_CUDA_PERSISTENT))
		return;
	cnt = spw_slo_backends(&machine, backend);
	/* Nothing fits: the executor that was chosen stays alone. */
	if (!cnt)
		return;
	memcpy(tc->exec.backend, backend, cnt * sizeof(backend[0]));
	tc->exec.backend_cnt = cnt;
}

/* ---- saying ---- */

static const char *slo_backend_name(const struct app *app, struct spw_slo_setting setting)
{
	return app->topo.backend[setting.backend].name;
}

#define LOST_TEXT_BYTES 64u

static const char *slo_lost_text(const struct spw_slo_sample *sample, char *text)
{
	int n = snprintf(text, LOST_TEXT_BYTES, "%lu lost",
			 (unsigned long)(sample->lost + sample->lost_preempted));

	if (sample->lost_preempted)
		snprintf(text + n, LOST_TEXT_BYTES - (size_t)n, ", %lu while a core was preempted",
			 (unsigned long)sample->lost_preempted);
	return text;
}

/* One line a change with what was measured, so that a log explains every setting. */
static void slo_log_change(const struct app *app, const struct spw_slo_step *step,
			   const struct spw_slo_sample *sample)
{
	static const char *const why[] = {[SPW_SLO_TRY] = "not known at this load",
					  [SPW_SLO_LOSES] = "it lost frames",
					  [SPW_SLO_BETTER] = "another was better by a quarter",
					  [SPW_SLO_CHEAPER] = "that is cheaper and good enough"};
	char expected[64] = "", lost[LOST_TEXT_BYTES];

	if (step->expected_ns)
		snprintf(expected, sizeof(expected), ", which gave %.1f us",
			 (double)step->expected_ns * 1e-3);
	spw_info("slo: %.0f frames/s, %s %.1f us, %s with %s, burst %u; now %s, burst %u%s: %s",
		 (double)sample->frames * 1e9 / (double)sample->took_ns, app->slo->point,
		 (double)sample->value_ns * 1e-3, slo_lost_text(sample, lost),
		 slo_backend_name(app, step->from), step->from.burst,
		 slo_backend_name(app, step->to), step->to.burst, expected, why[step->why]);
}

/* Tries are not judged: they are there to find out. */
static void slo_log_kept(struct app_slo *slo, const struct app *app,
			 const struct spw_slo_step *step, const struct spw_slo_sample *sample)
{
	char lost[LOST_TEXT_BYTES];

	slo->measured++;
	slo->kept += step->kept;
	slo->differ = slo->said && slo->said_kept == step->kept ? 0 : slo->differ + 1;
	if (slo->differ < SAY_AFTER)
		return;
	slo->differ = 0;
	slo->said = true;
	slo->said_kept = step->kept;
	spw_info("slo: %s is %s: %s %.1f us, %s at %.0f frames/s with %s, burst %u, the best "
		 "that was found; cores were preempted for %.1f ms of %.0f",
		 app->conf.run.slo, step->kept ? "kept" : "NOT kept", slo->point,
		 (double)sample->value_ns * 1e-3, slo_lost_text(sample, lost),
		 (double)sample->frames * 1e9 / (double)sample->took_ns,
		 slo_backend_name(app, step->from), step->from.burst,
		 (double)sample->preempted_ns * 1e-6, (double)sample->took_ns * 1e-6);
}

/* ---- the control loop's call ---- */

int app_slo_turn(struct app *app, const struct spw_rec_view *view)
{
	struct app_slo *slo = app->slo;
	struct spw_slo_sample sample;
	struct spw_slo_step step;
	int rc = spw_slo_watch_turn(&slo->watch, &app->topo, view, &sample, &step);

	if (rc <= 0)
		return rc;
	if (step.why == SPW_SLO_STAY) {
		slo_log_kept(slo, app, &step, &sample);
		return 0;
	}
	slo_log_change(app, &step, &sample);
	slo->tries += step.why == SPW_SLO_TRY;
	slo->changes += step.why != SPW_SLO_TRY;
	return 0;
}

/* ---- the summary ---- */

/* The part that names a setting: two executors of one kind differ in their CTAs. */
static json_t *slo_setting_json(const struct app *app, struct spw_slo_setting setting)
{
	const struct spw_topo_backend *backend = &app->topo.backend[setting.backend];

	return json_pack("{s:s,s:o,s:i}", "executor", spw_exec_kind_name(backend->kind), "ctas",
			 app_json_known(backend->ctas, backend->ctas), "burst", (int)setting.burst);
}

/* Every setting with what is known of it at the load of the last measurement; null: not tried at
 * it. */
static json_t *slo_settings_json(const struct app *app)
{
	struct spw_slo_setting setting;
	struct spw_slo_known known;
	json_t *rows = json_array();

	for (uint32_t i = 0; spw_slo_known(&app->slo->watch.policy, i, &setting, &known); i++) {
		json_t *row = slo_setting_json(app, setting);

		json_object_set_new(row, "value_ns",
				    app_json_known(known.value_ns, known.value_ns));
		json_object_set_new(row, "lost_ppm", app_json_number(known.lost_ppm));
		json_array_append_new(rows, row);
	}
	return rows;
}

json_t *app_slo_json(const struct app *app)
{
	const struct app_slo *slo = app->slo;

	if (!slo)
		return json_null();
	return json_pack("{s:o,s:i,s:i,s:i,s:i,s:o,s:I,s:o}", "objective",
			 app_json_text(app->conf.run.slo), "measured", (int)slo->measured, "kept",
			 (int)slo->kept, "tries", (int)slo->tries, "changes", (int)slo->changes,
			 "last", slo_setting_json(app, spw_slo_now(&slo->watch.policy)), "load_fps",
			 (json_int_t)spw_slo_load(&slo->watch.policy), "settings",
			 slo_settings_json(app));
}

void app_slo_print(const struct app *app)
{
	const struct app_slo *slo = app->slo;
	struct spw_slo_setting now;

	if (!slo)
		return;
	now = spw_slo_now(&slo->watch.policy);
	printf("\nobjective  %s kept in %u of %u measurements; %u settings tried, %u changes; last "
	       "%s, burst %u\n",
	       app->conf.run.slo, slo->kept, slo->measured, slo->tries, slo->changes,
	       slo_backend_name(app, now), now.burst);
}
