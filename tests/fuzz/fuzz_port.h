/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the fuzzers of a port queue share: the input as steps, and the slots that the queue has
 * lent. A slot that is lent twice, or a descriptor that reaches beyond its slot, ends the run.
 */
#ifndef FUZZ_PORT_H
#define FUZZ_PORT_H

#include <stdlib.h>

#include "port/spw_port.h"

#define FUZZ_SLOT_MAX 160u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct fuzz_input {
	const uint8_t *data;
	size_t left;
};

struct fuzz_lent {
	uint32_t slot_cnt, slot_bytes;
	bool lent[FUZZ_SLOT_MAX];
	uint32_t list[FUZZ_SLOT_MAX], peer[FUZZ_SLOT_MAX], cnt;
};

static inline void fuzz_demand(bool holds)
{
	if (!holds)
		abort();
}

/* Returns the next bytes of the input; NULL: it has ended. */
static inline const uint8_t *fuzz_take(struct fuzz_input *in, size_t bytes)
{
	const uint8_t *p = in->data;

	if (in->left < bytes)
		return NULL;
	in->data += bytes;
	in->left -= bytes;
	return p;
}

static inline void fuzz_burst(struct fuzz_lent *l, struct spw_port_queue *pq, uint16_t cnt)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint16_t n = spw_port_rx_burst(pq, desc, cnt);

	fuzz_demand(n <= cnt);
	for (uint16_t i = 0; i < n; i++) {
		fuzz_demand(desc[i].slot < l->slot_cnt && !l->lent[desc[i].slot]);
		fuzz_demand(desc[i].len > 0 && desc[i].offset + desc[i].len <= l->slot_bytes);
		l->lent[desc[i].slot] = true;
		l->peer[l->cnt] = desc[i].peer;
		l->list[l->cnt++] = desc[i].slot;
	}
}

/* One of the lent slots, and the peer that it came from. There is one. */
static inline uint32_t fuzz_pick(struct fuzz_lent *l, uint8_t which, uint32_t *peer_out)
{
	uint32_t k = which % l->cnt, slot = l->list[k];

	*peer_out = l->peer[k];
	l->list[k] = l->list[--l->cnt];
	l->peer[k] = l->peer[l->cnt];
	l->lent[slot] = false;
	return slot;
}

static inline void fuzz_release(struct fuzz_lent *l, struct spw_port_queue *pq, uint8_t which)
{
	uint32_t peer, slot;

	if (!l->cnt)
		return;
	slot = fuzz_pick(l, which, &peer);
	spw_port_release_burst(pq, &slot, 1);
}

static inline void fuzz_release_all(struct fuzz_lent *l, struct spw_port_queue *pq)
{
	while (l->cnt)
		fuzz_release(l, pq, 0);
}

#endif
