/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the configuration parser: any bytes as a file. Accepted values must lie in the ranges of
 * the table; a refusal must name a line.
 */
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "conf/conf_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static uint64_t field_of(const struct spw_opt *key, const void *base)
{
	uint64_t wide = 0;
	uint32_t narrow;

	if (key->bytes == sizeof(wide)) {
		memcpy(&wide, (const char *)base + key->offset, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, (const char *)base + key->offset, sizeof(narrow));
	return narrow;
}

static void key_demand(const struct spw_opt *key, const void *base)
{
	if (key->kind == SPW_OPT_NUMBER || key->kind == SPW_OPT_BYTES || key->kind == SPW_OPT_TIME)
		demand(field_of(key, base) >= key->min && field_of(key, base) <= key->max);
	else if (key->kind == SPW_OPT_CHOICE)
		demand(key->choice((uint32_t)field_of(key, base)) != NULL);
	else if (key->kind == SPW_OPT_TEXT)
		demand(memchr((const char *)base + key->offset, '\0', key->bytes) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct spw_conf conf;
	int rc;

	spw_conf_init(&conf);
	spw_err_clear();
	rc = spw_conf_load_text(&conf, "fuzz.yaml", (const char *)data, bytes);
	if (rc) {
		demand(strstr(spw_err_text(), "fuzz.yaml:") != NULL);
		return 0;
	}
	demand(conf.port_cnt <= SPW_PORT_MAX && conf.executor.cores.cnt <= SPW_CONF_CORE_MAX);
	for (uint32_t i = 0; i < conf_table_cnt; i++) {
		const struct spw_opt *key = &conf_table[i];

		if (strcmp(key->section, CONF_PORTS))
			key_demand(key, &conf);
		else
			for (uint32_t p = 0; p < conf.port_cnt; p++)
				key_demand(key, &conf.port[p]);
	}
	if (spw_conf_check(&conf))
		demand(spw_err_text()[0] != '\0');
	return 0;
}
