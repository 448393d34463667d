/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/conf: the table of keys.
 */
#ifndef CONF_IMPL_H
#define CONF_IMPL_H

#include "conf/spw_conf.h"

#define CONF_PORTS "ports"

/* Of section "ports" offsets are those in struct spw_conf_port, else those in struct spw_conf. */
extern const struct spw_opt conf_table[];
extern const uint32_t conf_table_cnt;

/* The place in front of a message: "FILE:LINE:COLUMN: KEY" or "--OPTION". */
#define CONF_PLACE_BYTES 768
void conf_place(const struct spw_conf *conf, const struct spw_conf_where *where, const char *key,
		char *out);

/* Adds cores to the struct spw_conf_cores of an option, because a YAML list arrives one item at a
 * time. */
int conf_cores_add(void *field, const char *text);

/* Whether an option is a list of cores. */
static inline bool conf_is_cores(const struct spw_opt *key)
{
	return key->set == conf_cores_add;
}

/* Purpose: a fresh port with its defaults at the end of the list.
 * Returns: NULL when the list is full. */
struct spw_conf_port *conf_port_add(struct spw_conf *conf);

#endif
