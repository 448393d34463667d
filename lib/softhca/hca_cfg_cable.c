/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * On which of the cables in --cable A+B a physical port is, and whose end is there. hca_cfg.c
 * parses both; nic/run/dev.c asks for the cable when it puts a device on it.
 */
#include <stdio.h>
#include <string.h>

#include "softhca/hca_cfg.h"

bool hca_cfg_machine(const char *text, uint64_t *machine_out)
{
	unsigned int number, pid;
	char rest;

	if (sscanf(text, "%u,%u%c", &number, &pid, &rest) != 2 || number > HCA_MACHINE_MAX)
		return false;
	*machine_out = (uint64_t)pid << 32 | (number * HCA_DEV_MAX + 1);
	return true;
}

bool hca_cfg_cable_known(const char *cables)
{
	for (const char *at = cables; at; at = strchr(at, '+')) {
		at += *at == '+';
		if (strncmp(at, "shm:", 4) && strncmp(at, "afpacket:", 9) &&
		    strncmp(at, "unix:", 5) && strncmp(at, "udp:", 4))
			return false;
	}
	return true;
}

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
