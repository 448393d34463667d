/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Ports: where frames come from and go to. One interface for DPDK ethdevs, mlx5 by direct verbs,
 * any RDMA device by ibv_poll_cq, and synthetic sources. Pipe, executors and recorder know a port
 * only through this header; docs/070-adding-a-driver.md says how to write a driver.
 *
 * The path of a slot. A port queue owns the slots of its pool. rx_burst LENDS slots with frames,
 * lend_burst lends empty ones. The borrower may read and write the bytes and must release each slot
 * exactly once, either by release_burst or by a tx_burst that accepted it. Slots that tx_burst
 * accepted return to the pool by themselves, when the device has sent them.
 *
 *            pool ──get──► posted to the NIC ──rx_burst──► lent ──release_burst──► pool
 *            pool ──lend_burst (a source fills it)──► lent     └──tx_burst──► in TX ──sent──► pool
 *
 *   held by     driver         NIC                      borrower          NIC
 *   counted in  pool.free_cnt  spw_port_slots.in_rx     .lent             .in_tx
 *
 * At every moment free_cnt + in_rx + lent + in_tx = slot_cnt; a run that ends otherwise has failed.
 * Slots return in any order, so drivers keep slot_of[pos & mask] beside their rings.
 *
 * Sizes. A slot may hold 64 bytes or 64 MiB; nothing assumes a size class. A frame that needs
 * several segments is dropped by the driver and counted too_long. A striding buffer is one WQE of
 * many slots (its strides); the driver posts it again when the last of them has been returned.
 *
 * Time line of one burst, on the owner's core:
 *
 *   rx_burst: own? ─► acquire ─► fill desc[] ─► refill ─► release ─► doorbell record
 *   (executor works on the slots; the caller acquires what it wrote)
 *   tx_burst: build WQEs ─► release ─► doorbell                      release_burst: to the pool
 *   events:   TX completions ─► pool; errors, link
 *
 * Threads. "setup": the main thread before start and after stop. "owner": the one lcore that runs
 * the queue. "any": every thread, also at the same time as the owner.
 */
#ifndef SPW_PORT_H
#define SPW_PORT_H

#include "frame/spw_desc.h"
#include "frame/spw_port_event.h"
#include "frame/spw_port_sent.h"
#include "frame/spw_port_spec.h"
#include "base/spw_types.h"
#include "mem/spw_mem.h"
#include "pool/spw_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PORT_MAX      8
#define SPW_PORT_RAIL_MAX 4  /* ports that one port of driver rails may be made of */
#define SPW_BURST_MAX     64 /* the most frames of one burst, and of one executor batch */

/* ---- specification: read before rte_eal_init ---- */

/* Purpose: parses "DRIVER:DEVICE[,key=value]...".
 * Shape:   text: up to 511 printable ASCII characters. "DRIVER:key=value" has no device. A key may
 *          come twice (net_pcap takes one rx_pcap per queue).
 * Owner:   spec_out holds copies; text may go.
 * Thread:  any; touches nothing but spec_out
 * Errors:  -EINVAL with the text, the position and the known drivers. */
int spw_port_spec_parse(const char *text, struct spw_port_spec *spec_out);

/* What is settled before EAL starts. */
#define SPW_PORT_CAPS_ALL UINT64_MAX

struct spw_port_need {
	uint64_t caps; /* capabilities(7), bit CAP_x: from open to close, recovery included.
			  SPW_PORT_CAPS_ALL: what a PMD calls is not known here */
	bool pci;      /* the PCI bus has to be scanned */
	/* arguments of "-a", one for each device: address and the PMD's own keys; "" ends them */
	char allow[SPW_PORT_RAIL_MAX + 1][512];
};
/* Purpose: what a port needs of its program: arguments of EAL, capabilities of the process.
 * Shape:   need_out is zero for a driver that needs nothing, or is not known (open reports that).
 * Order:   before rte_eal_init.
 * Thread:  any
 * Errors:  -EINVAL with the port. */
int spw_port_need(const struct spw_port_spec *spec, struct spw_port_need *need_out);

/* Where a queue's slots are. in_rx: posted to the device or kept by the driver for posting. The
 * three and pool.free_cnt add up to slot_cnt. */
struct spw_port_slots {
	uint32_t in_rx, lent, in_tx;
};

/* ---- the data path of one queue ---- */

struct spw_port_raw; /* port/spw_port_raw.h */

/* Flat and read-only after start: a burst reads this one cache line before it is in the driver. */
struct spw_port_queue {
	/* Purpose: lends up to cnt received frames. Never waits.
	 * Shape:   cnt 1 .. SPW_BURST_MAX. Fills desc[0 .. returned - 1], region and port included.
	 * Owner:   the caller must release each slot; desc is the caller's.
	 * Order:   the bytes of every lent frame are readable on return: the driver issues
	 *          spw_dma_from_device, or the PMD its own acquire. Partner: the device, which
	 *          writes a frame before its completion.
	 * Thread:  owner
	 * Returns: 0 .. cnt. Errors are not returned: events reports them. */
	uint16_t (*rx_burst)(void *q, struct spw_desc *desc, uint16_t cnt);
	/* Purpose: takes lent slots back.
	 * Shape:   cnt 0 .. SPW_BURST_MAX, in any order. Always takes all.
	 * Order:   whoever else read the slots has finished, and the caller has acquired that (G2):
	 *          the device may write them from now on.
	 * Thread:  owner */
	void (*release_burst)(void *q, const uint32_t *slot, uint16_t cnt);
	/* Purpose: sends lent slots: [desc->offset, desc->offset + desc->len) of each, to one peer
	 *          in order. Never waits.
	 * Shape:   cnt 0 .. SPW_BURST_MAX. On return desc[0 .. n - 1] were taken and desc[n ..]
	 *          stay lent. A driver whose peers fill up one by one moves pointers to keep that
	 *          true; the others leave the array as it was.
	 * Owner:   the driver owns what it took, and returns it to the pool when it was sent.
	 * Order:   the driver issues the to-device barrier after its descriptors and before its
	 *          doorbell (M3). What a GPU wrote was acquired by the caller (docs/040, echo
	 *          chain).
	 * Thread:  owner
	 * Returns: n, 0 .. cnt. */
	uint16_t (*tx_burst)(void *q, struct spw_desc **desc, uint16_t cnt);
	/* Purpose: everything that is not a burst: TX completions, error recovery, link. Bounded.
	 *          Call it in housekeeping and when idle.
	 * Shape:   cnt 0 ..; event[0 .. returned - 1] are written.
	 * Thread:  owner
	 * Returns: 0 .. cnt. */
	uint16_t (*events)(void *q, struct spw_port_event *event, uint16_t cnt);
	/* Purpose: lends up to cnt EMPTY slots, for a source that fills and sends them. Bytes from
	 *          caps.slot_headroom on are the caller's, who describes them in a desc of its own.
	 * Shape:   cnt 0 .. SPW_BURST_MAX.
	 * Owner:   owed back like any lent slot.
	 * Thread:  owner
	 * Returns: 0 .. cnt. */
	uint16_t (*lend_burst)(void *q, uint32_t *slot, uint16_t cnt);
	void *q;
	/* How often the pool was empty at a refill; written by the owner. NULL: not counted. */
	const uint64_t *no_slot;
	struct spw_port_raw *raw; /* raw completions (port/spw_port_raw.h); NULL: none are kept */
} SPW_ALIGNED(SPW_CACHE_LINE);
SPW_ASSERT_SIZE(struct spw_port_queue, 64);

/* ---- control ---- */

/* What a port can do and what it needs; filled by open, constant after it. */
struct spw_port_caps {
	uint16_t queue_max;      /* RX queues that RSS or peers can be spread over */
	uint32_t slot_headroom;  /* bytes the driver keeps free before the frame in each slot */
	uint32_t slot_align;     /* slots start on multiples of this, a power of 2 >= 64 */
	uint32_t slot_bytes_min; /* room for the largest frame it may deliver, with headroom */
	uint32_t slot_cnt_min;   /* per queue: with fewer the device starves itself */
	uint32_t head_bytes;     /* its pools must be split there (spw_pool_split); 0: must not */
	/* Bytes: the longest IP packet that it sends, or the path MTU of messages; 0: no limit of
	 * its own, or an unknown one. */
	uint32_t mtu;
	uint64_t nic_clock_hz; /* 0: no hardware stamps */
	bool can_tx;
	bool gpu_memory; /* the CPU touches no byte of a frame: regions of SPW_MEM_GPU are fine */
	bool messages;   /* RDMA messages (SPW_DESC_MSG), to and from peers; else Ethernet frames */
	int numa_node;   /* -1 unknown */
	uint8_t mac[6];  /* its own Ethernet address; all 0: it has none, or it is unknown */
};

struct spw_port_queue_conf {
	/* The queue's own, or shared by queues of one owner; outlives the port. */
	struct spw_pool *pool;
	/* Shared: the queue's part of it, slots [slot_first, slot_first + slot_cnt). Memory that it
	 * reserves, for peers or rings, is no more than that; single slots it gets from, and puts
	 * into, the whole pool. slot_cnt 0: all of it. */
	uint32_t slot_first, slot_cnt;
	uint32_t ring_size;  /* RX and TX entries, a power of 2; 0: the driver's choice */
	int numa_node;       /* of the lcore that will run it */
	const char *profile; /* "latency" or "throughput"; drivers without profiles ignore it */
};

struct spw_port;

/* One of the ports that a port is made of. Totals since start. */
struct spw_port_rail {
	struct spw_port *port;     /* its name and driver; lives as long as the whole */
	struct spw_port_stat stat; /* the rail's own */
	/* What the whole counted of this rail. polled = lent + late + duplicate + flushed + parked
	 * now, over all rails. */
	uint64_t polled;
	uint64_t late, duplicate; /* not lent: dropped for their number */
	uint64_t flushed;         /* not lent: parked when the port stopped */
	uint64_t moved;           /* sent there because another rail was down */
	uint64_t outages;         /* times that its link, its device or a peer's connection ended */
	/* Sum of the differences of: what arrived and what the rail lent, missed or dropped; what
	 * it lent and polled. 0 after stop. */
	uint64_t residual;
};

#define SPW_PORT_RULE_MAX 32u

/* A rule by which the device leads frames to the port. */
struct spw_port_rule {
	char text[96];
	bool frames_known; /* the device reports with each frame which rule took it */
	uint64_t frames;   /* received since the rule was made */
};

/* A driver. lib/port/port.c calls it, after the checks that all drivers share; contracts are those
 * of the spw_port_* function of the same name below. */
struct spw_port_driver {
	const char *name;
	const char *about; /* where its frames come from, one clause for spinwire-ports(7) */
	const struct spw_port_keys *const *keys; /* that it takes; NULL ends them */
	bool more_keys; /* it takes others too: those of a PMD, or of the port behind it */
	int (*need)(const struct spw_port_spec *spec,
		    struct spw_port_need *need_out); /* NULL: none */
	int (*open)(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		    struct spw_port **port_out);
	int (*region_attach)(struct spw_port *port,
			     const struct spw_region *region); /* NULL: nothing to do */
	int (*queue_setup)(struct spw_port *port, uint16_t queue,
			   const struct spw_port_queue_conf *conf);
	int (*loop)(struct spw_port *port, uint16_t queue,
		    uint8_t *head_out);                         /* NULL: it cannot send to itself */
	void (*loop_end)(struct spw_port *port);                /* NULL: start does */
	int (*raw_keep)(struct spw_port *port, uint16_t queue); /* NULL: it keeps none */
	int (*sent_keep)(struct spw_port *port, uint16_t queue,
			 const struct spw_port_sent **sent_out); /* NULL: it keeps none */
	int (*start)(struct spw_port *port);
	int (*stop)(struct spw_port *port);
	void (*stat)(struct spw_port *port, struct spw_port_stat *stat_out);
	void (*slots)(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots_out);
	uint32_t (*rails)(struct spw_port *port,
			  struct spw_port_rail *rail_out);              /* NULL: it has none */
	int (*rule)(struct spw_port *port, const char *text, bool add); /* NULL: it has no rules */
	uint32_t (*rules)(struct spw_port *port, struct spw_port_rule *rule_out); /* as rule */
	int (*pair_clock)(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			  uint64_t *uncertainty_ns_out);
	void (*close)(struct spw_port *port);
};

/* Embedded first in each driver's own struct (spw_container_of finds it). */
struct spw_port {
	const struct spw_port_driver *driver;
	char name[64];  /* for tables: "memif0", "mlx5_0" */
	uint16_t index; /* 0 .. SPW_PORT_MAX-1, travels in descriptors */
	uint16_t queue_cnt;
	struct spw_port_caps caps;
	struct spw_port_queue queue[SPW_PORT_QUEUE_MAX]; /* valid after queue_setup */
};

/* The order of calls:
 *
 *   open ─► region_attach* ─► queue_setup (each queue) ─► start ─► [bursts] ─► stop ─► close
 *                                                 └─► loop (a queue) ─► [bursts] ─┘ to start
 *
 * Those that return int return 0, or -errno with a text that names the port (base/spw_err.h). */

/* Purpose: opens the device and fills caps.
 * Shape:   index 0 .. SPW_PORT_MAX - 1; queue_cnt 1 .. caps.queue_max.
 * Owner:   the caller, until spw_port_close. spec may go.
 * Thread:  setup
 * Errors:  -EINVAL an unknown driver, key or value; -ERANGE index or queue_cnt, the text says how
 *          many there can be; others of the driver. *port_out is NULL then. */
int spw_port_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		  struct spw_port **port_out);

/* Purpose: makes a region known to the device (memory registration, DMA map).
 * Owner:   region outlives the port.
 * Order:   before queue_setup of any pool in it.
 * Thread:  setup
 * Errors:  -ENOTSUP memory that the CPU cannot reach, for a port whose frames pass through the CPU;
 *          others of the driver. */
int spw_port_region_attach(struct spw_port *port, const struct spw_region *region);

/* Purpose: makes one queue over one pool; fills port->queue[queue].
 * Shape:   queue 0 .. port->queue_cnt - 1. conf->pool: of an attached region, with slots of at
 *          least caps.slot_bytes_min, aligned to caps.slot_align, at least caps.slot_cnt_min.
 * Owner:   the queue owns the pool's slots from now on; conf may go.
 * Thread:  setup
 * Errors:  -ERANGE queue; -EINVAL ring size or pool, the text says what is needed; others of the
 *          driver. */
int spw_port_queue_setup(struct spw_port *port, uint16_t queue,
			 const struct spw_port_queue_conf *conf);

#define SPW_PORT_LOOP_HEAD 14u     /* bytes of an Ethernet header */
#define SPW_PORT_LOOP_TYPE 0x88b5u /* IEEE 802, local experimental */

/* Purpose: lets one queue receive what it sends to itself, and nothing else from the wire, for the
 *          litmus. Bursts work from then on. Another queue takes the place of the first.
 * Shape:   queue 0 .. port->queue_cnt - 1. head_out: SPW_PORT_LOOP_HEAD bytes with which each frame
 *          must begin. Ports of messages send to peer `queue`, which is the queue itself.
 * Order:   after queue_setup of every queue, before start. All slots are back when start is called;
 *          start ends the loop, and forgets what was counted in it.
 * Thread:  setup
 * Returns: how many frames may be in flight at once, 1 ..
 * Errors:  -ENOTSUP the port cannot send to itself (the text is one clause); others of the driver.
 */
int spw_port_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out);

/* Purpose: nothing comes to the port's queues any more: another port of the same device would
 *          receive what this one sends to itself, too.
 * Order:   all slots are back; start, or another spw_port_loop, follows.
 * Thread:  setup */
void spw_port_loop_end(struct spw_port *port);

/* Purpose: lets traffic in. After it the owners may run bursts.
 * Order:   after queue_setup of every queue.
 * Thread:  setup
 * Errors:  -EINVAL a queue was not set up; others of the driver. */
int spw_port_start(struct spw_port *port);

/* Purpose: lets no more traffic in and returns every slot that is not lent to its pool, those in TX
 *          included. Lent slots may still be released.
 * Order:   no owner is in a burst, and none runs one after it.
 * Thread:  setup
 * Errors:  -errno of the device; the slots are returned anyway. */
int spw_port_stop(struct spw_port *port);

/* Purpose: the port's counters. A snapshot: they need not agree among themselves while bursts run.
 * Order:   none; relaxed loads of what the owners count (docs/040, Counters).
 * Thread:  any, between open and close */
void spw_port_stat(struct spw_port *port, struct spw_port_stat *stat_out);

/* Purpose: the ports that this one is made of. Their counters and the port's own are read one by
 *          one: while bursts run they need not agree.
 * Shape:   rail_out[0 .. SPW_PORT_RAIL_MAX - 1].
 * Returns: how many; 0 for a port that is one by itself.
 * Order:   as spw_port_stat.
 * Thread:  any, between open and close */
uint32_t spw_port_rails(struct spw_port *port, struct spw_port_rail *rail_out);

/* Purpose: adds a flow rule, or removes one, while frames come: of each rail, where the port is
 *          made of rails; of all or of none. A recovery makes the same rules again.
 * Shape:   text: "udp=PORT" or "tcp=PORT", as in a specification; addresses and VLAN of that hold
 *          for it too.
 * Thread:  any, between start and stop
 * Errors:  -ENOTSUP the driver has no rules, or another key; -EINVAL the text; -EEXIST, -ENOENT,
 *          -ENOSPC; others of the device. */
int spw_port_rule(struct spw_port *port, const char *text, bool add);
/* Purpose: the rules that stand; of one port, so ask each rail. Frames of rules that were removed
 *          are in none of them.
 * Thread:  any, between open and close
 * Returns: how many, at most SPW_PORT_RULE_MAX. */
uint32_t spw_port_rules(struct spw_port *port, struct spw_port_rule rule_out[SPW_PORT_RULE_MAX]);

/* Purpose: where the slots of a queue are.
 * Shape:   queue 0 .. port->queue_cnt - 1, set up.
 * Thread:  owner, or setup after stop */
void spw_port_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots_out);

/* Purpose: one reading of the port's clock beside the CPU's.
 * Shape:   nic ticks of caps.nic_clock_hz; TSC ticks; ± uncertainty in ns of the pair.
 * Thread:  any
 * Errors:  -ENOTSUP without hardware stamps; others of the driver. */
int spw_port_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out);

/* Purpose: from now on a queue keeps its send completions.
 * Shape:   queue 0 .. port->queue_cnt - 1, set up.
 * Owner:   the port, until close; written by tx_burst and events, on the queue's lcore.
 * Order:   before start, once.
 * Thread:  setup
 * Errors:  -ENOTSUP the driver keeps none, or the device does not stamp them; -ENOMEM. */
int spw_port_sent_keep(struct spw_port *port, uint16_t queue,
		       const struct spw_port_sent **sent_out);

/* Purpose: stops the port if need be, closes the device and frees the port. NULL is fine.
 * Thread:  setup */
void spw_port_close(struct spw_port *port);

/* Purpose: the names of drop reasons and errors, for tables and JSON.
 * Returns: static text; "?" out of range.
 * Thread:  any */
const char *spw_port_drop_name(enum spw_port_drop drop);
const char *spw_port_err_name(enum spw_port_err err);

/* Returns: driver number idx of this build, NULL after the last.
 * Thread:  any */
const struct spw_port_driver *spw_port_driver(uint32_t idx);

/* Purpose: "ethdev, null, ...", for messages.
 * Owner:   static, per thread, until its next call.
 * Thread:  any */
const char *spw_port_driver_names(void);

/* ---- call-through of the burst functions ----
 *
 * Shape, owner, order and result are those of the function pointer in struct spw_port_queue; the
 * queue must have been set up and its port started. Thread: owner. */

SPW_INLINE uint16_t spw_port_rx_burst(struct spw_port_queue *pq, struct spw_desc *desc,
				      uint16_t cnt)
{
	return pq->rx_burst(pq->q, desc, cnt);
}

SPW_INLINE void spw_port_release_burst(struct spw_port_queue *pq, const uint32_t *slot,
				       uint16_t cnt)
{
	pq->release_burst(pq->q, slot, cnt);
}

SPW_INLINE uint16_t spw_port_tx_burst(struct spw_port_queue *pq, struct spw_desc **desc,
				      uint16_t cnt)
{
	return pq->tx_burst(pq->q, desc, cnt);
}

SPW_INLINE uint16_t spw_port_lend_burst(struct spw_port_queue *pq, uint32_t *slot, uint16_t cnt)
{
	return pq->lend_burst(pq->q, slot, cnt);
}

SPW_INLINE uint16_t spw_port_events(struct spw_port_queue *pq, struct spw_port_event *event,
				    uint16_t cnt)
{
	return pq->events(pq->q, event, cnt);
}

#ifdef __cplusplus
}
#endif
#endif
