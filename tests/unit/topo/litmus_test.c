/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The litmus on a real topology: it passes and leaves nothing behind, and it names the pattern for
 * each way in which executor or NIC can be late. x86 does not show a missing order by itself, so
 * the faults are made: a handler around the litmus's own, or calls around those of the queue, hold
 * back a store, tear a descriptor, or keep an old line.
 * Usage: litmus_test EXECUTOR [PORT]; a port that can send to itself also gets the faults of a NIC
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "exec/spw_litmus.h"
#include "topo/spw_topo_litmus.h"
#include "unit_exec.h"
#include "unit_test.h"

#define SLOTS     256u
#define FAULTY    20u /* the call that meets the fault; a slow machine makes as many */
#define LATE_NAPS 3u
#define STILL_MS  2500    /* longer than the litmus waits */
#define OTHER     0x1234u /* a seq of which no frame is near */

static const char *port_text = "null:size=64";
static enum spw_exec_kind executor;
static bool has_nic;

static struct {
	struct spw_port_spec spec;
	struct spw_topo topo;
	struct spw_litmus out;
} rig;

static uint32_t calls; /* of the faulty handler or queue */

static pthread_t cpu_thread; /* the one that runs the litmus */

static void nap_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- a store that comes late ---- */

static struct {
	uint8_t *at;
	uint32_t word;
	uint32_t naps; /* of the CPU since then */
	uint32_t set;  /* 1: to be written */
} late;

/* Puts an old word at `at`. What stands there now comes back while the CPU naps for the
 * LATE_NAPS-th time: after its first looks, however long the machine pauses between any two steps.
 */
static void hold_back(uint8_t *at, uint32_t old)
{
	late.at = at;
	late.naps = 0;
	memcpy(&late.word, at, 4);
	memcpy(at, &old, 4);
	spw_thr_store_rel(&late.set, 1);
}

int __real_nanosleep(const struct timespec *ns, struct timespec *left);
int __wrap_nanosleep(const struct timespec *ns, struct timespec *left);

int __wrap_nanosleep(const struct timespec *ns, struct timespec *left)
{
	if (pthread_equal(pthread_self(), cpu_thread) && spw_thr_load_acq(&late.set) &&
	    ++late.naps == LATE_NAPS) {
		memcpy(late.at, &late.word, 4);
		spw_thr_store_rel(&late.set, 0);
	}
	return __real_nanosleep(ns, left);
}

/* Before the memory goes away. */
static void close_topo(void)
{
	spw_thr_store_rel(&late.set, 0);
	assert_int_equal(spw_topo_close(&rig.topo), 0);
}

static uint32_t last_word(uint32_t len)
{
	return (len - SPW_LITMUS_HEAD) / 4 - 1;
}

/* ---- executors ---- */

static struct spw_frame frame_0(const struct spw_gring_desc *desc,
				const struct spw_handler_env *env)
{
	return spw_frame_of(desc->lo, desc->hi, env->region_base);
}

static void late_answer(const struct spw_gring_desc *desc, uint32_t cnt,
			const struct spw_handler_env *env, struct spw_tally *tally_out)
{
	struct spw_frame frame = frame_0(desc, env);
	uint32_t i = last_word(frame.len), old;
	uint8_t *at = frame.addr + SPW_LITMUS_HEAD + 4 * i;

	memcpy(&old, at, 4);
	spw_litmus_handler.host(desc, cnt, env, tally_out);
	if (++calls == FAULTY)
		hold_back(at, old);
}

static void torn(const struct spw_gring_desc *desc, uint32_t cnt, const struct spw_handler_env *env,
		 struct spw_tally *tally_out)
{
	static uint64_t last_hi;
	struct spw_gring_desc own[SPW_GRING_FRAME_MAX];

	memcpy(own, desc, cnt * sizeof(*own));
	if (++calls == FAULTY)
		own[0].hi = last_hi;
	last_hi = desc[0].hi;
	spw_litmus_handler.host(own, cnt, env, tally_out);
}

/* Reads a frame of which the first line is what this slot held one lap before. The copy is in a
 * region of its own. */
static void stale_line(const struct spw_gring_desc *desc, uint32_t cnt,
		       const struct spw_handler_env *env, struct spw_tally *tally_out)
{
	static uint8_t copy[SPW_LITMUS_BYTES_MAX] SPW_ALIGNED(128), line[64], *line_of;
	struct spw_gring_desc own[SPW_GRING_FRAME_MAX];
	struct spw_handler_env own_env = *env;

	memcpy(own, desc, cnt * sizeof(*own));
	own_env.region_base[SPW_REGION_MAX - 1] = (uintptr_t)copy;
	for (uint32_t i = 0; i < cnt && ++calls > FAULTY; i++) {
		struct spw_frame frame = frame_0(&desc[i], env);

		if (frame.addr != line_of)
			continue;
		memcpy(copy, frame.addr, frame.len);
		memcpy(copy, line, sizeof(line));
		own[i].lo = spw_gring_lo(desc[i].lo & ~SPW_GRING_VALUE_MASK, 0, frame.meta);
		own[i].hi |= (SPW_REGION_MAX - 1ull) << 31;
	}
	spw_litmus_handler.host(own, cnt, &own_env, tally_out);
	if (calls <= FAULTY) {
		line_of = frame_0(desc, env).addr;
		memcpy(line, line_of, sizeof(line));
	}
}

static void reads_less(const struct spw_gring_desc *desc, uint32_t cnt,
		       const struct spw_handler_env *env, struct spw_tally *tally_out)
{
	spw_litmus_handler.host(desc, cnt, env, tally_out);
	if (++calls == FAULTY)
		tally_out->digest -= SPW_LITMUS_GOOD;
}

/* ---- waiting ---- */

static uint32_t given_up; /* 1: the litmus stops its executor */
static uint32_t still;    /* 1: the CPU is to stand still; 2: it did */

int __real_spw_exec_stop(struct spw_exec *exec, uint32_t timeout_ms);
int __wrap_spw_exec_stop(struct spw_exec *exec, uint32_t timeout_ms);
int __real_spw_exec_service(struct spw_exec *exec);
int __wrap_spw_exec_service(struct spw_exec *exec);

int __wrap_spw_exec_stop(struct spw_exec *exec, uint32_t timeout_ms)
{
	spw_thr_store_rel(&given_up, 1);
	return __real_spw_exec_stop(exec, timeout_ms);
}

int __wrap_spw_exec_service(struct spw_exec *exec)
{
	if (spw_thr_load_acq(&still) == 1) {
		for (int ms = 0; ms < STILL_MS; ms += 500)
			nap_ns(500000000);
		spw_thr_store_rel(&still, 2);
	}
	return __real_spw_exec_service(exec);
}

static void hangs(const struct spw_gring_desc *desc, uint32_t cnt,
		  const struct spw_handler_env *env, struct spw_tally *tally_out)
{
	while (calls == FAULTY && !spw_thr_load_acq(&given_up))
		nap_ns(1000000);
	calls++;
	spw_litmus_handler.host(desc, cnt, env, tally_out);
}

/* The machine stops, with CPU and executor, and the executor needs a while to get its core back. */
static void stands_still(const struct spw_gring_desc *desc, uint32_t cnt,
			 const struct spw_handler_env *env, struct spw_tally *tally_out)
{
	if (++calls == FAULTY) {
		spw_thr_store_rel(&still, 1);
		while (spw_thr_load_acq(&still) == 1)
			nap_ns(1000000);
		nap_ns(50000000);
	}
	spw_litmus_handler.host(desc, cnt, env, tally_out);
}

/* ---- queues ---- */

static struct spw_port_queue real; /* the calls of the port */

static uint8_t *frame_of(const struct spw_desc *d)
{
	return spw_pool_slot_addr(&rig.topo.lane[0]->pool, d->slot) + d->offset;
}

/* A completion before a word of its frame: one that only the executor looks at, or the last. */
static uint16_t rx_late(void *q, struct spw_desc *desc, uint16_t cnt, uint32_t (*word)(uint32_t))
{
	uint16_t n = real.rx_burst(q, desc, cnt);
	uint32_t i;

	if (!n || ++calls != FAULTY)
		return n;
	i = word(desc->len);
	hold_back(frame_of(desc) + SPW_LITMUS_HEAD + 4 * i, spw_litmus_word(OTHER, i));
	return n;
}

static uint32_t inner_word(uint32_t len)
{
	return last_word(len) / 2;
}

static uint16_t rx_late_inside(void *q, struct spw_desc *desc, uint16_t cnt)
{
	return rx_late(q, desc, cnt, inner_word);
}

static uint16_t rx_late_end(void *q, struct spw_desc *desc, uint16_t cnt)
{
	return rx_late(q, desc, cnt, last_word);
}

static uint16_t rx_nothing(void *q, struct spw_desc *desc, uint16_t cnt)
{
	(void)q, (void)desc, (void)cnt;
	return 0;
}

static uint16_t rx_loses_one(void *q, struct spw_desc *desc, uint16_t cnt)
{
	uint16_t n = real.rx_burst(q, desc, cnt);

	if (!n || ++calls != FAULTY)
		return n;
	real.release_burst(q, &desc->slot, 1);
	memmove(desc, desc + 1, (n - 1u) * sizeof(*desc));
	return (uint16_t)(n - 1);
}

/* What the NIC reads is older than what was written last. */
static uint16_t tx_early(void *q, struct spw_desc **desc, uint16_t cnt)
{
	if (cnt && ++calls == FAULTY) {
		uint32_t i = inner_word(desc[0]->len), old = spw_litmus_word(OTHER, i);

		memcpy(frame_of(desc[0]) + SPW_LITMUS_HEAD + 4 * i, &old, 4);
	}
	return real.tx_burst(q, desc, cnt);
}

/* ---- runs ---- */

static void rig_open(void)
{
	struct spw_topo_conf conf = {
		.port = {{.spec = &rig.spec, .queue_cnt = 1, .profile = "latency"}},
		.port_cnt = 1,
		.lane = {{.numa_node = -1}},
		.lane_cnt = 1,
		.memory = {.kind = SPW_MEM_HOST, .slots = SLOTS, .slot_bytes = 2048},
		.exec = {.backend[0].kind = executor, .backend_cnt = 1},
		.pipe = {.burst = 32, .record = true},
	};

	calls = given_up = still = 0;
	assert_int_equal(spw_tsc_calibrate(10, &conf.tsc), 0);
	assert_int_equal(spw_port_spec_parse(port_text, &rig.spec), 0);
	assert_int_equal(spw_handler_open("null", &conf.exec.handler), 0);
	if (spw_topo_open(&rig.topo, &conf))
		fail_msg("%s", spw_err_text());
	real = rig.topo.port[0]->queue[0];
}

static int litmus(spw_handler_batch_fn *host)
{
	struct spw_handler handler = spw_litmus_handler;

	handler.host = host;
	return spw_topo_litmus(&rig.topo, SPW_LITMUS_QUICK, &handler, &rig.out);
}

static void finds(spw_handler_batch_fn *host, const char *what)
{
	int rc;

	rig_open();
	rc = litmus(host);
	if (rc != -EIO || !strstr(spw_err_text(), what) || !strstr(spw_err_text(), "--litmus off"))
		fail_msg("%d: '%s' lacks '%s'", rc, rc ? spw_err_text() : "passed", what);
	close_topo();
}

static void executor_faults_are_named(void **state SPW_UNUSED)
{
	finds(late_answer, "pattern answer failed on port");
	finds(torn, "pattern descriptor failed on port");
	finds(stale_line, "pattern publish failed on port");
	assert_non_null(strstr(spw_err_text(), "memory host"));
	assert_non_null(
		strstr(spw_err_text(), "12 of an earlier frame")); /* of 64 bytes, no head */
	finds(reads_less, "pattern descriptor failed on port");
}

static void an_executor_that_hangs_is_named(void **state SPW_UNUSED)
{
	if (executor == SPW_EXEC_INLINE)
		skip();
	finds(hangs, "nothing came back from executor cpu for 2 s");
}

static void a_machine_that_stands_still_is_no_fault(void **state SPW_UNUSED)
{
	if (executor == SPW_EXEC_INLINE || has_nic) /* it is about the executor alone */
		skip();
	rig_open();
	if (litmus(stands_still))
		fail_msg("%s", spw_err_text());
	assert_int_equal(still, 2);
	assert_true(rig.out.frames[SPW_LITMUS_answer] >= 256);
	close_topo();
}

static void nothing_remains(void **state SPW_UNUSED)
{
	struct spw_region *region;
	struct spw_topo_stat stat;
	struct spw_topo_end end;
	uint8_t *before;

	rig_open();
	region = &rig.topo.region[0];
	before = malloc(region->bytes);
	assert_non_null(before);
	memcpy(before, region->host_va, region->bytes);
	assert_int_equal(litmus(spw_litmus_handler.host), 0);
	if (!has_nic)
		assert_memory_equal(before, region->host_va, region->bytes);
	free(before);
	assert_true(rig.out.frames[SPW_LITMUS_answer] >= 256);
	assert_int_equal(rig.out.frames[SPW_LITMUS_publish], rig.out.frames[SPW_LITMUS_answer]);
	assert_int_equal(rig.out.nic[0], has_nic);
	if (has_nic) {
		assert_true(rig.out.frames[SPW_LITMUS_receive] >= 256);
		assert_true(rig.out.frames[SPW_LITMUS_echo] >= 256 - 32);
	} else {
		assert_non_null(strstr(rig.out.why_not[0], "null cannot send to itself"));
	}
	assert_int_equal(spw_topo_start(&rig.topo), 0);
	spw_topo_stat(&rig.topo, &stat);
	assert_int_equal(stat.port[0].wire_frames | stat.port[0].rx_frames | stat.port[0].rx_bytes |
				 stat.port[0].tx_frames | stat.port[0].tx_bytes | stat.exec.frames |
				 stat.exec.batches | stat.ledger.pipe.polled_frames,
			 0);
	assert_int_equal(spw_topo_stop(&rig.topo, 1000, &end), 0);
	spw_topo_stat(&rig.topo, &stat);
	assert_int_equal(stat.ledger.pool_free, SLOTS);
	close_topo();
}

static void off_does_nothing(void **state SPW_UNUSED)
{
	rig_open();
	memset(&rig.out, 0xff, sizeof(rig.out));
	assert_int_equal(spw_topo_litmus(&rig.topo, SPW_LITMUS_OFF, &spw_litmus_handler, &rig.out),
			 0);
	assert_int_equal(rig.out.round_trips | rig.out.ns, 0);
	close_topo();
}

static void nic_faults_are_named(void **state SPW_UNUSED)
{
	static const struct {
		uint16_t (*rx)(void *q, struct spw_desc *desc, uint16_t cnt);
		uint16_t (*tx)(void *q, struct spw_desc **desc, uint16_t cnt);
		const char *what; /* NULL: passes without its NIC, .. */
		const char *why;  /* .. for this reason */
	} row[] = {
		{rx_late_inside, NULL, "pattern receive failed on port", NULL},
		{rx_late_end, NULL, "pattern receive failed on port", NULL},
		{NULL, tx_early, "pattern echo failed on port", NULL},
		{rx_nothing, NULL, NULL, "do not come back"},
		{rx_loses_one, NULL, NULL, "was lost"},
	};

	if (!has_nic)
		skip();
	for (size_t i = 0; i < SPW_ARRAY_CNT(row); i++) {
		struct spw_port_queue *queue;
		int rc;

		rig_open();
		queue = &rig.topo.port[0]->queue[0];
		queue->rx_burst = row[i].rx ? row[i].rx : queue->rx_burst;
		queue->tx_burst = row[i].tx ? row[i].tx : queue->tx_burst;
		rc = litmus(spw_litmus_handler.host);
		if (row[i].what && (rc != -EIO || !strstr(spw_err_text(), row[i].what)))
			fail_msg("row %zu: %d: %s", i, rc, rc ? spw_err_text() : "passed");
		if (!row[i].what &&
		    (rc || rig.out.nic[0] || !strstr(rig.out.why_not[0], row[i].why)))
			fail_msg("row %zu: %d: %s", i, rc,
				 rc ? spw_err_text() : rig.out.why_not[0]);
		*queue = real;
		close_topo();
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test(nothing_remains),
		cmocka_unit_test(off_does_nothing),
		cmocka_unit_test(executor_faults_are_named),
		cmocka_unit_test(an_executor_that_hangs_is_named),
		cmocka_unit_test(a_machine_that_stands_still_is_no_fault),
		cmocka_unit_test(nic_faults_are_named),
	};

#ifdef __SANITIZE_ADDRESS__
	printf("skipped: the faults made here use slots out of turn, which a sanitized pool "
	       "forbids\n");
	return 77;
#endif

	if (argc < 2 || !unit_exec_kind(argv[1], &executor))
		return 2;
	executor = strcmp(argv[1], "cpu") ? SPW_EXEC_INLINE : SPW_EXEC_CPU;
	has_nic = argc > 2;
	port_text = has_nic ? argv[2] : port_text;
	cpu_thread = pthread_self();
	return cmocka_run_group_tests_name("litmus", test, NULL, NULL);
}
