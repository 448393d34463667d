/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Arguments of EAL, and limits of this process, that are met in rte_eal_init (app_limits.h). EAL
 * answers an argument that it cannot read with its whole usage text. It binds its threads to the
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

/* What -l, --lcores and -c name: lcores by EAL's numbers, cores by the kernel's. */
struct sets {
	bool lcore[SPW_PLAT_CORE_MAX], core[SPW_PLAT_CORE_MAX];
};

/* A set of numbers, "(2,3)" or "2", is added to set. Returns: whether it is one. */
static bool numbers_add(const char *text, size_t bytes, bool *set)
{
	bool these[SPW_PLAT_CORE_MAX] = {false};
	char list[512];
	size_t n = 0;

	for (const char *c = text; c < text + bytes && n < sizeof(list) - 1; c++)
		if (!strchr("() ", *c))
			list[n++] = *c;
	list[n] = '\0';
	if (!n || list[n - 1] == ',' || spw_plat_list_parse(list, these, SPW_PLAT_CORE_MAX) <= 0)
		return false;
	for (uint32_t i = 0; i < SPW_PLAT_CORE_MAX; i++)
		set[i] |= these[i];
	return true;
}

/* One element, "(2,3)@(8,9)"; without "@" lcores and cores have the same numbers. */
static bool element_add(const char *text, size_t bytes, struct sets *sets)
{
	const char *at = memchr(text, '@', bytes);
	size_t head = at ? (size_t)(at - text) : bytes;

	return numbers_add(text, head, sets->lcore) &&
	       numbers_add(at ? at + 1 : text, at ? bytes - head - 1 : bytes, sets->core);
}

/* Elements end at commas outside of brackets. Returns: whether it is a list of EAL's form. */
static bool lcores_add(const char *text, struct sets *sets)
{
	bool good = true;

	do {
		size_t n = 0;
		int depth = 0;

		for (; text[n] && (text[n] != ',' || depth); n++)
			depth += text[n] == '(' ? 1 : text[n] == ')' ? -1 : 0;
		good &= element_add(text, n, sets) && !depth;
		text += n;
	} while (*text++ == ',');
	return good;
}

/* From the last digit on: bit 0 of the mask is core 0. Returns: whether it is a mask, with a bit
 * that is set. */
static bool mask_add(const char *text, bool *set)
{
	size_t skip = strncmp(text, "0x", 2) && strncmp(text, "0X", 2) ? 0 : 2;
	size_t n = strspn(text + skip, "0123456789abcdefABCDEF");

	for (size_t i = 0; i < n && 4 * i + 3 < SPW_PLAT_CORE_MAX; i++) {
		const char digit[2] = {text[skip + n - 1 - i], '\0'};
		unsigned long bits = strtoul(digit, NULL, 16);

		for (size_t b = 0; b < 4; b++)
			set[4 * i + b] |= bits >> b & 1;
	}
	return n && text[skip + n] == '\0' && strspn(text + skip, "0") < n;
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

/* Option i, if it names cores: they are added to sets. */
static int eal_option_cores(const struct app_eal *eal, int i, struct sets *sets)
{
	const char *list = app_limits_value_of(eal, i, "--lcores"),
		   *mask = app_limits_value_of(eal, i, "-c");
	const char *name = list ? "--lcores" : "-l";

	list = list ? list : app_limits_value_of(eal, i, "-l");
	if (list && strcmp(list, "auto") && !lcores_add(list, sets))
		return spw_err(EINVAL, "%s: '%s' is no list of cores, as 0-2,4%s", name, list,
			       name[1] == '-' ? " or 0@8,1@9" : "");
	if (list || !mask)
		return 0;
	if (!mask_add(mask, sets->core))
		return spw_err(EINVAL, "-c: '%s' is no mask of cores, as 0x13", mask);
	return mask_add(mask, sets->lcore) ? 0 : -EINVAL;
}

/* A main lcore must be one of those that are named; where none is, EAL decides. */
static int main_lcore_check(const char *text, const struct sets *sets)
{
	char *end, list[256];
	unsigned long id = strtoul(text, &end, 10);

	spw_plat_list_text(sets->lcore, SPW_PLAT_CORE_MAX, list, sizeof(list));
	if (*text && !*end && id < SPW_PLAT_CORE_MAX && (!list[0] || sets->lcore[id]))
		return 0;
	return spw_err(EINVAL, "--main-lcore: '%s' is none of the lcores%s%s", text,
		       list[0] ? " " : "", list);
}

static int eal_cores(const struct app_eal *eal, struct sets *sets)
{
	const char *text;
	int rc = 0;

	for (int i = 1; i < eal->argc && rc == 0; i++)
		rc = eal_option_cores(eal, i, sets);
	for (int i = 1; i < eal->argc && rc == 0; i++)
		if ((text = app_limits_value_of(eal, i, "--main-lcore")))
			rc = main_lcore_check(text, sets);
	return rc;
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

/* ---- the kind of process ---- */

/* EAL takes "--proc-type" in any shorter form too. A secondary process waits for a primary one that
 * would share its ports; "auto" makes a secondary one beside a program of the same prefix. */
static int proc_type_check(const struct app_eal *eal)
{
	for (int i = 1; i < eal->argc; i++) {
		const char *arg = eal->argv[i], *equal = strchr(arg, '=');
		const char *type = equal ? equal + 1 : i + 1 < eal->argc ? eal->argv[i + 1] : "";
		size_t n = strcspn(arg, "=");

		if (n > 2 && !strncmp(arg, "--proc-type", n) && strcmp(type, "primary"))
			return spw_err(EINVAL,
				       "--proc-type: '%s' is not allowed: this program is always a "
				       "primary process and shares no port with another; leave it "
				       "out, and give each program its own --file-prefix",
				       type);
	}
	return 0;
}

int app_limits_args(const struct app_eal *eal)
{
	struct sets sets = {0};
	int rc = proc_type_check(eal);

	return rc < 0 ? rc : eal_cores(eal, &sets);
}

int app_limits_check(const struct app_eal *eal)
{
	struct sets sets = {0};
	int rc = files_check();

	rc = rc < 0 ? rc : proc_type_check(eal);
	rc = rc < 0 ? rc : eal_cores(eal, &sets);
	return rc < 0 ? rc : cores_check(sets.core, "-l, --lcores");
}
