/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shipped formats, by name: the texts of share/streams, compiled in (embed.py), so that a
 * program finds them wherever it is installed. desc.c looks up what `format:` of a description
 * names; desc_keys.c lists the names.
 *
 *   share/streams/NAME.yaml ─ embed.py ─► obj_formats.h: format_NAME[], FORMAT_LIST ─► format_table
 *
 * A new format is a file there and its entry in the build. Its name becomes part of an identifier,
 * so it has letters, digits and _ only.
 */
#include <string.h>

#include "obj/desc.h"
#include "obj_formats.h"

/* Texts have no byte 0 at their end: bytes says where they end. */
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

/* arg is there for desc_choice, which asks any table for its names. */
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
