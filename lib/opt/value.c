/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One text, one option, one field: the checks that a file, the command line and defaults share.
 *
 * spw_opt_set finds the field by the option's offset in its struct and writes it by kind. A refusal
 * lists what is allowed, from the same table that --help prints; the caller puts the place in
 * front.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "opt/spw_opt.h"

static const struct value_unit {
	uint64_t factor;
	const char *name;
} value_time[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}},
  value_bytes[] = {{1u << 30, "GiB"}, {1u << 20, "MiB"}, {1u << 10, "KiB"}, {1, "B"}},
  value_rate[] = {{1000000000, "Gpps"}, {1000000, "Mpps"}, {1000, "kpps"}, {1, "pps"}},
  value_bits[] = {{1000000000, "Gbps"}, {1000000, "Mbps"}, {1000, "kbps"}, {1, "bps"}},
  value_none[] = {{1, ""}};

/* How a kind is read, and the units that its values are printed in, largest first. */
static const struct {
	enum spw_opt_unit unit;
	const struct value_unit *shown;
} value_kind[] = {
	[SPW_OPT_NUMBER] = {SPW_OPT_UNIT_NONE, value_none},
	[SPW_OPT_BYTES] = {SPW_OPT_UNIT_BYTES, value_bytes},
	[SPW_OPT_TIME] = {SPW_OPT_UNIT_NS, value_time},
	[SPW_OPT_RATE] = {SPW_OPT_UNIT_PPS, value_rate},
	[SPW_OPT_BITS] = {SPW_OPT_UNIT_BPS, value_bits},
};

/* A quantity as a person would write it: with the largest unit that divides it. */
static void value_text(enum spw_opt_kind kind, uint64_t value, char *out, size_t bytes)
{
	const struct value_unit *unit = value_kind[kind].shown;

	while (value % unit->factor)
		unit++;
	snprintf(out, bytes, "%" PRIu64 "%s", value / unit->factor, value ? unit->name : "");
}

/* The largest value of a number: max, or what the field can hold. */
static uint64_t value_max(const struct spw_opt *opt)
{
	if (opt->max)
		return opt->max;
	return opt->bytes >= sizeof(uint64_t) ? UINT64_MAX : (1ull << (8 * opt->bytes)) - 1;
}

static const char *choice_name(uint32_t idx, const void *arg)
{
	return ((const struct spw_opt *)arg)->choice(idx);
}

static uint32_t choice_cnt(const struct spw_opt *opt)
{
	uint32_t cnt = 0;

	while (opt->choice(cnt))
		cnt++;
	return cnt;
}

/* Where 0 means "the driver's choice" it is named beside the powers of 2. */
static void number_range(const struct spw_opt *opt, char *out, size_t bytes)
{
	bool or_zero = (opt->demands & SPW_OPT_POW2) && !opt->min;
	char low[32], high[32];

	value_text(opt->kind, opt->min, low, sizeof(low));
	value_text(opt->kind, value_max(opt), high, sizeof(high));
	snprintf(out, bytes, "%s%s .. %s%s", or_zero ? "0 or " : "", or_zero ? "1" : low, high,
		 opt->demands & SPW_OPT_POW2          ? ", a power of 2"
		 : opt->demands & SPW_OPT_MULTIPLE_64 ? ", a multiple of 64"
						      : "");
}

/* The same text in --help, in the man page and in a refusal. */
void spw_opt_range(const struct spw_opt *opt, char *out, size_t bytes)
{
	out[0] = '\0';
	switch (opt->kind) {
	case SPW_OPT_BOOL:
		snprintf(out, bytes, "yes, no");
		break;
	case SPW_OPT_CHOICE:
		spw_opt_join(out, bytes, choice_cnt(opt), choice_name, opt);
		break;
	case SPW_OPT_TEXT:
		snprintf(out, bytes, "%" PRIu64 " .. %" PRIu64 " characters", opt->min, opt->max);
		break;
	case SPW_OPT_FLAG:
		break;
	case SPW_OPT_OWN:
	case SPW_OPT_STRING:
		snprintf(out, bytes, "%s", opt->range ? opt->range : "");
		break;
	default:
		number_range(opt, out, bytes);
	}
}

/* The text is cut: it may be long. */
static int value_refuse(const struct spw_opt *opt, const char *text)
{
	char range[160];

	spw_opt_range(opt, range, sizeof(range));
	return spw_err(EINVAL, "'%.64s' is not allowed; allowed: %s", text, range);
}

/* The table has the size of the field; the range was checked against it. */
static void number_store(void *field, uint32_t bytes, uint64_t value)
{
	if (bytes == sizeof(uint64_t))
		*(uint64_t *)field = value;
	else if (bytes == sizeof(uint32_t))
		*(uint32_t *)field = (uint32_t)value;
	else
		*(uint16_t *)field = (uint16_t)value;
}

/* "0" needs no unit. What spw_opt_quantity rejects as too large for 64 bits, and a negative number,
 * get the option's own range as their message. */
static int number_set(const struct spw_opt *opt, void *field, const char *text)
{
	uint64_t bare = opt->kind == SPW_OPT_NUMBER ? 1 : opt->bare_unit, value = 0;
	int rc = strcmp(text, "0")
			 ? spw_opt_quantity(text, value_kind[opt->kind].unit, bare, &value)
			 : 0;

	if (rc == -ERANGE || (text[0] == '-' && text[1] >= '0' && text[1] <= '9'))
		return value_refuse(opt, text);
	if (rc)
		return rc;
	if (!spw_in_range(value, opt->min, value_max(opt)) ||
	    (opt->demands & SPW_OPT_POW2 && (value & (value - 1)) != 0) ||
	    (opt->demands & SPW_OPT_MULTIPLE_64 && value % 64))
		return value_refuse(opt, text);
	number_store(field, opt->bytes, value);
	return 0;
}

static int bool_set(const struct spw_opt *opt, bool *field, const char *text)
{
	static const char *const word[] = {"no", "yes", "false", "true", "off", "on"};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(word); i++) {
		if (strcmp(text, word[i]) == 0) {
			*field = i & 1;
			return 0;
		}
	}
	return value_refuse(opt, text);
}

/* max is less than the field's size: there is room for the 0. */
static int text_set(const struct spw_opt *opt, char *field, const char *text)
{
	size_t len = strlen(text);

	if (len < opt->min || len > opt->max)
		return value_refuse(opt, text);
	memcpy(field, text, len + 1);
	return 0;
}

/* A script's variable that is not set makes an empty text, which would pass as no option at all. */
static int string_set(const struct spw_opt *opt, const char **field, const char *text)
{
	if (!text[0])
		return spw_err(EINVAL, "'' is not allowed; it takes a %s",
			       opt->value ? opt->value : "text");
	*field = text;
	return 0;
}

/* The index in the list of names is the value. A field of a choice has the size of an enum. */
static int choice_set(const struct spw_opt *opt, void *field, const char *text)
{
	const char *name;
	int rc;

	for (uint32_t i = 0; (name = opt->choice(i)); i++) {
		if (strcmp(text, name) == 0) {
			memcpy(field, &i, sizeof(i));
			return 0;
		}
	}
	rc = opt->refused ? opt->refused(text) : 0;
	return rc ? rc : value_refuse(opt, text);
}

/* OWN options check and store by themselves. */
int spw_opt_set(const struct spw_opt *opt, void *base, const char *text)
{
	void *field = (char *)base + opt->offset;

	switch (opt->kind) {
	case SPW_OPT_BOOL:
		return bool_set(opt, field, text);
	case SPW_OPT_FLAG:
		*(bool *)field = true;
		return 0;
	case SPW_OPT_TEXT:
		return text_set(opt, field, text);
	case SPW_OPT_STRING:
		return string_set(opt, field, text);
	case SPW_OPT_CHOICE:
		return choice_set(opt, field, text);
	case SPW_OPT_OWN:
		return opt->set(field, text);
	default:
		return number_set(opt, field, text);
	}
}

/* Defaults pass the same checks as a user's text, so a wrong table is found at the first start. */
int spw_opt_defaults(const struct spw_opt *opt, uint32_t cnt, void *base)
{
	int rc = 0;

	for (uint32_t i = 0; i < cnt && rc == 0; i++)
		if (opt[i].dflt && opt[i].dflt[0])
			rc = spw_opt_set(&opt[i], base, opt[i].dflt);
	return rc;
}
