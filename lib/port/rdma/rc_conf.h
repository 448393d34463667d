/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The keys of mode=rc, the same for every RDMA driver. Private to lib/port.
 */
#ifndef SPW_PORT_RC_CONF_H
#define SPW_PORT_RC_CONF_H

#include <netinet/in.h>

#include "port/rdma/rc_auth.h"
#include "port/spw_port.h"

#define RC_PEER_MAX  64u
#define RC_ALLOW_MAX 16u

/* For port_spec_check_keys. */
#define RC_KEYS "listen", "connect", "peers", "peer_max", "op", "secret", "credits", "srq", "mtu", "timeout", "retry", \
		"rnr_retry", "min_rnr_timer", "tclass", "exchange_ms"
#define RC_USAGE "listen=ADDR:PORT, connect=ADDR:PORT (may be repeated), peers=ADDR[/BITS] (may be repeated), peer_max=N, " \
		 "op=send|write, secret=FILE, credits=N, srq=0|1, mtu=256..4096, timeout=0..31, retry=0..7, rnr_retry=0..7, " \
		 "min_rnr_timer=0..31, tclass=0..255, exchange_ms=N"

enum rc_op { RC_OP_SEND, RC_OP_WRITE };

/* An address or a prefix, IPv4 as IPv4-mapped IPv6. */
struct rc_prefix {
	struct in6_addr addr;
	uint8_t bits;             /* 0 .. 128 */
};

struct rc_conf {
	enum rc_op op;
	bool srq;                 /* one shared receive queue per port queue; a driver that cannot refuses */
	bool listen;
	struct sockaddr_in6 listen_addr;
	uint32_t connect_cnt;     /* peers 0 .. connect_cnt-1 are those that we connect to, in this order */
	struct sockaddr_in6 connect_addr[RC_PEER_MAX];
	uint32_t peer_max;        /* entries of the table; those after connect_cnt are for peers that connect to us */
	uint32_t allow_cnt;
	struct rc_prefix allow[RC_ALLOW_MAX];
	struct rc_secret secret;
	uint32_t credits;         /* messages that one peer may have under way; 0: from the pool */
	uint32_t mtu;             /* path MTU in bytes; 0: the port's */
	uint8_t timeout;          /* local ACK timeout, 4.096 us * 2^timeout (IBTA 9.7.6.1.3); 0: none */
	uint8_t retry, rnr_retry; /* 7 of rnr_retry: without end */
	uint8_t min_rnr_timer;    /* IBTA table 45 */
	uint8_t tclass;
	uint32_t exchange_ms;     /* the whole of one exchange */
};

/* Purpose: reads the keys of mode=rc; keys that are not in RC_KEYS are the driver's. The secret is read from its file here.
 * Errors:  -EINVAL, -ERANGE, and those of rc_secret_read; the text names the key. Thread: setup. */
int rc_conf_parse(const struct spw_port_spec *spec, struct rc_conf *conf_out);

/* Purpose: "10.0.0.1:7000", "[fd00::1]:7000" → address. Numbers only: no name is looked up. -EINVAL. Thread: any. */
int rc_addr_parse(const char *text, struct sockaddr_in6 *addr_out);
/* Purpose: "10.0.0.0/8", "fd00::1" → prefix. -EINVAL, also when bits beyond the prefix are set. Thread: any. */
int rc_prefix_parse(const char *text, struct rc_prefix *prefix_out);
/* Thread: any. */
bool rc_allowed(const struct rc_conf *conf, const struct in6_addr *addr);
/* Purpose: "10.0.0.1:7000" for texts; at most 63 characters. Returns: text_out. */
const char *rc_addr_text(const struct sockaddr_in6 *addr, char text_out[64]);

#endif
