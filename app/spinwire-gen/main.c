/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-gen <EAL arguments> -- --port SPEC [arguments]: start here. The loop is in gen_run.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "app_eal.h"
#include "base/spw_err.h"
#include "base/spw_log.h"
#include "gen_conf.h"
#include "gen_report.h"
#include "mem/spw_mem.h"
#include "pool/spw_pool.h"

#define PROGRAM "spinwire-gen"

struct gen {
	struct app_eal eal;
	bool eal_up;
	struct gen_conf conf;
	struct spw_tsc tsc;
	struct spw_port *port;
	struct spw_region region;
	struct spw_pool pool;
	uint32_t lcore_id;
	uint32_t stop SPW_ALIGNED(2 * SPW_CACHE_LINE); /* read in every turn */
	struct gen_run run SPW_ALIGNED(2 * SPW_CACHE_LINE);
};

static int memory_open(struct gen *gen)
{
	const struct spw_port_caps *caps = &gen->port->caps;
	size_t room = SPW_MAX((size_t)GEN_SIZE_MAX + caps->slot_headroom, (size_t)caps->slot_bytes_min);
	size_t slot_bytes = SPW_ALIGN_UP(room, SPW_MAX((size_t)caps->slot_align, (size_t)SPW_CACHE_LINE));
	struct spw_mem_req req = {.kind = SPW_MEM_HOST, .bytes = slot_bytes * gen->conf.slots,
				  .numa_node = (int)rte_lcore_to_socket_id(gen->lcore_id)};
	int rc = spw_region_alloc(&req, &gen->region);

	return rc ? rc : spw_pool_init(&gen->pool, &gen->region, 0, slot_bytes, gen->conf.slots);
}

static int open_all(struct gen *gen)
{
	struct spw_port_queue_conf queue = {.pool = &gen->pool, .profile = "latency"};
	int rc;

	gen->lcore_id = rte_get_next_lcore(-1u, 1, 0);
	if (gen->lcore_id == RTE_MAX_LCORE)
		return spw_err(EINVAL, "no lcore to send from: EAL has only the main one; give two with -l or --lcores");
	queue.numa_node = (int)rte_lcore_to_socket_id(gen->lcore_id);
	if ((rc = spw_tsc_calibrate(100, &gen->tsc)) < 0 || (rc = spw_port_open(&gen->conf.port, 0, 1, &gen->port)) < 0)
		return rc;
	if (!gen->port->caps.can_tx)
		return spw_err(ENOTSUP, "port %s cannot send", gen->port->name);
	if (gen->conf.slots < gen->port->caps.slot_cnt_min)
		return spw_err(ERANGE, "--slots %u: port %s needs at least %u", gen->conf.slots, gen->port->name,
			       gen->port->caps.slot_cnt_min);
	if ((rc = memory_open(gen)) < 0 || (rc = spw_port_region_attach(gen->port, &gen->region)) < 0 ||
	    (rc = spw_port_queue_setup(gen->port, 0, &queue)) < 0)
		return rc;
	return gen_run_init(&gen->run, &(struct gen_run_conf){
		.queue = &gen->port->queue[0], .pool = &gen->pool, .headroom = gen->port->caps.slot_headroom,
		.frame = gen->conf.frame, .plan = gen->conf.plan, .tsc = &gen->tsc, .seconds_ns = gen->conf.seconds_ns,
		.linger_ns = gen->conf.linger_ns,
		.link_wait_ns = gen->conf.link_wait_ns, .expect_echo = gen->conf.expect_echo, .stop = &gen->stop});
}

static int lcore_main(void *arg)
{
	gen_run(arg);
	return 0;
}

static int run_all(struct gen *gen)
{
	int rc = spw_port_start(gen->port);

	if (rc < 0)
		return rc;
	app_catch_signals(&gen->stop);
	rc = rte_eal_remote_launch(lcore_main, &gen->run, gen->lcore_id);
	if (rc < 0)
		return spw_err(EBUSY, "lcore %u cannot be launched", gen->lcore_id);
	rte_eal_mp_wait_lcore();
	return spw_port_stop(gen->port);
}

static int report(struct gen *gen)
{
	struct gen_report what = {
		.schedule = gen->conf.schedule, .port = gen->conf.port.text, .rate_fps = gen->run.plan.mean_fps,
		.distribution = gen_gaps_name(gen->conf.plan.gaps), .expect_echo = gen->conf.expect_echo,
		.seed = gen->conf.plan.seed, .run = gen->conf.frame.run};

	gen_report_text(&gen->run, &what);
	return gen->conf.json ? gen_report_json(&gen->run, &what, gen->conf.json) : 0;
}

/* Returns: slots that did not come home. */
static uint32_t close_all(struct gen *gen)
{
	uint32_t leaked;

	spw_port_close(gen->port);
	leaked = spw_pool_fini(&gen->pool);
	spw_region_free(&gen->region);
	gen_run_fini(&gen->run);
	if (gen->eal_up)
		rte_eal_cleanup();
	return leaked;
}

static int run(struct gen *gen, int argc, char **argv)
{
	int rc = app_eal_split(&gen->eal, argc, argv);

	if (rc == 0 && gen->eal.split == argc) {
		gen_conf_help();
		return argc > 1 ? APP_GOOD : APP_USAGE;
	}
	if (rc == 0)
		rc = gen_conf_args(&gen->conf, argc - gen->eal.split, argv + gen->eal.split);
	if (rc == GEN_CONF_HELP) {
		gen_conf_help();
		return APP_GOOD;
	}
	if (rc == 0)
		rc = app_eal_port(&gen->eal, &gen->conf.port);
	if (rc == 0)
		rc = app_eal_start(&gen->eal);
	gen->eal_up = rc == 0;
	if (rc == 0)
		rc = open_all(gen);
	if (rc == 0)
		rc = run_all(gen);
	if (rc == 0)
		rc = report(gen);
	return rc ? app_complain(PROGRAM, rc) : APP_GOOD;
}

int main(int argc, char **argv)
{
	static struct gen gen;
	uint32_t leaked;
	int status;

	app_log_to_stderr(PROGRAM);
	status = run(&gen, argc, argv);
	leaked = close_all(&gen);
	if (leaked) {
		fprintf(stderr, PROGRAM ": %u slots did not come home\n", leaked);
		return status ? status : APP_BALANCE;
	}
	return status;
}
