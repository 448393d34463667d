/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One end of a shared-memory switch (shm.h has the file's layout).
 *
 *   shm.c        sending and receiving: what runs in each round
 *   shm_join.c   joining, leaving, ports whose owner died
 *   shm_file.c   the file: opened, locked, mapped, lost, removed
 */
#ifndef SPW_SOFTHCA_CABLE_SHM_IMPL_H
#define SPW_SOFTHCA_CABLE_SHM_IMPL_H

#include <sys/types.h>

#include "base/spw_order.h"
#include "softhca/cable/cable.h"
#include "softhca/cable/shm.h"

struct shm_tx {                /* this port to another */
	struct shm_ring *ring; /* NULL until first used */
	uint64_t tail, head;   /* tail is ahead of the published one; head as last read */
	struct cable_full full;
	struct cable_full no_turn; /* it has taken no turn since turns_seen */
	uint64_t turns_seen;
	bool refused;        /* /dev/shm had no memory for the ring ... */
	uint64_t refused_ns; /* ... when it was asked last */
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
	uint32_t map; /* index in shm_file.c's table of mappings */
	uint8_t *base;
	struct shm_hdr *hdr;
	char path[256];
	/* sending */
	struct shm_tx tx[SHM_PORTS];
	struct shm_rec *tx_rec;
	uint32_t tx_len, tx_to, dirty;
	uint64_t last_to; /* MAC, and from bit 48 on 1 + the port in the QPN */
	uint32_t last_epoch, last_targets;
	/* receiving */
	struct shm_rx rx[SHM_PORTS];
	uint32_t rx_cnt, rx_turn, rx_epoch;
	uint32_t rx_known; /* ports in rx[], as bits */
	uint32_t lent_cnt;
	struct {
		struct shm_rx *rx;
		uint64_t pos;
	} lent[CABLE_BURST];
	uint64_t now_ns, reaped_ns, turns;
	uint8_t scratch[CABLE_FRAME_MAX] SPW_ALIGNED(64);
};

extern const struct cable_ops shm_ops;
void shm_leave(struct cable *c);
void shm_close(struct cable *c);
/* After a change of the port table: adds the rings of new ports to those that are polled. */
void shm_rx_refresh(struct cable_shm *s, uint32_t epoch);
/* The first turn: from now on frames that no QPN leads elsewhere come here too. */
void shm_use(struct cable_shm *s);
/* After a change of this end's link: shows it to the other ends. */
void shm_link_set(struct cable *c, bool up);
/* Has one other end its link up, or is there none? */
bool shm_link_up(struct cable *c, uint32_t own);
/* Marks the ports whose owner died as free. */
void shm_reap_dead(struct cable_shm *s);

/* ---- shm_file.c ---- */

/* F_OFD_*LK on one byte. Returns 0 or -errno; F_OFD_GETLK: 1 if another owner has the lock. */
int shm_lock(int fd, int cmd, short type, off_t at);
/* Takes the lock of joining and leaving. Returns -ETIMEDOUT with a text after LOCK_WAIT_MS. */
int shm_lock_table(const struct cable_shm *s);
void shm_path(const char *name, char *path_out, size_t bytes);
/* Opens the file and takes the table's lock; opens it again if it was unlinked in between. */
int shm_open_locked(struct cable_shm *s);
int shm_map(struct cable_shm *s);
void shm_unmap(struct cable_shm *s);
/* Sets c.lost if the file was truncated or overwritten by another process. */
void shm_check(struct cable_shm *s);
/* Removes the file if no port is owned. With the table's lock. */
void shm_unlink_if_alone(int fd, const char *path);
/* Removes the files of cables whose users were all killed; not the one at path `but`. */
void shm_sweep(const char *but);

#endif
