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
 *     (a store; found after    transmit ─► cable lane ──►    round: receive
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
 * Memory that the application unmaps under a region: a card pins its pages, this NIC cannot. A
 * guard (SIGSEGV and SIGBUS handlers) turns a fault of the NIC thread, or of a command under
 * nic_guarded(), into a siglongjmp; nic_memory_gone() then fails the QP at work. The guard costs
 * nothing until a fault happens. Faults of other threads go to the program's own handlers, which
 * nic_guard_sigaction() keeps.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "softhca/nic/nic_impl.h"
#include "softhca/nic/run/pace.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/port/trail.h"

/* Two processes, each with an application thread and a NIC thread that spin. */
#define SPIN_CORES 4
/* Threads of the NIC by default: one for so many cores, and at most so many. */
#define CORES_A_THREAD 4u
#define THREADS_MAX    6u
#define SPIN_NS        1000000ull /* after the last work */
#define NAP_DEEP_NS    2000000ull /* 500 wake-ups a second cost 1 % of a core */
#define DEEP_AFTER_NS  50000000ull
#define YIELD_EVERY    8192u    /* turns; a yield costs microseconds even with nobody to yield to */
#define LOST_NS        10000ull /* an idle turn takes less, unless the thread lost its core */

static struct {
	pthread_mutex_t lock; /* the list, and the thread's life */
	uint32_t waiting;     /* calls that want the lock */
	pthread_t thread;
	bool running, stop, mask_saved;
	cpu_set_t mask;
	struct nic_dev *devs;
	bool own_cpu;          /* --nic-cpu: it is pinned to that core */
	struct copier *copier; /* NULL: no helpers */
	struct nic_thread_stat stat;
	/* 1: on_fault is installed; the program's own handlers are in the next two. */
	uint32_t guarding;
	struct sigaction old_segv, old_bus;
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local sigjmp_buf *guard;
static _Thread_local struct nic_dev *guarded;

/* RAW: a card's crystal is not slewed by NTP. */
uint64_t nic_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void nic_mask_save(void)
{
	run.mask_saved = sched_getaffinity(0, sizeof(run.mask), &run.mask) == 0;
}

/* ---- memory guard ---- */

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *old = sig == SIGSEGV ? &run.old_segv : &run.old_bus;

	if (sig == SIGBUS && cable_shm_repair(info->si_addr))
		return;
	if (guard && guarded)
		siglongjmp(*guard, 1);
	if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(sig, info, context);
	} else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
		old->sa_handler(sig);
	} else {
		/* The instruction runs again, and the program dies as it would without the NIC. */
		run.guarding = 0;
		sigaction(sig, old, NULL);
	}
}

static void guard_install(void)
{
	struct sigaction sa = {.sa_sigaction = on_fault,
			       .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

	if (run.guarding)
		return;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGSEGV, &sa, &run.old_segv);
	sigaction(SIGBUS, &sa, &run.old_bus);
	run.guarding = 1;
}

bool nic_guard_sigaction(int sig, const struct sigaction *act, struct sigaction *old_out)
{
	struct sigaction *kept = sig == SIGSEGV ? &run.old_segv : &run.old_bus;
	const struct sigaction before = *kept;

	if (!run.guarding || (sig != SIGSEGV && sig != SIGBUS))
		return false;
	if (act)
		*kept = *act;
	if (old_out)
		*old_out = before;
	return true;
}

int nic_guarded(struct hca_dev *dev, int (*command)(void *arg), void *arg)
{
	sigjmp_buf env, *const outer = guard;
	struct nic_dev *const at_work = guarded;
	int rc = -EFAULT;

	if (sigsetjmp(env, 0) == 0) {
		guard = &env;
		guarded = dev->nic;
		rc = command(arg);
	}
	guard = outer;
	guarded = at_work;
	return rc;
}

/* ---- the loop ---- */

/* now_ns_out: start of the last round. The clock is read with the lock held: the round publishes it
 * at once, and a wait for the lock in between would make it stale. */
static uint32_t all_rounds(uint64_t *now_ns_out)
{
	uint32_t work = 0;

	for (struct nic_dev *nd = run.devs; nd; nd = nd->next) {
		if (!hca_lock_nic(nd->dev)) {
			work++; /* a command wants to go first */
			continue;
		}
		guarded = nd;
		nd->now_ns = *now_ns_out = nic_now_ns();
		nd->copier = run.copier && copy_allowed(nd) ? run.copier : NULL;
		work += nic_round(nd);
		nd->copier = NULL;
		guarded = NULL;
		hca_unlock(nd->dev);
	}
	return work;
}

/* After the longjmp out of a fault, with the device lock still held. nic_memory_gone() may fault as
 * well and comes here again. */
static void after_fault(void)
{
	struct nic_dev *nd = guarded;

	if (nd->copier)
		copy_wait(nd);
	nic_memory_gone(nd);
	nd->copier = NULL;
	guarded = NULL;
	hca_unlock(nd->dev);
	pthread_mutex_unlock(&run.lock);
}

static void nap(uint64_t idle_ns)
{
	struct timespec ts = {0, PACE_NAP_NS};

	if (idle_ns > DEEP_AFTER_NS)
		ts.tv_nsec = NAP_DEEP_NS;
	nanosleep(&ts, NULL);
	spw_thr_count(&run.stat.naps, 1u);
}

/* That the process may use. */
static uint32_t cores(void)
{
	return (uint32_t)(run.mask_saved ? CPU_COUNT(&run.mask) : sysconf(_SC_NPROCESSORS_ONLN));
}

static bool may_spin(void)
{
	return run.own_cpu || cores() >= SPIN_CORES;
}

/* An idle turn took lost_ns. It counts against spinning only if the scheduler gave the core to
 * another thread. A command with the lock, or the hypervisor, can be the cause too, and napping
 * helps against neither. */
static void lost(struct nic_pace *pace, uint64_t now_ns, uint64_t lost_ns)
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

static void loop(void)
{
	const bool spin = may_spin();
	struct nic_pace pace = {0};
	uint64_t now_ns = nic_now_ns(), busy_ns = now_ns, turn_ns = now_ns;
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
		work = all_rounds(&now_ns);
		pthread_mutex_unlock(&run.lock);
		if (idle_turns && spw_unlikely(now_ns - turn_ns > LOST_NS))
			lost(&pace, now_ns, now_ns - turn_ns);
		if (work && spw_unlikely(now_ns - turn_ns > run.stat.late_ns))
			spw_thr_store_rlx(&run.stat.late_ns, now_ns - turn_ns);
		turn_ns = now_ns;
		napped = false;
		if (work) {
			busy_ns = now_ns;
			idle_turns = 0;
		} else if (!spin || now_ns - busy_ns > SPIN_NS || !pace_spins(&pace, now_ns)) {
			nap(now_ns - busy_ns);
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

static void *thread_main(void *arg)
{
	sigjmp_buf env;

	(void)arg;
	prctl(PR_SET_TIMERSLACK, 1);
	prctl(PR_SET_NAME, "softhca-nic");
	if (sigsetjmp(env, 0))
		after_fault();
	guard = &env;
	loop();
	return NULL;
}

static void run_lock(void)
{
	spw_thr_fetch_add(&run.waiting, 1u);
	pthread_mutex_lock(&run.lock);
	spw_thr_fetch_add(&run.waiting, -1u);
}

/* The core that was asked for, or any that the process had. */
static void place(pthread_attr_t *attr, int32_t cpu)
{
	cpu_set_t one;

	if (cpu >= 0) {
		CPU_ZERO(&one);
		CPU_SET((unsigned)cpu, &one);
		pthread_attr_setaffinity_np(attr, sizeof(one), &one);
	} else if (run.mask_saved) {
		pthread_attr_setaffinity_np(attr, sizeof(run.mask), &run.mask);
	}
}

int nic_thread_create(pthread_t *thread_out, void *(*main)(void *arg), void *arg, int32_t cpu)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	place(&attr, cpu);
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread_out, &attr, main, arg);
	/* The container may no longer allow the mask that the process started with. */
	if (cpu < 0 && (rc == EINVAL || rc == EPERM)) {
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		rc = pthread_create(thread_out, &attr, main, arg);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

/* Helpers: as many as --nic-threads asks for, or by the cores. */
static uint32_t helper_cnt(const struct hca_cfg *cfg)
{
	if (cfg->nic_threads)
		return cfg->nic_threads - 1;
	return SPW_MAX(SPW_MIN(cores() / CORES_A_THREAD, THREADS_MAX), 1u) - 1;
}

static int thread_start(const struct hca_cfg *cfg)
{
	const uint32_t helpers = helper_cnt(cfg);
	int rc;

	guard_install();
	run.own_cpu = cfg->nic_cpu >= 0;
	run.stop = false;
	run.copier = helpers ? copier_open(helpers, may_spin() ? SPIN_NS : 0) : NULL;
	if (helpers && !run.copier)
		spw_warn("%s; the NIC thread works alone", spw_err_text());
	rc = nic_thread_create(&run.thread, thread_main, NULL, cfg->nic_cpu);
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
		rc = thread_start(dev->cfg);
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
