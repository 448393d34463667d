/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lets a NIC fill a completion queue once, saves its bytes, and restores them for any lap
 * (cq_ring.h). Called by cq_lap.c.
 */
#include "cq_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"
#include "softhca_proc.h"

#define SLOT_BYTES 2048u
#define FILL_S     30

static const uint8_t rx_mac[6] = {0x02, 0x73, 0x70, 0x77, 0x0c, 0x01};

static int complain(int status, const char *what)
{
	fprintf(stderr, "spinwire-bench cq: %s\n", what);
	return status;
}

/* ---- filling it once ---- */

static int post_receives(struct cq_ring *r)
{
	for (uint32_t i = 0; i < r->cnt; i++) {
		struct ibv_sge sge = {(uintptr_t)r->rx.bytes + (size_t)i * SLOT_BYTES, SLOT_BYTES,
				      r->rx.mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		if (ibv_post_recv(r->rx.qp, &wr, &bad))
			return complain(2, "ibv_post_recv failed");
	}
	return 0;
}

/* Length of what stands at entry i of lap 0, in entries; 0: not written yet. */
static uint32_t entry_len(const uint8_t *cqe)
{
	uint8_t op_own = spw_dma_load(&cqe[63]);

	if (op_own >> 4 == SPW_PRM_CQE_INVALID || op_own & 1)
		return 0;
	spw_dma_from_device(); /* owner before the rest; partner: the NIC writes op_own last */
	return (op_own >> 2 & 3) == SPW_PRM_CQE_FORMAT_COMPRESSED ? spw_prm_cqe64_get_byte_cnt(cqe)
								  : 1;
}

static uint32_t filled(struct cq_ring *r)
{
	uint32_t i = 0, len;

	r->sessions = 0;
	while (i < r->cnt && (len = entry_len((uint8_t *)r->mem.buf + (size_t)i * 64))) {
		r->sessions += (spw_dma_load((uint8_t *)r->mem.buf + (size_t)i * 64 + 63) >> 2 &
				3) == SPW_PRM_CQE_FORMAT_COMPRESSED;
		i += len;
	}
	return i;
}

static int fill(struct cq_ring *r)
{
	const double until = now_s() + FILL_S;
	struct mlx5dv_obj obj = {.cq = {.in = ibv_cq_ex_to_cq(r->rx.cq), .out = &r->mem}};
	int rc;

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ))
		return complain(2, "mlx5dv_init_obj failed");
	if (r->mem.cqe_cnt != r->cnt || r->mem.cqe_size != 64)
		return complain(2, "the CQ is not what was asked for; unset MLX5_CQE_SIZE");
	rc = post_receives(r);
	if (!rc)
		rc = raw_side_steer(&r->rx, rx_mac);
	if (!rc)
		rc = raw_side_send(&r->tx, rx_mac, r->cnt);
	while (!rc && filled(r) != r->cnt)
		if (now_s() > until)
			rc = complain(3, "not all frames came: are the two devices on one cable?");
	if (rc)
		return rc;
	r->kept = malloc((size_t)r->cnt * 64);
	if (!r->kept)
		return complain(2, "no memory");
	memcpy(r->kept, r->mem.buf, (size_t)r->cnt * 64);
	return 0;
}

int cq_ring_open(struct cq_ring *r, const char *rx, const char *tx, uint32_t cnt, bool compressed)
{
	int rc;

	*r = (struct cq_ring){.cnt = cnt};
	rc = raw_side_open(&r->rx, rx, (size_t)cnt * SLOT_BYTES, cnt, compressed);
	if (!rc)
		rc = raw_side_open(&r->tx, tx, SLOT_BYTES, cnt, false);
	if (!rc)
		rc = fill(r);
	if (!rc && compressed && !r->sessions)
		rc = complain(3, "the NIC compressed nothing");
	return rc;
}

void cq_ring_stamps(struct cq_ring *r, uint64_t base, uint64_t step)
{
	for (uint32_t i = 0; i < r->cnt; i++)
		spw_prm_cqe64_set_timestamp(r->kept + (size_t)i * 64, base + (i + 1) * step);
}

void cq_ring_lay(struct cq_ring *r, uint32_t lap)
{
	uint8_t *ring = r->mem.buf;

	memcpy(ring, r->kept, (size_t)r->cnt * 64);
	for (uint32_t i = 0; lap & 1 && i < r->cnt; i += entry_len(r->kept + (size_t)i * 64))
		ring[(size_t)i * 64 + 63] |= 1;
}

void cq_ring_close(struct cq_ring *r)
{
	raw_side_close(&r->rx);
	raw_side_close(&r->tx);
	free(r->kept);
}
