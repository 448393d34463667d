/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which of the cables in --cable A+B a physical port is on. The list was checked by hca_cfg.c;
 * called by nic/run/dev.c when a device is put on its cable.
 */
#include <stdio.h>
#include <string.h>

#include "softhca/hca_cfg.h"

void hca_cfg_cable(const struct hca_cfg *cfg, uint32_t port, char *cable_out)
{
	const char *at = cfg->cable;
	uint32_t cnt = 1;

	for (const char *p = at; *p; p++)
		cnt += *p == '+';
	for (port %= cnt; port; port--)
		at = strchr(at, '+') + 1;
	snprintf(cable_out, HCA_TEXT_BYTES, "%.*s", (int)strcspn(at, "+"), at);
}
