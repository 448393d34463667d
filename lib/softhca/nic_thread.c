/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC thread: one per process, for all of its devices. It spins only where it has a core of its own
 * (--nic-cpu) or cores are to spare, by the affinity mask that the process had before anything (EAL) pinned a
 * thread, and only while nobody else takes much of its core (nic_pace.h); elsewhere it naps after
 * every look that found nothing. Where nothing has happened for a while the naps grow, so that an idle
 * device costs little: a first doorbell then waits for up to NAP_DEEP_NS.
 *
 * Memory that the application unmapped under a region: real cards pin the pages, this NIC cannot. Its
 * accesses run under a guard (SIGSEGV and SIGBUS of this thread jump back to the loop), so that it costs
 * nothing until it happens; the QP at work then fails with a local protection error. Commands have one too. */
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
#include "softhca/nic_impl.h"
#include "softhca/nic_pace.h"
#include "softhca/nic_run.h"

#define SPIN_CORES 4        /* two processes, each with an application and a NIC thread that spin */
#define SPIN_NS 1000000ull  /* after the last work */
#define NAP_DEEP_NS 2000000ull /* 1000 wake-ups a second cost 2 % of a core, 500 half of that */
#define DEEP_AFTER_NS 50000000ull
#define YIELD_EVERY 8192u       /* turns; a yield costs microseconds even with nobody to yield to */
#define LOST_NS 10000ull        /* an idle turn takes less, unless the core was away */

static struct {
	pthread_mutex_t lock;  /* the list, and the thread's life */
	uint32_t waiting;      /* calls that want the lock */
	pthread_t thread;
	bool running, stop, mask_saved;
	cpu_set_t mask;
	struct nic_dev *devs;
	bool own_cpu;          /* it is pinned: that core is meant for it */
	struct nic_thread_stat stat;
	uint32_t guarding;     /* 1: on_fault is the handler; what the program wants is in the next two */
	struct sigaction old_segv, old_bus;
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local sigjmp_buf *guard;
static _Thread_local struct nic_dev *guarded;

/* A card's crystal is not slewed by anybody's NTP. */
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

/* ---- memory guard ------------------------------------------------------------------------------------ */

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *old = sig == SIGSEGV ? &run.old_segv : &run.old_bus;

	if (guard && guarded)
		siglongjmp(*guard, 1);
	if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(sig, info, context);
	} else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
		old->sa_handler(sig);
	} else {
		run.guarding = 0; /* the instruction runs again, and the program dies as it should */
		sigaction(sig, old, NULL);
	}
}

static void guard_install(void)
{
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

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

int nic_guarded(struct hca_dev *dev, int (*command)(struct uv_call *call), struct uv_call *call)
{
	sigjmp_buf env;
	int rc = -EFAULT;

	if (sigsetjmp(env, 0) == 0) {
		guard = &env;
		guarded = dev->nic;
		rc = command(call);
	}
	guard = NULL;
	guarded = NULL;
	return rc;
}

/* ---- the loop ---------------------------------------------------------------------------------------- */

/* now_ns_out: when the last round began. The clock is read with the lock: the round publishes it at once, and what waits for
 * the lock in between would make it stale. */
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
		work += nic_round(nd);
		guarded = NULL;
		hca_unlock(nd->dev);
	}
	return work;
}

/* Back from a fault, still with the device's lock. What is done about it may meet a fault as well, and comes here again. */
static void after_fault(void)
{
	struct nic_dev *nd = guarded;

	nic_memory_gone(nd);
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

static bool may_spin(void)
{
	if (run.own_cpu)
		return true;
	return run.mask_saved ? CPU_COUNT(&run.mask) >= SPIN_CORES : sysconf(_SC_NPROCESSORS_ONLN) >= SPIN_CORES;
}

/* A turn that should have taken no time took lost_ns. It counts if the scheduler took the core away; a command may also
 * have held the lock, or the hypervisor have run something else, and napping helps in neither case. */
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

	while (!spw_thr_load_acq(&run.stop)) {
		uint32_t work;

		if (spw_thr_load_rlx(&run.waiting)) {
			sched_yield();
			continue;
		}
		pthread_mutex_lock(&run.lock);
		work = all_rounds(&now_ns);
		pthread_mutex_unlock(&run.lock);
		if (idle_turns && spw_unlikely(now_ns - turn_ns > LOST_NS))
			lost(&pace, now_ns, now_ns - turn_ns);
		turn_ns = now_ns;
		if (work) {
			busy_ns = now_ns;
			idle_turns = 0;
		} else if (!spin || now_ns - busy_ns > SPIN_NS || !pace_spins(&pace, now_ns)) {
			nap(now_ns - busy_ns);
			idle_turns = 0;
		} else if (++idle_turns % YIELD_EVERY == 0) {
			sched_yield();
		} else {
			spw_cpu_relax();
		}
	}
}

void nic_thread_stat(struct nic_thread_stat *stat_out)
{
	const struct nic_thread_stat *s = &run.stat;

	*stat_out = (struct nic_thread_stat){
		.naps = spw_thr_load_rlx(&s->naps),
		.switches = spw_thr_load_rlx(&s->switches),
		.lost_ns = spw_thr_load_rlx(&s->lost_ns),
		.other_ns = spw_thr_load_rlx(&s->other_ns),
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

	run.own_cpu = cpu >= 0;
	if (run.own_cpu) {
		CPU_ZERO(&one);
		CPU_SET((unsigned)cpu, &one);
		pthread_attr_setaffinity_np(attr, sizeof(one), &one);
	} else if (run.mask_saved) {
		pthread_attr_setaffinity_np(attr, sizeof(run.mask), &run.mask);
	}
}

static int thread_start(int32_t cpu)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	guard_install();
	pthread_attr_init(&attr);
	place(&attr, cpu);
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	run.stop = false;
	rc = pthread_create(&run.thread, &attr, thread_main, NULL);
	if (!run.own_cpu && (rc == EINVAL || rc == EPERM)) { /* a mask that the container no longer allows */
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		rc = pthread_create(&run.thread, &attr, thread_main, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc && run.own_cpu)
		return spw_err(rc, "the NIC thread cannot run on CPU %d; --nic-cpu wants one that this process may use", cpu);
	if (rc)
		return spw_err(rc, "the NIC thread cannot be started");
	run.running = true;
	return 0;
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
	if (!run.running)
		rc = thread_start(dev->cfg->nic_cpu);
	pthread_mutex_unlock(&run.lock);
	if (rc)
		spw_warn("%s", spw_err_text()); /* the application is told an errno only */
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
	run.waiting = 0;
}
