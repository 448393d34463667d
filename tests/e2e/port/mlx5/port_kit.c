/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "port_kit.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"

#define HEAD_BYTES 50u /* Ethernet, IPv4, UDP, and our 8-byte number */

static void must_open(struct kit_port *p, uint16_t index, const struct kit_conf *conf)
{
	if (kit_port_open(p, index, conf))
		fail_msg("%s: %s", conf->spec, spw_err_text());
}

void kit_open(struct kit_run *run, const struct kit_conf *a, const struct kit_conf *b)
{
	memset(run, 0, sizeof(*run));
	must_open(&run->a, 0, a);
	must_open(&run->b, 1, b);
	run->bytes_min = 64;
	run->bytes_max = 1514;
	run->flows = 64;
	run->window = 256;
}

void kit_close(struct kit_run *run)
{
	kit_port_close(&run->a);
	kit_port_close(&run->b);
}

/* ---- frames ---- */

static uint8_t pattern(uint64_t number, uint32_t at)
{
	return (uint8_t)(number * 31 + at * 7);
}

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static uint32_t ip_checksum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16)) & 0xffff;
}

static void fill(uint8_t *f, uint64_t number, uint32_t flow, uint32_t bytes)
{
	static const uint8_t head[] = {2, 0, 0, 0, 0, 2,  2,  0, 0, 0,   0,  1, 8, 0,   0x45, 0, 0,
				       0, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18,   0, 2};

	memcpy(f, head, sizeof(head));
	put16(f + 16, bytes - 14);
	put16(f + 24, ip_checksum(f + 14));
	put16(f + 34, 1024 + flow);
	put16(f + 36, 9);
	put16(f + 38, bytes - 34);
	put16(f + 40, 0);
	memcpy(f + 42, &number, sizeof(number));
	for (uint32_t i = HEAD_BYTES; i < bytes; i++)
		f[i] = pattern(number, i);
}

static bool is_whole(const uint8_t *f, uint32_t bytes)
{
	uint64_t number;

	memcpy(&number, f + 42, sizeof(number));
	for (uint32_t i = HEAD_BYTES; i < bytes; i++)
		if (f[i] != pattern(number, i))
			return false;
	return bytes >= 60;
}

/* ---- one turn ---- */

void kit_events(struct kit_port *p)
{
	for (uint16_t q = 0; q < p->port->queue_cnt; q++) {
		struct spw_port_event ev[4];
		uint16_t n = spw_port_events(&p->port->queue[q], ev, 4);

		for (uint16_t i = 0; i < n; i++) {
			p->events.cnt[ev[i].kind]++;
			if (ev[i].kind == SPW_PORT_EVENT_QUEUE_BACK)
				p->events.outage_ns = ev[i].outage_ns;
			if (ev[i].kind == SPW_PORT_EVENT_QUEUE_ERROR)
				memcpy(p->events.text, ev[i].text, sizeof(ev[i].text));
			if (ev[i].kind == SPW_PORT_EVENT_PEER_UP)
				memcpy(p->events.up, ev[i].text, sizeof(ev[i].text));
			if (ev[i].kind == SPW_PORT_EVENT_PEER_DOWN)
				memcpy(p->events.down, ev[i].text, sizeof(ev[i].text));
		}
	}
}

void kit_send(struct kit_run *run)
{
	uint32_t queues = run->a.port->queue_cnt,
		 q = (uint32_t)(run->sent / 8 % queues); /* 8: a burst */
	struct spw_port_queue *pq = &run->a.port->queue[q];
	struct spw_pool *pool = &run->a.pool[q];
	struct spw_desc desc[8], *ptr[8];
	uint32_t slot[8];
	uint16_t n = spw_port_lend_burst(pq, slot, 8), sent;

	for (uint16_t i = 0; i < n; i++) {
		uint64_t number = run->sent + i;
		uint32_t bytes = run->bytes_min +
				 (uint32_t)(number * 13 % (run->bytes_max - run->bytes_min + 1));

		fill(spw_pool_slot_addr(pool, slot[i]), number, (uint32_t)(number % run->flows),
		     bytes);
		desc[i] = (struct spw_desc){.slot = slot[i], .len = bytes};
		desc[i].peer =
			q + queues * (uint32_t)(number % (SPW_MAX(run->peers, queues) / queues));
		ptr[i] = &desc[i];
	}
	sent = spw_port_tx_burst(pq, ptr, n);
	for (uint16_t i = sent; i < n; i++)
		spw_port_release_burst(pq, &ptr[i]->slot, 1);
	run->sent += sent;
	run->a.taken += sent;
}

void kit_send_bytes(struct kit_run *run, const uint8_t *frame, uint32_t bytes)
{
	struct spw_port_queue *pq = &run->a.port->queue[0];
	struct spw_desc desc = {.len = bytes}, *ptr = &desc;

	assert_int_equal(spw_port_lend_burst(pq, &desc.slot, 1), 1);
	memcpy(spw_pool_slot_addr(&run->a.pool[0], desc.slot), frame, bytes);
	assert_int_equal(spw_port_tx_burst(pq, &ptr, 1), 1);
	run->a.taken++;
}

void kit_receive_bytes(struct kit_port *p, struct spw_desc *desc_out, uint8_t *bytes_out)
{
	uint16_t q = 0;

	for (double start = kit_seconds(); !spw_port_rx_burst(&p->port->queue[q], desc_out, 1);
	     q = (uint16_t)((q + 1) % p->port->queue_cnt))
		if (kit_seconds() - start > KIT_WAIT_S)
			fail_msg("no frame came");
	p->rx[q]++;
	if (bytes_out)
		memcpy(bytes_out,
		       spw_pool_slot_addr(&p->pool[q], desc_out->slot) + desc_out->offset,
		       desc_out->len);
	spw_port_release_burst(&p->port->queue[q], &desc_out->slot, 1);
}

void kit_receive(struct kit_port *p, struct spw_desc *desc_out)
{
	kit_receive_bytes(p, desc_out, NULL);
}

static void echo_some(struct kit_port *p, uint16_t q)
{
	struct spw_port_queue *pq = &p->port->queue[q];
	struct spw_desc desc[SPW_BURST_MAX], *ptr[SPW_BURST_MAX];
	uint16_t n = spw_port_rx_burst(pq, desc, SPW_BURST_MAX), sent;

	p->rx[q] += n;
	for (uint16_t i = 0; i < n; i++)
		ptr[i] = &desc[i];
	sent = n ? spw_port_tx_burst(pq, ptr, n) : 0;
	for (double start = kit_seconds();
	     p->echoes_all && sent < n && kit_seconds() - start < KIT_WAIT_S; sched_yield())
		sent = (uint16_t)(sent + spw_port_tx_burst(pq, &ptr[sent], (uint16_t)(n - sent)));
	p->taken += sent;
	for (uint16_t i = sent; i < n; i++)
		spw_port_release_burst(pq, &ptr[i]->slot, 1);
}

static void take_echoes(struct kit_run *run, uint16_t q)
{
	struct spw_port_queue *pq = &run->a.port->queue[q];
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	uint16_t n = spw_port_rx_burst(pq, desc, SPW_BURST_MAX);

	run->a.rx[q] += n;
	for (uint16_t i = 0; i < n; i++) {
		const uint8_t *f =
			spw_pool_slot_addr(&run->a.pool[q], desc[i].slot) + desc[i].offset;

		run->bad += !is_whole(f, desc[i].len);
		slot[i] = desc[i].slot;
	}
	spw_port_release_burst(pq, slot, n);
	run->echoed += n;
}

void kit_echo(struct kit_run *run)
{
	for (uint16_t q = 0; q < run->b.port->queue_cnt; q++)
		echo_some(&run->b, q);
	kit_events(&run->b);
}

void kit_turn(struct kit_run *run, bool send)
{
	if (send && (int64_t)(run->sent - run->echoed) <
			    (int64_t)run->window) /* a frame given up for lost may come late */
		kit_send(run);
	kit_echo(run);
	kit_turn_a(run);
}

void kit_turn_a(struct kit_run *run)
{
	for (uint16_t q = 0; q < run->a.port->queue_cnt; q++)
		take_echoes(run, q);
	kit_events(&run->a);
}

/* ---- many turns ---- */

#define LOST_S 0.1 /* a window that stands so long holds lost frames */

void kit_pump_until(struct kit_run *run, bool (*done)(struct kit_run *run, void *arg), void *arg)
{
	double start = kit_seconds(), last = start;
	uint64_t echoed = run->echoed;

	while (!done(run, arg)) {
		double now = kit_seconds();

		kit_turn(run, true);
		if (run->echoed != echoed) {
			echoed = run->echoed;
			last = now;
		}
		if (run->lossy && now - last > LOST_S) {
			run->sent = run->echoed; /* the numbers go on from there; nobody waits for
						    the rest */
			last = now;
		}
		if (now - start > KIT_WAIT_S)
			fail_msg("after %u s: sent %llu, echoed %llu; b: %s", KIT_WAIT_S,
				 (unsigned long long)run->sent, (unsigned long long)run->echoed,
				 run->b.events.text);
		sched_yield(); /* the NIC threads want the core too */
	}
}

static bool has_echoes(struct kit_run *run, void *arg)
{
	return run->echoed >= *(uint64_t *)arg;
}

void kit_pump(struct kit_run *run, uint64_t cnt)
{
	uint64_t target = run->echoed + cnt;

	kit_pump_until(run, has_echoes, &target);
}

void kit_settle(struct kit_run *run)
{
	double start = kit_seconds();

	while (run->echoed < run->sent && kit_seconds() - start < KIT_WAIT_S) {
		kit_turn(run, false);
		sched_yield(); /* the NIC threads want the core too */
	}
}
