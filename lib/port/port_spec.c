/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "DRIVER:DEVICE[,key=value]..." -> struct spw_port_spec.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/port_impl.h"

static int bad(const char *text, size_t pos, const char *what)
{
	return spw_err(EINVAL, "port '%.200s', character %zu: %s; a port is DRIVER:DEVICE[,key=value]... with driver %s",
		       text, pos + 1, what, spw_port_driver_names());
}

static int check_text(const char *text)
{
	size_t n = strlen(text);

	if (n >= sizeof(((struct spw_port_spec *)0)->text))
		return bad(text, sizeof(((struct spw_port_spec *)0)->text) - 1, "the text is too long");
	for (size_t i = 0; i < n; i++)
		if (text[i] < 0x20 || text[i] > 0x7e)
			return bad("", i, "not a printable ASCII character");
	return 0;
}

static int take_driver(struct spw_port_spec *spec, size_t *pos_out)
{
	const char *colon = strchr(spec->text, ':');
	size_t n = colon ? (size_t)(colon - spec->text) : strlen(spec->text);

	if (n >= sizeof(spec->driver))
		return bad(spec->text, 0, "the driver is not known");
	memcpy(spec->driver, spec->text, n);
	spec->driver[n] = '\0';
	if (!port_driver_find(spec->driver))
		return bad(spec->text, 0, "the driver is not known");
	*pos_out = colon ? n + 1 : n;
	return 0;
}

static int take_device(struct spw_port_spec *spec, size_t pos, size_t end)
{
	if (end - pos >= sizeof(spec->device))
		return bad(spec->text, pos, "the device name is too long");
	memcpy(spec->device, spec->text + pos, end - pos);
	spec->device[end - pos] = '\0';
	return 0;
}

/* text and store have the same offsets: store is text with its separators made into ends of strings. */
static int take_arg(struct spw_port_spec *spec, size_t pos, size_t end)
{
	const char *eq = memchr(spec->text + pos, '=', end - pos);

	if (!eq || eq == spec->text + pos)
		return bad(spec->text, pos, "expected key=value");
	if (spec->arg_cnt == SPW_PORT_ARG_MAX)
		return bad(spec->text, pos, "too many keys");
	spec->arg[spec->arg_cnt].key = (uint16_t)pos;
	spec->arg[spec->arg_cnt].value = (uint16_t)(eq - spec->text + 1);
	spec->arg_cnt++;
	spec->store[eq - spec->text] = '\0';
	spec->store[end] = '\0';
	return 0;
}

int spw_port_spec_parse(const char *text, struct spw_port_spec *spec_out)
{
	struct spw_port_spec *spec = spec_out;
	size_t pos = 0, end;
	bool first = true;
	int rc;

	memset(spec, 0, sizeof(*spec));
	rc = check_text(text);
	if (rc)
		return rc;
	strcpy(spec->text, text);
	strcpy(spec->store, text);
	rc = take_driver(spec, &pos);
	for (; !rc && spec->text[pos]; first = false) {
		end = pos + strcspn(spec->text + pos, ",");
		if (first && !memchr(spec->text + pos, '=', end - pos))
			rc = take_device(spec, pos, end);
		else
			rc = take_arg(spec, pos, end);
		if (!rc && spec->text[end] == ',' && !spec->text[end + 1])
			rc = bad(spec->text, end, "a comma with nothing after it");
		pos = spec->text[end] ? end + 1 : end;
	}
	return rc;
}

const char *spw_port_spec_find(const struct spw_port_spec *spec, const char *key)
{
	for (uint32_t i = spec->arg_cnt; i-- > 0;)
		if (!strcmp(spw_port_spec_key(spec, i), key))
			return spw_port_spec_value(spec, i);
	return NULL;
}

static uint64_t suffix_scale(const char *suffix)
{
	static const struct { char name; uint64_t scale; } known[] = {{'k', 1000}, {'M', 1000000}, {'G', 1000000000}};

	if (!*suffix)
		return 1;
	for (size_t i = 0; i < SPW_ARRAY_CNT(known); i++)
		if (suffix[0] == known[i].name && !suffix[1])
			return known[i].scale;
	return 0;
}

int port_spec_u64(const struct spw_port_spec *spec, const char *key, uint64_t dflt, uint64_t min, uint64_t max,
		  uint64_t *value_out)
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
	scale = suffix_scale(end);
	if (end == text || *text < '0' || *text > '9' || !scale)
		return spw_err(EINVAL, "%s=%s is no number (suffixes: k, M, G)", key, text);
	if (errno || __builtin_mul_overflow(number, scale, &value) || value < min || value > max)
		return spw_err(ERANGE, "%s=%s is not in %" PRIu64 " .. %" PRIu64, key, text,
			       min, max);
	*value_out = value;
	return 0;
}

int port_spec_check_keys(const struct spw_port_spec *spec, const char *const *known, size_t known_cnt,
			 const char *usage)
{
	for (uint32_t i = 0; i < spec->arg_cnt; i++) {
		const char *key = spw_port_spec_key(spec, i);
		size_t k = 0;

		while (k < known_cnt && strcmp(key, known[k]))
			k++;
		if (k == known_cnt)
			return spw_err(EINVAL, "key '%s' is not known; it takes %s", key, usage);
	}
	return 0;
}
