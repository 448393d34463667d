/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The smallest program on lib/port: sends each received frame back from the slot that it lies in,
 * its two addresses swapped, without a copy. lib/pipe is this loop with an executor in the middle.
 *
 *   forward [EAL arguments] -- --port DRIVER:DEVICE[,key=value]...        until SIGINT
 */
#include <stdio.h>
#include <string.h>

#include "app_eal.h"
#include "base/spw_err.h"
#include "port/spw_port.h"

static struct spw_region region; /* the memory that the NIC writes to */
static struct spw_pool pool;     /* the same, as slots of one frame each */
static struct spw_port *port;

/* A port says what its slots must look like, so it is opened before there is memory. */
static int forward_open(const struct spw_port_spec *spec)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST, .numa_node = -1};
	struct spw_port_queue_conf queue = {.pool = &pool};
	uint32_t slots = 8192, bytes;
	int rc = spw_port_open(spec, 0, 1, &port);

	if (rc < 0)
		return rc;
	bytes = SPW_MAX(port->caps.slot_headroom + 2048, port->caps.slot_bytes_min);
	bytes = SPW_ALIGN_UP(bytes, port->caps.slot_align);
	req.bytes = (size_t)bytes * slots;
	if ((rc = spw_region_alloc(&req, &region)) < 0 ||
	    (rc = spw_port_region_attach(port, &region)) < 0 ||
	    (rc = spw_pool_init(&pool, &region, 0, bytes, slots)) < 0 ||
	    (rc = spw_port_queue_setup(port, 0, &queue)) < 0)
		return rc;
	return spw_port_start(port);
}

/* One turn: every slot that rx_burst lends is owed back, to tx_burst or to release_burst. */
static void forward_turn(struct spw_port_queue *queue)
{
	struct spw_desc frame[SPW_BURST_MAX], *send[SPW_BURST_MAX];
	uint16_t cnt = spw_port_rx_burst(queue, frame, SPW_BURST_MAX), sent;
	struct spw_port_event event;

	for (uint16_t i = 0; i < cnt; i++) {
		uint8_t *at = spw_pool_slot_addr(&pool, frame[i].slot) + frame[i].offset, mac[6];

		memcpy(mac, at, 6);
		memcpy(at, at + 6, 6);
		memcpy(at + 6, mac, 6);
		send[i] = &frame[i];
	}
	sent = spw_port_tx_burst(queue, send, cnt);
	for (uint16_t i = sent; i < cnt; i++) /* the port's send ring is full: drop */
		spw_port_release_burst(queue, &send[i]->slot, 1);
	spw_port_events(queue, &event, 1); /* slots that the NIC has sent return to the pool */
}

int main(int argc, char **argv)
{
	static struct app_eal eal;
	struct spw_port_spec spec;
	uint32_t stop = 0;
	int rc;

	if ((rc = app_eal_split(&eal, argc, argv)) < 0 ||
	    (rc = spw_port_spec_parse(argv[argc - 1], &spec)) < 0 ||
	    (rc = app_eal_port(&eal, &spec)) < 0 || (rc = app_eal_start(&eal, NULL)) < 0)
		return app_complain("forward", rc);
	app_catch_signals(&stop);
	rc = forward_open(&spec);
	if (rc == 0)
		fprintf(stderr, "forward: running\n");
	while (rc == 0 && !spw_thr_load_rlx(&stop))
		forward_turn(&port->queue[0]);
	spw_port_close(port); /* stops it: every slot returns to the pool */
	return rc < 0 ? app_complain("forward", rc) : spw_pool_fini(&pool) ? APP_BALANCE : APP_GOOD;
}
