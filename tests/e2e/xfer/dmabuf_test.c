/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory as a GPU's, which the NIC reaches by a dma-buf: messages, windows and flushes. Where the
 * kernel has udmabuf, with a real one as well. Arguments: the rails of both ends.
 */
#include <errno.h>
#include <stdio.h>

#include "../../unit/unit_udmabuf.h"
#include "xfer_kit.h"

#define BYTES  (4u << 20)
#define OFFSET 8192u /* of the registered part */
#define PART   (BYTES - OFFSET)

static const char *rails_a = "mlx5_0", *rails_b = "mlx5_1";
static struct kit k;

struct gpu {
	struct unit_gpu of;
	uint8_t *seen, *addr; /* from OFFSET on */
	struct spw_xfer_mem *mem;
};
static struct gpu gpu_a, gpu_b;

static bool gpu_open(struct gpu *g, struct spw_xfer *x, bool real)
{
	struct spw_xfer_mem_req req = {
		.kind = SPW_XFER_DMABUF, .bytes = PART, .dmabuf_offset = OFFSET};

	if (!unit_gpu_open(&g->of, BYTES, real))
		return false;
	assert_true(g->of.seen != MAP_FAILED && g->of.addr != MAP_FAILED);
	g->seen = g->of.seen + OFFSET;
	g->addr = g->of.addr + OFFSET;
	req.addr = g->addr;
	req.dmabuf_fd = g->of.dmabuf;
	if (spw_xfer_mem_reg(x, &req, &g->mem))
		fail_msg("%s", spw_err_text());
	return true;
}

static bool open_all(bool real)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 64u << 10};

	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	return gpu_open(&gpu_a, k.a, real) && gpu_open(&gpu_b, k.b, real);
}

static int open_kit(void **state SPW_UNUSED)
{
	return open_all(false) ? 0 : -1;
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	unit_gpu_close(&gpu_a.of);
	unit_gpu_close(&gpu_b.of);
	return 0;
}

static int flush(uint64_t bytes)
{
	struct spw_xfer_req *req;

	assert_int_equal(spw_xfer_flush(k.ba, gpu_b.mem, gpu_b.addr, bytes, &req), 0);
	return kit_finish(&k, req, NULL);
}

static void pass(uint64_t bytes, uint64_t seed)
{
	const struct spw_xfer_part part = {gpu_b.mem, gpu_b.addr, bytes, 0};
	struct spw_xfer_req *send, *recv;

	kit_fill(gpu_a.seen, bytes, seed);
	memset(gpu_b.seen, 0, bytes);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv), 0);
	assert_int_equal(spw_xfer_send(k.ab, gpu_a.mem, gpu_a.addr, bytes, 0, &send), 0);
	kit_done(&k, recv);
	kit_done(&k, send);
	assert_int_equal(flush(bytes), 0);
	kit_expect_bytes(gpu_b.seen, bytes, seed);
}

static void messages_move_and_are_flushed(void **state SPW_UNUSED)
{
	static const uint64_t bytes[] = {0, 1, 28, 4097, 65536, 1000001, PART};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(bytes); i++)
		pass(bytes[i], i);
}

static void messages_move_through_a_real_dmabuf(void **state)
{
	close_kit(state);
	if (!open_all(true)) {
		print_message("no /dev/udmabuf (modprobe udmabuf)\n");
		skip();
	}
	messages_move_and_are_flushed(state);
}

static void windows_are_put_to_and_got_from(void **state SPW_UNUSED)
{
	struct spw_xfer_window *window;
	struct spw_xfer_access a = {.mem = gpu_a.mem,
				    .offset = 4096,
				    .bytes = 2u << 20,
				    .addr = gpu_a.addr,
				    .flag_offset = 0,
				    .flag = 77};
	struct spw_xfer_req *req;
	int rc;

	assert_int_equal(spw_xfer_window_expose(k.ba, gpu_b.mem, gpu_b.addr + 4096, PART - 4096),
			 0);
	while ((rc = spw_xfer_window_remote(k.ab, 0, &window)) == -EAGAIN)
		kit_turn(&k);
	assert_int_equal(rc, 0);
	a.window = window;
	kit_fill(gpu_a.seen, a.bytes, 3);
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), 0);
	kit_done(&k, req);
	assert_true(spw_xfer_flag_seen((const uint64_t *)(void *)(gpu_b.seen + 4096), 77));
	kit_expect_bytes(gpu_b.seen + 8192, a.bytes, 3);
	memset(gpu_a.seen, 0, a.bytes);
	a.flag_offset = SPW_XFER_NO_FLAG;
	assert_int_equal(spw_xfer_get(k.ab, &a, &req), 0);
	kit_done(&k, req);
	kit_expect_bytes(gpu_a.seen, a.bytes, 3);
}

static void many_flushes_are_under_way(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req[3 * SPW_XFER_REQ_MAX];
	uint32_t cnt = 0, more = 0;
	int rc;

	for (uint32_t lap = 0; lap < 10; lap++) {
		for (cnt = 0; cnt < SPW_ARRAY_CNT(req); cnt++) {
			rc = spw_xfer_flush(k.ba, gpu_b.mem, gpu_b.addr, 1 + cnt, &req[cnt]);
			if (rc == -EAGAIN)
				break;
			assert_int_equal(rc, 0);
		}
		more += cnt;
		while (cnt)
			kit_done(&k, req[--cnt]);
	}
	assert_true(more >= 10 * 64);
}

/* "verbs:mlx5_0+..." begins with the device mlx5_0. */
static void first_device(const char *rails, char name[16])
{
	const char *dev = strncmp(rails, "verbs:", 6) ? rails : rails + 6;

	snprintf(name, 16, "%.*s", (int)strcspn(dev, "+"), dev);
}

/* The QP that flushes is the newest one: it is made for the first flush. */
static void a_flush_that_fails_is_an_error_of_its_own(void **state SPW_UNUSED)
{
	char name[16];
	struct spw_xfer_req *tested_late;
	uint32_t qpn[KIT_QPS], cnt;

	first_device(rails_b, name);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(flush(100), 0);
		assert_int_equal(spw_xfer_flush(k.ba, gpu_b.mem, gpu_b.addr, 100, &tested_late), 0);
		kit_turn_for(&k, 2);
		cnt = kit_qps(name, qpn);
		assert_true(cnt >= 2);
		kit_control(name, NULL, "qp-error=%u", qpn[cnt - 1]);
		kit_turn_for(&k, 2);
		assert_int_equal(flush(100), -EREMOTEIO);
		assert_int_equal(flush(100), 0);
		(void)kit_finish(&k, tested_late, NULL); /* it comes to an end */
		pass(100000, i);
	}
}

/* A descriptor that is not open is an error of the caller; a driver that registers no dma-buf
 * answers before it looks at it (libibverbs and the kernel's uverbs: EOPNOTSUPP). */
static void a_bad_descriptor_is_not_a_driver_without_dmabuf(void **state SPW_UNUSED)
{
	const struct spw_xfer_mem_req req = {
		.kind = SPW_XFER_DMABUF, .addr = gpu_a.addr, .bytes = 4096, .dmabuf_fd = -1};
	char name[16];
	struct spw_xfer_mem *mem;

	first_device(rails_a, name);
	assert_int_equal(spw_xfer_mem_reg(k.a, &req, &mem), -EBADF);
	kit_control(name, NULL, "fault fail=reg_dmabuf_mr:EOPNOTSUPP");
	assert_int_equal(spw_xfer_mem_reg(k.a, &req, &mem), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "registers no dma-buf"));
	kit_control(name, NULL, "fault fail=none");
	assert_int_equal(spw_xfer_mem_reg(k.a, &req, &mem), -EBADF);
}

/* A message may take any rail, so one device without dma-buf is enough to refuse. */
static void all_devices_are_asked(void **state SPW_UNUSED)
{
	char rails[64], *rest = rails, *name;
	struct spw_xfer *x = k.a;

	assert_int_equal(spw_xfer_dmabuf_check(x), 0);
	snprintf(rails, sizeof(rails), "%s", rails_a);
	while ((name = strsep(&rest, "+"))) {
		const char *dev = strchr(name, ':') ? strchr(name, ':') + 1 : name;

		kit_control(dev, NULL, "fault fail=reg_dmabuf_mr:EOPNOTSUPP");
		assert_int_equal(spw_xfer_dmabuf_check(x), -ENOTSUP);
		assert_non_null(strstr(spw_err_text(), dev));
		kit_control(dev, NULL, "fault fail=none");
		assert_int_equal(spw_xfer_dmabuf_check(x), 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
		CASE(messages_move_and_are_flushed),
		CASE(messages_move_through_a_real_dmabuf),
		CASE(windows_are_put_to_and_got_from),
		CASE(many_flushes_are_under_way),
		CASE(a_flush_that_fails_is_an_error_of_its_own),
		CASE(a_bad_descriptor_is_not_a_driver_without_dmabuf),
		CASE(all_devices_are_asked),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
