/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What of a text a terminal may have (spw_text.h). Works on bytes and not on the locale's
 * characters, since what is printed must not depend on it.
 *
 *   spw_text_char   bytes: one character, none, or one that is cut off
 *   spw_text_next   a character as it may be shown: itself, or an escape
 *   spw_text_show   a whole text, cut between characters
 */
#include "base/spw_text.h"

#include <stdio.h>
#include <string.h>

/* First byte, and range of the second: RFC 3629, section 4. It excludes overlong forms, surrogates
 * and what lies above U+10FFFF. */
static const struct {
	uint8_t first, last, from, to, bytes;
} form[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
	    {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
	    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

int spw_text_char(const char *text, size_t bytes)
{
	const uint8_t *at = (const uint8_t *)text;

	if (at[0] < 0x80)
		return 1;
	for (size_t i = 0; i < SPW_ARRAY_CNT(form); i++) {
		if (!spw_in_range(at[0], form[i].first, form[i].last))
			continue;
		for (uint32_t b = 1; b < SPW_MIN(bytes, form[i].bytes); b++)
			if (!spw_in_range(at[b], b == 1 ? form[i].from : 0x80,
					  b == 1 ? form[i].to : 0xbf))
				return 0;
		return bytes < form[i].bytes ? -1 : form[i].bytes;
	}
	return 0;
}

/* Of a character that spw_text_char has found whole. */
static uint32_t text_code_point(const char *text, uint32_t bytes)
{
	uint32_t code = (uint8_t)text[0] & (bytes == 1 ? 0x7fu : 0xffu >> (bytes + 1));

	for (uint32_t i = 1; i < bytes; i++)
		code = code << 6 | ((uint8_t)text[i] & 0x3f);
	return code;
}

/* C0, DEL and C1; Bidi_Control of Unicode's PropList, and with it the separators of lines. */
static bool text_is_control(uint32_t code)
{
	return code < 0x20 || spw_in_range(code, 0x7f, 0x9f) || code == 0x61c ||
	       spw_in_range(code, 0x200e, 0x200f) || spw_in_range(code, 0x2028, 0x202e) ||
	       spw_in_range(code, 0x2066, 0x2069);
}

uint32_t spw_text_next(const char *text, size_t bytes, char shown_out[SPW_TEXT_SHOWN_BYTES])
{
	const int found = spw_text_char(text, bytes);
	const uint32_t n = found > 0 ? (uint32_t)found : 1,
		       code = found > 0 ? text_code_point(text, n) : (uint8_t)text[0];

	if (found > 0 && !text_is_control(code)) {
		memcpy(shown_out, text, n);
		shown_out[n] = '\0';
	} else {
		snprintf(shown_out, SPW_TEXT_SHOWN_BYTES, found > 0 ? "\\u%04x" : "\\x%02x",
			 code & 0xffff);
	}
	return n;
}

/* What does not fit is left out from a whole character or escape on. */
void spw_text_show(const char *text, char *out, size_t room)
{
	size_t left = strlen(text), used = 0;

	while (left) {
		char shown[SPW_TEXT_SHOWN_BYTES];
		const uint32_t n = spw_text_next(text, left, shown);
		const size_t bytes = strlen(shown);

		if (used + bytes >= room)
			break;
		memcpy(out + used, shown, bytes);
		used += bytes;
		text += n;
		left -= n;
	}
	out[used] = '\0';
}
