/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The place in front of a message.
 */
#include <stdio.h>

#include "conf/conf_impl.h"

void conf_place(const struct spw_conf *conf, const struct spw_conf_where *where, const char *key,
		char *out)
{
	if (where->option)
		snprintf(out, CONF_PLACE_BYTES, "--%s", where->option);
	else if (where->line)
		snprintf(out, CONF_PLACE_BYTES, "%s:%u:%u: %s", conf->file, where->line,
			 where->column, key);
	else
		snprintf(out, CONF_PLACE_BYTES, "%s", key);
}
