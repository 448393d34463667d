/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "rc_kit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"

#define SLOTS 256u
#define SLOT_BYTES 4096u

double kit_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint16_t kit_free_port(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd);
	return ntohs(sa.sin_port);
}

void kit_control(uint32_t device, const char *fmt, ...)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *path = getenv("SPW_TEST_CONTROL");
	char line[256], answer[256];
	va_list ap;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n;

	assert_non_null(path);
	snprintf(addr.sun_path, sizeof(addr.sun_path), device ? "%.64s.mlx5_%u.%d" : "%.64s", path, device, (int)getpid());
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	strcat(line, "\n");
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
	n = recv(fd, answer, sizeof(answer) - 1, 0);
	close(fd);
	answer[n > 0 ? n : 0] = '\0';
	if (strncmp(answer, "ok", 2))
		fail_msg("control %s: %s", line, answer);
}

/* ---- ports ---------------------------------------------------------------------------------------- */

static int memory_open(struct kit_end *e, const struct kit_conf *conf, uint16_t queues)
{
	size_t slot_bytes = conf->slot_bytes ? conf->slot_bytes : SLOT_BYTES;
	uint32_t slots = conf->slots ? conf->slots : SLOTS;
	struct spw_mem_req req = {.kind = SPW_MEM_HOST, .bytes = slot_bytes * slots * queues, .numa_node = -1};
	int rc = spw_region_alloc(&req, &e->region);

	for (uint16_t q = 0; q < queues && !rc; q++)
		rc = spw_pool_init(&e->pool[q], &e->region, q * slot_bytes * slots, slot_bytes, slots);
	return rc;
}

static void memory_close(struct kit_end *e)
{
	for (uint32_t q = 0; q < KIT_QUEUE_MAX; q++)
		if (e->pool[q].slot_cnt)
			assert_int_equal(spw_pool_fini(&e->pool[q]), 0);
	spw_region_free(&e->region);
}

static int queues_open(struct kit_end *e, uint16_t queues)
{
	int rc = spw_port_region_attach(e->port, &e->region);

	for (uint16_t q = 0; q < queues && !rc; q++) {
		struct spw_port_queue_conf qc = {.pool = &e->pool[q], .numa_node = -1, .profile = "latency"};

		rc = spw_port_queue_setup(e->port, q, &qc);
	}
	return rc ? rc : spw_port_start(e->port);
}

int kit_end_open(struct kit_end *e, bool is_server, uint16_t tcp_port, const struct kit_conf *conf)
{
	const char *driver = getenv(is_server ? "SPW_RC_SERVER" : "SPW_RC_CLIENT");
	const uint16_t queues = conf->queues ? conf->queues : 1;
	struct spw_port_spec spec;
	char text[400];
	int rc;

	memset(e, 0, sizeof(*e));
	e->is_server = is_server;
	e->window = 64;
	e->bytes_min = 1;
	e->bytes_max = 4096;
	snprintf(text, sizeof(text), "%s:mlx5_%d,mode=rc,%s=127.0.0.1:%u%s%s", driver ? driver : "verbs", is_server,
		 is_server ? "listen" : "connect", tcp_port, conf->keys[0] ? "," : "", conf->keys);
	rc = spw_port_spec_parse(text, &spec);
	rc = rc ? rc : spw_port_open(&spec, is_server, queues, &e->port);
	rc = rc ? rc : memory_open(e, conf, queues);
	rc = rc ? rc : queues_open(e, queues);
	if (rc) {
		spw_port_close(e->port);
		memory_close(e);
	}
	return rc;
}

static void must_open(struct kit_end *e, bool is_server, uint16_t tcp_port, const struct kit_conf *conf)
{
	if (kit_end_open(e, is_server, tcp_port, conf))
		fail_msg("%s: %s", conf->keys, spw_err_text());
}

void kit_server(struct kit_end *e, uint16_t tcp_port, const struct kit_conf *conf)
{
	must_open(e, true, tcp_port, conf);
}

void kit_client(struct kit_end *e, uint16_t tcp_port, const struct kit_conf *conf)
{
	must_open(e, false, tcp_port, conf);
}

static void check_slots(struct kit_end *e)
{
	for (uint16_t q = 0; q < e->port->queue_cnt; q++) {
		struct spw_port_slots s;

		spw_port_slots(e->port, q, &s);
		assert_int_equal(e->pool[q].free_cnt + s.in_rx + s.in_tx + s.lent, e->pool[q].slot_cnt);
		assert_true(s.in_rx <= e->pool[q].slot_cnt);
	}
}

void kit_stat(struct kit_end *e, struct spw_port_stat *stat_out)
{
	spw_port_stat(e->port, stat_out);
}

void kit_let_go(struct kit_end *e)
{
	while (e->held_cnt)
		spw_port_release_burst(&e->port->queue[0], &e->held[--e->held_cnt], 1);
}

void kit_close(struct kit_end *e)
{
	struct spw_port_stat stat;
	uint64_t dropped = 0;

	check_slots(e);
	assert_int_equal(spw_port_stop(e->port), 0);
	kit_let_go(e); /* lent ones come home after the stop, too */
	check_slots(e);
	spw_port_stat(e->port, &stat);
	for (unsigned i = 0; i < SPW_PORT_DROP_CNT; i++)
		dropped += stat.dropped[i];
	assert_int_equal(stat.rx_frames, e->rx);
	assert_int_equal(stat.wire_frames, e->rx + dropped + stat.missed_frames);
	assert_int_equal(stat.tx_frames + stat.tx_flushed, e->taken);
	spw_port_close(e->port);
	memory_close(e);
}

/* ---- messages ------------------------------------------------------------------------------------- */

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
	struct spw_port_queue *pq = &e->port->queue[0];
	struct spw_desc desc[8], *line[8];
	uint32_t slot[8], want = SPW_MIN((uint32_t)SPW_ARRAY_CNT(slot), e->window - SPW_MIN(e->window, (uint32_t)(e->sent - e->echoed)));
	uint16_t n, taken;

	if (!want)
		return;
	n = spw_port_lend_burst(pq, slot, (uint16_t)want);
	for (uint16_t i = 0; i < n; i++) {
		const uint32_t bytes = length_of(e, e->sent + i);

		fill(spw_pool_slot_addr(&e->pool[0], slot[i]), e->sent + i, bytes);
		desc[i] = (struct spw_desc){.slot = slot[i], .len = bytes, .flags = SPW_DESC_MSG};
		if (e->imm) {
			desc[i].flags |= SPW_DESC_IMM;
			desc[i].meta = (uint32_t)(e->sent + i) ^ 0xa5a5a5a5;
		}
		line[i] = &desc[i];
	}
	taken = spw_port_tx_burst(pq, line, n);
	e->taken += taken;
	e->sent += taken;
	for (uint16_t i = taken; i < n; i++)
		spw_port_release_burst(pq, &line[i]->slot, 1);
}

static void client_take(struct kit_end *e, const struct spw_desc *d)
{
	const uint8_t *m = spw_pool_slot_addr(&e->pool[0], d->slot) + d->offset;

	if (e->lossy) { /* what is missing was lost; what comes is in order still */
		uint64_t number;

		memcpy(&number, m, sizeof(number));
		e->bad += number < e->echoed;
		e->echoed = number;
	}
	e->bad += d->len != length_of(e, e->echoed) || !is_echo(m, e->echoed, d->len) || !(d->flags & SPW_DESC_MSG);
	if (e->imm)
		e->bad += !(d->flags & SPW_DESC_IMM) || d->meta != ((uint32_t)e->echoed ^ 0xa5a5a5a5);
	e->echoed++;
}

static void end_rx(struct kit_end *e, uint16_t queue)
{
	struct spw_port_queue *pq = &e->port->queue[queue];
	struct spw_desc desc[32], *line[32];
	uint16_t n = spw_port_rx_burst(pq, desc, 32), taken = 0;

	e->rx += n;
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
		e->taken += taken;
	}
	for (uint16_t i = taken; i < n; i++)
		spw_port_release_burst(pq, &line[i]->slot, 1);
}

static void end_events(struct kit_end *e, uint16_t queue)
{
	struct spw_port_event ev[4];
	uint16_t n = spw_port_events(&e->port->queue[queue], ev, 4);

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
		for (uint16_t q = 0; q < end[i]->port->queue_cnt; q++) {
			end_rx(end[i], q);
			end_events(end[i], q);
		}
	}
}

void kit_until(struct kit_end *const *end, uint32_t cnt, bool send, kit_done *done, const void *arg, const char *what)
{
	const struct timespec nap = {.tv_nsec = 20000};
	const double give_up = kit_seconds() + KIT_WAIT_S;

	while (!done(end, cnt, arg)) {
		if (kit_seconds() > give_up) {
			for (uint32_t i = 0; i < cnt; i++)
				print_message("end %u: sent %lu echoed %lu rx %lu taken %lu up %u down %u %s\n", i, end[i]->sent,
					      end[i]->echoed, end[i]->rx, end[i]->taken, end[i]->up, end[i]->down, end[i]->text);
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
	uint64_t want[16];

	for (uint32_t i = 0; i < cnt; i++)
		want[i] = end[i]->echoed + n;
	kit_until(end, cnt, true, have_echoes, want, "echoes");
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(end[i]->bad, 0);
}

void kit_settle(struct kit_end *const *end, uint32_t cnt)
{
	uint64_t want[16];

	for (uint32_t i = 0; i < cnt; i++)
		want[i] = end[i]->sent;
	kit_until(end, cnt, false, have_echoes, want, "the last echoes");
	for (uint32_t i = 0; i < cnt; i++) {
		assert_int_equal(end[i]->bad, 0);
		assert_int_equal(end[i]->echoed, end[i]->sent);
	}
}
