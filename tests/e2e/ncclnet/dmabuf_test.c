/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory as a GPU's through one table of the plugin, in the order of NCCL's calls: what the device
 * says it takes, registrations by dma-buf, messages, and the flush that follows each receive.
 */
#include <stdlib.h>

#include "../../unit/unit_control.h"
#include "../../unit/unit_udmabuf.h"
#include "net_pair.h"

#define BYTES   (4u << 20)
#define FLUSHES 100u /* more than the reads that a device has under way for all connections */

static struct pair p;
static struct unit_gpu gpu_a, gpu_b;
static void *mr_a, *mr_b;

static bool open_all(bool real)
{
	pair_open(&p);
	if (!unit_gpu_open(&gpu_a, BYTES, real) || !unit_gpu_open(&gpu_b, BYTES, real))
		return false;
	assert_int_equal(net_reg_dmabuf(&p.a, p.send, gpu_a.addr, BYTES, 0, gpu_a.dmabuf, &mr_a),
			 0);
	assert_int_equal(net_reg_dmabuf(&p.b, p.recv, gpu_b.addr, BYTES, 0, gpu_b.dmabuf, &mr_b),
			 0);
	return true;
}

static int set_up(void **state)
{
	(void)state;
	return open_all(false) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(net_dereg(&p.a, p.send, mr_a), 0);
	assert_int_equal(net_dereg(&p.b, p.recv, mr_b), 0);
	mr_a = mr_b = NULL;
	pair_close(&p);
	unit_gpu_close(&gpu_a);
	unit_gpu_close(&gpu_b);
	return 0;
}

/* Whether the software ConnectX of this run registers dma-bufs. */
static bool driver_has_it(void)
{
	const char *options = getenv("SPW_TEST_OPTIONS");

	return !options || !strstr(options, "reg_dmabuf_mr");
}

static void is_offered_where_the_driver_has_it(void **state)
{
	struct nccl_props_v12 d;
	struct net net;

	(void)state;
	net_log();
	pair_init(&net, pair_rails_a());
	assert_int_equal(strstr(net_log(), "and dma-buf") != NULL, driver_has_it());
	assert_int_equal(net_properties(&net, 0, &d), 0);
	assert_int_equal(d.ptr_support, NCCL_PTR_HOST | (driver_has_it() ? NCCL_PTR_DMABUF : 0));
	assert_int_equal(net_finalize(&net), 0);
}

/* The software ConnectX of the first context stay, so that what one of them lacks can be changed
 * before the second context asks. Only tables with contexts ask again. */
static void is_not_offered_where_one_rail_lacks_it(void **state)
{
	const char *last = strrchr(pair_rails_a(), '+');
	char answer[UNIT_ANSWER_BYTES];
	struct nccl_props_v12 d;
	struct net first, net;

	(void)state;
	if (!last || pair_version() < 11)
		skip();
	pair_init(&first, pair_rails_a());
	unit_control(last + 1, "fault fail=reg_dmabuf_mr:EOPNOTSUPP", answer);
	net_log();
	pair_init(&net, pair_rails_a());
	unit_control(last + 1, "fault fail=none", answer);
	assert_non_null(strstr(net_log(), "no dma-buf"));
	assert_int_equal(net_properties(&net, 0, &d), 0);
	assert_int_equal(d.ptr_support, NCCL_PTR_HOST);
	assert_int_equal(net_finalize(&net), 0);
	assert_int_equal(net_finalize(&first), 0);
}

/* ---- transfers ---- */

static void flush(size_t bytes)
{
	void *data = gpu_b.addr, *req = NULL;
	int part = (int)bytes;

	assert_int_equal(net_iflush(&p.b, p.recv, 1, &data, &part, &mr_b, &req), 0);
	assert_int_equal(req != NULL, bytes != 0);
	pair_finish(&p, &req, 1, NULL);
}

static void pass(size_t bytes, uint64_t seed)
{
	struct net_group g = {1, {gpu_b.addr}, {BYTES}, {3}, {mr_b}};
	void *req[2];
	int got[2] = {-1, -1};

	pair_fill(gpu_a.seen, bytes, seed);
	memset(gpu_b.seen, 0, BYTES);
	assert_int_equal(net_irecv(&p.b, p.recv, &g, &req[0]), 0);
	assert_int_equal(net_isend(&p.a, p.send, gpu_a.addr, bytes, 3, mr_a, &req[1]), 0);
	pair_finish(&p, req, 2, got);
	assert_int_equal(got[0], bytes);
	flush(bytes);
	pair_expect(gpu_b.seen, bytes, seed);
	for (size_t b = bytes; b < BYTES; b += 509)
		assert_int_equal(gpu_b.seen[b], 0);
}

static void messages_move_and_are_flushed(void **state)
{
	static const size_t sizes[] = {0, 1, 28, 29, 4097, 65537, 1000001, BYTES};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(sizes); i++)
		pass(sizes[i], i + 1);
}

static void messages_move_through_a_real_dmabuf(void **state)
{
	tear_down(state);
	if (!open_all(true)) {
		print_message("no /dev/udmabuf (modprobe udmabuf)\n");
		skip();
	}
	messages_move_and_are_flushed(state);
}

/* NCCL takes a flush that has no request for one that is done: none may be put off like that. */
static void each_flush_has_a_request(void **state)
{
	void *req[FLUSHES], *data = gpu_b.addr;
	int bytes = 4096;

	(void)state;
	for (int lap = 0; lap < 5; lap++) {
		for (uint32_t i = 0; i < FLUSHES; i++) {
			assert_int_equal(net_iflush(&p.b, p.recv, 1, &data, &bytes, &mr_b, &req[i]),
					 0);
			assert_non_null(req[i]);
		}
		pair_finish(&p, req, FLUSHES, NULL);
	}
	pass(100000, 9);
}

/* ---- registrations ---- */

/* As NCCL registers the same buffers for each connection; a part may have been replaced. */
static void only_the_same_range_is_shared(void **state)
{
	void *same, *part;

	(void)state;
	assert_int_equal(net_reg_dmabuf(&p.a, p.send, gpu_a.addr, BYTES, 0, gpu_a.dmabuf, &same),
			 0);
	assert_ptr_equal(same, mr_a);
	assert_int_equal(net_reg_dmabuf(&p.a, p.send, gpu_a.addr + PAIR_PAGE, PAIR_PAGE, PAIR_PAGE,
					gpu_a.dmabuf, &part),
			 0);
	assert_ptr_not_equal(part, mr_a);
	assert_int_equal(net_dereg(&p.a, p.send, part), 0);
	assert_int_equal(net_dereg(&p.a, p.send, same), 0);
	pass(4096, 4);
}

static void bad_descriptors_are_refused(void **state)
{
	void *mr;

	(void)state;
	net_log();
	assert_int_equal(net_reg_dmabuf(&p.a, p.send, gpu_a.addr, PAIR_PAGE, 0, -1, &mr),
			 NCCL_SYSTEM_ERROR);
	assert_null(mr);
	assert_non_null(strstr(net_log(), "Bad file descriptor"));
	assert_int_not_equal(
		net_reg_dmabuf(&p.a, p.send, gpu_a.addr, 2 * BYTES, 0, gpu_a.dmabuf, &mr), 0);
	assert_null(mr);
	pass(4096, 5);
}

int main(int argc, char **argv)
{
#define WITH_GPUS(F) cmocka_unit_test_setup_teardown(F, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_offered_where_the_driver_has_it),
		cmocka_unit_test(is_not_offered_where_one_rail_lacks_it),
		WITH_GPUS(messages_move_and_are_flushed),
		WITH_GPUS(messages_move_through_a_real_dmabuf),
		WITH_GPUS(each_flush_has_a_request),
		WITH_GPUS(only_the_same_range_is_shared),
		WITH_GPUS(bad_descriptors_are_refused),
	};
	const size_t cnt = driver_has_it() ? SPW_ARRAY_CNT(tests) : 1;

	return pair_args(argc, argv) ? _cmocka_run_group_tests("dmabuf", tests, cnt, NULL, NULL)
				     : 2;
}
