/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Causes proven by injection: the fault port, a handler or this test injects a fault of a known
 * kind at known times, and the pipe must name it. A frame above the threshold whose life overlaps a
 * fault by more than the threshold was hit by it; nine in ten of those must be blamed on that
 * cause, and of all that are blamed on it at most one in ten may lie outside of every fault. Faults
 * are three times the threshold, and both far above what a busy machine does by itself; frames that
 * also met a loss of this test's own core, or of the executor's thread, by the test's own measure,
 * are left out.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "exec/spw_handler.h"
#include "inject_rig.h"
#include "port/fault/fault.h"
#include "unit_thread.h"

#define FAULTS   5u
#define TRIES    3 /* a busy machine may spoil a run; what fails in two quiet ones is wrong */
#define QUIET    "null:size=64,rate=20k,stamps=1"
#define FOR_NS   30000000u
#define EVERY_NS 80000000u
#define SPEC                                                                                  \
	"fault:null,size=64,rate=20k,stamps=1,fault_for_us=30000,fault_every_us=80000,fault_" \
	"count=5,fault_do="

struct inject {
	const char *name;
	struct rig_conf rig;
	enum spw_cause cause, too;        /* either is right; the first must be there */
	void (*trouble)(struct rig *rig); /* called between turns when one is due; NULL: the port
					     makes it */
	void (*attend)(struct rig *rig);  /* called between turns; NULL: nothing to attend to */
	struct fault_window (*where)(
		const struct spw_rec_slow
			*slow); /* what of a frame's life the fault can hit; NULL: all of it */
};

/* ---- trouble of the test's own ---- */

static struct fault_queue own;  /* what was done, and when */
static uint32_t lame_wanted_ns; /* the next frame handled takes so long */

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* One trouble at a time, so one writer. */
static void note(uint64_t from, uint64_t to)
{
	own.window[own.window_cnt] = (struct fault_window){from, to};
	spw_thr_store_rel(&own.window_cnt, own.window_cnt + 1);
}

static void note_nap(void)
{
	const struct timespec nap = {.tv_nsec = FOR_NS};
	uint64_t from = spw_tsc_now();

	nanosleep(&nap, NULL);
	note(from, spw_tsc_now());
}

SPW_HANDLER_BODY(lame)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	uint32_t wanted_ns = spw_thr_exchange(&lame_wanted_ns, 0);

	(void)lanes;
	if (wanted_ns) {
		uint64_t from = spw_tsc_now(), begin = clock_ns(CLOCK_MONOTONIC);

		while (clock_ns(CLOCK_MONOTONIC) - begin < wanted_ns)
			spw_cpu_relax();
		note(from, spw_tsc_now());
	}
	return spw_consume(spw_frame_u8(frame, 0));
}

extern const struct spw_handler spw_handler_plugin;
SPW_HANDLER_PLUGIN(lame, "takes long for one frame on request", 0)

static void lame_handler(struct rig *rig)
{
	(void)rig;
	spw_thr_store_rel(&lame_wanted_ns, FOR_NS);
}

static void lose_core(struct rig *rig)
{
	(void)rig;
	note_nap();
}

static void on_signal(int number)
{
	(void)number;
	note_nap();
}

static pid_t exec_tid(void)
{
	pid_t tid;

	unit_threads("spw-exec", &tid);
	return tid;
}

/* The executor's thread leaves its loop for a signal handler that sleeps. */
static void stall_executor(struct rig *rig)
{
	(void)rig;
	assert_int_equal(syscall(SYS_tgkill, getpid(), exec_tid(), SIGUSR1), 0);
}

/* As a control thread that relaunched an executor: reports that it was gone during the last nap. */
static void report_relaunch(struct rig *rig)
{
	uint32_t cnt = spw_thr_load_acq(&own.window_cnt);

	if (cnt)
		spw_pipe_relaunched(rig->pipe, own.window[cnt - 1].from, own.window[cnt - 1].to);
}

/* The executor is busy for 6 ms, and 3 ms before it is done the port's receive call hangs: what is
 * finished waits for the loop. */
static void busy_when_it_hangs(struct rig *rig)
{
	const struct fault_queue *faults = fault_queue_of(rig->port, 0);
	uint64_t now = spw_tsc_now();
	static uint64_t busy_for_tsc;

	if (faults->begin_tsc || !faults->left || busy_for_tsc == faults->due_tsc ||
	    (int64_t)(faults->due_tsc - now) > (int64_t)spw_tsc_from_ns(&rig->tsc, 3000000))
		return;
	busy_for_tsc = faults->due_tsc;
	spw_thr_store_rel(&lame_wanted_ns, 6000000);
}

/* A resident kernel's life ends and nothing relaunches it: it is gone from its last frame until
 * rig_serve is called again. */
static struct {
	uint32_t wanted; /* times to come */
	uint64_t executed, since_tsc;
} neglect;

static void neglect_kernel(struct rig *rig)
{
	(void)rig;
	if (!neglect.wanted++)
		neglect.since_tsc = spw_tsc_now();
}

static void serve_or_neglect(struct rig *rig)
{
	uint64_t now = spw_tsc_now(),
		 executed = spw_gring_executed(spw_exec_ring(rig->topo.backend[0].exec, 0));

	if (!neglect.wanted) {
		if (now - rig->served_tsc > rig->tsc.hz / 1000)
			rig_serve(rig);
		return;
	}
	if (executed != neglect.executed) {
		neglect.executed = executed;
		neglect.since_tsc = now;
	}
	if (now - neglect.since_tsc < spw_tsc_from_ns(&rig->tsc, FOR_NS))
		return;
	rig_serve(rig);
	note(neglect.since_tsc, spw_tsc_now());
	neglect.wanted--;
	neglect.since_tsc = now;
}

/* ---- the test's own measure of a core that went to others ---- */

#define NOISE_MAX 65536u
#define NOISE_NS  1000000u

/* One thread that never sleeps by itself: what its clock misses, others had. */
struct watched {
	clockid_t clock;
	bool on;
	uint64_t wall_ns, cpu_ns, tsc;
};

struct noise {
	struct fault_window window[NOISE_MAX];
	uint32_t cnt;
	struct watched own, exec;
};

static void noise_sample_one(struct noise *noise, struct watched *w)
{
	uint64_t tsc = spw_tsc_now(), wall = clock_ns(CLOCK_MONOTONIC_RAW),
		 cpu = clock_ns(w->clock);

	if (wall - w->wall_ns > cpu - w->cpu_ns + NOISE_NS && w->tsc && noise->cnt < NOISE_MAX)
		noise->window[noise->cnt++] = (struct fault_window){w->tsc, spw_tsc_now()};
	w->wall_ns = wall;
	w->cpu_ns = cpu;
	w->tsc = tsc;
}

static void noise_sample(struct noise *noise)
{
	noise_sample_one(noise, &noise->own);
	if (noise->exec.on)
		noise_sample_one(noise, &noise->exec);
}

/* A thread's CPU clock by its number: clock_getres(2), "Dynamic clocks", and linux/posix-timers.h.
 */
static void noise_begin(struct noise *noise, const struct inject *in)
{
	memset(noise, 0, sizeof(*noise));
	noise->own.clock = CLOCK_THREAD_CPUTIME_ID;
	noise->exec.on = in->rig.exec == SPW_EXEC_CPU && in->trouble != stall_executor;
	if (noise->exec.on)
		noise->exec.clock = (clockid_t)(~(unsigned int)exec_tid() << 3 | 6);
}

/* Frames by what was injected and which cause they got. */
struct score {
	uint64_t hit, hit_named; /* were hit; of them: were given the cause */
	uint64_t named, named_wrongly;
	uint64_t noisy;                /* not judged */
	uint32_t faults;               /* that came to be */
	uint64_t given[SPW_CAUSE_CNT]; /* causes of those that were hit */
};

static struct fault_window whole_life(const struct spw_rec_slow *slow)
{
	return (struct fault_window){slow->at.since, slow->at.sent};
}

static struct fault_window wait_for_executor(const struct spw_rec_slow *slow)
{
	return (struct fault_window){slow->at.pushed, slow->at.exec_start};
}

static struct fault_window wait_for_reaping(const struct spw_rec_slow *slow)
{
	return (struct fault_window){slow->at.exec_end, slow->at.reaped};
}

static uint64_t overlap(struct fault_window part, const struct fault_window *window, uint32_t cnt)
{
	uint64_t sum = 0;

	for (uint32_t w = 0; w < cnt; w++) {
		uint64_t from = SPW_MAX(part.from, window[w].from),
			 to = SPW_MIN(part.to, window[w].to);

		sum += to > from ? to - from : 0;
	}
	return sum;
}

static void score_one(const struct spw_rec_slow *slow, const struct fault_queue *faults,
		      const struct noise *noise, uint64_t slow_tsc, const struct inject *in,
		      struct score *score)
{
	struct fault_window part = in->where ? in->where(slow) : whole_life(slow);
	uint64_t met = overlap(part, faults->window, spw_thr_load_acq(&faults->window_cnt));
	bool hit = met >= slow_tsc, named = slow->cause == in->cause || slow->cause == in->too;

	if (overlap(whole_life(slow), noise->window, noise->cnt) > slow_tsc / 4) {
		score->noisy += slow->above;
		return;
	}
	score->hit += hit ? slow->above : 0;
	score->hit_named += hit && named ? slow->above : 0;
	score->named += named ? slow->above : 0;
	score->named_wrongly += named && met == 0 ? slow->above : 0;
	score->given[slow->cause] += hit ? slow->above : 0;
}

/* Makes trouble when it is time; a loop that sleeps itself does not call that noise. */
static void trouble(struct rig *rig, const struct inject *in, struct noise *noise, uint64_t *due,
		    uint32_t *made)
{
	uint64_t now = spw_tsc_now();

	if (!in->trouble || now < *due || *made == FAULTS)
		return;
	(*made)++;
	*due = now + spw_tsc_from_ns(&rig->tsc, EVERY_NS);
	noise_sample(noise);
	in->trouble(rig);
	noise->own.tsc = 0;
	noise_sample(noise);
}

static void run(struct rig *rig, const struct inject *in, const struct fault_queue *faults,
		struct noise *noise, struct score *score)
{
	uint64_t judged = 0, end = spw_tsc_now() + 20 * rig->tsc.hz,
		 due = spw_tsc_now() + rig->tsc.hz / 10;
	struct spw_rec *rec = &rig->pipe->rec;
	uint32_t made = 0;

	while ((spw_thr_load_acq(&faults->window_cnt) < FAULTS || judged < rec->pending_tail ||
		rec->pending_head != rec->pending_tail) &&
	       spw_tsc_now() < end) {
		for (int i = 0; i < 50;
		     i++) /* fewer turns than there are places for slow batches */
			spw_pipe_run_once(rig->pipe);
		noise_sample(noise);
		trouble(rig, in, noise, &due, &made);
		if (in->attend)
			in->attend(rig);
		for (; judged < rec->pending_tail; judged++)
			score_one(&rec->pending[judged % SPW_REC_PENDING_CNT], faults, noise,
				  rec->slow_tsc, in, score);
	}
	score->faults = spw_thr_load_acq(&faults->window_cnt);
}

/* Lost cores are what a busy machine deals out by itself: of those nobody can say that they were
 * named wrongly. */
static bool good(const struct score *score, const struct inject *in)
{
	bool deals_itself = in->trouble == lose_core || in->cause == SPW_CAUSE_exec_late;

	return score->faults == FAULTS && score->hit >= FAULTS &&
	       score->hit_named * 10 >= score->hit * 9 && score->given[in->cause] >= 1 &&
	       (deals_itself || score->named_wrongly * 10 <= score->named);
}

static void score_print(const struct inject *in, const struct score *score)
{
	print_message(
		"%s: %lu hit, %lu of them named; %lu named, %lu of them wrongly; %lu not judged\n",
		in->name, score->hit, score->hit_named, score->named, score->named_wrongly,
		score->noisy);
	for (int c = 0; c < SPW_CAUSE_CNT; c++)
		if (score->given[c])
			print_message("  %lu were called %s\n", score->given[c],
				      spw_cause_name((enum spw_cause)c));
}

/* A run in which hardly anything was taken from the threads by others. */
static bool was_quiet(const struct score *score, const struct noise *noise, uint64_t ticks)
{
	uint64_t taken = 0;

	for (uint32_t i = 0; i < noise->cnt; i++)
		taken += noise->window[i].to - noise->window[i].from;
	return score->noisy * 4 <= score->hit && taken * 50 <= ticks;
}

static void prove(const struct inject *in)
{
	static struct noise noise;
	struct score score;
	int quiet_cnt = 0;
	struct rig rig;

	for (int i = 0; i < TRIES; i++) {
		uint64_t begin;

		memset(&score, 0, sizeof(score));
		memset(&own, 0, sizeof(own));
		if (!rig_open(&rig, &in->rig))
			skip();
		noise_begin(&noise, in);
		begin = spw_tsc_now();
		run(&rig, in, in->trouble ? &own : fault_queue_of(rig.port, 0), &noise, &score);
		quiet_cnt += was_quiet(&score, &noise, spw_tsc_now() - begin);
		rig_close(&rig);
		score_print(in, &score);
		if (good(&score, in))
			return;
	}
	if (quiet_cnt < 2) {
		print_message("  too busy a machine: too few frames met the fault alone\n");
		skip();
	}
	fail();
}

#define PROVE_ALL(name_, port_, handler_, exec_, cause_, too_, trouble_, attend_, where_) \
	static void name_(void **state)                                                   \
	{                                                                                 \
		(void)state;                                                              \
		prove(&(const struct inject){                                             \
			#name_,                                                           \
			{port_, handler_, &spw_handler_plugin, SPW_EXEC_##exec_},         \
			SPW_CAUSE_##cause_,                                               \
			SPW_CAUSE_##too_,                                                 \
			trouble_,                                                         \
			attend_,                                                          \
			where_});                                                         \
	}
#define PROVE(name_, do_, handler_, exec_, cause_) \
	PROVE_ALL(name_, SPEC do_, handler_, exec_, cause_, cause_, NULL, NULL, NULL)
#define PROVE_OWN(name_, trouble_, handler_, exec_, cause_, too_) \
	PROVE_ALL(name_, QUIET, handler_, exec_, cause_, too_, trouble_, NULL, NULL)

PROVE(frames_that_do_not_show, "rx_hold", "null", INLINE, port_late)
PROVE(frames_that_do_not_show_cpu, "rx_hold", "echo", CPU, port_late)
PROVE(a_receive_call_that_hangs, "rx_spin", "null", INLINE, poll_gap)
PROVE(no_buffers, "refill_hold", "null", INLINE, refill_stall)
PROVE(no_buffers_cpu, "refill_hold", "null", CPU, refill_stall)
PROVE(a_release_that_hangs, "refill_spin", "null", INLINE, refill_stall)
PROVE(a_transmit_that_hangs, "tx_spin", "echo", INLINE, tx_stall)
PROVE(a_transmit_that_hangs_cpu, "tx_spin", "echo", CPU, tx_stall)
PROVE_OWN(a_lost_core, lose_core, "null", INLINE, poll_gap, poll_gap)
PROVE_OWN(a_lost_core_cpu, lose_core, "echo", CPU, poll_gap, poll_gap)
PROVE_OWN(a_slow_handler, lame_handler, NULL, INLINE, handler_slow, batch_ahead)
PROVE_OWN(a_slow_handler_cpu, lame_handler, NULL, CPU, handler_slow, batch_ahead)
PROVE_ALL(an_executor_that_is_away, QUIET, "null", CPU, exec_late, exec_late, stall_executor, NULL,
	  wait_for_executor)
PROVE_ALL(nobody_reaps, SPEC "rx_spin", NULL, CPU, reap_late, reap_late, NULL, busy_when_it_hangs,
	  wait_for_reaping)
PROVE_ALL(an_executor_that_came_back, QUIET, "null", CPU, relaunched, relaunched, stall_executor,
	  report_relaunch, wait_for_executor)
PROVE_ALL(a_kernel_that_came_back, QUIET, "null", CUDA_PERSISTENT, relaunched, relaunched,
	  neglect_kernel, serve_or_neglect, wait_for_executor)

/* The port behind is named by its own keys; ours are checked. */
static void faults_are_checked(void **state)
{
	static const struct {
		const char *spec, *word;
	} bad[] = {{"fault:fault_do=rx_hold", "behind"},
		   {"fault:null,fault_do=nonesuch", "nonesuch"},
		   {"fault:null,size=64", "fault_do"},
		   {"fault:null,fault_do=rx_hold,fault_colour=3", "fault_colour"},
		   {"fault:null,sise=64,fault_do=rx_hold", "sise"},
		   {"fault:warp:x,fault_do=rx_hold", "warp"},
		   {"fault:null,fault_do=rx_hold,fault_for_us=9,fault_every_us=9", "more than"}};
	struct spw_port_spec spec;
	struct spw_port *port;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(bad); i++) {
		assert_int_equal(spw_port_spec_parse(bad[i].spec, &spec), 0);
		assert_true(spw_port_open(&spec, 0, 1, &port) < 0);
		assert_non_null(strstr(spw_err_text(), bad[i].word));
	}
}

int main(void)
{
	const struct sigaction action = {.sa_handler = on_signal};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_that_do_not_show),
		cmocka_unit_test(frames_that_do_not_show_cpu),
		cmocka_unit_test(a_receive_call_that_hangs),
		cmocka_unit_test(no_buffers),
		cmocka_unit_test(no_buffers_cpu),
		cmocka_unit_test(a_release_that_hangs),
		cmocka_unit_test(a_transmit_that_hangs),
		cmocka_unit_test(a_transmit_that_hangs_cpu),
		cmocka_unit_test(a_lost_core),
		cmocka_unit_test(a_lost_core_cpu),
		cmocka_unit_test(a_slow_handler),
		cmocka_unit_test(a_slow_handler_cpu),
		cmocka_unit_test(an_executor_that_is_away),
		cmocka_unit_test(nobody_reaps),
		cmocka_unit_test(an_executor_that_came_back),
		cmocka_unit_test(a_kernel_that_came_back),
		cmocka_unit_test(faults_are_checked),
	};

	sigaction(SIGUSR1, &action, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
