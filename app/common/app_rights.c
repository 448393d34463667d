/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Capabilities belong to threads, and a thread hands its own to those that it makes. So they are
 * dropped once, by the first thread while it is the only one, and not again after start: what is
 * left then is what a recovery needs to create queues and to register memory anew.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cap-ng.h>

#include "app_rights.h"
#include "base/spw_log.h"

/* The software ConnectX runs inside the process, so its cable to a network interface is opened with
 * the rights of the process. */
static uint64_t caps_of_cable(void)
{
	const char *conf = getenv("SPW_SOFTHCA");

	return conf && strstr(conf, "cable=afpacket") ? 1ull << CAP_NET_RAW : 0;
}

static int drop_all_but(uint64_t caps)
{
	capng_select_t sets = CAPNG_SELECT_CAPS;

	capng_get_caps_process();
	if (capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
		sets = CAPNG_SELECT_BOTH; /* the bounding set too */
	for (unsigned int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (!(caps >> cap & 1))
			capng_update(CAPNG_DROP,
				     CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE |
					     CAPNG_BOUNDING_SET,
				     cap);
	return capng_apply(sets);
}

void app_rights_reduce(const struct app_eal *eal)
{
	uint64_t caps = eal->caps | caps_of_cable() | 1ull << CAP_IPC_LOCK;

	/* Root opens files of others by this right, and without it would fail where users expect
	 * it not to. */
	if (geteuid() == 0)
		caps |= 1ull << CAP_DAC_OVERRIDE;
	if (drop_all_but(caps) < 0)
		spw_warn("rights: capabilities that are not needed could not be dropped");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		spw_warn("rights: no_new_privs could not be set: %s", strerror(errno));
}
