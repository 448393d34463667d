/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The capabilities of a running program: those of its ports, and no others.
 */
#ifndef APP_RIGHTS_H
#define APP_RIGHTS_H

#include "app_eal.h"

/* Purpose: drops the capabilities that the ports do not need (eal->caps) from every set, the
 *   bounding set included, and sets no_new_privs. Kept besides: CAP_IPC_LOCK, which locks memory
 *   beyond the limit at start and in a recovery, and for user 0 CAP_DAC_OVERRIDE, with which root
 *   writes the files that the options name. Nothing is gained that the process does not have.
 * Thread: main, before any thread is made: threads inherit what is left. After app_eal_port of
 *   every port, before app_eal_start.
 * Errors: none; what could not be dropped is a warning.
 */
void app_rights_reduce(const struct app_eal *eal);

#endif
