/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The two halves of the command line. Ours is read first: the ports decide what EAL may touch.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_version.h>

#include "app.h"
#include "base/spw_err.h"

void app_help(void)
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

static bool is_option(const char *arg, const char *name)
{
	size_t bytes = strlen(name);

	return !strncmp(arg, name, bytes) && (arg[bytes] == '\0' || arg[bytes] == '=');
}

static bool has_option(const struct app *app, const char *name)
{
	for (int i = 1; i < app->eal_argc; i++)
		if (is_option(app->eal_argv[i], name))
			return true;
	return false;
}

/* -a ADDRESS and -aADDRESS as well as --allow. */
static bool names_device(const struct app *app)
{
	for (int i = 1; i < app->eal_argc; i++)
		if (!strncmp(app->eal_argv[i], "-a", 2))
			return true;
	return has_option(app, "--allow");
}

static int eal_add(struct app *app, char *arg)
{
	if (app->eal_argc >= APP_EAL_ARG_MAX - 1)
		return spw_err(EINVAL, "too many EAL arguments, the limit is %d", APP_EAL_ARG_MAX - 2);
	app->eal_argv[app->eal_argc++] = arg;
	return 0;
}

/* EAL gets what the ports need and nothing that was not named: no PCI scan without a PCI port or -a. */
static int eal_add_needs(struct app *app)
{
	static char no_pci[] = "--no-pci", allow[] = "-a", quiet[] = "--log-level=lib.*:warning";
	bool pci = names_device(app);
	int rc = 0;

	for (uint32_t i = 0; i < app->conf.port_cnt; i++) {
		struct spw_port_eal_need *need = &app->eal_need[i];

		if ((rc = spw_port_eal_need(&app->conf.port[i].spec, need)) < 0)
			return rc;
		pci |= need->pci;
		if (need->allow[0] && ((rc = eal_add(app, allow)) < 0 || (rc = eal_add(app, need->allow)) < 0))
			return rc;
	}
	if (!pci && !has_option(app, "--no-pci"))
		rc = eal_add(app, no_pci);
	if (!rc && !has_option(app, "--log-level"))
		rc = eal_add(app, quiet);
	return rc;
}

int app_args(struct app *app, int argc, char **argv)
{
	int split = 1, rc;

	while (split < argc && strcmp(argv[split], "--"))
		split++;
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		app_help();
		return 1;
	}
	for (int i = 0; i < split; i++)
		if ((rc = eal_add(app, argv[i])) < 0)
			return rc;
	if (split == argc)
		return spw_err(EINVAL, "spinwire's own arguments stand behind \"--\"; at least one --port or --config; see "
			       "spinwire --help");
	rc = spw_conf_args(&app->conf, argc - split, argv + split);
	if (rc == SPW_CONF_HELP)
		app_help();
	if (rc == SPW_CONF_VERSION)
		printf("spinwire %s, %s\n", SPW_VERSION, rte_version());
	return rc ? rc : eal_add_needs(app);
}

static char runtime_dir[512]; /* for at_exit only */

/* EAL leaves its runtime folder; it goes if nobody else's files are in it. */
static void at_exit(void)
{
	if (runtime_dir[0])
		rmdir(runtime_dir);
}

int app_eal_start(struct app *app, const char *program)
{
	int rc;

	atexit(at_exit); /* before EAL's own, so that it runs after them */
	rc = rte_eal_init(app->eal_argc, app->eal_argv);
	snprintf(runtime_dir, sizeof(runtime_dir), "%s", rte_eal_get_runtime_dir() ? rte_eal_get_runtime_dir() : "");

	if (rc < 0)
		return spw_err(rte_errno == EINVAL ? EINVAL : rte_errno ? rte_errno : EIO,
			       "EAL did not start: %s; %s -- --help lists spinwire's own arguments, and without hugepages EAL "
			       "wants --no-huge", rte_strerror(rte_errno), program);
	app->eal_up = true;
	return 0;
}
