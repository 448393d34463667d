/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * EAL's half of a program's command line. The program's own half is parsed first: the ports decide
 * which devices EAL may probe, so that it never takes one that it was not given.
 *
 *   program <EAL arguments> -- <program's arguments>
 */
#ifndef APP_EAL_H
#define APP_EAL_H

#include "app_program.h"
#include "base/spw_types.h"
#include "port/spw_port.h"

#define APP_EAL_ARG_MAX 256

struct app_eal {
	char *argv[APP_EAL_ARG_MAX];
	int argc;
	int split; /* index of "--" in the program's argv; the program's argc if there is none */
	struct spw_port_need need[SPW_PORT_MAX]; /* argv points into it */
	uint32_t need_cnt;
	bool pci;      /* a port or -a wants the PCI bus */
	bool verbose;  /* EAL logs as it would by itself */
	uint64_t caps; /* capabilities that the ports need, as in struct spw_port_need */
};

/* Purpose: takes the arguments before "--".
 * Lifetime: the strings remain the caller's argv.
 * Thread: setup.
 * Errors: -EINVAL too many.
 */
int app_eal_split(struct app_eal *eal, int argc, char **argv);

/* Purpose: adds what a port needs: EAL arguments, capabilities.
 * Thread: setup, before app_eal_start.
 * Errors: those of spw_port_need.
 */
int app_eal_port(struct app_eal *eal, const struct spw_port_spec *spec);

/* Purpose: rte_eal_init, with --no-pci unless a port or -a names a PCI device, with --no-huge if no
 *   hugepage is free, and with EAL's log quiet unless a level is given. EAL's runtime folder is
 *   removed when the process ends. prefix: the default of --file-prefix; NULL: EAL's own, "rte".
 * Lifetime: prefix remains the caller's.
 * Thread: setup, once.
 * Errors: EAL's error, with what usually helps.
 */
int app_eal_start(struct app_eal *eal, char *prefix);

/* Purpose: the CPU that an lcore is pinned to, in the kernel's numbering; the lowest, if there are
 *   several. (rte_lcore_to_cpu_id is the core's number within its package.)
 * Thread: any, after app_eal_start.
 */
uint32_t app_lcore_cpu(uint32_t lcore_id);

#endif
