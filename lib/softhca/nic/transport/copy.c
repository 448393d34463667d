/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The list of copies, and the helpers that work on it (copy.h says what for).
 *
 *   job[]   | done, or being made | posted, not taken | listed, not posted | free |
 *            ^settled              ^taken              ^posted              ^listed
 *
 * The NIC thread lists, and posts TAKE copies at a time, so that their cache line moves less often
 * than the bytes do; the first only when there are HELP_MIN, so that two share what they make.
 * Whoever has time takes the next TAKE. A helper that lost its core before it took any is not
 * waited for: the NIC thread takes them itself.
 *
 * Helpers spin for a while after their last copy and then sleep. A helper may fall asleep just when
 * copies are posted; the next post wakes it, and until then the NIC thread does its work.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/spw_err.h"
#include "softhca/inject/inject.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/transport/copy.h"
#include "softhca/nic/transport/qp.h"
#include "softhca/nic/up.h"

#define SLOTS       256u /* power of 2 */
#define TAKE        4u   /* copies that a thread takes at a time */
#define HELP_MIN    8u   /* copies for which helpers are asked: one alone would take all of fewer */
#define BYTES_MIN   1024u /* less is copied sooner than listed */
#define CLOCK_EVERY 64u   /* turns of a spinning helper */
#define YIELD_EVERY 1024u

struct job {
	uint8_t *to;
	const uint8_t *from;
	struct nic_qp *q;
	uint8_t *frame; /* NULL: received */
	uint32_t bytes;
	uint32_t psn;   /* received */
	uint32_t after; /* all before this index in job[] are done first */
	bool failed;    /* by the thread that took it */
};

struct copier {
	/* The NIC thread's own. */
	struct nic_qp *q; /* of the packet at work; NULL: its copies are not listed */
	uint8_t *frame;
	uint32_t psn;
	bool last; /* it is the last of its message: after all before it, before all others */
	uint32_t barrier; /* what is listed now waits for all before this index */
	uint32_t listed, settled;
	/* Shared; each line has its own kind of writer. */
	uint32_t posted SPW_ALIGNED(128); /* the NIC thread */
	uint32_t taken SPW_ALIGNED(128);  /* whoever takes */
	uint32_t done SPW_ALIGNED(128);   /* whoever has copied */
	uint64_t helped SPW_ALIGNED(128); /* helpers */
	uint32_t failed;
	uint32_t asleep;
	uint64_t spin_ns; /* of helpers, after their last copy */
	bool stop;
	pthread_mutex_t mutex; /* of falling asleep */
	pthread_cond_t woken;
	uint32_t helper_cnt;
	pthread_t helper[COPY_HELPERS_MAX];
	struct job job[SLOTS] SPW_ALIGNED(128);
};

/* ---- all threads ---- */

/* Until all copies before `index` are done. Those were taken earlier, so somebody is at them. */
static void copier_await(const struct copier *c, uint32_t index)
{
	uint32_t turns = 0;

	/* [N14 acquire, pairs with N13] */
	while ((int32_t)(spw_thr_load_acq(&c->done) - index) < 0)
		if (++turns % YIELD_EVERY)
			spw_cpu_relax();
		else
			sched_yield();
}

static void copier_report(struct copier *c, uint32_t *made)
{
	spw_thr_fetch_add(&c->done, *made); /* [N13 release, pairs with N14] */
	*made = 0;
}

static int job_copy(void *arg)
{
	const struct job *j = arg;

	memcpy(j->to, j->from, j->bytes);
	return 0;
}

/* Takes up to TAKE copies and makes them. Returns their number; 0: there are none. */
static uint32_t copier_work(struct copier *c)
{
	uint32_t at = spw_thr_load_rlx(&c->taken), end, made = 0;

	do {
		/* [N12 acquire, pairs with N11] */
		const uint32_t posted = spw_thr_load_acq(&c->posted);

		if (at == posted)
			return 0;
		end = at + SPW_MIN(TAKE, posted - at);
	} while (!spw_thr_cas(&c->taken, &at, end));
	for (uint32_t i = at; i != end; i++) {
		struct job *j = &c->job[i % SLOTS];

		if ((int32_t)(spw_thr_load_acq(&c->done) - j->after) < 0) {
			copier_report(c, &made);
			copier_await(c, j->after);
		}
		if (spw_unlikely(nic_guarded(j->q->nd->dev, job_copy, j))) {
			j->failed = true;
			spw_thr_store_rlx(&c->failed, 1u);
		}
		made++;
	}
	copier_report(c, &made);
	return end - at;
}

/* ---- helpers ---- */

static void helper_sleep(struct copier *c)
{
	pthread_mutex_lock(&c->mutex);
	spw_thr_fetch_add(&c->asleep, 1u);
	while (!spw_thr_load_rlx(&c->stop) &&
	       spw_thr_load_rlx(&c->taken) == spw_thr_load_rlx(&c->posted))
		pthread_cond_wait(&c->woken, &c->mutex);
	spw_thr_fetch_add(&c->asleep, -1u);
	pthread_mutex_unlock(&c->mutex);
}

static void *helper_main(void *arg)
{
	struct copier *c = arg;
	uint64_t busy_ns = nic_now_ns();
	uint32_t turns = 0;

	prctl(PR_SET_NAME, "softhca-copy");
	while (!spw_thr_load_rlx(&c->stop)) {
		const uint32_t n = copier_work(c);

		if (n) {
			spw_thr_fetch_add(&c->helped, n);
			turns = 0;
		} else if (turns++ % CLOCK_EVERY) {
			spw_cpu_relax();
		} else if (turns == 1) {
			busy_ns = nic_now_ns();
		} else if (nic_now_ns() - busy_ns > c->spin_ns) {
			helper_sleep(c);
			turns = 0;
		}
	}
	return NULL;
}

struct copier *copier_open(uint32_t helpers, uint64_t spin_ns)
{
	struct copier *c = aligned_alloc(128, sizeof(*c));
	int rc = 0;

	if (!c) {
		spw_err(ENOMEM, "no memory for the copies of the NIC");
		return NULL;
	}
	memset(c, 0, sizeof(*c));
	c->spin_ns = spin_ns;
	pthread_mutex_init(&c->mutex, NULL);
	pthread_cond_init(&c->woken, NULL);
	while (!rc && c->helper_cnt < SPW_MIN(helpers, COPY_HELPERS_MAX)) {
		rc = nic_thread_create(&c->helper[c->helper_cnt], helper_main, c, -1);
		c->helper_cnt += !rc;
	}
	if (c->helper_cnt)
		return c;
	copier_close(c);
	spw_err(rc, "no helper of the NIC thread can be started");
	return NULL;
}

void copier_close(struct copier *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->mutex);
	spw_thr_store_rlx(&c->stop, true);
	pthread_cond_broadcast(&c->woken);
	pthread_mutex_unlock(&c->mutex);
	for (uint32_t i = 0; i < c->helper_cnt; i++)
		pthread_join(c->helper[i], NULL);
	pthread_cond_destroy(&c->woken);
	pthread_mutex_destroy(&c->mutex);
	free(c);
}

uint64_t copier_helped(const struct copier *c)
{
	return c ? spw_thr_load_rlx(&c->helped) : 0;
}

/* ---- the NIC thread ---- */

bool copy_allowed(const struct nic_dev *nd)
{
	return !nd->icrc_always && !inject_takes_tx(nd) && !nd->adv; /* a trace makes every ICRC */
}

void copy_owner(struct copier *c, struct nic_qp *q, uint8_t *frame)
{
	c->q = q;
	c->frame = frame;
	c->last = false;
}

void copy_received(struct copier *c, struct nic_qp *q, uint32_t psn, bool last)
{
	copy_owner(c, q, NULL);
	c->psn = psn;
	c->last = last;
}

static void copier_post(struct copier *c)
{
	spw_thr_store_rel(&c->posted, c->listed); /* [N11 release, pairs with N12] */
}

static void copier_wake(struct copier *c)
{
	pthread_mutex_lock(&c->mutex);
	pthread_cond_broadcast(&c->woken);
	pthread_mutex_unlock(&c->mutex);
}

/* What is not listed is copied by the caller at once, which must not be before what it follows. */
static bool copier_refuse(struct copier *c)
{
	if (c->q && (c->last || c->barrier != c->settled))
		copy_wait(c->q->nd);
	return false;
}

bool copy_list(struct copier *c, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (!c->q || bytes < BYTES_MIN || c->listed - c->settled == SLOTS)
		return copier_refuse(c);
	if (c->last)
		c->barrier = c->listed;
	c->job[c->listed++ % SLOTS] = (struct job){.to = to,
						   .from = from,
						   .q = c->q,
						   .frame = c->frame,
						   .bytes = bytes,
						   .psn = c->psn,
						   .after = c->barrier};
	if (c->last)
		c->barrier = c->listed;
	if (c->listed - c->posted >= TAKE && c->listed - c->settled >= HELP_MIN) {
		copier_post(c);
		if (spw_unlikely(spw_thr_load_rlx(&c->asleep)))
			copier_wake(c);
	}
	return true;
}

/* Nobody receives a frame for QP 0. What follows it on its QP is then out of sequence. */
static void job_failed(const struct job *j)
{
	if (j->frame)
		spw_prm_st32(j->frame + j->q->tmpl.bth_off + 4, 0);
	else if (!(j->q->copy_failed & COPY_FAILED_RX))
		j->q->copy_psn = j->psn;
	j->q->copy_failed |= j->frame ? COPY_FAILED_TX : COPY_FAILED_RX;
	j->q->nd->copy_failed = true;
}

void copy_wait(struct nic_dev *nd)
{
	struct copier *c = nd->copier;

	c->q = NULL;
	if (c->listed == c->settled)
		return;
	copier_post(c);
	while (copier_work(c))
		;
	copier_await(c, c->listed);
	if (spw_unlikely(spw_thr_load_rlx(&c->failed))) {
		spw_thr_store_rlx(&c->failed, 0u);
		for (uint32_t i = c->settled; i != c->listed; i++)
			if (c->job[i % SLOTS].failed)
				job_failed(&c->job[i % SLOTS]);
	}
	c->settled = c->barrier = c->listed;
}

void copy_rsp_rx(struct nic_qp *q, const struct wire_pkt *k)
{
	struct copier *c = q->nd->copier;
	const bool last = k->hdrs & WIRE_H_LAST;

	const bool write = (k->hdrs & (WIRE_H_WRITE | WIRE_H_IMM)) == WIRE_H_WRITE;

	if (last && !write) { /* a completion or an atomic operation comes at once */
		copy_wait(q->nd);
		if (spw_unlikely(q->copy_failed))
			return;
	} else {
		copy_received(c, q, k->psn, last);
	}
	rc_rsp_rx(q, k);
	copy_owner(c, NULL, NULL);
}
