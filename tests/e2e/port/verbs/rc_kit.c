/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "rc_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"

#define SLOTS      256u
#define SLOT_BYTES 4096u

/* ---- ports ---- */

int kit_end_open(struct kit_end *e, bool is_server, uint16_t tcp_port,
		 const struct kit_end_conf *conf)
{
	const char *driver = getenv(is_server ? "SPW_RC_SERVER" : "SPW_RC_CLIENT");
	char text[400];
	const struct kit_conf pc = {
		.spec = text,
		.queues = conf->queues ? conf->queues : 1,
		.profile = "latency",
		.slots = conf->slots ? conf->slots : SLOTS,
		.slot_bytes = conf->slot_bytes ? conf->slot_bytes : SLOT_BYTES,
	};

	memset(e, 0, sizeof(*e));
	e->is_server = is_server;
	e->window = 64;
	e->bytes_min = 1;
	e->bytes_max = 4096;
	snprintf(text, sizeof(text), "%s:mlx5_%d,mode=rc,%s=127.0.0.1:%u%s%s",
		 driver ? driver : "verbs", is_server, is_server ? "listen" : "connect", tcp_port,
		 conf->keys[0] ? "," : "", conf->keys);
	return kit_port_open(&e->p, is_server, &pc);
}

static void must_open(struct kit_end *e, bool is_server, uint16_t tcp_port,
		      const struct kit_end_conf *conf)
{
	if (kit_end_open(e, is_server, tcp_port, conf))
		fail_msg("%s: %s", conf->keys, spw_err_text());
}

void kit_server(struct kit_end *e, uint16_t tcp_port, const struct kit_end_conf *conf)
{
	must_open(e, true, tcp_port, conf);
}

void kit_client(struct kit_end *e, uint16_t tcp_port, const struct kit_end_conf *conf)
{
	must_open(e, false, tcp_port, conf);
}

void kit_stat(struct kit_end *e, struct spw_port_stat *stat_out)
{
	spw_port_stat(e->p.port, stat_out);
}

void kit_let_go(struct kit_end *e)
{
	while (e->held_cnt)
		spw_port_release_burst(&e->p.port->queue[0], &e->held[--e->held_cnt], 1);
}

void kit_close(struct kit_end *e)
{
	assert_int_equal(spw_port_stop(e->p.port), 0);
	kit_let_go(e); /* lent ones are returned after the stop, too */
	kit_port_close(&e->p);
}

/* ---- messages ---- */

static uint8_t pattern(uint64_t number, uint32_t at)
{
	return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static void fill(uint8_t *m, uint64_t number, uint32_t bytes)
{
	memcpy(m, &number, SPW_MIN(bytes, sizeof(number)));
	for (uint32_t i = sizeof(number); i < bytes; i++)
		m[i] = pattern(number, i);
}

/* Echoes come in the order of what was sent, with the same bytes. */
static bool is_echo(const uint8_t *m, uint64_t number, uint32_t bytes)
{
	if (memcmp(m, &number, SPW_MIN(bytes, sizeof(number))))
		return false;
	for (uint32_t i = sizeof(number); i < bytes; i++)
		if (m[i] != pattern(number, i))
			return false;
	return true;
}

static uint32_t length_of(const struct kit_end *e, uint64_t number)
{
	const uint64_t span = e->bytes_max - e->bytes_min + 1;

	if (e->size)
		return e->size[number % e->size_cnt];
	return e->bytes_min + (uint32_t)(number * 2654435761u % span);
}

static void client_send(struct kit_end *e)
{
	struct spw_port_queue *pq = &e->p.port->queue[0];
	struct spw_desc desc[8], *line[8];
	uint32_t slot[8],
		want = SPW_MIN((uint32_t)SPW_ARRAY_CNT(slot),
			       e->window - SPW_MIN(e->window, (uint32_t)(e->sent - e->echoed)));
	uint16_t n, taken;

	if (!want)
		return;
	n = spw_port_lend_burst(pq, slot, (uint16_t)want);
	for (uint16_t i = 0; i < n; i++) {
		const uint32_t bytes = length_of(e, e->sent + i);

		fill(spw_pool_slot_addr(&e->p.pool[0], slot[i]), e->sent + i, bytes);
		desc[i] = (struct spw_desc){.slot = slot[i], .len = bytes, .flags = SPW_DESC_MSG};
		if (e->imm) {
			desc[i].flags |= SPW_DESC_IMM;
			desc[i].meta = (uint32_t)(e->sent + i) ^ 0xa5a5a5a5;
		}
		line[i] = &desc[i];
	}
	taken = spw_port_tx_burst(pq, line, n);
	e->p.taken += taken;
	e->sent += taken;
	for (uint16_t i = taken; i < n; i++)
		spw_port_release_burst(pq, &line[i]->slot, 1);
}

static void client_take(struct kit_end *e, const struct spw_desc *d)
{
	const uint8_t *m = spw_pool_slot_addr(&e->p.pool[0], d->slot) + d->offset;

	if (e->lossy) { /* what is missing was lost; what comes is in order still */
		uint64_t number;

		memcpy(&number, m, sizeof(number));
		e->bad += number < e->echoed;
		e->echoed = number;
	}
	e->bad += d->len != length_of(e, e->echoed) || !is_echo(m, e->echoed, d->len) ||
		  !(d->flags & SPW_DESC_MSG);
	if (e->imm)
		e->bad += !(d->flags & SPW_DESC_IMM) ||
			  d->meta != ((uint32_t)e->echoed ^ 0xa5a5a5a5);
	e->echoed++;
}

static void end_rx(struct kit_end *e, uint16_t queue)
{
	struct spw_port_queue *pq = &e->p.port->queue[queue];
	struct spw_desc desc[32], *line[32];
	uint16_t n = spw_port_rx_burst(pq, desc, 32), taken = 0;

	e->p.rx[queue] += n;
	for (uint16_t i = 0; i < n; i++) {
		line[i] = &desc[i];
		if (!e->is_server)
			client_take(e, &desc[i]);
	}
	if (e->is_server && e->hold) {
		for (; taken < n; taken++)
			e->held[e->held_cnt++] = line[taken]->slot;
	} else if (e->is_server && n && !e->sink) {
		taken = spw_port_tx_burst(pq, line, n);
		e->p.taken += taken;
	}
	for (uint16_t i = taken; i < n; i++)
		spw_port_release_burst(pq, &line[i]->slot, 1);
}

void kit_end_events(struct kit_end *e, uint16_t queue)
{
	struct spw_port_event ev[4];
	uint16_t n = spw_port_events(&e->p.port->queue[queue], ev, 4);

	for (uint16_t i = 0; i < n; i++) {
		e->up += ev[i].kind == SPW_PORT_EVENT_PEER_UP;
		e->down += ev[i].kind == SPW_PORT_EVENT_PEER_DOWN;
		if (ev[i].kind == SPW_PORT_EVENT_PEER_DOWN)
			memcpy(e->text, ev[i].text, sizeof(e->text));
	}
}

void kit_turn(struct kit_end *const *end, uint32_t cnt, bool send)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (send && !end[i]->is_server && end[i]->up)
			client_send(end[i]);
		for (uint16_t q = 0; q < end[i]->p.port->queue_cnt; q++) {
			end_rx(end[i], q);
			kit_end_events(end[i], q);
		}
	}
}

void kit_until(struct kit_end *const *end, uint32_t cnt, bool send, kit_done *done, const void *arg,
	       const char *what)
{
	const struct timespec nap = {.tv_nsec = 20000};
	const double give_up = kit_seconds() + KIT_WAIT_S;

	while (!done(end, cnt, arg)) {
		if (kit_seconds() > give_up) {
			for (uint32_t i = 0; i < cnt; i++)
				print_message("end %u: sent %lu echoed %lu rx %lu taken %lu up %u "
					      "down %u %s\n",
					      i, end[i]->sent, end[i]->echoed, end[i]->p.rx[0],
					      end[i]->p.taken, end[i]->up, end[i]->down,
					      end[i]->text);
			fail_msg("%s: not within %u s", what, KIT_WAIT_S);
		}
		kit_turn(end, cnt, send);
		nanosleep(&nap, NULL); /* the NIC threads need the cores, too */
	}
}

static bool have_echoes(struct kit_end *const *end, uint32_t cnt, const void *arg)
{
	const uint64_t *want = arg;

	for (uint32_t i = 0; i < cnt; i++)
		if (!end[i]->is_server && end[i]->echoed < want[i])
			return false;
	return true;
}

void kit_pump(struct kit_end *const *end, uint32_t cnt, uint64_t n)
{
	uint64_t want[16] = {0};

	for (uint32_t i = 0; i < cnt; i++)
		want[i] = end[i]->echoed + n;
	kit_until(end, cnt, true, have_echoes, want, "echoes");
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(end[i]->bad, 0);
}

void kit_settle(struct kit_end *const *end, uint32_t cnt)
{
	uint64_t want[16] = {0};

	for (uint32_t i = 0; i < cnt; i++)
		want[i] = end[i]->sent;
	kit_until(end, cnt, false, have_echoes, want, "the last echoes");
	for (uint32_t i = 0; i < cnt; i++) {
		assert_int_equal(end[i]->bad, 0);
		assert_int_equal(end[i]->echoed, end[i]->sent);
	}
}
