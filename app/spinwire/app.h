/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of the program share: one struct app, and the calls of each file in the order in
 * which main makes them.
 *
 *   main     args ─ machine ─ rights ─ EAL ─ topology ─ app_run ─ report ─ app_topology_close
 *   control                                             start ─ watch ─ stop
 *   lcores                                                spw_pipe_run
 *
 * "Control" is the main thread inside app_run. Telemetry runs in a thread of EAL's and takes a
 * lock.
 */
#ifndef APP_H
#define APP_H

#include <jansson.h>
#include <stdio.h>

#include "app_eal.h"
#include "app_hdr.h"
#include "app_program.h"
#include "app_rate.h"
#include "trail/spw_trail.h"
#include "base/spw_types.h"
#include "conf/spw_conf.h"
#include "exec/spw_handler.h"
#include "plat/spw_plat.h"
#include "plat/spw_who.h"
#include "port/spw_capture.h"
#include "rec/spw_rec.h"
#include "time/spw_time.h"
#include "topo/spw_topo.h"
#include "topo/spw_topo_litmus.h"

/* One worker lcore with the lane that it runs. */
struct app_lcore {
	struct spw_topo_lane *lane;
	const uint32_t *stop;
	struct spw_who who;
};

/* A handler as --handler gave it. */
struct app_handler {
	const struct spw_handler *handler;
	const char *spec; /* in app->conf */
	char name[64];    /* the handler's; of a later one of the same name "syn#1" */
	void *sum;        /* a block of its state for app_handler_read; NULL: it has none */
};

struct app {
	struct app_eal eal;
	bool eal_up;
	struct spw_conf conf;
	struct spw_tsc tsc;
	struct spw_plat *plat; /* NULL once app_machine_report has logged it */
	char quota_stat[sizeof(((struct spw_plat *)0)->quota_stat)];
	struct spw_plat_quota quota; /* what it said at the start */
	int quota_fd;                /* the same file, open until the end; 0: no quota */

	struct spw_topo_conf topo_conf;
	struct spw_topo topo;
	struct spw_litmus litmus;                  /* its outcome */
	struct app_lcore lcore[SPW_TOPO_LANE_MAX]; /* by lane */
	int spare_cpu[SPW_TOPO_LANE_MAX];          /* of worker lcores that run no queue */
	uint32_t spare_cnt;
	int exec_cpu[SPW_TOPO_LANE_MAX]; /* of the cpu backend's threads, by lane */
	char exec_why[SPW_EXEC_WHY_BYTES];
	struct app_handler handler[SPW_PORT_MAX]; /* each that a port runs, once */
	uint32_t handler_cnt;
	struct spw_capture *capture;                /* NULL: off */
	struct spw_trail trail[SPW_TOPO_LANE_MAX];  /* by lane; zeroed: off */
	struct app_record *record;                  /* record.c; NULL: off */
	struct spw_obj_desc *objects[SPW_PORT_MAX]; /* by port; NULL: it has none */
	char *object_files[SPW_PORT_MAX];           /* their absolute paths */
	char *conf_file;                            /* that of --config; NULL: none */
	FILE *receipts;                             /* of --receipts; NULL: off */
	bool receipts_failed;
	struct app_hdr hdr;
	int hdr_rc;                    /* of its end: -EIO, and logged, if intervals were lost */
	struct app_slo *slo;           /* NULL: no objective */
	struct app_rate_period period; /* of --stats-period */
	uint32_t stop SPW_ALIGNED(2 * SPW_CACHE_LINE); /* read by every lcore in every turn */
	uint32_t signals; /* SIGINT or SIGTERM; set by the handler of app_catch_signals */
	uint64_t start_tsc SPW_ALIGNED(2 * SPW_CACHE_LINE);
	uint64_t stop_tsc;
	uint32_t launched_cnt; /* lanes [0, launched_cnt) run on their lcores */
	bool started;
	bool fault;       /* a device is gone: exit status 4 */
	bool interrupted; /* by a signal, before its --seconds or --frames: there is no report */
	bool hung;        /* a handler does not return: nothing may be freed */
};

/* Everything that a summary prints; gathered once after stop, or live for telemetry. */
struct app_result {
	double seconds;
	struct spw_topo_stat topo;
	struct spw_rec_row latency[SPW_STAGE_CNT];
	double regime_share[SPW_REGIME_CNT];
	double cycles_per_frame; /* lcore ticks that were not idle, per polled frame; 0 without
				    stamps or frames */
	uint64_t turn_max_ns;
	struct spw_hist_step spectrum[SPW_STAGE_CNT][SPW_HIST_SPECTRUM_MAX]; /* ticks */
	uint32_t spectrum_cnt[SPW_STAGE_CNT];
	struct spw_rec_causes causes;
	struct spw_rec_slow worst[SPW_REC_WORST_CNT];
	uint32_t worst_cnt;
	struct spw_rec_held held;
	uint64_t away_cnt;
	bool away_known;
	struct spw_plat_quota quota; /* since the start */
	bool has_quota;
};

/* args.c: the program's options, and what help prints of it. Returns: static. */
const struct spw_opt_program *app_args_program(void);
/* args.c: reads the command line into eal and conf.
 * Returns: 0; above 0 when a question was answered and there is nothing to run; or -errno with a
 *          text. */
int app_args(struct app *app, int argc, char **argv);

/* replay.c: whether the command line asks for --replay instead of a run; runs it.
 * Returns: whether; an exit status, or -errno with a text. */
bool app_replay_is_asked(int argc, char **argv);
int app_replay(int argc, char **argv);

/* topology.c: which lcore runs what; fills topo_conf and opens topo. Undone by app_topology_close,
 * at any stage. */
int app_topology_open(struct app *app);
void app_topology_close(struct app *app);

/* litmus.c: tests memory, NIC and executor, between open and capture; as JSON. */
int app_litmus_run(struct app *app);
json_t *app_litmus_json(const struct app *app);

/* capture.c: does nothing without --capture. Called by topology.c, between open and start. */
int app_capture_open(struct app *app);
/* When the capture has stopped. Errors: -ENOSPC frames were lost since the file took no more. */
int app_capture_end(const struct app *app);
void app_capture_print(const struct app *app);

/* trail.c: the rings that the pipes fill, without --trail none; after the run, their file.
 * Errors:  -ENOMEM; those of spw_trail_write. */
int app_trail_open(struct app *app);
int app_trail_write(const struct app *app);
void app_trail_close(struct app *app);

/* record.c: the flight recorders of the lanes, without --record none. turn: once a millisecond, by
 * control. fault: the file is to be written for it. request: likewise; from any thread. end: after
 * the stop; writes the file if a rule fired that was not served, or none ever.
 * Errors:  -EINVAL, -ENOMEM; those of spw_flight_write. */
int app_record_open(struct app *app);
void app_record_turn(struct app *app);
void app_record_fault(struct app *app);
void app_record_request(void);
int app_record_end(struct app *app, const struct spw_topo_stat *stat);
void app_record_print(const struct app *app);
void app_record_close(struct app *app);

/* handlers.c: opens the handler of every port, and gives the lanes theirs; undone by close.
 * Errors:  those of spw_handler_open. */
int app_handlers_open(struct app *app);
void app_handlers_close(struct app *app);
/* The handler of a lane. */
const struct app_handler *app_handler_of(const struct app *app, uint32_t lane);
/* Purpose: what a handler has found on all its ports.
 * Returns: its counters: app->handler[i].sum, NULL without a state or when the executor does not
 *          answer.
 * Thread:  telemetry, or control when telemetry is closed. */
const void *app_handler_read(const struct app *app, uint32_t i, uint64_t *digest_out);
/* "syn, echo", and the ports of one, for a line of text. Returns: out. */
const char *app_handlers_names(const struct app *app, char *out, size_t bytes);
const char *app_handler_ports(const struct app *app, uint32_t i, char *out, size_t bytes);
/* The counters as a list of text, of those that count if `brief`; as JSON. Thread: as read. */
void app_handlers_print(const struct app *app, bool brief);
json_t *app_handlers_json(const struct app *app);

/* objects.c: reads the descriptions of ports; undone by close. turn: by control, the turn's number.
 * Errors:  those of spw_obj_desc_load, with the option. */
int app_objects_load(struct app *app);
void app_objects_close(struct app *app);
void app_objects_turn(struct app *app, uint64_t turn);
/* The file of --receipts, before the start; its end, after the stop.
 * Errors:  -EIO; end: -ENOSPC receipts were lost. */
int app_receipts_open(struct app *app);
int app_receipts_end(struct app *app);
/* Names of enum spw_obj_state, of enum spw_obj_cause. */
const char *app_objects_state_name(int state);
const char *app_objects_cause_name(int cause);
void app_objects_print(const struct app *app, bool brief);
json_t *app_objects_json(const struct app *app);

/* executor.c: makes the first call to the GPU, before rights are dropped that it may take. */
void app_executor_wake(const struct app *app);
/* Which executor and handler, on which cores; fills topo_conf.exec. */
int app_executor_choose(struct app *app);

/* machine.c: reads what this machine is, before EAL pins this thread to a core; later, when the
 * topology is known, logs those findings that matter for it. */
void app_machine_read(struct app *app);
/* Puts cores in place of "--lcores auto".
 * Errors:  those of app_lcores_choose. */
int app_machine_choose(struct app *app);
void app_machine_report(struct app *app);

/* hdr_log.c: opens app->hdr, a log of every stage of view, if --hdr asks for one. view NULL: no
 * stamps.
 * Errors:  -EIO, -EINVAL. */
int app_hdr_log_open(struct app *app, const struct spw_rec_view *view);

/* slo.c: the objective of --slo; without one these do nothing. open: once the topology is open;
 * ways: which executors the topology opens for it, in topo_conf.exec, where `chosen` is what it
 * would use without. Errors:  -EINVAL, -ENOMEM. */
void app_slo_backends(struct app *app, bool cpu_spare, enum spw_exec_kind chosen);
/* slo.c: whether --slo's text can be read, before anything starts; "" is no objective. */
int app_slo_try(const char *text);
int app_slo_open(struct app *app);
void app_slo_close(struct app *app);
/* Purpose: measures, and asks for another setting when that is due; app->slo is not NULL.
 * Thread:  control, every 20 ms, with a view just collected.
 * Errors:  those of spw_topo_wake: the executor that was chosen does not start. */
int app_slo_turn(struct app *app, const struct spw_rec_view *view);
json_t *app_slo_json(const struct app *app);
void app_slo_print(const struct app *app);

/* control.c: starts the data path, serves it until a signal, a limit or a fault ends the run, and
 * stops it.
 * Returns: an exit status. */
int app_run(struct app *app);
/* Purpose: locks the view that the control loop collects every second.
 * Returns: NULL without stamps, or when the run is over; app_view_unlock in any case.
 * Thread:  telemetry. */
const struct spw_rec_view *app_view_lock(void);
void app_view_unlock(void);

/* result.c: gathers the numbers of result_out. view NULL: leaves out what comes from recorders.
 * Thread:  any. */
void app_result_gather(struct app *app, const struct spw_rec_view *view,
		       struct app_result *result_out);
/* control.c: collects what the recorders of all lanes still hold.
 * Owner:   the caller frees it.
 * Returns: NULL without memory.
 * Thread:  setup, after app_run. */
struct spw_rec_view *app_view_final(struct app *app);

/* report_brief.c, report_text.c, report_json.c: the summary on stdout, short or with --full, and as
 * a JSON file.
 * Errors:  as app_json_write. */
void app_report_brief(const struct app *app, const struct app_result *result);
void app_report_text(const struct app *app, const struct app_result *result);
int app_report_json(const struct app *app, const struct app_result *result, const char *path);

/* telemetry.c: /spinwire/info, ports, handlers, objects, ledger, lcores, latency, causes,
 * histogram, record.
 */
int app_telemetry_open(struct app *app);
void app_telemetry_close(void);

#endif
