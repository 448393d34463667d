/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing recorded cases of hanging ranks: any document. What is read can be judged, saved, and
 * read again, with the same answer.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_port.h"
#include "hang/spw_hang.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer_check(const struct spw_hang_answer *a)
{
	json_t *json = spw_hang_answer_json(a);

	fuzz_demand(json != NULL);
	fuzz_demand(a->verdict_cnt <= SPW_HANG_VERDICT_MAX);
	fuzz_demand(a->outcome != SPW_HANG_OUTCOME_culprit ||
		    (a->verdict_cnt && a->verdict[0].explained));
	fuzz_demand((a->outcome == SPW_HANG_OUTCOME_unknown) == (a->missing[0] != '\0'));
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct spw_hang_case c, again;
	json_t *doc = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL), *copy;
	struct spw_hang_answer answer, same;
	int rc;

	if (!doc)
		return 0;
	rc = spw_hang_case_read(doc, &c);
	json_decref(doc);
	if (rc == 0) {
		spw_hang_judge(&c, &answer);
		answer_check(&answer);
		copy = spw_hang_case_json(&c);
		fuzz_demand(copy && spw_hang_case_read(copy, &again) == 0);
		spw_hang_judge(&again, &same);
		fuzz_demand(answer.outcome == same.outcome &&
			    answer.verdict_cnt == same.verdict_cnt &&
			    !strcmp(answer.missing, same.missing));
		json_decref(copy);
	}
	spw_hang_case_free(&c);
	spw_hang_case_free(&again);
	return 0;
}
