/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-perf: start here. This file decides which end this process is (perf.h draws the files).
 */
#include <stdio.h>
#include <string.h>

#include "app_life.h"
#include "app_program.h"
#include "args.h"

/* "-": a line of stdin, for whoever starts this program by another. */
static int secret_read(const char *path, struct spw_oob_secret *secret_out)
{
	char line[SPW_OOB_SECRET_MAX + 2];
	int rc;

	memset(secret_out, 0, sizeof(*secret_out));
	if (!path)
		return 0;
	if (strcmp(path, "-"))
		return spw_oob_secret_read(path, secret_out);
	if (!fgets(line, sizeof(line), stdin))
		line[0] = '\0';
	rc = spw_oob_secret_take("--secret - (a line of stdin)", (const uint8_t *)line,
				 strlen(line), secret_out);
	explicit_bzero(line, sizeof(line));
	return rc;
}

/* perf_ssh starts the other end and sets its host and secret, so it comes before this end's part;
 * perf_local returns only with an error. */
int main(int argc, char **argv)
{
	static struct perf_args args;
	struct spw_oob_secret secret;
	int rc, status = APP_GOOD;

	app_program_start(PERF_PROGRAM);
	app_life_ends(PERF_PROGRAM);
	if ((rc = perf_args(&args, argc, argv)) != 0)
		return rc < 0 ? app_complain(PERF_PROGRAM, rc) : APP_GOOD;
	if (!args.verbosity.quiet && !perf_is_started(&args))
		app_life_start(PERF_PROGRAM);
	if ((rc = secret_read(args.secret, &secret)) == 0 && args.ssh)
		rc = perf_ssh(&args, &secret);
	if (rc == 0 && !args.serve && !args.host)
		rc = perf_local(&args, argv);
	if (rc < 0)
		status = app_complain(PERF_PROGRAM, rc);
	else
		status = args.serve ? perf_serve(&args, &secret) : perf_client(&args, &secret);
	spw_oob_secret_wipe(&secret);
	return app_end(PERF_PROGRAM, status);
}
