/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Cores for EAL, chosen (app_lcores.h). EAL's lcores get the numbers of their cores, as -l gives
 * them, unless one is higher than DPDK numbers lcores.
 *
 * spinwire (machine.c) calls app_lcores_choose between app_eal_split and app_eal_start, so that EAL
 * reads numbers only. The first core that lib/plat picks becomes the main lcore's.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <rte_config.h>

#include "app_lcores.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

#define LIST_BYTES (10 * RTE_MAX_LCORE) /* "127@1023," */

/* The argument that holds "auto", and where in it. NULL: none. */
static char **auto_arg(struct app_eal *eal, const char **before)
{
	static const char *const joined[] = {"-lauto", "--lcores=auto"};

	for (int i = 1; i < eal->argc; i++) {
		for (size_t k = 0; k < SPW_ARRAY_CNT(joined); k++)
			if (!strcmp(eal->argv[i], joined[k])) {
				*before = k ? "--lcores=" : "-l";
				return &eal->argv[i];
			}
		if (!strcmp(eal->argv[i], "auto") &&
		    (!strcmp(eal->argv[i - 1], "-l") || !strcmp(eal->argv[i - 1], "--lcores"))) {
			*before = "";
			return &eal->argv[i];
		}
	}
	return NULL;
}

/* Only the choice of cores needs the facts of hwloc, which take time to read. */
bool app_lcores_are_auto(const struct app_eal *eal)
{
	const char *before;

	return auto_arg((struct app_eal *)(uintptr_t)eal, &before) != NULL;
}

/* -l takes a core's number as the lcore's, which DPDK bounds by RTE_MAX_LCORE. */
static bool all_are_lcores(const uint32_t *cpu, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (cpu[i] >= RTE_MAX_LCORE)
			return false;
	return true;
}

/* "0,16,17", or, with numbers that this DPDK has no lcores for, "0@0,1@200,2@201". */
static int list_make(const uint32_t *cpu, uint32_t cnt, char *out, size_t bytes)
{
	bool plain = all_are_lcores(cpu, cnt);
	size_t used = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		if (cpu[i] >= CPU_SETSIZE)
			return spw_err(ENOENT,
				       "core %u is chosen, and DPDK's sets of cores end at %u; "
				       "give this process others (taskset, cpuset)",
				       cpu[i], CPU_SETSIZE - 1);
		used += (size_t)snprintf(out + used, bytes - used, plain ? "%s%u" : "%s%u@%u",
					 i ? "," : "", plain ? cpu[i] : i, cpu[i]);
	}
	return 0;
}

/* Puts the list in place of "auto"; -l takes no "@", so the option is --lcores then. */
static void list_put(struct app_eal *eal, char **arg, const char *before, const char *list)
{
	static char joined[LIST_BYTES + 16], lcores[] = "--lcores";
	bool at = strchr(list, '@') != NULL;

	snprintf(joined, sizeof(joined), "%s%s", at && !strcmp(before, "-l") ? "--lcores=" : before,
		 list);
	*arg = joined;
	if (at && before[0] == '\0')
		eal->argv[arg - eal->argv - 1] = lcores;
}

/* The strings are static: EAL's argv points to them. */
int app_lcores_choose(struct app_eal *eal, const struct spw_plat *plat, uint32_t worker_cnt,
		      const char *nic)
{
	static char list[LIST_BYTES], main_lcore[32];
	const struct spw_plat_pick pick = {.cnt = worker_cnt + 1, .nic = nic};
	static uint32_t cpu[SPW_PLAT_CORE_MAX];
	const char *before;
	char **arg = auto_arg(eal, &before);
	int rc;

	if (!arg)
		return 0;
	if (pick.cnt > RTE_MAX_LCORE || eal->argc >= APP_EAL_ARG_MAX - 1)
		return spw_err(EINVAL, "too many lcores or EAL arguments");
	if ((rc = spw_plat_pick(plat, &pick, cpu)) < 0 ||
	    (rc = list_make(cpu, pick.cnt, list, sizeof(list))) < 0)
		return rc;
	snprintf(main_lcore, sizeof(main_lcore), "--main-lcore=%u", strchr(list, '@') ? 0 : cpu[0]);
	list_put(eal, arg, before, list);
	eal->argv[eal->argc++] = main_lcore;
	spw_info("cores: auto stands for %s %s %s", strchr(list, '@') ? "--lcores" : "-l", list,
		 main_lcore);
	return 0;
}

/* One line for all lcores, as the remedy is one. */
void app_lcores_warn(const struct spw_plat *plat, const uint32_t *lcore_id, uint32_t cnt)
{
	char text[256] = "", one[96];
	size_t used = 0;

	for (uint32_t i = 0; i < cnt && used < sizeof(text); i++)
		if (spw_plat_core_blame(plat, app_lcore_cpu(lcore_id[i]), one, sizeof(one)))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? ", " : "", one);
	if (text[0])
		spw_advise("cores-shared: %s: other threads and timer interrupts will stop the "
			   "loop; isolate fast cores (isolcpus=, nohz_full=, rcu_nocbs=), and take "
			   "them with --lcores auto",
			   text);
}
