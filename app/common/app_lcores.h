/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "--lcores auto" (or "-l auto"): which cores EAL gets, chosen by lib/plat; and warnings for lcores
 * on cores that are slow or shared.
 */
#ifndef APP_LCORES_H
#define APP_LCORES_H

#include "app_eal.h"
#include "plat/spw_plat.h"

/* Purpose: whether the user asked for cores to be chosen. */
bool app_lcores_are_auto(const struct app_eal *eal);

/* Purpose: puts "-l LIST --main-lcore N" in place of "auto", and logs what it stands for.
 * Shape: worker_cnt: lcores besides the main one; nic: what the cores should be near, or NULL.
 * Thread: setup, after app_eal_split and before app_eal_start.
 * Errors: -ENOENT too few cores; -EINVAL too many arguments.
 */
int app_lcores_choose(struct app_eal *eal, const struct spw_plat *plat, uint32_t worker_cnt,
		      const char *nic);

/* Purpose: logs one warning that names the lcores which run on slow or shared cores, and what to
 * do. Thread: setup, after app_eal_start.
 */
void app_lcores_warn(const struct spw_plat *plat, const uint32_t *lcore_id, uint32_t cnt);

#endif
