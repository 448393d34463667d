/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * softhca-check OPTIONS: is this a configuration? tools/with-softhca asks before it starts a program.
 */
#include <stdio.h>

#include "base/spw_err.h"
#include "softhca/hca_cfg.h"

int main(int argc, char **argv)
{
	struct hca_cfg cfg;

	if (argc == 2 && hca_cfg_parse(argv[1], &cfg) == 0)
		return 0;
	fprintf(stderr, "with-softhca: %s\n", argc == 2 ? spw_err_text() : "softhca-check wants one argument");
	return 1;
}
