/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * By when a NIC had done with what it was handed: the stamps of a queue's send completions. A queue
 * keeps them only when asked, by a program whose loops keep a trail (trail/spw_trail_nic.h); others
 * pay nothing for it.
 *
 *   tx_burst    1 2 3 4 | 5 | 6 7 8 | 9 ...             frames are numbered as they are taken
 *   completion          4   5       8                   one for several frames
 *   kept                4,t 5,t     8,t                 by t it had done with all up to 8
 *
 * A completion covers all frames since the one before it, so its stamp is an upper bound for each,
 * and close to the last one's own. What it bounds is the send queue: doorbell, WQE, reading the
 * bytes. A card stamps when it makes the CQE, which can be before the frame is out: 600 ns before
 * at 100 Gb/s, as Linux says of its own stamps (mlx5-updates-2020-12-01), longer where the port is
 * paused. The software ConnectX stamps when the frame is on its cable.
 */
#ifndef SPW_FRAME_PORT_SENT_H
#define SPW_FRAME_PORT_SENT_H

#include "base/spw_types.h"

struct spw_port_done {
	uint64_t number; /* frames that tx_burst has taken since start, up to the last it covers */
	/* NIC ticks, as of received frames; 0: nobody knows. They were flushed, or sent shortly
	 * before the queue failed. */
	uint64_t stamp;
};

/* The newest; done[i & mask] is the i-th since start. As many as the send ring has entries, which
 * is how many one burst or call of events can add. Owner only, but for done, mask: constant. */
struct spw_port_sent {
	struct spw_port_done *done;
	uint32_t mask;
	uint64_t cnt; /* since start */
};

#endif
