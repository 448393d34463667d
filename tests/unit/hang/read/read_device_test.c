/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The collectors of ports, queue pairs, GPUs and connections, on recorded hosts.
 */
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "hang/read/read_impl.h"
#include "read_kit.h"

static struct spw_hang_snap snap;

/* ---- ports ---- */

#define PORT "sys/class/infiniband/rocep1s0f0/ports/1/"

static void a_port(void **state)
{
	(void)state;
	kit_put(PORT "state", "4: ACTIVE\n");
	kit_put(PORT "rate", "200 Gb/sec (4X HDR)\n");
	kit_put(PORT "gid_attrs/ndevs/0", "enp1s0f0np0\n");
	kit_put(PORT "hw_counters/packet_seq_err", "4830\n");
	kit_put(PORT "hw_counters/out_of_sequence", "5057\n");
	kit_put("sys/class/infiniband/rocep1s0f0/device/aer_dev_nonfatal",
		"Undefined 0\nTOTAL_ERR_NONFATAL 2\n");
	kit_put("sys/class/infiniband/rocep1s0f0/device/aer_dev_fatal", "TOTAL_ERR_FATAL 1\n");
	kit_put("sys/class/net/enp1s0f0np0/carrier", "1\n");
	kit_put("sys/class/net/enp1s0f0np0/mtu", "9000\n");
	kit_put("proc/1/maps", "");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.port_cnt, 1);
	assert_string_equal(snap.port[0].state, "ACTIVE");
	assert_string_equal(snap.port[0].netdev, "enp1s0f0np0");
	kit_equal(snap.port[0].mbps, 200000);
	kit_equal(snap.port[0].carrier, 1);
	kit_equal(snap.port[0].mtu, 9000);
	kit_equal(snap.port[0].aer, 3);
	kit_equal(snap.port[0].packet_seq_err, 4830);
	kit_equal(snap.port[0].out_of_sequence, 5057);
	assert_false(snap.port[0].roce_adp_retrans.known);
	spw_hang_snap_free(&snap);
}

/* ---- queue pairs, TCP ---- */

struct attr {
	uint16_t bytes, type;
	uint32_t value;
};

/* One entry of an answer, as nldev.c of the kernel lays it out. */
struct qp_answer {
	struct nlmsghdr head;
	struct nlattr table, entry;
	struct attr field[4];
};

static struct qp_answer qp_answer(void)
{
	return (struct qp_answer){
		.head = {.nlmsg_len = sizeof(struct qp_answer), .nlmsg_type = 0x140d},
		.table = {.nla_len = sizeof(struct qp_answer) - NLMSG_HDRLEN,
			  .nla_type = RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED},
		.entry = {.nla_len = sizeof(struct qp_answer) - NLMSG_HDRLEN - NLA_HDRLEN,
			  .nla_type = RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED},
		.field = {{8, RDMA_NLDEV_ATTR_RES_LQPN, 77},
			  {8, RDMA_NLDEV_ATTR_RES_RQPN, 78},
			  {5, RDMA_NLDEV_ATTR_RES_STATE, 6},
			  {8, RDMA_NLDEV_ATTR_RES_PID, 4711}}};
}

/* Whole, cut at each byte, and with each length that lies. */
static void queue_pairs_by_netlink(void **state)
{
	struct qp_answer answer = qp_answer();
	struct hang_read r = {.snap = &snap};

	(void)state;
	memset(&snap, 0, sizeof(snap));
	((struct spw_hang_proc_row *)spw_hang_row_add(&snap, SPW_HANG_TABLE_proc))->pid =
		spw_hang_num(4711);
	assert_int_equal(hang_qp_messages(&r, "mlx5_0", &answer, sizeof(answer)), 1);
	assert_int_equal(snap.qp_cnt, 1);
	assert_string_equal(snap.qp[0].device, "mlx5_0");
	assert_string_equal(snap.qp[0].state, "ERR");
	kit_equal(snap.qp[0].qpn, 77);
	kit_equal(snap.qp[0].peer_qpn, 78);
	for (size_t left = 0; left < sizeof(answer); left++)
		hang_qp_messages(&r, "mlx5_0", &answer, left);
	for (size_t at = 0; at < sizeof(answer); at++)
		for (int bit = 0; bit < 8; bit++) {
			answer = qp_answer();
			((uint8_t *)&answer)[at] ^= (uint8_t)(1u << bit);
			hang_qp_messages(&r, "mlx5_0", &answer, sizeof(answer));
		}
	answer = qp_answer();
	answer.field[3].value = 4712;
	snap.qp_cnt = 0;
	hang_qp_messages(&r, "mlx5_0", &answer, sizeof(answer));
	assert_int_equal(snap.qp_cnt, 0);
	spw_hang_snap_free(&snap);
}

static void recorded_queue_pairs(void **state)
{
	(void)state;
	kit_rank(4711, "0");
	kit_put("qp", "mlx5_0 77 78 RTS 4711\nmlx5_0 79 80 ERR 4712\nmlx5_0 1\n");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.qp_cnt, 1);
	assert_string_equal(snap.qp[0].state, "RTS");
	assert_string_equal(snap.why[SPW_HANG_SOURCE_qp], "");
	spw_hang_snap_free(&snap);
}

/* The rank's own, not those of another process of its namespace. */
static void a_connection_without_an_answer(void **state)
{
	static const char head[] = "  sl  local_address rem_address   st tx_queue rx_queue\n";
	char text[512], link[128];

	(void)state;
	kit_rank(4711, "0");
	snprintf(
		text, sizeof(text),
		"%s   0: %08X:A3F2 %08X:1B58 02 00000001:00000000 01:00000064 00000003  1000 0 55 "
		"2\n"
		"   1: %08X:A3F2 %08X:1B58 02 00000001:00000000 01:00000064 00000003  1000 0 56 2\n"
		"   2: %08X:A3F2 %08X:1B58 01 00000001:00000000 01:00000064 00000003  1000 0 55 "
		"2\n",
		head, htonl(0xc0000201), htonl(0xc0000202), 1, 2, 1, 2);
	kit_proc_put(4711, "net/tcp", text);
	kit_proc_put(4711, "net/tcp6", head);
	snprintf(link, sizeof(link), "%s/proc/4711/fd/9", root);
	assert_int_equal(symlink("socket:[55]", link), 0);
	kit_put("addr", "192.0.2.1\nfe80::1\n");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.dial_cnt, 1);
	assert_string_equal(snap.dial[0].local, "192.0.2.1:41970");
	assert_string_equal(snap.dial[0].remote, "192.0.2.2:7000");
	assert_string_equal(snap.dial[0].state, "SYN_SENT");
	assert_int_equal(snap.addr_cnt, 2);
	assert_string_equal(snap.addr[1].addr, "fe80::1");
	spw_hang_snap_free(&snap);
}

/* ---- GPUs ---- */

/* NVML names the processes; of one that it names on no GPU there is none, where there are two. */
static void two_gpus(void **state)
{
	(void)state;
	kit_rank(10, "0");
	kit_rank(11, "1");
	kit_proc_put(11, "maps", "7f00 r-xp 0 0:0 1 /v/libnccl.so.2\n7f r 0 0 0 /l/libcuda.so.1\n");
	kit_put("gpu", "96 0 19500 799 3003 0 10,5\n-1 -1 -1 -1 -1 -1 -\n");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.gpu_cnt, 1);
	kit_equal(snap.gpu[0].pid, 10);
	kit_equal(snap.gpu[0].alone, 0);
	kit_equal(snap.gpu[0].busy, 96);
	kit_equal(snap.gpu[0].power_mw, 19500);
	kit_equal(snap.gpu[0].sm_mhz, 799);
	kit_equal(snap.proc[1].cuda, 1);
	spw_hang_snap_free(&snap);
}

/* A container: one GPU, and no process is named. */
static void one_gpu_without_names(void **state)
{
	(void)state;
	kit_rank(10, "0");
	kit_rank(11, "1");
	kit_proc_put(11, "maps", "7f00 r-xp 0 0:0 1 /v/libnccl.so.2\n7f r 0 0 0 /l/libcuda.so.1\n");
	kit_put("gpu", "100 0 -1 2281 3003 4 -\n");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.gpu_cnt, 1);
	kit_equal(snap.gpu[0].pid, 11);
	assert_false(snap.gpu[0].alone.known);
	assert_false(snap.gpu[0].power_mw.known);
	kit_equal(snap.gpu[0].reasons, 4);
	spw_hang_snap_free(&snap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECORDED(a_port),
		cmocka_unit_test(queue_pairs_by_netlink),
		RECORDED(recorded_queue_pairs),
		RECORDED(a_connection_without_an_answer),
		RECORDED(two_gpus),
		RECORDED(one_gpu_without_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
