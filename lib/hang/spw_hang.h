/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who hangs the collective: facts of every process under NCCL, read three times on each host, and
 * the judge that names the rank and the layer that the others wait for, or says that it cannot.
 *
 *   page, /proc, counters, QPs, GPUs, ...    spw_hang_read (read_*.c): facts of this host, now
 *                 │ at 0, 0.5 and 5 s
 *   snapshots, one host each                 spw_hang_case: saved and read as JSON (json.c)
 *                 │ of all hosts
 *   spw_hang_judge (rules.c, graph.c)        pure: no file, no clock, no memory of its own
 *                 │
 *   answer        it moves; or a culprit; or unknown, and what is missing
 *
 * A fact is known or not; zeroed memory is "not known". Nothing may follow from a fact that is not
 * known: an answer with less evidence is the same, or unknown, never another name.
 *
 * Facts are rows of tables. Each table is one list: N(name, meaning) a number, T(name, bytes,
 * meaning) a text. A row is the same as one of another snapshot if its key columns are equal, which
 * its list names first. Numbers that only grow are compared between snapshots, so their origin does
 * not matter; moments are ages on the clock of the host that read them, so that no two clocks are
 * ever compared. Texts come from outside: whoever prints one shows it by base/spw_text.h.
 */
#ifndef SPW_HANG_H
#define SPW_HANG_H

#include "base/spw_enum.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_HANG_SNAP_CNT  3u /* snapshots of a host */
#define SPW_HANG_HOST_MAX  16u
#define SPW_HANG_PROC_MAX  256u   /* of a case: more are left out, and the answer says so */
#define SPW_HANG_ROW_MAX   65536u /* of a table of one snapshot */
#define SPW_HANG_HOST_NAME 64u

struct json_t; /* jansson's json_t */

/* When a snapshot is taken, in milliseconds after the first. */
#define SPW_HANG_SNAP_MS     \
	{                    \
		0, 500, 5000 \
	}

#define SPW_HANG_STACKS_MS 15000u /* at most, for the stacks of a host */

struct spw_hang_num {
	int64_t value;
	bool known;
};

#define SPW_HANG_NUM_MAX (1ll << 56) /* 2 years in ns; 72 PB */

/* Purpose: a number that is known; one beyond +- SPW_HANG_NUM_MAX is no fact, so that sums and
 *   differences of facts have room. Thread: any; pure. */
SPW_INLINE struct spw_hang_num spw_hang_num(int64_t value)
{
	const bool fits = value >= -SPW_HANG_NUM_MAX && value <= SPW_HANG_NUM_MAX;

	return (struct spw_hang_num){.value = fits ? value : 0, .known = fits};
}

/* ---- tables ---- */

/* Processes that have NCCL's library mapped, or a live page. */
#define SPW_HANG_PROC_LIST(N, T)                                                     \
	N(pid, "as this host's /proc has it; the key")                               \
	N(start, "when it began, clock ticks after boot")                            \
	N(gone, "1: an earlier snapshot has it, and it has ended since (or another " \
		"process has its number)")                                           \
	T(name, 32, "of its program")                                                \
	N(rank, "that its environment names (RANK, OMPI_COMM_WORLD_RANK, ...)")      \
	N(world, "how many ranks its environment names")                             \
	N(page, "1: it has a live page; 0: it has none")                             \
	N(frozen, "1: its control group is frozen")                                  \
	N(throttled_us, "time that its control group's CPU quota has stopped it")    \
	N(tracer, "the process that traces it; 0 none")                              \
	T(nccl, 160, "path of libnccl that it has mapped")                           \
	T(build, 44, "build id of that file")                                        \
	N(cuda, "1: it has CUDA's driver library mapped; 0: it uses no GPU")         \
	N(profiler, "1: NCCL calls the profiler tables; 0: its page has no communicator")

/* Their threads. */
#define SPW_HANG_THREAD_LIST(N, T)                                                       \
	N(pid, "key")                                                                    \
	N(tid, "as this host's /proc has it; key")                                       \
	N(proxy, "1: it makes NCCL's network calls, says the page or its name")          \
	T(name, 20, "")                                                                  \
	T(state, 4, "R S D T t Z X, of /proc/PID/stat")                                  \
	N(utime, "clock ticks")                                                          \
	N(stime, "clock ticks")                                                          \
	N(run_ns, "time on a CPU")                                                       \
	N(wait_ns, "time runnable and not on a CPU")                                     \
	N(cpu, "where it ran last")                                                      \
	T(wchan, 48, "where in the kernel it waits")                                     \
	T(rival, 64, "what else runs on that CPU: \"name (pid N)\"")                     \
	T(frame, 64, "functions of NCCL on its stack, if stacks were asked for; - none") \
	T(stack, 200, "functions on its stack, innermost first, if they were asked for") \
	T(kernel, 160, "the same of the kernel")

/* Communicators, by the live page (NCCL's profiler calls). */
#define SPW_HANG_COMM_LIST(N, T)                                                \
	N(pid, "key")                                                           \
	T(comm, 20, "its hash, 16 hexadecimal digits, alike on all ranks; key") \
	N(rank, "")                                                             \
	N(rank_cnt, "")                                                         \
	N(node_cnt, "")                                                         \
	T(name, 48, "that the program gave it")                                 \
	N(opened_ns, "age")                                                     \
	N(colls, "collectives enqueued so far; a captured graph's once")        \
	N(p2ps, "sends and receives enqueued so far")                           \
	N(sends_begun, "operations of the proxy thread")                        \
	N(sends_ended, "")                                                      \
	N(recvs_begun, "")                                                      \
	N(recvs_ended, "")                                                      \
	T(function, 24, "of the last collective: AllReduce, ...")               \
	N(sequence, "of that function, from 0")                                 \
	N(count, "elements of it")                                              \
	T(datatype, 16, "")                                                     \
	T(algorithm, 16, "RING, TREE, ...")                                     \
	N(root, "")                                                             \
	N(enqueued_ns, "age of the last collective")

/* Connections of spinwire's NCCL plugin, by the live page. */
#define SPW_HANG_CONN_LIST(N, T)                                                    \
	N(pid, "key")                                                               \
	N(entry, "its place on the page; key")                                      \
	N(is_send, "1: this side sends; 0: it receives")                            \
	T(pair, 20, "16 hexadecimal digits, alike at both ends")                    \
	T(comm, 20, "hash of its communicator")                                     \
	T(state, 12, "listening, connecting, ready, failed")                        \
	N(state_ns, "age of that state")                                            \
	N(error, "0, or errno since when every call fails")                         \
	N(tid, "of the thread that transfers, as this host's /proc has it; 0 none") \
	N(calls, "of test so far")                                                  \
	N(begun, "requests so far")                                                 \
	N(ended, "requests so far")                                                 \
	N(oldest_ns, "age of the oldest request under way; -1 none")                \
	N(moved_ns, "age of the last progress")                                     \
	N(called_ns, "age of the last call that was noted, one in 64")              \
	N(waiting, "sends that the peer has not granted a buffer")                  \
	N(granted, "sends whose bytes are not all with the NICs")                   \
	N(posted, "sends that the peer's NIC has not acknowledged")                 \
	N(acked, "sends done, not taken by NCCL")                                   \
	N(receiving, "receives whose bytes have not all arrived")                   \
	N(received, "receives done, not taken by NCCL")                             \
	N(flushing, "reads that push bytes to a GPU")                               \
	N(view_age_ns, "age of all these but calls, begun and ended")               \
	T(peer, 72, "address of the other end, then why it failed")

/* Their rails. */
#define SPW_HANG_RAIL_LIST(N, T)                         \
	N(pid, "key")                                    \
	N(entry, "of its connection; key")               \
	N(rail, "from 0; key")                           \
	T(state, 8, "trying, up")                        \
	T(device, 24, "RDMA device")                     \
	N(qpn, "0 none now")                             \
	N(mbps, "of its port")                           \
	N(open_bytes, "with the NIC, not acknowledged")  \
	N(acked_bytes, "so far")                         \
	N(resent, "chunks left to other rails so far")   \
	N(outages, "so far")                             \
	N(down_ns, "since when it is down; -1 it is up") \
	T(why, 48, "why it is not up, or failed last")

/* RDMA ports. */
#define SPW_HANG_PORT_LIST(N, T)                                          \
	T(device, 24, "key")                                              \
	N(port, "key")                                                    \
	T(netdev, 20, "its network device")                               \
	T(state, 12, "ACTIVE, DOWN, ... of sysfs")                        \
	N(carrier, "1: its network device has a link")                    \
	N(mbps, "")                                                       \
	N(mtu, "of its network device")                                   \
	N(packet_seq_err, "its sends: the peer missed a packet")          \
	N(local_ack_timeout_err, "its sends: no acknowledgement came")    \
	N(rnr_nak_retry_err, "its sends: the peer had no receive posted") \
	N(implied_nak_seq_err, "its sends")                               \
	N(roce_adp_retrans, "its sends: sent again early")                \
	N(req_transport_retries_exceeded, "its sends: gave up")           \
	N(out_of_sequence, "its receives: a packet was missing")          \
	N(duplicate_request, "its receives: a packet came twice")         \
	N(out_of_buffer, "its receives")                                  \
	N(pauses, "pause frames received")                                \
	N(aer, "non-fatal and fatal PCIe errors")

/* Queue pairs of those processes, by netlink. */
#define SPW_HANG_QP_LIST(N, T) \
	T(device, 24, "key")   \
	N(qpn, "key")          \
	N(pid, "")             \
	N(peer_qpn, "")        \
	T(state, 8, "RESET INIT RTR RTS SQD SQE ERR")

/* GPUs that those processes use. */
#define SPW_HANG_GPU_LIST(N, T)                       \
	N(pid, "key: one row for each process on it") \
	N(gpu, "NVML's index; key")                   \
	N(alone, "1: no other process is on it")      \
	N(busy, "percent of time")                    \
	N(memory_busy, "percent of time")             \
	N(power_mw, "")                               \
	N(sm_mhz, "")                                 \
	N(sm_max_mhz, "")                             \
	N(reasons, "NVML's bits: why the clock is low")

/* The last entries of PyTorch's flight recorder, of each group the newest and all that are not
 * completed. */
#define SPW_HANG_OP_LIST(N, T)                        \
	N(pid, "key")                                 \
	T(group, 24, "its process group; key")        \
	N(sequence, "of that group; key")             \
	N(is_p2p, "key")                              \
	N(rank, "global, of the process")             \
	T(function, 32, "nccl:all_reduce, ...")       \
	T(sizes, 64, "of its input and output")       \
	T(state, 12, "scheduled, started, completed") \
	N(age_ns, "since it was created")             \
	T(site, 208, "file:line function of the innermost frame of the program")

/* TCP connections of those processes that are being made. */
#define SPW_HANG_DIAL_LIST(N, T) \
	N(pid, "key")            \
	T(local, 56, "key")      \
	T(remote, 56, "key")     \
	T(state, 12, "SYN_SENT")

/* Addresses of the host. */
#define SPW_HANG_ADDR_LIST(N, T) T(addr, 56, "key: as a number, without the port")

/* Every table: its list, its rows' struct, what it is called. */
#define SPW_HANG_TABLE_LIST(X, P)     \
	X(P, proc, SPW_HANG_PROC)     \
	X(P, thread, SPW_HANG_THREAD) \
	X(P, comm, SPW_HANG_COMM)     \
	X(P, conn, SPW_HANG_CONN)     \
	X(P, rail, SPW_HANG_RAIL)     \
	X(P, port, SPW_HANG_PORT)     \
	X(P, qp, SPW_HANG_QP)         \
	X(P, gpu, SPW_HANG_GPU)       \
	X(P, op, SPW_HANG_OP)         \
	X(P, dial, SPW_HANG_DIAL)     \
	X(P, addr, SPW_HANG_ADDR)

#define SPW_HANG_NUM(name, ...)         struct spw_hang_num name;
#define SPW_HANG_TEXT(name, bytes, ...) char name[bytes];
#define SPW_HANG_ROW(P, name, list)                      \
	struct spw_hang_##name##_row {                   \
		list##_LIST(SPW_HANG_NUM, SPW_HANG_TEXT) \
	};
SPW_HANG_TABLE_LIST(SPW_HANG_ROW, )

enum spw_hang_table { SPW_HANG_TABLE_LIST(SPW_ENUM_VALUE, SPW_HANG_TABLE_) SPW_HANG_TABLE_CNT };

/* Where facts come from. A source that gave nothing says why. */
#define SPW_HANG_SOURCE_LIST(X, P)                                \
	X(P, page, "live pages of spinwire's NCCL plugin")        \
	X(P, profiler, "NCCL's profiler calls, on the live page") \
	X(P, proc, "/proc")                                       \
	X(P, cgroup, "control groups")                            \
	X(P, counters, "counters of the RDMA ports")              \
	X(P, qp, "states of the queue pairs (netlink)")           \
	X(P, gpu, "NVML")                                         \
	X(P, recorder, "PyTorch's flight recorder")               \
	X(P, stacks, "stacks of threads, on request")
enum spw_hang_source { SPW_ENUM(SPW_HANG_SOURCE) };

/* ---- snapshots ---- */

/* One host at one time. Zeroed: empty. */
struct spw_hang_snap {
	bool taken;
	int64_t at_ns;                     /* CLOCK_MONOTONIC of that host */
	char why[SPW_HANG_SOURCE_CNT][64]; /* "": it was read; else why it was not */
#define SPW_HANG_ROWS(P, name, list)        \
	struct spw_hang_##name##_row *name; \
	uint32_t name##_cnt;
	SPW_HANG_TABLE_LIST(SPW_HANG_ROWS, )
};

/* Purpose: a new row at the end of a table, zeroed.
 *   struct spw_hang_conn_row *row = spw_hang_row_add(snap, SPW_HANG_TABLE_conn);
 * Returns: it, until the next row of the same table is added; NULL: no memory, or SPW_HANG_ROW_MAX.
 * Thread: control.
 */
void *spw_hang_row_add(struct spw_hang_snap *snap, enum spw_hang_table table);

/* Purpose: frees all rows; the snapshot is zeroed. Thread: control. */
void spw_hang_snap_free(struct spw_hang_snap *snap);

/* What is read, and where. */
struct spw_hang_where {
	const char *root; /* folder that holds proc, sys, ...; "": this machine */
	uint32_t pid;     /* this process alone; 0: all that this user may read */
	/* The last snapshot: the sources that make a thread of the job work, or may disturb it
	 * (the flight recorder), are asked in this one only, after all others. */
	bool last;
	/* Where PyTorch's flight recorders have been dumped, but for the rank at the end; NULL: as
	 * the variables of the process say, and they are asked for one. */
	const char *torch_dump;
	bool stacks; /* also stacks, in the last snapshot: who takes one stops the process */
	/* The snapshot before, or NULL: processes of it that have ended keep a row, `gone`. */
	const struct spw_hang_snap *before;
};

/* Purpose: takes a snapshot of this host. Reads only; what cannot be read stays unknown, and
 *   snap_out->why says why.
 * Shape: snap_out zeroed. Owner: the caller, until spw_hang_snap_free.
 * Thread: control; takes milliseconds, with where->last up to 2 s,
 *   with stacks SPW_HANG_STACKS_MS more.
 * Errors: -ENOMEM; -EINVAL where->root is no folder.
 */
int spw_hang_read(const struct spw_hang_where *where, struct spw_hang_snap *snap_out);

/* ---- a case ---- */

struct spw_hang_host {
	char name[SPW_HANG_HOST_NAME];
	char silent[64]; /* why nothing came from it; "": it answered */
	struct spw_hang_snap snap[SPW_HANG_SNAP_CNT];
};

/* All that an answer rests on. */
struct spw_hang_case {
	uint32_t host_cnt;
	struct spw_hang_host host[SPW_HANG_HOST_MAX];
};

/* Waits until that moment of CLOCK_MONOTONIC. Returns: false: the snapshots are not wanted any
 * more.
 */
typedef bool spw_hang_nap(uint64_t until_ns, void *arg);

/* Purpose: adds this host with all its snapshots to a case, SPW_HANG_SNAP_MS apart.
 * Shape: where: as of spw_hang_read, which it is passed to; `before` is set here, and `last` of the
 *   last snapshot alone, if it is set. The case has room for one more host.
 * Thread: control; takes 5 s, which are spent in nap.
 * Errors: those of spw_hang_read; -ECANCELED: by nap.
 */
int spw_hang_host_read(const struct spw_hang_where *where, spw_hang_nap *nap, void *arg,
		       struct spw_hang_case *c);

/* Purpose: leaves of a host the processes that belong to the job of one: those with which it shares
 *   connections or communicators, directly or by others. Thread: control. */
void spw_hang_host_focus(struct spw_hang_host *host, int64_t pid);

/* Purpose: frees all snapshots; the case is empty. Thread: control. */
void spw_hang_case_free(struct spw_hang_case *c);

/* Purpose: the case as "spinwire.hangcase/1".
 * Returns: a new reference; NULL: no memory. Thread: control.
 */
struct json_t *spw_hang_case_json(const struct spw_hang_case *c);

/* Purpose: adds the hosts of such a document. Columns that it does not know are passed over, what
 *   has the wrong type or is out of range is unknown.
 * Thread: control.
 * Errors: -EPROTO not such a document; -E2BIG more than SPW_HANG_HOST_MAX hosts; -ENOMEM. Hosts
 *   that were added stay.
 */
int spw_hang_case_read(const struct json_t *doc, struct spw_hang_case *c);

/* ---- the answer ---- */

#define SPW_HANG_LAYER_LIST(X, P)                                                      \
	X(P, process, "the process: it has ended, or a signal or a tracer stopped it") \
	X(P, quota, "its control group: frozen, or out of CPU time")                   \
	X(P, kernel, "the kernel: a thread waits in it")                               \
	X(P, scheduler, "the scheduler: a thread is runnable and gets no CPU")         \
	X(P, nccl, "NCCL itself")                                                      \
	X(P, gpu, "its GPU: slow, or a kernel, stream or event before NCCL's kernel")  \
	X(P, program, "the program: ranks call different things, or one has not come") \
	X(P, loss, "the network: packets are lost")                                    \
	X(P, link, "the network: a link is down or slow")                              \
	X(P, qp, "the network: a queue pair is in error")                              \
	X(P, bootstrap, "the start: a connection is not made")
enum spw_hang_layer { SPW_ENUM(SPW_HANG_LAYER) };

#define SPW_HANG_OUTCOME_LIST(X, P)                   \
	X(P, moves, "no rank stands still")           \
	X(P, culprit, "a rank and a layer are named") \
	X(P, unknown, "the evidence does not suffice")
enum spw_hang_outcome { SPW_ENUM(SPW_HANG_OUTCOME) };

#define SPW_HANG_VERDICT_MAX 4u

/* One place that the others wait for. Texts are of one line, and shown already. */
struct spw_hang_verdict {
	const char *rule; /* its name; "": what holds the others up here is not known */
	bool explained;   /* rule and layer are known */
	enum spw_hang_layer layer;
	char host[SPW_HANG_HOST_NAME], program[32];
	int64_t pid;                               /* on its host; -1: it has none any more */
	int64_t rank;                              /* -1: not known */
	struct spw_hang_num since;                 /* ns */
	char what[160], evidence[320], stack[200]; /* stack: of its main thread, if asked for */
	const char *sure, *todo;                   /* what would make it sure; what to do */
};

struct spw_hang_answer {
	enum spw_hang_outcome outcome;
	bool moves; /* of a culprit: it only slows the others down */
	bool bare;  /* without live pages: that others wait for whom is named, nothing shows */
	/* culprit: who; all of one layer. unknown: who may be, as far as known. */
	struct spw_hang_verdict verdict[SPW_HANG_VERDICT_MAX];
	uint32_t verdict_cnt;
	uint32_t rank_cnt, wait_cnt; /* ranks found; those that wait */
	char missing[320];           /* unknown: why, and what would help */
};

/* Purpose: the answer. Pure: nothing but the case is read; the same case gives the same answer.
 * Shape: answer_out need not be zeroed.
 * Thread: any.
 */
void spw_hang_judge(const struct spw_hang_case *c, struct spw_hang_answer *answer_out);

#define SPW_HANG_LINE_BYTES 1024u

/* Takes one line of an answer, without its end. */
typedef void spw_hang_line(const char *line, void *arg);

/* Purpose: the answer for people, in at most ten lines. Thread: any. */
void spw_hang_answer_lines(const struct spw_hang_answer *answer, spw_hang_line *put, void *arg);

/* Purpose: the answer as "spinwire.hang/1" (share/schema/hang.json).
 * Returns: a new reference; NULL: no memory. Thread: control.
 */
struct json_t *spw_hang_answer_json(const struct spw_hang_answer *answer);

/* Purpose: the words of a layer and an outcome. Thread: any; pure. */
const char *spw_hang_layer_name(enum spw_hang_layer layer);
const char *spw_hang_layer_text(enum spw_hang_layer layer);
const char *spw_hang_outcome_name(enum spw_hang_outcome outcome);

#ifdef __cplusplus
}
#endif
#endif
