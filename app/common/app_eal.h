/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * EAL's half of a program's command line, and what all programs share: exit statuses, error and log
 * lines, signals. The program's own half is parsed first: the ports decide which devices EAL may
 * probe, so that it never takes one that it was not given.
 *
 *   program <EAL arguments> -- <program's arguments>
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
	int split; /* index of "--" in the program's argv; the program's argc if there is none */
	struct spw_port_eal_need need[SPW_PORT_MAX]; /* argv points into it */
	uint32_t need_cnt;
	bool pci; /* a port or -a wants the PCI bus */
};

/* Purpose: takes the arguments before "--".
 * Lifetime: the strings remain the caller's argv.
 * Thread: setup.
 * Errors: -EINVAL too many.
 */
int app_eal_split(struct app_eal *eal, int argc, char **argv);

/* Purpose: adds the EAL arguments that a port needs.
 * Thread: setup, before app_eal_start.
 * Errors: those of spw_port_eal_need.
 */
int app_eal_port(struct app_eal *eal, const struct spw_port_spec *spec);

/* Purpose: rte_eal_init, with --no-pci unless a port or -a names a PCI device, and with EAL's log
 *   quiet unless a level is given.
 * Thread: setup, once.
 * Errors: EAL's error, with what usually helps.
 */
int app_eal_start(struct app_eal *eal);

/* Purpose: the CPU that an lcore is pinned to, in the kernel's numbering; the lowest, if there are
 *   several. (rte_lcore_to_cpu_id is the core's number within its package.)
 * Thread: any, after app_eal_start.
 */
uint32_t app_lcore_cpu(uint32_t lcore_id);

/* Purpose: prints "PROGRAM: error: text" with this thread's error text.
 * Returns: the exit status: APP_USAGE for errors in what the user wrote, else APP_MACHINE.
 * Thread: any.
 */
int app_complain(const char *program, int rc);

/* Purpose: sends the log lines of libraries to stderr as "PROGRAM: text".
 * Lifetime: program is static.
 * Thread: setup.
 */
void app_log_to_stderr(const char *program);

/* Purpose: flushes stdout at the end of a program.
 * Returns: status; APP_MACHINE in place of APP_GOOD if stdout did not take everything.
 * Thread: main.
 */
int app_end(const char *program, int status);

/* Purpose: gives SIGINT and SIGTERM their default action, also when a shell started the program in
 *   the background with SIGINT ignored. Otherwise a signal before app_catch_signals() would be
 *   lost.
 * Thread: main, before anything else.
 */
void app_default_signals(void);

#define APP_SIGNAL_AGAIN (1u << 8)

/* Purpose: sets *stop to the signal's number on SIGINT and SIGTERM, and on SIGHUP unless it is
 *   ignored (nohup). From the second signal on, APP_SIGNAL_AGAIN is set too: stop without waiting.
 *   A third signal ends the process.
 * Thread: main; *stop is read with spw_thr_load_rlx.
 */
void app_catch_signals(uint32_t *stop);

#endif
