/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A reliable connection by plain verbs and nothing else: ibv_poll_cq, ibv_post_recv and
 * ibv_post_send in lists. There are no credits: the sender must not have more messages in flight
 * than there are receives.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "rc_end.h"

static uint64_t slot_addr(const struct rc_end *end, uint64_t i)
{
	return (uintptr_t)end->bytes + i % RC_SLOTS * RC_SLOT_BYTES;
}

/* ---- messages ---- */

/* Posts the receives of these slots again, as one list. */
static int post_receives(struct rc_end *end, const uint64_t *slot, uint32_t cnt)
{
	struct ibv_recv_wr wr[SPW_BURST_MAX], *bad;
	struct ibv_sge sge[SPW_BURST_MAX];

	for (uint32_t i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){slot_addr(end, slot[i]), RC_SLOT_BYTES,
					  end->hand.mr->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slot[i],
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = !end->write};
	}
	return cnt ? ibv_post_recv(end->hand.qp, wr, &bad) : 0;
}

static uint32_t hand_take(struct rc_end *end)
{
	struct ibv_wc wc[SPW_BURST_MAX];
	uint64_t slot[SPW_BURST_MAX];
	int n = ibv_poll_cq(end->hand.rx_cq, SPW_BURST_MAX, wc);

	if (n <= 0)
		return 0;
	for (int i = 0; i < n; i++)
		slot[i] = wc[i].wr_id;
	return post_receives(end, slot, (uint32_t)n) ? 0 : (uint32_t)n;
}

static void hand_attend(struct rc_end *end)
{
	struct ibv_wc wc[SPW_BURST_MAX];
	int n = ibv_poll_cq(end->hand.tx_cq, SPW_BURST_MAX, wc);

	for (int i = 0; i < n; i++)
		end->done += wc[i].status == IBV_WC_SUCCESS ? wc[i].wr_id : 0;
}

/* Posts one list; only its last message has a completion, whose wr_id is the length of the list. */
static uint32_t hand_send(struct rc_end *end, uint32_t cnt)
{
	struct ibv_send_wr wr[SPW_BURST_MAX], *bad;
	struct ibv_sge sge[SPW_BURST_MAX];
	uint32_t n = SPW_MIN(SPW_MIN(cnt, (uint32_t)SPW_BURST_MAX),
			     RC_WINDOW - (uint32_t)(end->sent - end->done));

	for (uint32_t i = 0; i < n; i++) {
		bool last = i + 1 == n;

		sge[i] = (struct ibv_sge){slot_addr(end, end->sent + i), RC_BYTES,
					  end->hand.mr->lkey};
		wr[i] = (struct ibv_send_wr){.wr_id = n,
					     .next = last ? NULL : &wr[i + 1],
					     .sg_list = &sge[i],
					     .num_sge = 1,
					     .opcode = end->write ? IBV_WR_RDMA_WRITE_WITH_IMM
								  : IBV_WR_SEND,
					     .send_flags = last ? IBV_SEND_SIGNALED : 0};
		wr[i].wr.rdma.remote_addr =
			end->hand.there + (end->sent + i) % RC_SLOTS * RC_SLOT_BYTES;
		wr[i].wr.rdma.rkey = end->hand.there_rkey;
	}
	if (!n || ibv_post_send(end->hand.qp, wr, &bad))
		return 0;
	end->sent += n;
	return n;
}

static uint32_t hand_echo(struct rc_end *end)
{
	uint32_t n = hand_take(end);

	for (uint32_t left = n; left;) {
		left -= hand_send(end, left);
		hand_attend(end);
	}
	return n;
}

static bool hand_is_quiet(struct rc_end *end)
{
	hand_attend(end);
	return end->sent == end->done;
}

static const struct rc_calls hand_calls = {hand_send, hand_take, hand_echo, hand_attend,
					   hand_is_quiet};

/* ---- set-up ---- */

int rc_hand_open(struct rc_end *end, const char *device, const struct rc_ends_conf *conf)
{
	static const struct ibv_qp_cap cap = {.max_send_wr = RC_SLOTS,
					      .max_recv_wr = RC_SLOTS,
					      .max_send_sge = 1,
					      .max_recv_sge = 1};

	end->calls = &hand_calls;
	end->write = conf->write;
	return hand_qp_open(&end->hand, device, end->bytes, RC_END_BYTES, &cap);
}

int rc_hand_join(struct rc_end *end, const struct rc_end *other)
{
	int rc = hand_qp_join(&end->hand, &other->hand);

	for (uint64_t slot = 0; slot < RC_WINDOW && !rc; slot++)
		if (post_receives(end, &slot, 1))
			rc = spw_err(EIO, "posting receives by hand");
	return rc;
}

void rc_hand_close(struct rc_end *end)
{
	hand_qp_close(&end->hand);
}
