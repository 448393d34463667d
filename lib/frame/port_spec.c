/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Keys and values of a port's specification, as drivers read them (spw_port_spec.h). The text is
 * parsed by lib/port; the checks of a driver's own keys are here, so that rdma and peer share them.
 *
 *    mlx5:mlx5_0,mode=eth,udp=5357     driver : device , key=value , ...     a later key wins
 *
 * Drivers, lib/rdma and lib/peer call these when a port opens; lib/port has parsed the text before.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "frame/spw_port_spec.h"
#include "opt/spw_opt.h"

/* From the end: of a key that is given twice the last value counts. */
const char *spw_port_spec_find(const struct spw_port_spec *spec, const char *key)
{
	for (uint32_t i = spec->arg_cnt; i-- > 0;)
		if (!strcmp(spw_port_spec_key(spec, i), key))
			return spw_port_spec_value(spec, i);
	return NULL;
}

/* k, M, G; a rate may have "pps" behind, as in options. 0: not a suffix. */
static uint64_t spec_suffix_scale(const char *suffix, bool is_rate)
{
	static const struct {
		char name;
		uint64_t scale;
	} known[] = {{'k', 1000}, {'M', 1000000}, {'G', 1000000000}};

	uint64_t scale = 1;

	for (size_t i = 0; i < SPW_ARRAY_CNT(known) && scale == 1; i++)
		if (*suffix == known[i].name)
			scale = known[i].scale;
	suffix += scale > 1;
	return !*suffix || (is_rate && !strcmp(suffix, "pps")) ? scale : 0;
}

/* strtoull would accept a sign and leading space, so the first character is checked to be a digit.
 * Overflow of the number and of number times suffix are the same error as a value out of range. */
int spw_port_spec_u64(const struct spw_port_spec *spec, const char *key, uint64_t dflt,
		      uint64_t min, uint64_t max, uint64_t *value_out)
{
	const char *text = spw_port_spec_find(spec, key);
	unsigned long long number;
	uint64_t scale, value;
	char *end;

	*value_out = dflt;
	if (!text)
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	scale = spec_suffix_scale(end, !strncmp(key, "rate", 4));
	if (end == text || *text < '0' || *text > '9' || !scale)
		return spw_err(EINVAL, "%s=%s is no number (suffixes: k, M, G)", key, text);
	if (errno || __builtin_mul_overflow(number, scale, &value) ||
	    !spw_in_range(value, min, max))
		return spw_err(ERANGE, "%s=%s is not in %" PRIu64 " .. %" PRIu64, key, text, min,
			       max);
	*value_out = value;
	return 0;
}

static const struct spw_port_key *keys_find(const struct spw_port_keys *keys, const char *name)
{
	for (uint32_t i = 0; i < keys->cnt; i++)
		if (!strcmp(keys->key[i].name, name))
			return &keys->key[i];
	return NULL;
}

/* A default in words begins with no digit. */
int spw_port_spec_number(const struct spw_port_spec *spec, const struct spw_port_keys *keys,
			 const char *name, uint64_t *value_out)
{
	const struct spw_port_key *key = keys_find(keys, name);
	uint64_t dflt = key->dflt ? strtoull(key->dflt, NULL, 10) : 0;

	return spw_port_spec_u64(spec, name, dflt, key->min, key->max, value_out);
}

const char *spw_port_keys_text(const struct spw_port_keys *const *sets, char *out, size_t bytes)
{
	size_t used = 0;

	for (out[0] = '\0'; *sets; sets++)
		for (uint32_t i = 0; i < (*sets)->cnt && used < bytes; i++)
			used += (size_t)snprintf(out + used, bytes - used, "%s%s=%s",
						 used ? ", " : "", (*sets)->key[i].name,
						 (*sets)->key[i].value);
	return out;
}

/* Of all keys of all sets, in their order; NULL behind the last. */
static const char *keys_name_at(uint32_t idx, const void *arg)
{
	const struct spw_port_keys *const *set = arg;

	for (; *set; idx -= (*set)->cnt, set++)
		if (idx < (*set)->cnt)
			return (*set)->key[idx].name;
	return NULL;
}

static uint32_t keys_cnt(const struct spw_port_keys *const *set)
{
	uint32_t cnt = 0;

	for (; *set; set++)
		cnt += (*set)->cnt;
	return cnt;
}

static int key_unknown(const char *name, const struct spw_port_keys *const *sets)
{
	const char *nearest = spw_opt_nearest(name, keys_cnt(sets), keys_name_at, sets);
	char known[800];

	return nearest ? spw_err(EINVAL, "key '%s' is not known, did you mean '%s'?", name, nearest)
		       : spw_err(EINVAL, "key '%s' is not known; it takes %s", name,
				 spw_port_keys_text(sets, known, sizeof(known)));
}

/* A misspelt key would otherwise leave a default in place without a word. */
int spw_port_spec_check_keys(const struct spw_port_spec *spec,
			     const struct spw_port_keys *const *sets)
{
	for (uint32_t i = 0; i < spec->arg_cnt; i++) {
		const char *name = spw_port_spec_key(spec, i);
		const struct spw_port_keys *const *set = sets;

		while (*set && !keys_find(*set, name))
			set++;
		if (!*set)
			return key_unknown(name, sets);
	}
	return 0;
}
