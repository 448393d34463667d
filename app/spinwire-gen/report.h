/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The result of a run, as tables on stdout and as JSON.
 */
#ifndef SPW_GEN_REPORT_H
#define SPW_GEN_REPORT_H

#include "address.h"
#include "gen/spw_gen_sum.h"
#include "port/spw_port.h"

struct gen_report {
	const char *schedule;    /* "poisson, 1000000 frames/s, 64 bytes, 16 flows", static until
				    printed */
	const char *port;        /* as the user named it */
	struct spw_port *opened; /* that port, until it is closed */
	char dst_mac[GEN_MAC_TEXT_BYTES];
	double rate_fps; /* of the plan */
	const char *distribution;
	uint64_t seed;
	uint64_t link_wait_ns, warm_up_ns;
	uint64_t tsc_hz;
	uint32_t sender_cnt;
	uint16_t run;
	bool full;                 /* every table */
	struct spw_port_stat stat; /* of the port, after the last frame */
};

/* Purpose: of the frames that the port took, those that it did not send, by its own count.
 * Thread: main.
 */
uint64_t gen_report_flushed(const struct gen_sum *sum, const struct gen_report *what);

/* Purpose: prints the result to stdout: ten lines, or every table.
 * Thread: main.
 */
void gen_report_text(const struct gen_sum *sum, const struct gen_report *what);

/* Purpose: writes the same as JSON, "schema": "spinwire.gen/1".
 * Shape: path "-" is stdout.
 * Thread: main.
 * Errors: -EIO with the path; -ENOMEM.
 */
int gen_report_json(const struct gen_sum *sum, const struct gen_report *what, const char *path);

#endif
