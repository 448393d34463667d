/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The litmus of a topology (spw_topo_litmus.h): for each lane an executor of its own is opened over
 * the topology's regions, then litmus_ring.c passes frames between CPU and executor, and
 * litmus_wire.c sends them through the NIC. Called once by the program, between spw_topo_open and
 * spw_topo_start.
 *
 *   lane 0:  open executor ─ start ─ ring ─ wire ─ stop ─ close      lane 1: the same ...
 *
 * What is shared by both parts is here: the frames, the waiting, and the text of a failure. The
 * topology's own executor is open meanwhile but does not run, so its counters stay 0.
 */
#include "litmus.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "topo.h"

#define QUICK_NS   40000000ull   /* each part, over all lanes */
#define LONG_NS    5000000000ull /* likewise */
#define STUCK_NS   2000000000ull
#define SERVICE_NS 1000000ull
#define IDLE_SPINS 1024u /* turns before the core is yielded: executor or NIC may need it */
#define BATCHES    16u   /* few, so that a ring's laps, and the slots, come round often */

const char *spw_litmus_pattern_name(enum spw_litmus_pattern pattern)
{
	static const struct spw_enum_word word[] = {SPW_ENUM_WORDS(SPW_LITMUS)};

	return SPW_ENUM_NAME(word, pattern);
}

/* ---- frames ---- */

/* Lengths differ from frame to frame, so that a stale length shows in the number of words. */
uint32_t litmus_len(uint32_t room, uint32_t seq)
{
	uint32_t steps = (room - SPW_LITMUS_BYTES_MIN) / 4 + 1;

	return SPW_LITMUS_BYTES_MIN + (seq & 0xffff) * 29 % steps * 4;
}

/* The head of a frame is the port's; only what follows it is a pattern. */
void litmus_fill(uint8_t *frame, uint32_t seq, uint32_t len)
{
	for (uint32_t at = SPW_LITMUS_HEAD; at + 4 <= len; at += 4) {
		uint32_t w = spw_litmus_word(seq, (at - SPW_LITMUS_HEAD) / 4);

		memcpy(frame + at, &w, sizeof(w));
	}
}

/* Sums of right, earlier and unknown words in one number (exec/spw_litmus.h). */
uint64_t litmus_look(const uint8_t *frame, uint32_t seq, uint32_t len)
{
	uint64_t sum = 0;

	for (uint32_t at = SPW_LITMUS_HEAD; at + 4 <= len; at += 4) {
		uint32_t w;

		memcpy(&w, frame + at, sizeof(w));
		sum += spw_litmus_judge(w, seq, (at - SPW_LITMUS_HEAD) / 4);
	}
	return sum;
}

uint8_t *litmus_frame(const struct litmus *l, const struct spw_desc *desc)
{
	return spw_pool_slot_addr(&l->lane->pool, desc->slot) + desc->offset;
}

/* ---- the loop ---- */

/* Time that this thread was preempted counts for little: a machine that stands still is no fault.
 */
uint64_t litmus_ran(struct litmus *l)
{
	return spw_tsc_ran(&l->topo->conf.tsc, &l->turn_tsc);
}

/* Gives up only when nothing has moved for STUCK_NS of time in which this thread ran. */
int litmus_turn(struct litmus *l, bool moved)
{
	const struct spw_tsc *tsc = &l->topo->conf.tsc;
	uint64_t ran = litmus_ran(l), now = l->turn_tsc;

	spw_exec_beat(l->exec, 0);
	if (now - l->serviced_tsc > spw_tsc_from_ns(tsc, SERVICE_NS)) {
		l->serviced_tsc = now;
		if (spw_exec_service(l->exec) < 0)
			return -EIO;
	}
	if (moved) {
		l->waited_tsc = 0;
		l->idle = 0;
		return 0;
	}
	spw_cpu_relax();
	if (++l->idle > IDLE_SPINS)
		sched_yield();
	l->waited_tsc += ran;
	if (l->waited_tsc < spw_tsc_from_ns(tsc, STUCK_NS))
		return 0;
	return spw_err(EIO,
		       "litmus: nothing came back from executor %s for 2 s: use another "
		       "--executor, or start without the test (--litmus off)",
		       l->backend->name);
}

/* ---- what went wrong ---- */

/* Whether all words were right and every verdict an echo; if not, the outputs name what was wrong
 * first. */
bool litmus_answered(const struct spw_gring_batch *batch, enum spw_litmus_pattern *pattern_out,
		     uint32_t *frame_out)
{
	uint32_t words = 0;

	for (uint32_t i = 0; i < batch->cnt; i++)
		words += (batch->desc[i].len - SPW_LITMUS_HEAD) / 4;
	*frame_out = batch->verdict[1] ? (uint32_t)__builtin_ctzll(batch->verdict[1]) : 0;
	*pattern_out = batch->bad[SPW_BAD_checksum] ? SPW_LITMUS_publish : SPW_LITMUS_descriptor;
	return !batch->verdict[1] && spw_litmus_good(batch->digest) == words &&
	       __builtin_popcountll(batch->verdict[0]) == (int)batch->cnt;
}

/* What each pattern shows about the machine, and what can be done. */
static const char *litmus_pattern_text(enum spw_litmus_pattern pattern)
{
	switch (pattern) {
	case SPW_LITMUS_publish:
		return "the executor read a frame before the CPU's last bytes were there";
	case SPW_LITMUS_descriptor:
		return "the executor used a descriptor of which a part was of another lap";
	case SPW_LITMUS_answer:
		return "the CPU read a frame before the executor's last bytes were there";
	case SPW_LITMUS_receive:
		return "a completion came before the last bytes of its frame; turn off relaxed "
		       "ordering of the NIC";
	default:
		return "the NIC read a frame before the last bytes were written";
	}
}

/* One text with everything that is known: the run does not start, and a user has only this line. */
int litmus_fail(const struct litmus *l, enum spw_litmus_pattern pattern,
		const struct spw_desc *desc, uint64_t seen)
{
	return spw_err(EIO,
		       "litmus: pattern %s failed on port %s, memory %s, executor %s, after %lu "
		       "frames: %s. Frame %u of %u bytes in slot %u: %u words right, %u of an "
		       "earlier frame, %u unknown. Use another --memory or --executor; --litmus "
		       "off starts without the test",
		       spw_litmus_pattern_name(pattern), l->lane->port->name,
		       spw_mem_kind_name(l->topo->region[l->lane->region].kind), l->backend->name,
		       (unsigned long)l->out->frames[pattern], litmus_pattern_text(pattern),
		       desc->meta & 0xffff, desc->len, desc->slot, spw_litmus_good(seen),
		       spw_litmus_old(seen), spw_litmus_bad(seen));
}

/* ---- one lane ---- */

/* An executor of its own, as the topology's must not have counted anything when the run begins. */
static int litmus_exec_open(struct litmus *l, uint32_t lane, const struct spw_handler *handler)
{
	const struct spw_topo_conf *tc = &l->topo->conf;
	uint32_t ctas = l->backend->ctas;
	struct spw_exec_conf ec = {
		.kind = l->backend->kind,
		.handler = handler,
		.ring_cnt = 1,
		.batch_cnt = SPW_MAX(BATCHES, spw_pow2_ceil32(ctas)),
		.region = l->topo->region,
		.region_cnt = (uint16_t)l->topo->region_cnt,
		.cpu = tc->exec.cpu ? &tc->exec.cpu[lane] : NULL,
		.cta_per_ring = (uint16_t)ctas,
		.beat_timeout_ms = tc->exec.beat_timeout_ms,
		.life_ms = tc->exec.life_ms,
		.numa_node = l->lane->conf.numa_node,
	};
	int rc = spw_exec_open(&ec, &l->exec);

	if (rc)
		return rc;
	l->ring = spw_exec_ring(l->exec, 0);
	spw_gring_bind(l->ring, &l->lane->pool);
	rc = spw_exec_start(l->exec);
	if (rc)
		spw_exec_close(l->exec);
	return rc;
}

/* An executor that was found wrong may also not end; the first error is the one to report. */
static int litmus_exec_close(struct litmus *l, int rc)
{
	char text[SPW_ERR_TEXT_BYTES];
	int stopped;

	snprintf(text, sizeof(text), "%s", spw_err_text());
	stopped = spw_exec_stop(l->exec, TOPO_EXEC_STOP_MS);
	if (stopped == -EBUSY)
		return stopped;
	spw_exec_close(l->exec);
	return rc ? spw_err(-rc, "%s", text) : stopped;
}

/* One lane with one of the executors that it may use; the NIC takes part with the first. */
static int litmus_lane_test(struct spw_topo *topo, uint32_t i, uint32_t backend,
			    const struct spw_handler *handler, struct spw_litmus *out)
{
	const uint64_t ns = (out->level == SPW_LITMUS_LONG ? LONG_NS : QUICK_NS) / topo->lane_cnt;
	struct spw_topo_lane *lane = topo->lane[i];
	struct litmus l = {
		.topo = topo,
		.lane = lane,
		.backend = &topo->backend[backend],
		.queue = &lane->port->queue[lane->conf.queue],
		.out = out,
		.run_tsc = spw_tsc_from_ns(&topo->conf.tsc, ns),
	};
	uint64_t begin;
	int rc = litmus_exec_open(&l, i, handler);

	if (rc)
		return spw_err_ctx(rc, "litmus");
	begin = l.turn_tsc = l.serviced_tsc = spw_tsc_now();
	rc = litmus_ring(&l);
	rc = rc || backend ? rc : litmus_wire(&l);
	out->ns += spw_tsc_to_ns(&topo->conf.tsc, spw_tsc_now() - begin);
	return litmus_exec_close(&l, rc);
}

/* ---- all lanes ---- */

static void litmus_log_outcome(const struct spw_topo *topo, const struct spw_litmus *out)
{
	char nic[512] = "";
	size_t n = 0;

	for (uint32_t p = 0; p < topo->port_cnt && n < sizeof(nic); p++)
		n += (size_t)snprintf(nic + n, sizeof(nic) - n,
				      out->nic[p] ? "" : "; NIC of %s not tested: %s",
				      topo->port[p]->name, out->why_not[p]);
	spw_info("litmus %s: %s: %lu frames between CPU and executor, %lu through the NIC and "
		 "back, in %.3f s (%.0f frames/s)%s",
		 out->level == SPW_LITMUS_LONG ? "long" : "quick",
		 out->round_trips ? "passed" : "nothing could be tested",
		 (unsigned long)out->frames[SPW_LITMUS_answer],
		 (unsigned long)out->frames[SPW_LITMUS_receive], (double)out->ns * 1e-9,
		 (double)out->round_trips * 1e9 / (double)SPW_MAX(out->ns, 1u), nic);
}

/* Lanes one after the other: together they would share the cores, and a fault could not be placed.
 */
int spw_topo_litmus(struct spw_topo *topo, enum spw_litmus_level level,
		    const struct spw_handler *handler, struct spw_litmus *out)
{
	int rc = 0;

	memset(out, 0, sizeof(*out));
	out->level = level;
	for (uint32_t i = 0; level != SPW_LITMUS_OFF && i < topo->lane_cnt && !rc; i++)
		for (uint32_t w = 0; w < topo->backend_cnt && !rc; w++)
			rc = litmus_lane_test(topo, i, w, handler, out);
	if (!rc && level != SPW_LITMUS_OFF)
		litmus_log_outcome(topo, out);
	return rc;
}
