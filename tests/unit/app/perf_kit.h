/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the tests of spinwire-perf share: the facts of a recorded machine. main sets platforms, the
 * folder of the recordings.
 */
#ifndef PERF_KIT_H
#define PERF_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/pair.h"
#include "unit_file.h"

static const char *platforms;

/* more: further files of that machine. */
static inline void machine_with(const char *name, const char *more, struct perf_end *end)
{
	struct spw_plat_from from = {.cuda_lib = "", .nvml_lib = ""};
	struct spw_plat *plat;
	char *text = unit_file_text("%s/%s.tree", platforms, name);

	from.text[0] = text;
	from.text_bytes[0] = strlen(text);
	from.name[0] = name;
	from.text[1] = more;
	from.text_bytes[1] = strlen(more);
	from.name[1] = "more";
	assert_int_equal(spw_plat_read(&from, &plat), 0);
	perf_facts_take(plat, end);
	snprintf(end->host, sizeof(end->host), "%s", name);
	spw_plat_free(plat);
	free(text);
}

static inline void machine(const char *name, struct perf_end *end)
{
	machine_with(name, "", end);
}

/* The second of two machines: other addresses, another card. */
static inline void another(struct perf_end *end)
{
	snprintf(end->host, sizeof(end->host), "peer");
	for (uint32_t i = 0; i < end->nic_cnt; i++) {
		end->nic[i].guid[0] = 'f';
		if (end->nic[i].ip[0])
			end->nic[i].ip[strlen(end->nic[i].ip) - 1] = '9';
	}
}

#endif
