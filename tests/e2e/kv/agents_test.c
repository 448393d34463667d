/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Agents, their names and their notifications. Both are of one process and one thread, without
 * threads of their own, so nothing that waits for the other would ever return. Arguments: the rails
 * of both.
 */
#include "kv_kit.h"
#include "kv/wire.h"

static struct agent a, b;
static uint8_t text[SPW_KV_NOTE_MAX + 16];

static int open_both(void **state SPW_UNUSED)
{
	agent_open(&a, "a", kv_rails[0], NULL);
	agent_open(&b, "b \xff\n\x1b", kv_rails[1], NULL); /* any bytes */
	return 0;
}

static int close_both(void **state SPW_UNUSED)
{
	agent_close(&a);
	agent_close(&b);
	return 0;
}

static int notify(const struct agent *from, const struct agent *to, const void *at, size_t bytes)
{
	return spw_kv_notify(from->kv, to->name, strlen(to->name), at, bytes);
}

static int load(const struct agent *at, const struct agent *whom, const void *info, size_t bytes)
{
	return spw_kv_peer_load(at->kv, whom->name, strlen(whom->name), info, bytes);
}

static int drop(const struct agent *at, const struct agent *whom)
{
	return spw_kv_peer_drop(at->kv, whom->name, strlen(whom->name));
}

/* Until `at` has turned `from` away. Returns: its totals. */
static struct spw_kv_stat turned_away(const struct agent *from, const struct agent *at)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct spw_kv_stat stat;

	do {
		agents_turn(from, at);
		spw_kv_stat(at->kv, &stat);
	} while (!stat.refused && kit_now_ms() < end);
	assert_int_equal(stat.refused, 1);
	return stat;
}

/* Until a has noticed that its connection to b is over. turns: who has turns besides. */
static void wait_over(const char *name, const struct agent *turns)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;

	while (spw_kv_peer_connect(a.kv, name, strlen(name)) == 0 && kit_now_ms() < end)
		agents_turn(turns, NULL);
}

/* ---- notifications ---- */

static const size_t lengths[] = {0, 1, 8191, 8192, 8193, 1 << 20, 0, 3, SPW_KV_NOTE_MAX};

/* b does not know a: it is a stranger there. */
static void notifications_of_every_length_arrive_in_order(void **state SPW_UNUSED)
{
	agent_load(&a, &b);
	kit_fill(text, sizeof(text), 1);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(lengths); i++)
		kv_must(notify(&a, &b, text + i, lengths[i]), "notify");
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(lengths); i++)
		agents_expect_note(&a, &b, text + i, lengths[i]);
	assert_int_equal(notify(&a, &b, text, SPW_KV_NOTE_MAX + 1ull), -EMSGSIZE);
	assert_int_equal(notify(&b, &a, text, 1), -ENOENT);
	assert_non_null(strstr(spw_err_text(), "load its info first"));
}

static void both_notify_each_other(void **state SPW_UNUSED)
{
	agent_load(&a, &b);
	agent_load(&b, &a);
	for (uint32_t i = 0; i < 200; i++) {
		kv_must(notify(&a, &b, &i, sizeof(i)), "notify b");
		kv_must(notify(&b, &a, &i, sizeof(i)), "notify a");
	}
	for (uint32_t i = 0; i < 200; i++) {
		agents_expect_note(&a, &b, &i, sizeof(i));
		agents_expect_note(&b, &a, &i, sizeof(i));
	}
}

static void an_agent_notifies_itself(void **state SPW_UNUSED)
{
	struct spw_kv_note *note;

	kv_must(load(&a, &a, a.info.byte, sizeof(a.info.byte)), "load itself");
	for (uint32_t i = 0; i < 5; i++)
		kv_must(notify(&a, &a, text + i, i), "notify itself");
	for (uint32_t i = 0; i < 5; i++)
		agents_expect_note(&a, &a, text + i, i);
	assert_int_equal(spw_kv_note_take(a.kv, &note), -EAGAIN);
	assert_null(note);
	assert_int_equal(drop(&a, &a), -EINVAL);
	assert_int_equal(load(&a, &a, b.info.byte, sizeof(b.info.byte)), -EEXIST);
}

/* ---- infos ---- */

static void a_name_has_one_info(void **state SPW_UNUSED)
{
	struct spw_kv_info changed = b.info;

	assert_int_equal(load(&a, &b, b.info.byte, sizeof(b.info.byte) - 1), -EINVAL);
	changed.byte[100] ^= 4;
	assert_int_equal(load(&a, &b, changed.byte, sizeof(changed.byte)), -EINVAL);
	assert_int_equal(spw_kv_peer_load(a.kv, "", 0, b.info.byte, sizeof(b.info.byte)), -EINVAL);
	assert_int_equal(spw_kv_peer_load(a.kv, text, 256, b.info.byte, sizeof(b.info.byte)),
			 -EINVAL);
	assert_int_equal(drop(&a, &b), -ENOENT);
	agent_load(&a, &b);
	agent_load(&a, &b);
	assert_int_equal(load(&a, &b, a.info.byte, sizeof(a.info.byte)), -EEXIST);
	kv_must(agents_connect(&a, &b), "connect");
	agent_load(&a, &b);
	assert_int_equal(load(&a, &b, a.info.byte, sizeof(a.info.byte)), -EEXIST);
	kv_must(drop(&a, &b), "drop");
	assert_int_equal(notify(&a, &b, text, 1), -ENOENT);
	agent_load(&a, &b);
	kv_must(notify(&a, &b, text, 100), "notify again");
	agents_expect_note(&a, &b, text, 100);
}

/* ---- ends ---- */

static void expect_ended(int error)
{
	assert_int_equal(agents_connect(&a, &b), error);
	assert_non_null(strstr(spw_err_text(), "agent b "));
	assert_int_equal(notify(&a, &b, text, 1), error);
	assert_non_null(strstr(spw_err_text(), "agent b "));
}

static void an_agent_that_ends_may_return(void **state SPW_UNUSED)
{
	struct spw_kv_peer_stat stat;

	agent_load(&a, &b);
	agent_load(&b, &a);
	kv_must(agents_connect(&a, &b), "connect");
	kv_must(agents_connect(&b, &a), "connect back");
	for (uint32_t i = 0; i < 3; i++) {
		const char *name = b.name;

		agent_close(&b);
		wait_over(name, &a);
		expect_ended(-ECONNRESET);
		assert_true(spw_kv_peer_stat(a.kv, 1, &stat));
		assert_int_equal(stat.state, SPW_KV_ENDED);
		assert_int_equal(stat.error, -ECONNRESET);
		assert_true(stat.why[0] && stat.rail_cnt);
		agent_open(&b, name, kv_rails[1], NULL);
		assert_int_equal(load(&a, &b, b.info.byte, sizeof(b.info.byte)), -EEXIST);
		kv_must(drop(&a, &b), "drop");
		agent_load(&a, &b);
		kv_must(notify(&a, &b, text, 50000), "notify");
		agents_expect_note(&a, &b, text, 50000);
	}
}

static void who_left_before_is_refused(void **state SPW_UNUSED)
{
	agent_load(&a, &b);
	agent_close(&b);
	kv_must(notify(&a, &b, text, 1), "notify");
	expect_ended(-ECONNREFUSED);
	kv_must(drop(&a, &b), "drop");
}

/* The other one drops this one: everything between both is over. */
static void who_is_dropped_learns_it(void **state SPW_UNUSED)
{
	agent_load(&a, &b);
	agent_load(&b, &a);
	kv_must(agents_connect(&a, &b), "connect");
	kv_must(notify(&a, &b, text, 1), "notify"); /* b has read the name */
	agents_expect_note(&a, &b, text, 1);
	kv_must(drop(&b, &a), "drop");
	wait_over(b.name, &b);
	expect_ended(-ECONNRESET);
}

/* b has no turn between the arrival and the drop. */
static void what_arrived_before_a_drop_is_taken(void **state SPW_UNUSED)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct spw_kv_stat stat = {0};
	struct spw_kv_note *note;

	agent_load(&a, &b);
	agent_load(&b, &a);
	kv_must(notify(&a, &b, text, 1), "notify");
	agents_expect_note(&a, &b, text, 1);
	kv_must(notify(&a, &b, text, 20), "notify");
	while (stat.tx_notes < 2 && kit_now_ms() < end) {
		agents_turn(&a, NULL);
		spw_kv_stat(a.kv, &stat);
	}
	kv_must(drop(&b, &a), "drop");
	kv_must(spw_kv_note_take(b.kv, &note), "take");
	assert_int_equal(note->bytes, 20);
	spw_kv_note_free(note);
}

/* b has no turns: what waits for it fills its own limit, and not that of others. */
static void who_does_not_answer_holds_up_nobody_else(void **state SPW_UNUSED)
{
	uint32_t waiting = 0;
	struct agent c;

	agent_open(&c, "c", kv_rails[1], NULL);
	agent_load(&a, &b);
	agent_load(&a, &c);
	while (!notify(&a, &b, text, 1u << 20))
		assert_true(++waiting < 100);
	assert_true(waiting > 60);
	kv_must(notify(&a, &c, text, 100), "notify another");
	agents_expect_note(&a, &c, text, 100);
	agent_close(&c);
}

/* A name that was loaded is its incarnation's only. */
static void nobody_takes_a_name_in_use(void **state SPW_UNUSED)
{
	struct agent other;

	agent_load(&b, &a);
	agent_open(&other, "a", kv_rails[0], NULL);
	agent_load(&other, &b);
	kv_must(notify(&other, &b, text, 1), "notify");
	assert_int_equal(turned_away(&other, &b).rx_notes, 0);
	agent_load(&a, &b);
	kv_must(notify(&a, &b, text, 77), "notify");
	agents_expect_note(&a, &b, text, 77);
	kv_must(drop(&b, &a), "drop");
	agent_close(&other);
}

/* ---- floods ---- */

/* Nobody takes: the sender is held up, and neither end's memory grows beyond its limit. Then all of
 * it arrives. Who is known gets through meanwhile. */
static void a_flood_is_held_up(void **state SPW_UNUSED)
{
	const struct spw_kv_conf conf = {.queue_bytes = 48u << 20};
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct agent c, known;
	struct spw_kv_stat stat = {0};
	uint32_t sent = 0;

	kit_fill(text, sizeof(text), 3);
	agent_open(&c, "c", kv_rails[1], &conf);
	agent_open(&known, "known", kv_rails[0], NULL);
	agent_load(&a, &c);
	agent_load(&known, &c);
	agent_load(&c, &known);
	while (!stat.held && kit_now_ms() < end) {
		if (!notify(&a, &c, text, 1u << 20))
			sent++;
		agents_turn(&a, &c);
		spw_kv_stat(c.kv, &stat);
	}
	assert_true(stat.held && stat.queued_bytes <= 24u << 20 && sent > 23);
	kv_must(notify(&known, &c, text, 4u << 20), "notify");
	do {
		agents_turn(&known, &c);
		spw_kv_stat(known.kv, &stat);
	} while (!stat.tx_notes && kit_now_ms() < end);
	assert_int_equal(stat.tx_notes, 1);
	while (notify(&a, &c, text, 1u << 20) == 0 && sent < 1000)
		sent++; /* until the sender's own queue is full */
	assert_in_range(sent, 64, 200);
	for (uint32_t i = 0; i < sent; i++) {
		struct spw_kv_note *note = agents_note(&a, &c);

		if (note->bytes == 4u << 20)
			i--;
		assert_memory_equal(note->text, text, note->bytes);
		spw_kv_note_free(note);
	}
	spw_kv_stat(c.kv, &stat);
	assert_int_equal(stat.queued_bytes, 0);
	agent_close(&known);
	agent_close(&c);
}

static void guests_are_limited(void **state SPW_UNUSED)
{
	const struct spw_kv_conf conf = {.guest_max = 1};
	struct agent c;

	agent_open(&c, "c", kv_rails[1], &conf);
	agent_load(&a, &c);
	agent_load(&b, &c);
	kv_must(notify(&a, &c, text, 1), "notify");
	agents_expect_note(&a, &c, text, 1);
	kv_must(notify(&b, &c, text, 1), "notify");
	assert_int_equal(turned_away(&b, &c).guests, 1);
	kv_must(notify(&a, &c, text, 2), "notify");
	agents_expect_note(&a, &c, text, 2);
	agent_close(&c);
}

/* ---- hostile frames ---- */

/* Sends these bytes as a guest's first messages; b turns it away. */
static void breach(struct spw_xfer *x, uint8_t *at, struct spw_xfer_mem *mem, const uint32_t *len)
{
	const struct spw_xfer_handle handle = kv_info_handle(&b.info);
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct spw_xfer_conn *conn = NULL;
	struct spw_xfer_req *req;
	struct spw_kv_stat before, stat;
	int rc;

	spw_kv_stat(b.kv, &before);
	while ((rc = spw_xfer_connect(x, &handle, &conn)) == -EAGAIN)
		agents_turn(&b, NULL);
	kv_must(rc, "connect");
	for (uint32_t i = 0; i < 2 && len[i]; i++)
		kv_must(spw_xfer_send(conn, mem, at + i * KV_FRAME_BYTES, len[i], 0, &req), "send");
	do {
		spw_xfer_progress(x);
		agents_turn(&b, NULL);
		spw_kv_stat(b.kv, &stat);
	} while (stat.refused == before.refused && kit_now_ms() < end);
	assert_int_equal(stat.refused, before.refused + 1);
	assert_int_equal(stat.guests, 0);
	assert_int_equal(stat.rx_notes, before.rx_notes);
	assert_int_equal(stat.queued_bytes, 0);
	spw_xfer_conn_close(conn);
}

static void a_breach_ends_its_guest(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.rails = kv_rails[0]};
	const struct kv_hello hello = {.name = {1, "x"}};
	struct kv_hello own = {0};
	const struct kv_frame note = {KV_FRAME_NOTE, 5, 0, 0},
			      late = {KV_FRAME_NOTE, 9000, 8192, 0}, typeless = {7, 5, 0, 0};
	static uint8_t at[2 * KV_FRAME_BYTES];
	const struct spw_xfer_mem_req req = {SPW_XFER_HOST, at, sizeof(at), 0, 0, false};
	struct spw_xfer_mem *mem;
	struct spw_xfer *x;
	uint32_t first;

	kv_must(spw_xfer_open(&conf, &x), "open");
	kv_must(spw_xfer_mem_reg(x, &req, &mem), "register");
	kv_frame_put(&note, at);
	breach(x, at, mem, (uint32_t[]){KV_HEAD_BYTES + 5, 0}); /* before its name */
	memset(at, 0x55, 100);
	breach(x, at, mem, (uint32_t[]){100, 0}); /* no frame */
	first = kv_hello_put(&hello, at);
	breach(x, at, mem, (uint32_t[]){first - 1, 0}); /* cut */
	(void)kv_hello_put(&hello, at + KV_FRAME_BYTES);
	breach(x, at, mem, (uint32_t[]){first, first}); /* two names */
	kv_frame_put(&late, at + KV_FRAME_BYTES);
	breach(x, at, mem, (uint32_t[]){first, KV_HEAD_BYTES + 9000 - 8192}); /* no beginning */
	kv_frame_put(&typeless, at + KV_FRAME_BYTES);
	breach(x, at, mem, (uint32_t[]){first, KV_HEAD_BYTES + 5});
	memcpy(own.id, kv_info_id(&b.info), sizeof(own.id));
	own.name.len = (uint32_t)strlen(b.name);
	memcpy(own.name.byte, b.name, own.name.len);
	first = kv_hello_put(&own, at);
	breach(x, at, mem, (uint32_t[]){first, 0}); /* b's own name, with the id of its info */
	spw_xfer_close(x);
	agent_load(&a, &b);
	kv_must(notify(&a, &b, text, 10), "notify");
	agents_expect_note(&a, &b, text, 10);
}

static void wrong_confs_are_refused(void **state SPW_UNUSED)
{
	struct spw_kv_conf conf = {.name = "c", .name_bytes = 1, .queue_bytes = 1u << 20};
	struct spw_kv *kv;

	assert_int_equal(spw_kv_open(&conf, &kv), -EINVAL);
	conf = (struct spw_kv_conf){.name = text, .name_bytes = 256};
	assert_int_equal(spw_kv_open(&conf, &kv), -EINVAL);
	conf = (struct spw_kv_conf){.name = "c", .name_bytes = 1, .xfer = {.rails = "mlx5_77"}};
	assert_int_equal(spw_kv_open(&conf, &kv), -ENODEV);
	assert_non_null(strstr(spw_err_text(), "agent c: "));
	assert_null(kv);
	spw_kv_close(NULL);
	spw_kv_note_free(NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)
		CASE(notifications_of_every_length_arrive_in_order),
		CASE(both_notify_each_other),
		CASE(an_agent_notifies_itself),
		CASE(a_name_has_one_info),
		CASE(an_agent_that_ends_may_return),
		CASE(who_left_before_is_refused),
		CASE(who_is_dropped_learns_it),
		CASE(what_arrived_before_a_drop_is_taken),
		CASE(who_does_not_answer_holds_up_nobody_else),
		CASE(nobody_takes_a_name_in_use),
		CASE(a_flood_is_held_up),
		CASE(guests_are_limited),
		CASE(a_breach_ends_its_guest),
		CASE(wrong_confs_are_refused),
	};

	kv_take_rails(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
