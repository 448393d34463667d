/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The lists of spw_prm.h as tables, for code that handles any format (dump, tests, fuzzers), and
 * the names of values. Every row is checked at compile time. Pure and cold.
 *
 * The lists are X-macros (spw_prm.h): each row gives a field's byte, highest and lowest bit and
 * name. A new format is a list there and a line in SPW_PRM_FORMATS; nothing is added here.
 */
#include "prm/spw_prm.h"

#define ROW(fmt, b, m, l, n)   {.name = #n, .byte = (b), .msb = (m), .lsb = (l)},
#define TABLE(fmt, LIST, size) static const struct spw_prm_field fmt##_fields[] = {LIST(ROW, fmt)};
SPW_PRM_FORMATS(TABLE)

/* Each row lies inside its format and on its word's alignment, and its msb is not below its lsb. */
#define ROW_FITS(limit, b, m, l, n)                                  \
	&&(m) >= (l) && (b) % ((m) > 31 ? 8 : 4) == 0 && (m) < 64 && \
		(b) + ((m) > 31 ? 8 : 4) <= (limit)
#define CHECK(fmt, LIST, size) \
	_Static_assert(1 LIST(ROW_FITS, size), #LIST " has a row that does not fit");
SPW_PRM_FORMATS(CHECK)

#define FORMAT(fmt, LIST, size)                    \
	{.name = #fmt,                             \
	 .bytes = (size),                          \
	 .field_cnt = SPW_ARRAY_CNT(fmt##_fields), \
	 .fields = fmt##_fields},
static const struct spw_prm_format formats[] = {SPW_PRM_FORMATS(FORMAT)};

/* By the name that the list has, for tools and tests; the data path uses the inline readers. */
const struct spw_prm_format *spw_prm_format(const char *name)
{
	for (unsigned i = 0; i < SPW_ARRAY_CNT(formats); i++)
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	return NULL;
}

const struct spw_prm_field *spw_prm_field(const struct spw_prm_format *fmt, const char *name)
{
	for (unsigned i = 0; i < fmt->field_cnt; i++)
		if (strcmp(fmt->fields[i].name, name) == 0)
			return &fmt->fields[i];
	return NULL;
}

/* Big-endian bits [msb, lsb] of the word at byte. */
uint64_t spw_prm_field_get(const struct spw_prm_field *f, const void *p)
{
	return spw_prm_get(p, f->byte, f->msb, f->lsb);
}

#define NAME(v, n) \
	case v:    \
		return #n;

/* "?" for a value of no name: a device may report any. */
const char *spw_prm_cqe_opcode_name(unsigned opcode)
{
	switch (opcode) {
		SPW_PRM_CQE_OPCODES(NAME)
	}
	return "?";
}

const char *spw_prm_wqe_opcode_name(unsigned opcode)
{
	switch (opcode) {
		SPW_PRM_WQE_OPCODES(NAME)
	}
	return "?";
}

#define SYN_NAME(v, n, st, text) \
	case v:                  \
		return #n;
#define SYN_WC(v, n, st, text) \
	case v:                \
		return st;
#define SYN_TEXT(v, n, st, text) \
	case v:                  \
		return text;

const char *spw_prm_syndrome_name(unsigned syndrome)
{
	switch (syndrome) {
		SPW_PRM_SYNDROMES(SYN_NAME)
	}
	return "?";
}

/* The status is enum ibv_wc_status, as libmlx5 translates it; 21 is IBV_WC_GENERAL_ERR. */
unsigned spw_prm_syndrome_wc_status(unsigned syndrome)
{
	switch (syndrome) {
		SPW_PRM_SYNDROMES(SYN_WC)
	}
	return 21;
}

const char *spw_prm_syndrome_text(unsigned syndrome)
{
	switch (syndrome) {
		SPW_PRM_SYNDROMES(SYN_TEXT)
	}
	return "general error";
}
