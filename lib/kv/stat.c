/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What happened: totals, agents and their rails. Rails of a connection that has ended are shown as
 * they were then.
 */
#include <stdio.h>
#include <string.h>

#include "kv/agent.h"

void spw_kv_stat(struct spw_kv *kv, struct spw_kv_stat *stat_out)
{
	memset(stat_out, 0, sizeof(*stat_out));
	if (kv_enter(kv))
		return;
	*stat_out = kv->stat;
	stat_out->queued_bytes = kv->queued[0] + kv->queued[1];
	stat_out->guests = kv->guest_cnt;
	kv_unlock(kv);
}

static void stat_fill(const struct kv_peer *peer, struct spw_kv_peer_stat *s)
{
	memset(s, 0, sizeof(*s));
	memcpy(s->name, peer->name.byte, peer->name.len);
	s->name_bytes = (uint8_t)peer->name.len;
	s->state = peer->state;
	s->error = peer->error;
	snprintf(s->why, sizeof(s->why), "%s", peer->why);
	s->written_bytes = peer->written_bytes;
	s->read_bytes = peer->read_bytes;
	s->rail_cnt = peer->rail_cnt;
	memcpy(s->rail, peer->rail, sizeof(s->rail));
	if (peer->state != SPW_KV_UP || !peer->conn)
		return;
	while (s->rail_cnt < SPW_XFER_RAIL_MAX &&
	       spw_xfer_conn_rail_stat(peer->conn, s->rail_cnt, &s->rail[s->rail_cnt]))
		s->rail_cnt++;
}

bool spw_kv_peer_stat(struct spw_kv *kv, uint32_t idx, struct spw_kv_peer_stat *stat_out)
{
	const struct kv_peer *peer;
	uint32_t i = 0;

	if (kv_enter(kv))
		return false;
	TAILQ_FOREACH(peer, &kv->peers, link)
	if (i++ == idx) {
		stat_fill(peer, stat_out);
		break;
	}
	kv_unlock(kv);
	return peer != NULL;
}

bool spw_kv_rail_stat(struct spw_kv *kv, uint32_t idx, struct spw_xfer_rail_stat *stat_out)
{
	bool found;

	if (kv_enter(kv))
		return false;
	found = spw_xfer_rail_stat(kv->x, idx, stat_out);
	kv_unlock(kv);
	return found;
}
