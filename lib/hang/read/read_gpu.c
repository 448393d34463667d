/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * GPUs of the processes under NCCL: a row for each process on each. NVML names the processes; in a
 * container it may name none, and then the machine's only GPU is that of each process that has
 * CUDA's driver loaded.
 *
 *   GPU 0: pids 4711, 4712        processes under NCCL: 4711, 4712
 *   GPU 1: pids 4712, 99      ─►  rows (4711, 0), (4712, 0), (4712, 1), none of them `alone`
 *
 * After hang_procs_read, whose rows it walks. Rules decide by `busy` and `alone` whether a rank's
 * GPU computes, so a number that NVML did not give is unknown, not 0.
 *
 * A recorded host has a file "gpu", a line each: "BUSY MEMORY_BUSY POWER_MW SM_MHZ SM_MAX_MHZ
 * REASONS PID,PID,...", -1 what is unknown, "-" for no process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "hang/read/read_impl.h"
#include "plat/spw_plat.h"

/* lib/plat marks what NVML does not answer with -1. */
static struct spw_hang_num read_gpu_number(int64_t value)
{
	return value < 0 ? (struct spw_hang_num){0} : spw_hang_num(value);
}

static void read_gpu_row(struct hang_read *r, int64_t pid, uint32_t idx,
			 const struct spw_plat_gpu_now *gpu)
{
	struct spw_hang_gpu_row *row = spw_hang_row_add(r->snap, SPW_HANG_TABLE_gpu);

	if (!row)
		return;
	row->pid = spw_hang_num(pid);
	row->gpu = spw_hang_num(idx);
	if (gpu->pid_cnt > 0)
		row->alone = spw_hang_num(gpu->pid_cnt == 1);
	row->busy = read_gpu_number(gpu->busy);
	row->memory_busy = read_gpu_number(gpu->memory_busy);
	row->power_mw = read_gpu_number(gpu->power_mw);
	row->sm_mhz = read_gpu_number(gpu->sm_mhz);
	row->sm_max_mhz = read_gpu_number(gpu->sm_max_mhz);
	row->reasons = read_gpu_number(gpu->reasons);
}

static bool read_gpu_has(const struct spw_plat_gpu_now *gpu, int64_t pid)
{
	for (int32_t i = 0; i < gpu->pid_cnt; i++)
		if (gpu->pid[i] == pid)
			return true;
	return false;
}

/* A number of NVML's that a process had which has ended is another process's by now. */
static void read_gpu_rows(struct hang_read *r, const struct spw_plat_gpu_now *gpu, int cnt)
{
	for (uint32_t p = 0; p < r->snap->proc_cnt; p++) {
		const struct spw_hang_proc_row *proc = &r->snap->proc[p];

		for (int i = 0; i < cnt && !proc->gone.value; i++)
			if (read_gpu_has(&gpu[i], proc->pid.value) ||
			    (cnt == 1 && gpu[i].pid_cnt <= 0 && proc->cuda.value))
				read_gpu_row(r, proc->pid.value, (uint32_t)i, &gpu[i]);
	}
}

/* ---- recorded ---- */

/* A line that is not whole is no GPU. */
static bool read_gpu_line(const char *line, struct spw_plat_gpu_now *gpu)
{
	long long n[6];
	char pids[256], *at = pids, *one;

	if (sscanf(line, "%lld %lld %lld %lld %lld %lld %255s", &n[0], &n[1], &n[2], &n[3], &n[4],
		   &n[5], pids) != 7)
		return false;
	*gpu = (struct spw_plat_gpu_now){n[0], n[1], n[2], n[3], n[4], n[5], 0, {0}};
	while (pids[0] != '-' && (one = strsep(&at, ",")) &&
	       gpu->pid_cnt < (int32_t)SPW_PLAT_GPU_PID_MAX)
		gpu->pid[gpu->pid_cnt++] = (uint32_t)strtoul(one, NULL, 10);
	return true;
}

static int read_gpu_recorded(struct hang_read *r, struct spw_plat_gpu_now *gpu)
{
	char text[4096], *line, *rest = text;
	int cnt = 0;

	if (hang_bytes(r, text, sizeof(text), "gpu") < 0)
		return spw_err(ENODEV, "no GPU was recorded");
	while ((line = strsep(&rest, "\n")) && cnt < (int)SPW_PLAT_GPU_MAX)
		cnt += read_gpu_line(line, &gpu[cnt]);
	return cnt;
}

/* why[] is also set where GPUs answered and none of these processes is on one. */
void hang_gpus_read(struct hang_read *r)
{
	struct spw_plat_gpu_now gpu[SPW_PLAT_GPU_MAX];
	char *why = r->snap->why[SPW_HANG_SOURCE_gpu];
	int cnt = hang_is_live(r) ? spw_plat_gpus_now(NULL, gpu) : read_gpu_recorded(r, gpu);

	if (cnt > 0)
		read_gpu_rows(r, gpu, cnt);
	if (cnt < 0)
		snprintf(why, sizeof(r->snap->why[0]), "%.63s", spw_err_text());
	else if (!r->snap->gpu_cnt)
		snprintf(why, sizeof(r->snap->why[0]), "no process is on a GPU that NVML shows");
}
