/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Faults on request, as a list of words separated by commas (config fault=, or "fault=" on the
 * control socket). P in [0,1]; TIME with ns, us, ms or s.
 *
 *   loss=P dup=P reorder=P corrupt=P delay=P:TIME
 *                        frames that leave, each decided by its number and the seed alone, so that
 *                        the same traffic meets the same faults
 *   discard=P            frames that arrive, dropped as if the bus were congested
 *                        (rx_discards_phy)
 *   ecn=P                RoCE frames that leave, marked "congestion met" (ECN)
 *   link-speed=GBPS      what the port negotiated, less than it could; until link-speed=none
 *   port-rate=GBPS       what the port carries, whatever it reports; until port-rate=none
 *   flap=DOWN:UP         a bad cable: the link is up for UP, then down for DOWN, and so on, until
 *                        flap=none; both times are 50 ms at least
 *   wq-fatal=late:TIME | early:TIME | none | plain
 *                        a receive WQ that fails: its event comes after its CQEs, before them, or
 *                        never (late.c)
 *   flush=none|plain     QPs and WQs that fail complete nothing of what is posted to them
 *   at=TIME:COMMAND      a command of the control socket (control.c), at a time after attach:
 *                        at=2s:link-down=100ms
 *   fail=COMMAND:ERRNO   commands of the application fail until fail=none; COMMAND is open, or a
 *                        uverbs command as <rdma/ib_user_verbs.h> names it: fail=create_flow:EPERM
 *   fail=devx-OPCODE:STATUS   a firmware command (DEVX) ends with that status; hexadecimal
 *   seed=N               for the decisions above
 *   log=FILE             one line per frame that a fault hit
 *   icrc                 compute every ICRC
 *
 * fault_tx_reserve() and _commit() stand in for the cable's while `on` is set. The model calls all
 * of this through inject.h.
 *
 * Thread: all calls with the device lock held, or before attach.
 */
#ifndef SPW_SOFTHCA_INJECT_FAULT_H
#define SPW_SOFTHCA_INJECT_FAULT_H

#include "base/spw_enum.h"
#include "softhca/cable/cable.h"

struct hca_wq;

#define FAULT_QUEUED_MAX 256u
#define FAULT_AT_MAX     16u
#define FAULT_FAIL_MAX   4u
#define FAULT_LATE_MAX   16u

/* Commands of the control socket that change something: name, function in control.c, and what
 * stands behind their '=' (enum fault_arg). */
#define FAULT_COMMANDS(X)                   \
	X("link-down", link_down, TIME)     \
	X("rnr", rnr, TIME)                 \
	X("stall", stall, TIME)             \
	X("cq-overrun", cq_overrun, NUMBER) \
	X("qp-error", qp_error, NUMBER)     \
	X("mr-revoke", mr_revoke, NUMBER)   \
	X("kill", kill, NONE)               \
	X("remove", remove, NONE)           \
	X("unplug", unplug, NONE)           \
	X("hold", hold, NONE)               \
	X("release", release, MAYBE_NUMBER) \
	X("fault", fault, TEXT)             \
	X("trace", trace, TEXT)
enum fault_arg {
	FAULT_ARG_NONE,
	FAULT_ARG_TIME,
	FAULT_ARG_NUMBER,
	FAULT_ARG_MAYBE_NUMBER,
	FAULT_ARG_TEXT
};

/* What happened to a frame that leaves: counters, and the words of the log. */
#define FAULT_HIT_LIST(X, P)       \
	X(P, LOST, "lost")         \
	X(P, DUP, "duplicated")    \
	X(P, REORDER, "reordered") \
	X(P, CORRUPT, "corrupted") \
	X(P, DELAY, "delayed")     \
	X(P, DOWN, "link-is-down")
enum fault_hit { SPW_ENUM(FAULT_HIT) };

struct fault_queued { /* a delayed or reordered frame */
	uint64_t due_ns;
	uint64_t due_frame; /* reordering: the frame number that it lets pass */
	uint32_t len;
	uint8_t *data;
};

/* A completion or an event that a fault delays (late.c). */
struct fault_late {
	struct hca_wq *wq;
	uint64_t due_ns;
	uint32_t wqe_counter;
	uint8_t syndrome;
	bool cqes; /* the error CQE and the flushes; else the event */
};

enum fault_wq { FAULT_WQ_PLAIN, FAULT_WQ_LATE, FAULT_WQ_EARLY, FAULT_WQ_NONE };

struct fault {
	bool on; /* a fault may hit a frame that leaves: frames pass through here */
	bool icrc;
	uint64_t seed, frame; /* frame: number of the next one */
	double loss, dup, reorder, corrupt, delay;
	double discard; /* of arriving frames; does not set `on` */
	double ecn;     /* likewise */
	uint64_t roce_frame;
	uint32_t link_mbps, port_mbps; /* 0: not set; rate.c applies them */
	uint64_t rx_frame; /* number of the next one that arrives while discard is set */
	uint64_t delay_ns;
	bool link_down;                    /* written by fault_link_set() */
	uint64_t rx_down_cnt;              /* frames that arrived meanwhile, and were lost */
	uint64_t flap_down_ns, flap_up_ns; /* 0: the link does not flap */
	uint64_t flap_at_ns;               /* it goes down next; 0: not known yet */
	uint64_t rnr_until_ns;
	uint64_t stall_ns; /* the next round begins so much later; 0: no stall */
	enum fault_wq wq_fatal;
	uint64_t wq_fatal_ns;
	bool no_flush;
	struct {
		uint64_t ns;
		char what[64];
	} at[FAULT_AT_MAX];
	uint32_t at_cnt;
	char fail[FAULT_FAIL_MAX][48]; /* COMMAND:ERRNO */
	uint32_t fail_cnt;
	struct fault_late late[FAULT_LATE_MAX];
	uint32_t late_cnt;
	struct fault_queued queued[FAULT_QUEUED_MAX];
	uint32_t queued_cnt;
	uint64_t hit_cnt[FAULT_HIT_CNT];
	int log_fd;    /* -1: none */
	uint8_t *buf;  /* the frame being written */
	uint8_t *room; /* reserved for it on the cable */
};

/* Purpose: parses a list of the words above and adds it to what is set.
 * Errors:  -EINVAL with a text that names the word. */
int fault_set(struct fault *f, const char *text);

/* Purpose: while the link is down, frames that leave are lost, and the caller loses those that
 *          arrive. No word above ends it. */
void fault_link_set(struct fault *f, bool up);

/* Purpose: sets up f with a list of words.
 * Lifetime: until fault_fini, which is called after a failure too.
 * Errors:  -ENOMEM; those of fault_set. */
int fault_init(struct fault *f, const char *text, uint64_t seed);
void fault_fini(struct fault *f);

/* Purpose: a buffer for one frame of len bytes. Returns NULL if the cable has no room now, or none
 *          for frames of this length. */
uint8_t *fault_tx_reserve(struct fault *f, struct cable *c, const uint8_t *dmac, uint32_t dqpn,
			  uint32_t len);

/* Purpose: rolls the dice for the frame in that buffer, and sends, queues or drops it. */
void fault_tx_commit(struct fault *f, struct cable *c, const uint8_t *frame, uint32_t len,
		     uint64_t now_ns);

/* Purpose: sends the queued frames that are due, as far as the cable has room; the caller flushes
 *          it. Returns how many. */
uint32_t fault_tick(struct fault *f, struct cable *c, uint64_t now_ns);

/* Purpose: before process exit, sends the queued frames; from then on frames pass unless the link
 *          is down. Neither allocates nor frees. */
void fault_leave(struct fault *f, struct cable *c);

/* Returns: whether the next frame that arrives is discarded. */
bool fault_discards(struct fault *f);

/* Returns: whether the next RoCE frame that leaves is marked. */
bool fault_marks(struct fault *f);

/* Returns: the errno that `command` has to fail with, 0 if none. */
int fault_fail(const struct fault *f, const char *command);
/* Returns: the firmware status that a DEVX command has to end with, 0 if none. */
int fault_fail_devx(const struct fault *f, uint32_t opcode);

/* Purpose: parses a time, "150us". Returns ns, or -1 if it is not one.
 * Thread:  any. */
int64_t fault_time_ns(const char *text);

#endif
