/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Text of any bytes as a JSON string; jansson decides what is valid UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include "app_text.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Length of the UTF-8 character at text; 0 if the bytes there are not one. */
static size_t char_bytes(const char *text)
{
	size_t left = strlen(text);

	for (size_t n = 1; n <= 4 && n <= left; n++) {
		json_t *one = json_stringn(text, n);

		json_decref(one);
		if (one)
			return n;
	}
	return 0;
}

json_t *app_json_text(const char *text)
{
	json_t *out = json_string(text);
	char *clean, *at;

	if (out)
		return out;
	at = clean = malloc(strlen(text) * strlen(REPLACEMENT) + 1);
	if (!clean)
		return NULL;
	while (*text) {
		size_t n = char_bytes(text);

		memcpy(at, n ? text : REPLACEMENT, n ? n : strlen(REPLACEMENT));
		at += n ? n : strlen(REPLACEMENT);
		text += n ? n : 1;
	}
	out = json_stringn(clean, (size_t)(at - clean));
	free(clean);
	return out;
}
