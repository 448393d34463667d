/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * DPDK's net_null: several queues, and everything that ethdev must refuse.
 */
#include <errno.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <stdio.h>

#include "inter_test.h"
#include "port/ethdev/ethdev.h"

static void queues_have_pools_of_their_own(void **state SPW_UNUSED)
{
	struct spw_desc desc[SPW_BURST_MAX];
	struct inter_port ip;
	struct spw_port_stat st;
	uint32_t slot[SPW_BURST_MAX];

	inter_open(&ip, "ethdev:net_null0,size=128", 0, 3, 96);
	for (uint16_t q = 0; q < 3; q++) {
		for (uint16_t cnt = 1; cnt <= SPW_BURST_MAX; cnt++) {
			assert_int_equal(spw_port_rx_burst(&ip.port->queue[q], desc, cnt), cnt);
			for (uint16_t i = 0; i < cnt; i++) {
				assert_int_equal(desc[i].len, 128);
				assert_true(desc[i].slot < 96);
				slot[i] = desc[i].slot;
			}
			inter_check_slots(&ip);
			spw_port_release_burst(&ip.port->queue[q], slot, cnt);
		}
		/* net_null takes a whole burst or nothing from the mempool: asked for what is left,
		 * it delivers it. */
		assert_int_equal(spw_port_rx_burst(&ip.port->queue[q], desc, 64), 64);
		for (uint16_t i = 0; i < 64; i++)
			slot[i] = desc[i].slot;
		assert_int_equal(spw_port_rx_burst(&ip.port->queue[q], desc, 64), 32);
		for (uint16_t i = 0; i < 32; i++)
			spw_port_release_burst(&ip.port->queue[q], &desc[i].slot, 1);
		spw_port_release_burst(&ip.port->queue[q], slot, 64);
	}
	spw_port_stat(ip.port, &st);
	assert_int_equal(st.rx_frames, 3 * (65 * 32 + 96));
	assert_int_equal(st.wire_frames, st.rx_frames);
	assert_true(st.missed_known);
	assert_int_equal(st.port_copies, 0);
	inter_close(&ip);
}

static void refuse(const char *text, uint16_t queues, int code, const char *part)
{
	struct spw_port_spec spec;
	struct spw_port *port = (void *)&spec;

	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	assert_int_equal(spw_port_open(&spec, 0, queues, &port), code);
	assert_null(port);
	if (!strstr(spw_err_text(), part) || !strstr(spw_err_text(), text))
		fail_msg("'%s' gave: %s", text, spw_err_text());
}

static void what_it_cannot_do_is_refused(void **state SPW_UNUSED)
{
	struct inter_port ip;

	refuse("ethdev:net_nosuch0", 1, -ENODEV, "is it the name of a PMD");
	refuse("ethdev:", 1, -EINVAL, "no device");
	refuse("ethdev:net_null1,nosuchkey=1", 1, -ENODEV, "are its keys right");
	refuse("ethdev:net_null1,mtu=12", 1, -ERANGE, "68 .. ");
	refuse("ethdev:net_memif5,zero-copy=yes,role=client", 1, -ENOTSUP, "leave it out");
	refuse("ethdev:net_ring5", 64, -ERANGE, "net_ring has");
	refuse("ethdev:0000:7f:1f.7", 1, -ENODEV, "vfio-pci");
	inter_open(&ip, "ethdev:net_null2", 0, 1, 64);
	refuse("ethdev:net_null2", 1, -EBUSY, "already uses");
	inter_close(&ip);
	assert_int_equal(rte_eth_dev_count_total(), 0);
}

static int setup_with(uint32_t slot_cnt, size_t slot_bytes)
{
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = slot_cnt * slot_bytes, .numa_node = -1};
	struct spw_port_queue_conf conf = {.numa_node = -1};
	struct spw_port_spec spec;
	struct spw_region region;
	struct spw_pool pool;
	struct spw_port *port;
	int rc;

	assert_int_equal(spw_port_spec_parse("ethdev:net_null3", &spec), 0);
	assert_int_equal(spw_port_open(&spec, 0, 1, &port), 0);
	assert_int_equal(spw_region_alloc(&req, &region), 0);
	assert_int_equal(spw_pool_init(&pool, &region, 0, slot_bytes, slot_cnt), 0);
	conf.pool = &pool;
	rc = spw_port_queue_setup(port, 0, &conf);
	assert_int_equal(rc ? spw_port_start(port) : 0,
			 rc ? -EINVAL : 0); /* a queue that failed cannot be started */
	spw_port_close(port);
	assert_int_equal(spw_pool_fini(&pool), 0);
	spw_region_free(&region);
	return rc;
}

static void pools_that_do_not_fit_are_refused(void **state SPW_UNUSED)
{
	assert_int_equal(setup_with(128, 1024), -EINVAL);
	assert_int_equal(setup_with(32, 2176), -EINVAL);
	assert_int_equal(setup_with(64, 65536), 0);  /* longer than a mbuf can say */
	assert_int_equal(setup_with(4000, 8192), 0); /* a count that is no power of 2 */
}

/* What a real NIC needs, as far as EAL goes: the region's own page size, one registration for two
 * devices. */
static void a_region_is_registered_once_and_gone_at_the_end(void **state SPW_UNUSED)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST, .bytes = 8 << 20, .numa_node = -1};
	struct spw_region region;
	struct rte_eth_dev_info info;
	struct rte_memseg *seg;
	struct inter_port ip;

	inter_open(&ip, "ethdev:net_null4", 0, 1, 64);
	assert_int_equal(rte_eth_dev_info_get(0, &info), 0);
	assert_int_equal(spw_region_alloc(&req, &region), 0);
	assert_int_equal(ethdev_region_map(info.device, &region), 0);
	assert_int_equal(ethdev_region_map(info.device, &region), 0);
	seg = rte_mem_virt2memseg(region.host_va + region.bytes - 1, NULL);
	assert_non_null(seg);
	assert_int_equal(seg->hugepage_sz, region.page_bytes);
	assert_int_equal(seg->iova, (uintptr_t)seg->addr);
	ethdev_region_unmap(info.device, &region);
	assert_non_null(rte_mem_virt2memseg(region.host_va, NULL));
	ethdev_region_unmap(info.device, &region);
	assert_null(rte_mem_virt2memseg(region.host_va, NULL));
	spw_region_free(&region);
	inter_close(&ip);
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test(queues_have_pools_of_their_own),
		cmocka_unit_test(what_it_cannot_do_is_refused),
		cmocka_unit_test(pools_that_do_not_fit_are_refused),
		cmocka_unit_test(a_region_is_registered_once_and_gone_at_the_end),
	};

	inter_eal_init();
	return cmocka_run_group_tests_name("inter-null", test, NULL, NULL);
}
