/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What tests of lib/plat share: facts and findings of a recorded machine by name.
 */
#ifndef PLAT_KIT_H
#define PLAT_KIT_H

#include "unit_machine.h"

/* A platform with some members changed. */
static SPW_UNUSED int changed(const char *name, const char *members, const char *cuda,
			      struct spw_plat **plat)
{
	return unit_machine(name, members, (struct spw_plat_from){.cuda_lib = cuda}, plat);
}

static SPW_UNUSED const struct spw_plat_finding *finding(const struct spw_plat *plat,
							 const char *code)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (strcmp(plat->finding[i].code, code) == 0)
			return &plat->finding[i];
	return NULL;
}

static SPW_UNUSED const struct spw_plat_nic *nic(const struct spw_plat *plat, const char *netdev)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (strcmp(plat->nic[i].netdev, netdev) == 0)
			return &plat->nic[i];
	fail_msg("no %s", netdev);
	return NULL;
}

static SPW_UNUSED const struct spw_plat_fact *fact(const struct spw_plat *plat, const char *of,
						   const char *name)
{
	for (uint32_t i = 0; i < plat->fact_cnt; i++)
		if (!strcmp(plat->fact[i].of, of) && !strcmp(plat->fact[i].name, name))
			return &plat->fact[i];
	fail_msg("no fact %s %s", of, name);
	return NULL;
}

#endif
