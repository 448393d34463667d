/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A group whose ranks are threads of one test, each on a device of its own of the software
 * ConnectX. Each thread has a rank's part to play; a part that fails ends the test with its line.
 */
#ifndef SPW_COLL_GROUP_H
#define SPW_COLL_GROUP_H

#include "../../unit/unit_test.h"
#include "coll/spw_coll.h"

struct group;

/* One rank, as its thread has it. */
struct member {
	struct group *g;
	struct spw_coll_conf conf;
	struct spw_coll *coll; /* NULL: it was refused */
	int opened;            /* what spw_coll_open returned */
	uint64_t seed;
	char wrong[512]; /* the first thing that was; "" none */
};

/* What a rank does; in a thread of its own, when the group is open. */
typedef void part_fn(struct member *m);
/* Changes m->conf before the group opens. */
typedef void tune_fn(struct member *m);

struct group {
	uint32_t rank_cnt;
	uint32_t timeout_ms, bytes_max;
	enum spw_coll_progress progress;
	const char *rails; /* "%u" is the rank; NULL: mlx5_%u */
	tune_fn *tune;     /* NULL: none */
	part_fn *part;
	bool refused; /* the part is played without a group, too */
	void *arg;
	struct member member[SPW_COLL_RANK_MAX];
};

/* The members' exchange, between threads; arg is the member. */
int group_exchange(void *arg, const void *mine, void *all, size_t bytes);
/* Opens the group, plays the parts, closes it; fails the test if one went wrong. */
void group_run(struct group *g);
/* The part of one rank went wrong. */
void member_wrong(struct member *m, const char *fmt, ...) SPW_PRINTF(2, 3);
#define MEMBER_EXPECT(m, cond)                                                      \
	do {                                                                        \
		if (!(cond))                                                        \
			member_wrong(m, "%s:%d: %s; %s", __FILE__, __LINE__, #cond, \
				     spw_err_text());                               \
	} while (0)

/* One call of this round with whole check of its result. */
void member_call(struct member *m, const struct spw_coll_call *call, uint64_t round);
/* Returns when all ranks have called it, after calls of which each rank then has everything. That
 * one rank has it says nothing of the others, whose rounds end with the group. */
void member_meet(struct member *m);

#endif
