/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What EAL answers with a panic, with a hundred lines, or with advice that does not help: cores
 * that it cannot read or that are outside the cpuset, a secondary process, too few file
 * descriptors. Looked at before EAL starts.
 */
#ifndef APP_LIMITS_H
#define APP_LIMITS_H

#include "app_eal.h"

/* Purpose: refuses a --proc-type other than primary, for which EAL would wait 30 s, and values of
 *   -l, --lcores, -c and --main-lcore that EAL cannot take; "auto" may still stand there.
 * Thread: setup, before anything is started.
 * Errors: -EINVAL with the option and its value.
 */
int app_limits_args(const struct app_eal *eal);

/* Purpose: app_limits_args again, now that "auto" stands for cores that were chosen;
 *   raises the soft limit of open files if it is low, and compares the cores of -l, --lcores and -c
 *   with those on which the kernel lets this process run.
 * Thread: setup, before app_eal_start's rte_eal_init.
 * Errors: -EINVAL as app_limits_args; -ENOENT a core is out of reach; -EMFILE the hard limit of
 *   open files is too low.
 */
int app_limits_check(const struct app_eal *eal);

/* Purpose: the same for cores that another option names.
 * Shape: core[cnt]; option: for the error text.
 * Thread: setup.
 * Errors: -ENOENT.
 */
int app_limits_cores(const uint32_t *core, uint32_t cnt, const char *option);

#endif
