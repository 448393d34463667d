/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who took the cores: ten times a second the control thread reads what the kernel counts for each lcore's thread and CPU.
 * The recorder says when a loop had gaps; what was counted in those tenths of a second is kept by name, the rest is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_lcore.h>

#include "app.h"

#define LINE_BYTES 16384

/* ---- the kernel's counts ------------------------------------------------------------------------------ */

static void switches_read(struct app_who *who, uint64_t now_out[2])
{
	char path[64], line[128];
	FILE *file;

	now_out[0] = now_out[1] = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", spw_thr_load_rlx(&who->tid));
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "voluntary_ctxt_switches: %lu", &now_out[0]);
		sscanf(line, "nonvoluntary_ctxt_switches: %lu", &now_out[1]);
	}
	if (file)
		fclose(file);
}

/* The place of a CPU among the columns: those of CPUs that are off are not there. -1: not there. */
static int column_of(const char *head, uint32_t cpu)
{
	char name[16];
	const char *at;
	int column = 0;

	snprintf(name, sizeof(name), "CPU%u", cpu);
	for (at = strstr(head, "CPU"); at; at = strstr(at + 3, "CPU"), column++)
		if (strncmp(at, name, strlen(name)) == 0 && (at[strlen(name)] < '0' || at[strlen(name)] > '9'))
			return column;
	return -1;
}

static struct app_irq *irq_named(struct app_who *who, const char *name)
{
	uint32_t i = 0;

	while (i < who->irq_cnt && strcmp(who->irq[i].name, name))
		i++;
	if (i == APP_IRQ_MAX)
		return NULL;
	if (i == who->irq_cnt) {
		snprintf(who->irq[i].name, sizeof(who->irq[i].name), "%s", name);
		who->irq_cnt++;
	}
	return &who->irq[i];
}

/* " 24:  0  17 ...  PCI-MSI 512-edge  mlx5_comp0" or "LOC: 123 456 ...  Local timer interrupts" */
static void irq_line(struct app_who *who, const char *line, int column, bool count)
{
	char name[16];
	const char *at = strchr(line, ':');
	struct app_irq *irq;
	uint64_t now = 0;
	char *end;

	if (!at || sscanf(line, " %15[^:]", name) != 1)
		return;
	for (int c = 0; c <= column; c++, at = end) {
		now = strtoull(at + (c == 0), &end, 10);
		if (end == at + (c == 0))
			return; /* fewer columns: a count of all CPUs */
	}
	irq = irq_named(who, name);
	if (!irq)
		return;
	if (count)
		irq->cnt += now - irq->base;
	irq->base = now;
}

static void irqs_read(struct app *app, const bool *count)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char *line = malloc(LINE_BYTES);
	int column[APP_LCORE_MAX];

	if (file && line && fgets(line, LINE_BYTES, file)) {
		for (uint32_t i = 0; i < app->lcore_cnt; i++)
			column[i] = column_of(line, app->lcore[i]->who.cpu);
		while (fgets(line, LINE_BYTES, file))
			for (uint32_t i = 0; i < app->lcore_cnt; i++)
				if (column[i] >= 0)
					irq_line(&app->lcore[i]->who, line, column[i], count[i]);
	}
	if (file)
		fclose(file);
	free(line);
}

/* ---- windows ------------------------------------------------------------------------------------------- */

void app_who_begin(struct app_lcore *lc)
{
	lc->who.cpu = app_lcore_cpu(lc->lcore_id);
	spw_thr_store_rlx(&lc->who.tid, (int)gettid());
}

void app_who_look(struct app *app)
{
	bool count[APP_LCORE_MAX];

	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		struct app_who *who = &app->lcore[i]->who;
		uint64_t gaps = 0, now[2];

		for (int h = 0; h < SPW_HOLD_CNT; h++)
			gaps += spw_thr_load_rlx(&app->lcore[i]->pipe.rec.held.cnt[h]);
		count[i] = gaps != who->gaps && who->looked;
		switches_read(who, now);
		for (int s = 0; s < 2; s++) {
			who->switches[s] += count[i] ? now[s] - who->switch_base[s] : 0;
			who->switch_base[s] = now[s];
		}
		who->windows += count[i];
		who->gaps = gaps;
		who->looked = true;
	}
	irqs_read(app, count);
}
