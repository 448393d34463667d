/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lists of cores as text: "2,4-7".
 */
#include <errno.h>

#include "base/spw_err.h"
#include "conf/conf_impl.h"

#define CORE_NUMBER_MAX 1023u

static int cores_refuse(const char *text)
{
	return spw_err(EINVAL, "'%.64s' is not allowed; allowed: " CONF_CORES_RANGE, text);
}

/* Decimal core number at *text, which then points behind it. */
static bool core_read(const char **text, uint32_t *core_out)
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

/* Adds, because a YAML list arrives one item at a time. "4-7" is a range, both ends included. */
int conf_cores_add(void *field, const char *text)
{
	struct spw_conf_cores *cores = field;
	const char *at = text;

	for (;; at++) {
		uint32_t first, last;

		if (!core_read(&at, &first))
			return cores_refuse(text);
		last = first;
		if (*at == '-' && (at++, !core_read(&at, &last) || last < first))
			return cores_refuse(text);
		for (uint32_t core = first; core <= last; core++) {
			if (cores->cnt == SPW_CONF_CORE_MAX)
				return spw_err(EINVAL, "more than %u cores", SPW_CONF_CORE_MAX);
			cores->core[cores->cnt++] = core;
		}
		if (*at == '\0')
			return 0;
		if (*at != ',')
			return cores_refuse(text);
	}
}
