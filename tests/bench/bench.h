/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One binary, many benchmarks. A benchmark adds rows; main.c prints them as a table and as JSON
 * ("schema": "spinwire.bench/1"). Things that are compared are measured in one run, in turn, so
 * that they share the machine's state.
 */
#ifndef SPW_BENCH_H
#define SPW_BENCH_H

#include "base/spw_types.h"
#include "opt/spw_opt.h"

struct spw_bench_row {
	char name[72];           /* the case: what was done, "persistent 1500 B" */
	char metric[32];         /* what was read: "p99", "throughput" */
	char unit[16];           /* "us", "GB/s", "Mframes/s", "ticks/frame" */
	double median, min, max; /* over runs */
	uint32_t runs;
};

struct spw_bench_out {
	const char *what; /* the benchmark measures, one line */
	struct spw_bench_row *row;
	size_t row_cnt, row_max;
	char machine[256]; /* a benchmark may add to what main.c wrote: "; NVIDIA H100" */
};

/* Purpose: adds one row with median, least and greatest of cnt values, which it sorts in place.
 * Shape:   cnt >= 1.
 * Thread:  main.
 * Errors:  exits the program when there is no memory (this is a program, not a library). */
void spw_bench_add(struct spw_bench_out *out, const char *name, const char *metric,
		   const char *unit, double *value, uint32_t cnt);
/* Purpose: adds one row from a single value.
 * Thread:  main. */
void spw_bench_add1(struct spw_bench_out *out, const char *name, const char *metric,
		    const char *unit, double value);

/* The field of an option in the benchmark's struct. */
#define SPW_BENCH_FIELD(type, name) \
	.offset = offsetof(type, name), .bytes = sizeof(((type *)0)->name)

/* Purpose: defaults, then the command line, into take->base. argv[0] is the benchmark's name.
 * Returns: SPW_BENCH_RUN; else it has printed an answer or an error: the exit status.
 * Thread:  main. */
#define SPW_BENCH_RUN (-1)
int spw_bench_args(const struct spw_bench_out *out, const struct spw_opt *opt, uint32_t cnt,
		   int argc, char **argv, const struct spw_opt_take *take);

/* Each returns a program's exit status: 0 good, 1 usage, 2 the machine cannot do it, 3 the run is
 * invalid. Unless 0, a message has been printed to stderr. argv[0] is the benchmark's name. */
int spw_bench_loop(int argc, char **argv, struct spw_bench_out *out);
int spw_bench_handoff(int argc, char **argv, struct spw_bench_out *out);
int spw_bench_poll(int argc, char **argv, struct spw_bench_out *out);
int spw_bench_beside(int argc, char **argv, struct spw_bench_out *out);
int spw_bench_port(int argc, char **argv, struct spw_bench_out *out);
int spw_bench_slo(int argc, char **argv, struct spw_bench_out *out);
int spw_bench_rails(int argc, char **argv, struct spw_bench_out *out);
int spw_bench_cq(int argc, char **argv, struct spw_bench_out *out);      /* with rdma-core only */
int spw_bench_rx(int argc, char **argv, struct spw_bench_out *out);      /* with rdma-core only */
int spw_bench_rc(int argc, char **argv, struct spw_bench_out *out);      /* with rdma-core only */
int spw_bench_xfer(int argc, char **argv, struct spw_bench_out *out);    /* with rdma-core only */
int spw_bench_kv(int argc, char **argv, struct spw_bench_out *out);      /* with rdma-core only */
int spw_bench_softhca(int argc, char **argv, struct spw_bench_out *out); /* with rdma-core only */

#endif
