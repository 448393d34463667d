/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "kit_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../unit/unit_control.h"
#include "../../../unit/unit_port.h"
#include "base/spw_err.h"

#define SLOTS      4096u
#define SLOT_BYTES 2048u

double kit_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint16_t kit_free_port(void)
{
	return unit_free_port(SOCK_STREAM);
}

/* ---- ports ---- */

static int heads_open(struct kit_port *p, const struct kit_conf *conf, uint32_t slots)
{
	const size_t bytes = spw_pool_head_stride(conf->split) * slots;
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = bytes * conf->queues, .numa_node = -1};
	int rc = spw_region_alloc(&req, &p->heads);

	for (uint16_t q = 0; q < conf->queues && !rc; q++)
		rc = spw_pool_split(&p->pool[q], &p->heads, q * bytes, conf->split);
	return rc;
}

static int memory_open(struct kit_port *p, const struct kit_conf *conf)
{
	size_t slot_bytes = conf->slot_bytes ? conf->slot_bytes : SLOT_BYTES;
	uint32_t slots = conf->slots ? conf->slots : SLOTS;
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = slot_bytes * slots * conf->queues, .numa_node = -1};
	int rc = 0;

	if (conf->region)
		p->region = *conf->region;
	else
		rc = spw_region_alloc(&req, &p->region);
	p->own_region = !conf->region;
	for (uint16_t q = 0; q < conf->queues && !rc; q++)
		rc = spw_pool_init(&p->pool[q], &p->region, q * slot_bytes * slots, slot_bytes,
				   slots);
	return rc || !conf->split ? rc : heads_open(p, conf, slots);
}

static void memory_close(struct kit_port *p)
{
	for (uint32_t q = 0; q < KIT_QUEUE_MAX; q++)
		if (p->pool[q].slot_cnt)
			assert_int_equal(spw_pool_fini(&p->pool[q]), 0);
	if (p->own_region)
		spw_region_free(&p->region);
	spw_region_free(&p->heads);
}

static int sent_keep(struct kit_port *p, uint16_t queue)
{
	int rc = spw_port_sent_keep(p->port, queue, &p->sent[queue]);

	return rc == -ENOTSUP ? 0 : rc;
}

static int queues_open(struct kit_port *p, const struct kit_conf *conf)
{
	int rc = spw_port_region_attach(p->port, &p->region);

	if (!rc && conf->split)
		rc = spw_port_region_attach(p->port, &p->heads);
	for (uint16_t q = 0; q < conf->queues && !rc; q++) {
		struct spw_port_queue_conf qc = {.pool = &p->pool[q],
						 .ring_size = conf->ring,
						 .numa_node = -1,
						 .profile = conf->profile};

		rc = spw_port_queue_setup(p->port, q, &qc);
		if (!rc && conf->keep_sent)
			rc = sent_keep(p, q);
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
		assert_int_equal(p->pool[q].free_cnt + s.in_rx + s.in_tx + s.lent,
				 p->pool[q].slot_cnt);
		assert_true(s.in_rx <= p->pool[q].slot_cnt);
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

void kit_refused_with(const char *what, const char *const *words)
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
	kit_refused_with(conf->spec, words);
}

/* ---- the control socket ---- */

const char *kit_control(uint32_t device, const char *fmt, ...)
{
	static char answer[UNIT_ANSWER_BYTES];
	char line[256], name[16];
	va_list ap;

	snprintf(name, sizeof(name), "mlx5_%u", device);
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	unit_control(name, line, answer);
	return answer;
}
