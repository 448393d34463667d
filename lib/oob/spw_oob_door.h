/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who may come in: listens, and takes the first message of every connection side by side
 * (spw_oob_channel.h). What comes out has proved that it knows the secret; until then a stranger
 * costs a descriptor and a place in a table, and an address that is not allowed not even a byte.
 * Nothing waits, and no connection waits for another. Ports of mode=rc, lib/xfer, collectives and
 * spinwire-perf accept by it.
 *
 *   accepted ─► address allowed? ─► a seat: both nonces, the first message
 *               no: closed                    its MAC is right: the caller's; late or wrong: closed
 *
 * An honest client sends its first message within a few round trips. So when all seats are taken
 * the connection that has been silent for longest makes room, of the newcomer's own host if that
 * has its share already.
 */
#ifndef SPW_OOB_DOOR_H
#define SPW_OOB_DOOR_H

#include "oob/spw_oob_addr.h"
#include "oob/spw_oob_channel.h"

#define SPW_OOB_SEAT_MAX   64u
#define SPW_OOB_FIRST_MAX  256u /* bytes of a first message */
#define SPW_OOB_LISTEN_MAX 8u   /* addresses of one door */

/* All pointers outlive the door. */
struct spw_oob_door_conf {
	const struct spw_oob_proto *proto;
	const struct spw_oob_secret *secret; /* len 0: none */
	const struct spw_oob_prefix *allow;  /* who may come in */
	uint32_t allow_cnt;                  /* 0: everybody */
	uint32_t seat_cnt;                   /* 1 .. SPW_OOB_SEAT_MAX */
	uint32_t host_max;                   /* seats of one host; 0: all */
	uint32_t first_ms;                   /* how long a first message may take */
};

/* One connection that comes out, or is refused. */
struct spw_oob_guest {
	struct sockaddr_in6 from;  /* sin6_family 0: none could be accepted */
	struct spw_oob_channel ch; /* the caller's if it came in; fd -1: it was refused */
	uint64_t until_ms;         /* when its time for a first message would have been over */
	uint32_t len;
	uint8_t first[SPW_OOB_FIRST_MAX];
};

struct spw_oob_door;

/* Purpose: a door that listens nowhere yet. Owner: the caller, until spw_oob_door_close.
 * Thread: setup. Errors: -ENOMEM, those of epoll_create1(2), with a text. */
int spw_oob_door_open(const struct spw_oob_door_conf *conf, struct spw_oob_door **door_out);
/* Purpose: listens on one more address; its port, if 0, becomes the one that the kernel chose.
 * Thread: setup. Errors: -ENOSPC there are SPW_OOB_LISTEN_MAX; those of the socket; without a text;
 * another address may be tried. */
int spw_oob_door_listen(struct spw_oob_door *door, struct sockaddr_in6 *addr);
/* Shape: NULL is fine. Thread: setup. */
void spw_oob_door_close(struct spw_oob_door *door);

/* Returns: a descriptor that can be read while spw_oob_door_turn has something to do, except for
 * deadlines. Thread: any. */
int spw_oob_door_fd(const struct spw_oob_door *door);
/* Returns: when spw_oob_door_turn has a deadline to look at; UINT64_MAX: it has none.
 * Thread: owner. */
uint64_t spw_oob_door_due_ms(const struct spw_oob_door *door);

/* Purpose: takes what has arrived, up to the first connection that comes out or is refused. Called
 *   until it returns -EAGAIN, when the descriptor can be read, and at spw_oob_door_due_ms.
 * Thread: owner, one.
 * Returns: 0: *guest_out has come in; -EAGAIN: nobody. Others, without a text, refuse
 *   guest_out->from, and its connection is closed: -EPERM its address is not allowed; -EBUSY it was
 *   silent while others came; -ETIMEDOUT; -EACCES another secret; -EPROTO, -EMSGSIZE another
 *   protocol, -EPROTONOSUPPORT another version; -ECONNRESET it left. spw_oob_channel_reason has a
 *   text for each. With from.sin6_family 0 accept(2) failed; it is tried again after
 *   SPW_OOB_RETRY_MS. */
#define SPW_OOB_RETRY_MS 100u
int spw_oob_door_turn(struct spw_oob_door *door, uint64_t now_ms, struct spw_oob_guest *guest_out);

#endif
