/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lists of cores as text: "2,4-7". Used by options of lcores and executor cores, in files and on
 * the command line alike. Whether a core exists or is free is not known here.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "opt/spw_opt.h"

#define CORE_NUMBER_MAX 1023u

static int cores_refuse(const char *text)
{
	return spw_err(EINVAL, "'%.64s' is not allowed; allowed: " SPW_OPT_CORES_RANGE, text);
}

/* Decimal core number at *text, which then points behind it. */
static bool cores_number_read(const char **text, uint32_t *core_out)
{
	const char *at = *text;
	uint32_t core = 0;

	for (; *at >= '0' && *at <= '9' && core <= CORE_NUMBER_MAX; at++)
		core = core * 10 + (uint32_t)(*at - '0');
	if (at == *text || core > CORE_NUMBER_MAX)
		return false;
	*text = at;
	*core_out = core;
	return true;
}

/* Adds to what the list has, so that a YAML list can be given item by item. */
int spw_opt_cores(const char *text, uint32_t *core, uint32_t max, uint32_t *cnt)
{
	for (const char *at = text;; at++) {
		uint32_t first, last;

		if (!cores_number_read(&at, &first))
			return cores_refuse(text);
		last = first;
		if (*at == '-' && (at++, !cores_number_read(&at, &last) || last < first))
			return cores_refuse(text);
		for (uint32_t one = first; one <= last; one++) {
			if (*cnt == max)
				return spw_err(EINVAL, "more than %u cores", max);
			core[(*cnt)++] = one;
		}
		if (*at == '\0')
			return 0;
		if (*at != ',')
			return cores_refuse(text);
	}
}
