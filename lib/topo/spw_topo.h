/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A topology: ports, memory, an executor, and one lane per port queue, put together and taken apart
 * in the only order that works.
 *
 *   port queue ──► pool, pipe ──► executor ring          a lane: what one lcore runs
 *                    │
 *                  region                                one per NUMA node that has a lane
 *
 * How a topology is used. The caller owns the lcores, and so what stands in the row "lanes":
 *
 *   control  open ─ start ─┬─ service, clocks_pair, event, collect ... ─┬─ stop ─ stat ─ close
 *   lanes                  └─ spw_pipe_run, or begin, run_once ..., end ─┘
 *
 * The order is not free: a port states what its slots must look like, so it opens before the
 * memory; a region must be attached to every port before the queues of its pools are set up; the
 * executor needs the regions; the pipe needs queue, pool and ring; and a clock must have been
 * paired before the pipe that translates its stamps is built. At the end the lanes drain first,
 * then the executor stops, then the pipes return what it did not finish, then the ports return the
 * rest: in this order every slot returns to its pool.
 *
 * Threads: "setup" is the thread that opens, before start and after the lanes have ended; "control"
 * is one thread between start and stop (usually the same one); "owner" is the lcore of a lane;
 * "any" may also be telemetry.
 */
#ifndef SPW_TOPO_H
#define SPW_TOPO_H

#include "base/spw_types.h"
#include "exec/spw_exec.h"
#include "exec/spw_place.h"
#include "mem/spw_mem.h"
#include "pipe/spw_pipe.h"
#include "pool/spw_pool.h"
#include "port/spw_port.h"
#include "flight/spw_flight.h"
#include "rec/spw_ledger.h"
#include "rec/spw_rec.h"
#include "time/spw_time.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_TOPO_LANE_MAX           64u
#define SPW_TOPO_BACKEND_NAME_BYTES 32u

struct spw_topo_port_conf {
	const struct spw_port_spec *spec; /* outlives the topology */
	/* NULL: spec is opened. Else an open port, with index = its place in the array; the caller
	 * closes it after the topology. */
	struct spw_port *open;
	uint16_t queue_cnt;  /* each of them must be the queue of exactly one lane */
	uint32_t ring_size;  /* entries, a power of 2; 0: the driver's choice */
	const char *profile; /* "latency" or "throughput" */
	/* What the port's payload is made into, a stream per queue; outlives the topology. NULL: no
	 * objects. Lanes of this port have the handler exec/spw_place.h, whatever theirs is. */
	const struct spw_obj_desc *objects;
};

/* Lane i uses executor ring i. */
struct spw_topo_lane_conf {
	uint16_t port, queue;
	uint32_t lcore_id;                 /* for reports only: the caller runs the pipe there */
	int numa_node;                     /* of that lcore; -1: any */
	const struct spw_handler *handler; /* outlives the topology; NULL: that of exec */
};

struct spw_topo_exec {
	enum spw_exec_kind kind; /* not AUTO */
	uint16_t ctas;           /* of each lane, CUDA; 0: measured default */
};

/* Fill it from zero. Times are in ns. */
struct spw_topo_conf {
	struct spw_tsc tsc; /* calibrated */
	struct spw_topo_port_conf port[SPW_PORT_MAX];
	uint32_t port_cnt; /* 1 .. SPW_PORT_MAX */
	struct spw_topo_lane_conf lane[SPW_TOPO_LANE_MAX];
	uint32_t lane_cnt; /* 1 .. SPW_TOPO_LANE_MAX */
	struct {
		enum spw_mem_kind kind;
		enum spw_mem_kind objects; /* where objects lie */
		uint32_t slots;            /* per lane */
		/* room for a frame; the port's headroom and alignment are added */
		size_t slot_bytes;
	} memory;
	struct {
		/* The lanes begin with the first, and may change to the others (spw_topo_ask),
		 * which may be of one kind with different numbers of CTAs. All of them are started,
		 * and read the same memory; one of the others that this machine cannot do is left
		 * out.
		 */
		struct spw_topo_exec backend[SPW_PIPE_BACKEND_MAX];
		uint32_t backend_cnt; /* 1 .. SPW_PIPE_BACKEND_MAX */
		/* outlives the topology; NULL if every lane has its own */
		const struct spw_handler *handler;
		const int *cpu;           /* [lane_cnt], outlives the topology; NULL: none pinned */
		uint32_t batch_cnt;       /* per ring, a power of 2; 0: the backend's choice */
		uint32_t beat_timeout_ms; /* resident kernel; 0: 1000 */
		uint32_t life_ms;         /* resident kernel; 0: see struct spw_exec_conf */
	} exec;
	struct {
		uint16_t burst;   /* frames per poll at most, 1 .. SPW_BURST_MAX */
		bool record;      /* stamps, stages, regimes */
		bool nic_frames;  /* record each frame's stages from its NIC stamp, not only its
				     batch's oldest */
		uint64_t slow_ns; /* slower frames get a cause; 0: none does */
		uint64_t slow_object_ns; /* slower objects likewise; 0: above their deadline */
		/* [lane_cnt], outlive the topology: where frames are noted (trail/spw_trail.h);
		 * NULL: nowhere */
		struct spw_trail *trail;
		/* [lane_cnt], outlive the topology: where all that a lane learns is recorded
		 * (flight/spw_flight.h); NULL: nowhere */
		struct spw_flight *flight;
		bool flight_raw;       /* and raw completions, of ports that keep them */
		uint64_t slow_wait_ns; /* from a slow batch to its judgement; 0: 1 ms */
		int quota_fd;          /* cpu.stat of a control group with a CPU quota; 0: none */
		uint64_t drain_ns;     /* longest wait for the executor at the end; 0: 2 s */
		uint64_t frames_max;   /* per lane; 0: no limit */
		bool receipts;         /* spw_pipe_receipt has the receipt of each object */
	} pipe;
};

/* An executor that the lanes may use: each has a ring in it. */
struct spw_topo_backend {
	enum spw_exec_kind kind;
	uint32_t ctas;                          /* of each lane, CUDA; 0: it has none */
	char name[SPW_TOPO_BACKEND_NAME_BYTES]; /* "inline", "cuda-persistent, 1 CTA": for messages
						 */
	struct spw_exec *exec;
	struct spw_clock_feed clock; /* of a GPU */
	uint64_t relaunched;         /* control: the executor's count at the last service */
	bool rests;                  /* control: by spw_topo_rest */
};

/* The objects of a lane (objects.c). Consumers find page and memory by their descriptors. */
struct spw_topo_stream {
	struct spw_obj *obj; /* NULL: the lane has none; spw_obj_stat */
	struct spw_obj_page *page;
	size_t page_bytes;
	int page_fd;
	uint32_t region; /* index into spw_topo.region: the objects, at its start */
	/* private */
	uint64_t stride;
	struct spw_place_state place;
	struct spw_handler handler;
	struct spw_move *table;
	struct spw_pipe_receipt *receipt;
	uint32_t consumer_pid; /* of consumer_fd, a pidfd; -1: none */
	int consumer_fd;
};

/* One port queue with its pool and its pipe; on the lcore's NUMA node, aligned to a page. */
struct spw_topo_lane {
	struct spw_pipe pipe; /* run by the owner */
	struct spw_pool pool;
	struct spw_port *port;
	const struct spw_port_sent *sent; /* with a trail: what the port keeps; NULL: nothing */
	struct spw_topo_lane_conf conf;
	size_t slot_bytes; /* with headroom and alignment */
	uint32_t region;   /* index into spw_topo.region */
	size_t region_offset;
	uint32_t head_region; /* likewise, of the heads, if the port splits its frames */
	size_t head_offset;
	struct spw_topo_stream stream;
};

/* Readable by the caller after open; nothing in it is written by the caller. */
struct spw_topo {
	struct spw_topo_conf conf;
	struct spw_port *port[SPW_PORT_MAX];
	uint32_t port_cnt;
	/* one per NUMA node, then those of objects (objects.c); the index is the region's id */
	struct spw_region region[SPW_REGION_MAX];
	uint32_t region_cnt, slot_region_cnt; /* all; those with slots */
	struct spw_topo_lane *lane[SPW_TOPO_LANE_MAX];
	const struct spw_handler *handler[SPW_TOPO_LANE_MAX]; /* by lane */
	uint32_t lane_cnt;
	struct spw_topo_backend
		backend[SPW_PIPE_BACKEND_MAX]; /* conf.exec.backend, less what was left out */
	uint32_t backend_cnt;
	struct spw_clock_feed nic_clock[SPW_PORT_MAX]; /* by port */
};

/* ---- open, start, stop, close ---- */

/* Purpose: builds everything; starts nothing. Pairs the clocks of ports and executor for the first
 *          time, which takes up to a second for a port whose clock does not answer; such a port
 *          goes on without stamps, with a warning.
 * Shape:   all parts of conf as stated above; no other region may exist in the process.
 * Owner:   the caller, who calls spw_topo_close also after an error: what was open by then stays
 *          open, and the text of the error stays readable.
 * Thread:  setup.
 * Errors:  -EINVAL, -ENOMEM, -ENOSPC, -ENOTSUP, or what a driver returns; the text names the port
 *          or the option. */
int spw_topo_open(struct spw_topo *topo, const struct spw_topo_conf *conf);

/* Purpose: starts executor, then ports. Lanes may run from now on.
 * Thread:  setup.
 * Errors:  as spw_exec_start and spw_port_start; the executor is stopped again. */
int spw_topo_start(struct spw_topo *topo);

struct spw_topo_end {
	int exec_rc;          /* of spw_exec_stop: 0, -ETIME, -EBUSY */
	uint64_t exec_faults; /* completions that contradict their batches */
	uint64_t lost_frames; /* were with an executor that had to be abandoned */
};

/* Purpose: stops executor and ports, and returns every slot to its pool. What fails is logged, and
 *          the rest is still done.
 * Shape:   every lane that ran has ended (spw_topo_ended), or was never run.
 * Thread:  setup.
 * Errors:  the first failure. With end_out->exec_rc == -EBUSY a handler still runs: do not close,
 *          end by _exit. */
int spw_topo_stop(struct spw_topo *topo, uint32_t exec_timeout_ms, struct spw_topo_end *end_out);

/* Purpose: frees everything, from any state after open.
 * Returns: slots that were not in their pools (leaked).
 * Thread:  setup. */
uint32_t spw_topo_close(struct spw_topo *topo);

/* ---- between start and stop: the control thread ---- */

/* Purpose: one turn of care for the executor, about every millisecond; a resident kernel that had
 *          to be launched again is reported to the pipes, so that frames that waited for it get
 *          this cause.
 * Thread:  control.
 * Errors:  -EIO: the executor cannot go on. */
int spw_topo_service(struct spw_topo *topo);

/* Purpose: reads the foreign clocks beside the CPU's and hands better maps to the lanes; about
 *          every 20 ms.
 * Thread:  control. */
void spw_topo_clocks_pair(struct spw_topo *topo);

/* Purpose: asks every lane to poll at most `burst` frames at a time and to use the executor
 *          backend[backend]; each follows by itself, without losing a frame (spw_pipe_ask).
 * Shape:   backend < backend_cnt, and not at rest; burst 1 .. SPW_BURST_MAX.
 * Thread:  control. */
void spw_topo_ask(struct spw_topo *topo, uint32_t backend, uint16_t burst);

/* Returns: whether every lane uses that backend. Thread: control. */
bool spw_topo_uses(const struct spw_topo *topo, uint32_t backend);

/* Purpose: stops the executors that no lane uses: their threads end, their kernels leave the GPU,
 *          and no core or SM polls for nothing. One that gets no core to end on ends later, with a
 *          warning now.
 * Shape:   every lane uses `backend`, and was asked for no other since.
 * Order:   Q6: the lanes have left the rings of the others.
 * Thread:  control. */
void spw_topo_rest(struct spw_topo *topo, uint32_t backend);

/* Purpose: starts the executor of a backend that rests, before lanes are asked to use it. Nothing
 * to do for one that does not. A kernel polls only once the GPU has launched it. Errors:  -EBUSY:
 * it has not ended yet, try again; those of spw_exec_start. It rests on. Thread:  control. */
int spw_topo_wake(struct spw_topo *topo, uint32_t backend);

/* Purpose: finds consumers of objects that ended, and frees what they held; hands a GPU's own
 * memory to new ones; about every 20 ms. Thread:  control. */
void spw_topo_consumers(struct spw_topo *topo);

/* Purpose: the next port event of any lane.
 * Returns: false when there is none.
 * Thread:  control, and setup after the lanes have ended. */
bool spw_topo_event(struct spw_topo *topo, struct spw_topo_lane **lane_out,
		    struct spw_port_event *event_out);

/* Purpose: begins a new interval in view and adds what every lane's recorder has put aside.
 * Thread:  control; one view for the topology's whole life. */
void spw_topo_collect(struct spw_topo *topo, struct spw_rec_view *view);

/* Purpose: the same without a new interval: what has come since is added to the one before.
 * Thread:  control. */
void spw_topo_collect_more(struct spw_topo *topo, struct spw_rec_view *view);

/* Purpose: the same after the lanes have ended: takes all that is left.
 * Thread:  setup. */
void spw_topo_collect_rest(struct spw_topo *topo, struct spw_rec_view *view);

/* ---- numbers ---- */

/* Purpose: whether the first lane_cnt lanes have ended (spw_pipe_ended).
 * Order:   acquires each of them (Q4).
 * Thread:  any. */
bool spw_topo_ended(const struct spw_topo *topo, uint32_t lane_cnt);

/* Purpose: frames polled by all lanes so far.
 * Thread:  any. */
uint64_t spw_topo_frames(const struct spw_topo *topo);

/* Everything that a report needs beside the recorder's view; each number comes from the part that
 * counted it. */
struct spw_topo_stat {
	struct spw_port_stat port[SPW_PORT_MAX]; /* [port_cnt] */
	struct spw_exec_stat exec; /* sums over the backends; device: that of the first */
	struct spw_ledger ledger;  /* sums over ports, executor, pipes, pools */
	struct spw_ledger_sum sum; /* its balance; live, its edges differ by frames in flight */
	uint64_t port_copies;      /* copies of frames made by drivers */
};

/* Purpose: gathers all of the above.
 * Thread:  any, between open and close.
 * Cost:    cold. */
void spw_topo_stat(struct spw_topo *topo, struct spw_topo_stat *stat_out);

/* Purpose: what a handler found on all lanes that run it: the sum of its digests, modulo 2^56, and
 *          its counters, added to those of sum_out, a block of its state; NULL: it has none.
 * Order:   relaxed samples; exact after spw_topo_stop.
 * Errors:  -EIO: the executor does not answer.
 * Thread:  any, between open and close, one for each sum_out.
 * Cost:    cold; a GPU's state is copied. */
int spw_topo_handler_read(const struct spw_topo *topo, const struct spw_handler *handler,
			  uint64_t *digest_out, void *sum_out);

#ifdef __cplusplus
}
#endif
#endif
