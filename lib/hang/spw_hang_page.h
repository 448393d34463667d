/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The live page: what a process that uses NCCL through spinwire does now, for whoever asks why it
 * hangs. NCCL's plugin (lib/ncclnet) writes it, lib/hang reads it.
 *
 *   rank      memfd, of fixed size, mapped; the descriptor stays open ─► the kernel frees both when
 *             the process ends, however it ends
 *   reader    /proc/PID/fd/N is a link to SPW_HANG_PAGE_LINK ─► open, read-only ─► fstat and
 *             F_GET_SEALS: SPW_HANG_PAGE_SEALS, SPW_HANG_PAGE_BYTES ─► mmap
 *
 * Only the rank's user and root can open it. A child that was forked inherits the descriptor, not
 * the page: it is a page of this process only if its pid is one of the NSpid of /proc/PID/status.
 * pid and thread ids are those of the rank's PID namespace. Moments are ticks of this machine's
 * counter (spw_tsc_now); 0: never. The page has no pointers, keys, nonces or payload.
 *
 *   page      written once, before magic; and four counters
 *   comm[]    a communicator: rank, what was enqueued last    written by NCCL's profiler calls
 *   conn[]    a connection, or one that is being made         written by NCCL's network calls
 *
 * An entry has one writer at a time. Its first 64 bytes are words of their own, each stored alone
 * and in no order. All behind them changes as a whole, under `mark`: odd while it is written. A
 * connection's view is taken every SPW_HANG_VIEW_US at most, in one of NCCL's calls: `begun` and
 * `ended` are exact, and show what the view has missed.
 *
 * A reader trusts nothing: texts may have no end, counts may be out of range. All sizes and offsets
 * are part of SPW_HANG_PAGE_VERSION.
 */
#ifndef SPW_HANG_PAGE_H
#define SPW_HANG_PAGE_H

#include <fcntl.h>

#include "base/spw_order.h"
#include "base/spw_types.h"

#define SPW_HANG_PAGE_NAME    "spinwire-live" /* of memfd_create */
#define SPW_HANG_PAGE_LINK    "/memfd:" SPW_HANG_PAGE_NAME " (deleted)"
#define SPW_HANG_PAGE_MAGIC   0x6576696c777073ull /* "spwlive" */
#define SPW_HANG_PAGE_VERSION 1u
#define SPW_HANG_PAGE_SEALS   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SPW_HANG_COMM_MAX     32u
#define SPW_HANG_CONN_MAX     512u
#define SPW_HANG_RAIL_MAX     4u     /* of a connection */
#define SPW_HANG_VIEW_US      10000u /* between two views of a connection that is called */
#define SPW_HANG_TRIES        100u   /* of spw_hang_entry_read */

/* ---- connections ---- */

enum spw_hang_conn_state {
	SPW_HANG_CONN_FREE,       /* the entry means nothing */
	SPW_HANG_CONN_LISTENING,  /* NCCL waits for the peer: accept has returned nothing yet */
	SPW_HANG_CONN_CONNECTING, /* NCCL waits for the peer: connect has returned nothing yet */
	SPW_HANG_CONN_READY,
	SPW_HANG_CONN_FAILED, /* view.error says why */
};

enum spw_hang_rail_state {
	SPW_HANG_RAIL_UNUSED,
	SPW_HANG_RAIL_TRYING, /* being made, or waiting for the next attempt */
	SPW_HANG_RAIL_UP,
};

struct spw_hang_rail {
	uint32_t state;         /* enum spw_hang_rail_state */
	uint32_t qpn;           /* of this side; 0: it has none now */
	uint32_t mbps;          /* of the port; 0: unknown */
	uint32_t reserved;      /* 0 */
	uint64_t open_bytes;    /* handed to the NIC, not acknowledged */
	uint64_t acked_bytes;   /* since start */
	uint64_t resent_chunks; /* that it left to other rails when it failed */
	uint64_t outages;       /* times it failed */
	uint64_t down_tsc;      /* since when it is down; 0: it is up, or never was */
	char device[24];        /* "rocep1s0f0"; cut if longer */
	char why[48];           /* why it is not up, or failed last; "": never */
};
SPW_ASSERT_SIZE(struct spw_hang_rail, 128);
SPW_ASSERT_OFFSET(struct spw_hang_rail, open_bytes, 16);
SPW_ASSERT_OFFSET(struct spw_hang_rail, device, 56);

/* Requests are counted from isend or irecv until NCCL's test has reported their end. */
struct spw_hang_conn_view {
	uint32_t state;   /* enum spw_hang_conn_state */
	uint32_t is_send; /* 0: this side receives */
	uint32_t tid;     /* of the thread that transfers; until it is made, of the one that waits;
			   * 0: it has not begun to transfer */
	int32_t error;    /* 0, or -errno since when every call fails */
	uint64_t comm_hash; /* of its communicator, alike on all ranks; 0: NCCL before 2.28 */
	uint64_t pair;      /* alike at both ends of a connection, and nowhere else; 0: not known */
	uint64_t state_tsc; /* since when it is in that state */
	uint64_t taken_tsc; /* when this view was taken */
	uint64_t taken_calls, taken_begun, taken_ended; /* the words of the entry at that time */
	uint64_t oldest_tsc; /* when the oldest request that is under way began; 0: none is */
	uint64_t moved_tsc;  /* the last view that found something changed since the one before:
			      * bytes acknowledged, a stage reached, a request begun or ended */
	/* sends under way, by stage */
	uint32_t waiting; /* the peer has not granted a buffer: it has not begun its receive */
	uint32_t granted; /* not all bytes are with the NICs */
	uint32_t posted;  /* not acknowledged by the peer's NIC */
	uint32_t acked;   /* done; NCCL has not asked yet */
	/* receives under way */
	uint32_t receiving; /* granted to the peer: not all bytes have arrived */
	uint32_t received;  /* done; NCCL has not asked yet */
	uint32_t flushing;  /* reads that push bytes to a GPU */
	uint32_t rail_cnt;  /* 0 .. SPW_HANG_RAIL_MAX */
	char peer[72];      /* "192.0.2.2:7000", then why it failed; while it listens, where */
};
SPW_ASSERT_SIZE(struct spw_hang_conn_view, 192);
SPW_ASSERT_OFFSET(struct spw_hang_conn_view, taken_tsc, 40);
SPW_ASSERT_OFFSET(struct spw_hang_conn_view, waiting, 88);
SPW_ASSERT_OFFSET(struct spw_hang_conn_view, peer, 120);

struct spw_hang_conn {
	uint64_t mark;
	uint64_t calls;      /* of test, stored once in 64: NCCL polls it; until it is made, all of
			      * connect or accept */
	uint64_t begun;      /* requests */
	uint64_t ended;      /* requests; begun - ended are under way */
	uint64_t ended_tsc;  /* when the last request that ended was complete */
	uint64_t called_tsc; /* when `calls` was stored last */
	uint64_t reserved[2];
	struct spw_hang_conn_view view;
	struct spw_hang_rail rail[SPW_HANG_RAIL_MAX];
} SPW_ALIGNED(128);
SPW_ASSERT_SIZE(struct spw_hang_conn, 768);
SPW_ASSERT_OFFSET(struct spw_hang_conn, view, 64);
SPW_ASSERT_OFFSET(struct spw_hang_conn, rail, 256);

/* Purpose: whether the view's stages and oldest_tsc are of now: no request has begun or ended since
 *   it was taken. Else only their number is known, begun - ended; with 0 of them all stages are 0.
 * Shape: a copy, by spw_hang_entry_read. Thread: any. */
SPW_INLINE bool spw_hang_conn_is_fresh(const struct spw_hang_conn *conn)
{
	return conn->begun == conn->view.taken_begun && conn->ended == conn->view.taken_ended;
}

/* ---- communicators ---- */

/* An operation that NCCL has enqueued. Words are NCCL's own: "AllReduce", "ncclFloat32", "RING",
 * "SIMPLE". */
struct spw_hang_op {
	uint64_t sequence; /* of its function, from 0, alike on all ranks; a p2p has none: 0 */
	uint64_t count;    /* elements */
	uint64_t begun_tsc;
	int32_t root; /* a p2p's peer; -1: not known */
	uint32_t reserved;
	char function[24];
	char datatype[16];
	char algorithm[16];
	char protocol[8];
};
SPW_ASSERT_SIZE(struct spw_hang_op, 96);
SPW_ASSERT_OFFSET(struct spw_hang_op, function, 32);

struct spw_hang_comm {
	uint64_t mark;
	uint64_t colls, p2ps; /* enqueued so far; of a captured graph once, not at each launch */
	uint64_t sends_begun, sends_ended; /* operations of NCCL's proxy thread */
	uint64_t recvs_begun, recvs_ended;
	uint64_t reserved;
	uint32_t used;                /* 0: the entry means nothing */
	uint32_t api;                 /* of the profiler's table: 2, 3, 4, or 5 for 5 and 6 */
	int32_t rank;                 /* -1: not known (API 2 and 3, before its first operation) */
	int32_t rank_cnt;             /* -1: not known (API 2 and 3) */
	int32_t node_cnt;             /* -1: not known (API 2 and 3) */
	uint32_t pad;                 /* 0 */
	uint64_t comm_hash;           /* of API 2 and 3: 0 until its first operation */
	uint64_t opened_tsc;          /* when NCCL made it */
	char name[88];                /* that the program gave it; "" none */
	struct spw_hang_op coll, p2p; /* the last ones */
} SPW_ALIGNED(128);
SPW_ASSERT_SIZE(struct spw_hang_comm, 384);
SPW_ASSERT_OFFSET(struct spw_hang_comm, used, 64);
SPW_ASSERT_OFFSET(struct spw_hang_comm, coll, 192);

/* ---- the page ---- */

struct spw_hang_page {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* SPW_HANG_PAGE_BYTES */
	uint32_t pid;
	uint32_t reserved;
	uint64_t tsc_hz; /* ticks a second */
	uint64_t start_tsc;
	char release[24]; /* of spinwire */
	/* since start; each stored alone */
	uint64_t nets_opened, nets_closed; /* endpoints, one a communicator; before NCCL 2.28 one */
	uint64_t conns_left_out, comms_left_out; /* that found no free entry: not on this page */
	uint64_t pad[4];
	struct spw_hang_comm comm[SPW_HANG_COMM_MAX];
	struct spw_hang_conn conn[SPW_HANG_CONN_MAX];
};
#define SPW_HANG_PAGE_BYTES ((uint32_t)sizeof(struct spw_hang_page))
SPW_ASSERT_OFFSET(struct spw_hang_page, nets_opened, 64);
SPW_ASSERT_OFFSET(struct spw_hang_page, comm, 128);
SPW_ASSERT_OFFSET(struct spw_hang_page, conn, 128 + 32 * 384);
SPW_ASSERT_SIZE(struct spw_hang_page, 128 + 32 * 384 + 512 * 768);

/* Purpose: the page is whole; the last thing that is written of it.
 * Order: [LP1 release; spw_hang_page_is_open acquires]. Thread: setup. */
SPW_INLINE void spw_hang_page_open(struct spw_hang_page *page)
{
	spw_thr_store_rel(&page->magic, SPW_HANG_PAGE_MAGIC);
}

/* Purpose: whether it is a page of this version, and whole.
 * Shape: SPW_HANG_PAGE_BYTES are mapped.
 * Order: [LP1 acquire, after spw_hang_page_open]. Thread: any. */
SPW_INLINE bool spw_hang_page_is_open(const struct spw_hang_page *page)
{
	return spw_thr_load_acq(&page->magic) == SPW_HANG_PAGE_MAGIC &&
	       page->version == SPW_HANG_PAGE_VERSION && page->bytes == SPW_HANG_PAGE_BYTES;
}

/* Purpose: changes what an entry's mark guards: [word, word + cnt) become those of src.
 * Shape: mark: the entry's, even.
 * Order: [LP2 release fence behind the odd mark, which whoever reads a new word finds in its second
 *   reading; LP3 release of the even one, behind all words; spw_hang_entry_read acquires both].
 * Thread: owner (the entry's writer). */
SPW_INLINE void spw_hang_entry_write(uint64_t *mark, void *dst, const void *src, size_t bytes)
{
	const uint64_t odd = *mark + 1;
	uint64_t *to = (uint64_t *)dst;

	spw_thr_store_rlx(mark, odd);
	spw_thr_release_fence(); /* [LP2] */
	for (size_t i = 0; i < bytes / sizeof(*to); i++) {
		uint64_t word;

		__builtin_memcpy(&word, (const char *)src + i * sizeof(word), sizeof(word));
		spw_thr_store_rlx(&to[i], word);
	}
	spw_thr_store_rel(mark, odd + 1); /* [LP3] */
}

/* Purpose: copies an entry, its mark first.
 * Shape: bytes: its size, a multiple of 8.
 * Returns: false: it changed in each of SPW_HANG_TRIES tries, or its writer ended within a change.
 * Order: [LP3 acquire of the mark; LP2 acquire of each word, so that the second reading of the mark
 *   comes after; spw_hang_entry_write releases both].
 * Thread: any. */
SPW_INLINE bool spw_hang_entry_read(const void *entry, void *copy_out, size_t bytes)
{
	const uint64_t *from = (const uint64_t *)entry;

	for (uint32_t tries = 0; tries < SPW_HANG_TRIES; tries++) {
		const uint64_t mark = spw_thr_load_acq(from); /* [LP3] */

		for (size_t i = 0; i < bytes / sizeof(*from); i++) {
			const uint64_t word = spw_thr_load_acq(&from[i]); /* [LP2] */

			__builtin_memcpy((char *)copy_out + i * sizeof(word), &word, sizeof(word));
		}
		if (!(mark & 1) && spw_thr_load_rlx(from) == mark)
			return true;
		spw_cpu_relax();
	}
	return false;
}

#endif
