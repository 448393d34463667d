/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line: our half is read first, since the ports decide what EAL may touch.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_version.h>

#include "app.h"
#include "base/spw_err.h"

static void help(void)
{
	struct spw_conf_key_help key;

	printf("usage: spinwire [EAL arguments] -- [arguments]\n\n"
	       "Receives frames, hands them to an executor without a copy, and accounts for every one of them.\n"
	       "EAL arguments are those of any DPDK program (-l, --lcores, --no-huge, -a ...): the main lcore controls,\n"
	       "each other lcore runs one receive queue, and spare ones serve the cpu executor.\n\n");
	for (uint32_t i = 0; spw_conf_key_help(i, &key); i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s <%s>", key.option, key.type);
		printf("  %-34s %s", left, key.help);
		if (key.range[0])
			printf(" (%s)", key.range);
		printf("%s%s\n", key.dflt[0] ? ", default " : "", key.dflt);
	}
	printf("\nport drivers: %s\n", spw_port_driver_names());
	printf("exit status: 0 good, 1 usage or config, 2 the machine cannot do it, 3 ledger or pool did not balance,\n"
	       "             4 a fault that could not be mended\n");
}

int app_args(struct app *app, int argc, char **argv)
{
	int rc;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		help();
		return 1;
	}
	if ((rc = app_eal_split(&app->eal, argc, argv)) < 0)
		return rc;
	if (app->eal.split == argc)
		return spw_err(EINVAL, "spinwire's own arguments stand behind \"--\", at least one --port or a --config; see "
			       "spinwire --help");
	rc = spw_conf_args(&app->conf, argc - app->eal.split, argv + app->eal.split);
	if (rc == SPW_CONF_HELP)
		help();
	if (rc == SPW_CONF_VERSION)
		printf("spinwire %s, %s\n", SPW_VERSION, rte_version());
	for (uint32_t i = 0; rc == 0 && i < app->conf.port_cnt; i++)
		rc = app_eal_port(&app->eal, &app->conf.port[i].spec);
	return rc;
}
