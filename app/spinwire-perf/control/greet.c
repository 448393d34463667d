/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The first messages of the control connection (control.h): version, then facts. The secret is
 * proved by the first message already, as by every other.
 *
 * The client speaks first. The server's part begins after door.c has taken and checked the hello,
 * so strangers never cause the work of reading the facts of this machine.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "control/control.h"

#define GREET_MS 10000u

json_t *perf_greet_hello(void)
{
	return json_pack("{s:i,s:s}", "hello", PERF_PROTOCOL, "version", SPW_VERSION);
}

/* At both ends, so that each prints in its own words which version to install. */
int perf_greet_check(const struct perf_ctl *ctl, const json_t *hello)
{
	char version[32];
	uint64_t protocol;
	int rc = perf_number(hello, "hello", UINT32_MAX, &protocol);

	perf_text(hello, "version", version, sizeof(version));
	if (rc == 0 && protocol != PERF_PROTOCOL)
		rc = spw_err(EPROTONOSUPPORT,
			     "%s: is spinwire-perf %s with protocol %u, this one is %s with %u: "
			     "install the same version at both ends",
			     ctl->peer, version, (uint32_t)protocol, SPW_VERSION, PERF_PROTOCOL);
	return rc;
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
	rc = rc ? rc : perf_ctl_send(ctl, perf_greet_hello());
	rc = rc ? rc : perf_ctl_recv(ctl, GREET_MS, &hello);
	rc = rc ? rc : perf_greet_check(ctl, hello);
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
	int rc = perf_ctl_send(ctl, perf_greet_hello());

	*theirs_out = NULL;
	rc = rc ? rc : facts_take(ctl, theirs_out);
	if (rc < 0) {
		json_decref(facts);
		return rc;
	}
	return perf_ctl_send(ctl, json_pack("{s:o}", "facts", facts));
}
