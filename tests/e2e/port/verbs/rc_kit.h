/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RDMA ports of one process that talk by mode=rc: a server that echoes and clients that make
 * messages and check the echoes. The test's thread is the owner of every queue. Runs under
 * tools/with-softhca --devices 2. SPW_RC_SERVER and SPW_RC_CLIENT name the drivers ("verbs",
 * "mlx5"; verbs if not set). Every failure of set-up fails the running cmocka test.
 */
#ifndef RC_KIT_H
#define RC_KIT_H

#include "kit_port.h"

struct kit_end_conf {
	const char *keys;    /* of the spec, behind mode=rc,listen= or connect= */
	uint16_t queues;     /* 0: 1 */
	uint32_t slots;      /* per queue; 0: 256 */
	uint32_t slot_bytes; /* 0: 4096 */
};

struct kit_end {
	struct kit_port p;
	uint32_t up, down;                                        /* events */
	char text[sizeof(((struct spw_port_event *)NULL)->text)]; /* of the last PEER_DOWN */
	/* a client */
	uint64_t sent, echoed, bad;
	uint32_t window; /* messages under way at most */
	uint32_t bytes_min, bytes_max;
	const uint32_t *size; /* if set: the lengths, one after the other */
	uint32_t size_cnt;
	bool is_server, imm;
	bool lossy; /* a client whose connection breaks: echoes may be missing, of 8 bytes at least
		     */
	bool hold;  /* a server that gives nothing back */
	bool sink;  /* a server that echoes nothing */
	uint32_t held[4096], held_cnt;
};

/* 0, or what failed, with spw_err_text: nothing is left then. */
int kit_end_open(struct kit_end *e, bool is_server, uint16_t tcp_port,
		 const struct kit_end_conf *conf);
void kit_server(struct kit_end *e, uint16_t tcp_port, const struct kit_end_conf *conf);
void kit_client(struct kit_end *e, uint16_t tcp_port, const struct kit_end_conf *conf);
/* What a server held goes back. */
void kit_let_go(struct kit_end *e);
/* Purpose: stops and closes; every slot has been returned, and what tx_burst took was sent or
 * flushed.
 */
void kit_close(struct kit_end *e);

/* One turn of every end: clients send as far as their window goes if send is set. */
void kit_turn(struct kit_end *const *end, uint32_t cnt, bool send);
/* The half of a turn in which nothing is received. */
void kit_end_events(struct kit_end *e, uint16_t queue);
/* Turns until the condition holds, or fails after KIT_WAIT_S. */
typedef bool kit_done(struct kit_end *const *end, uint32_t cnt, const void *arg);
void kit_until(struct kit_end *const *end, uint32_t cnt, bool send, kit_done *done, const void *arg,
	       const char *what);
/* Every client has n more echoes, all of them right. */
void kit_pump(struct kit_end *const *end, uint32_t cnt, uint64_t n);
/* Turns until every client got all its echoes. */
void kit_settle(struct kit_end *const *end, uint32_t cnt);

void kit_stat(struct kit_end *e, struct spw_port_stat *stat_out);

#endif
