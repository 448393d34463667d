/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The row of a port (app_port.h), for the summaries of spinwire and of spinwire-gen. A port that
 * is made of rails has one row with their sum, and one for each rail in it. What a port does not
 * count is null, not 0.
 *
 *   app_port_json ─┬─ one_json(port)            name, driver, rx, tx, errors, wire, missed, ...
 *                  └─ rails[] ─ one_json(rail)  the same, and what only a rail counts
 *
 * Keys are what scripts read: one that changes its meaning gets another name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app_port.h"
#include "app_json.h"
#include "app_loop.h"
#include "app_text.h"

/* All names, also with a count of 0, so that a reader finds every key. */
static json_t *errors_json(const struct spw_port_stat *stat)
{
	json_t *errors = json_object();

	for (int e = 0; e < SPW_PORT_ERR_CNT; e++)
		json_object_set_new(errors, spw_port_err_name((enum spw_port_err)e),
				    app_json_number(stat->err[e]));
	return errors;
}

/* What a port and a rail have in common. */
static json_t *one_json(const struct spw_port *port, const struct spw_port_stat *stat)
{
	json_t *out = json_pack(
		"{s:o,s:s,s:{s:I,s:I},s:{s:I,s:I},s:o,s:o,s:o}", "name", app_json_text(port->name),
		"driver", port->driver->name, "rx", "frames", (json_int_t)stat->rx_frames, "bytes",
		(json_int_t)stat->rx_bytes, "tx", "frames", (json_int_t)stat->tx_frames, "bytes",
		(json_int_t)stat->tx_bytes, "errors", errors_json(stat), "port_discards",
		app_json_known(stat->port_discards_known, stat->port_discards), "physical_port",
		app_loop_json(stat));

	json_object_set_new(out, "wire", app_json_number(stat->wire_frames));
	json_object_set_new(out, "missed", app_json_known(stat->missed_known, stat->missed_frames));
	json_object_set_new(out, "retransmits",
			    app_json_known(stat->retransmits_known, stat->retransmits));
	return out;
}

static void mac_text(const uint8_t mac[6], char out[18])
{
	snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		 mac[5]);
}

/* Those of a port that is known by its GID or its peer have no MAC. */
void app_port_link_text(struct spw_port *port, char out[APP_PORT_LINK_BYTES])
{
	static const uint8_t none[6];
	struct spw_port_stat stat;
	char mac[18];
	int used = 0;

	out[0] = '\0';
	spw_port_stat(port, &stat);
	mac_text(port->caps.mac, mac);
	if (memcmp(port->caps.mac, none, sizeof(none)))
		used = snprintf(out, APP_PORT_LINK_BYTES, ", MAC %s", mac);
	if (stat.link_bps)
		used += snprintf(out + used, APP_PORT_LINK_BYTES - (size_t)used, ", %.5g Gbit/s",
				 (double)stat.link_bps * 1e-9);
	if (port->caps.mtu)
		snprintf(out + used, APP_PORT_LINK_BYTES - (size_t)used, ", MTU %u",
			 port->caps.mtu);
}

/* As many as a quiet cable carries of its own accord (LLDP, ARP). */
#define STRAYS_MIN 64u

/* Only where the port's own sum is known: packets of the physical port are those of all functions
 * and of the kernel. A port of messages has no frames to compare them with. */
void app_port_strays_print(const char *indent, const struct spw_port *port,
			   const struct spw_port_stat *stat)
{
	const uint64_t known = stat->wire_frames + stat->port_discards;
	char mac[18];

	if (!stat->phy_known || port->caps.messages || stat->phy_rx_packets < known + STRAYS_MIN)
		return;
	mac_text(port->caps.mac, mac);
	printf("%s%" PRIu64
	       " packets came to the physical port and to no queue of this port: not to "
	       "this MAC (%s), to another function or the kernel, or no flow rule matched\n",
	       indent, stat->phy_rx_packets - known, mac);
}

/* The flow rules that stand, none where the driver has no such; frames are null where completions
 * do not name the rule. Those of a port of rails are the rails'. Read after stop: the numbers are
 * final. */
static json_t *rules_json(struct spw_port *port)
{
	struct spw_port_rule rule[SPW_PORT_RULE_MAX];
	const uint32_t cnt = spw_port_rules(port, rule);
	json_t *rules = json_array();

	for (uint32_t i = 0; i < cnt; i++)
		json_array_append_new(
			rules, json_pack("{s:o,s:o}", "rule", app_json_text(rule[i].text), "frames",
					 app_json_known(rule[i].frames_known, rule[i].frames)));
	return rules;
}

/* What a rail counts beside a port's own counters. */
static json_t *rail_json(const struct spw_port_rail *rail)
{
	const struct spw_port_stat *stat = &rail->stat;
	json_t *out = one_json(rail->port, stat);

	json_object_set_new(out, "late", app_json_number(rail->late));
	json_object_set_new(out, "duplicate", app_json_number(rail->duplicate));
	json_object_set_new(out, "rx_flushed", app_json_number(rail->flushed));
	json_object_set_new(out, "moved", app_json_number(rail->moved));
	json_object_set_new(out, "outages", app_json_number(rail->outages));
	json_object_set_new(out, "tx_flushed", app_json_number(stat->tx_flushed));
	json_object_set_new(out, "residual", app_json_number(rail->residual));
	json_object_set_new(out, "rules", rules_json(rail->port));
	return out;
}

/* Rails are asked here, not by the caller: their counters and the sum are of the same moment, after
 * stop, so that the sum of a port is that of its rails. */
json_t *app_port_json(struct spw_port *port, const struct spw_port_stat *stat)
{
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	const uint32_t cnt = spw_port_rails(port, rail);
	json_t *out = one_json(port, stat), *rails = json_array();

	for (uint32_t r = 0; r < cnt; r++)
		json_array_append_new(rails, rail_json(&rail[r]));
	json_object_set_new(out, "rails", rails);
	json_object_set_new(out, "rules", rules_json(port));
	return out;
}
