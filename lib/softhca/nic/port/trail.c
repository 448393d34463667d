/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Writes the trail of the NIC thread (trail.h). Called by the thread's loop and where frames come
 * and go, under trail_on(): it costs a load and a branch while it is off, and about two clock
 * readings a frame while it is on.
 *
 * The ring belongs to the NIC thread; trail_begin runs before that starts, trail_end when the
 * process exits.
 */
#include "base/spw_err.h"
#include "frame/spw_ident.h"
#include "base/spw_log.h"
#include "softhca/hca_cfg.h"
#include "softhca/nic/port/trail.h"
#include "softhca/nic/port/wire.h"

/* A shorter turn delays no frame by what matters. */
#define GAP_TICKS 4096u

struct trail nic_trail;

void trail_begin(const struct hca_cfg *cfg)
{
	if (!cfg->trail[0] || nic_trail.ring.rec)
		return;
	nic_trail.path = cfg->trail;
	if (spw_trail_open(&nic_trail.ring, cfg->trail_every))
		spw_warn("--trail: %s", spw_err_text());
}

#define GAP_NAME(prefix, name, text) #name ","

void trail_end(void)
{
	static const char names[] = "gap=" TRAIL_GAP_LIST(GAP_NAME, );
	const struct spw_trail *ring = &nic_trail.ring;

	if (ring->rec && spw_trail_write(&ring, 1, names, nic_trail.path))
		spw_warn("--trail: %s", spw_err_text());
}

/* The mark of a plain frame, or of the message that a RoCE packet begins. */
static bool trail_ident(const uint8_t *frame, uint32_t len, struct spw_ident *ident_out)
{
	struct wire_pkt pkt;

	if (spw_ident_find(frame, len, false, ident_out))
		return true;
	return wire_parse(frame, len, true, &pkt) == WIRE_OK && pkt.hdrs & WIRE_H_FIRST &&
	       pkt.hdrs & (WIRE_H_SEND | WIRE_H_WRITE) &&
	       spw_ident_find(pkt.payload, pkt.payload_len, true, ident_out);
}

/* Only what the generator sent carries an identity, and of that one in trail_every is on the
 * trail. */
static bool trail_wants(const uint8_t *frame, uint32_t len, struct spw_ident *ident_out)
{
	return trail_ident(frame, len, ident_out) &&
	       spw_trail_wants(&nic_trail.ring, ident_out->seq);
}

static struct spw_trail_rec *trail_next(enum spw_trail_kind kind, const struct spw_ident *ident)
{
	return spw_trail_next(&nic_trail.ring, kind, 0, ident->flow, ident->seq);
}

/* A turn's end is the next one's beginning, so no time is missing. Long ones are kept as gaps, with
 * what the thread did. */
void trail_round(enum trail_gap turn)
{
	const uint64_t now = spw_cpu_counter();

	if (nic_trail.turn_tsc && now - nic_trail.turn_tsc > GAP_TICKS)
		spw_trail_gap(&nic_trail.ring, (uint8_t)turn, nic_trail.turn_tsc, now);
	nic_trail.turn_tsc = now;
}

/* at[]: the round that read its doorbell began; it is on the cable; the cable is flushed, which
 * trail_flush corrects. */
void trail_sent(const uint8_t *frame, uint32_t len)
{
	struct spw_trail_rec *rec;
	struct spw_ident ident;

	if (!trail_wants(frame, len, &ident))
		return;
	rec = trail_next(SPW_TRAIL_SENT, &ident);
	rec->at[0] = nic_trail.round_tsc;
	rec->at[1] = rec->at[2] = spw_cpu_counter();
}

/* Frames since the last flush became visible to the other end now. */
void trail_flush(void)
{
	struct spw_trail *ring = &nic_trail.ring;
	const uint64_t now = spw_cpu_counter();

	for (; nic_trail.unflushed != ring->cnt; nic_trail.unflushed++) {
		struct spw_trail_rec *rec =
			&ring->rec[nic_trail.unflushed & ((1u << SPW_TRAIL_LOG2) - 1)];

		if (rec->kind == SPW_TRAIL_SENT)
			rec->at[2] = now;
	}
}

void trail_held(const uint8_t *frame, uint32_t len)
{
	struct spw_ident ident;

	if (trail_wants(frame, len, &ident))
		trail_next(SPW_TRAIL_HELD, &ident)->at[0] = spw_cpu_counter();
}

void trail_came(const uint8_t *frame, uint32_t len, uint64_t taken_tsc)
{
	struct spw_trail_rec *rec;
	struct spw_ident ident;

	if (!trail_wants(frame, len, &ident))
		return;
	rec = trail_next(SPW_TRAIL_CAME, &ident);
	rec->at[0] = taken_tsc;
	rec->at[1] = spw_cpu_counter();
}
