/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Live numbers on DPDK's telemetry socket: /spinwire/ports, /spinwire/ledger, /spinwire/latency. EAL calls back in a thread
 * of its own; everything read here is a counter that its owner writes whole.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rte_telemetry.h>
#include <rte_version.h>

#include "app.h"
#include "base/spw_err.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct app *live; /* NULL: not running; under lock, since commands cannot be taken back */

static void add(struct rte_tel_data *d, const char *name, uint64_t v)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	rte_tel_data_add_dict_uint(d, name, v);
#else
	rte_tel_data_add_dict_u64(d, name, v);
#endif
}

static void ports_dict(struct app *app, struct rte_tel_data *d)
{
	for (uint32_t p = 0; p < app->port_cnt; p++) {
		struct rte_tel_data *port = rte_tel_data_alloc();
		struct spw_port_stat stat;

		if (!port)
			return;
		spw_port_stat(app->port[p], &stat);
		rte_tel_data_start_dict(port);
		rte_tel_data_add_dict_string(port, "driver", app->port[p]->driver->name);
		add(port, "rx_frames", stat.rx_frames);
		add(port, "rx_bytes", stat.rx_bytes);
		add(port, "tx_frames", stat.tx_frames);
		add(port, "tx_bytes", stat.tx_bytes);
		for (int i = 0; i < SPW_PORT_DROP_CNT; i++)
			add(port, spw_port_drop_name((enum spw_port_drop)i), stat.dropped[i]);
		for (int i = 0; i < SPW_PORT_ERR_CNT; i++)
			add(port, spw_port_err_name((enum spw_port_err)i), stat.err[i]);
		rte_tel_data_add_dict_container(d, app->port[p]->name, port, 0);
	}
}

/* Live, the edges differ by what is under way: the residual is for the summary only. */
static void ledger_dict(struct app *app, struct rte_tel_data *d)
{
	static struct app_result res; /* under lock */
	const char *name;
	uint64_t cnt;

	app_result_gather(app, NULL, &res);
	add(d, "wire", res.sum.wire);
	if (res.sum.missed_known)
		add(d, "missed", res.sum.missed);
	add(d, "received", res.sum.received);
	add(d, "executed", res.sum.executed);
	add(d, "echoed", res.sum.echoed);
	add(d, "consumed", res.sum.consumed);
	add(d, "bad", res.sum.bad);
	for (uint32_t i = 0; (name = spw_ledger_drop(&res.ledger, i, &cnt)); i++)
		add(d, name, cnt);
	add(d, "pool_slots", res.ledger.pool_slots);
	add(d, "pool_free", res.ledger.pool_free);
}

static void latency_dict(struct app *app, struct rte_tel_data *d)
{
	const struct spw_rec_view *view = app_view_lock();

	for (int s = 0; view && s < SPW_STAGE_CNT; s++) {
		struct rte_tel_data *stage;
		struct spw_rec_row row;

		spw_rec_row(view, (enum spw_stage)s, true, &app->tsc, 0, &row);
		if (!row.count || !(stage = rte_tel_data_alloc()))
			continue;
		rte_tel_data_start_dict(stage);
		add(stage, "count", row.count);
		for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
			if (row.answer[p] == SPW_HIST_VALUE)
				add(stage, spw_hist_point_name((enum spw_hist_point)p), row.value_ns[p]);
		add(stage, "uncertainty", row.uncertainty_ns);
		rte_tel_data_add_dict_container(d, row.stage, stage, 0);
	}
	app_view_unlock();
}

static int answer(struct rte_tel_data *d, void (*fill)(struct app *app, struct rte_tel_data *d))
{
	rte_tel_data_start_dict(d);
	pthread_mutex_lock(&lock);
	if (live)
		fill(live, d);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int on_ports(const char *cmd, const char *params, struct rte_tel_data *d)
{
	(void)cmd, (void)params;
	return answer(d, ports_dict);
}

static int on_ledger(const char *cmd, const char *params, struct rte_tel_data *d)
{
	(void)cmd, (void)params;
	return answer(d, ledger_dict);
}

static int on_latency(const char *cmd, const char *params, struct rte_tel_data *d)
{
	(void)cmd, (void)params;
	return answer(d, latency_dict);
}

int app_telemetry_open(struct app *app)
{
	int rc = rte_telemetry_register_cmd("/spinwire/ports", on_ports, "Counters of every port. Takes no parameters.");

	if (rc == 0)
		rc = rte_telemetry_register_cmd("/spinwire/ledger", on_ledger,
						"Where every frame is. Takes no parameters.");
	if (rc == 0)
		rc = rte_telemetry_register_cmd("/spinwire/latency", on_latency,
						"Stages of the last second, in ns. Takes no parameters.");
	if (rc < 0)
		return spw_err(-rc, "telemetry commands cannot be registered: %s", strerror(-rc));
	pthread_mutex_lock(&lock);
	live = app;
	pthread_mutex_unlock(&lock);
	return 0;
}

void app_telemetry_close(void)
{
	pthread_mutex_lock(&lock);
	live = NULL;
	pthread_mutex_unlock(&lock);
}
