/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The topology: from a YAML file and the command line to one checked struct. Both go through the
 * same table of lib/opt, so they cannot drift apart.
 *
 *   ports:                                  # list; each entry one port
 *     - spec: "ethdev:net_memif0,role=server,socket=/run/spinwire.sock"
 *       queues: 2
 *       lcores: [2, 3]
 *   executor: { kind: auto, handler: crc32c }
 *   memory: { kind: auto, slots: 8192, slot-size: 2KiB }
 *   run: { seconds: 10s, json: out.json }
 *
 * An unknown key, a key given twice, a wrong type, unit or value is an error "FILE:LINE:COLUMN:
 * what; what is allowed". Anchors and aliases work; merge keys and several documents do not.
 * Numbers and units are those of lib/opt.
 */
#ifndef SPW_CONF_H
#define SPW_CONF_H

#include "base/spw_types.h"
#include "exec/spw_exec.h"
#include "mem/spw_mem.h"
#include "opt/spw_opt.h"
#include "port/spw_port.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_CONF_CORE_MAX 64u

/* Where a value came from, for messages that can only be made later. line 0: default or command
 * line. */
struct spw_conf_where {
	uint32_t line, column;
	const char *option; /* "--port", NULL if from the file or default */
};

/* Core numbers in the order given. cnt 0: not given. */
struct spw_conf_cores {
	uint32_t core[SPW_CONF_CORE_MAX];
	uint32_t cnt;
	struct spw_conf_where where;
};

enum spw_conf_profile { SPW_CONF_LATENCY, SPW_CONF_THROUGHPUT };
enum spw_conf_litmus { SPW_CONF_LITMUS_OFF, SPW_CONF_LITMUS_QUICK, SPW_CONF_LITMUS_LONG };
/* When a recording is written: for slow frames too, or only for requests, faults and at the end. */
enum spw_conf_record { SPW_CONF_RECORD_SLOW, SPW_CONF_RECORD_END };

struct spw_conf_port {
	char spec_text[512];
	struct spw_port_spec spec; /* parsed by spw_conf_check */
	uint32_t queues;           /* 1 .. SPW_PORT_QUEUE_MAX */
	struct spw_conf_cores
		lcores;     /* one per queue; not given: the next free EAL lcores in order */
	uint32_t ring_size; /* RX and TX entries, a power of 2; 0: the driver's choice */
	enum spw_conf_profile profile;
	char handler[256]; /* as executor.handler; "": that one */
	char objects[512]; /* description of the objects made of its payload; "": none */
	struct spw_conf_where where;
};

struct spw_conf {
	char file[512]; /* "" without one */
	bool check;     /* start nothing */
	struct spw_conf_port port[SPW_PORT_MAX];
	uint32_t port_cnt;    /* at least 1 after spw_conf_check */
	bool ports_by_option; /* --port was given: the file's ports are gone */
	uint32_t handler_cnt; /* times that --handler was given */
	struct {
		enum spw_exec_kind kind;
		/* built-in name, or a path with a slash and arguments behind a colon */
		char handler[256];
		uint32_t batches;            /* per ring, a power of 2; 0: the backend's choice */
		uint32_t ctas;               /* per ring, CUDA; 0: the backend's choice */
		struct spw_conf_cores cores; /* of the cpu backend's threads, one per ring */
		uint64_t beat_timeout_ns;
	} executor;
	struct {
		enum spw_mem_kind kind, objects;
		uint32_t slots;      /* per queue */
		uint64_t slot_bytes; /* payload room; a multiple of 64 */
	} memory;
	struct {
		uint64_t seconds_ns;  /* 0: until SIGINT or SIGTERM */
		uint64_t frames;      /* 0: no limit; else stop after so many were received */
		char json[512];       /* file for the summary, "" none, "-" stdout */
		char hdr[512];        /* file for an HdrHistogram log of the stages, "" none */
		char trail[512];      /* file for the stamps of the generator's frames, "" none */
		uint32_t trail_every; /* one in so many frames of a flow; a power of 2 */
		bool stamps;          /* stages and regimes on */
		bool frame_stamps;    /* stages from each frame's NIC stamp on */
		uint64_t slow_ns;     /* frames above it get a cause */
		uint64_t slow_object_ns;     /* objects likewise; 0: above their deadline */
		uint32_t burst;              /* 1 .. SPW_BURST_MAX */
		char slo[64];                /* "20us@p99.9", "" none */
		enum spw_conf_litmus litmus; /* test of the memory before the start */
		char capture[512];           /* pcapng file of received frames, "" none */
		uint64_t capture_limit;      /* its largest size */
		uint64_t capture_snap;       /* bytes kept of a frame */
		char receipts[512];          /* file for receipts of objects, "" none */
		char record[512];            /* file of the flight recorder, "" none */
		enum spw_conf_record record_rule;
		uint64_t record_window_ns; /* of the file; 0: all that the ring holds */
		uint64_t record_memory;    /* of each lane's ring, bytes */
		bool record_cqes;          /* what the ports read of their completion rings */
		uint64_t record_snap;      /* bytes kept of a frame */
		uint64_t stats_period_ns;  /* 0: no line while it runs */
		/* Options, no keys of a file. full: every table, not ten lines. */
		bool full;
		struct spw_opt_verbosity verbosity;
	} run;
};

/* Purpose: the defaults of the table; no ports.
 * Thread:  setup */
void spw_conf_init(struct spw_conf *conf_out);

/* Purpose: reads a YAML file over what is in conf.
 * Errors:  -EINVAL with "FILE:LINE:COLUMN: ...", -errno of the file. conf is undefined after an
 *          error.
 * Thread:  setup */
int spw_conf_load(struct spw_conf *conf, const char *path);
/* Purpose: the same from memory; name stands where FILE would.
 * Shape:   any bytes, NUL included.
 * Errors:  as spw_conf_load.
 * Thread:  setup */
int spw_conf_load_text(struct spw_conf *conf, const char *name, const char *text, size_t bytes);

/* Purpose: one option of the command line over what is in conf: ("port", "null:size=64"). The
 *          first --port replaces the ports of the file; --queues, --lcores, --ring and
 *          --profile belong to the --port before them, or to every port of the file. A --handler
 *          that is the only one is of every port; else each is of the --port before it, and one
 *          before any --port is of ports that have none.
 * Errors:  -EINVAL what is wrong with the value.
 * Thread:  setup */
int spw_conf_option(struct spw_conf *conf, const struct spw_opt *opt, const char *value);

/* Purpose: the program's whole command line behind EAL's "--": defaults, then --config FILE
 *          wherever it stands, then the other options in order, then spw_conf_check.
 * Shape:   argv[0] is skipped. program's table is spw_conf_options().
 * Returns: an enum spw_opt_ask, or the error of loading or an option. Needs no EAL.
 * Thread:  setup */
int spw_conf_args(struct spw_conf *conf_out, const struct spw_opt_program *program, int argc,
		  char **argv);

/* Purpose: checks what spans several keys: at least one port, as many lcores as queues, no core
 *          twice, specs that parse.
 * Errors:  -EINVAL with the place.
 * Thread:  setup */
int spw_conf_check(struct spw_conf *conf);

/* Purpose: every lcore that was named is one that EAL runs.
 * Shape:   is_lcore[0 .. cnt-1], by core number.
 * Errors:  -EINVAL with the place, the core, and the set that there is.
 * Thread:  setup, after rte_eal_init */
int spw_conf_check_lcores(const struct spw_conf *conf, const bool *is_lcore, uint32_t cnt);

/* Most options of spw_conf_options: sets of them are 64-bit masks while a file is read. */
#define SPW_CONF_OPTION_MAX 64u

/* Purpose: the options of spinwire, which are the keys of its file too. Offsets are those in
 *          struct spw_conf or, in section "ports", struct spw_conf_port.
 * Shape:   *cnt_out is SPW_CONF_OPTION_MAX at most.
 * Thread:  any */
const struct spw_opt *spw_conf_options(uint32_t *cnt_out);

#ifdef __cplusplus
}
#endif
#endif
