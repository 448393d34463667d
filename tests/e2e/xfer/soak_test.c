/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Very many messages of mixed lengths, both ways at once, in pieces; in every piece a rail suffers
 * something else. Every byte is compared, and in the end the counts of both sides agree.
 *
 *   soak_test [MESSAGES [RAILS_A RAILS_B [LONGEST PIECE SECONDS]]]
 *
 * MESSAGES in each direction; LONGEST in bytes; PIECE in messages; after SECONDS no piece begins.
 */
#include <stdio.h>

#include "numbered.h"
#include "xfer_kit.h"

#define DEPTH SPW_XFER_REQ_MAX
#define ROOM  (64u << 10)

static const char *rails_a = "mlx5_0+mlx5_2", *rails_b = "mlx5_1+mlx5_3";
static uint64_t messages = 100000, longest = ROOM, piece = 20000, seconds = UINT32_MAX;
static struct kit k;

struct way {
	struct spw_xfer_conn *from, *to;
	struct spw_xfer_mem *mem_from, *mem_to;
	uint8_t *out, *in; /* DEPTH places of ROOM bytes; message n in n % DEPTH */
	struct spw_xfer_req *send[DEPTH], *recv[DEPTH];
	uint64_t sent, granted, received, acked, bytes;
};
static struct way way[2];

static int open_kit(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 16u << 10, .timeout = 10, .retry = 7};

	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, 2ull * DEPTH * ROOM);
	kit_wait_up(&k, 2);
	for (uint32_t i = 0; i < 2; i++)
		way[i] = (struct way){
			.from = i ? k.ba : k.ab,
			.to = i ? k.ab : k.ba,
			.mem_from = i ? k.mem_b : k.mem_a,
			.mem_to = i ? k.mem_a : k.mem_b,
			.out = i ? k.buf_b : k.buf_a,
			.in = (i ? k.buf_a : k.buf_b) + (size_t)DEPTH * ROOM,
		};
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	return 0;
}

/* One in 1024 is long; of the others any number of bits is as likely. */
static uint64_t length_of(uint64_t n)
{
	uint64_t seed = n;

	return n % 1024 ? unit_random_log(&seed, 9) : unit_random(&seed) % (longest + 1);
}

static void check(const uint8_t *at, uint64_t got, uint64_t n)
{
	const uint64_t wrong = numbered_wrong(at, got, n);

	if (got != length_of(n) || wrong != got)
		fail_msg("message %llu of %llu bytes came with %llu, wrong from byte %llu on",
			 (unsigned long long)n, (unsigned long long)length_of(n),
			 (unsigned long long)got, (unsigned long long)wrong);
}

static bool is_done(struct spw_xfer_req *req, uint64_t *bytes_out)
{
	bool done;
	int rc = spw_xfer_test(req, &done, bytes_out);

	if (rc)
		fail_msg("%d: %s", rc, spw_err_text());
	return done;
}

/* As much as can be done at once. */
static void turn(struct way *w, uint64_t until)
{
	uint64_t got;

	for (; w->granted < until && w->granted - w->received < DEPTH; w->granted++) {
		const uint32_t i = w->granted % DEPTH;
		const struct spw_xfer_part part = {w->mem_to, w->in + (size_t)i * ROOM, ROOM, 0};

		assert_int_equal(spw_xfer_recv(w->to, &part, 1, &w->recv[i]), 0);
	}
	for (; w->sent < until && w->sent - w->acked < DEPTH; w->sent++) {
		const uint32_t i = w->sent % DEPTH;
		uint8_t *at = w->out + (size_t)i * ROOM;

		numbered_fill(at, length_of(w->sent), w->sent);
		if (spw_xfer_send(w->from, w->mem_from, at, length_of(w->sent), 0, &w->send[i]))
			break;
	}
	for (; w->received < w->granted && is_done(w->recv[w->received % DEPTH], &got);
	     w->received++) {
		check(w->in + w->received % DEPTH * ROOM, got, w->received);
		w->bytes += got;
	}
	while (w->acked < w->sent && is_done(w->send[w->acked % DEPTH], NULL))
		w->acked++;
}

/* What a rail suffers in this piece. */
static void harm(uint32_t turn)
{
	static const char *const what[] = {
		"fault loss=0.01",    "fault loss=0",         "link-down=20ms",
		"fault reorder=0.05", "fault reorder=0",      "fault dup=0.01",
		"fault dup=0",        "link-down=1ms",        "stall=30ms",
		"fault port-rate=1",  "fault port-rate=none", "qp-error"};
	const char *one = what[turn % SPW_ARRAY_CNT(what)];
	const uint32_t dev_idx = turn / SPW_ARRAY_CNT(what) % 4;
	uint32_t qpn[KIT_QPS];
	char dev[16];

	snprintf(dev, sizeof(dev), "mlx5_%u", dev_idx);
	if (strcmp(one, "qp-error"))
		kit_control(dev, NULL, "%s", one);
	else if (kit_qps(dev, qpn))
		kit_control(dev, NULL, "qp-error=%u", qpn[0]);
}

static void nothing_is_lost_or_comes_twice(void **state SPW_UNUSED)
{
	const uint64_t begin = kit_now_ms();
	struct spw_xfer_stat a, b;
	uint64_t until = 0;

	for (uint32_t n = 0; until < messages && kit_now_ms() - begin < 1000 * seconds; n++) {
		uint64_t end = kit_now_ms() + 10ull * KIT_WAIT_MS;

		until = SPW_MIN(until + piece, messages);
		harm(n);
		while (way[0].acked < until || way[0].received < until || way[1].acked < until ||
		       way[1].received < until) {
			if (kit_now_ms() > end)
				fail_msg("%llu and %llu of %llu messages have arrived",
					 (unsigned long long)way[0].received,
					 (unsigned long long)way[1].received,
					 (unsigned long long)until);
			turn(&way[0], until);
			turn(&way[1], until);
			kit_turn(&k);
		}
	}
	spw_xfer_stat(k.a, &a);
	spw_xfer_stat(k.b, &b);
	print_message("%llu messages each way in %.1f s; %llu bytes, %llu outages, %llu chunks "
		      "sent again\n",
		      (unsigned long long)until, (double)(kit_now_ms() - begin) / 1e3,
		      (unsigned long long)(way[0].bytes + way[1].bytes),
		      (unsigned long long)(a.outages + b.outages),
		      (unsigned long long)(a.resent_chunks + b.resent_chunks));
	assert_int_equal(a.tx_msgs - b.rx_msgs, 0);
	assert_int_equal(b.tx_msgs - a.rx_msgs, 0);
	assert_int_equal(a.tx_bytes, b.rx_bytes);
	assert_int_equal(b.tx_bytes, a.rx_bytes);
	assert_int_equal(a.tx_msgs, until);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
		nothing_is_lost_or_comes_twice, open_kit, close_kit)};

	if (argc > 1)
		messages = strtoull(argv[1], NULL, 0);
	if (argc > 3) {
		rails_a = argv[2];
		rails_b = argv[3];
	}
	if (argc == 7) {
		longest = SPW_MIN(strtoull(argv[4], NULL, 0), (unsigned long long)ROOM);
		piece = strtoull(argv[5], NULL, 0);
		seconds = strtoull(argv[6], NULL, 0);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
