/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shipped formats, by name: the texts of share/streams, compiled in (embed.py), so that a
 * program finds them wherever it is installed.
 */
#include <string.h>

#include "obj/desc.h"
#include "obj_formats.h"

static const struct {
	const char *name;
	const unsigned char *text;
	size_t bytes;
} format_table[] = {
#define ROW(name) {#name, format_##name, sizeof(format_##name)},
	FORMAT_LIST(ROW)};

uint32_t format_cnt(void)
{
	return SPW_ARRAY_CNT(format_table);
}

const char *format_name(uint32_t idx, const void *arg)
{
	(void)arg;
	return format_table[idx].name;
}

const char *format_text(const char *name, size_t *bytes_out)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(format_table); i++) {
		if (strcmp(format_table[i].name, name))
			continue;
		*bytes_out = format_table[i].bytes;
		return (const char *)format_table[i].text;
	}
	return NULL;
}
