/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Descriptors: the inline pieces that the burst functions of eth/ and rc/ share beside those of
 * prm/spw_prm_ring.h. Nothing here knows a queue.
 */
#ifndef SPW_PORT_MLX5_CQE_H
#define SPW_PORT_MLX5_CQE_H

#include <string.h>

#include "port/mlx5/mem.h"

SPW_INLINE void mlx5_word_put(struct spw_desc *desc, unsigned word, uint64_t v)
{
	memcpy((char *)desc + word * 8, &v, 8);
}

/* Writes a descriptor as five words: nic_stamp; slot, offset; len, meta; peer, flags;
 * region, port. */
SPW_INLINE void mlx5_desc_put(struct spw_desc *desc, uint64_t stamp, uint32_t slot, uint32_t len,
			      uint32_t meta, uint64_t peer_flags, uint64_t tail)
{
	mlx5_word_put(desc, 0, stamp);
	mlx5_word_put(desc, 1, slot);
	mlx5_word_put(desc, 2, len | (uint64_t)meta << 32);
	mlx5_word_put(desc, 3, peer_flags);
	mlx5_word_put(desc, 4, tail);
}

#endif
