/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The first messages of the control connection (control.h): hello, then facts. The channel has
 * compared the protocol's versions before, and the secret is proved by the first message already,
 * as by every other.
 *
 * The client speaks first. The server's part begins after door.c has taken the hello, so strangers
 * never cause the work of reading the facts of this machine.
 */
#include <string.h>

#include "control/control.h"

#define GREET_MS 10000u

/* The version is for a reader of the connection. */
static int greet_hello(struct perf_ctl *ctl)
{
	return perf_ctl_send(ctl, json_pack("{s:s}", "hello", SPW_VERSION));
}

static int facts_take(struct perf_ctl *ctl, json_t **facts_out)
{
	json_t *json;
	int rc = perf_ctl_recv(ctl, GREET_MS, &json);

	*facts_out = rc ? NULL : json_incref(json_object_get(json, "facts"));
	if (rc == 0)
		json_decref(json);
	return rc;
}

/* facts is released on every path: json_pack takes it over only with the last message. */
int perf_greet_client(struct perf_ctl *ctl, const struct spw_oob_secret *secret, json_t *facts,
		      json_t **theirs_out)
{
	json_t *hello = NULL;
	int rc = perf_ctl_greet(ctl, secret, GREET_MS);

	*theirs_out = NULL;
	rc = rc ? rc : greet_hello(ctl);
	rc = rc ? rc : perf_ctl_recv(ctl, GREET_MS, &hello);
	json_decref(hello);
	if (rc < 0) {
		json_decref(facts);
		return rc;
	}
	rc = perf_ctl_send(ctl, json_pack("{s:o}", "facts", facts));
	return rc ? rc : facts_take(ctl, theirs_out);
}

int perf_greet_server(struct perf_ctl *ctl, json_t *facts, json_t **theirs_out)
{
	int rc = greet_hello(ctl);

	*theirs_out = NULL;
	rc = rc ? rc : facts_take(ctl, theirs_out);
	if (rc < 0) {
		json_decref(facts);
		return rc;
	}
	return perf_ctl_send(ctl, json_pack("{s:o}", "facts", facts));
}
