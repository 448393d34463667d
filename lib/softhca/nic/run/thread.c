/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC thread: one per process, for all of its devices. nic_start() starts it, the last
 * nic_detach() ends it. Its helpers only copy payload (copy.c).
 *
 *   loop:  run.lock; for each device: device lock, nic_round(), unlock
 *          work      spin on
 *          no work   spin (yield every YIELD_EVERY turns) while
 *                      - a core is to spare: --nic-cpu, or SPIN_CORES in the process's first mask
 *                      - the last work is less than SPIN_NS ago
 *                      - the scheduler takes little of the core (run/pace.h)
 *                    else nap 20 us; after DEEP_AFTER_NS without work, NAP_DEEP_NS
 *
 * Who wakes whom. Between an application that polls and its NIC: nobody. All of the data path is
 * stores to shared memory, which the other side finds when it polls next:
 *
 *   application                NIC thread, process A         NIC thread, process B     application
 *   WQE, record, doorbell ──►  round: nic_doorbells
 *     (a store; found after    transmit ─► cable ring ──►    round: receive
 *      the nap in progress)                                  payload, CQE (N5) ──────► polls its CQ
 *   polls its CQ ◄──────────── CQE (N5) ◄── ACK, cable ◄──── transmit
 *
 * A NIC thread that naps is late by the rest of its nap: up to NAP_DEEP_NS on a device that was
 * idle. What does wake a thread goes through the kernel, and is off the data path:
 *
 *   event channel   an armed CQ, an asynchronous event: the NIC thread writes to a pipe, and the
 *                   application returns from read or poll (kernel/events.c)
 *   socket cables   afpacket, unix: not waited for either; each round asks recvmmsg
 *   control socket  a thread of its own sleeps in poll and takes the device lock (control_sock.c)
 *   a command       the application's own thread; announces itself in cmd_waiting and run.waiting,
 *                   and the NIC thread lets it go first
 *
 * A fault of the thread on memory that is gone (host/guard.c) leaves a round by longjmp, and comes
 * here to run_after_fault().
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "softhca/cable/cable.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/port/trail.h"
#include "softhca/nic/run/pace.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/copy.h"
#include "softhca/nic/up.h"

/* Two processes, each with an application thread and a NIC thread that spin. */
#define SPIN_CORES 4
/* Threads of the NIC by default: one for so many cores, and at most so many. */
#define CORES_A_THREAD 4u
#define THREADS_MAX    6u
#define SPIN_NS        1000000ull /* after the last work */
#define NAP_DEEP_NS    2000000ull /* 500 wake-ups a second cost 1 % of a core */
#define DEEP_AFTER_NS  50000000ull
#define YIELD_EVERY    8192u /* turns; a yield costs microseconds even with nobody to yield to */
#define SERVE_NS       5000000ull /* a question of another process may wait as long */
#define LOST_NS        10000ull   /* an idle turn takes less, unless the thread lost its core */

static struct {
	pthread_mutex_t lock; /* the list, and the thread's start and end */
	uint32_t waiting;     /* calls that want the lock */
	pthread_t thread;
	bool running, stop;
	struct nic_dev *devs;
	bool own_cpu;          /* --nic-cpu: it is pinned to that core */
	struct copier *copier; /* NULL: no helpers */
	struct nic_thread_stat stat;
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the loop ---- */

/* now_ns_out: start of the last round. The clock is read with the lock held: the round publishes it
 * at once, and a wait for the lock in between would make it stale. */
static uint32_t run_rounds(uint64_t *now_ns_out)
{
	uint32_t work = 0;

	for (struct nic_dev *nd = run.devs; nd; nd = nd->next) {
		if (!hca_lock_nic(nd->dev)) {
			work++; /* a command wants to go first */
			continue;
		}
		guard_begin(nd);
		nd->now_ns = *now_ns_out = nic_now_ns();
		nd->copier = run.copier && copy_allowed(nd) ? run.copier : NULL;
		work += nic_round(nd);
		nd->copier = NULL;
		guard_end();
		hca_unlock(nd->dev);
	}
	return work;
}

/* After the longjmp out of a fault, with the device lock still held. nic_memory_gone() may fault as
 * well and comes here again. */
static void run_after_fault(void)
{
	struct nic_dev *nd = guard_device();

	if (nd->copier)
		copy_wait(nd);
	nic_memory_gone(nd);
	nd->copier = NULL;
	guard_end();
	hca_unlock(nd->dev);
	pthread_mutex_unlock(&run.lock);
}

static void run_nap(uint64_t idle_ns)
{
	struct timespec ts = {0, PACE_NAP_NS};

	if (idle_ns > DEEP_AFTER_NS)
		ts.tv_nsec = NAP_DEEP_NS;
	nanosleep(&ts, NULL);
	spw_thr_count(&run.stat.naps, 1u);
}

static bool run_may_spin(void)
{
	return run.own_cpu || host_cores() >= SPIN_CORES;
}

/* An idle turn took lost_ns. It counts against spinning only if the scheduler gave the core to
 * another thread. A command with the lock, or the hypervisor, can be the cause too, and napping
 * helps against neither. */
static void run_core_lost(struct nic_pace *pace, uint64_t now_ns, uint64_t lost_ns)
{
	struct nic_thread_stat *stat = &run.stat;
	const uint64_t before = stat->switches;
	struct rusage u;

	if (getrusage(RUSAGE_THREAD, &u))
		return;
	spw_thr_store_rlx(&stat->switches, (uint64_t)u.ru_nivcsw);
	if (stat->switches == before) {
		spw_thr_count(&stat->other_ns, lost_ns);
		return;
	}
	spw_thr_count(&stat->lost_ns, lost_ns);
	pace_lost(pace, now_ns, lost_ns);
}

static void run_loop(void)
{
	const bool spin = run_may_spin();
	struct nic_pace pace = {0};
	uint64_t now_ns = nic_now_ns(), busy_ns = now_ns, turn_ns = now_ns, served_ns = now_ns;
	uint32_t idle_turns = 0;
	bool napped = false;

	while (!spw_thr_load_acq(&run.stop)) {
		uint32_t work;

		if (spw_thr_load_rlx(&run.waiting)) {
			sched_yield();
			continue;
		}
		pthread_mutex_lock(&run.lock);
		if (trail_on())
			trail_round(napped       ? TRAIL_GAP_nap
				    : idle_turns ? TRAIL_GAP_lost
						 : TRAIL_GAP_round);
		work = run_rounds(&now_ns);
		pthread_mutex_unlock(&run.lock);
		if (spw_unlikely(now_ns - served_ns > SERVE_NS)) {
			served_ns = now_ns;
			hca_res_serve();
		}
		if (idle_turns && spw_unlikely(now_ns - turn_ns > LOST_NS))
			run_core_lost(&pace, now_ns, now_ns - turn_ns);
		if (work && spw_unlikely(now_ns - turn_ns > run.stat.late_ns))
			spw_thr_store_rlx(&run.stat.late_ns, now_ns - turn_ns);
		turn_ns = now_ns;
		napped = false;
		if (work) {
			busy_ns = now_ns;
			idle_turns = 0;
		} else if (!spin || now_ns - busy_ns > SPIN_NS || !pace_spins(&pace, now_ns)) {
			run_nap(now_ns - busy_ns);
			napped = true;
			idle_turns = 0;
		} else if (++idle_turns % YIELD_EVERY == 0) {
			sched_yield();
		} else {
			spw_cpu_relax();
		}
	}
}

uint64_t nic_helped(void)
{
	return copier_helped(run.copier);
}

void nic_thread_stat(struct nic_thread_stat *stat_out)
{
	const struct nic_thread_stat *s = &run.stat;

	*stat_out = (struct nic_thread_stat){
		.naps = spw_thr_load_rlx(&s->naps),
		.switches = spw_thr_load_rlx(&s->switches),
		.lost_ns = spw_thr_load_rlx(&s->lost_ns),
		.other_ns = spw_thr_load_rlx(&s->other_ns),
		.late_ns = spw_thr_load_rlx(&s->late_ns),
	};
}

static void *run_main(void *arg)
{
	sigjmp_buf env;

	(void)arg;
	prctl(PR_SET_TIMERSLACK, 1);
	prctl(PR_SET_NAME, "softhca-nic");
	if (sigsetjmp(env, 0))
		run_after_fault();
	guard_return_to(&env);
	run_loop();
	return NULL;
}

static void run_lock(void)
{
	spw_thr_fetch_add(&run.waiting, 1u);
	pthread_mutex_lock(&run.lock);
	spw_thr_fetch_add(&run.waiting, -1u);
}

/* Helpers: as many as --nic-threads asks for, or by the cores. */
static uint32_t run_helper_cnt(const struct hca_cfg *cfg)
{
	if (cfg->nic_threads)
		return cfg->nic_threads - 1;
	return SPW_MAX(SPW_MIN(host_cores() / CORES_A_THREAD, THREADS_MAX), 1u) - 1;
}

static int run_start(const struct hca_cfg *cfg)
{
	const uint32_t helpers = run_helper_cnt(cfg);
	int rc;

	guard_install();
	run.own_cpu = cfg->nic_cpu >= 0;
	run.stop = false;
	run.copier = helpers ? copier_open(helpers, run_may_spin() ? SPIN_NS : 0) : NULL;
	if (helpers && !run.copier)
		spw_warn("%s; the NIC thread works alone", spw_err_text());
	rc = nic_thread_create(&run.thread, run_main, NULL, cfg->nic_cpu);
	if (!rc) {
		run.running = true;
		return 0;
	}
	copier_close(run.copier);
	run.copier = NULL;
	if (run.own_cpu)
		return spw_err(rc,
			       "the NIC thread cannot run on CPU %d; --nic-cpu wants one that this "
			       "process may use",
			       cfg->nic_cpu);
	return spw_err(rc, "the NIC thread cannot be started");
}

int nic_start(struct hca_dev *dev)
{
	struct nic_dev *nd = dev->nic;
	int rc = 0;

	run_lock();
	if (!nd->started) {
		nd->started = true;
		nd->next = run.devs;
		run.devs = nd;
	}
	if (!run.running) {
		trail_begin(dev->cfg);
		rc = run_start(dev->cfg);
	}
	pthread_mutex_unlock(&run.lock);
	if (rc)
		spw_warn("%s", spw_err_text()); /* the application gets only an errno */
	return rc;
}

void nic_run_forget(struct nic_dev *nd)
{
	bool last;

	run_lock();
	HCA_UNLINK(run.devs, nd, next);
	last = run.running && !run.devs;
	if (last)
		spw_thr_store_rel(&run.stop, true);
	pthread_mutex_unlock(&run.lock);
	if (last) {
		pthread_join(run.thread, NULL);
		run.running = false;
		copier_close(run.copier);
		run.copier = NULL;
	}
}

void nic_forked(void)
{
	for (struct nic_dev *nd = run.devs; nd; nd = nd->next)
		if (nd->cable->ops->forked)
			nd->cable->ops->forked(nd->cable);
	pthread_mutex_init(&run.lock, NULL);
	run.devs = NULL;
	run.running = false;
	run.copier = NULL;
	run.waiting = 0;
}
