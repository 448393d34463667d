/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The dictionaries of an answer (live/dict.h), over what DPDK's versions have in common.
 *
 * An answer is one dictionary of at most 256 places, 16 KiB as text; what does not fit, or has a
 * name with other characters than letters, digits, '_' and '/', DPDK refuses. A refusal leaves the
 * rest of the answer as it is, is counted, and logged once an answer by telemetry.c. All calls are
 * made under the lock of telemetry.c, so the count needs no atomics.
 *
 * Source: rte_telemetry.h.
 */
#include <stdio.h>
#include <string.h>

#include <rte_version.h>

#include "live/dict.h"

uint32_t app_dict_refused; /* set to 0 by telemetry.c before each answer */

/* DPDK 23.03 renamed the call. */
void app_dict_add(struct rte_tel_data *d, const char *name, uint64_t v)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	app_dict_refused += rte_tel_data_add_dict_uint(d, name, v) != 0;
#else
	app_dict_refused += rte_tel_data_add_dict_u64(d, name, v) != 0;
#endif
}

/* DPDK copies the text. */
void app_dict_add_text(struct rte_tel_data *d, const char *name, const char *text)
{
	app_dict_refused += rte_tel_data_add_dict_string(d, name, text) != 0;
}

/* A path that is longer than DPDK's texts is left out: half of it names nothing. */
void app_dict_add_path(struct rte_tel_data *d, const char *name, const char *path)
{
	app_dict_add_text(d, name, path && strlen(path) < RTE_TEL_MAX_STRING_LEN ? path : "");
}

/* A new dictionary for add_dict; NULL without memory. */
struct rte_tel_data *app_dict_new(void)
{
	struct rte_tel_data *dict = rte_tel_data_alloc();

	if (dict)
		rte_tel_data_start_dict(dict);
	else
		app_dict_refused++;
	return dict;
}

/* DPDK owns the dictionary, unless it refuses the name: then it is freed here. */
void app_dict_add_dict(struct rte_tel_data *d, const char *name, struct rte_tel_data *dict)
{
	if (rte_tel_data_add_dict_container(d, name, dict, 0) == 0)
		return;
	app_dict_refused++;
	rte_tel_data_free(dict);
}

/* Joined, as a path of the summary: one name may stand for two counters, no_slot is a drop and an
 * error. */
void app_dict_add_as(struct rte_tel_data *d, const char *kind, const char *name, uint64_t v)
{
	char key[64];

	snprintf(key, sizeof(key), "%s_%s", kind, name);
	app_dict_add(d, key, v);
}

/* As the summary names a time. */
void app_dict_add_ns(struct rte_tel_data *d, const char *name, uint64_t v)
{
	app_dict_add_as(d, name, "ns", v);
}
