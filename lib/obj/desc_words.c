/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Single values of a description: numbers, names, sums, conditions.
 *
 *   sum        term +- term ...       term      atom * atom / number ..., three fields at most
 *   atom       NUMBER | NAME | ( NAME - NUMBER )
 *   NAME       a field, a value of `set`, or part, header, rest
 *   condition  { FIELD: NUMBER, FIELD: [NUMBER, ...] }, all of them; numbers of a list are below 64
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "obj/desc.h"

int desc_fail(const struct desc_at *at, int rc)
{
	return spw_yaml_fail(at->yaml, at->node, rc);
}

int desc_text(const struct desc_at *at, const char *want, const char **text_out)
{
	int rc = spw_yaml_expect_value(at->yaml, at->node, want);

	*text_out = rc ? "" : spw_yaml_text(at->node);
	return rc;
}

/* Words are compared exactly, as YAML is case-sensitive; the message lists all that are allowed. */
int desc_choice(const struct desc_at *at, const char *(*name_of)(uint32_t, const void *),
		const void *arg, uint32_t cnt, uint32_t *idx_out)
{
	const char *text;
	char allowed[256];
	int rc = desc_text(at, "a word", &text);

	for (*idx_out = 0; rc == 0 && *idx_out < cnt; ++*idx_out)
		if (strcmp(name_of(*idx_out, arg), text) == 0)
			return 0;
	if (rc)
		return rc;
	spw_opt_join(allowed, sizeof(allowed), cnt, name_of, arg);
	return desc_fail(at, spw_err(EINVAL, "'%.64s' is not allowed; allowed: %s", text, allowed));
}

const char *desc_word(uint32_t idx, const void *words)
{
	return ((const char *const *)words)[idx];
}

int desc_order_read(const struct desc_at *at, bool *little_out)
{
	static const char *const word[] = {"big", "little"};
	uint32_t idx;
	int rc = desc_choice(at, desc_word, word, SPW_ARRAY_CNT(word), &idx);

	*little_out = idx == 1;
	return rc;
}

static bool name_has(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* A name begins with a letter, so that the first character separates it from a number in a sum. */
static size_t name_bytes(const char *text)
{
	size_t bytes = 0;

	if (isalpha((unsigned char)text[0]))
		while (name_has(text[bytes]))
			bytes++;
	return bytes;
}

const struct desc_set *desc_set_find(const struct desc_build *b, const char *name)
{
	for (uint32_t i = 0; i < b->set_cnt; i++)
		if (strcmp(b->set[i].name, name) == 0)
			return &b->set[i];
	return NULL;
}

static const char *field_name(uint32_t idx, const void *build)
{
	return ((const struct desc_build *)build)->field[idx].name;
}

/* Names with a register that no field has: the run computes them. They are reserved, because a
 * sum could not name a field of the same name. */
static const char *const pseudo_name[PLAN_REG_FIELD] = {
	[PLAN_REG_HEADER] = "header", [PLAN_REG_REST] = "rest", [PLAN_REG_PART] = "part"};

/* Only fields that were read before are found. A sum can thus never use a field that the frame has
 * only behind the place where the sum is needed. */
int desc_field_find(const struct desc_build *b, const struct desc_at *at, const char *name,
		    uint32_t *field_out)
{
	const char *nearest;

	for (uint32_t i = 0; i < b->field_cnt; i++) {
		if (strcmp(b->field[i].name, name) == 0) {
			*field_out = i;
			return 0;
		}
	}
	nearest = spw_opt_nearest(name, b->field_cnt, field_name, b);
	return desc_fail(at, spw_err(EINVAL, "'%.32s' is no field that stands before this%s%s%s",
				     name, nearest ? "; did you mean '" : "",
				     nearest ? nearest : "", nearest ? "'?" : ""));
}

/* Registers are given on first use, so that a header of many fields costs a load only for those
 * that something needs. Register 0 is never a field's and means that the field has none. */
int desc_field_use(struct desc_build *b, const struct desc_at *at, uint32_t field)
{
	b->field[field].use_cnt++;
	if (b->field[field].reg)
		return 0;
	if (PLAN_REG_FIELD + b->reg_cnt == PLAN_REG_CNT)
		return desc_fail(at, spw_err(EINVAL, "more than %u fields are used",
					     PLAN_REG_CNT - PLAN_REG_FIELD));
	b->field[field].reg = (uint8_t)(PLAN_REG_FIELD + b->reg_cnt++);
	return 0;
}

/* Fields, values of `set` and reserved names share one space, since a sum may name any of them.
 * `bytes` need not be the whole text: a field's name is followed by its bits. */
int desc_name_new(const struct desc_build *b, const struct desc_at *at, const char *name,
		  size_t bytes)
{
	char copy[DESC_NAME_BYTES] = "";

	if (bytes == 0 || bytes >= sizeof(copy) || name_bytes(name) != bytes)
		return desc_fail(at,
				 spw_err(EINVAL,
					 "'%.48s' is no name; a name is a letter, then letters, "
					 "digits and _, %u at most",
					 name, DESC_NAME_BYTES - 1));
	memcpy(copy, name, bytes);
	for (uint32_t i = 0; i < b->field_cnt + PLAN_REG_FIELD; i++) {
		const char *taken = i < b->field_cnt ? b->field[i].name
						     : pseudo_name[i - b->field_cnt];

		if (taken && strcmp(taken, copy) == 0)
			return desc_fail(at, spw_err(EINVAL, "'%s' is a name already", copy));
	}
	if (desc_set_find(b, copy))
		return desc_fail(at, spw_err(EINVAL, "'%s' is a name already, in set", copy));
	return 0;
}

/* ---- numbers ---- */

/* Sizes may have binary units (4KiB), and a count may have them as well. A name is looked up in
 * `set` only, never among the fields: a number is constant, and known before the first frame. */
static int number_of(const struct desc_build *b, const struct desc_at *at, const char *text,
		     uint64_t *value_out)
{
	const struct desc_set *set = desc_set_find(b, text);
	int rc;

	if (set) {
		*value_out = set->value;
		return 0;
	}
	if (isalpha((unsigned char)text[0]))
		return desc_fail(
			at,
			spw_err(EINVAL, "'%.32s' is neither a number nor a value of set", text));
	rc = spw_opt_quantity(text, SPW_OPT_UNIT_BYTES, 1, value_out);
	return rc ? desc_fail(at, rc) : 0;
}

int desc_number(const struct desc_build *b, const struct desc_at *at, uint64_t min, uint64_t max,
		uint64_t *value_out)
{
	const char *text;
	int rc = desc_text(at, "a number", &text);

	if (rc == 0)
		rc = number_of(b, at, text, value_out);
	if (rc == 0 && !spw_in_range(*value_out, min, max))
		rc = desc_fail(at, spw_err(EINVAL, "'%.64s' is not allowed; allowed: %llu .. %llu",
					   text, (unsigned long long)min, (unsigned long long)max));
	return rc;
}

/* ---- sums ---- */

/* What is left of a sum's text. */
struct words {
	struct desc_build *b;
	const struct desc_at *at;
	const char *text, *left;
};

/* The place within the value: right for a value of one line. */
static int words_fail(const struct words *w, int rc)
{
	yaml_node_t node = *w->at->node;

	node.start_mark.column += (size_t)(w->left - w->text);
	return spw_yaml_fail(w->at->yaml, &node, rc);
}

/* Looks one word ahead and never goes back. Nothing here allocates or recurses, so that no text can
 * exhaust the stack. */
static char word_peek(struct words *w)
{
	while (*w->left == ' ')
		w->left++;
	return *w->left;
}

static bool word_take(struct words *w, char c)
{
	if (word_peek(w) != c)
		return false;
	w->left++;
	return true;
}

/* A word of letters, digits, _ and the point of a number. */
static int word_copy(struct words *w, char *out)
{
	size_t bytes = 0;

	word_peek(w);
	while (name_has(w->left[bytes]) || w->left[bytes] == '.')
		bytes++;
	if (bytes == 0 || bytes >= DESC_NAME_BYTES)
		return words_fail(w, spw_err(EINVAL, "a name or a number is wanted here"));
	memcpy(out, w->left, bytes);
	out[bytes] = '\0';
	return 0;
}

static int word_number(struct words *w, uint64_t *value_out)
{
	char word[DESC_NAME_BYTES];
	int rc = word_copy(w, word);

	if (rc == 0)
		rc = number_of(w->b, w->at, word, value_out);
	if (rc == 0)
		w->left += strlen(word);
	return rc;
}

/* A field, or one of the names that are none. */
static int word_name(struct words *w, enum plan_reg *reg_out)
{
	char word[DESC_NAME_BYTES];
	uint32_t field = 0;
	int rc = word_copy(w, word);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < PLAN_REG_FIELD; i++) {
		if (pseudo_name[i] && strcmp(pseudo_name[i], word) == 0) {
			*reg_out = (enum plan_reg)i;
			w->left += strlen(word);
			return 0;
		}
	}
	rc = desc_field_find(w->b, w->at, word, &field);
	if (rc == 0)
		rc = desc_field_use(w->b, w->at, field);
	*reg_out = (enum plan_reg)w->b->field[field].reg;
	w->left += strlen(word);
	return rc;
}

/* A NUMBER or a value of `set` becomes `times` of the register that is always 1, so that a constant
 * is a term like any other. Brackets enclose one subtraction and do not nest: formats need it only
 * for counters that begin at 1, and a step has just one subtrahend. */
static int atom_read(struct words *w, struct desc_term *term)
{
	char word[DESC_NAME_BYTES];
	int rc;

	if (word_take(w, '(')) {
		rc = word_name(w, &term->reg);
		if (rc == 0 && !word_take(w, '-'))
			rc = words_fail(w, spw_err(EINVAL, "'-' is wanted: (NAME - NUMBER)"));
		if (rc == 0)
			rc = word_number(w, &term->minus);
		if (rc == 0 && !word_take(w, ')'))
			rc = words_fail(w, spw_err(EINVAL, "')' is wanted: (NAME - NUMBER)"));
		return rc;
	}
	rc = word_copy(w, word);
	if (rc == 0 && (isdigit((unsigned char)word[0]) || desc_set_find(w->b, word)))
		return word_number(w, &term->times);
	return rc ? rc : word_name(w, &term->reg);
}

/* A number, or a field: of a product of fields. */
static int factor_read(struct words *w, struct desc_term *term, uint64_t *number_out)
{
	struct desc_term factor = {.reg = PLAN_REG_ONE, .times = 1};
	int rc = atom_read(w, &factor);

	*number_out = factor.times;
	if (rc || factor.reg == PLAN_REG_ONE)
		return rc;
	if (term->reg != PLAN_REG_ONE && term->by_cnt == SPW_ARRAY_CNT(term->by))
		return words_fail(w, spw_err(EINVAL, "a product of more than %zu fields",
					     SPW_ARRAY_CNT(term->by) + 1));
	if (factor.minus || term->minus)
		return words_fail(w, spw_err(EINVAL, "(NAME - NUMBER) times a field"));
	if (term->reg == PLAN_REG_ONE)
		term->reg = factor.reg;
	else
		term->by[term->by_cnt++] = factor.reg;
	return 0;
}

/* All factors and all divisors are collected first, so `x / 2 * 5` is x * 5 / 2 and the order in
 * which they are written does not matter. desc_emit.c decides how a quotient is computed. */
static int term_read(struct words *w, struct desc_term *term)
{
	uint64_t number;
	int rc = atom_read(w, term);

	while (rc == 0 && (word_peek(w) == '*' || word_peek(w) == '/')) {
		bool times = *w->left++ == '*';

		rc = times ? factor_read(w, term, &number) : word_number(w, &number);
		if (rc == 0 && number == 0)
			rc = words_fail(w, spw_err(EINVAL, "times or over 0"));
		if (rc == 0 && __builtin_mul_overflow(times ? term->times : term->over, number,
						      times ? &term->times : &term->over))
			rc = words_fail(w, spw_err(EINVAL, "numbers too large"));
	}
	return rc;
}

/* A constant is (1) * times / over. */
int desc_sum_read(struct desc_build *b, const struct desc_at *at, struct desc_sum *sum_out)
{
	struct words w = {.b = b, .at = at};
	bool negative = false;
	int rc = desc_text(at, "a sum, as line * pitch + x", &w.text);

	sum_out->at = *at;
	w.left = w.text;
	do {
		struct desc_term *term = &sum_out->term[sum_out->cnt];

		if (rc == 0 && sum_out->cnt == DESC_TERM_MAX)
			return words_fail(&w, spw_err(EINVAL, "more than %u terms", DESC_TERM_MAX));
		if (rc)
			return rc;
		*term = (struct desc_term){
			.reg = PLAN_REG_ONE, .negative = negative, .times = 1, .over = 1};
		rc = term_read(&w, term);
		sum_out->cnt++;
		negative = word_peek(&w) == '-';
	} while (rc == 0 && (word_take(&w, '+') || word_take(&w, '-')));
	if (rc == 0 && word_peek(&w))
		rc = words_fail(&w, spw_err(EINVAL,
					    "'%.16s' is not understood; a sum is NAME * "
					    "NUMBER + (NAME - NUMBER) / NUMBER ...",
					    w.left));
	return rc;
}

/* ---- conditions ---- */

/* A list is one mask of 64 bits, so that a frame is tested against all its values by one shift. */
static int test_list(const struct desc_build *b, const struct desc_at *at, struct desc_test *test)
{
	struct desc_at item;
	uint64_t value;
	int rc = spw_yaml_expect_list(at->yaml, at->node, "a list of numbers");

	test->set = true;
	if (rc == 0 && !desc_item(at, 0, &item))
		rc = desc_fail(at, spw_err(EINVAL, "an empty list: nothing would be allowed"));
	for (size_t i = 0; rc == 0 && desc_item(at, i, &item); i++) {
		rc = desc_number(b, &item, 0, 63, &value);
		if (rc == 0)
			test->value |= 1ull << value;
	}
	return rc;
}

/* A single number may have all the bits of its field; one that is wider could never hold and is
 * refused, because it is a mistake. */
static int test_read(const struct desc_build *b, const struct desc_at *key,
		     const struct desc_at *at, struct desc_test *test)
{
	const char *name;
	uint64_t max;
	int rc = desc_text(key, "a field", &name);

	if (rc == 0)
		rc = desc_field_find(b, key, name, &test->field);
	if (rc)
		return rc;
	if (at->node->type == YAML_SEQUENCE_NODE)
		return test_list(b, at, test);
	max = UINT64_MAX >> (64 - b->field[test->field].bits);
	return desc_number(b, at, 0, max, &test->value);
}

int desc_when_read(struct desc_build *b, const struct desc_at *at, struct desc_when *when_out)
{
	struct desc_at key, value;
	int rc = spw_yaml_expect_mapping(at->yaml, at->node);

	*when_out = (struct desc_when){0};
	if (rc == 0 && !desc_pair(at, 0, &key, &value))
		rc = desc_fail(at, spw_err(EINVAL, "no condition; { FIELD: NUMBER }"));
	for (size_t i = 0; rc == 0 && desc_pair(at, i, &key, &value); i++) {
		struct desc_test *test = &when_out->test[when_out->cnt];

		if (when_out->cnt == DESC_TEST_MAX)
			return desc_fail(&key,
					 spw_err(EINVAL, "more than %u tests", DESC_TEST_MAX));
		*test = (struct desc_test){0};
		rc = test_read(b, &key, &value, test);
		for (uint32_t k = 0; rc == 0 && k < when_out->cnt; k++)
			if (when_out->test[k].field == test->field)
				rc = desc_fail(&key, spw_err(EINVAL, "a field is given twice"));
		when_out->cnt++;
	}
	return rc;
}

int desc_when_use(struct desc_build *b, const struct desc_at *at, struct desc_when *when_out)
{
	int rc = desc_when_read(b, at, when_out);

	for (uint32_t i = 0; rc == 0 && i < when_out->cnt; i++)
		rc = desc_field_use(b, at, when_out->test[i].field);
	return rc;
}
