/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whether this process was forked from the one that opened something: a child has neither the
 * parent's threads nor its NIC, so its objects must be refused, not used.
 *
 *   open    spw_fork_watch(); object->forks = spw_fork_cnt;
 *   call    object->forks != spw_fork_cnt: this is a child
 */
#ifndef SPW_BASE_FORK_H
#define SPW_BASE_FORK_H

#include "base/spw_types.h"

/* Forks that led to this process since spw_fork_watch(). Changes in a child alone, before fork()
 * returns there. */
extern uint32_t spw_fork_cnt;

/* Purpose: begins to count; again: nothing. Thread: any. */
void spw_fork_watch(void);

/* Purpose: refuses an object in a child of the process that opened it.
 * Shape: forks: of the object; what it is, for the text: "group".
 * Thread: any.
 * Errors: -ECHILD with what to do instead. */
int spw_fork_check(uint32_t forks, const char *what);

#endif
