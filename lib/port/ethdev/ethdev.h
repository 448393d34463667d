/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/ethdev: a spinwire port over any DPDK ethdev.
 *
 * The PMD's mempool is a view of lib/pool: mbuf i is the header of slot i and always points at it
 * (pinned external buffer). The mbufs lie in one array with a power-of-2 stride, so mbuf and slot
 * are one shift apart, and the pool's stack is the only free list: mempool get and put are
 * spw_pool_get and spw_pool_put.
 */
#ifndef SPW_ETHDEV_IMPL_H
#define SPW_ETHDEV_IMPL_H

#include "plat/spw_ethtool.h"
#include "port/port.h"

#define ETHDEV_MEMPOOL_OPS "spinwire"
#define ETHDEV_PACKET_MAX  SPW_PORT_QUEUE_MAX /* sockets of a net_af_packet */

/* What is known of a PMD and the ethdev API does not report. */
struct ethdev_fact {
	const char *pmd;   /* rte_eth_dev_info.driver_name */
	bool missed_known; /* imissed is what the device lost */
	bool rx_copies;    /* the PMD itself copies each frame into the mbuf */
	bool alloc_on_rx;  /* mbufs are taken from the pool in the receive call, none are posted
			      before */
	bool resets;       /* statistics restart at 0 when the peer leaves */
	bool any_mtu;      /* the PMD has no MTU of its own and refuses to set one */
	const char *source;
};

/* Its own keys (dev.c); all others are the PMD's. */
extern const struct spw_port_keys ethdev_keys;

struct ethdev_port;
struct rte_device;
struct rte_mbuf;
struct rte_mempool;

struct ethdev_queue {
	/* read on every burst */
	struct spw_pool *pool;
	uint8_t *mbuf0;       /* mbuf of slot 0 */
	uint32_t stride_log2; /* distance of two mbufs */
	uint32_t slot_cnt;
	uint32_t burst_floor; /* 0: never ask for more frames than there are free slots; ~0: ask for
				 all */
	uint16_t port_id, queue_id;
	uint16_t region_id, port_idx;
	uint32_t cut_bytes;  /* frames of that length and more are dropped, too_long */
	int stamp_offset;    /* of the dynamic timestamp field */
	uint64_t stamp_flag; /* in ol_flags */
	/* written by the owner, sampled by others */
	uint64_t got, put;            /* slots that the PMD took from and gave to the mempool */
	uint64_t put_in_tx;           /* of put, inside transmit and clean-up calls */
	uint64_t raw_frames;          /* that the PMD handed over */
	uint64_t rx_frames, rx_bytes; /* lent with a frame */
	uint64_t lent_empty, released;
	uint64_t tx_frames, tx_bytes; /* that the PMD took */
	uint64_t adopted;             /* frames copied out of foreign mbufs */
	uint64_t dropped[SPW_PORT_DROP_CNT];
	uint64_t no_slot;
	uint32_t gate;        /* net_memif: 1 while the owner is in a burst, or control code runs */
	uint32_t gate_wanted; /* control code waits for the gate: an owner that never pauses must
				 not take it again */
	/* cold */
	struct rte_mempool *mp;
	struct ethdev_port *port;
	bool can_clean; /* rte_eth_tx_done_cleanup works */
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct ethdev_port {
	struct spw_port base;
	uint16_t port_id;
	bool probed; /* made by us, so removed by us */
	bool owned, started, closed;
	bool is_dma;   /* a device that reads and writes memory by itself */
	bool offloads; /* hash, checksum or VLAN results are in the mbuf */
	bool stamps, promisc, watched;
	bool is_memif; /* its bursts pass a gate: memif_ctl.c */
	struct ethdev_port *next_memif;
	char netdev[16];      /* net_af_packet: the network interface; else "" */
	char more_args[64];   /* devargs that the user left to us */
	char start_hint[224]; /* what to do when the device does not start; "" unknown */
	uint32_t cut_bytes;   /* a frame of that many bytes has been cut by the PMD */
	const struct ethdev_fact *fact;
	struct rte_device *device;
	uint16_t rx_desc_dflt, tx_desc_dflt;
	uint64_t region_mapped;                   /* bit by region id: mapped for this device */
	struct spw_region region[SPW_REGION_MAX]; /* of those, by id */
	struct {
		uint64_t ipackets, opackets, imissed, obytes;
	} last;                           /* of rte_eth_stats, highest values read */
	bool missed_known;                /* imissed, or packet_drops, is what was lost */
	int packet_fd[ETHDEV_PACKET_MAX]; /* the PMD's, of net_af_packet */
	uint32_t packet_cnt;
	uint64_t packet_drops;        /* of the kernel at these sockets, so far */
	uint64_t phy_id[SPW_PHY_CNT]; /* of the extended statistics */
	struct spw_phy_count phy_base[SPW_PHY_CNT], phy_last[SPW_PHY_CNT]; /* at start, at stop */
	/* link; written by EAL's interrupt thread or by events() */
	uint32_t link_up, gone;
	uint64_t link_bps;      /* of a NIC, as last read; virtual devices invent theirs */
	uint32_t link_reported; /* by events() */
	uint64_t link_next_tsc; /* when events() reads the link again */
	uint64_t link_down_cnt;
	struct ethdev_queue *queue;
};

SPW_INLINE struct ethdev_port *ethdev_of(struct spw_port *port)
{
	return spw_container_of(port, struct ethdev_port, base);
}

SPW_INLINE struct rte_mbuf *ethdev_mbuf(const struct ethdev_queue *q, uint32_t slot)
{
	return (struct rte_mbuf *)(void *)(q->mbuf0 + ((size_t)slot << q->stride_log2));
}

/* slot_cnt or more if the mbuf is not of this queue. */
SPW_INLINE size_t ethdev_slot(const struct ethdev_queue *q, const struct rte_mbuf *m)
{
	return ((uintptr_t)m - (uintptr_t)q->mbuf0) >> q->stride_log2;
}

/* Returns: true if the gate was open, nobody waits for it, and it is now the owner's, who polls
 * nothing without it. [P3 acquire, pairs with P4] */
SPW_INLINE bool ethdev_gate_try(struct ethdev_queue *q)
{
	return !spw_thr_load_rlx(&q->gate_wanted) && spw_thr_exchange(&q->gate, 1) == 0;
}

/* [P4 release, pairs with P3] */
SPW_INLINE void ethdev_gate_open(struct ethdev_queue *q)
{
	spw_thr_store_rel(&q->gate, 0);
}

/* Purpose: answers dpdk-dumpcap and dpdk-pdump, from now on (dump.c). Idempotent. Thread: setup. */
void ethdev_dump_refuse(void);

/* ---- memif_ctl.c: every call does nothing for other ports; thread setup ---- */

/* Purpose: from enter to leave no control code of net_memif runs but the caller's, and what it
 *          registers is the port's. */
void memif_ctl_enter(struct ethdev_port *ep);
void memif_ctl_leave(struct ethdev_port *ep);
/* Purpose: control code shuts this port's gates from now on, until memif_ctl_remove. Between
 *          enter and leave. */
void memif_ctl_add(struct ethdev_port *ep);
void memif_ctl_remove(const struct ethdev_port *ep);
/* Errors:  -ENOTSUP if net_memif's registrations do not pass here. After start, between enter
 *          and leave. */
int memif_ctl_check(const struct ethdev_port *ep);
/* Purpose: unregisters what the port's PMD left registered. After rte_eth_dev_stop and before
 *          rte_eth_dev_close, between enter and leave. */
void memif_ctl_stop(struct ethdev_port *ep);
/* Purpose: waits until EAL's interrupt thread is done with the port. After leave. */
void memif_ctl_settle(struct ethdev_port *ep);

/* ---- fact.c ---- */

/* Never NULL: what is not in the table gets the default of its bus. */
const struct ethdev_fact *ethdev_fact_find(const char *pmd, bool is_vdev);

/* ---- pool.c ---- */

/* Purpose: makes q->mp over conf->pool.
 * Errors:  -ENOMEM and others with a text. */
int ethdev_pool_make(struct ethdev_queue *q, const struct spw_port_queue_conf *conf);
void ethdev_pool_free(struct ethdev_queue *q);

/* Purpose: makes a region known to EAL and the device.
 * Errors:  with what to do. */
int ethdev_region_map(struct rte_device *device, const struct spw_region *region);
void ethdev_region_unmap(struct rte_device *device, const struct spw_region *region);

/* ---- vdev_check.c ---- */

/* Purpose: refuses what the PMD would accept without an error; fills netdev, more_args, start_hint
 * and cut_bytes. Before EAL makes it. */
int ethdev_vdev_check(const struct spw_port_spec *spec, struct ethdev_port *ep);
bool ethdev_netdev_is_up(const char *name);
/* Purpose: the MTU of a network interface.
 * Returns: 0 unknown. */
uint32_t ethdev_netdev_mtu(const char *name);
/* Purpose: whether the spec names a virtual device of that PMD ("net_memif": net_memif0,
 *          net_memif_x, ...). */
bool ethdev_dev_is(const struct spw_port_spec *spec, const char *pmd);

/* ---- packet.c: every call does nothing for other ports than net_af_packet ---- */

/* Purpose: before and after EAL creates the device: finds its packet sockets; packet_cnt 0: none.
 * Thread: setup */
void ethdev_packet_before(struct ethdev_port *ep);
void ethdev_packet_after(struct ethdev_port *ep);
/* Purpose: adds what the kernel dropped since the last call to packet_drops. Thread: any, while the
 *          device is started. */
void ethdev_packet_read(struct ethdev_port *ep);
/* Purpose: reads for the last time. Before rte_eth_dev_stop, which closes the sockets. Thread:
 *          setup */
void ethdev_packet_end(struct ethdev_port *ep);

/* ---- dev.c ---- */

/* Purpose: finds the ethdev of the spec or makes it; fills port_id and probed. */
int ethdev_dev_find(const struct spw_port_spec *spec, struct ethdev_port *ep);
/* Purpose: capabilities, configuration, facts. */
int ethdev_dev_configure(const struct spw_port_spec *spec, uint16_t queue_cnt,
			 struct ethdev_port *ep);
void ethdev_dev_close(struct ethdev_port *ep);
/* Purpose: "-a" text for a PCI device, "" for others. */
int ethdev_dev_allow(const struct spw_port_spec *spec, char *text_out, size_t text_bytes);

/* ---- rxtx.c ---- */

/* Purpose: the burst functions of a queue, the receive variant chosen by what the port
 *          delivers. */
void ethdev_burst_choose(const struct ethdev_port *ep, struct spw_port_queue *pq);
/* Purpose: takes what still waits in the queue and drops it, counted rx_flushed.
 * Thread:  setup, before the PMD stops */
void ethdev_rx_flush(struct ethdev_queue *q);

/* ---- stat.c ---- */

uint16_t ethdev_events(void *queue, struct spw_port_event *event, uint16_t cnt);
void ethdev_link_watch(struct ethdev_port *ep);
void ethdev_link_unwatch(struct ethdev_port *ep);
/* Purpose: raises ep->last to what the PMD reports now. */
void ethdev_stat_read(struct ethdev_port *ep);
void ethdev_stat(struct spw_port *port, struct spw_port_stat *stat);
void ethdev_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots);
int ethdev_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
		      uint64_t *uncertainty_ns_out);
/* Purpose: registers the mbuf field of receive timestamps for every queue. Before start. */
int ethdev_stamps_open(struct ethdev_port *ep);
/* Purpose: the rate of the port's clock against the CPU's, 0 if it has none.
 * Shape:   takes 50 ms. */
uint64_t ethdev_clock_hz(uint16_t port_id);

/* ---- phy.c ---- */

#define ETHDEV_NO_XSTAT UINT64_MAX

/* Purpose: records the physical port's counters as the base. Thread: setup, after the device
 *          started. */
void ethdev_phy_start(struct ethdev_port *ep);
/* Purpose: records them as the last, for a device that is closed before its report. Thread:
 *          setup. */
void ethdev_phy_keep(struct ethdev_port *ep);
/* Purpose: sets the phy_* and port_discards of stat to what was counted since start. Thread: any,
 *          outside the bursts. */
void ethdev_phy_stat(const struct ethdev_port *ep, struct spw_port_stat *stat);

/* ---- capture_check.c ---- */

/* Purpose: whether this pcap or pcapng file is complete. libpcap and net_pcap just stop at a
 *          truncated record, without an error.
 * Errors:  -ENOENT and others of open; -EINVAL with the record and the byte where it breaks. */
int ethdev_capture_check(const char *path);

#endif
