/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The handlers of a run, and what they found: digest and counters, as text and as JSON
 * (telemetry.c has them live). A handler is opened once for each text that --handler gave, so that
 * ports with the same text share its counters, and the same plug-in with other arguments is
 * another.
 *
 *   conf.port[].handler, conf.executor.handler ─► app->handler[] ─► topo_conf.lane[].handler
 *
 * app_handlers_open is called before the executor is chosen, which depends on whether each handler
 * has device code. Reports and telemetry read the counters of a handler as a sum over all its lanes
 * (lib/topo), into one block of the program's: `sum` holds until the next reading.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "app_json.h"
#include "app_text.h"
#include "base/spw_err.h"
#include "exec/spw_place.h"

#define TOP_TEXT  4u    /* places of a table in a line of text */
#define TOP_JSON  4096u /* and in JSON */
#define NAME_CHAR 18    /* of a counter, in the text's first column */

/* ---- open and close ---- */

static const char place_spec[] = "place"; /* by its address: nobody asks for it by name */

static const char *handler_spec(const struct app *app, uint32_t port)
{
	const char *own = app->conf.port[port].handler;

	if (app->objects[port])
		return place_spec;
	return own[0] ? own : app->conf.executor.handler;
}

/* As topo_port_name_distinct does for ports. */
static void handler_name_distinct(struct app *app, struct app_handler *h)
{
	snprintf(h->name, sizeof(h->name), "%.50s", h->handler->name);
	for (const struct app_handler *other = app->handler; other < h; other++)
		if (!strcmp(other->handler->name, h->handler->name))
			snprintf(h->name, sizeof(h->name), "%.50s#%u", h->handler->name,
				 (uint32_t)(h - app->handler));
}

static int handler_add(struct app *app, const char *spec)
{
	struct app_handler *h = &app->handler[app->handler_cnt];
	int rc = 0;

	if (spec == place_spec)
		h->handler = &spw_place_handler;
	else
		rc = spw_handler_open(spec, &h->handler);
	if (rc)
		return rc;
	app->handler_cnt++;
	h->spec = spec;
	handler_name_distinct(app, h);
	if (h->handler->state && !(h->sum = malloc(h->handler->state->bytes)))
		return spw_err(ENOMEM, "handler %s: no memory for its counters", h->name);
	return 0;
}

/* Texts are compared, not files: "./syn.so" and "././syn.so" are two handlers. */
static struct app_handler *handler_find(struct app *app, const char *spec)
{
	for (uint32_t i = 0; i < app->handler_cnt; i++)
		if (app->handler[i].spec == spec ||
		    (spec != place_spec && !strcmp(app->handler[i].spec, spec)))
			return &app->handler[i];
	return NULL;
}

int app_handlers_open(struct app *app)
{
	int rc = 0;

	for (uint32_t i = 0; i < app->topo_conf.lane_cnt && rc == 0; i++) {
		struct spw_topo_lane_conf *lane = &app->topo_conf.lane[i];
		const char *spec = handler_spec(app, lane->port);

		if (!handler_find(app, spec))
			rc = handler_add(app, spec);
		if (rc == 0)
			lane->handler = handler_find(app, spec)->handler;
	}
	return rc;
}

void app_handlers_close(struct app *app)
{
	for (uint32_t i = 0; i < app->handler_cnt; i++) {
		free(app->handler[i].sum);
		spw_handler_close(app->handler[i].handler);
	}
	app->handler_cnt = 0;
}

/* ---- what they found ---- */

/* Every lane has one of app->handler, so the search ends. */
const struct app_handler *app_handler_of(const struct app *app, uint32_t lane)
{
	const struct app_handler *h = app->handler;

	while (h->handler != app->topo_conf.lane[lane].handler)
		h++;
	return h;
}

const void *app_handler_read(const struct app *app, uint32_t i, uint64_t *digest_out)
{
	const struct app_handler *h = &app->handler[i];

	if (h->sum)
		memset(h->sum, 0, h->handler->state->bytes);
	return spw_topo_handler_read(&app->topo, h->handler, digest_out, h->sum) < 0 ? NULL
										     : h->sum;
}

const char *app_handlers_names(const struct app *app, char *out, size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < app->handler_cnt && used < bytes; i++)
		used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? ", " : "",
					 app->handler[i].name);
	return out;
}

static bool handler_has_port(const struct app *app, uint32_t i, uint32_t port)
{
	for (uint32_t l = 0; l < app->topo.lane_cnt; l++)
		if (app->topo_conf.lane[l].port == port &&
		    app->topo_conf.lane[l].handler == app->handler[i].handler)
			return true;
	return false;
}

const char *app_handler_ports(const struct app *app, uint32_t i, char *out, size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t p = 0; p < app->topo.port_cnt && used < bytes; p++)
		if (handler_has_port(app, i, p))
			used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? ", " : "",
						 app->topo.port[p]->name);
	return out;
}

static const uint64_t *counter_value(const struct spw_handler_counter *c, const void *block)
{
	return (const uint64_t *)((const char *)block + c->offset);
}

/* ---- text ---- */

/* "  syns   143 by port: 443 has 100, 80 has 43 (TCP SYNs by destination port)" */
static void counter_print(const struct spw_handler_counter *c, const uint64_t *value)
{
	uint32_t at[TOP_TEXT], used, cnt;
	uint64_t sum;

	cnt = spw_handler_counter_top(c, value, TOP_TEXT, at, &sum, &used);
	printf("  %-*s %14" PRIu64, NAME_CHAR, c->name, sum);
	if (c->index && cnt)
		printf(" by %s:", c->index);
	for (uint32_t k = 0; c->index && k < cnt; k++)
		printf("%s %" PRIu64 " has %" PRIu64, k ? "," : "", c->first + at[k], value[at[k]]);
	if (c->index && used > cnt)
		printf(", and %u more", used - cnt);
	printf(" (%s)\n", c->help);
}

/* The brief summary leaves out those whose digest is all that they have. */
void app_handlers_print(const struct app *app, bool brief)
{
	for (uint32_t i = 0; i < app->handler_cnt; i++) {
		const struct spw_handler_state *state = app->handler[i].handler->state;
		const struct spw_handler_counter *c = state ? state->counter : NULL;
		uint64_t digest;
		const void *block = app_handler_read(app, i, &digest);
		char ports[256];

		if (brief && (!c || !block))
			continue;
		printf("%-*s%s on %s: digest %" PRIu64 "%s\n", brief ? 11 : 10, "handler",
		       app->handler[i].name, app_handler_ports(app, i, ports, sizeof(ports)),
		       digest, state && !block ? "; its counters could not be read" : "");
		for (; block && c && c->name; c++)
			counter_print(c, counter_value(c, block));
	}
}

/* ---- JSON ---- */

static json_t *counter_json(const struct spw_handler_counter *c, const uint64_t *value)
{
	static uint32_t at[TOP_JSON];
	uint32_t used, cnt;
	json_t *top;
	uint64_t sum;

	cnt = spw_handler_counter_top(c, value, TOP_JSON, at, &sum, &used);
	if (!c->index)
		return json_integer((json_int_t)sum);
	top = json_object();
	for (uint32_t k = 0; k < cnt; k++) {
		char place[24];

		snprintf(place, sizeof(place), "%" PRIu64, c->first + at[k]);
		json_object_set_new(top, place, json_integer((json_int_t)value[at[k]]));
	}
	return json_pack("{s:o,s:I,s:I,s:o,s:I}", "by", app_json_text(c->index), "sum",
			 (json_int_t)sum, "used", (json_int_t)used, "top", top, "left_out",
			 (json_int_t)(used - cnt));
}

static json_t *handler_ports_json(const struct app *app, uint32_t i)
{
	json_t *ports = json_array();

	for (uint32_t p = 0; p < app->topo.port_cnt; p++)
		if (handler_has_port(app, i, p))
			json_array_append_new(ports, app_json_text(app->topo.port[p]->name));
	return ports;
}

json_t *app_handlers_json(const struct app *app)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < app->handler_cnt; i++) {
		const struct spw_handler_state *state = app->handler[i].handler->state;
		const struct spw_handler_counter *c = state ? state->counter : NULL;
		json_t *counters = json_object();
		uint64_t digest;
		const void *block = app_handler_read(app, i, &digest);

		for (; block && c && c->name; c++)
			json_object_set_new(counters, c->name,
					    counter_json(c, counter_value(c, block)));
		json_array_append_new(all, json_pack("{s:o,s:o,s:o,s:I,s:o}", "name",
						     app_json_text(app->handler[i].name), "spec",
						     app_json_text(app->handler[i].spec), "ports",
						     handler_ports_json(app, i), "digest",
						     (json_int_t)digest, "counters", counters));
	}
	return all;
}
