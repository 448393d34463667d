/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A reader of Python's pickles that hold plain data: numbers, texts, lists, tuples, dictionaries.
 * Whatever would import a name or call something is refused, so nothing that a file says is done.
 *
 *   bytes ─ opcodes ─► stack ─► values ── PICKLE_LIST, PICKLE_DICT ──► cells: one value each
 *
 * Values are numbered in the order in which they appear; a memo may put one value into several
 * lists, or a list into itself. Source: Python, Lib/pickletools.py.
 */
#ifndef HANG_PICKLE_H
#define HANG_PICKLE_H

#include "base/spw_types.h"

#define PICKLE_BYTES_MAX (64u << 20)

enum pickle_kind {
	PICKLE_NONE,
	PICKLE_INT, /* also True and False */
	PICKLE_FLOAT,
	PICKLE_TEXT,
	PICKLE_LIST, /* also a tuple */
	PICKLE_DICT, /* cells: key, value, key, value */
};

struct pickle_value {
	enum pickle_kind kind;
	uint32_t bytes; /* of the text, which has no end of its own */
	union {
		int64_t number;
		const char *text; /* in the bytes that were read */
		struct {
			uint32_t first, last; /* cells, from 1; 0: none */
		};
	};
};

struct pickle_cell {
	uint32_t value, next; /* next: from 1; 0: the last */
};

struct pickle {
	struct pickle_value *value;
	struct pickle_cell *cell;
	uint32_t *stack, *memo;
	uint32_t value_cnt, cell_cnt, stack_cnt, memo_cnt;
	const uint8_t *start, *at, *end;
	const struct pickle_value *top; /* the whole */
};

/* Purpose: reads a pickle.
 * Owner: the caller frees it with pickle_free, also after an error; bytes must outlive it.
 * Thread: any.
 * Errors: -EPROTO with a text: it is cut, malformed, or no plain data; -ENOMEM.
 */
int pickle_read(struct pickle *p, const void *bytes, size_t size);

/* Purpose: frees it. Thread: any. */
void pickle_free(struct pickle *p);

/* Purpose: a member of a dictionary by its name. Returns: NULL: none, or no dictionary (or NULL).
 * Thread: any; pure. */
const struct pickle_value *pickle_member(const struct pickle *p, const struct pickle_value *dict,
					 const char *name);

/* Purpose: the next value of a list.
 * Shape: cursor: 0 before the first. Returns: NULL: there is none, or list is none (or NULL).
 * Thread: any; pure. */
const struct pickle_value *pickle_next(const struct pickle *p, const struct pickle_value *list,
				       uint32_t *cursor);

/* Purpose: the text of a value, cut to bytes; "" if it is none (or NULL). Thread: any; pure. */
void pickle_text(const struct pickle_value *value, char *out, size_t bytes);

#endif
