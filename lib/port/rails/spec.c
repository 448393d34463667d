/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "rails:PORT+PORT...": each PORT is a whole specification with its own keys, so a rail may be any
 * driver, or an interposer in front of one. Keys that begin with rails_ belong to rails itself,
 * wherever they stand; a rail's specification has no '+' in it.
 *
 *   rails:mlx5:a,mode=eth,rails_order=flow+mlx5:b,mode=eth
 *         └── rail 0 ───┘ └─── own ──────┘ └── rail 1 ───┘
 *
 * Called by port.c of this folder for need and for open. Rails are parsed by spw_port_spec_parse
 * again, so an error of one names its own text.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/rails/rails.h"

static const struct spw_port_key rails_key[] = {
	{"rails_order", "flow|stream|none",
	 "flow: each flow's order is restored, by the generator's sequence number. stream: the "
	 "order of all frames of a sender, which spinwire-gen --stream yes numbers; one queue. "
	 "none: frames are lent as they come; the only order that works with memory that the CPU "
	 "cannot read.",
	 "flow", 0, 0},
	{"rails_spread", "flow|frame",
	 "What a source sends goes by flow, in 64 buckets, or over the rails in turn, past those "
	 "that are full. Give both ends the same.",
	 "flow, and frame with rails_order=stream", 0, 0},
	{"rails_window", "N",
	 "Numbers of one flow (or stream) that may be out of order, a power of 2.", "512", 2,
	 RAILS_WINDOW_MAX},
	{"rails_wait_us", "US", "How long a number is waited for, from the frame behind it on.",
	 "1000", 1, 10000000},
};
static const struct spw_port_keys rails_keys = {NULL, rails_key, SPW_ARRAY_CNT(rails_key)};
const struct spw_port_keys *const rails_sets[] = {&rails_keys, NULL};

/* Own keys are checked through a specification of the driver null, which has keys only. */
static int rails_own_keys(const struct spw_port_spec *own, struct rails_conf *conf)
{
	const char *order = spw_port_spec_find(own, "rails_order"),
		   *spread = spw_port_spec_find(own, "rails_spread");
	int rc = spw_port_spec_check_keys(own, rails_sets);

	conf->order = !order || !strcmp(order, "flow") ? RAILS_ORDER_FLOW
		      : !strcmp(order, "stream")       ? RAILS_ORDER_STREAM
						       : RAILS_ORDER_NONE;
	if (!rc && order && conf->order == RAILS_ORDER_NONE && strcmp(order, "none"))
		rc = spw_err(EINVAL, "rails_order=%s: use flow, stream or none", order);
	conf->by_frame = spread ? !strcmp(spread, "frame") : conf->order == RAILS_ORDER_STREAM;
	if (!rc && spread && !conf->by_frame && strcmp(spread, "flow"))
		rc = spw_err(EINVAL, "rails_spread=%s: use flow or frame", spread);
	rc = rc ? rc : spw_port_spec_number(own, &rails_keys, "rails_window", &conf->window);
	rc = rc ? rc : spw_port_spec_number(own, &rails_keys, "rails_wait_us", &conf->wait_us);
	if (!rc && !SPW_IS_POW2(conf->window))
		rc = spw_err(EINVAL, "rails_window=%u is no power of 2", (unsigned)conf->window);
	return rc;
}

/* Appends one item, "key=value" or the beginning of a rail, to the text it belongs to. Nothing is
 * cut: each text is shorter than the one that its items come from. */
static void rails_spec_append(char *text, const char *item, size_t len, const char *sep)
{
	const size_t n = strlen(text);

	snprintf(text + n, sizeof(((struct spw_port_spec *)0)->text) - n, "%s%.*s",
		 n && text[n - 1] != ':' ? sep : "", (int)len, item);
}

/* One rail, text[0 .. len): its own keys to rail_out, those of rails to own. */
static int rails_parse_rail(const char *text, size_t len, char *own, struct spw_port_spec *rail_out)
{
	char rail[sizeof(rail_out->text)] = "";

	for (size_t at = 0, n; at < len; at += n + 1) {
		n = SPW_MIN(strcspn(text + at, ","), len - at);
		rails_spec_append(strncmp(text + at, RAILS_KEY, strlen(RAILS_KEY)) ? rail : own,
				  text + at, n, ",");
	}
	if (!rail[0])
		return spw_err(EINVAL, "a rail is empty; use " RAILS_FORM);
	if (!strncmp(rail, "rails:", strlen("rails:")))
		return spw_err(EINVAL, "a rail cannot be made of rails; name all ports in one");
	return spw_port_spec_parse(rail, rail_out);
}

static int rails_check_count(uint32_t cnt)
{
	if (spw_in_range(cnt, 2, SPW_PORT_RAIL_MAX))
		return 0;
	return spw_err(EINVAL, "%u rail%s: use " RAILS_FORM, cnt, cnt == 1 ? "" : "s");
}

/* conf_out->rail[] is complete only if this succeeds. */
int rails_spec_parse(const struct spw_port_spec *spec, struct rails_conf *conf_out)
{
	const char *text = spec->text + strcspn(spec->text, ":,");
	char own_text[sizeof(spec->text)] = "null:";
	struct spw_port_spec own;
	uint32_t cnt = 1;
	int rc;

	text += *text != '\0';
	memset(conf_out, 0, sizeof(*conf_out));
	for (const char *p = text; *p; p++)
		cnt += *p == '+';
	rc = rails_check_count(text[0] ? cnt : 0);
	for (conf_out->rail_cnt = 0; !rc && conf_out->rail_cnt < cnt; conf_out->rail_cnt++) {
		const size_t len = strcspn(text, "+");

		rc = rails_parse_rail(text, len, own_text, &conf_out->rail[conf_out->rail_cnt]);
		text += len + (text[len] == '+');
	}
	rc = rc ? rc : spw_port_spec_parse(own_text, &own);
	return rc ? rc : rails_own_keys(&own, conf_out);
}
