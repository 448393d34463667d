/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who took the core of a polling loop: what the kernel counts for a thread (context switches) and
 * for its CPU (interrupts), restricted to the windows in which the loop had gaps.
 *
 *   reading      |     |     |     |     |        by the control thread, every 100 ms or so
 *   gaps         0     0     2     2     3        reported by the loop's recorder, a running count
 *   window         -     -  count    -  count     only these differences are added up
 *
 * A window without gaps is dropped, because what the kernel did in it delayed no frame. A window
 * with a gap may contain interrupts that did not cause it: the counts point at a suspect, they are
 * no proof.
 */
#ifndef SPW_WHO_H
#define SPW_WHO_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_WHO_IRQ_MAX 96u

struct spw_who_irq {
	char name[16];      /* as in /proc/interrupts: a number, or LOC, RES, ... */
	uint64_t base, cnt; /* at the last reading; within windows that had gaps */
};

/* One loop's counts. Fill it from zero. */
struct spw_who {
	int tid; /* 0 until spw_who_begin */
	uint32_t cpu;
	uint64_t windows;                     /* that had gaps */
	uint64_t switch_base[2], switches[2]; /* voluntary, involuntary; as base and cnt above */
	struct spw_who_irq irq[SPW_WHO_IRQ_MAX];
	uint32_t irq_cnt;
	/* private to lib/plat/who.c */
	uint64_t gaps; /* at the last reading */
	int column;
	bool has_base, counted;
};

/* Purpose: names the thread and the CPU to observe.
 * Shape:   cpu: the one that the thread is pinned to, as the kernel numbers it.
 * Thread:  owner (the loop's own thread), before the loop.
 * Order:   release [WHO1]; spw_who_read leaves the loop out until it has acquired that [WHO2]. */
void spw_who_begin(struct spw_who *who, uint32_t cpu);

/* Purpose: ends a window for each of cnt loops: reads the kernel's counts, and adds their
 *          differences where the loop had gaps. What cannot be read counts as 0. An interrupt
 *          beyond SPW_WHO_IRQ_MAX different ones is left out.
 * Shape:   gaps[i]: the running count of gaps of who[i]'s loop.
 * Thread:  control, always the same one.
 * Cost:    two files per call and one per loop; not for the data path.
 * Source:  proc(5). */
void spw_who_read(struct spw_who *const *who, const uint64_t *gaps, uint32_t cnt);

/* Purpose: for how long the loop's thread could run, and its core ran another (run-delay), since
 * the thread began. Returns: ns; 0 before spw_who_begin, or on a kernel that does not count it.
 * Thread:  any, while the loop's thread exists.
 * Source:  proc(5), Documentation/scheduler/sched-stats.rst: the second figure of schedstat. */
uint64_t spw_who_waited_ns(const struct spw_who *who);

#ifdef __cplusplus
}
#endif
#endif
