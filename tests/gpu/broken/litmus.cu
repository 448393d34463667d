/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The litmus's handler as a plug-in from which one ordering of the device code is removed, named by
 * BREAK_...; tests/gpu/meson.build builds each, and tests/gpu/litmus_test.c runs the litmus with
 * it.
 *
 *   BREAK_none     nothing: it must pass, or the others prove nothing
 *   BREAK_fence    no fence between the handler's writes and the completion words (G2)
 *   BREAK_acquire  polls do not acquire (G1), and L1 may keep lines, as it may of plain loads
 *   BREAK_nc       payload through the non-coherent path, which may return the last lap's bytes
 *   BREAK_tag      the lap tag of a descriptor's second half is not looked at
 */
#include "exec/spwd_order.cuh"

#ifdef BREAK_acquire
#define spwd_sys_load_acq2 spwd_sys_load_rlx2
#endif
#if defined(BREAK_acquire) || defined(BREAK_nc)
SPWD void broken_load_16_if(uint32_t wanted, const void *p, uint32_t *w)
{
	asm volatile("{\n .reg .pred p;\n setp.ne.u32 p, %5, 0;\n"
#ifdef BREAK_nc
		     " @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
#else
		     " @p ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
#endif
		     : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3])
		     : "l"(p), "r"(wanted));
}
#define spwd_load_16_if broken_load_16_if
#endif

#include "exec/spw_gring.h"

#ifdef BREAK_tag /* calls name their word: lo, lo1, hi, hi1 */
#define tag_of_lo(word, tag)         (((word ^ tag) >> SPW_GRING_TAG_SHIFT) == 0)
#define tag_of_lo1(word, tag)        tag_of_lo(word, tag)
#define tag_of_hi(word, tag)         true
#define tag_of_hi1(word, tag)        true
#define spw_gring_has_tag(word, tag) tag_of_##word(word, tag)
#endif

#include "exec/handlers/litmus.h"

#ifdef BREAK_fence
#define FLAGS 0
#else
#define FLAGS SPW_HANDLER_WRITES
#endif

SPW_HANDLER_PLUGIN(litmus, "checks the frames of the litmus, with an ordering removed", FLAGS)
