/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "inter_test.h"

#include <rte_eal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SLOT_BYTES 2176u

static int first_cpu(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &set))
				return i;
	return 0;
}

void inter_eal_init(void)
{
	char lcores[32];
	char *argv[] = {(char *)"inter",
			(char *)"--no-huge",
			(char *)"--no-shconf",
			(char *)"--no-pci",
			(char *)"--no-telemetry",
			(char *)"-m",
			(char *)"128",
			(char *)"-l",
			lcores,
			NULL};

	setenv("RUNTIME_DIRECTORY", "/dev/null", 1); /* no folder, which --no-shconf does without */
	snprintf(lcores, sizeof(lcores), "%d", first_cpu());
	if (rte_eal_init((int)SPW_ARRAY_CNT(argv) - 1, argv) < 0) {
		fprintf(stderr, "rte_eal_init failed\n");
		exit(1);
	}
}

uint64_t inter_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void check(int rc, const char *what)
{
	if (rc)
		fail_msg("%s: %d: %s", what, rc, spw_err_text());
}

void inter_open(struct inter_port *ip, const char *text, uint16_t index, uint16_t queue_cnt,
		uint32_t slot_cnt)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST,
				  .bytes = (size_t)queue_cnt * slot_cnt * SLOT_BYTES,
				  .numa_node = -1};
	struct spw_port_spec spec;

	memset(ip, 0, sizeof(*ip));
	ip->queue_cnt = queue_cnt;
	check(spw_port_spec_parse(text, &spec), "parse");
	check(spw_region_alloc(&req, &ip->region), "region");
	check(spw_port_open(&spec, index, queue_cnt, &ip->port), "open");
	check(spw_port_region_attach(ip->port, &ip->region), "attach");
	for (uint16_t i = 0; i < queue_cnt; i++) {
		struct spw_port_queue_conf conf = {.pool = &ip->pool[i],
						   .ring_size = 256,
						   .numa_node = -1,
						   .profile = "latency"};

		check(spw_pool_init(&ip->pool[i], &ip->region, (size_t)i * slot_cnt * SLOT_BYTES,
				    SLOT_BYTES, slot_cnt),
		      "pool");
		check(spw_port_queue_setup(ip->port, i, &conf), "queue");
	}
	check(spw_port_start(ip->port), "start");
}

void inter_check_slots(struct inter_port *ip)
{
	for (uint16_t i = 0; i < ip->queue_cnt; i++) {
		struct spw_port_slots s;

		spw_port_slots(ip->port, i, &s);
		assert_int_equal(ip->pool[i].free_cnt + s.in_rx + s.lent + s.in_tx,
				 ip->pool[i].slot_cnt);
	}
}

void inter_close(struct inter_port *ip)
{
	check(spw_port_stop(ip->port), "stop");
	inter_check_slots(ip);
	spw_port_close(ip->port);
	for (uint16_t i = 0; i < ip->queue_cnt; i++)
		assert_int_equal(spw_pool_fini(&ip->pool[i]), 0);
	spw_region_free(&ip->region);
}

void inter_wait_event(struct inter_port *ip, enum spw_port_event_kind kind)
{
	uint64_t end = inter_now_ms() + INTER_WAIT_MS;
	struct spw_port_event event;

	while (inter_now_ms() < end) {
		if (spw_port_events(&ip->port->queue[0], &event, 1) == 1 && event.kind == kind)
			return;
		sched_yield();
	}
	fail_msg("%s: no event of kind %d came", ip->port->name, (int)kind);
}

uint8_t inter_byte(uint64_t seq, uint32_t i)
{
	return (uint8_t)(seq * 31 + i * 7 + (seq >> 8));
}

uint16_t inter_send(struct inter_port *ip, uint32_t len, uint64_t seq, uint16_t cnt)
{
	struct spw_port_queue *pq = &ip->port->queue[0];
	uint32_t slot[SPW_BURST_MAX], headroom = ip->port->caps.slot_headroom;
	struct spw_desc desc[SPW_BURST_MAX], *list[SPW_BURST_MAX];
	uint16_t n = spw_port_lend_burst(pq, slot, cnt), sent;

	for (uint16_t i = 0; i < n; i++) {
		uint8_t *p = spw_pool_slot_addr(&ip->pool[0], slot[i]) + headroom;

		for (uint32_t k = 0; k < len; k++)
			p[k] = inter_byte(seq + i, k);
		desc[i] = (struct spw_desc){.slot = slot[i], .offset = headroom, .len = len};
		list[i] = &desc[i];
	}
	sent = spw_port_tx_burst(pq, list, n);
	spw_port_release_burst(pq, slot + sent, (uint16_t)(n - sent));
	return sent;
}

void inter_check_frame(const uint8_t *frame, uint32_t len, uint64_t seq)
{
	for (uint32_t k = 0; k < len; k++)
		if (frame[k] != inter_byte(seq, k))
			fail_msg("frame %lu, byte %u: %02x, not %02x", (unsigned long)seq, k,
				 frame[k], inter_byte(seq, k));
}

void inter_receive(struct inter_port *ip, uint64_t first, uint64_t cnt, inter_use *use)
{
	uint64_t end = inter_now_ms() + INTER_WAIT_MS, seen = 0;
	struct spw_desc desc[SPW_BURST_MAX];

	while (seen < cnt) {
		uint16_t n = spw_port_rx_burst(&ip->port->queue[0], desc, SPW_BURST_MAX);

		if (n == 0 && inter_now_ms() > end)
			fail_msg("%s: %lu of %lu frames came", ip->port->name, (unsigned long)seen,
				 (unsigned long)cnt);
		inter_check_slots(ip);
		for (uint16_t i = 0; i < n; i++)
			use(ip, &desc[i], first + seen + i);
		seen += n;
	}
	assert_int_equal(seen, cnt);
}

void inter_check_desc(struct inter_port *ip, uint16_t queue, const struct spw_desc *d, uint64_t seq)
{
	const uint8_t *p = inter_bytes(ip, queue, d);

	assert_true(p >= ip->region.host_va && p + d->len <= ip->region.host_va + ip->region.bytes);
	assert_true(d->slot < ip->pool[queue].slot_cnt);
	assert_true(d->offset + d->len <= ip->pool[queue].slot_bytes);
	assert_int_equal(d->region, ip->region.id);
	assert_int_equal(d->port, ip->port->index);
	inter_check_frame(p, d->len, seq);
}

void inter_check_and_release(struct inter_port *ip, struct spw_desc *d, uint64_t seq)
{
	inter_check_desc(ip, 0, d, seq);
	spw_port_release_burst(&ip->port->queue[0], &d->slot, 1);
}
