/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Queues made by firmware commands, ready to use: a CQ, an SQ and an RQ on it, beside a raw
 * receiver made by verbs that gets what the SQ sends.
 */
#ifndef DEVX_RIG_H
#define DEVX_RIG_H

#include "devx_kit.h"

#define RIG_CQ_LOG2 4u
#define RIG_SQ_LOG2 4u
#define RIG_RQ_LOG2 3u

enum { RST = 0, RDY = 1, ERR = 3 };
enum { EREFUSED = 121 }; /* EREMOTEIO: the mailbox says why */

struct rig {
	struct raw r;
	struct mlx5dv_devx_uar *uar;
	uint32_t pdn, eqn;
	struct thing td, tis, cq, sq, rq;
	uint32_t sq_pi, cq_ci;
};

void rig_open(struct rig *g);
void rig_close(struct rig *g); /* what is still there */
/* Mailboxes that make a queue in the memory of t. */
void rig_sq_box(const struct rig *g, struct box *b, const struct thing *t);
void rig_rq_box(const struct rig *g, struct box *b, const struct thing *t);
/* MODIFY_SQ 905, MODIFY_RQ 909. Returns: 0, or the errno. */
int rig_to_state(struct thing *t, uint32_t opcode, uint32_t from, uint32_t to);
/* Sends one frame of place 0: no bytes of it in the WQE. */
void rig_post_frame(struct rig *g, uint32_t len);
/* The next CQE, within KIT_WAIT_MS; consumed by the record. Returns: its opcode. */
uint8_t rig_next_cqe(struct rig *g, uint8_t cqe_out[64]);

#endif
