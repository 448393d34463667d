/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Raw Ethernet through the port interface, over rdma-core's own objects and the software ConnectX:
 * send, receive, echo. Every byte is compared, every slot is counted, both sides of every number
 * are compared.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/mlx5/eth/eth.h"
#include "kit_card.h"
#include "port_kit.h"

static struct kit_run run;

static struct kit_conf conf(const char *spec, uint16_t queues, const char *profile)
{
	return (struct kit_conf){.spec = spec, .queues = queues, .profile = profile};
}

/* Send completions may come later than the next window: an echo that finds no room is offered
 * again, since check_clean() wants all of them. */
static void open_ends(const struct kit_conf *a, const struct kit_conf *b)
{
	kit_open(&run, a, b);
	run.b.echoes_all = true;
}

static void open_both(uint16_t queues, const char *profile)
{
	struct kit_conf a = conf("mlx5:mlx5_0", queues, profile),
			b = conf("mlx5:mlx5_1,mode=eth", queues, profile);

	open_ends(&a, &b);
}

static struct mlx5_eth_queue_ctl *queue(struct kit_port *p, uint16_t q)
{
	return &mlx5_eth_of(p->port)->queue[q];
}

static void check_clean(void)
{
	struct spw_port_stat stat = {0};

	kit_settle(&run);
	assert_int_equal(run.echoed, run.sent);
	assert_int_equal(run.bad, 0);
	/* An echo may arrive before the completion of its sending is read. */
	for (double start = kit_seconds();
	     stat.tx_frames < run.sent && kit_seconds() - start < KIT_WAIT_S;) {
		kit_turn(&run, false);
		spw_port_stat(run.b.port, &stat);
	}
	assert_true(stat.missed_known);
	assert_int_equal(stat.missed_frames, 0);
	assert_int_equal(stat.wire_frames, run.sent);
	assert_int_equal(stat.tx_frames, run.sent);
	assert_int_equal(stat.tx_flushed, 0);
	assert_int_equal(stat.err[SPW_PORT_ERR_cqe_error] + stat.err[SPW_PORT_ERR_queue_reset], 0);
}

/* What the card adds to every plan. */
static unsigned card_flags(void)
{
	return kit_card()->inlines ? MLX5_F_INLINE : 0;
}

/* More queues than the device spreads over are refused in a line. */
static bool too_many(uint16_t queues, const char *profile)
{
	static const char *const words[] = {"queues were asked for", "spreads over 2 at most",
					    NULL};
	struct kit_conf c = conf("mlx5:mlx5_0", queues, profile);

	if (queues <= kit_card()->queues)
		return false;
	kit_refused(&c, -ERANGE, words);
	return true;
}

/* Frames to and fro; each queue gets its share, and both ends say the same. */
static void echoes(uint16_t queues, const char *profile)
{
	if (too_many(queues, profile))
		return;
	open_both(queues, profile);
	kit_pump(&run, 20000);
	check_clean();
	for (uint16_t q = 0; q < queues; q++) {
		assert_true(run.b.rx[q] > 20000 / queues / 4);
		assert_true(run.a.rx[q] > 20000 / queues / 4);
	}
	assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_LINK_UP], 1);
	kit_close(&run);
}

#define ECHO_TESTS(X) \
	X(1, latency) \
	X(2, latency) X(4, latency) X(3, latency) X(1, throughput) X(2, throughput) X(4, throughput)
#define ECHO_TEST(queues, profile)                               \
	static void test_echo_##queues##_##profile(void **state) \
	{                                                        \
		(void)state;                                     \
		echoes(queues, #profile);                        \
	}
ECHO_TESTS(ECHO_TEST)

/* The profiles are what they say they are. */
static void test_profiles(void **state)
{
	(void)state;
	open_both(1, "latency");
	assert_int_equal(queue(&run.b, 0)->plan.flags,
			 card_flags() | (kit_card()->stamps ? MLX5_F_STAMP : 0));
	assert_int_equal(queue(&run.b, 0)->q.rq_mask, 1023);
	assert_int_equal(queue(&run.b, 0)->q.cq_mask, 1023);
	assert_int_equal(queue(&run.b, 0)->tx.td != NULL, kit_card()->own_registers);
	assert_int_equal(run.b.port->caps.nic_clock_hz > 0, kit_card()->stamps);
	kit_close(&run);
	open_both(1, "throughput");
	assert_int_equal(queue(&run.b, 0)->plan.flags,
			 card_flags() | (kit_card()->strides ? MLX5_F_STRIDING : 0) |
				 (kit_card()->compresses ? MLX5_F_COMPRESSED : 0));
	assert_string_equal(queue(&run.b, 0)->plan.why,
			    kit_card()->strides ? "" : "the device has no striding receive queues");
	kit_close(&run);
}

/* A device that wants the L2 header inside the WQE gets it, frames of 60 bytes and up, both kinds
 * of ring. */
static void test_inline_header(void **state)
{
	static const char *const profile[] = {"latency", "throughput"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct kit_conf a = conf("mlx5:mlx5_0,tx_inline=18", 2, profile[i]),
				b = conf("mlx5:mlx5_1,tx_inline=18", 2, profile[i]);

		open_ends(&a, &b);
		assert_true(queue(&run.b, 1)->plan.flags & MLX5_F_INLINE);
		run.bytes_min = 60;
		kit_pump(&run, 5000);
		check_clean();
		kit_close(&run);
	}
}

/* Every send queue has a register that no other one writes; where the machine does not combine
 * writes, registers take 8-byte doorbells only, and may be shared. */
static void test_own_registers(void **state)
{
	const bool own = kit_card()->own_registers;

	(void)state;
	open_both(kit_card()->queues, "latency");
	for (uint16_t i = 0; i < kit_card()->queues; i++) {
		assert_int_equal(queue(&run.b, i)->tx.sqmem.bf_bytes > 0, own);
		for (uint16_t k = 0; k < i && own; k++)
			assert_ptr_not_equal(queue(&run.b, i)->tx.sqmem.bf,
					     queue(&run.b, k)->tx.sqmem.bf);
	}
	kit_pump(&run, 1000);
	check_clean();
	kit_close(&run);
}

/* A frame alone: its WQE goes whole to one half of the register, and the halves take turns. The NIC
 * takes each before the next one is written, so none escapes the check of with-softhca. */
static void test_one_at_a_time(void **state)
{
	static const uint8_t frame[64] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
	struct spw_desc desc;

	(void)state;
	open_both(1, "latency");
	for (uint32_t i = 0; i < 200; i++) {
		kit_send_bytes(&run, frame, sizeof(frame));
		kit_receive(&run.b, &desc);
		assert_int_equal(desc.len, sizeof(frame));
	}
	kit_close(&run);
}

/* What striding cannot do becomes a cyclic ring that says why, and carries frames. */
static void test_throughput_falls_back(void **state)
{
	static const struct {
		struct kit_conf conf;
		const char *why;
	} cases[] = {
		{{.slot_bytes = 1536 + 64}, "power of 2"},
		{{.slot_bytes = 16384, .slots = 512}, "power of 2 from 64 to 8192"},
		{{.ring = 256}, "the ring size was given"},
	};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		struct kit_conf a = conf("mlx5:mlx5_0", 1, "throughput"), b = cases[i].conf;

		b.spec = "mlx5:mlx5_1";
		b.queues = 1;
		b.profile = "throughput";
		open_ends(&a, &b);
		assert_int_equal(queue(&run.b, 0)->plan.flags,
				 card_flags() | (kit_card()->compresses ? MLX5_F_COMPRESSED : 0));
		if (!strstr(queue(&run.b, 0)->plan.why,
			    kit_card()->strides ? cases[i].why : "no striding receive queues"))
			fail_msg("%s", queue(&run.b, 0)->plan.why);
		run.window = 128;
		kit_pump(&run, 3000);
		check_clean();
		kit_close(&run);
	}
}

/* A card whose WQEs have many strides at least needs many slots for them. */
static void test_few_slots(void **state)
{
	const bool few = kit_card()->strides_min > 8;
	struct kit_conf a = conf("mlx5:mlx5_0", 1, "throughput"),
			b = conf("mlx5:mlx5_1", 1, "throughput");

	(void)state;
	b.slots = 1024;
	open_ends(&a, &b);
	assert_string_equal(queue(&run.b, 0)->plan.why,
			    !kit_card()->strides ? "the device has no striding receive queues"
			    : few                ? "striding needs at least 2048 slots, not 1024"
						 : "");
	run.window = 128;
	kit_pump(&run, 3000);
	check_clean();
	kit_close(&run);
}

/* Index 2^16 of the WQEs goes round, in rings of several sizes, in both directions. */
static void test_laps(void **state)
{
	static const uint32_t ring[] = {64, 1024, 0};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(ring); i++) {
		struct kit_conf a = conf("mlx5:mlx5_0", 1, ring[i] ? "latency" : "throughput"),
				b = a;

		b.spec = "mlx5:mlx5_1";
		a.ring = b.ring = ring[i];
		open_ends(&a, &b);
		run.bytes_max = 128;
		run.window = ring[i] ? ring[i] / 2 : 256;
		kit_pump(&run, 150000);
		check_clean();
		kit_close(&run);
	}
}

/* 2^24 completions and more through one ring. */
static void test_laps_of_24_bits(void **state)
{
	(void)state;
	open_both(1, "throughput");
	run.bytes_max = 64;
	for (uint32_t i = 0; i < 17; i++)
		kit_pump(&run, 1000000);
	check_clean();
	assert_true(queue(&run.b, 0)->q.cq_ci > 1u << 24);
	kit_close(&run);
}

/* An overload: frames that find no posted slot are counted by the device, and the sums hold. */
static void test_missed_frames(void **state)
{
	static const char *const profile[] = {"latency", "throughput"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct spw_port_stat stat = {0};

		open_both(1, profile[i]);
		while (run.sent < 6000) { /* b does not poll */
			struct spw_port_event ev;

			kit_send(&run);
			spw_port_events(&run.a.port->queue[0], &ev, 1);
		}
		for (double start = kit_seconds();
		     stat.wire_frames < run.sent && kit_seconds() - start < KIT_WAIT_S;) {
			kit_turn(&run, false);
			spw_port_stat(run.b.port, &stat);
		}
		assert_int_equal(stat.wire_frames, run.sent);
		assert_true(stat.missed_frames >= 6000 - 4096);
		assert_true(stat.rx_frames >= 1024);
		assert_int_equal(stat.rx_frames + stat.missed_frames, run.sent);
		run.sent = run.echoed;
		kit_pump(&run, 1000);
		kit_settle(&run); /* what lies on the cable would reach the next test */
		kit_close(&run);
	}
}

/* The flow hash is the one of Microsoft's "Verifying the RSS hash calculation", with and without
 * ports. */
static void test_flow_hash(void **state)
{
	static const struct {
		uint8_t src[4], dst[4];
		uint16_t src_port, dst_port;
		uint32_t with_ports, without;
	} row[] = {
		{{66, 9, 149, 187}, {161, 142, 100, 80}, 2794, 1766, 0x51ccc178, 0x323e8fc2},
		{{199, 92, 111, 2}, {65, 69, 140, 83}, 14230, 4739, 0xc626b0ea, 0xd718262a},
		{{24, 19, 198, 95}, {12, 22, 207, 184}, 12898, 38024, 0x5c2b394a, 0xd2d0a5de},
	};

	(void)state;
	open_both(kit_card()->queues, "latency");
	for (size_t i = 0; i < 2 * SPW_ARRAY_CNT(row); i++) {
		uint8_t frame[64] = {2, 0, 0,    0, 0, 2,  2, 0, 0, 0, 0, 1,
				     8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64};
		struct spw_desc desc;
		bool ports = i & 1;

		frame[23] = ports ? 17 : 1; /* UDP, ICMP */
		memcpy(frame + 26, row[i / 2].src, 4);
		memcpy(frame + 30, row[i / 2].dst, 4);
		spw_prm_st16(frame + 34, row[i / 2].src_port);
		spw_prm_st16(frame + 36, row[i / 2].dst_port);
		spw_prm_st16(frame + 38, 30);
		kit_send_bytes(&run, frame, sizeof(frame));
		kit_receive(&run.b, &desc);
		assert_int_equal(desc.meta, ports ? row[i / 2].with_ports : row[i / 2].without);
	}
	kit_close(&run);
}

static uint64_t nic_now(struct kit_port *p)
{
	uint64_t nic, tsc, unc;
	int rc = -ETIME;

	/* -ETIME: an idle NIC thread did not update its clock page in time. */
	for (double start = kit_seconds(); rc == -ETIME && kit_seconds() - start < KIT_WAIT_S;)
		rc = spw_port_pair_clock(p->port, &nic, &tsc, &unc);
	assert_int_equal(rc, 0);
	assert_true(unc > 0);
	return nic;
}

/* Each frame has a stamp, on the clock that pair_clock ties to ours: between two readings of it. */
static void test_stamps(void **state)
{
	struct spw_desc desc;
	uint64_t before;

	(void)state;
	open_both(1, "latency");
	if (!kit_card()->stamps) {
		kit_send(&run);
		kit_receive(&run.b, &desc);
		assert_false(desc.flags & SPW_DESC_NIC_STAMP);
		assert_int_equal(spw_port_pair_clock(run.b.port, &before, &before, &before),
				 -ENOTSUP);
		kit_close(&run);
		return;
	}
	before = nic_now(&run.b);
	kit_send(&run);
	kit_receive(&run.b, &desc);
	assert_true(desc.flags & SPW_DESC_NIC_STAMP);
	assert_true(desc.flags & SPW_DESC_L3_OK && desc.flags & SPW_DESC_L4_OK);
	assert_true(desc.nic_stamp > before);
	while (nic_now(&run.b) <
	       desc.nic_stamp) /* the page may lie behind, the test's time limit says how long */
		kit_turn(&run, false);
	run.sent--; /* the one that was read was not echoed */
	kit_settle(&run);
	kit_close(&run);
}

/* Sends from a, and waits for the completion of what it sent. */
static void send_and_wait(const struct spw_port_sent *sent)
{
	const struct spw_port_done *done;
	double start = kit_seconds();

	kit_send(&run);
	do {
		assert_true(kit_seconds() - start < KIT_WAIT_S);
		kit_turn(&run, false);
		done = &sent->done[(sent->cnt - 1) & sent->mask];
	} while (!sent->cnt || done->number < run.a.taken);
	assert_int_equal(done->number, run.a.taken);
}

/* Send completions are kept, through a decorator too, by the same clock, with the number of the
 * last frame of each: also where compression takes the stamps of received frames. */
static void sent_stamps(const char *profile)
{
	struct kit_conf
		a = conf("fault:mlx5:mlx5_0,fault_do=tx_spin,fault_for_us=1,fault_every_us=1000", 1,
			 profile),
		b = conf("mlx5:mlx5_1,mode=eth", 1, profile);
	const struct spw_port_sent *sent;

	a.keep_sent = true;
	open_ends(&a, &b);
	sent = run.a.sent[0];
	assert_int_equal(sent != NULL, kit_card()->stamps);
	for (int i = 0; sent && i < 5; i++) {
		const uint64_t before = nic_now(&run.a), cnt = sent->cnt;

		send_and_wait(sent);
		for (uint64_t k = cnt; k < sent->cnt; k++) {
			const struct spw_port_done *d = &sent->done[k & sent->mask];

			assert_true(d->stamp >= before);
			while (nic_now(&run.a) < d->stamp)
				kit_turn(&run, false);
		}
	}
	kit_settle(&run);
	kit_close(&run);
}

static void test_sent_stamps(void **state)
{
	(void)state;
	sent_stamps("latency");
	sent_stamps("throughput");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define ECHO_RUN(queues, profile) cmocka_unit_test(test_echo_##queues##_##profile),
		ECHO_TESTS(ECHO_RUN) cmocka_unit_test(test_profiles),
		cmocka_unit_test(test_inline_header),
		cmocka_unit_test(test_own_registers),
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_throughput_falls_back),
		cmocka_unit_test(test_few_slots),
		cmocka_unit_test(test_stamps),
		cmocka_unit_test(test_sent_stamps),
		cmocka_unit_test(test_missed_frames),
		cmocka_unit_test(test_flow_hash),
		cmocka_unit_test(test_laps),
	};
	const struct CMUnitTest slow[] = {cmocka_unit_test(test_laps_of_24_bits)};

	if (argc > 1 && !strcmp(argv[1], "slow"))
		return cmocka_run_group_tests_name("mlx5 eth, slow", slow, NULL, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("mlx5 eth", tests, NULL, NULL);
}
