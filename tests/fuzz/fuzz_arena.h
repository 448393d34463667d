/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The memory of the fuzzed application: at the same address in every run, so that a corpus file can
 * name it.
 */
#ifndef FUZZ_ARENA_H
#define FUZZ_ARENA_H

#define FUZZ_ARENA       ((uint8_t *)0x200000000000)
#define FUZZ_ARENA_BYTES (1u << 20)

#endif
