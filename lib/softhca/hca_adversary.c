/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Parses --adversary SEED[,WHAT...], for hca_cfg.c, and lists its words, for tools/softhca_check.c.
 *
 *   --adversary 7                   seed 7, every word
 *   --adversary 7,late-cqe,poison   seed 7, these two
 *
 * Words, their texts and their bits are one list, HCA_ADV_WORDS in hca_adversary.h: row i is bit i
 * of `what`. The folder inject/ carries the words out; nothing here knows what they do.
 */
#include "softhca/hca_adversary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"

static const struct {
	const char *word, *text;
} words[] = {
#define ROW(id, word, text) {word, text},
	HCA_ADV_WORDS(ROW)
#undef ROW
};

const char *hca_adversary_word(uint32_t bit, const char **text_out)
{
	if (bit >= SPW_ARRAY_CNT(words))
		return NULL;
	*text_out = words[bit].text;
	return words[bit].word;
}

/* 0: there is no such word. */
static uint32_t adversary_bit(const char *word)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(words); i++)
		if (strcmp(words[i].word, word) == 0)
			return 1u << i;
	return 0;
}

/* list is the caller's copy, and is cut at its commas. */
static int adversary_set_words(char *list, uint32_t *what_out)
{
	char *save = NULL;

	*what_out = 0;
	for (char *w = strtok_r(list, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		const uint32_t bit = adversary_bit(w);

		if (!bit)
			return spw_err(EINVAL,
				       "--adversary: there is no \"%s\"; --adversary help lists "
				       "what there is",
				       w);
		*what_out |= bit;
	}
	return *what_out ? 0 : spw_err(EINVAL, "--adversary: the list after the seed is empty");
}

int hca_adversary_parse(const char *text, struct hca_adversary *adv_out)
{
	char copy[512], *list;
	char *end;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return spw_err(EINVAL, "--adversary: longer than %zu characters", sizeof(copy) - 1);
	list = strchr(copy, ',');
	if (list)
		*list++ = '\0';
	errno = 0;
	adv_out->seed = strtoull(copy, &end, 0);
	if (errno || end == copy || *end || *copy < '0' || *copy > '9')
		return spw_err(EINVAL,
			       "--adversary %s: want SEED[,WHAT...] with a number as SEED; "
			       "--adversary help lists WHAT",
			       text);
	/* Bits without a word mean nothing, so "all" needs no count of the rows. */
	adv_out->what = UINT32_MAX;
	return list ? adversary_set_words(list, &adv_out->what) : 0;
}
