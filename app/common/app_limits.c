/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Limits of this process that are met in rte_eal_init (app_limits.h). EAL binds its threads to the
 * cores of its arguments, whatever the affinity mask is; a core outside the cpuset is a panic.
 *
 *   --lcores 0-1,(2,3)@(8,9),4@10    a set of lcores, and after "@" the set of their cores
 *   -l 0-1,4                         both are the same
 *   -c 0x13                          the same, by bits
 *
 * Source: DPDK, EAL parameters (doc/guides/linux_gsg/eal_args.include.rst).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "app_limits.h"
#include "base/spw_err.h"
#include "plat/spw_plat.h"

#define FILES_MIN 64u   /* EAL alone opens about 20 */
#define FILES     1024u /* Linux's default */

/* ---- cores ---- */

/* One element, "(2,3)@(8,9)": the set after "@", or else the only one, without its brackets. */
static void element_add(const char *text, size_t bytes, bool *set)
{
	const char *at = memchr(text, '@', bytes);
	char list[512];
	size_t n = 0;

	for (const char *c = at ? at + 1 : text; c < text + bytes && n < sizeof(list) - 1; c++)
		if (!strchr("() ", *c))
			list[n++] = *c;
	list[n] = '\0';
	spw_plat_list_parse(list, set, SPW_PLAT_CORE_MAX);
}

/* Elements end at commas outside of brackets. */
static void lcores_add(const char *text, bool *set)
{
	while (*text) {
		size_t n = 0;

		for (int depth = 0; text[n] && (text[n] != ',' || depth); n++)
			depth += text[n] == '(' ? 1 : text[n] == ')' ? -1 : 0;
		element_add(text, n, set);
		text += n + (text[n] == ',');
	}
}

/* From the last digit on: bit 0 of the mask is core 0. */
static void mask_add(const char *text, bool *set)
{
	size_t skip = strncmp(text, "0x", 2) && strncmp(text, "0X", 2) ? 0 : 2;
	size_t n = strspn(text + skip, "0123456789abcdefABCDEF");

	for (size_t i = 0; i < n && 4 * i + 3 < SPW_PLAT_CORE_MAX; i++) {
		const char digit[2] = {text[skip + n - 1 - i], '\0'};
		unsigned long bits = strtoul(digit, NULL, 16);

		for (size_t b = 0; b < 4; b++)
			set[4 * i + b] |= bits >> b & 1;
	}
}

/* The value of EAL's option i, if that is name: joined, after "=", or the next argument. */
static const char *app_limits_value_of(const struct app_eal *eal, int i, const char *name)
{
	const char *arg = eal->argv[i];
	size_t n = strlen(name);

	if (strncmp(arg, name, n))
		return NULL;
	if (arg[n] == '\0')
		return i + 1 < eal->argc ? eal->argv[i + 1] : NULL;
	return name[1] == '-' ? (arg[n] == '=' ? arg + n + 1 : NULL) : arg + n;
}

/* The cores of every such option: one that is out of reach is a mistake wherever it stands. */
static void eal_cores(const struct app_eal *eal, bool *set)
{
	for (int i = 1; i < eal->argc; i++) {
		const char *list = app_limits_value_of(eal, i, "--lcores"),
			   *mask = app_limits_value_of(eal, i, "-c");

		list = list ? list : app_limits_value_of(eal, i, "-l");
		if (list)
			lcores_add(list, set);
		else if (mask)
			mask_add(mask, set);
	}
}

/* Returns: -ENOENT if a core of the set is none of those that the kernel accepts; 0 where it does
 * not say which it accepts. */
static int cores_check(const bool *set, const char *option)
{
	bool accepted[SPW_PLAT_CORE_MAX];
	char list[256];

	if (spw_plat_cores_accepted(accepted) == 0)
		return 0;
	spw_plat_list_text(accepted, SPW_PLAT_CORE_MAX, list, sizeof(list));
	for (uint32_t i = 0; i < SPW_PLAT_CORE_MAX; i++)
		if (set[i] && !accepted[i])
			return spw_err(ENOENT,
				       "%s: core %u is not among those that this process may use, "
				       "%s: name one of them, or --lcores auto; its cpuset: "
				       "cpuset.cpus of its control group, --cpuset-cpus of a "
				       "container, AllowedCPUs= of a unit",
				       option, i, list);
	return 0;
}

/* Cores of an option beside EAL's; numbers that no machine has are left to whoever pins. */
int app_limits_cores(const uint32_t *core, uint32_t cnt, const char *option)
{
	bool set[SPW_PLAT_CORE_MAX] = {false};

	for (uint32_t i = 0; i < cnt; i++)
		if (core[i] < SPW_PLAT_CORE_MAX)
			set[core[i]] = true;
	return cores_check(set, option);
}

/* ---- open files ---- */

/* The soft limit is raised as far as the hard one lets it, up to Linux's default. */
static int files_check(void)
{
	struct rlimit limit;

	/* A limit that cannot be read is not enforced here. */
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	if (limit.rlim_cur < FILES && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = SPW_MIN((rlim_t)FILES, limit.rlim_max);
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= FILES_MIN)
		return 0;
	return spw_err(EMFILE,
		       "this process may open %u files, and DPDK, ports and reports need %u or "
		       "more: ulimit -n %u (LimitNOFILE= of a unit, --ulimit nofile= of a "
		       "container)",
		       (uint32_t)limit.rlim_cur, FILES_MIN, FILES);
}

/* Files first: with too few of them reading the cores may fail as well. */
int app_limits_check(const struct app_eal *eal)
{
	bool set[SPW_PLAT_CORE_MAX] = {false};
	int rc = files_check();

	eal_cores(eal, set);
	return rc < 0 ? rc : cores_check(set, "-l, --lcores");
}
