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
#include "unit_machine.h"

/* more: further files of that machine (unit_json). */
static inline void machine_with(const char *name, const char *more, struct perf_end *end)
{
	const struct spw_plat_from no_libs = {.cuda_lib = "", .nvml_lib = ""};
	struct spw_plat *plat;

	assert_int_equal(unit_machine(name, more, no_libs, &plat), 0);
	perf_facts_take(plat, end);
	snprintf(end->host, sizeof(end->host), "%s", name);
	spw_plat_free(plat);
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
