/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Tests of the table in rules.c; a row's `what` says what each one finds. Each writes the evidence
 * for a yes. Thread: any; pure.
 */
#ifndef HANG_RULES_H
#define HANG_RULES_H

#include "hang/graph.h"

/* host.c: the rank alone. */
enum hang_tri hang_test_ended(const struct hang_sink *sink);
enum hang_tri hang_test_stopped(const struct hang_sink *sink);
enum hang_tri hang_test_frozen(const struct hang_sink *sink);
enum hang_tri hang_test_throttled(const struct hang_sink *sink);
enum hang_tri hang_test_kernel_main(const struct hang_sink *sink);
enum hang_tri hang_test_kernel_proxy(const struct hang_sink *sink);
enum hang_tri hang_test_loop(const struct hang_sink *sink);
enum hang_tri hang_test_starved(const struct hang_sink *sink);
enum hang_tri hang_test_throttled_slow(const struct hang_sink *sink);
enum hang_tri hang_test_starved_slow(const struct hang_sink *sink);
enum hang_tri hang_test_neighbour(const struct hang_sink *sink);
enum hang_tri hang_test_dry(const struct hang_sink *sink);
enum hang_tri hang_test_gpu_busy(const struct hang_sink *sink);
enum hang_tri hang_test_gpu_idle(const struct hang_sink *sink);

/* Shares of the last 4.5 s that NCCL's proxy thread ran, and waited for a CPU, in percent. Returns:
 * false: not known. */
struct hang_share {
	const struct spw_hang_thread_row *row; /* the last one */
	int64_t run, wait;
};
bool hang_proxy_share(const struct hang_graph *g, uint32_t rank, struct hang_share *share_out);
void hang_starved_show(const struct hang_sink *sink, const struct hang_share *share);
/* Whether the control group's quota stopped it for more than so many percent of them. */
enum hang_tri hang_throttled(const struct hang_sink *sink, int64_t percent);

/* late.c: why a rank that moves is late. */
enum hang_tri hang_test_clock(const struct hang_sink *sink);
enum hang_tri hang_test_throttled_late(const struct hang_sink *sink);
enum hang_tri hang_test_starved_late(const struct hang_sink *sink);

/* net.c: connections. */
/* Whether a rail was down in the last two snapshots. */
bool hang_conn_limps(const struct hang_graph *g, const struct hang_conn *conn);
enum hang_tri hang_test_link(const struct hang_sink *sink);
enum hang_tri hang_test_loss(const struct hang_sink *sink);
enum hang_tri hang_test_qp(const struct hang_sink *sink);
enum hang_tri hang_test_slow_rail(const struct hang_sink *sink);
enum hang_tri hang_test_start(const struct hang_sink *sink);
enum hang_tri hang_test_dial(const struct hang_sink *sink);
enum hang_tri hang_test_bare_link(const struct hang_sink *sink);
enum hang_tri hang_test_bare_qp(const struct hang_sink *sink);

/* calls.c: what ranks called. */
/* As many collectives as another rank of the communicator, and the last one differs. */
enum hang_tri hang_test_diverged(const struct hang_sink *sink);
/* Fewer collectives than another rank that waits. */
enum hang_tri hang_test_absent(const struct hang_sink *sink);
/* Always yes: judge.c has found that it has no connection of sink->conn's communicator. */
enum hang_tri hang_test_not_begun(const struct hang_sink *sink);
/* The same of PyTorch's flight recorder: one number, two functions. */
enum hang_tri hang_test_recorder(const struct hang_sink *sink);

#endif
