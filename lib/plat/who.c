/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Attributes the gaps of a polling loop to the kernel's own counters; spw_who.h says how. Called by
 * the control thread of a program, about ten times a second.
 *
 * Sources: proc(5), /proc/self/task/TID/status (voluntary_ctxt_switches,
 * nonvoluntary_ctxt_switches) and /proc/interrupts, whose head line names the CPU of each column.
 *
 * The kernel's counts run since boot, so each reading becomes the base of the next window; only in
 * windows with gaps are the differences added. Interrupts are matched by name, because lines appear
 * and vanish while the machine runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_order.h"
#include "plat/spw_who.h"

#define LINE_BYTES 16384

/* ---- the kernel's counts ---- */

static void who_switches_read(struct spw_who *who, uint64_t now_out[2])
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

/* The column of a CPU in /proc/interrupts, which leaves out CPUs that are offline; -1: this one is.
 */
static int who_column(const char *head, uint32_t cpu)
{
	char name[16];
	const char *at;
	int column = 0;

	snprintf(name, sizeof(name), "CPU%u", cpu);
	for (at = strstr(head, "CPU"); at; at = strstr(at + 3, "CPU"), column++)
		if (strncmp(at, name, strlen(name)) == 0 &&
		    (at[strlen(name)] < '0' || at[strlen(name)] > '9'))
			return column;
	return -1;
}

/* NULL: the table is full. */
static struct spw_who_irq *who_irq_named(struct spw_who *who, const char *name)
{
	uint32_t i = 0;

	while (i < who->irq_cnt && strcmp(who->irq[i].name, name))
		i++;
	if (i == SPW_WHO_IRQ_MAX)
		return NULL;
	if (i == who->irq_cnt) {
		snprintf(who->irq[i].name, sizeof(who->irq[i].name), "%s", name);
		who->irq_cnt++;
	}
	return &who->irq[i];
}

/* One line of /proc/interrupts: " 24:  0  17 ...  PCI-MSI 512-edge  mlx5_comp0" or "LOC: 123 456
 * ...  Local timer interrupts". Lines with fewer columns (ERR, MIS) count for all CPUs and are left
 * out. */
static void who_irq_line(struct spw_who *who, const char *line)
{
	char name[16];
	const char *at = strchr(line, ':');
	struct spw_who_irq *irq;
	uint64_t now = 0;
	char *end;

	if (!at || sscanf(line, " %15[^:]", name) != 1)
		return;
	for (int c = 0; c <= who->column; c++, at = end) {
		now = strtoull(at + (c == 0), &end, 10);
		if (end == at + (c == 0))
			return;
	}
	irq = who_irq_named(who, name);
	if (!irq)
		return;
	/* An interrupt that its driver freed and requested again counts from 0. */
	if (who->counted)
		irq->cnt += now < irq->base ? now : now - irq->base;
	irq->base = now;
}

/* One pass over the file serves all loops that have begun. A machine with hundreds of cores has
 * lines of several KiB. */
static void who_irqs_read(struct spw_who *const *who, uint32_t cnt)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char *line = malloc(LINE_BYTES);

	if (file && line && fgets(line, LINE_BYTES, file)) {
		for (uint32_t i = 0; i < cnt; i++)
			who[i]->column = who[i]->has_base ? who_column(line, who[i]->cpu) : -1;
		while (fgets(line, LINE_BYTES, file))
			for (uint32_t i = 0; i < cnt; i++)
				if (who[i]->column >= 0)
					who_irq_line(who[i], line);
	}
	if (file)
		fclose(file);
	free(line);
}

/* ---- windows ---- */

void spw_who_begin(struct spw_who *who, uint32_t cpu)
{
	who->cpu = cpu;
	spw_thr_store_rel(&who->tid, (int)gettid()); /* [WHO1 release, pairs with WHO2] */
}

/* has_base: the first reading only sets the base. */
void spw_who_read(struct spw_who *const *who, const uint64_t *gaps, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		struct spw_who *w = who[i];
		uint64_t now[2];

		if (!spw_thr_load_acq(&w->tid)) /* [WHO2 acquire, pairs with WHO1] */
			continue;
		w->counted = gaps[i] != w->gaps && w->has_base;
		who_switches_read(w, now);
		for (int s = 0; s < 2; s++) {
			w->switches[s] += w->counted ? now[s] - w->switch_base[s] : 0;
			w->switch_base[s] = now[s];
		}
		w->windows += w->counted;
		w->gaps = gaps[i];
		w->has_base = true;
	}
	who_irqs_read(who, cnt);
}

uint64_t spw_who_waited_ns(const struct spw_who *who)
{
	unsigned long ran, waited = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", spw_thr_load_acq(&who->tid));
	file = fopen(path, "r");
	if (file && fscanf(file, "%lu %lu", &ran, &waited) != 2)
		waited = 0;
	if (file)
		fclose(file);
	return waited;
}
