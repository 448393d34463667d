/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * EAL's half of a program's command line. Our half is read first: the ports decide what EAL may touch, so that it never
 * grabs what it was not given.
 */
#ifndef APP_EAL_H
#define APP_EAL_H

#include "base/spw_types.h"
#include "port/spw_port.h"

#define APP_EAL_ARG_MAX 256

/* Exit statuses, shared by every program of spinwire. */
enum app_status { APP_GOOD = 0, APP_USAGE = 1, APP_MACHINE = 2, APP_BALANCE = 3, APP_FAULT = 4 };

struct app_eal {
	char *argv[APP_EAL_ARG_MAX];
	int argc;
	int split;    /* index of "--" in the program's argv; the program's argc if there is none */
	struct spw_port_eal_need need[SPW_PORT_MAX]; /* argv points into it */
	uint32_t need_cnt;
	bool pci;     /* a port or -a wants the PCI bus */
};

/* Purpose: takes what stands before "--". Strings stay the caller's argv. Errors: -EINVAL too many. Thread: setup. */
int app_eal_split(struct app_eal *eal, int argc, char **argv);
/* Purpose: adds what one port needs. Errors: those of spw_port_eal_need. Thread: setup, before app_eal_start. */
int app_eal_port(struct app_eal *eal, const struct spw_port_spec *spec);
/* Purpose: rte_eal_init, with --no-pci unless a port or -a named a PCI device, and EAL's chatter off unless asked for.
 * Errors:  what EAL said, and what usually helps. Thread: setup, once. */
int app_eal_start(struct app_eal *eal);

/* Purpose: the processor that an lcore is tied to, as the kernel numbers it (the lowest, if several). rte_lcore_to_cpu_id
 *          is something else: the core within its package. Thread: any, after app_eal_start. */
uint32_t app_lcore_cpu(uint32_t lcore_id);

/* Purpose: 1 (usage) for errors of what the user wrote, 2 (machine) for all others; prints "PROGRAM: error: text". */
int app_complain(const char *program, int rc);
/* Purpose: library log lines go to stderr as "PROGRAM: text". program is static. */
void app_log_to_stderr(const char *program);
/* Purpose: *stop becomes the signal's number on SIGINT and SIGTERM. */
void app_catch_signals(uint32_t *stop);

#endif
