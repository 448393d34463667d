/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Ports: where frames come from and go to. One interface for DPDK ethdevs, mlx5 by direct verbs, any RDMA device by
 * ibv_poll_cq, and synthetic sources; pipe, executors and recorder see nothing else.
 *
 * The life of a slot. A port queue owns the slots of its pool. rx_burst LENDS slots: the caller may read (and an echo
 * handler write) the bytes, and owes each of them back exactly once, in any order, either by release_burst or by a
 * tx_burst that accepted it. What tx_burst accepted comes home by itself when the device has sent it. Slots come back
 * in any order, so drivers keep slot_of[pos & mask] beside their rings.
 *
 *            pool ──get──► posted to the NIC ──rx_burst──► lent ──release_burst──► pool
 *            pool ──lend_burst (a source fills it)──► lent     └──tx_burst──► in TX ──sent──► pool
 *
 * A slot may hold 64 bytes or 64 MiB; nothing assumes a size class. A frame that needs several segments is dropped by
 * the driver and counted too_long. A striding buffer is one WQE of many slots (its strides); the driver reposts it
 * when the last of them has come back.
 *
 * Threads. "setup": the main thread before start and after stop. "owner": the one lcore that runs this queue.
 */
#ifndef SPW_PORT_H
#define SPW_PORT_H

#include "base/spw_desc.h"
#include "base/spw_types.h"
#include "mem/spw_mem.h"
#include "pool/spw_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PORT_MAX       8
#define SPW_PORT_QUEUE_MAX 64
#define SPW_PORT_ARG_MAX   32
#define SPW_BURST_MAX      64 /* the most frames of one burst, and of one executor batch */

/* ---- specification: read before rte_eal_init ---------------------------------------------------- */

/* "DRIVER:DEVICE[,key=value]...": "ethdev:net_memif0,role=server,socket=/run/x.sock", "ethdev:0000:01:00.0",
 * "mlx5:mlx5_0,mode=eth", "null:size=64". Keys that spinwire itself takes are named by the driver; ethdev hands
 * the rest to the PMD as devargs. */
struct spw_port_spec {
	char text[512];                 /* as given */
	char driver[16];
	char device[128];
	struct { uint16_t key, value; } arg[SPW_PORT_ARG_MAX]; /* where they start in store: a spec may be copied */
	uint32_t arg_cnt;
	char store[512];
};

/* Shape:   text up to 511 printable characters. "DRIVER:key=value" has no device; a key may come twice (net_pcap takes
 *          one rx_pcap per queue).
 * Errors:  -EINVAL with the text, the position and the known drivers. Thread: any; touches nothing but spec_out. */
int spw_port_spec_parse(const char *text, struct spw_port_spec *spec_out);

SPW_INLINE const char *spw_port_spec_key(const struct spw_port_spec *spec, uint32_t arg_idx)
{
	return spec->store + spec->arg[arg_idx].key;
}

SPW_INLINE const char *spw_port_spec_value(const struct spw_port_spec *spec, uint32_t arg_idx)
{
	return spec->store + spec->arg[arg_idx].value;
}

/* Returns: the value of the last such key, NULL if there is none. */
const char *spw_port_spec_find(const struct spw_port_spec *spec, const char *key);

/* What EAL must be told on behalf of this port, before it starts. */
struct spw_port_eal_need {
	bool pci;               /* the PCI bus has to be scanned */
	char allow[512];        /* argument of "-a": address and the PMD's own keys; "" if none */
};
/* Errors: -EINVAL. Thread: any, before rte_eal_init. */
int spw_port_eal_need(const struct spw_port_spec *spec, struct spw_port_eal_need *need_out);

/* ---- counters ---------------------------------------------------------------------------------- */

/* Frames that reached the driver but were never lent; each has gone back to the pool. name, meaning */
#define SPW_PORT_DROP_LIST(X)                                                                                          \
	X(too_long, "frame in several segments, or longer than a slot")                                                \
	X(no_slot, "no free slot to copy a frame into that came in somebody else's buffer (net_ring)")                  \
	X(rx_error, "device delivered the frame marked as damaged")                                                    \
	X(rx_flushed, "receive torn down with frames in it, or an error completion without data")

enum spw_port_drop {
#define X(name, text) SPW_PORT_DROP_##name,
	SPW_PORT_DROP_LIST(X)
#undef X
	SPW_PORT_DROP_CNT
};

/* Errors of the device that are not frames. */
#define SPW_PORT_ERR_LIST(X)                                                                                           \
	X(no_slot, "the pool was empty when the driver wanted to refill")                                              \
	X(cqe_error, "error completions")                                                                              \
	X(queue_reset, "queues or QPs taken through reset to ready")                                                   \
	X(link_down, "times the link went down")                                                                       \
	X(peer_gone, "RDMA peers lost")                                                                                \
	X(protocol, "peers or frames that broke the protocol")                                                         \
	X(refused, "RDMA connections that were refused, or failed before they were up")                                \
	X(no_credit, "messages not sent: the peer was down, or had granted no room for them")

enum spw_port_err {
#define X(name, text) SPW_PORT_ERR_##name,
	SPW_PORT_ERR_LIST(X)
#undef X
	SPW_PORT_ERR_CNT
};

/* Totals since start. Kept by the device or the driver, never derived from what the pipe counted. */
struct spw_port_stat {
	uint64_t wire_frames;     /* frames that arrived, lost ones included, as far as the device can tell */
	uint64_t missed_frames;   /* arrived and lost before the driver saw them */
	bool missed_known;        /* false: the device does not tell, missed is printed as unknown */
	uint64_t rx_frames, rx_bytes;   /* lent by rx_burst */
	uint64_t tx_frames, tx_bytes;   /* sent, by the device's count where it has one */
	uint64_t tx_flushed;      /* taken by tx_burst, then flushed unsent when a send queue failed or the port stopped */
	uint64_t port_copies;     /* frames that the driver or PMD itself copied into the slot (memif, af_packet) */
	uint64_t dropped[SPW_PORT_DROP_CNT];
	uint64_t err[SPW_PORT_ERR_CNT];
};

/* Where a queue's slots are: rx posted or cached by the driver, lent, in TX. Sums with pool.free_cnt to slot_cnt. */
struct spw_port_slots {
	uint32_t in_rx, lent, in_tx;
};

/* ---- events ------------------------------------------------------------------------------------- */

enum spw_port_event_kind {
	SPW_PORT_EVENT_LINK_UP,
	SPW_PORT_EVENT_LINK_DOWN,
	SPW_PORT_EVENT_QUEUE_ERROR,   /* code: syndrome; the driver is recovering the queue */
	SPW_PORT_EVENT_QUEUE_BACK,    /* outage_ns: how long it was out */
	SPW_PORT_EVENT_PEER_UP,
	SPW_PORT_EVENT_PEER_DOWN,
	SPW_PORT_EVENT_DEVICE_GONE,   /* ordered stop, exit status 4 */
};

struct spw_port_event {
	enum spw_port_event_kind kind;
	uint16_t queue;
	uint32_t code;                /* syndrome, peer index; 0 if none */
	uint64_t outage_ns;
	char text[96];                /* one clause for people */
};

/* ---- the data path of one queue ------------------------------------------------------------------ */

/* Flat and read-only after start: one cache line is all that a burst reads before it is in the driver. */
struct spw_port_queue {
	/* Purpose: lends up to cnt received frames. Shape: cnt 1 .. SPW_BURST_MAX. Fills desc[0 .. returned-1]; region and
	 * port included. Never waits. Order: the bytes of every lent frame are readable on return (the driver's
	 * spw_dma_from_device or the PMD's own acquire). Thread: owner. */
	uint16_t (*rx_burst)(void *q, struct spw_desc *desc, uint16_t cnt);
	/* Purpose: takes lent slots back. Shape: cnt 0 .. SPW_BURST_MAX, any order. Always takes all. Thread: owner. */
	void (*release_burst)(void *q, const uint32_t *slot, uint16_t cnt);
	/* Purpose: sends lent slots; [desc->offset, desc->offset + desc->len) goes out. To one peer in order.
	 * Returns: how many were taken, 0 .. cnt: on return these are desc[0 .. n-1] and the rest, desc[n ..], stay lent. A
	 * driver whose peers fill up one by one moves pointers so; the others leave the array as it was.
	 * Order: the driver issues the to-device barrier after its descriptors and before its doorbell; what a GPU wrote must
	 * have been acquired by the caller first (docs/040-ordering, echo chain). Thread: owner. */
	uint16_t (*tx_burst)(void *q, struct spw_desc **desc, uint16_t cnt);
	/* Purpose: everything that is not a burst: TX completions, error recovery, link. Call it in housekeeping and
	 * when idle; it is bounded. Returns: events written, 0 .. cnt. Thread: owner. */
	uint16_t (*events)(void *q, struct spw_port_event *event, uint16_t cnt);
	/* Purpose: lends up to cnt EMPTY slots, for a source that fills and sends them: bytes from caps.slot_headroom on are
	 * the caller's, to be named by its own desc. Owed back like any lent slot. Returns: 0 .. cnt. Thread: owner. */
	uint16_t (*lend_burst)(void *q, uint32_t *slot, uint16_t cnt);
	void *q;
	/* The queue's counter of "the pool was empty when I wanted to refill", written by the owner; NULL: cannot tell. */
	const uint64_t *no_slot;
	uint64_t reserved;
} SPW_ALIGNED(SPW_CACHE_LINE);
SPW_ASSERT_SIZE(struct spw_port_queue, 64);

/* ---- control ------------------------------------------------------------------------------------- */

struct spw_port_caps {
	uint16_t queue_max;        /* RX queues that can be spread by RSS or peers */
	uint32_t slot_headroom;    /* bytes the driver keeps free in front of a frame in each slot */
	uint32_t slot_align;       /* slots start on multiples of this, a power of 2 >= 64 */
	uint32_t slot_bytes_min;   /* smallest slot for the largest frame it may deliver, headroom included */
	uint32_t slot_cnt_min;     /* per queue: below this the device starves itself */
	uint64_t nic_clock_hz;     /* 0: no hardware stamps */
	bool can_tx;
	bool gpu_memory;           /* no byte of a frame passes through the CPU: regions of SPW_MEM_GPU are welcome */
	bool messages;             /* carries RDMA messages (SPW_DESC_MSG), to and from peers; else Ethernet frames */
	int numa_node;             /* -1 unknown */
};

struct spw_port_queue_conf {
	struct spw_pool *pool;     /* the queue's own; outlives the port */
	uint32_t ring_size;        /* RX and TX entries, a power of 2; 0: the driver's choice */
	int numa_node;             /* of the lcore that will run it */
	const char *profile;       /* "latency" or "throughput"; drivers without profiles take both as they are */
};

struct spw_port;

struct spw_port_driver {
	const char *name;
	const char *usage;         /* keys it takes, for messages */
	int (*eal_need)(const struct spw_port_spec *spec, struct spw_port_eal_need *need_out); /* NULL: none */
	int (*open)(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt, struct spw_port **port_out);
	int (*region_attach)(struct spw_port *port, const struct spw_region *region); /* NULL: nothing to do */
	int (*queue_setup)(struct spw_port *port, uint16_t queue, const struct spw_port_queue_conf *conf);
	int (*start)(struct spw_port *port);
	int (*stop)(struct spw_port *port);
	void (*stat)(struct spw_port *port, struct spw_port_stat *stat_out);
	void (*slots)(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots_out);
	int (*pair_clock)(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out, uint64_t *uncertainty_ns_out);
	void (*close)(struct spw_port *port);
};

/* Embedded first in each driver's own struct (spw_container_of goes back). */
struct spw_port {
	const struct spw_port_driver *driver;
	char name[64];             /* for tables: "memif0", "mlx5_0" */
	uint16_t index;            /* 0 .. SPW_PORT_MAX-1, travels in descriptors */
	uint16_t queue_cnt;
	struct spw_port_caps caps;
	struct spw_port_queue queue[SPW_PORT_QUEUE_MAX]; /* valid after queue_setup */
};

/* The order of calls is open → region_attach* → queue_setup (each queue) → start → [bursts] → stop → close.
 * All: thread setup; 0 or -errno with a text. */

/* Purpose: opens the device and fills caps. queue_cnt 1 .. caps.queue_max (checked: -ERANGE says how many it can). */
int spw_port_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt, struct spw_port **port_out);
/* Purpose: makes a region known to the device (memory registration, DMA map). Before queue_setup of its pools. */
int spw_port_region_attach(struct spw_port *port, const struct spw_region *region);
int spw_port_queue_setup(struct spw_port *port, uint16_t queue, const struct spw_port_queue_conf *conf);
int spw_port_start(struct spw_port *port);
/* Purpose: stops and brings every slot that is not lent home to its pool, those in TX included. After it no burst runs. */
int spw_port_stop(struct spw_port *port);
/* Thread: any, between open and close; a snapshot. */
void spw_port_stat(struct spw_port *port, struct spw_port_stat *stat_out);
/* Thread: owner, or setup after stop. */
void spw_port_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots_out);
/* Purpose: one reading of the port's clock beside the CPU's. -ENOTSUP without hardware stamps. Thread: any. */
int spw_port_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out);
/* NULL is fine. */
void spw_port_close(struct spw_port *port);

/* Names and one-line meanings of the counters above, for tables and JSON. Thread: any. */
const char *spw_port_drop_name(enum spw_port_drop drop);
const char *spw_port_err_name(enum spw_port_err err);
/* "ethdev, null, ..." for messages. */
const char *spw_port_driver_names(void);

/* ---- call-through of the four hot calls ---------------------------------------------------------- */

SPW_INLINE uint16_t spw_port_rx_burst(struct spw_port_queue *pq, struct spw_desc *desc, uint16_t cnt)
{
	return pq->rx_burst(pq->q, desc, cnt);
}

SPW_INLINE void spw_port_release_burst(struct spw_port_queue *pq, const uint32_t *slot, uint16_t cnt)
{
	pq->release_burst(pq->q, slot, cnt);
}

SPW_INLINE uint16_t spw_port_tx_burst(struct spw_port_queue *pq, struct spw_desc **desc, uint16_t cnt)
{
	return pq->tx_burst(pq->q, desc, cnt);
}

SPW_INLINE uint16_t spw_port_lend_burst(struct spw_port_queue *pq, uint32_t *slot, uint16_t cnt)
{
	return pq->lend_burst(pq->q, slot, cnt);
}

SPW_INLINE uint16_t spw_port_events(struct spw_port_queue *pq, struct spw_port_event *event, uint16_t cnt)
{
	return pq->events(pq->q, event, cnt);
}

#ifdef __cplusplus
}
#endif
#endif
