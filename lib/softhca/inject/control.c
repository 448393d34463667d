/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The commands of the control socket: what each line does and what is answered (nic_control in
 * nic.h has the list). control_sock.c reads the lines; inject_tick() runs the same commands at
 * the times that fault=at=TIME:COMMAND names. All of it runs with the device lock held, except
 * nic_control, which takes it. A new command is one row of FAULT_COMMANDS (fault.h), or of `cmds`
 * if it only answers, and one line in docs/060.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "softhca/inject/control.h"
#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/port/trace.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/qp.h"

/* ---- commands ---- */

/* The end of a time that begins at now_ns; with 0 for that, its length. */
static int cmd_time(const char *arg, uint64_t now_ns, uint64_t *until_out)
{
	const int64_t ns = fault_time_ns(arg);

	if (ns < 0)
		return spw_err(EINVAL, "\"%s\" is not a time; use ns, us, ms or s", arg);
	*until_out = now_ns + (uint64_t)ns;
	return 0;
}

/* All functions of the port go down (port/link.c). */
static int cmd_link_down(struct nic_dev *nd, const char *arg)
{
	uint64_t until_ns = 0;
	const int rc = cmd_time(arg, nd->now_ns, &until_ns);

	if (rc)
		return rc;
	nic_link_fail(nd, until_ns);
	return 0;
}

/* Responders of RC find no receive WQE until then. */
static int cmd_rnr(struct nic_dev *nd, const char *arg)
{
	return cmd_time(arg, nd->now_ns, &nd->fault->rnr_until_ns);
}

/* The NIC thread sleeps at the beginning of the next round (inject_stall). */
static int cmd_stall(struct nic_dev *nd, const char *arg)
{
	return cmd_time(arg, 0, &nd->fault->stall_ns);
}

/* As if the application had read too slowly: CQ_ERR, and its QPs fail. */
static int cmd_cq_overrun(struct nic_dev *nd, const char *arg)
{
	struct hca_cq *cq = hca_tbl_get(&nd->dev->cqs, (uint32_t)strtoul(arg, NULL, 0));

	if (!cq || !cq->nic)
		return spw_err(ENOENT, "no CQ %s", arg);
	cq_overrun(cq->nic);
	return 0;
}

/* As if the card had found a fault of its own: the queues are flushed, and the event says that no
 * packet was to blame. */
static int cmd_qp_error(struct nic_dev *nd, const char *arg)
{
	struct hca_qp *qp = hca_qp_get(nd->dev, (uint32_t)strtoul(arg, NULL, 0));

	if (!qp || !qp->nic)
		return spw_err(ENOENT, "no QP %s", arg);
	qp_to_err(qp->nic);
	hca_event_qp(qp, HCA_EVENT_QP_FATAL);
	return 0;
}

/* The key stays registered, and every access through it fails, as after a dma-buf's exporter
 * took it back. */
static int cmd_mr_revoke(struct nic_dev *nd, const char *arg)
{
	struct hca_mr *mr = hca_mr_get(nd->dev, (uint32_t)strtoul(arg, NULL, 0));

	if (!mr)
		return spw_err(ENOENT, "no region with key %s", arg);
	mr->revoked = true;
	return 0;
}

/* The end that no handler can soften: tests look at what the other processes and the next start
 * make of it. */
static int cmd_kill(struct nic_dev *nd, const char *arg)
{
	(void)nd, (void)arg;
	return raise(SIGKILL);
}

/* As if the function were removed: no frame arrives, every command fails with EIO, and the
 * application gets DEVICE_FATAL. */
static int cmd_remove(struct nic_dev *nd, const char *arg)
{
	(void)arg;
	nic_gone(nd);
	return 0;
}

/* As if the cable were pulled from a machine that powers its card down then: every port goes down,
 * and soon after all functions leave. */
static int cmd_unplug(struct nic_dev *nd, const char *arg)
{
	(void)arg;
	nd->dev->chip->unplugged_ns = nd->now_ns;
	return 0;
}

/* Frames that arrive wait in the cable until "release". */
static int cmd_hold(struct nic_dev *nd, const char *arg)
{
	(void)arg;
	nd->rx_credit = 0;
	return 0;
}

/* "release": receive without limit; "release=N": receive N frames, then hold again. */
static int cmd_release(struct nic_dev *nd, const char *arg)
{
	nd->rx_credit = *arg ? (uint32_t)strtoul(arg, NULL, 0) : UINT32_MAX;
	return 0;
}

static int cmd_fault(struct nic_dev *nd, const char *arg)
{
	const uint32_t link = nd->fault->link_mbps, port = nd->fault->port_mbps;
	const int rc = fault_set(nd->fault, arg);

	/* Only then: the other half of the port may have set it. */
	if (nd->fault->link_mbps != link || nd->fault->port_mbps != port)
		rate_setup(nd);
	return rc;
}

/* A new file replaces the old one. While a trace is on, ICRCs are computed for every frame, so that
 * what is recorded is what a card would send. */
static int cmd_trace(struct nic_dev *nd, const char *arg)
{
	if (nd->trace) {
		spw_pcapng_close(nd->trace);
		nd->trace = NULL;
	}
	nd->icrc_always = nd->fault->icrc || !nd->cable->trusts;
	if (!*arg || strcmp(arg, "off") == 0)
		return 0;
	nd->icrc_always = true;
	return trace_open(arg, nd->dev->id.name, &nd->trace);
}

/* The answer to every command that changes something: so a script observes its effect in the same
 * line. */
static void status_text(const struct nic_dev *nd, char *answer, size_t bytes)
{
	const struct fault *f = nd->fault;
	char credit[16] = "all";

	if (nd->rx_credit != UINT32_MAX)
		snprintf(credit, sizeof(credit), "%u", nd->rx_credit);
	snprintf(answer, bytes,
		 "ok credit=%s link=%u rx=%llu tx=%llu lost=%llu dup=%llu reordered=%llu "
		 "corrupted=%llu delayed=%llu tx_down=%llu rx_down=%llu tx_too_long=%llu "
		 "rx_too_long=%llu\n",
		 credit, nd->dev->link_up, (unsigned long long)nd->dev->cnt.port_rcv_packets,
		 (unsigned long long)nd->dev->cnt.port_xmit_packets,
		 (unsigned long long)f->hit_cnt[FAULT_HIT_LOST],
		 (unsigned long long)f->hit_cnt[FAULT_HIT_DUP],
		 (unsigned long long)f->hit_cnt[FAULT_HIT_REORDER],
		 (unsigned long long)f->hit_cnt[FAULT_HIT_CORRUPT],
		 (unsigned long long)f->hit_cnt[FAULT_HIT_DELAY],
		 (unsigned long long)f->hit_cnt[FAULT_HIT_DOWN], (unsigned long long)f->rx_down_cnt,
		 (unsigned long long)nd->too_long,
		 (unsigned long long)nd->dev->cnt.rx_oversize_pkts_phy);
}

/* Numbers of all objects of one table: " cq=1,2". */
static size_t objects_list(const struct hca_tbl *t, const char *what,
			   uint32_t (*number)(const void *obj), char *text, size_t bytes)
{
	size_t n = 0;

	for (uint32_t i = 0; i < t->cap && n < bytes; i++)
		if (t->slot[i])
			n += (size_t)snprintf(text + n, bytes - n, "%s%s%s%u", n ? "," : " ",
					      n ? "" : what, n ? "" : "=", number(t->slot[i]));
	return SPW_MIN(n, bytes - 1);
}

static uint32_t cq_number(const void *obj)
{
	return ((const struct hca_cq *)obj)->cqn;
}

static uint32_t qp_number(const void *obj)
{
	return ((const struct hca_qp *)obj)->qpn;
}

static uint32_t mr_number(const void *obj)
{
	return ((const struct hca_mr *)obj)->key;
}

/* "ok cq=1,2 qp=65538 mr=513": what cq-overrun, qp-error and mr-revoke can name. */
static void objects_text(const struct nic_dev *nd, char *answer, size_t bytes)
{
	size_t n = (size_t)snprintf(answer, bytes, "ok");

	n += objects_list(&nd->dev->cqs, "cq", cq_number, answer + n, bytes - n);
	n += objects_list(&nd->dev->qps, "qp", qp_number, answer + n, bytes - n);
	n += objects_list(&nd->dev->mrs, "mr", mr_number, answer + n, bytes - n);
	answer[SPW_MIN(n, bytes - 2)] = '\n';
	answer[SPW_MIN(n, bytes - 2) + 1] = '\0';
}

/* Of the one NIC thread, which all devices of the process share. */
static void thread_text(const struct nic_dev *nd, char *answer, size_t bytes)
{
	struct nic_thread_stat t;

	(void)nd;
	nic_thread_stat(&t);
	snprintf(answer, bytes,
		 "ok naps=%llu switches=%llu lost_us=%llu other_us=%llu late_us=%llu helped=%llu\n",
		 (unsigned long long)t.naps, (unsigned long long)t.switches,
		 (unsigned long long)t.lost_ns / 1000, (unsigned long long)t.other_ns / 1000,
		 (unsigned long long)t.late_ns / 1000, (unsigned long long)nic_helped());
}

/* What a card would not have forgiven the application (struct nic_strict). */
static void strict_text(const struct nic_dev *nd, char *answer, size_t bytes)
{
	snprintf(answer, bytes,
		 "ok doorbell-qpn=%llu doorbell-index=%llu blueflame-half=%llu blueflame-copy=%llu "
		 "cqe-reuse=%llu\n",
		 (unsigned long long)nd->strict.qpn, (unsigned long long)nd->strict.index,
		 (unsigned long long)nd->strict.half, (unsigned long long)nd->strict.copy,
		 (unsigned long long)nd->strict.cqe_reuse);
}

/* A command gets its argument without the line's end. An unknown command is answered, and changes
 * nothing. */
int control_exec(struct nic_dev *nd, const char *line, char *answer, size_t bytes)
{
	static const struct {
		const char *name;
		int (*exec)(struct nic_dev *, const char *); /* NULL: only a question */
		void (*text)(const struct nic_dev *, char *, size_t);
	} cmds[] = {
#define X(word, id, arg) {word, cmd_##id, status_text},
		FAULT_COMMANDS(X)
#undef X
			{"status", NULL, status_text},
		{"objects", NULL, objects_text},
		{"thread", NULL, thread_text},
		{"strict", NULL, strict_text},
	};
	const size_t n = strcspn(line, "= \n");
	char arg[256];

	snprintf(arg, sizeof(arg), "%s", line[n] && line[n] != '\n' ? line + n + 1 : "");
	arg[strcspn(arg, "\r\n")] = '\0';
	for (unsigned i = 0; i < SPW_ARRAY_CNT(cmds); i++) {
		int rc;

		if (strlen(cmds[i].name) != n || strncmp(line, cmds[i].name, n) != 0)
			continue;
		spw_err_clear();
		rc = cmds[i].exec ? cmds[i].exec(nd, arg) : 0;
		if (rc)
			snprintf(answer, bytes, "error %s\n", spw_err_text());
		else
			cmds[i].text(nd, answer, bytes);
		return rc;
	}
	snprintf(answer, bytes, "error no command \"%.*s\"\n", (int)SPW_MIN(n, (size_t)32), line);
	return -EINVAL;
}

/* Called before each command of the application. A device that is gone fails all of them. */
int nic_fault_of(struct hca_dev *dev, const char *command)
{
	if (command && hca_is_gone(dev))
		return EIO;
	return dev->nic && command ? fault_fail(dev->nic->fault, command) : 0;
}

int nic_fault_devx(struct hca_dev *dev, uint32_t opcode)
{
	if (hca_is_gone(dev))
		return -EIO;
	return dev->nic ? fault_fail_devx(dev->nic->fault, opcode) : 0;
}

/* Frames that the command released leave at once, not with the next round. */
void nic_control(struct hca_dev *dev, const char *line, char *answer, size_t answer_bytes)
{
	hca_lock(dev);
	dev->nic->now_ns = nic_now_ns();
	control_exec(dev->nic, line, answer, answer_bytes);
	nic_tx_flush(dev->nic);
	hca_unlock(dev);
}
