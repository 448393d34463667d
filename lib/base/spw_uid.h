/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The user of this process as others outside of its user namespace know it.
 */
#ifndef SPW_BASE_UID_H
#define SPW_BASE_UID_H

#include "base/spw_types.h"

/* Purpose: names what all users share (/dev/shm) by its user: in a namespace of "unshare -r"
 * everybody is user 0, and a name with that number would be root's. Returns: the effective user id
 * as the namespace around this one has it; 65534 for one that would be 0 and is not root (a
 * namespace within a namespace). Without /proc: the id as it is. Source: user_namespaces(7),
 * "uid_map". Thread: any. */
uint32_t spw_uid_outer(void);

#endif
