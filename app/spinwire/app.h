/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of the program share. The order of the calls below is the order in which main makes them.
 */
#ifndef APP_H
#define APP_H

#include "app_eal.h"
#include "app_hdr.h"
#include "base/spw_types.h"
#include "conf/spw_conf.h"
#include "gpu/spw_exec.h"
#include "gpu/spw_handler.h"
#include "mem/spw_mem.h"
#include "pipe/spw_pipe.h"
#include "plat/spw_plat.h"
#include "port/spw_port.h"
#include "rec/spw_ledger.h"
#include "rec/spw_rec.h"
#include "time/spw_time.h"

#define APP_LCORE_MAX 64u

#define APP_IRQ_MAX 96u

struct app_irq {
	char name[16];         /* as /proc/interrupts has it: a number, or LOC, RES, ... */
	uint64_t base, cnt;
};

/* What the kernel counted for an lcore in those tenths of a second in which its loop had gaps. */
struct app_who {
	int tid;               /* of the lcore's thread, by itself */
	uint32_t cpu;
	bool looked;
	uint64_t gaps, windows;
	uint64_t switch_base[2], switches[2]; /* voluntary, involuntary */
	struct app_irq irq[APP_IRQ_MAX];
	uint32_t irq_cnt;
};

/* One worker lcore with its queue, its pool and its pipe; allocated on the lcore's NUMA node. */
struct app_lcore {
	struct spw_pipe pipe;
	struct spw_pool pool;
	uint32_t lcore_id;
	int numa_node;
	uint16_t port, queue;
	uint32_t slots;
	size_t slot_bytes;
	uint32_t region;        /* index into app.region */
	size_t region_offset;
	const uint32_t *stop;
	struct app_who who;
};

struct app_capture;

/* A foreign clock in terms of the CPU's. */
struct app_clock {
	struct spw_clock_fit fit;
	struct spw_clock_box box;
	uint32_t rest; /* turns until it is read again */
	bool on;       /* a port's: it has one, and it could be read */
};

struct app {
	struct app_eal eal;
	bool eal_up;
	struct spw_conf conf;
	struct spw_tsc tsc;
	struct spw_plat *plat;                   /* until it was told */

	struct spw_port *port[SPW_PORT_MAX];
	uint32_t port_cnt;
	struct app_lcore *lcore[APP_LCORE_MAX]; /* in order of port and queue; also the executor ring's number */
	uint32_t lcore_cnt;
	int spare_cpu[APP_LCORE_MAX];           /* of worker lcores that run no queue */
	uint32_t spare_cnt;

	enum spw_exec_kind exec_kind;
	char exec_why[160];
	const struct spw_handler *handler;
	struct spw_exec *exec;
	int exec_cpu[APP_LCORE_MAX];            /* of the cpu backend's threads; the executor keeps a pointer to it */
	struct spw_region region[SPW_REGION_MAX]; /* one per NUMA node that runs a queue; index is the region's id */
	uint32_t region_cnt;

	struct app_clock nic_clock[SPW_PORT_MAX];
	struct app_clock exec_clock;
	struct app_capture *capture;              /* NULL: off */
	struct app_hdr hdr;
	uint32_t stop SPW_ALIGNED(2 * SPW_CACHE_LINE); /* read by every lcore in every turn */
	uint32_t signal_seen;                          /* SIGINT or SIGTERM, by its handler */
	uint64_t start_tsc SPW_ALIGNED(2 * SPW_CACHE_LINE);
	uint64_t stop_tsc;
	uint32_t launched_cnt;                   /* lcores that run their pipe */
	uint64_t relaunched;                     /* by the executor's count, at the last look */
	bool started;
	bool fault;                              /* a device is gone: exit status 4 */
};

/* Everything that is printed, gathered once after stop, or live for telemetry. */
struct app_result {
	double seconds;
	struct spw_port_stat port[SPW_PORT_MAX];
	struct spw_exec_stat exec;
	struct spw_ledger ledger;
	struct spw_ledger_sum sum;
	struct spw_rec_row latency[SPW_STAGE_CNT];
	double regime_share[SPW_REGIME_CNT];
	double cycles_per_frame; /* lcore ticks that were not idle, per polled frame; 0 without stamps or frames */
	uint64_t turn_max_ns;
	struct spw_hist_step spectrum[SPW_STAGE_CNT][SPW_HIST_SPECTRUM_MAX]; /* ticks */
	uint32_t spectrum_cnt[SPW_STAGE_CNT];
	struct spw_rec_causes causes;
	struct spw_rec_slow worst[SPW_REC_WORST_CNT];
	uint32_t worst_cnt;
	struct spw_rec_held held;
	uint64_t away_cnt;
	bool away_known;
	uint64_t h2d_copies, port_copies;
};

/* args.c. Returns: 0, 1 when a question was answered and there is nothing to run, or -errno. */
int app_args(struct app *app, int argc, char **argv);

/* topology.c: which lcore runs what; ports, memory, executor, pipes. Undone by app_topology_close, at any stage. */
int app_topology_open(struct app *app);
void app_topology_close(struct app *app);

/* What --capture did: frames that came, and those that are not in the file, by reason. */
struct app_capture_stat {
	uint64_t seen, ring_full, limited, disk;
	uint64_t bytes; /* of the file */
};

/* capture.c: does nothing without --capture. Opened after queues and clocks, before the ports start; stopped after the lcores have ended:
 * then everything is written and the numbers hold. */
int app_capture_open(struct app *app);
void app_capture_stop(struct app *app);
void app_capture_close(struct app *app);
/* Shape: app->capture is there. Thread: setup, after app_capture_stop. */
void app_capture_stat(const struct app *app, struct app_capture_stat *stat_out);

/* memory.c */
int app_memory_open(struct app *app);
/* executor.c: chosen before memory, since memory follows from it; opened after. */
int app_executor_choose(struct app *app);
int app_executor_open(struct app *app);

/* machine.c: what this machine is, before EAL ties this thread to a core; and what of it matters here, on the log, after topology. */
void app_machine_read(struct app *app);
void app_machine_tell(struct app *app);

/* clocks.c: the clocks of ports and of a GPU, paired with the CPU's. */
int app_clocks_open(struct app *app);  /* after topology: first pairs, so that the first frame finds a map */
void app_clocks_pair(struct app *app); /* control thread, about every 20 ms */

/* hdr_log.c: opens app->hdr, a log of every stage of view, if --hdr asks for one. view NULL: no stamps. Errors: -EIO, -EINVAL. */
int app_hdr_log_open(struct app *app, const struct spw_rec_view *view);

/* who.c */
void app_who_begin(struct app_lcore *lc); /* the lcore's own thread, before its loop */
void app_who_look(struct app *app);       /* control thread, about every 100 ms */

/* control.c: starts the data path, watches over it until it is time, stops it. Returns: an exit status. */
int app_run(struct app *app);
/* Purpose: the view that the control loop collects every second, under its lock; for telemetry. */
const struct spw_rec_view *app_view_lock(void);
void app_view_unlock(void);

/* result.c */
void app_result_gather(struct app *app, const struct spw_rec_view *view, struct app_result *result_out);
/* Purpose: the recorders' last word, all lcores. Owner: the caller frees it. NULL without memory. */
struct spw_rec_view *app_view_final(struct app *app);

/* report_text.c, report_json.c */
void app_report_text(const struct app *app, const struct app_result *result);
int app_report_json(const struct app *app, const struct app_result *result, const char *path);

/* telemetry.c: /spinwire/info, ports, ledger, lcores, latency, causes, histogram. */
int app_telemetry_open(struct app *app);
void app_telemetry_close(void);

#endif
