/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One text, one key, one field: the checks that the file and the command line share.
 *
 * conf_value_set finds the field by the key's offset in its struct and writes it by type. A refusal
 * lists what is allowed, from the same table that --help prints; the caller puts the place in
 * front.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "conf/conf_impl.h"

#define CORE_NUMBER_MAX 1023u

static enum spw_conf_unit unit_of(const struct conf_key *key)
{
	return key->type == CONF_BYTES  ? SPW_CONF_BYTES
	       : key->type == CONF_TIME ? SPW_CONF_TIME_NS
					: SPW_CONF_NONE;
}

/* A quantity as a person would write it: with the largest unit that divides it. */
static void quantity_text(uint64_t value, enum spw_conf_unit unit, char *out, size_t bytes)
{
	static const struct {
		uint64_t factor;
		const char *name;
	} time_unit[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}},
	  byte_unit[] = {{1u << 30, "GiB"}, {1u << 20, "MiB"}, {1u << 10, "KiB"}, {1, "B"}};
	uint32_t i = 0;

	if (unit == SPW_CONF_NONE || value == 0) {
		snprintf(out, bytes, "%" PRIu64, value);
		return;
	}
	while (value % (unit == SPW_CONF_BYTES ? byte_unit[i].factor : time_unit[i].factor))
		i++;
	if (unit == SPW_CONF_BYTES)
		snprintf(out, bytes, "%" PRIu64 "%s", value / byte_unit[i].factor,
			 byte_unit[i].name);
	else
		snprintf(out, bytes, "%" PRIu64 "%s", value / time_unit[i].factor,
			 time_unit[i].name);
}

static const char *choice_name(uint32_t idx, const void *arg)
{
	return ((const struct conf_key *)arg)->choice(idx);
}

static uint32_t choice_cnt(const struct conf_key *key)
{
	uint32_t cnt = 0;

	while (key->choice(cnt))
		cnt++;
	return cnt;
}

void conf_range_text(const struct conf_key *key, char *out, size_t bytes)
{
	char low[32], high[32];

	out[0] = '\0';
	switch (key->type) {
	case CONF_BOOL:
		snprintf(out, bytes, "yes, no");
		break;
	case CONF_CHOICE:
		conf_join(out, bytes, choice_cnt(key), choice_name, key);
		break;
	case CONF_CORES:
		snprintf(out, bytes, "core numbers 0 .. %u, as 2,4-7", CORE_NUMBER_MAX);
		break;
	case CONF_TEXT:
		snprintf(out, bytes, "%" PRIu64 " .. %" PRIu64 " characters", key->min, key->max);
		break;
	default:
		quantity_text(key->min, unit_of(key), low, sizeof(low));
		quantity_text(key->max, unit_of(key), high, sizeof(high));
		snprintf(out, bytes, "%s%s .. %s%s",
			 key->demands & CONF_POW2 && !key->min ? "0 or " : "",
			 key->demands & CONF_POW2 && !key->min ? "1" : low, high,
			 key->demands & CONF_POW2            ? ", a power of 2"
			 : key->demands & CONF_LINE_MULTIPLE ? ", a multiple of 64"
							     : "");
	}
}

/* The text is cut: it may be long. */
static int refuse(const struct conf_key *key, const char *text)
{
	char range[128];

	conf_range_text(key, range, sizeof(range));
	return spw_err(EINVAL, "'%.64s' is not allowed; allowed: %s", text, range);
}

/* "0" needs no unit. What spw_conf_quantity rejects as too large for 64 bits gets the key's own
 * range as its message. */
static int number_set(const struct conf_key *key, char *field, const char *text)
{
	uint64_t bare = key->type == CONF_TIME    ? key->bare_unit
			: key->type == CONF_BYTES ? 0
						  : 1,
		 value;
	int rc = spw_conf_quantity(text, unit_of(key), bare, &value);
	uint32_t narrow;

	if (rc == -EINVAL && strcmp(text, "0") == 0) { /* nothing needs no unit */
		value = 0;
		rc = 0;
	}
	if (rc == -ERANGE)
		return refuse(key, text);
	if (rc)
		return rc;
	if (value < key->min || value > key->max ||
	    (key->demands & CONF_POW2 && (value & (value - 1)) != 0) ||
	    (key->demands & CONF_LINE_MULTIPLE && value % SPW_CACHE_LINE))
		return refuse(key, text);
	narrow = (uint32_t)value;
	if (key->bytes == sizeof(uint64_t))
		memcpy(field, &value, sizeof(value));
	else
		memcpy(field, &narrow, sizeof(narrow));
	return 0;
}

static int bool_set(const struct conf_key *key, char *field, const char *text)
{
	static const char *const word[] = {"no", "yes", "false", "true", "off", "on"};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(word); i++) {
		if (strcmp(text, word[i]) == 0) {
			*(bool *)field = i & 1;
			return 0;
		}
	}
	return refuse(key, text);
}

/* The field holds max + 1 characters (keys.c has the sizes). */
static int text_set(const struct conf_key *key, char *field, const char *text)
{
	size_t len = strlen(text);

	if (len < key->min || len > key->max)
		return refuse(key, text);
	memcpy(field, text, len + 1);
	return 0;
}

/* The index in the list of names is the value: enums begin at 0 and have no gaps. A field of a
 * choice has the size of an enum. */
static int choice_set(const struct conf_key *key, char *field, const char *text)
{
	const char *name;
	int rc;

	for (uint32_t i = 0; (name = key->choice(i)); i++) {
		if (strcmp(text, name) == 0) {
			memcpy(field, &i, sizeof(i));
			return 0;
		}
	}
	rc = key->refused ? key->refused(text) : 0;
	return rc ? rc : refuse(key, text);
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
static int cores_add(const struct conf_key *key, char *field, const char *text)
{
	struct spw_conf_cores *cores = (struct spw_conf_cores *)(void *)field;
	const char *at = text;

	for (;; at++) {
		uint32_t first, last;

		if (!core_read(&at, &first))
			return refuse(key, text);
		last = first;
		if (*at == '-' && (at++, !core_read(&at, &last) || last < first))
			return refuse(key, text);
		for (uint32_t core = first; core <= last; core++) {
			if (cores->cnt == SPW_CONF_CORE_MAX)
				return spw_err(EINVAL, "more than %u cores", SPW_CONF_CORE_MAX);
			cores->core[cores->cnt++] = core;
		}
		if (*at == '\0')
			return 0;
		if (*at != ',')
			return refuse(key, text);
	}
}

int conf_value_set(const struct conf_key *key, void *base, const char *text)
{
	char *field = (char *)base + key->offset;

	switch (key->type) {
	case CONF_BOOL:
		return bool_set(key, field, text);
	case CONF_TEXT:
		return text_set(key, field, text);
	case CONF_CHOICE:
		return choice_set(key, field, text);
	case CONF_CORES:
		return cores_add(key, field, text);
	default:
		return number_set(key, field, text);
	}
}
