/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The keys of mode=rc in a port's text, the same in every RDMA driver, and who may connect.
 * The driver parses once at open (conf.c); the control thread asks the rest for each connection
 * (allow.c).
 */
#ifndef SPW_PEER_CONF_H
#define SPW_PEER_CONF_H

#include "oob/spw_oob_addr.h"
#include "oob/spw_oob_auth.h"
#include "frame/spw_port_spec.h"

/* Limits of one port. A table of fixed size: who connects can make nothing grow. */
#define SPW_PEER_MAX       64u /* entries of the table of one port */
#define SPW_PEER_ALLOW_MAX 16u /* prefixes in peers=, and in gids= */

/* The keys of mode=rc, for spw_port_spec_check_keys. */
extern const struct spw_port_keys spw_peer_keys;

/* How a message travels (peer/spw_peer.h has the protocol). Both sides use the same; the exchange
 * refuses another. */
enum spw_peer_op {
	SPW_PEER_OP_SEND,  /* SEND into the receiver's next receive */
	SPW_PEER_OP_WRITE, /* WRITE_WITH_IMM into a slot that the receiver granted */
};

/* All keys, parsed and checked. Owner: the driver; it holds a secret, see spw_oob_secret_wipe.
 * Read-only until close, so any thread may read it. */
struct spw_peer_conf {
	enum spw_peer_op op;
	bool srq;    /* one shared receive queue per port queue; a driver without it refuses */
	bool listen; /* listen= was given: peers may connect to us */
	struct sockaddr_in6 listen_addr;
	uint32_t connect_cnt; /* peers 0 .. connect_cnt - 1 are those that we connect to */
	struct sockaddr_in6 connect_addr[SPW_PEER_MAX];
	uint32_t peer_max; /* entries of the table, 1 .. SPW_PEER_MAX; those from connect_cnt on are
			    * for peers that connect to us */
	uint32_t allow_cnt; /* peers=: addresses that may connect */
	struct spw_oob_prefix allow[SPW_PEER_ALLOW_MAX];
	uint32_t gid_cnt; /* gids=: GIDs that they may offer; 0: as peers=, and any GID over
			   * loopback */
	struct spw_oob_prefix gid[SPW_PEER_ALLOW_MAX];
	uint32_t host_max; /* entries that one host may have; 0: spw_peer_host_max chooses */
	struct spw_oob_secret secret;
	uint32_t credits;  /* messages that one peer may have under way; 0: from the pool's size */
	uint32_t mtu;      /* path MTU in bytes, 256 .. 4096; 0: the port's */
	uint8_t timeout;   /* local ACK timeout of 4.096 us * 2^timeout, 0 .. 31 (IBTA 9.7.6.1.3);
			    * 0: none */
	uint8_t retry;     /* 0 .. 7 */
	uint8_t rnr_retry; /* 0 .. 7; 7: without limit */
	uint8_t min_rnr_timer; /* 0 .. 31, code of IBTA table 45 */
	uint8_t tclass;        /* traffic class of the RoCE packets */
	uint32_t exchange_ms;  /* limit of one whole exchange, 10 .. 60000 */
};

/* Purpose: parses the keys of mode=rc and reads the secret from its file. Keys outside
 * spw_peer_keys are the driver's. Keys that could have no effect are refused, too.
 * Thread: setup.
 * Errors: -EINVAL, -ERANGE with the key; those of spw_oob_secret_read. */
int spw_peer_conf_parse(const struct spw_port_spec *spec, struct spw_peer_conf *conf_out);

/* Purpose: the same without the secret, for what is refused before anything starts.
 * Thread: any.
 * Errors: -EINVAL, -ERANGE with the key. */
int spw_peer_conf_check(const struct spw_port_spec *spec);

/* Returns: true if this address may connect, by the prefixes of peers=. A secret, if there is one,
 * must be proved besides.
 * Thread: any. */
bool spw_peer_allowed(const struct spw_peer_conf *conf, const struct in6_addr *addr);

/* Returns: true if a peer that connects from this address may offer a QP with this GID. Without
 * gids= the GID must be in peers=, except for connections over loopback. Thread: any. */
bool spw_peer_gid_allowed(const struct spw_peer_conf *conf, const struct in6_addr *from,
			  const uint8_t gid[16]);

/* Returns: entries of the table that one host may have: host_max= if given; all, if a secret or a
 * single address in peers= says who it is; else half of them. Thread: any. */
uint32_t spw_peer_host_max(const struct spw_peer_conf *conf);

#endif
