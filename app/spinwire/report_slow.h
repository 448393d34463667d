/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The parts of both summaries that --replay prints too: slow frames (report_slow.c), and the
 * ledger (report_ledger.c).
 */
#ifndef REPORT_SLOW_H
#define REPORT_SLOW_H

#include <jansson.h>

#include "app.h"

#define WORST_LINES 8u /* in the text; the JSON has them all */

json_t *app_causes_json(const struct app *app, const struct app_result *res);
json_t *app_worst_json(const struct app *app, const struct app_result *res);
#define IRQ_LINES 4 /* likewise */

json_t *app_who_json(const struct app *app);
json_t *app_held_json(const struct app *app, const struct app_result *res);
/* report_ledger.c */
json_t *app_ledger_json(const struct app_result *res);
void app_report_ledger(const struct app_result *res);
void app_report_ledger_brief(const struct app_result *res);

void app_report_slow(const struct app *app, const struct app_result *res);

#endif
