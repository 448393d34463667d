/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Messages of 0 B to 16 GiB between memories that the caller registered, over 1 .. 4 rails. A rail
 * is a queue pair (QP) on any RDMA device. Two kinds of transfer, one engine:
 *
 *   rendezvous   spw_xfer_recv grants a buffer to the sender; spw_xfer_send WRITEs into it and ends
 *                with an immediate on each rail. Both sides learn that the message is done.
 *   window       a peer exposes memory once; spw_xfer_put WRITEs into it, and a flag word per rail
 *                follows the data on the same QP. A CPU or a resident kernel polls those words; the
 *                receiver's NIC writes no CQE. Lists of 10^5 pieces are one request.
 *
 * Nothing waits. Every transfer is started and then tested:
 *
 *   spw_xfer_open ─► spw_xfer_mem_reg ─► spw_xfer_listen ─► spw_xfer_accept   until not -EAGAIN
 *                                        spw_xfer_connect                     until not -EAGAIN
 *        spw_xfer_recv / _send / _put / _get / _put_list / _get_list ─► request
 *                                                       ─► spw_xfer_test      until done
 *   spw_xfer_conn_close ─► spw_xfer_mem_dereg ─► spw_xfer_close
 *
 * A thread that has nothing to do may sleep: spw_xfer_arm.
 *
 * Progress happens in spw_xfer_test and spw_xfer_progress: memory only while all is well, plus one
 * epoll_wait(2) every SPW_XFER_HOUSE_US. Setting up a connection, and taking a failed rail down and
 * up again, are system calls of microseconds to milliseconds in the same calls. What may take a
 * second is not: while a QP learns the peer's MAC, a thread of the library waits for it (none is
 * there otherwise), and the others carry on.
 *
 * A message is cut into chunks, which go to the rails by what each has drained, so unequal rails
 * finish together. When a rail fails, both sides first take their QP of it out of service and say
 * so over TCP; only then are its unacknowledged chunks written again over the others. Hence nothing
 * can still arrive over the failed rail when a message is done. The receiver of one that used the
 * rail may ask for its end again although it is done here: some call on the endpoint, for whatever
 * request, writes it. A rail rejoins by itself: after
 * SPW_XFER_REJOIN_MS, and then twice as long each time, up to a minute (a second while no rail is
 * up), the side that connected makes its QP anew, at once if its link comes up; the rail carries
 * messages again once a probe was acknowledged over it. With all rails down messages wait, for
 * conf.gone_ms.
 *
 * Which device of one end is joined to which of the other: those whose addresses are of one subnet,
 * as many as possible. Link-local addresses do not show it: pairs of them are tried until probes
 * arrive; addresses of different subnets are tried where nothing else is left. The connection is
 * made when all pairs are up or were tried; one line of log says which devices are left out, and
 * why.
 *
 * Trust. A peer that was granted a buffer, or to which a window was exposed, may write to it until
 * the connection ends; a grant reaches as far as the registered memory around it, because that is
 * what its key covers: register apart what must stay apart. A window has keys of its own and is
 * exactly its bytes. Exported memory can be read and written by every peer of the endpoint until it
 * is deregistered: a blob says where it is, and does not guard it. What a peer sends is checked; a
 * breach ends that connection, with one line. Without a secret whoever reaches the listener's port
 * may connect, unless the listener hands out handles; bytes on the wire are not encrypted.
 *
 * Thread: one endpoint, with all that belongs to it, is used by one thread at a time ("owner"
 * below): the caller locks if it has several. Endpoints share nothing.
 */
#ifndef SPW_XFER_H
#define SPW_XFER_H

#include "base/spw_order.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_XFER_RAIL_MAX 4u /* of a connection, and of an endpoint */
#define SPW_XFER_PART_MAX 8u /* of a grouped receive */
#define SPW_XFER_REQ_MAX                                                         \
	64u /* under way per connection: sends; parts of receives; puts and gets \
	     */
#define SPW_XFER_WINDOW_MAX   64u           /* exposed per connection and side */
#define SPW_XFER_PIECE_MAX    (1u << 24)    /* of a list */
#define SPW_XFER_BYTES_MAX    (16ull << 30) /* of a message, put, get or piece */
#define SPW_XFER_HANDLE_BYTES 128u
#define SPW_XFER_BLOB_BYTES   32u
#define SPW_XFER_HOUSE_US     1000u /* between two looks at sockets and device events */
#define SPW_XFER_REJOIN_MS    200u  /* before the first attempt to bring a rail back */

struct spw_xfer; /* an endpoint: devices, registered memory, connections */
struct spw_xfer_listener;
struct spw_xfer_conn;
struct spw_xfer_mem;
struct spw_xfer_window; /* a region of the peer's */
struct spw_xfer_req;

/* ---- endpoint ---- */

/* All zero: the defaults. Texts are copied. */
struct spw_xfer_conf {
	/* "mlx5_0+mlx5_1": devices, one rail each; a device may come more than once. "verbs:NAME"
	 * takes plain verbs where direct verbs would do. NULL: every device of this machine whose
	 * port is up and has an address for RoCE v2, up to 4 (lib/plat). */
	const char *rails;
	/* Which of the devices that are found may be taken, in the syntax of NCCL_IB_HCA:
	 * "mlx5_0,mlx5_1:1" beginnings of names, "=mlx5_0" whole ones, "^mlx5_0" all others. NULL:
	 * all. Without effect if `rails` names them. */
	const char *hca;
	/* "10.0.0.1:7000", "[fd00::1]:0": where listeners bind; port 0: any free one. NULL: any
	 * free port of the addresses of all rails that are this host's, and of one more interface,
	 * because a peer may reach only one of them. A listener without a handle binds to the first
	 * of these only. 127.0.0.1 if there is none. */
	const char *bind;
	const char *secret; /* file of 16 .. 256 bytes, as the key secret= of mode=rc; NULL: none */
	const char *gid;    /* index into each rail's GID table; NULL: as rdma_dev_gid chooses */
	uint32_t chunk_bytes; /* longest chunk, 4 KiB .. 1 GiB, a power of 2; 0: 512 KiB */
	uint32_t exchange_ms; /* limit of one exchange, 10 .. 60000; 0: 5000 */
	uint32_t gone_ms;     /* a connection ends after so long without any rail, or without the
			       * peer's word that a rail is down at its end, too; 0: 10000 */
	uint8_t traffic_class;
	uint8_t timeout; /* ACK timeout of 4.096 us * 2^timeout, 1 .. 31; 0: 14 (67 ms) */
	uint8_t retry;   /* 1 .. 7; 0: 7 */
};

/* Purpose: opens the rails' devices. Those found by themselves and not usable are left out;
 *   spw_xfer_rail_stat says why. Those that conf names must be usable.
 * Owner: the caller, until spw_xfer_close.
 * Thread: setup; takes milliseconds (20 ms of it to calibrate the tick counter).
 * Errors: -ENODEV no usable device (the text lists what was found); -EINVAL a key of conf; those of
 *   rdma_dev_open, rdma_dev_gid and spw_oob_secret_read; -ENOMEM; -EMFILE.
 */
int spw_xfer_open(const struct spw_xfer_conf *conf, struct spw_xfer **x_out);

/* Purpose: closes every connection and listener, deregisters every memory, closes the devices. A QP
 *   that looks for its peer's MAC is waited for, a second at most.
 * Shape: NULL is fine.
 * Thread: owner.
 */
void spw_xfer_close(struct spw_xfer *x);

/* ---- memory ---- */

enum spw_xfer_mem_kind {
	SPW_XFER_HOST,   /* the CPU's: malloc, hugepages, cudaHostAlloc, cudaHostRegister */
	SPW_XFER_DMABUF, /* a GPU's, through a dma-buf; addr is the device address */
};

struct spw_xfer_mem_req {
	enum spw_xfer_mem_kind kind;
	void *addr; /* also the address by which transfers name its bytes */
	size_t bytes;
	int dmabuf_fd; /* SPW_XFER_DMABUF; may be closed once no more window will be exposed */
	uint64_t dmabuf_offset; /* of addr in the dma-buf */
	bool exported;          /* every peer of the endpoint may read and write all of it */
};

/* Purpose: registers memory with the device of every rail, for local use, for grants, and for
 *   peers if it is exported.
 * Shape: bytes > 0.
 * Owner: *mem_out is the caller's, until spw_xfer_mem_dereg; the memory outlives it.
 * Thread: owner; takes microseconds to seconds (pages are pinned).
 * Errors: -ENOMEM, -EAGAIN the limit of locked memory, with the remedy; -ENOTSUP the driver
 *   registers no dma-buf, or not this one; -EBADF it does, and dmabuf_fd is not open; -EINVAL;
 *   others with the device's text.
 */
int spw_xfer_mem_reg(struct spw_xfer *x, const struct spw_xfer_mem_req *req,
		     struct spw_xfer_mem **mem_out);

/* Purpose: whether spw_xfer_mem_reg can take dma-bufs: the device of every rail must, because a
 *   message may go over any of them.
 * Returns: 0: all do.
 * Thread: owner; takes microseconds.
 * Errors: -ENOTSUP the driver of a device, which the text names, registers none; others as of
 *   spw_xfer_mem_reg.
 */
int spw_xfer_dmabuf_check(const struct spw_xfer *x);

/* Purpose: ends a registration. Keys that a peer holds become invalid.
 * Shape: NULL is fine.
 * Thread: owner.
 * Errors: -EBUSY a request or an exposed window of this side uses it; it stays registered. Of
 *   exported memory nobody here knows the peers' requests: they end with -EREMOTEIO.
 */
int spw_xfer_mem_dereg(struct spw_xfer_mem *mem);

/* ---- connections ---- */

/* What a peer needs to connect: up to 5 addresses, and a key that only this listener accepts. Plain
 * bytes, to be passed on as they are. The peer tries addresses in a subnet of its own first, and
 * another one whenever one has failed or not answered in 250 ms. */
struct spw_xfer_handle {
	uint8_t byte[SPW_XFER_HANDLE_BYTES];
};

/* Purpose: listens on conf.bind.
 * Shape: handle_out not NULL: only peers that hold this handle may connect. NULL: whoever knows
 *   the secret, or anybody without one; they connect by "host:port" (spw_xfer_listener_text).
 * Owner: the caller, until spw_xfer_listener_close or spw_xfer_close.
 * Thread: owner.
 * Errors: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES with the address; -EIO no random bytes; -ENOMEM.
 */
int spw_xfer_listen(struct spw_xfer *x, struct spw_xfer_handle *handle_out,
		    struct spw_xfer_listener **listener_out);

/* Returns: "10.0.0.1:7000", for messages and for spw_xfer_handle_parse; static while it listens.
 * Thread: owner. */
const char *spw_xfer_listener_text(const struct spw_xfer_listener *listener);

/* Purpose: stops listening. Connections that were accepted live on.
 * Shape: NULL is fine. Thread: owner. */
void spw_xfer_listener_close(struct spw_xfer_listener *listener);

/* Purpose: the handle of "10.0.0.1:7000" or "[fd00::1]:7000" (numbers only).
 * Thread: any.
 * Errors: -EINVAL with the expected form. */
int spw_xfer_handle_parse(const char *text, struct spw_xfer_handle *handle_out);

/* Purpose: connects; to be called again with the same *conn until it returns something else than
 *   -EAGAIN. Never blocks.
 * Shape: *conn is NULL at first, and is set by the first call.
 * Owner: *conn is the caller's, until spw_xfer_conn_close, which may also give up an attempt.
 * Returns: 0: at least one rail was proved by a probe; -EAGAIN: not yet.
 * Thread: owner.
 * Errors: *conn is NULL again. -EINVAL no handle; -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH TCP;
 *   -EACCES another secret, or a handle that it refused; -EPROTONOSUPPORT another version, which
 *   the text names; -EPROTO it does not speak this protocol; -ENETUNREACH no rail leads there: the
 * text says why of each.
 */
int spw_xfer_connect(struct spw_xfer *x, const struct spw_xfer_handle *handle,
		     struct spw_xfer_conn **conn);

/* Purpose: the next connection that a peer has finished making. Never blocks. A peer that is
 *   refused costs one line of log, and nothing else.
 * Owner: *conn_out is the caller's, until spw_xfer_conn_close.
 * Returns: 0; -EAGAIN: none yet.
 * Thread: owner.
 * Errors: -EMFILE, -ENOMEM: no peer can be accepted at the moment.
 */
int spw_xfer_accept(struct spw_xfer_listener *listener, struct spw_xfer_conn **conn_out);

/* Purpose: ends a connection at once: its QPs are destroyed, so no device touches memory for it any
 *   more (one that is looking for its peer's MAC has no rights yet, and is destroyed when it has
 *   found it). Its requests and windows end with it and must not be used again. The peer's requests
 *   fail with -ECONNRESET.
 * Shape: NULL is fine. A sender whose last requests tested done may close: they have arrived.
 * Thread: owner. */
void spw_xfer_conn_close(struct spw_xfer_conn *conn);

/* Returns: 0 while it works, or -errno since when every request fails with it: -ECONNRESET the peer
 *   closed or died; -ETIMEDOUT no rail for conf.gone_ms, or TCP has no answer (conf.gone_ms if a
 *   rail failed, else some 11 s); -EPROTO the peer broke the protocol.
 * Thread: owner. */
int spw_xfer_conn_error(const struct spw_xfer_conn *conn);

/* Returns: one clause: the peer's address, and why the connection ended if it did.
 * Lifetime: that of conn. Thread: owner. */
const char *spw_xfer_conn_text(const struct spw_xfer_conn *conn);

/* ---- rendezvous ---- */

/* Purpose: starts to send. A message goes to the oldest receive that has the same tag and no
 *   message yet; messages of one tag arrive in the order of these calls.
 * Shape: bytes 0 .. SPW_XFER_BYTES_MAX; [addr, addr + bytes) lies in mem; mem may be NULL if bytes
 *   is 0. Any tag.
 * Owner: the bytes are the library's to read until the request is done: acknowledged by the peer's
 *   NIC on all rails.
 * Returns: 0; -EAGAIN: SPW_XFER_REQ_MAX sends are under way: test them, then try again.
 * Thread: owner.
 * Order: what this thread stored before the call is what is sent.
 * Errors: -EINVAL; -ERANGE outside of mem; that of spw_xfer_conn_error.
 */
int spw_xfer_send(struct spw_xfer_conn *conn, struct spw_xfer_mem *mem, const void *addr,
		  uint64_t bytes, uint32_t tag, struct spw_xfer_req **req_out);

/* One receive of a group. */
struct spw_xfer_part {
	struct spw_xfer_mem *mem; /* NULL only if bytes is 0 */
	void *addr;
	uint64_t bytes; /* room; the message may be shorter */
	uint32_t tag;
};

/* Purpose: grants part_cnt buffers to the peer. The request is done when each has a message.
 * Shape: part_cnt 1 .. SPW_XFER_PART_MAX.
 * Owner: the buffers are the library's until the request is done.
 * Returns: 0; -EAGAIN: fewer than part_cnt of SPW_XFER_REQ_MAX parts are free.
 * Thread: owner.
 * Errors: as spw_xfer_send.
 */
int spw_xfer_recv(struct spw_xfer_conn *conn, const struct spw_xfer_part *part, uint32_t part_cnt,
		  struct spw_xfer_req **req_out);

/* Purpose: makes what the NIC has written to GPU memory visible to kernels that start afterwards:
 *   a read of the last bytes over a QP of the same device, on every rail. Of host memory it is done
 *   at once. Memory of this kind can therefore be read by peers, too.
 * Shape: after the receive is done. [addr, addr + bytes) lies in mem.
 * Returns, Errors: as spw_xfer_send. Thread: owner. */
int spw_xfer_flush(struct spw_xfer_conn *conn, struct spw_xfer_mem *mem, void *addr, uint64_t bytes,
		   struct spw_xfer_req **req_out);

/* ---- requests ---- */

/* Purpose: advances the request's connection, and reports whether the request is done; it is freed
 *   then, whether it succeeded or not.
 * Shape: bytes_out: NULL, or room for one length per part: of a receive what arrived, of a list
 *   what was acknowledged (if it failed: of its pieces no matter which), of all others what was
 *   asked.
 * Returns: 0, *done_out says; -errno: it failed, and *done_out is true.
 * Order: of a receive or get that is done all bytes are visible to this thread; a send or put that
 *   is done no longer uses its memory.
 * Thread: owner.
 * Errors: that of spw_xfer_conn_error; -EMSGSIZE the message is longer than its receive (at both
 *   sides; nothing was written); -EREMOTEIO the peer's NIC refused the access of a put or get, or
 *   this device the read of a flush; -ECANCELED spw_xfer_cancel.
 */
int spw_xfer_test(struct spw_xfer_req *req, bool *done_out, uint64_t *bytes_out);

/* The stamps of a request, in ticks of spw_tsc_now. */
struct spw_xfer_stamps {
	uint64_t started;
	uint64_t granted; /* send: the peer's buffer was known; else `started` */
	uint64_t posted;  /* send: its last byte was handed to the NICs; else `granted` */
	uint64_t done;    /* found complete, by any call that advances the connection */
	uint8_t rails;    /* bit i: rail i carried some of it; 0 of flushes */
};

/* Purpose: spw_xfer_test, and the request's stamps.
 * Shape: stamps_out is written if *done_out, and 0 is returned.
 * Thread: owner. */
int spw_xfer_test_stamps(struct spw_xfer_req *req, bool *done_out, uint64_t *bytes_out,
			 struct spw_xfer_stamps *stamps_out);

/* Purpose: posts nothing more of a put, get or list. It is done, with -ECANCELED, once the NICs
 * have done what they were given: soon, if a rail is up. One that they were given all of, or that
 * is done, ends as if it had not been cancelled. Shape: it stays the caller's to test. Which of its
 * bytes have moved is not known. Thread: owner. Errors: -EOPNOTSUPP it is a send, receive or flush.
 */
int spw_xfer_cancel(struct spw_xfer_req *req);

/* Purpose: advances everything of the endpoint by one turn.
 * Returns: completions taken; 0: nothing happened.
 * Thread: owner. */
uint32_t spw_xfer_progress(struct spw_xfer *x);

/* ---- sleeping ---- */

/* Returns: a descriptor for poll(2) and epoll(7), which can be read when there may be something to
 *   do, once spw_xfer_arm has returned 0. Nobody reads it.
 * Owner: the endpoint's. Thread: any. */
int spw_xfer_fd(const struct spw_xfer *x);

/* Purpose: asks for the descriptor to become readable with whatever happens next. To be called
 *   before each sleep, when nothing was left to do; whoever slept calls spw_xfer_progress and tests
 *   its requests, whether the descriptor can be read or the time is over.
 *
 *     spw_xfer_progress, _test, _accept ... until nothing is done
 *     spw_xfer_arm ── 0 ─► poll(fd, timeout) ─► again
 *            └── -EAGAIN ─► again, without sleeping
 *
 * Shape: *timeout_ms_out is what poll(2) takes: -1 without end; at most 10 while a connection is
 *   being made, a rail is down or a peer was silent.
 * Returns: 0; -EAGAIN: something has happened meanwhile.
 * Thread: owner; takes microseconds: system calls, and a doorbell for each rail.
 * Order: a message, put or get that this side is to learn of after the call wakes it. The flag
 * words of a put are memory: no device reports them. */
int spw_xfer_arm(struct spw_xfer *x, int *timeout_ms_out);

/* ---- windows ---- */

/* Purpose: exposes memory to the peer for put and get, until the connection ends. Windows
 *   are numbered 0, 1, 2... in the order of these calls.
 * Shape: [addr, addr + bytes) lies in mem; bytes 1 .. SPW_XFER_BYTES_MAX.
 * Thread: owner; registers the region, which takes microseconds or more.
 * Errors: -ENOSPC SPW_XFER_WINDOW_MAX are exposed; -ERANGE; those of spw_xfer_mem_reg and of
 *   spw_xfer_conn_error. */
int spw_xfer_window_expose(struct spw_xfer_conn *conn, struct spw_xfer_mem *mem, void *addr,
			   uint64_t bytes);

/* Purpose: window number idx of the peer.
 * Shape: idx < SPW_XFER_WINDOW_MAX.
 * Owner: conn's, until spw_xfer_conn_close.
 * Returns: 0; -EAGAIN: the peer has not exposed it yet.
 * Thread: owner.
 * Errors: -EINVAL; that of spw_xfer_conn_error. */
int spw_xfer_window_remote(struct spw_xfer_conn *conn, uint32_t idx,
			   struct spw_xfer_window **window_out);

/* Exported memory, for peers of the endpoint: address, bytes and a key for each device, with a MAC
 * of 24 bits; 32 bytes for 4 rails. Plain bytes, to be passed on as they are. It names the memory
 * until that is deregistered, on all connections of the endpoint. */
struct spw_xfer_blob {
	uint8_t byte[SPW_XFER_BLOB_BYTES];
};

/* Purpose: the blob of a memory that was registered with `exported`. Any number of memories.
 * Thread: owner.
 * Errors: -EINVAL it was not; -ERANGE it has 512 GiB or more. */
int spw_xfer_mem_export(const struct spw_xfer_mem *mem, struct spw_xfer_blob *blob_out);

/* Purpose: a window of the peer, by a blob of its endpoint, for puts, gets and lists. The peer's
 *   memory does not stay registered for it.
 * Shape: any bytes: those that are no blob of the endpoint at the other end, or of it before it was
 *   started again, are refused. One that was forged all the same reaches no more than what the
 *   peer's NIC lets its peers reach.
 * Owner: the caller, until spw_xfer_window_drop or spw_xfer_conn_close.
 * Thread: owner; takes a microsecond.
 * Errors: -EINVAL with what to do; -ENOMEM; that of spw_xfer_conn_error. */
int spw_xfer_window_import(struct spw_xfer_conn *conn, const uint8_t *bytes, size_t len,
			   struct spw_xfer_window **window_out);

/* Purpose: frees an imported window. Puts and gets of it that are under way go on.
 * Shape: NULL is fine. Thread: owner.
 * Errors: -EBUSY a list uses it; -EINVAL it was exposed. */
int spw_xfer_window_drop(struct spw_xfer_window *window);

/* Returns: its bytes. Thread: owner. */
uint64_t spw_xfer_window_bytes(const struct spw_xfer_window *window);

/* One put or get. */
struct spw_xfer_access {
	struct spw_xfer_window *window;
	uint64_t offset; /* in the window */
	struct spw_xfer_mem *mem;
	void *addr;
	uint64_t bytes; /* 0 .. SPW_XFER_BYTES_MAX; a put of 0 bytes writes its flag only */
	/* Put: where its four flag words lie in the window, a multiple of 32; SPW_XFER_NO_FLAG:
	 * it has none. */
	uint64_t flag_offset;
	uint64_t flag; /* 1 .. 2^60 - 1; differs from what the words hold from earlier puts */
};
#define SPW_XFER_NO_FLAG UINT64_MAX

/* A put of 1 .. SPW_XFER_JOIN_BYTES bytes from CPU memory to CPU memory goes out with its flag as
 * one message, which saves the NICs at both ends half of their work, if the bytes end where the
 * flag words begin, those lie at an address of 64 * n + 32, and the peer's device stores the bytes
 * of a WRITE in order, as ibv_query_qp_data_in_order(3) says: a ConnectX on x86 may, on aarch64
 * none does. That answer is for a CPU that reads: a window whose flags a GPU polls has its data
 * elsewhere. Nothing else depends on it. */
#define SPW_XFER_JOIN_BYTES 20u

/* Purpose: writes to the peer's window. Two puts under way may arrive in any order. That its bytes
 *   are there is known to the peer by the put's flag only: to this side, a put that is done was
 *   accepted by the peer's NIC.
 * Shape: within the window and within mem. If a rail fails the same bytes may be written again
 *   until the request is done; the peer therefore reads them, but does not write there.
 * Returns: 0; -EAGAIN: SPW_XFER_REQ_MAX puts and gets are under way.
 * Thread: owner.
 * Order: as spw_xfer_send; the flag's partner is spw_xfer_flag_seen.
 * Errors: -ERANGE outside of window or mem; -EINVAL; -EOPNOTSUPP it has a flag, and a rail of this
 *   side has no atomics (-EREMOTEIO from spw_xfer_test: of the peer's); that of
 * spw_xfer_conn_error.
 */
int spw_xfer_put(struct spw_xfer_conn *conn, const struct spw_xfer_access *access,
		 struct spw_xfer_req **req_out);

/* Purpose: reads from the peer's window (RDMA READ). The bytes are there when the request is done.
 * Shape: flag_offset is SPW_XFER_NO_FLAG. Returns, Errors: as spw_xfer_put. Thread: owner.
 * Order: as spw_xfer_test. */
int spw_xfer_get(struct spw_xfer_conn *conn, const struct spw_xfer_access *access,
		 struct spw_xfer_req **req_out);

/* One piece of a list. */
struct spw_xfer_piece {
	struct spw_xfer_window *window;
	uint64_t offset; /* in the window */
	struct spw_xfer_mem *mem;
	void *addr;
	uint64_t bytes; /* 0 .. SPW_XFER_BYTES_MAX; of 0: mem may be NULL, and nothing moves */
};

/* Purpose: writes a list of pieces to the peer's windows, as one request. Pieces that follow each
 *   other in the list and at both ends move as one, up to a chunk. Pieces of up to 64 KiB go whole
 *   to the rail with the fewest bytes under way. Messages, puts and gets that begin while a list is
 *   under way do not wait for its end.
 * Shape: piece_cnt 0 .. SPW_XFER_PIECE_MAX; each piece within its window and memory. Pieces move in
 *   any order: where they overlap, each byte is of any of them.
 * Owner: the pieces (read again and again, not copied) and their bytes are the library's to read
 *   until the request is done or its connection closed.
 * Returns: 0; -EAGAIN: SPW_XFER_REQ_MAX puts, gets and lists are under way.
 * Thread: owner. Takes some ns a piece for the checks; pieces are posted as there is room, by the
 *   calls that advance the connection.
 * Order: as spw_xfer_put without a flag: when the request is done all bytes are at the peer, who
 *   learns it from a later message, or over TCP. Until then bytes are written in any order, and
 *   again after they were found there: what a rail that failed left is repeated over another. That
 *   is safe because the same bytes go to the same place, and because the request is not done before
 *   both ends have destroyed the QP that failed: nothing arrives late. So the peer does not write
 *   to these bytes, nor conclude from some of them that others are there.
 * Errors: -EINVAL, -ERANGE with the number of the piece, and nothing is written; that of
 *   spw_xfer_conn_error. Of spw_xfer_test: -EREMOTEIO with a piece that the peer's NIC refused; any
 *   others may be written. A refusal takes its rail down for SPW_XFER_REJOIN_MS. */
int spw_xfer_put_list(struct spw_xfer_conn *conn, const struct spw_xfer_piece *piece,
		      uint32_t piece_cnt, struct spw_xfer_req **req_out);

/* Purpose: reads a list of pieces from the peer's windows (RDMA READ), as one request.
 * Shape, Returns, Errors: as spw_xfer_put_list. Thread: owner.
 * Owner: likewise; the pieces' memory is the library's to write.
 * Order: as spw_xfer_test. A READ may be repeated, too: of what the peer changes meanwhile any
 *   state is found, byte by byte. */
int spw_xfer_get_list(struct spw_xfer_conn *conn, const struct spw_xfer_piece *piece,
		      uint32_t piece_cnt, struct spw_xfer_req **req_out);

/* The flag words of a put: four little-endian 64-bit words, 32-byte aligned. Word i is swapped by
 * an atomic over rail i, after all of the put's data that went over rail i. The first put to a
 * place whose words are not 0 takes a round trip more, which finds out what they are:
 *
 *   bit 63 .. 4   the flag
 *   bit 3 .. 0    which rails carried the put; only those words are written
 *
 * The put has arrived when some word has the flag, and every word that this one names is equal to
 * it.
 *
 * Purpose: whether the put with this flag has arrived.
 * Shape: word is the address of the first of the four words, in memory that this CPU can read.
 * Order: [X1 acquire, pairs with the NIC's atomic on the word, before which the WRITEs of the same
 * QP are in memory (IBTA volume 1, o9-20); in a joined put with the NIC storing the bytes of one
 *   WRITE in their order].
 * Thread: any. */
SPW_INLINE bool spw_xfer_flag_seen(const uint64_t *word, uint64_t flag)
{
	for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++) {
		const uint64_t v = spw_dma_load(&word[i]);
		bool all = v >> 4 == flag;

		if (!all)
			continue;
		for (uint32_t j = 0; j < SPW_XFER_RAIL_MAX; j++)
			if (v >> j & 1u)
				all &= spw_dma_load(&word[j]) == v;
		if (!all)
			continue;
		spw_dma_from_device(); /* [X1] */
		return true;
	}
	return false;
}

/* ---- what happened ---- */

enum spw_xfer_rail_state {
	SPW_XFER_RAIL_UNUSED, /* not part of this connection, or left out by spw_xfer_open */
	SPW_XFER_RAIL_TRYING, /* being made, or waiting for the next attempt */
	SPW_XFER_RAIL_UP,
};

/* One rail of a connection, or one device that the endpoint found. Totals since start. */
struct spw_xfer_rail_stat {
	char device[64]; /* as ibv_devices prints it */
	enum spw_xfer_rail_state state;
	bool direct;                  /* direct verbs; else plain verbs */
	uint32_t mbps;                /* of the port; 0 unknown */
	uint32_t mtu;                 /* path MTU in bytes */
	uint64_t tx_bytes, tx_chunks; /* acknowledged: messages, puts; read by gets */
	uint64_t resent_chunks;       /* chunks that it left to other rails when it failed */
	uint64_t outages, outage_ns;  /* times it failed, and how long it was down; finished ones */
	char why[128];                /* why it is not UP, or failed last; "" never */
	uint8_t peer_idx; /* of a connection's rail: the peer's device that it leads to, in the
			   * order of the peer's endpoint */
};

/* Purpose: the devices of the endpoint, the ones left out included.
 * Shape: idx from 0.
 * Returns: false: there is no such entry.
 * Thread: owner. */
bool spw_xfer_rail_stat(const struct spw_xfer *x, uint32_t idx,
			struct spw_xfer_rail_stat *stat_out);

/* Purpose: rail idx of a connection.
 * Shape: idx < SPW_XFER_RAIL_MAX; flag words and masks name rails by this number, which is the same
 *   on both sides.
 * Returns: false: the connection has fewer.
 * Thread: owner. */
bool spw_xfer_conn_rail_stat(const struct spw_xfer_conn *conn, uint32_t idx,
			     struct spw_xfer_rail_stat *stat_out);

/* What a connection does now. Moments are of spw_tsc_now; 0: none. */
struct spw_xfer_look {
	uint64_t oldest_tsc; /* when the oldest request began that the caller has not tested done */
	/* Such sends, by the stage that they have reached. */
	uint32_t waiting; /* no grant of the peer's */
	uint32_t granted; /* not all bytes are with the NICs */
	uint32_t posted;  /* not acknowledged by the peer's NIC */
	uint32_t acked;
	uint32_t receiving, received; /* such receives: with parts missing; complete */
	uint32_t flushing;
	struct {
		uint32_t qpn;        /* 0: it has no QP */
		uint64_t open_bytes; /* with the NIC, not acknowledged */
		uint64_t down_tsc;   /* since when it is down; 0: it is up, or never was */
	} rail[SPW_XFER_RAIL_MAX];
};

/* Purpose: shows it. Reads every request of the connection: some microseconds. Thread: owner. */
void spw_xfer_conn_look(const struct spw_xfer_conn *conn, struct spw_xfer_look *look_out);

/* Returns: a number that both ends of this connection have, and no other connection; not 0.
 * Thread: owner. */
uint64_t spw_xfer_conn_pair(const struct spw_xfer_conn *conn);

/* Totals of an endpoint since start. */
struct spw_xfer_stat {
	uint64_t tx_msgs, tx_bytes; /* sends that are done */
	uint64_t rx_msgs, rx_bytes; /* receives that are done */
	uint64_t puts, gets, access_bytes;
	uint64_t resent_chunks, outages;
	uint64_t conns_up, conns_lost; /* lost: ended otherwise than by spw_xfer_conn_close */
	uint64_t refused;              /* peers refused at the exchange */
	uint64_t protocol;             /* connections ended by a breach of the protocol */
};

/* Purpose: the totals. Thread: owner. */
void spw_xfer_stat(const struct spw_xfer *x, struct spw_xfer_stat *stat_out);

#ifdef __cplusplus
}
#endif
#endif
