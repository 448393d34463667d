/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/conf: the table of keys, and the one way by which text becomes a value.
 */
#ifndef CONF_IMPL_H
#define CONF_IMPL_H

#include "conf/spw_conf.h"

enum conf_type {
	CONF_NUMBER,
	CONF_BYTES,
	CONF_TIME,
	CONF_BOOL,
	CONF_TEXT,
	CONF_CHOICE,
	CONF_CORES
};

/* Extra demands on a number. */
#define CONF_POW2          (1u << 0) /* a power of 2, or 0 if min is 0 */
#define CONF_LINE_MULTIPLE (1u << 1) /* of 64 */

struct conf_key {
	const char *section; /* "ports" is a list of mappings; the others are mappings */
	const char *name;
	const char *option;
	const char *dflt, *help;
	const char *(*choice)(
		uint32_t idx); /* CONF_CHOICE: name of value idx, NULL after the last */
	/* CONF_CHOICE: the error of a value that deserves a reason of its own, else 0; or NULL */
	int (*refused)(const char *text);
	uint64_t min, max;  /* CONF_TEXT: length without NUL */
	uint64_t bare_unit; /* CONF_TIME: ns that a bare number counts; 0: a unit is needed */
	enum conf_type type;
	unsigned int demands;
	uint32_t offset,
		bytes; /* of the field, in struct spw_conf or, for "ports", struct spw_conf_port */
};

#define CONF_PORTS "ports"

extern const struct conf_key conf_table[];
extern const uint32_t conf_table_cnt; /* at most 64: sets of keys are 64-bit masks */

/* The place in front of a message: "FILE:LINE:COLUMN: KEY" or "--OPTION". */
#define CONF_PLACE_BYTES 768
void conf_place(const struct spw_conf *conf, const struct spw_conf_where *where, const char *key,
		char *out);

/* "a, b, c" of the n names that name_of gives (NULL ones are left out); cut at bytes. */
void conf_join(char *out, size_t bytes, uint32_t n,
	       const char *(*name_of)(uint32_t idx, const void *arg), const void *arg);

/* Purpose: puts text into the field of key in base. CONF_CORES are added to what is there.
 * Errors:  -EINVAL with a text "... ; allowed: ..." that has no place yet. */
int conf_value_set(const struct conf_key *key, void *base, const char *text);

/* "1 .. 64, a power of 2" and the like. */
void conf_range_text(const struct conf_key *key, char *out, size_t bytes);

/* Purpose: a fresh port with its defaults at the end of the list.
 * Returns: NULL when the list is full. */
struct spw_conf_port *conf_port_add(struct spw_conf *conf);

/* Purpose: of cnt names, the one that is most like text, or NULL if none is. */
const char *conf_nearest(const char *text, uint32_t cnt,
			 const char *(*name_of)(uint32_t idx, const void *arg), const void *arg);

#endif
