/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Text of any bytes as a JSON string. Paths, device names and error texts may hold bytes that are
 * no UTF-8, which jansson refuses; every report passes such text through here.
 */
#include <stdlib.h>
#include <string.h>

#include "app_text.h"
#include "base/spw_text.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Replaced byte by byte, so that what is right beside a wrong byte stays. */
json_t *app_json_text(const char *text)
{
	json_t *out = json_string(text);
	char *clean, *at;

	if (out)
		return out;
	at = clean = malloc(strlen(text) * strlen(REPLACEMENT) + 1);
	if (!clean)
		return NULL;
	for (size_t left = strlen(text); left;) {
		const int found = spw_text_char(text, left);
		const size_t took = found > 0 ? (size_t)found : 1,
			     n = found > 0 ? took : strlen(REPLACEMENT);

		memcpy(at, found > 0 ? text : REPLACEMENT, n);
		at += n;
		text += took;
		left -= took;
	}
	out = json_stringn(clean, (size_t)(at - clean));
	free(clean);
	return out;
}
