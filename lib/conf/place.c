/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The place in front of a message: the option, the file's line and column, or, for a default, the
 * key alone. check.c calls it when a rule that spans several keys fails, to name the one that a
 * user should look at.
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
