/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The ends of a connection between two spinwire ports (rc_end.h), as bench_rc.c moves messages over
 * it.
 */
#include "rc_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca_proc.h"

#define UP_S 30

/* ---- messages ---- */

/* Releases the slots that the port does not take. Returns: how many it took. */
static uint16_t send_line(struct spw_port_queue *pq, struct spw_desc **line, uint16_t n)
{
	uint16_t sent = n ? spw_port_tx_burst(pq, line, n) : 0;

	for (uint16_t i = sent; i < n; i++)
		spw_port_release_burst(pq, &line[i]->slot, 1);
	return sent;
}

static uint32_t port_send(struct rc_end *end, uint32_t cnt)
{
	struct spw_port_queue *pq = &end->port->queue[0];
	struct spw_desc desc[SPW_BURST_MAX], *line[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	uint16_t n = spw_port_lend_burst(pq, slot, (uint16_t)SPW_MIN(cnt, (uint32_t)SPW_BURST_MAX));

	for (uint16_t i = 0; i < n; i++) {
		desc[i] =
			(struct spw_desc){.slot = slot[i], .len = RC_BYTES, .flags = SPW_DESC_MSG};
		line[i] = &desc[i];
	}
	return send_line(pq, line, n);
}

static uint32_t port_take(struct rc_end *end)
{
	struct spw_port_queue *pq = &end->port->queue[0];
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	uint16_t n = spw_port_rx_burst(pq, desc, SPW_BURST_MAX);

	for (uint16_t i = 0; i < n; i++)
		slot[i] = desc[i].slot;
	if (n)
		spw_port_release_burst(pq, slot, n);
	return n;
}

static uint32_t port_echo(struct rc_end *end)
{
	struct spw_port_queue *pq = &end->port->queue[0];
	struct spw_desc desc[SPW_BURST_MAX], *line[SPW_BURST_MAX];
	uint16_t n = spw_port_rx_burst(pq, desc, SPW_BURST_MAX);

	for (uint16_t i = 0; i < n; i++)
		line[i] = &desc[i];
	send_line(pq, line, n);
	return n;
}

static void port_attend(struct rc_end *end)
{
	struct spw_port_event event[4];
	uint16_t n = spw_port_events(&end->port->queue[0], event, SPW_ARRAY_CNT(event));

	for (uint16_t i = 0; i < n; i++)
		end->up += event[i].kind == SPW_PORT_EVENT_PEER_UP;
}

static bool port_is_quiet(struct rc_end *end)
{
	struct spw_port_slots slots;

	port_attend(end);
	spw_port_slots(end->port, 0, &slots);
	return slots.in_tx == 0;
}

static const struct rc_calls port_calls = {port_send, port_take, port_echo, port_attend,
					   port_is_quiet};

/* ---- set-up ---- */

static uint16_t free_port(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && !bind(fd, (struct sockaddr *)&addr, len) &&
		    !getsockname(fd, (struct sockaddr *)&addr, &len);

	if (fd >= 0)
		close(fd);
	return good ? ntohs(addr.sin_port) : 0;
}

static int port_open(struct rc_end *end, const char *text, const struct rc_ends_conf *conf,
		     size_t at)
{
	struct spw_port_queue_conf qc = {.pool = &end->pool,
					 .ring_size = RC_WINDOW,
					 .numa_node = -1,
					 .profile = conf->profile};
	struct spw_port_spec spec;
	int rc = spw_port_spec_parse(text, &spec);

	end->calls = &port_calls;
	rc = rc ? rc : spw_pool_init(&end->pool, conf->region, at, RC_SLOT_BYTES, RC_SLOTS);
	rc = rc ? rc : spw_port_open(&spec, 0, 1, &end->port);
	rc = rc ? rc : spw_port_region_attach(end->port, conf->region);
	rc = rc ? rc : spw_port_queue_setup(end->port, 0, &qc);
	return rc ? rc : spw_port_start(end->port);
}

static int wait_up(struct rc_end *a, struct rc_end *b)
{
	const struct timespec nap = {.tv_nsec = 100000};

	for (double until = now_s() + UP_S; !a->up || !b->up; nanosleep(&nap, NULL)) {
		port_take(a);
		port_take(b);
		port_attend(a);
		port_attend(b);
		if (now_s() > until)
			return spw_err(ETIMEDOUT, "the two ports did not connect within %d s",
				       UP_S);
	}
	return 0;
}

/* One message: it follows the sender's greeting. A port that does not notice a greeting in time
 * gives the connection up, and nobody attends to these two while the other cases are opened. */
static int greeted(struct rc_end *from, struct rc_end *to)
{
	const struct timespec nap = {.tv_nsec = 100000};
	uint32_t sent = 0, got = 0;

	for (double until = now_s() + UP_S; !got; nanosleep(&nap, NULL)) {
		sent = sent ? sent : port_send(from, 1);
		port_take(from);
		got = port_take(to);
		port_attend(to);
		if (now_s() > until)
			return spw_err(ETIMEDOUT, "the first message did not arrive within %d s",
				       UP_S);
	}
	return 0;
}

static int ports_open(struct rc_end *a, struct rc_end *b, const struct rc_ends_conf *conf)
{
	static const char form[] = "%s:%s,mode=rc,op=%s,credits=%u,%s=127.0.0.1:%u%s";
	const char *op = conf->write ? "write" : "send";
	uint16_t tcp = free_port();
	char text[200];
	int rc;

	snprintf(text, sizeof(text), form, conf->driver, conf->device[1], op, RC_WINDOW, "listen",
		 tcp, ",peers=127.0.0.1,peer_max=1");
	rc = port_open(b, text, conf, conf->at + RC_END_BYTES);
	snprintf(text, sizeof(text), form, conf->driver, conf->device[0], op, RC_WINDOW, "connect",
		 tcp, "");
	rc = rc ? rc : port_open(a, text, conf, conf->at);
	rc = rc ? rc : wait_up(a, b);
	rc = rc ? rc : greeted(a, b);
	return rc ? rc : greeted(b, a);
}

int rc_ends_open(struct rc_end *a, struct rc_end *b, const struct rc_ends_conf *conf)
{
	int rc;

	a->bytes = (uint8_t *)conf->region->host_va + conf->at;
	b->bytes = a->bytes + RC_END_BYTES;
	if (conf->driver)
		return ports_open(a, b, conf);
	rc = rc_hand_open(a, conf->device[0], conf);
	rc = rc ? rc : rc_hand_open(b, conf->device[1], conf);
	rc = rc ? rc : rc_hand_join(a, b);
	return rc ? rc : rc_hand_join(b, a);
}

static void end_close(struct rc_end *end)
{
	if (end->port) {
		spw_port_stop(end->port);
		spw_port_close(end->port);
	}
	if (end->pool.slot_cnt && spw_pool_fini(&end->pool))
		fprintf(stderr, "spinwire-bench rc: slots were lost\n");
	rc_hand_close(end);
}

void rc_ends_close(struct rc_end *a, struct rc_end *b)
{
	end_close(a);
	end_close(b);
}
