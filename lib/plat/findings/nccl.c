/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings about NCCL: a file of it that is known to hang, ranks that are not alike, settings that
 * are known to break (findings.c has the rules).
 *
 * Which processes are ranks of one job is not known; those of one parent are compared, as torchrun,
 * mpirun and vLLM start them. What may differ from rank to rank is left out: files, addresses and
 * devices, what is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/findings.h"

#define GCC_GOOD                                                                         \
	10 /* the first that compiles the proxy's exchange without the fault, by reports \
	    */

/* ---- variables ---- */

/* The value of a variable in lines of "NAME=VALUE", up to the end of its line; NULL: not set. */
static const char *nccl_value(const char *lines, const char *name, size_t bytes)
{
	for (const char *at = lines; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
		if (!strncmp(at, name, bytes) && at[bytes] == '=')
			return at + bytes + 1;
	return NULL;
}

/* The environment holds before the files. Returns: -1: not set. */
static int64_t nccl_setting(const struct spw_plat_nccl *nccl, const char *name)
{
	const char *value = nccl_value(nccl->env, name, strlen(name));

	value = value ? value : nccl_value(nccl->set, name, strlen(name));
	return value ? strtoll(value, NULL, 10) : -1;
}

/* "process 4711 has", "a program started here would have". */
static const char *nccl_who(const struct spw_plat_nccl *nccl, char out[48])
{
	if (!strcmp(nccl->id, "self"))
		return "a program started here would have";
	snprintf(out, 48, "process %.15s has", nccl->id);
	return out;
}

static bool nccl_may_differ(const char *line, size_t bytes)
{
	static const char *const word[] = {"_FILE", "_IFNAME", "_HCA",    "HOSTID",
					   "DEBUG", "_REPORT", "_DEVICE", "_RANK"};

	for (size_t i = 0; i < SPW_ARRAY_CNT(word); i++)
		if (memmem(line, bytes, word[i], strlen(word[i])))
			return true;
	return false;
}

/* ---- judges ---- */

/* 2.28.9 and 2.29.2 exchange the list of free operations by a compare-and-swap that may fail for no
 * reason. Sources: NVIDIA/nccl issue 2353; its fix is in 2.29.3. */
static void nccl_version_judge(struct spw_plat *plat, const struct spw_plat_nccl *nccl)
{
	char who[48];

	if (strcmp(plat->arch, "aarch64") || !nccl->version || !nccl->path ||
	    (strcmp(nccl->version, "2.28.9") && strcmp(nccl->version, "2.29.2")))
		return;
	if (nccl->gcc && nccl->gcc < GCC_GOOD)
		plat_find(plat, NCCL_HANG_OLD_GCC, nccl_who(nccl, who), nccl->path, nccl->version,
			  nccl->gcc);
	else
		plat_find(plat, NCCL_HANG_VERSION, nccl_who(nccl, who), nccl->path, nccl->version);
}

static void nccl_conf_judge(struct spw_plat *plat, const struct spw_plat_nccl *nccl)
{
	static const char gid[] = "NCCL_IB_GID_INDEX";
	char who[48];

	if (nccl_setting(nccl, "NCCL_IB_USE_INLINE") == 1 &&
	    nccl_setting(nccl, "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS") == 1)
		plat_find(plat, NCCL_CONF_INLINE, nccl_who(nccl, who));
	if (nccl_value(nccl->set, gid, strlen(gid)) && nccl_setting(nccl, gid) >= 0)
		plat_find(plat, NCCL_CONF_GID, nccl_who(nccl, who), nccl_setting(nccl, gid));
}

static bool nccl_text_differs(const char *a, const char *b)
{
	return a && b && strcmp(a, b);
}

/* The first variable of a that b lacks, or has with another value. */
static bool nccl_variable_judge(struct spw_plat *plat, const struct spw_plat_nccl *a,
				const struct spw_plat_nccl *b)
{
	for (const char *at = a->env; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		const size_t line = strcspn(at, "\n"), n = SPW_MIN(strcspn(at, "="), line);
		const char *value = nccl_value(b->env, at, n);
		char mine[96], its[96];

		if (nccl_may_differ(at, n) || (value && strcspn(value, "\n") + n + 1 == line &&
					       !strncmp(value, at + n + 1, line - n - 1)))
			continue;
		snprintf(mine, sizeof(mine), "%.*s", (int)line, at);
		snprintf(its, sizeof(its), value ? "has %.*s" : "has it not set",
			 value ? (int)(strcspn(value, "\n") + n + 1) : 0,
			 value ? value - n - 1 : "");
		plat_find(plat, NCCL_DIFFER_VARIABLE, a->id, mine, b->id, its, a->id);
		return true;
	}
	return false;
}

/* The first two that differ are enough: the same cause makes all others differ. */
static bool nccl_pair_judge(struct spw_plat *plat, const struct spw_plat_nccl *a,
			    const struct spw_plat_nccl *b)
{
	if (nccl_text_differs(a->build_id, b->build_id) ||
	    nccl_text_differs(a->version, b->version)) {
		plat_find(plat, NCCL_DIFFER_FILE, a->id, a->version ? a->version : "?",
			  a->build_id ? a->build_id : "?", b->id, b->version ? b->version : "?",
			  b->build_id ? b->build_id : "?", a->id, b->id);
		return true;
	}
	return nccl_variable_judge(plat, a, b) || nccl_variable_judge(plat, b, a);
}

static bool nccl_has_equal(const struct spw_plat *plat, uint32_t idx)
{
	for (uint32_t i = 0; i < idx; i++)
		if (!nccl_text_differs(plat->nccl[i].path, plat->nccl[idx].path) &&
		    !nccl_text_differs(plat->nccl[i].set, plat->nccl[idx].set))
			return true;
	return false;
}

/* Of ranks with one file of NCCL and the same settings the first is named. */
void plat_nccl_judge(struct spw_plat *plat)
{
	bool differ = false;

	for (uint32_t i = 0; i < plat->nccl_cnt; i++) {
		const struct spw_plat_nccl *nccl = &plat->nccl[i];

		if (!nccl_has_equal(plat, i)) {
			nccl_version_judge(plat, nccl);
			nccl_conf_judge(plat, nccl);
		}
		if (nccl->library_cnt > 1)
			plat_find(plat, NCCL_DIFFER_TWICE, nccl->id, nccl->library_cnt, nccl->id);
		for (uint32_t k = i + 1; k < plat->nccl_cnt && !differ; k++)
			if (nccl->parent > 1 && nccl->parent == plat->nccl[k].parent)
				differ = nccl_pair_judge(plat, nccl, &plat->nccl[k]);
	}
}
