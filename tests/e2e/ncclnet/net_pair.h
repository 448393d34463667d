/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Both ends of a connection in one process: `a` sends to `b`. Versions without contexts have one
 * endpoint, to which both ends belong.
 */
#ifndef SPW_NET_PAIR_H
#define SPW_NET_PAIR_H

#include <time.h>

#include "../../unit/unit_test.h"
#include "net_kit.h"

#define PAIR_WAIT_MS   20000u
#define PAIR_BUF_BYTES (8u << 20)
#define PAIR_PAGE      4096u

struct pair {
	struct net a, b;
	void *listen, *send, *recv;
	uint8_t *out, *in; /* PAIR_BUF_BYTES each; registered */
	void *mr_out, *mr_in;
	uint8_t handle[NCCL_HANDLE_BYTES];
};

/* argv: the version, the rails of a, the rails of b. */
bool pair_args(int argc, char **argv);
int pair_version(void);
const char *pair_rails_a(void);

uint64_t pair_now_ms(void);
void pair_fill(uint8_t *at, size_t bytes, uint64_t seed);
void pair_expect(const uint8_t *at, size_t bytes, uint64_t seed);

/* Loads the table and opens a context on these rails. */
void pair_init(struct net *net, const char *rails);
/* `to` listens, `from` connects; both turn until both have it. */
void pair_join(struct pair *p, struct net *from, struct net *to);
/* Contexts, a connection from a to b, and buffers: `out` is filled with seed 1. */
void pair_open(struct pair *p);
void pair_close(struct pair *p);
/* The same around a test, whose first state is the pair. */
int pair_set_up(void **state);
int pair_tear_down(void **state);

/* At an offset of the buffers; never put off. */
void *pair_send(struct pair *p, uint64_t at, size_t bytes, int tag);
void *pair_recv(struct pair *p, uint64_t at, size_t bytes, int tag);
/* Tests each once; those that are done become NULL. Returns: how many are left. */
int pair_turn(struct pair *p, void **req, int n, int *bytes);
/* Until none is left. */
void pair_finish(struct pair *p, void **req, int n, int *bytes);
/* One message from `out` to `in`. */
void pair_pass(struct pair *p, size_t bytes, size_t room);

#endif
