/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#ifndef SPW_SOFTHCA_CABLE_SHM_IMPL_H
#define SPW_SOFTHCA_CABLE_SHM_IMPL_H

#include "base/spw_order.h"
#include "softhca/cable.h"
#include "softhca/cable_shm.h"

struct shm_tx { /* this port to another */
	struct shm_ring *ring; /* NULL until first used */
	uint64_t tail, head;   /* tail runs ahead of the published one; head is what was last seen */
	uint64_t full_since_ns;
	bool refused;          /* no memory for the ring */
};

struct shm_rx { /* another port to this one */
	struct shm_ring *ring;
	uint64_t head; /* released up to here */
	uint64_t pos;  /* lent up to here */
	uint64_t tail;
	uint32_t from;
};

struct cable_shm {
	struct cable c;
	struct cable_id id;
	int fd;
	uint8_t *base;
	struct shm_hdr *hdr;
	char path[256];
	/* sending */
	struct shm_tx tx[SHM_PORTS];
	struct shm_rec *tx_rec;
	uint32_t tx_len, tx_to, dirty;
	uint64_t last_mac;
	uint32_t last_epoch, last_qpn, last_targets;
	/* receiving */
	struct shm_rx rx[SHM_PORTS];
	uint32_t rx_cnt, rx_turn, rx_epoch;
	uint32_t rx_known; /* ports in rx[], as bits */
	uint32_t lent_cnt;
	struct {
		struct shm_rx *rx;
		uint64_t pos;
	} lent[CABLE_BURST];
	uint64_t now_ns, reaped_ns;
	uint8_t scratch[CABLE_FRAME_MAX] SPW_ALIGNED(64);
};

extern const struct cable_ops shm_ops;
void shm_close(struct cable *c);
/* After a change of the port table: which rings to look at. */
void shm_rx_refresh(struct cable_shm *s, uint32_t epoch);
/* Ports whose holder died are marked free. */
void shm_reap_dead(struct cable_shm *s);

#endif
