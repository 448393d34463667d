/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Flow rules that stand, and their change while frames come: /spinwire/rules, /spinwire/rule_add
 * and /spinwire/rule_remove of telemetry.c, by spw_port_rule (port/spw_port.h). The port takes the
 * lock that a recovery of its queues takes, so lcores that move frames never wait.
 *
 * A change is on all rails of a port, or on none. It lasts until the port closes: a recovery makes
 * the rules again, with the tags that they had. A rule is known by its words; the handler is that
 * of its port, since all rules of a port lead to the same queues.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"
#include "live/dict.h"

/* All lanes of a port run one handler. */
static const char *rules_handler(const struct app *app, uint32_t port)
{
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		if (app->topo.lane[i]->conf.port == port)
			return app_handler_of(app, i)->name;
	return "";
}

/* The count is left out where the device reports no tags. */
static void rules_add_port(const struct app *app, uint32_t p, struct spw_port *port,
			   uint32_t *number, struct rte_tel_data *d)
{
	struct spw_port_rule rule[SPW_PORT_RULE_MAX];
	const uint32_t cnt = spw_port_rules(port, rule);

	for (uint32_t i = 0; i < cnt; i++) {
		struct rte_tel_data *dict = app_dict_new();
		char name[16];

		if (!dict)
			return;
		app_dict_add(dict, "port", p);
		app_dict_add_text(dict, "name", port->name);
		app_dict_add_text(dict, "handler", rules_handler(app, p));
		app_dict_add_text(dict, "rule", rule[i].text);
		if (rule[i].frames_known)
			app_dict_add(dict, "frames", rule[i].frames);
		snprintf(name, sizeof(name), "%u", (*number)++);
		app_dict_add_dict(d, name, dict);
	}
}

/* The rules that stand, of each port or each of its rails, numbered in the order of ports: names
 * of ports may have characters that DPDK refuses. */
void app_rules_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	uint32_t number = 0;

	for (uint32_t p = 0; p < app->topo.port_cnt; p++) {
		struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
		const uint32_t cnt = spw_port_rails(app->topo.port[p], rail);

		if (!cnt)
			rules_add_port(app, p, app->topo.port[p], &number, d);
		for (uint32_t r = 0; r < cnt; r++)
			rules_add_port(app, p, rail[r].port, &number, d);
	}
}

/* "PORT,udp=9": the number that /spinwire/ports has for the port, and the rule. Anybody who may
 * open the socket sends anything, so what does not fit is refused as text of the answer. */
static void rule_change(struct app *app, const char *params, bool add, struct rte_tel_data *d)
{
	const char *text = params ? strchr(params, ',') : NULL;
	char *end = NULL;
	unsigned long port = params ? strtoul(params, &end, 10) : 0;
	int rc;

	if (!text || end != text || *params < '0' || *params > '9' || port >= app->topo.port_cnt)
		rc = spw_err(EINVAL,
			     "PORT,udp=N or PORT,tcp=N; PORT: 0 .. %u, as in /spinwire/ports",
			     app->topo.port_cnt - 1);
	else
		rc = spw_port_rule(app->topo.port[port], text + 1, add);
	app_dict_add_text(d, rc ? "error" : "done", rc ? spw_err_text() : params);
	if (!rc)
		spw_info("rule %s of port %s: %s", add ? "added" : "removed",
			 app->topo.port[port]->name, text + 1);
}

/* The lock of telemetry.c orders both, and the end of the run. */
void app_rule_add_dict(struct app *app, const char *params, struct rte_tel_data *d)
{
	rule_change(app, params, true, d);
}

void app_rule_remove_dict(struct app *app, const char *params, struct rte_tel_data *d)
{
	rule_change(app, params, false, d);
}
