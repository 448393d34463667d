/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The hex that kernels and libraries print of a WQE or CQE, turned back into bytes: lines of
 * "00000000: de ad be ef ..." (offset, colon, bytes). Offsets are skipped, not used.
 */
#ifndef PRM_HEX_H
#define PRM_HEX_H

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static int hex_digit(int c)
{
	return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

/* The text after a line's "offset:", if it has one. */
static const char *skip_offset(const char *line, const char *end)
{
	const char *p = line;

	while (p < end && (isxdigit((unsigned char)*p) || isspace((unsigned char)*p)))
		p++;
	return p < end && *p == ':' ? p + 1 : line;
}

/* Returns: bytes filled; -EINVAL: other characters, half a byte, or more than size bytes. */
static int hex_parse(const char *text, void *out, size_t size)
{
	uint8_t *bytes = out;
	size_t n = 0;

	while (*text) {
		const char *end = strchr(text, '\n');
		int high = -1;

		if (!end)
			end = text + strlen(text);
		for (const char *p = skip_offset(text, end); p < end; p++) {
			const int d = hex_digit((unsigned char)*p);

			if (isspace((unsigned char)*p)) {
				if (high >= 0)
					return -EINVAL;
				continue;
			}
			if (d < 0 || (high >= 0 && n == size))
				return -EINVAL;
			if (high >= 0)
				bytes[n++] = (uint8_t)(high << 4 | d);
			high = high >= 0 ? -1 : d;
		}
		if (high >= 0)
			return -EINVAL;
		text = *end ? end + 1 : end;
	}
	return (int)n;
}

#endif
