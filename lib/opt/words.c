/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Words for messages: lists, and the name that was probably meant. Used for options, keys of a
 * file and commands alike; the callers give a function that names the idx-th word, NULL for one to
 * be left out.
 */
#include <stdio.h>
#include <string.h>

#include "opt/spw_opt.h"

#define WORD_MAX 48u

/* A list that does not fit is cut: it stands in a message. */
void spw_opt_join(char *out, size_t bytes, uint32_t n,
		  const char *(*name_of)(uint32_t idx, const void *arg), const void *arg)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < n && used < bytes; i++) {
		const char *name = name_of(i, arg);

		if (name)
			used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? ", " : "",
						 name);
	}
}

/* Fewest insertions, deletions and replacements between two words (Levenshtein). */
static uint32_t word_distance(const char *a, const char *b)
{
	uint32_t row[WORD_MAX + 1], a_len = (uint32_t)strnlen(a, WORD_MAX),
				    b_len = (uint32_t)strnlen(b, WORD_MAX);

	for (uint32_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (uint32_t i = 1; i <= a_len; i++) {
		uint32_t corner = row[0];

		row[0] = i;
		for (uint32_t j = 1; j <= b_len; j++) {
			uint32_t above = row[j], best = corner + (a[i - 1] != b[j - 1]);

			best = SPW_MIN(best, above + 1);
			row[j] = SPW_MIN(best, row[j - 1] + 1);
			corner = above;
		}
	}
	return row[b_len];
}

/* A name counts as meant if at most a third of the word, plus one letter, must change. */
const char *spw_opt_nearest(const char *text, uint32_t cnt,
			    const char *(*name_of)(uint32_t idx, const void *arg), const void *arg)
{
	uint32_t best = (uint32_t)strnlen(text, WORD_MAX) / 3 + 2;
	const char *nearest = NULL;

	for (uint32_t i = 0; i < cnt; i++) {
		const char *name = name_of(i, arg);
		uint32_t d = name ? word_distance(text, name) : best;

		if (d < best) {
			best = d;
			nearest = name;
		}
	}
	return nearest;
}
