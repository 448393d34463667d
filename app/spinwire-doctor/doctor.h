/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of the program share. A command reads one or two machines (source.c), each from
 * the running system, a recorded machine or a receipt, and prints. What is wrong with a machine is
 * found by lib/plat (plat/findings/), not here.
 *
 *   main ── args ── source ──┬── table, receipt      check, record, replay
 *                            ├── diff, cores, idle
 *                            ├── measure_*           --measure, answer (measure.h)
 *                            └── plan ── plan_print  plan
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include <jansson.h>

#include "base/spw_types.h"
#include "opt/spw_opt.h"
#include "plat/spw_plat.h"

#define DOCTOR_FILE_MAX 4u
#define DOCTOR_PEER_MAX 2u
#define DOCTOR_IDLE_MAX 64u

struct doctor_args {
	const char *command; /* "check", "record", "replay", "diff", "plan", "answer", "cores",
				"idle", "hang" */
	const char *file[DOCTOR_FILE_MAX]; /* what follows the command, or --replay */
	uint32_t file_cnt;
	const char *json, *csv, *receipt;  /* NULL: none; "-": stdout */
	const char *peer[DOCTOR_PEER_MAX]; /* plan: hosts, or files; measure: a host; NULL: none */
	const char *apply;        /* plan: the root below which the netplan file is written; NULL */
	const char *cores, *near; /* cores: how many, near which NIC; NULL: any */
	uint64_t core_cnt;
	const char *hosts, *save; /* hang: "A,B"; where the case is written; NULL */
	uint32_t hang_pid;        /* hang: this process alone; 0: all */
	const char *torch_dump;   /* hang: dumps of flight recorders but for the rank; NULL */
	bool stacks;              /* hang: also stacks */
	bool facts, full, measure;
	struct spw_opt_verbosity verbosity;
	uint64_t expect_bps; /* measure: what one function should carry; 0: not given */
	uint32_t idle_cnt, idle_core[DOCTOR_IDLE_MAX];
	uint64_t idle_ns;
	int64_t expect_mbps; /* of it; 0: as its links promise */
};

/* args.c: reads the command line.
 * Returns: 0; above 0 when a question was answered; or -EINVAL with a text. */
int doctor_args(struct doctor_args *args, int argc, char **argv);

/* main.c: whether nothing is printed on stdout but a report that an option sends there. */
bool doctor_is_quiet(const struct doctor_args *args);

/* source.c: reads a machine. The running one, with two readings of the counters. */
int doctor_live(struct spw_plat **plat_out);
/* A recorded machine or a receipt, and documents that change it.
 * Errors: -EIO cannot be read; -EINVAL no JSON; -EPROTO its hash is wrong; those of spw_plat_read.
 */
int doctor_load(const char *const *file, uint32_t file_cnt, struct spw_plat **plat_out);
/* A file, or else a host: runs spinwire-doctor there over ssh. */
int doctor_peer(const char *peer, struct spw_plat **plat_out);

/* A file of JSON. *out: a new reference, or NULL.
 * Errors: -EIO cannot be read; -EINVAL no JSON. */
int doctor_json_load(const char *file, json_t **out);

/* measure.c: measures, and adds pairs and findings to plat.
 * Errors: -ENODEV nothing can be measured; those of lib/rdma; -EIO, -EPROTO of the peer. */
int doctor_measure(const struct doctor_args *args, struct spw_plat *plat);
/* measure_answer.c: the other machine's part, on stdin and stdout; returns when stdin ends: the
 * exit status, as errors go to the asking end. */
int doctor_answer(const struct doctor_args *args);

/* cores.c: prints the cores that lib/plat picks, on one line. Opens no CUDA. */
int doctor_cores(const struct doctor_args *args);

/* idle.c: spins on cores and prints what the machine took from them; with json, every figure.
 * Errors: -EINVAL and others of a core that cannot be used; -EIO; those of spw_tsc_calibrate. */
int doctor_idle(const struct doctor_args *args);

/* busy.c: threads of all processes that are visible here, with the CPU time they had; free thread.
 */
struct doctor_busy {
	struct doctor_thread *thread;
	size_t cnt;
};
void doctor_busy_read(struct doctor_busy *busy);
/* Leaves in after what others than this process used since before, the busiest first. */
void doctor_busy_since(const struct doctor_busy *before, struct doctor_busy *after);
/* Prints the busiest of a core, at most three, as shares of seconds. Returns: how many. */
uint32_t doctor_busy_print(const struct doctor_busy *busy, uint32_t core, double seconds);

/* hang.c: who hangs the collective. Returns: the exit status.
 * Errors: -EINVAL, -EPROTO, -EIO of what was named; those of spw_hang_read. */
int doctor_hang(const struct doctor_args *args);

/* table.c: prints text from outside, which must not move the cursor. */
void doctor_put(const char *text);
/* Prints what was measured, and findings: notes only by their codes, but for full; or all facts. */
void doctor_table(const struct spw_plat *plat, bool full);
void doctor_facts(const struct spw_plat *plat);
/* Returns: the exit status that the findings mean. */
int doctor_status(const struct spw_plat *plat);

/* receipt.c: the findings as JSON; with all that was read, if facts. The recorded tree and a hash
 * make a receipt of that.
 * Returns: NULL if memory ran out. */
json_t *doctor_json(const struct spw_plat *plat, bool facts);
json_t *doctor_receipt(const struct spw_plat *plat);
/* What --measure found between functions: an array of rows. */
json_t *doctor_pairs_json(const struct spw_plat *plat);
/* The recorded machine of a receipt whose hash is right; valid as long as receipt.
 * Errors: -EPROTO. */
int doctor_receipt_tree(json_t *receipt, const char *name, json_t **tree_out);

/* diff.c: what differs, printed by doctor_diff_table. Returns: NULL if memory ran out. */
json_t *doctor_diff(const struct spw_plat *a, const struct spw_plat *b);
void doctor_diff_table(const json_t *diff);

/* plan.c, plan_print.c: prints the plan for this machine and its peers, and with apply writes this
 * machine's file.
 * Shape: plat[cnt], 2 or 3; plat[0] is this machine, plat[1 + i] is args->peer[i].
 * Errors: -EINVAL no plan can be made of these machines; -EIO. */
int doctor_plan(const struct doctor_args *args, struct spw_plat *const *plat, uint32_t cnt);

#endif
