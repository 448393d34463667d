/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "port_kit.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"

#define HEAD_BYTES 50u /* Ethernet, IPv4, UDP, and our 8-byte number */
#define SLOTS 4096u
#define SLOT_BYTES 2048u

double kit_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- ports ------------------------------------------------------------------------------------------------- */

static int memory_open(struct kit_port *p, const struct kit_conf *conf)
{
	size_t slot_bytes = conf->slot_bytes ? conf->slot_bytes : SLOT_BYTES;
	uint32_t slots = conf->slots ? conf->slots : SLOTS;
	struct spw_mem_req req = {.kind = SPW_MEM_HOST, .bytes = slot_bytes * slots * conf->queues, .numa_node = -1};
	int rc = 0;

	if (conf->region)
		p->region = *conf->region;
	else
		rc = spw_region_alloc(&req, &p->region);
	p->own_region = !conf->region;
	for (uint16_t q = 0; q < conf->queues && !rc; q++)
		rc = spw_pool_init(&p->pool[q], &p->region, q * slot_bytes * slots, slot_bytes, slots);
	return rc;
}

static void memory_close(struct kit_port *p)
{
	for (uint32_t q = 0; q < KIT_QUEUE_MAX; q++)
		if (p->pool[q].slot_cnt)
			assert_int_equal(spw_pool_fini(&p->pool[q]), 0);
	if (p->own_region)
		spw_region_free(&p->region);
}

static int queues_open(struct kit_port *p, const struct kit_conf *conf)
{
	int rc = spw_port_region_attach(p->port, &p->region);

	for (uint16_t q = 0; q < conf->queues && !rc; q++) {
		struct spw_port_queue_conf qc = {
			.pool = &p->pool[q], .ring_size = conf->ring, .numa_node = -1, .profile = conf->profile};

		rc = spw_port_queue_setup(p->port, q, &qc);
	}
	return rc ? rc : spw_port_start(p->port);
}

int kit_port_open(struct kit_port *p, uint16_t index, const struct kit_conf *conf)
{
	struct spw_port_spec spec;
	int rc;

	memset(p, 0, sizeof(*p));
	rc = spw_port_spec_parse(conf->spec, &spec);
	rc = rc ? rc : spw_port_open(&spec, index, conf->queues, &p->port);
	rc = rc ? rc : memory_open(p, conf);
	rc = rc ? rc : queues_open(p, conf);
	if (rc) {
		spw_port_close(p->port);
		memory_close(p);
	}
	return rc;
}

static void check_slots(struct kit_port *p)
{
	for (uint16_t q = 0; q < p->port->queue_cnt; q++) {
		struct spw_port_slots s;

		spw_port_slots(p->port, q, &s);
		assert_int_equal(p->pool[q].free_cnt + s.in_rx + s.in_tx + s.lent, p->pool[q].slot_cnt);
	}
}

void kit_port_close(struct kit_port *p)
{
	struct spw_port_stat stat;
	uint64_t rx = 0, dropped = 0;

	check_slots(p);
	assert_int_equal(spw_port_stop(p->port), 0);
	check_slots(p);
	spw_port_stat(p->port, &stat);
	for (uint32_t q = 0; q < KIT_QUEUE_MAX; q++)
		rx += p->rx[q];
	for (unsigned i = 0; i < SPW_PORT_DROP_CNT; i++)
		dropped += stat.dropped[i];
	assert_int_equal(stat.rx_frames, rx);
	assert_int_equal(stat.wire_frames, rx + dropped + stat.missed_frames);
	assert_int_equal(stat.tx_frames + stat.tx_flushed, p->taken);
	spw_port_close(p->port);
	memory_close(p);
}

void kit_said(const char *what, const char *const *words)
{
	const char *text = spw_err_text();

	for (; *words; words++)
		if (!strstr(text, *words))
			fail_msg("%s: '%s' is not in: %s", what, *words, text);
	if (strchr(text, '\n') || strlen(text) > 600)
		fail_msg("%s: not one line: %s", what, text);
}

void kit_refused(const struct kit_conf *conf, int rc, const char *const *words)
{
	struct kit_port p;
	int got = kit_port_open(&p, 0, conf);

	if (got != rc)
		fail_msg("%s: got %d, not %d: %s", conf->spec, got, rc, got ? spw_err_text() : "");
	kit_said(conf->spec, words);
}

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

/* ---- frames ------------------------------------------------------------------------------------------------ */

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
	static const uint8_t head[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0,
				       198, 18, 0, 1, 198, 18, 0, 2};

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

/* ---- one turn ---------------------------------------------------------------------------------------------- */

static void take_events(struct kit_port *p)
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
		}
	}
}

void kit_send(struct kit_run *run)
{
	uint32_t queues = run->a.port->queue_cnt, q = (uint32_t)(run->sent / 8 % queues); /* 8: a burst */
	struct spw_port_queue *pq = &run->a.port->queue[q];
	struct spw_pool *pool = &run->a.pool[q];
	struct spw_desc desc[8], *ptr[8];
	uint32_t slot[8];
	uint16_t n = spw_port_lend_burst(pq, slot, 8), sent;

	for (uint16_t i = 0; i < n; i++) {
		uint64_t number = run->sent + i;
		uint32_t bytes = run->bytes_min + (uint32_t)(number * 13 % (run->bytes_max - run->bytes_min + 1));

		fill(spw_pool_slot_addr(pool, slot[i]), number, (uint32_t)(number % run->flows), bytes);
		desc[i] = (struct spw_desc){.slot = slot[i], .len = bytes};
		desc[i].peer = q + queues * (uint32_t)(number % (SPW_MAX(run->peers, queues) / queues));
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

	for (double start = kit_seconds(); !spw_port_rx_burst(&p->port->queue[q], desc_out, 1); q = (uint16_t)((q + 1) % p->port->queue_cnt))
		if (kit_seconds() - start > KIT_WAIT_S)
			fail_msg("no frame came");
	p->rx[q]++;
	if (bytes_out)
		memcpy(bytes_out, spw_pool_slot_addr(&p->pool[q], desc_out->slot) + desc_out->offset, desc_out->len);
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
		const uint8_t *f = spw_pool_slot_addr(&run->a.pool[q], desc[i].slot) + desc[i].offset;

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
	take_events(&run->b);
}

void kit_turn(struct kit_run *run, bool send)
{
	if (send && (int64_t)(run->sent - run->echoed) < (int64_t)run->window) /* a frame given up for lost may come late */
		kit_send(run);
	kit_echo(run);
	for (uint16_t q = 0; q < run->a.port->queue_cnt; q++)
		take_echoes(run, q);
	take_events(&run->a);
}

/* ---- many turns -------------------------------------------------------------------------------------------- */

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
			run->sent = run->echoed; /* the numbers go on from there; nobody waits for the rest */
			last = now;
		}
		if (now - start > KIT_WAIT_S)
			fail_msg("after %u s: sent %llu, echoed %llu; b: %s", KIT_WAIT_S, (unsigned long long)run->sent,
				 (unsigned long long)run->echoed, run->b.events.text);
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

/* ---- the control socket ------------------------------------------------------------------------------------- */

const char *kit_control(uint32_t device, const char *fmt, ...)
{
	static char answer[4096];
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *path = getenv("SPW_TEST_CONTROL");
	char line[256];
	va_list ap;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n;

	assert_non_null(path);
	snprintf(addr.sun_path, sizeof(addr.sun_path), device ? "%.64s.mlx5_%u.%d" : "%.64s", path, device, (int)getpid());
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	strcat(line, "\n");
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		fail_msg("no control socket %s", addr.sun_path);
	assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
	n = recv(fd, answer, sizeof(answer) - 1, 0);
	close(fd);
	answer[n > 0 ? n : 0] = '\0';
	if (strncmp(answer, "ok", 2))
		fail_msg("control %s: %s", line, answer);
	return answer;
}
