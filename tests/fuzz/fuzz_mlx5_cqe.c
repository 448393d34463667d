/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the receive path of port/mlx5/eth: any bytes as CQEs, in any order with bursts, releases,
 * sends and resets. Every descriptor lies within its slot, no slot is lent twice, none is lost, and
 * a reset makes the queue work again.
 *
 *   input: a byte of flags, then steps: an opcode byte and its operands. A CQE step takes 16 bytes:
 *          the op_own and the fields that the data path reads; a raw step takes 64 bytes unchanged
 */
#include <string.h>

#include "fuzz_port.h"
#include "hand.h"

struct run {
	struct hand h;
	struct fuzz_input in;
	struct fuzz_lent lent;
};

static void step_cqe(struct run *r, const uint8_t *p)
{
	uint8_t *cqe = r->h.cq + (size_t)(p[0] % r->h.conf.cq_cnt) * 64;

	cqe[28] = p[1];
	memcpy(cqe + 44, p + 2, 4); /* byte count, or frames of a session */
	memcpy(cqe + 55, p + 6, 2); /* syndrome, drops */
	memcpy(cqe + 60, p + 8, 4);
}

static void step_send(struct run *r, uint8_t which)
{
	struct spw_desc desc = {.len = 1 + which % 200u}, *p = &desc;
	uint32_t peer;

	desc.slot = fuzz_pick(&r->lent, which, &peer);
	if (spw_port_tx_burst(&r->h.pq, &p, 1) == 0)
		spw_port_release_burst(&r->h.pq, &desc.slot, 1);
}

static bool step(struct run *r)
{
	const uint8_t *op = fuzz_take(&r->in, 2), *p;
	struct spw_port_event ev[4];

	if (!op)
		return false;
	switch (op[0] % 8) {
	case 0:
	case 1:
		if (!(p = fuzz_take(&r->in, 12)))
			return false;
		step_cqe(r, p);
		break;
	case 2:
		if (!(p = fuzz_take(&r->in, 64)))
			return false;
		memcpy(r->h.cq + (size_t)(op[1] % r->h.conf.cq_cnt) * 64, p, 64);
		break;
	case 3:
		fuzz_burst(&r->lent, &r->h.pq, (uint16_t)(1 + op[1] % SPW_BURST_MAX));
		break;
	case 4:
		fuzz_release(&r->lent, &r->h.pq, op[1]);
		break;
	case 5:
		fuzz_demand(spw_port_events(&r->h.pq, ev, (uint16_t)(op[1] % 5)) <= op[1] % 5);
		break;
	case 6:
		if (r->lent.cnt)
			step_send(r, op[1]);
		break;
	default:
		if (!(p = fuzz_take(&r->in, 12)))
			return false;
		memcpy(r->h.tx_cq + (size_t)(op[1] % r->h.conf.sq_cnt) * 64 + 52, p, 12);
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const unsigned flags[] = {
		MLX5_F_STAMP,
		0,
		MLX5_F_COMPRESSED,
		MLX5_F_COMPRESSED | MLX5_F_ENHANCED,
		MLX5_F_STRIDING,
		MLX5_F_STRIDING | MLX5_F_COMPRESSED,
		MLX5_F_STRIDING | MLX5_F_COMPRESSED | MLX5_F_ENHANCED,
		MLX5_F_INLINE,
	};
	struct hand_conf c = {.cq_cnt = 64,
			      .rq_cnt = 64,
			      .sq_cnt = 16,
			      .slot_bytes = 256,
			      .slot_cnt = 150,
			      .refill_min = 1};
	static struct run r;

	if (bytes < 1)
		return 0;
	memset(&r, 0, sizeof(r));
	c.flags = flags[data[0] % SPW_ARRAY_CNT(flags)];
	if (c.flags & MLX5_F_STRIDING) {
		c.strides_log2 = 3;
		c.rq_cnt = 8;
		c.slot_cnt = 8 * 12;
	}
	fuzz_demand(hand_open(&r.h, &c) == 0);
	r.lent.slot_cnt = c.slot_cnt;
	r.lent.slot_bytes = c.slot_bytes;
	r.in.data = data + 1;
	r.in.left = bytes - 1;
	while (step(&r))
		fuzz_demand(hand_balanced(&r.h, r.lent.cnt));
	fuzz_release_all(&r.lent, &r.h.pq);
	fuzz_demand(hand_close(&r.h) == 0);
	return 0;
}
