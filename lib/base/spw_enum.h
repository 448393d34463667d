/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An enumeration and its words from one list, so that the two cannot differ. A list has a row for
 * each value; P is the prefix of the values, and every row passes it on:
 *
 *   #define SPW_HUE_LIST(X, P)       \
 *           X(P, red, "what it is")  \
 *           X(P, blue, "what it is")
 *
 *   enum spw_hue { SPW_ENUM(SPW_HUE) };                    SPW_HUE_red, SPW_HUE_blue, SPW_HUE_CNT
 *   static const struct spw_enum_word hue_word[] = {SPW_ENUM_WORDS(SPW_HUE)};
 *   SPW_ENUM_NAME(hue_word, SPW_HUE_red)                   "red"
 *
 * Where a list's name is not the prefix of its values, or its rows have other columns, the list is
 * called with one of the row macros, or one of its user's, in place of X.
 */
#ifndef SPW_ENUM_H
#define SPW_ENUM_H

#include "base/spw_types.h"

struct spw_enum_word {
	const char *name; /* as printed */
	const char *text; /* its meaning, in one clause */
};

/* Row macros. */
#define SPW_ENUM_VALUE(prefix, name, ...) prefix##name,
#define SPW_ENUM_WORD(prefix, name, text) {#name, text},

/* All values of a list and their number; the words of a list, in the order of its values. */
#define SPW_ENUM(list)       list##_LIST(SPW_ENUM_VALUE, list##_) list##_CNT
#define SPW_ENUM_WORDS(list) list##_LIST(SPW_ENUM_WORD, )

/* Purpose: a value's name or text from the array `words`; "?" if it is none of its values. */
#define SPW_ENUM_NAME(words, value) \
	((size_t)(value) < SPW_ARRAY_CNT(words) ? (words)[value].name : "?")
#define SPW_ENUM_TEXT(words, value) \
	((size_t)(value) < SPW_ARRAY_CNT(words) ? (words)[value].text : "?")

#endif
