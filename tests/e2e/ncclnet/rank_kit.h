/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the programs that stand for a rank share (rank.c, ring.c).
 */
#ifndef SPW_RANK_KIT_H
#define SPW_RANK_KIT_H

#include "base/spw_types.h"

void rank_nap(uint32_t us);
/* A result of the plugin that is no success ends the program: "result N", exit status 3. */
void rank_must(int result);
/* A handle of NCCL_HANDLE_BYTES, left in a file that appears whole; and waited for. */
void rank_handle_share(const char *path, const void *handle);
void rank_handle_learn(const char *path, void *handle_out);
/* The bytes of message `seed`. */
void rank_fill(uint8_t *at, size_t bytes, uint32_t seed);
bool rank_is_right(const uint8_t *at, size_t bytes, uint32_t seed);

#endif
