/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The row of a port (app_port.h), for the summaries of spinwire and of spinwire-gen.
 */
#include "app_port.h"
#include "app_json.h"
#include "app_loop.h"
#include "app_text.h"

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

static json_t *rail_json(const struct spw_port_rail *rail)
{
	const struct spw_port_stat *stat = &rail->stat;
	json_t *out = one_json(rail->port, stat);

	json_object_set_new(out, "late", app_json_number(rail->late));
	json_object_set_new(out, "duplicate", app_json_number(rail->duplicate));
	json_object_set_new(out, "flushed", app_json_number(rail->flushed));
	json_object_set_new(out, "moved", app_json_number(rail->moved));
	json_object_set_new(out, "outages", app_json_number(rail->outages));
	json_object_set_new(out, "tx_flushed", app_json_number(stat->tx_flushed));
	json_object_set_new(out, "residual", app_json_number(rail->residual));
	return out;
}

json_t *app_port_json(struct spw_port *port, const struct spw_port_stat *stat)
{
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	const uint32_t cnt = spw_port_rails(port, rail);
	json_t *out = one_json(port, stat), *rails = json_array();

	for (uint32_t r = 0; r < cnt; r++)
		json_array_append_new(rails, rail_json(&rail[r]));
	json_object_set_new(out, "rails", rails);
	return out;
}
