/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The opcodes of pickle.h. Each makes at most one value, so the size of the input bounds them all.
 *
 * A file may hold anything: each count is checked against what is left, each index against what
 * there is, and no call descends into a value.
 *
 * Called by read_recorder.c alone. Protocol 2 is what PyTorch writes; opcodes of 4 and 5 are here
 * because Python's own pickle.dump, and so a hand-made case, uses them. GLOBAL, REDUCE, BUILD and
 * the like have no case below, and must never get one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "hang/read/pickle.h"

#define MARK     UINT32_MAX /* on the stack */
#define MEMO_MAX (1u << 24)
#define KEYS_MAX \
	256u /* of a dictionary that are looked at: one value may stand in a million lists */

/* ---- arrays that double ---- */

/* Room for one more; counts that are powers of 2 are full. */
static int pickle_grow(void *array, uint32_t cnt, size_t bytes)
{
	void **at = array, *more;

	if (cnt & (cnt - 1))
		return 0;
	more = realloc(*at, bytes * (cnt ? 2ull * cnt : 1));
	if (!more)
		return -ENOMEM;
	*at = more;
	return 0;
}

/* The stack holds indexes: addresses of values change when their array grows. */
static int pickle_push_index(struct pickle *p, uint32_t index)
{
	int rc = pickle_grow(&p->stack, p->stack_cnt, sizeof(*p->stack));

	if (rc == 0)
		p->stack[p->stack_cnt++] = index;
	return rc;
}

static int pickle_push(struct pickle *p, const struct pickle_value *value)
{
	int rc = pickle_grow(&p->value, p->value_cnt, sizeof(*p->value));

	if (rc < 0)
		return rc;
	p->value[p->value_cnt] = *value;
	return pickle_push_index(p, p->value_cnt++);
}

static int pickle_push_number(struct pickle *p, int64_t number)
{
	return pickle_push(p, &(struct pickle_value){.kind = PICKLE_INT, .number = number});
}

/* ---- the input ---- */

/* Returns: cnt bytes; NULL: there are fewer. */
static const uint8_t *pickle_take(struct pickle *p, uint64_t cnt)
{
	const uint8_t *at = p->at;

	if (cnt > (uint64_t)(p->end - p->at))
		return NULL;
	p->at += cnt;
	return at;
}

/* cnt bytes, the lowest first, with the sign of the last one if is_signed. */
static bool pickle_take_number(struct pickle *p, uint32_t cnt, bool is_signed, int64_t *out)
{
	const uint8_t *at = pickle_take(p, cnt);
	uint64_t value = at && cnt && is_signed && at[cnt - 1] & 0x80 ? UINT64_MAX : 0;

	for (uint32_t i = cnt; at && i-- > 0;)
		value = value << 8 | at[i];
	*out = (int64_t)value;
	return at != NULL;
}

/* Numbers of more than 8 bytes are no counts or times: not taken. */
static int pickle_long(struct pickle *p)
{
	int64_t bytes, value;

	if (!pickle_take_number(p, 1, false, &bytes) || bytes > 8 ||
	    !pickle_take_number(p, (uint32_t)bytes, true, &value))
		return -EPROTO;
	return pickle_push_number(p, value);
}

static int pickle_int(struct pickle *p, uint32_t bytes, bool is_signed)
{
	int64_t value;

	return pickle_take_number(p, bytes, is_signed, &value) ? pickle_push_number(p, value)
							       : -EPROTO;
}

/* Not copied, and not checked to be UTF-8: whoever prints it shows it first. */
static int pickle_string(struct pickle *p, uint32_t length_bytes)
{
	struct pickle_value value = {.kind = PICKLE_TEXT};
	int64_t bytes;

	if (!pickle_take_number(p, length_bytes, false, &bytes) ||
	    !(value.text = (const char *)pickle_take(p, (uint64_t)bytes)))
		return -EPROTO;
	value.bytes = (uint32_t)bytes;
	return pickle_push(p, &value);
}

/* ---- lists ---- */

/* The position above the topmost mark; 0: there is none. */
static uint32_t pickle_mark(const struct pickle *p)
{
	uint32_t at = p->stack_cnt;

	while (at > 0 && p->stack[at - 1] != MARK)
		at--;
	return at;
}

/* Cells number from 1, so that 0 can say "none" in a zeroed value. */
static int pickle_append(struct pickle *p, uint32_t list, uint32_t value)
{
	struct pickle_value *to = &p->value[list];

	if (value == MARK || pickle_grow(&p->cell, p->cell_cnt, sizeof(*p->cell)) < 0)
		return value == MARK ? -EPROTO : -ENOMEM;
	p->cell[p->cell_cnt++] = (struct pickle_cell){.value = value};
	if (to->last)
		p->cell[to->last - 1].next = p->cell_cnt;
	else
		to->first = p->cell_cnt;
	to->last = p->cell_cnt;
	return 0;
}

/* Moves the values from a position on into the container below them, and drops what lies between.
 */
static int pickle_fill(struct pickle *p, uint32_t from, uint32_t below, enum pickle_kind kind)
{
	const uint32_t list = below ? p->stack[below - 1] : MARK;
	int rc = 0;

	if (list == MARK || p->value[list].kind != kind ||
	    (kind == PICKLE_DICT && (p->stack_cnt - from) % 2))
		return -EPROTO;
	for (uint32_t i = from; i < p->stack_cnt && rc == 0; i++)
		rc = pickle_append(p, list, p->stack[i]);
	p->stack_cnt = below;
	return rc;
}

/* Of the values above the mark. */
static int pickle_fill_marked(struct pickle *p, enum pickle_kind kind)
{
	const uint32_t from = pickle_mark(p);

	return from ? pickle_fill(p, from, from - 1, kind) : -EPROTO;
}

/* Of the topmost cnt values. */
static int pickle_fill_top(struct pickle *p, uint32_t cnt, enum pickle_kind kind)
{
	if (p->stack_cnt <= cnt)
		return -EPROTO;
	return pickle_fill(p, p->stack_cnt - cnt, p->stack_cnt - cnt, kind);
}

/* The values from a position on become one. drop: whether the mark below goes too. */
static int pickle_tuple(struct pickle *p, uint32_t from, bool drop)
{
	const struct pickle_value list = {.kind = PICKLE_LIST};
	const uint32_t tuple = p->value_cnt, end = p->stack_cnt;
	int rc = pickle_push(p, &list);

	for (uint32_t i = from; i < end && rc == 0; i++)
		rc = pickle_append(p, tuple, p->stack[i]);
	p->stack_cnt = from - drop;
	return rc ? rc : pickle_push_index(p, tuple);
}

/* A mark among them is refused by pickle_append. */
static int pickle_tuple_of(struct pickle *p, uint32_t cnt)
{
	return p->stack_cnt < cnt ? -EPROTO : pickle_tuple(p, p->stack_cnt - cnt, false);
}

static int pickle_tuple_marked(struct pickle *p)
{
	const uint32_t from = pickle_mark(p);

	return from ? pickle_tuple(p, from, true) : -EPROTO;
}

/* ---- memo ---- */

/* Writers number what they keep from 0, one after the other. */
static int pickle_put(struct pickle *p, int64_t index)
{
	int rc;

	if (!p->stack_cnt || p->stack[p->stack_cnt - 1] == MARK || index < 0 ||
	    index > p->memo_cnt || index >= MEMO_MAX)
		return -EPROTO;
	if (index == p->memo_cnt) {
		rc = pickle_grow(&p->memo, p->memo_cnt, sizeof(*p->memo));
		if (rc < 0)
			return rc;
		p->memo_cnt++;
	}
	p->memo[index] = p->stack[p->stack_cnt - 1];
	return 0;
}

/* Reading a number that was never put is an error, as it has no value to give. */
static int pickle_memo(struct pickle *p, uint32_t bytes, bool put)
{
	int64_t index;

	if (!pickle_take_number(p, bytes, false, &index))
		return -EPROTO;
	if (put)
		return pickle_put(p, index);
	return index < p->memo_cnt ? pickle_push_index(p, p->memo[index]) : -EPROTO;
}

/* ---- opcodes ---- */

/* Names are those of Lib/pickletools.py. */
static int pickle_opcode_list(struct pickle *p, uint8_t opcode)
{
	switch (opcode) {
	case '(': /* MARK */
		return pickle_push_index(p, MARK);
	case ']': /* EMPTY_LIST */
	case ')': /* EMPTY_TUPLE */
		return pickle_push(p, &(struct pickle_value){.kind = PICKLE_LIST});
	case '}': /* EMPTY_DICT */
		return pickle_push(p, &(struct pickle_value){.kind = PICKLE_DICT});
	case 'a': /* APPEND */
		return pickle_fill_top(p, 1, PICKLE_LIST);
	case 'e': /* APPENDS */
		return pickle_fill_marked(p, PICKLE_LIST);
	case 's': /* SETITEM */
		return pickle_fill_top(p, 2, PICKLE_DICT);
	case 'u': /* SETITEMS */
		return pickle_fill_marked(p, PICKLE_DICT);
	case 't': /* TUPLE */
		return pickle_tuple_marked(p);
	case 0x85: /* TUPLE1 .. TUPLE3 */
	case 0x86:
	case 0x87:
		return pickle_tuple_of(p, opcode - 0x84u);
	default:
		return -EPROTO;
	}
}

static int pickle_opcode(struct pickle *p, uint8_t opcode)
{
	switch (opcode) {
	case 0x80: /* PROTO */
		return pickle_take(p, 1) ? 0 : -EPROTO;
	case 0x95: /* FRAME */
		return pickle_take(p, 8) ? 0 : -EPROTO;
	case 'N': /* NONE */
		return pickle_push(p, &(struct pickle_value){.kind = PICKLE_NONE});
	case 0x88: /* NEWTRUE */
	case 0x89: /* NEWFALSE */
		return pickle_push_number(p, opcode == 0x88);
	case 'J': /* BININT */
		return pickle_int(p, 4, true);
	case 'K': /* BININT1 */
		return pickle_int(p, 1, false);
	case 'M': /* BININT2 */
		return pickle_int(p, 2, false);
	case 0x8a: /* LONG1 */
		return pickle_long(p);
	case 'G': /* BINFLOAT */
		return pickle_take(p, 8)
			       ? pickle_push(p, &(struct pickle_value){.kind = PICKLE_FLOAT})
			       : -EPROTO;
	case 'X': /* BINUNICODE */
		return pickle_string(p, 4);
	case 0x8c: /* SHORT_BINUNICODE */
		return pickle_string(p, 1);
	case 'q': /* BINPUT */
	case 'h': /* BINGET */
		return pickle_memo(p, 1, opcode == 'q');
	case 'r': /* LONG_BINPUT */
	case 'j': /* LONG_BINGET */
		return pickle_memo(p, 4, opcode == 'r');
	case 0x94: /* MEMOIZE */
		return pickle_put(p, p->memo_cnt);
	default:
		return pickle_opcode_list(p, opcode);
	}
}

int pickle_read(struct pickle *p, const void *bytes, size_t size)
{
	int rc = 0;

	*p = (struct pickle){.start = bytes, .at = bytes, .end = (const uint8_t *)bytes + size};
	while (rc == 0 && size <= PICKLE_BYTES_MAX && p->at < p->end) {
		const uint8_t opcode = *p->at++;

		if (opcode == '.' && p->stack_cnt == 1 && p->stack[0] != MARK) { /* STOP */
			p->top = &p->value[p->stack[0]];
			return 0;
		}
		rc = pickle_opcode(p, opcode);
	}
	if (rc == -ENOMEM)
		return spw_err(ENOMEM, "no memory for a pickle of %zu bytes", size);
	return spw_err(EPROTO, "byte %zu: the pickle is cut, or holds more than plain data",
		       (size_t)(p->at - p->start));
}

void pickle_free(struct pickle *p)
{
	free(p->value);
	free(p->cell);
	free(p->stack);
	free(p->memo);
	*p = (struct pickle){0};
}

/* ---- values ---- */

/* A list may contain itself: each call takes one step, and cells are never shared. */
static const struct pickle_value *pickle_step(const struct pickle *p, uint32_t *cell)
{
	const struct pickle_value *value = NULL;

	if (*cell) {
		value = &p->value[p->cell[*cell - 1].value];
		*cell = p->cell[*cell - 1].next;
	}
	return value;
}

const struct pickle_value *pickle_member(const struct pickle *p, const struct pickle_value *dict,
					 const char *name)
{
	const struct pickle_value *key, *value;
	uint32_t cell = dict && dict->kind == PICKLE_DICT ? dict->first : 0;

	for (uint32_t i = 0;
	     i < KEYS_MAX && (key = pickle_step(p, &cell)) && (value = pickle_step(p, &cell)); i++)
		if (key->kind == PICKLE_TEXT && key->bytes == strlen(name) &&
		    !memcmp(key->text, name, key->bytes))
			return value;
	return NULL;
}

const struct pickle_value *pickle_next(const struct pickle *p, const struct pickle_value *list,
				       uint32_t *cursor)
{
	uint32_t cell;

	if (!list || list->kind != PICKLE_LIST)
		return NULL;
	cell = *cursor ? p->cell[*cursor - 1].next : list->first;
	if (!cell)
		return NULL;
	*cursor = cell;
	return &p->value[p->cell[cell - 1].value];
}

void pickle_text(const struct pickle_value *value, char *out, size_t bytes)
{
	const bool is_text = value && value->kind == PICKLE_TEXT;
	const size_t n = is_text ? SPW_MIN((size_t)value->bytes, bytes - 1) : 0;

	if (n)
		memcpy(out, value->text, n);
	out[n] = '\0';
}
