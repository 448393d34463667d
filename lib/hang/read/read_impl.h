/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the collectors (read_*.c) share: files below one root folder. "" is this machine. Any other
 * root is a recorded machine with the same paths, and a few files of its own:
 *
 *   proc/PID/fd/N   the page itself, where the running machine has a link to it
 *   now             "TICKS REALTIME_NS": the counter and the clock when it was recorded
 *   addr            addresses of the host, one a line
 *   qp              queue pairs (read_qp.c)
 *   gpu             what NVML answered (read_gpu.c)
 *   proc/PID/stacks what eu-stack or gdb printed (read_stack.c)
 */
#ifndef HANG_READ_IMPL_H
#define HANG_READ_IMPL_H

#include <sys/types.h>

#include "hang/spw_hang.h"

#define HANG_PATH_BYTES 512u

struct hang_read {
	const struct spw_hang_where *where;
	struct spw_hang_snap *snap;
	uint64_t now_tsc; /* 0: not known */
	int64_t now_real_ns;
};

/* ---- files (read_file.c) ---- */

/* Purpose: whether it is the running machine. Thread: control. */
bool hang_is_live(const struct hang_read *r);

/* Purpose: the path of a file below the root. Returns: false: it does not fit. Thread: control. */
bool hang_path(const struct hang_read *r, char out[HANG_PATH_BYTES], const char *fmt, ...)
	SPW_PRINTF(3, 4);

/* Purpose: the bytes of a file, and a byte 0 after them; what exceeds bytes - 1 is cut.
 * Returns: how many; -errno. Thread: control. */
ssize_t hang_bytes(const struct hang_read *r, char *out, size_t bytes, const char *fmt, ...)
	SPW_PRINTF(4, 5);

/* Purpose: its first line. Returns: false, and out is "": it cannot be read. Thread: control. */
bool hang_line(const struct hang_read *r, char *out, size_t bytes, const char *fmt, ...)
	SPW_PRINTF(4, 5);

/* Purpose: the number that a file begins with. Returns: not known: there is none. Thread: control.
 */
struct spw_hang_num hang_number(const struct hang_read *r, const char *fmt, ...) SPW_PRINTF(2, 3);

/* Purpose: the number after a label at the beginning of a line. Thread: any; pure. */
struct spw_hang_num hang_labelled(const char *text, const char *label);

/* Purpose: where a link leads. Returns: false, and out is "": it is none. Thread: control. */
bool hang_link(const struct hang_read *r, char *out, size_t bytes, const char *fmt, ...)
	SPW_PRINTF(4, 5);

/* Purpose: the names in a folder, in their natural order, without those that begin with a dot.
 * Shape: at most max; free each and the list with hang_names_free.
 * Returns: how many; -errno. Thread: control. */
int hang_names(const struct hang_read *r, char ***names_out, int max, const char *fmt, ...)
	SPW_PRINTF(4, 5);
void hang_names_free(char **names, int cnt);

/* ---- collectors: each fills its tables, or says in why[] that it could not ---- */

/* Purpose: the processes under NCCL, with their control groups. Thread: control. */
int hang_procs_read(struct hang_read *r);
/* Purpose: a field of a stat file by its number in proc(5), 4 and above; its state. Thread: any. */
struct spw_hang_num hang_stat_number(const char *stat, uint32_t number);
char hang_stat_state(const char *stat);
/* Purpose: frozen and throttled_us of a process. Thread: control. */
void hang_cgroup_read(struct hang_read *r, struct spw_hang_proc_row *row);
/* Purpose: communicators and connections of each process that has a live page. Thread: control. */
void hang_pages_read(struct hang_read *r);
/* Purpose: the ids in the line "NSpid:\t4711\t12" of a status file, this host's first, and whether
 * a number is one of them. *at: from hang_ns_first. Thread: any; pure. */
const char *hang_ns_first(const char *status);
bool hang_ns_next(const char **at, int64_t *id_out);
bool hang_ns_has(const char *status, int64_t number);
/* Purpose: whether a link leads to a live page; whether the page behind a descriptor is that of the
 * process, not of the one that it was forked from. Thread: control. */
bool hang_is_page_link(const char *link);
bool hang_page_is_of(const struct hang_read *r, int64_t pid, const char *fd);
/* Purpose: threads; after the pages. Thread: control. */
void hang_threads_read(struct hang_read *r);
/* Purpose: RDMA ports. Thread: control. */
void hang_ports_read(struct hang_read *r);
/* Purpose: queue pairs. Thread: control. */
void hang_qps_read(struct hang_read *r);
/* Purpose: adds the queue pairs in netlink messages of a device, of processes that the snapshot
 * has. Returns: 1: more messages follow; 0: the last was among them; -errno: the kernel's, -EPROTO
 * they are malformed. Thread: control. */
int hang_qp_messages(struct hang_read *r, const char *device, const void *messages, size_t bytes);
/* Purpose: PyTorch's flight recorders, in the last snapshot. Thread: control. */
void hang_recorder_read(struct hang_read *r);
/* Purpose: adds the rows of a dump of one, which may hold anything: of each process group the
 * newest entry, and those that are not completed. Errors: those of pickle_read; -EPROTO with a
 * text: no dump. Thread: control. */
int hang_recorder_rows(struct hang_read *r, const struct spw_hang_proc_row *proc, const void *dump,
		       size_t bytes);
/* Purpose: stacks, if they are asked for; after all others. Thread: control. */
void hang_stacks_read(struct hang_read *r);
/* Purpose: what eu-stack or gdb printed of a process, into the rows of its threads. Shape: text is
 * cut up. Thread: control. */
void hang_stack_rows(struct hang_read *r, int64_t pid, char *text);
/* Purpose: GPUs. Thread: control. */
void hang_gpus_read(struct hang_read *r);
/* Purpose: TCP connections that nobody has answered; addresses of the host. Thread: control. */
void hang_tcp_read(struct hang_read *r);

#endif
