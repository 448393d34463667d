/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rules that involve more than one key: ports exist and their specifications parse, lcores match
 * queues, no core has two jobs. spw_conf_check runs before EAL, spw_conf_check_lcores after it,
 * when the set of lcores is known.
 *
 * A single value's range is lib/opt's matter and was checked when it was set. Messages begin with
 * the place that a user can change: FILE:LINE:COLUMN, or the option (place.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "conf/conf_impl.h"

/* Puts the place where the value came from in front of the text: file and line, or the option. */
static int fail_at(const struct spw_conf *conf, const struct spw_conf_where *where, const char *key,
		   int rc)
{
	char place[CONF_PLACE_BYTES];

	conf_place(conf, where, key, place);
	return spw_err_ctx(rc, "%s", place);
}

static int port_check(struct spw_conf *conf, uint32_t idx)
{
	struct spw_conf_port *port = &conf->port[idx];
	char key[32];
	int rc;

	snprintf(key, sizeof(key), "ports[%u]", idx);
	if (port->spec_text[0] == '\0')
		return fail_at(conf, &port->where, key,
			       spw_err(EINVAL, "has no spec; give DRIVER:DEVICE"));
	rc = spw_port_spec_parse(port->spec_text, &port->spec);
	if (rc)
		return fail_at(conf, &port->where, key, rc);
	if (port->lcores.cnt && port->lcores.cnt != port->queues)
		return fail_at(conf, &port->lcores.where, key,
			       spw_err(EINVAL, "%u lcores for %u queues; name one per queue",
				       port->lcores.cnt, port->queues));
	return 0;
}

/* Takes the cores into used; each may be there once. */
static int cores_unique(const struct spw_conf *conf, const struct spw_conf_cores *cores,
			const char *key, bool used[1024])
{
	for (uint32_t i = 0; i < cores->cnt; i++) {
		if (used[cores->core[i]])
			return fail_at(conf, &cores->where, key,
				       spw_err(EINVAL,
					       "core %u has two jobs; each lcore runs one queue or "
					       "one executor "
					       "thread",
					       cores->core[i]));
		used[cores->core[i]] = true;
	}
	return 0;
}

/* Where it stands decides only if there is another. */
static void handler_alone_is_for_all(struct spw_conf *conf)
{
	for (uint32_t i = 0; conf->handler_cnt == 1 && i < conf->port_cnt; i++) {
		struct spw_conf_port *port = &conf->port[i];

		if (!port->handler[0])
			continue;
		memcpy(conf->executor.handler, port->handler, sizeof(conf->executor.handler));
		port->handler[0] = '\0';
	}
}

/* Specifications are parsed before EAL starts: which devices it may probe depends on them. */
int spw_conf_check(struct spw_conf *conf)
{
	bool used[1024] = {false};
	uint32_t queues = 0;
	int rc;

	handler_alone_is_for_all(conf);
	if (conf->port_cnt == 0)
		return spw_err(
			EINVAL,
			"no port; name one with --port DRIVER:DEVICE, or under ports: in a file");
	for (uint32_t i = 0; i < conf->port_cnt; i++) {
		rc = port_check(conf, i);
		if (rc == 0)
			rc = cores_unique(conf, &conf->port[i].lcores, "lcores", used);
		if (rc)
			return rc;
		queues += conf->port[i].queues;
	}
	if (conf->executor.cores.cnt && conf->executor.cores.cnt != queues)
		return fail_at(conf, &conf->executor.cores.where, "executor.cores",
			       spw_err(EINVAL, "%u cores for %u queues; name one per queue",
				       conf->executor.cores.cnt, queues));
	return cores_unique(conf, &conf->executor.cores, "executor.cores", used);
}

/* "1,2,3", for the message. */
static void lcore_list(const bool *is_lcore, uint32_t cnt, char *out, size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < cnt && used < bytes; i++)
		if (is_lcore[i])
			used += (size_t)snprintf(out + used, bytes - used, "%s%u", used ? "," : "",
						 i);
}

/* Only lcores that the user named: others are taken from EAL's set. */
int spw_conf_check_lcores(const struct spw_conf *conf, const bool *is_lcore, uint32_t cnt)
{
	char list[256];

	for (uint32_t p = 0; p < conf->port_cnt; p++) {
		const struct spw_conf_cores *lcores = &conf->port[p].lcores;

		for (uint32_t i = 0; i < lcores->cnt; i++) {
			if (lcores->core[i] < cnt && is_lcore[lcores->core[i]])
				continue;
			lcore_list(is_lcore, cnt, list, sizeof(list));
			return fail_at(conf, &lcores->where, "lcores",
				       spw_err(EINVAL,
					       "lcore %u is not in EAL's set (%s); add it to -l",
					       lcores->core[i], list));
		}
	}
	return 0;
}
