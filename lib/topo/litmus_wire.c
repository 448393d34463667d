/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The litmus through the NIC: frames go round and round between executor and NIC, from the port to
 * itself: to its own MAC address, or over a QP that is connected to itself (spw_port_loop). Called
 * by litmus.c for each lane, after litmus_ring.
 *
 *   tx_burst ─► NIC reads slot a ─► NIC writes slot b, CQE ─► rx_burst ─► push ─► executor checks b
 *      ▲                                                                          in place, writes
 *      └──────────────────────────── reap ◄──────────────────────────────────────  the next frame
 *
 * The CPU writes only the first frames; all later ones are the executor's, sent from the slot in
 * which they were received. A queue keeps the order, so the r-th of cnt frames that go round is
 * known when it is received: frame r % cnt of lap r / cnt. The CPU looks at its first and last word
 * (M1), the executor at all.
 *
 * Who was late? After a fault the CPU reads the frame again, for 0.1 s and more. If it becomes
 * right, its bytes came after its completion (receive); if it stays wrong, the NIC sent wrong bytes
 * (echo). It reads many times between short naps: a machine that stands still ends one pause early
 * and not all.
 *
 * A port that cannot send to itself, or whose frames do not come back, is no fault: the outcome
 * says that its NIC was not tested, and why.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "litmus.h"

#define FLIGHT_MAX 32u
#define POLL_MAX   8u           /* frames of a batch */
#define FRAMES_MIN 256u         /* also on a machine that needs long for them */
#define ROOM_MAX   1024u        /* fits every MTU that an interface is likely to have */
#define BACK_NS    500000000ull /* a frame that is not back by then does not come */
#define AGAIN_CNT  50u          /* looks, AGAIN_NS apart: far longer than a write is in flight */
#define AGAIN_NS   2000000
#define QUIET_NS   100000000ull /* frames that do not come for so long are lost */
#define COLLECT_NS 400000000ull /* a frame that was posted is sent by then */

struct wire_part {
	struct litmus *l;
	uint8_t head[SPW_PORT_LOOP_HEAD];
	uint32_t room;
	uint32_t cnt;      /* frames that go round */
	uint32_t flight;   /* of them, those that are under way; fewer at the end */
	uint64_t received; /* by the CPU */
	uint64_t settled;  /* by the executor */
	bool ending;       /* what the executor returns is not sent again */
};

/* The r-th frame received. */
static uint32_t litmus_wire_seq_of(const struct wire_part *part, uint64_t r)
{
	return (uint32_t)(r % part->cnt + r / part->cnt * SPW_LITMUS_STEP) & 0xffff;
}

static uint32_t litmus_wire_len_of(const struct wire_part *part, uint64_t r)
{
	return litmus_len(part->room, (uint32_t)(r % part->cnt));
}

/* Returns: 0. */
static int litmus_wire_not_tested(struct wire_part *part, const char *why)
{
	struct litmus *l = part->l;
	uint16_t port = l->lane->conf.port;

	snprintf(l->out->why_not[port], sizeof(l->out->why_not[port]), "%s", why);
	l->out->nic[port] = false;
	return 0;
}

/* ---- send ---- */

/* Waits for room in the send queue, which frames in flight make. */
static int litmus_wire_send(struct wire_part *part, struct spw_desc **desc, uint16_t cnt)
{
	struct litmus *l = part->l;
	uint16_t sent = 0;
	int rc = 0;

	while (sent < cnt && !rc) {
		uint16_t n = spw_port_tx_burst(l->queue, desc + sent, (uint16_t)(cnt - sent));

		sent = (uint16_t)(sent + n);
		spw_port_events(l->queue, NULL, 0);
		rc = litmus_turn(l, n);
	}
	return rc;
}

/* How many frames have a slot to begin in, at most max. */
static uint32_t litmus_wire_slots_for(const struct wire_part *part, int max)
{
	uint32_t slot[FLIGHT_MAX];
	uint16_t n = spw_port_lend_burst(part->l->queue, slot,
					 (uint16_t)SPW_MIN((uint32_t)max, FLIGHT_MAX));

	spw_port_release_burst(part->l->queue, slot, n);
	return n;
}

/* One of the first frames, which the CPU writes. */
static int litmus_wire_send_first(struct wire_part *part, uint32_t r)
{
	const struct spw_port_caps *caps = &part->l->lane->port->caps;
	struct spw_desc desc = {
		.offset = caps->slot_headroom,
		.len = litmus_wire_len_of(part, r),
		.meta = spw_litmus_meta(litmus_wire_seq_of(part, r)),
		.peer = part->l->lane->conf.queue,
		.region = part->l->lane->pool.region->id,
	};
	struct spw_desc *d = &desc;
	uint8_t *frame;

	if (!spw_port_lend_burst(part->l->queue, &desc.slot, 1))
		return spw_err(ENOSPC,
			       "litmus: port %s has no slot for %u frames: use more --slots",
			       part->l->lane->port->name, part->cnt);
	frame = litmus_frame(part->l, d);
	memset(frame, 0, SPW_LITMUS_HEAD);
	memcpy(frame, part->head, sizeof(part->head));
	litmus_fill(frame, litmus_wire_seq_of(part, r), desc.len);
	part->flight++;
	return litmus_wire_send(part, &d, 1);
}

/* ---- receive ---- */

/* Whether the CPU reads the frame as it should be some time later. */
static bool litmus_wire_becomes_right(const struct litmus *l, const struct spw_desc *d)
{
	const struct timespec pause = {.tv_nsec = AGAIN_NS};
	bool right = false;

	for (uint32_t i = 0; i < AGAIN_CNT && !right; i++) {
		nanosleep(&pause, NULL);
		spw_dma_from_device(); /* as M1: the loads below are later than the pause */
		right = litmus_look(litmus_frame(l, d), d->meta & 0xffff, d->len) < SPW_LITMUS_OLD;
	}
	return right;
}

/* Whether the CPU reads the r-th frame's first and last word where it should be. */
static bool litmus_wire_looks_right(const struct wire_part *part, const struct spw_desc *d,
				    uint64_t r)
{
	const uint8_t *frame = litmus_frame(part->l, d);
	uint32_t seq = litmus_wire_seq_of(part, r), last = (d->len - SPW_LITMUS_HEAD) / 4 - 1,
		 first_word, last_word;

	memcpy(&first_word, frame + SPW_LITMUS_HEAD, 4);
	memcpy(&last_word, frame + SPW_LITMUS_HEAD + 4 * last, 4);
	return first_word == spw_litmus_word(seq, 0) && last_word == spw_litmus_word(seq, last);
}

/* Whether it is one of the frames behind the r-th instead: then frames were lost. */
static bool litmus_wire_is_later(const struct wire_part *part, const struct spw_desc *d, uint64_t r)
{
	for (uint64_t later = r + 1; later < r + part->cnt; later++)
		if (d->len == litmus_wire_len_of(part, later) &&
		    litmus_wire_looks_right(part, d, later))
			return true;
	return false;
}

/* Returns: 0, -EAGAIN: frames were lost; -EIO with a text. */
static int litmus_wire_check_received(struct wire_part *part, struct spw_desc *d, uint64_t r)
{
	uint64_t seen;

	d->meta = spw_litmus_meta(litmus_wire_seq_of(part, r));
	if (spw_likely(d->len == litmus_wire_len_of(part, r) &&
		       litmus_wire_looks_right(part, d, r)))
		return 0;
	if (d->len < SPW_LITMUS_BYTES_MIN || d->len > ROOM_MAX || litmus_wire_is_later(part, d, r))
		return -EAGAIN;
	seen = litmus_look(litmus_frame(part->l, d), d->meta & 0xffff, d->len);
	return litmus_fail(part->l,
			   litmus_wire_becomes_right(part->l, d) ? SPW_LITMUS_receive
								 : SPW_LITMUS_echo,
			   d, seen);
}

/* Polls once and publishes what came. Returns: frames, or an error. */
static int litmus_wire_take(struct wire_part *part)
{
	struct litmus *l = part->l;
	struct spw_gring_batch *batch = spw_gring_next(l->ring);
	uint16_t n = batch ? spw_port_rx_burst(l->queue, batch->desc, POLL_MAX) : 0;

	for (uint16_t i = 0; i < n; i++) {
		int rc = litmus_wire_check_received(part, &batch->desc[i], part->received + i);

		if (!rc)
			continue;
		for (i = 0; i < n; i++)
			spw_port_release_burst(l->queue, &batch->desc[i].slot, 1);
		return rc;
	}
	if (!n)
		return 0;
	part->received += n;
	batch->cnt = n;
	spw_gring_push(l->ring, batch);
	return n;
}

/* ---- and back ---- */

/* The CPU has looked at the frame before, so a wrong word was late or sent wrong: read again to
 * know which. */
static int litmus_wire_answered_wrong(const struct litmus *l, const struct spw_gring_batch *batch,
				      enum spw_litmus_pattern pattern, uint32_t i)
{
	const struct spw_desc *d = &batch->desc[i];

	if (pattern == SPW_LITMUS_publish)
		pattern = litmus_wire_becomes_right(l, d) ? SPW_LITMUS_receive : SPW_LITMUS_echo;
	return litmus_fail(l, pattern, d, batch->digest);
}

/* The first cnt frames were the CPU's, so only later ones prove that the executor's bytes were
 * sent whole. */
static void litmus_wire_count(struct wire_part *part, const struct spw_gring_batch *batch)
{
	struct spw_litmus *out = part->l->out;
	uint64_t before = part->settled, after = before + batch->cnt;

	for (uint32_t i = 0; i < batch->cnt; i++)
		out->bytes += batch->desc[i].len;
	out->frames[SPW_LITMUS_receive] += batch->cnt;
	out->frames[SPW_LITMUS_descriptor] += batch->cnt;
	out->frames[SPW_LITMUS_echo] +=
		after - SPW_MIN(after, SPW_MAX(before, (uint64_t)part->cnt));
	out->round_trips += batch->cnt;
	part->settled = after;
}

/* Sends the frames of a batch again, or releases them at the end. */
static int litmus_wire_forward(struct wire_part *part, struct spw_gring_batch *batch)
{
	struct spw_desc *desc[POLL_MAX];

	for (uint32_t i = 0; i < batch->cnt; i++) {
		desc[i] = &batch->desc[i];
		if (part->ending)
			spw_port_release_burst(part->l->queue, &batch->desc[i].slot, 1);
	}
	if (!part->ending)
		return litmus_wire_send(part, desc, (uint16_t)batch->cnt);
	part->flight -= batch->cnt;
	return 0;
}

/* Returns: whether a batch came back, or an error. */
static int litmus_wire_settle(struct wire_part *part)
{
	struct spw_gring_batch *batch = spw_gring_reap(part->l->ring);
	enum spw_litmus_pattern pattern;
	uint32_t i;
	int rc;

	if (!batch)
		return 0;
	if (!litmus_answered(batch, &pattern, &i)) {
		rc = litmus_wire_answered_wrong(part->l, batch, pattern, i);
		part->ending = true;
		litmus_wire_forward(part, batch);
		return rc;
	}
	litmus_wire_count(part, batch);
	rc = litmus_wire_forward(part, batch);
	spw_gring_retire(part->l->ring, batch);
	return rc ? rc : 1;
}

/* ---- the whole circuit ---- */

static bool litmus_wire_ring_is_empty(const struct spw_gring *ring)
{
	return ring->retired_seq == ring->head_seq;
}

/* One turn. Returns: 0, -EAGAIN: a frame is lost; or an error. */
static int litmus_wire_turn(struct wire_part *part)
{
	struct litmus *l = part->l;
	int took = litmus_wire_take(part), settled = took < 0 ? took : litmus_wire_settle(part);

	if (settled < 0)
		return settled;
	if (!took && !settled && litmus_wire_ring_is_empty(l->ring) &&
	    l->waited_tsc > spw_tsc_from_ns(&l->topo->conf.tsc, BACK_NS))
		return -EAGAIN;
	spw_port_events(l->queue, NULL, 0);
	return litmus_turn(l, took || settled);
}

/* Does turns until none is in flight. */
static int litmus_wire_await_all(struct wire_part *part)
{
	int rc = 0;

	part->ending = true;
	while (!rc && part->flight)
		rc = litmus_wire_turn(part);
	return rc;
}

/* One frame alone shows whether frames come back at all. */
static int litmus_wire_probe(struct wire_part *part)
{
	int rc = litmus_wire_send_first(part, 0);

	rc = rc ? rc : litmus_wire_await_all(part);
	part->ending = false;
	part->received = part->settled = 0;
	return rc;
}

/* Ends like the probe: nothing is under way afterwards. */
static int litmus_wire_circulate(struct wire_part *part)
{
	struct litmus *l = part->l;
	uint64_t begin = spw_tsc_now();
	int rc = 0;

	for (uint32_t r = 0; r < part->cnt && !rc; r++)
		rc = litmus_wire_send_first(part, r);
	while (!rc && (spw_tsc_now() - begin < l->run_tsc || part->settled < FRAMES_MIN))
		rc = litmus_wire_turn(part);
	return rc ? rc : litmus_wire_await_all(part);
}

/* Takes what arrived or was executed meanwhile. Returns: frames. */
static uint32_t litmus_wire_collect_some(struct wire_part *part)
{
	struct litmus *l = part->l;
	struct spw_gring_batch *batch = spw_gring_reap(l->ring);
	struct spw_desc late[POLL_MAX];
	uint32_t n = spw_port_rx_burst(l->queue, late, POLL_MAX);

	for (uint32_t i = 0; i < n; i++)
		spw_port_release_burst(l->queue, &late[i].slot, 1);
	for (uint32_t i = 0; batch && i < batch->cnt; i++, n++)
		spw_port_release_burst(l->queue, &batch->desc[i].slot, 1);
	if (batch)
		spw_gring_retire(l->ring, batch);
	spw_port_events(l->queue, NULL, 0);
	spw_exec_beat(l->exec, 0);
	return n;
}

/* Returns every slot to the port: those in the executor, those that were received late, and those
 * that the NIC has still to send. Waits for frames in flight, as they would be taken
 * for traffic; after a fault too, as far as that goes. */
static void litmus_wire_collect(struct wire_part *part)
{
	struct litmus *l = part->l;
	const struct spw_tsc *tsc = &l->topo->conf.tsc;
	uint64_t whole = 0, quiet = 0;
	struct spw_port_slots slots;

	do {
		uint32_t n = litmus_wire_collect_some(part);
		uint64_t ran = litmus_ran(l);

		whole += ran;
		quiet = n ? 0 : quiet + ran;
		part->flight -= SPW_MIN(n, part->flight);
		spw_port_slots(l->lane->port, l->lane->conf.queue, &slots);
	} while ((slots.in_tx || slots.lent ||
		  (part->flight && quiet < spw_tsc_from_ns(tsc, QUIET_NS))) &&
		 whole < spw_tsc_from_ns(tsc, COLLECT_NS));
}

/* Every slot is returned to the port in any case, since the run starts with them. */
static int litmus_wire_run(struct wire_part *part)
{
	int rc = litmus_wire_probe(part);

	part->l->out->nic[part->l->lane->conf.port] = true;
	if (rc == -EAGAIN)
		rc = litmus_wire_not_tested(part, "frames to itself do not come back");
	else
		rc = rc ? rc : litmus_wire_circulate(part);
	if (rc == -EAGAIN)
		rc = litmus_wire_not_tested(part, "a frame to itself was lost");
	litmus_wire_collect(part);
	return rc;
}

/* The loop ends with its lane: two ports may be of one device, whose frames to itself would come to
 * both, and into the run. */
int litmus_wire(struct litmus *l)
{
	struct wire_part part = {.l = l};
	const struct spw_topo_lane *lane = l->lane;
	int rc;

	if (!lane->pool.region->host_va)
		return litmus_wire_not_tested(
			&part, "the CPU cannot write the first frames into its memory");
	part.room = (uint32_t)SPW_MIN(lane->slot_bytes - lane->port->caps.slot_headroom,
				      (size_t)ROOM_MAX);
	rc = spw_port_loop(lane->port, lane->conf.queue, part.head);
	if (rc < 0)
		return rc == -ENOTSUP ? litmus_wire_not_tested(&part, spw_err_text()) : rc;
	part.cnt = litmus_wire_slots_for(&part, rc);
	rc = part.cnt ? litmus_wire_run(&part)
		      : litmus_wire_not_tested(&part, "no slot is left for a frame of its own "
						      "(--slots)");
	spw_port_loop_end(lane->port);
	return rc;
}
