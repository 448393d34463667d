/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What an answer on the telemetry socket is made of. Thread: EAL's, under the lock of telemetry.c.
 */
#ifndef APP_LIVE_DICT_H
#define APP_LIVE_DICT_H

#include <rte_telemetry.h>

#include "base/spw_types.h"

struct app;

/* Values that DPDK did not take into the present answer. */
extern uint32_t app_dict_refused;

void app_dict_add(struct rte_tel_data *d, const char *name, uint64_t v);
void app_dict_add_text(struct rte_tel_data *d, const char *name, const char *text);
void app_dict_add_path(struct rte_tel_data *d, const char *name, const char *path);
void app_dict_add_as(struct rte_tel_data *d, const char *kind, const char *name, uint64_t v);
void app_dict_add_ns(struct rte_tel_data *d, const char *name, uint64_t v);
struct rte_tel_data *app_dict_new(void);
void app_dict_add_dict(struct rte_tel_data *d, const char *name, struct rte_tel_data *dict);

/* live/rules.c: the answers of /spinwire/rules, rule_add and rule_remove. */
void app_rules_dict(struct app *app, const char *params, struct rte_tel_data *d);
void app_rule_add_dict(struct app *app, const char *params, struct rte_tel_data *d);
void app_rule_remove_dict(struct app *app, const char *params, struct rte_tel_data *d);

#endif
