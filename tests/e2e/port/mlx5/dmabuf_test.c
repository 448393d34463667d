/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory that the NIC reaches by a dma-buf and the CPU not at all: ports receive into it and send
 * from it, and nothing on the way reads a byte (the address that stands for it cannot be read).
 * A memfd stands in for the dma-buf, which the software ConnectX maps; where the kernel has
 * udmabuf, a real one as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "port/mlx5/eth/eth.h"
#include "port_kit.h"
#include "../../../unit/unit_udmabuf.h"

#define SLOTS 2048u
#define SLOT  2048u
#define BYTES ((size_t)SLOTS * SLOT * 2)

static struct kit_run run;

/* A region as a GPU's would be, and the test's own window on it. */
struct memory {
	struct spw_region region;
	int memfd;
	uint8_t *window;
};

static bool memory_open(struct memory *m, bool real)
{
	m->memfd = memfd_create("frames", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(m->memfd, BYTES), 0);
	assert_int_equal(fcntl(m->memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	m->window = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, m->memfd, 0);
	assert_true(m->window != MAP_FAILED);
	m->region = (struct spw_region){
		.bytes = BYTES, .page_bytes = 4096, .kind = SPW_MEM_GPU, .id = 7, .numa_node = -1};
	m->region.dev_va =
		(uintptr_t)mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	m->region.dmabuf_fd = real ? unit_udmabuf(m->memfd, BYTES) : dup(m->memfd);
	return m->region.dmabuf_fd >= 0;
}

static void memory_close(struct memory *m)
{
	if (m->region.dmabuf_fd >= 0)
		close(m->region.dmabuf_fd);
	munmap((void *)(uintptr_t)m->region.dev_va, BYTES);
	munmap(m->window, BYTES);
	close(m->memfd);
}

/* What b received lies in the dma-buf, whole; its echoes come from there, and a compares every byte
 * of them. */
static void echoes(const char *profile, const struct memory *m)
{
	struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = 2, .profile = "latency"};
	struct kit_conf b = {.spec = "mlx5:mlx5_1",
			     .queues = 2,
			     .profile = profile,
			     .slots = SLOTS,
			     .slot_bytes = SLOT,
			     .region = &m->region};
	uint8_t frame[64] = {2, 0, 0, 0, 0, 2, 'g', 'p', 'u'};
	struct spw_desc desc;

	kit_open(&run, &a, &b);
	kit_send_bytes(&run, frame, sizeof(frame));
	kit_receive(&run.b, &desc);
	assert_memory_equal(m->window + (size_t)desc.slot * SLOT + desc.offset, frame,
			    sizeof(frame));
	kit_pump(&run, 5000);
	kit_settle(&run);
	assert_int_equal(run.echoed, run.sent);
	assert_int_equal(run.bad, 0);
	kit_close(&run);
}

static void both_profiles(bool real)
{
	struct memory m;

	if (!memory_open(&m, real)) {
		memory_close(&m);
		print_message("no /dev/udmabuf here: %s\n", strerror(errno));
		skip();
	}
	echoes("latency", &m);
	echoes("throughput", &m);
	memory_close(&m);
}

static void test_stand_in(void **state)
{
	(void)state;
	both_profiles(false);
}

static void test_udmabuf(void **state)
{
	(void)state;
	both_profiles(true);
}

/* A revoked key is made anew from the dma-buf, too. */
static void test_key_revoked(void **state)
{
	struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = 1, .profile = "latency"}, b = a;
	struct memory m;

	(void)state;
	assert_true(memory_open(&m, false));
	b.spec = "mlx5:mlx5_1";
	b.slots = SLOTS;
	b.slot_bytes = SLOT;
	b.region = &m.region;
	kit_open(&run, &a, &b);
	run.lossy = true;
	kit_pump(&run, 1000);
	kit_control(1, "mr-revoke=%u", mlx5_eth_of(run.b.port)->queue[0].q.rq_lkey);
	kit_pump(&run, 3000);
	assert_true(run.b.events.cnt[SPW_PORT_EVENT_QUEUE_BACK] > 0);
	kit_close(&run);
	memory_close(&m);
}

#define HEAD  96u
#define EMPTY 0x5au /* what slots hold before a frame comes */

/* All of a slot in GPU memory, and its head: each has its part of the frame, and no other byte was
 * written. */
static void split_is_right(const struct memory *m, const struct spw_desc *d, const uint8_t *frame,
			   uint32_t len)
{
	const uint8_t *slot = m->window + (size_t)d->slot * SLOT,
		      *head = spw_pool_head_addr(&run.b.pool[0], d->slot);

	assert_int_equal(d->len, len);
	assert_int_equal(d->offset, 0);
	assert_memory_equal(head, frame, SPW_MIN(len, HEAD));
	for (uint32_t i = 0; i < SLOT; i++)
		if (slot[i] != (i >= HEAD && i < len ? frame[i] : EMPTY))
			fail_msg("frame of %u bytes, byte %u: 0x%02x", len, i, slot[i]);
}

/* Every length around the split, and the longest: heads come to the CPU's memory, the rest to the
 * GPU's. */
static void test_split(void **state)
{
	struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = 1, .profile = "latency"}, b = a;
	uint8_t frame[1500] = {2, 0, 0, 0, 0, 2, 'g', 'p', 'u'};
	struct spw_desc desc;
	struct memory m;

	(void)state;
	assert_true(memory_open(&m, false));
	b.spec = "mlx5:mlx5_1,mode=eth,split=96";
	b.slots = SLOTS;
	b.slot_bytes = SLOT;
	b.region = &m.region;
	b.split = HEAD;
	kit_open(&run, &a, &b);
	memset(m.window, EMPTY, BYTES);
	for (uint32_t i = 12; i < sizeof(frame); i++)
		frame[i] = (uint8_t)(i * 7);
	for (uint32_t len = 60; len <= sizeof(frame); len += len < HEAD + 40 ? 1 : 97) {
		kit_send_bytes(&run, frame, len);
		kit_receive(&run.b, &desc);
		split_is_right(&m, &desc, frame, len);
		memset(m.window + (size_t)desc.slot * SLOT, EMPTY, SLOT);
	}
	assert_false(run.b.port->caps.can_tx);
	kit_close(&run);
	memory_close(&m);
}

/* Nothing is echoed: what b received counts. */
static bool has_received(struct kit_run *r, void *arg)
{
	return r->b.rx[0] >= *(const uint64_t *)arg;
}

static bool has_recovered(struct kit_run *r, void *arg)
{
	(void)arg;
	return r->b.events.cnt[SPW_PORT_EVENT_QUEUE_BACK] > 0;
}

/* A revoked key of the heads is made anew, as the slots' is. */
static void test_split_key_revoked(void **state)
{
	struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = 1, .profile = "latency"}, b = a;
	struct memory m;
	uint64_t target = 100;

	(void)state;
	assert_true(memory_open(&m, false));
	b.spec = "mlx5:mlx5_1,mode=eth,split=96";
	b.slots = SLOTS;
	b.slot_bytes = SLOT;
	b.region = &m.region;
	b.split = HEAD;
	kit_open(&run, &a, &b);
	run.lossy = true;
	kit_pump_until(&run, has_received, &target);
	kit_control(1, "mr-revoke=%u", mlx5_eth_of(run.b.port)->queue[0].q.rq_head_lkey);
	kit_pump_until(&run, has_recovered, NULL);
	target = run.b.rx[0] + 100;
	kit_pump_until(&run, has_received, &target);
	kit_close(&run);
	memory_close(&m);
}

/* What is not possible is refused with one line. */
static void test_refusals(void **state)
{
	/* libmlx5, too, may copy the head of a frame into a WQE; so do we where the device wants
	 * that */
	static const char *const cpu_drivers[] = {"null:", "verbs:mlx5_1",
						  "mlx5:mlx5_1,tx_inline=18"};
	struct memory m;
	struct spw_port_spec spec;
	struct spw_port *port;

	(void)state;
	assert_true(memory_open(&m, false));
	assert_int_equal(spw_port_spec_parse("mlx5:mlx5_1", &spec), 0);
	assert_int_equal(spw_port_open(&spec, 0, 1, &port), 0);
	kit_control(1, "fault fail=reg_dmabuf_mr:EOPNOTSUPP");
	assert_int_equal(spw_port_region_attach(port, &m.region), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "registers no dma-buf"));
	kit_control(1, "fault fail=none");
	close(m.region.dmabuf_fd);
	m.region.dmabuf_fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* cannot be mapped */
	assert_true(spw_port_region_attach(port, &m.region) < 0);
	spw_port_close(port);

	for (size_t i = 0; i < SPW_ARRAY_CNT(cpu_drivers); i++) {
		assert_int_equal(spw_port_spec_parse(cpu_drivers[i], &spec), 0);
		assert_int_equal(spw_port_open(&spec, 0, 1, &port), 0);
		assert_int_equal(spw_port_region_attach(port, &m.region), -ENOTSUP);
		assert_non_null(strstr(spw_err_text(), "pass through the CPU"));
		spw_port_close(port);
	}
	memory_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stand_in),          cmocka_unit_test(test_udmabuf),
		cmocka_unit_test(test_key_revoked),       cmocka_unit_test(test_split),
		cmocka_unit_test(test_split_key_revoked), cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
