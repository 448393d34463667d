/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The states of a connection, two of them joined by a wire that loses what the test wants, in a
 * time that the test moves.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "softhca/cm/cm_fsm.h"

#define REQ_MS  4608u /* 2 * 256 ms + 4096 ms */
#define REP_MS  4096u
#define RETRIES 15u
#define WAIT_MS 1024u /* TIMEWAIT: 4.096 us << 18 */

struct pair {
	struct cm_fsm a, p; /* active, passive */
	struct cm_step sa, sp;
	uint64_t now_ms;
};

static struct cm_fsm fsm_new(uint32_t id)
{
	return (struct cm_fsm){.local_id = id, .tid = 5, .due_ms = CM_NEVER, .ack_timeout = 17};
}

static const struct cm_msg req = {.service_id = 1,
				  .qpn = 0x41,
				  .psn = 100,
				  .ack_timeout = 18,
				  .responder_resources = 3,
				  .initiator_depth = 4,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .path_mtu = 5,
				  .guid = {1}};
static const struct cm_msg rep = {.qpn = 0x52,
				  .psn = 200,
				  .responder_resources = 2,
				  .initiator_depth = 1,
				  .rnr_retry = 6,
				  .ack_delay = 16};

/* A message that has been over the wire. */
static struct cm_msg carried(const struct cm_step *s)
{
	uint8_t mad[CM_MAD_BYTES];
	struct cm_msg m;

	assert_true(s->sends);
	cm_mad_build(&s->msg, mad);
	assert_true(cm_mad_parse(mad, &m));
	return m;
}

static void to_p(struct pair *w)
{
	const struct cm_msg m = carried(&w->sa);

	cm_fsm_rx(&w->p, &m, w->now_ms, &w->sp);
}

static void to_a(struct pair *w)
{
	const struct cm_msg m = carried(&w->sp);

	cm_fsm_rx(&w->a, &m, w->now_ms, &w->sa);
}

static void begin(struct pair *w)
{
	struct cm_msg m;

	*w = (struct pair){.a = fsm_new(0xa), .p = fsm_new(0xb), .now_ms = 1000};
	assert_int_equal(cm_fsm_connect(&w->a, &req, w->now_ms, &w->sa), 0);
	m = carried(&w->sa);
	assert_int_equal(m.attr, CM_REQ);
	assert_int_equal(m.max_retries, RETRIES);
	cm_fsm_accept_req(&w->p, &m);
}

static void establish(struct pair *w)
{
	begin(w);
	assert_int_equal(cm_fsm_accept(&w->p, &rep, w->now_ms, &w->sp), 0);
	to_a(w);
	assert_int_equal(w->sa.event, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(cm_fsm_confirm(&w->a, &w->sa), 0);
	to_p(w);
	assert_int_equal(w->sp.event, CM_EV_ESTABLISHED);
	assert_int_equal(w->a.state, CM_ESTABLISHED);
	assert_int_equal(w->p.state, CM_ESTABLISHED);
}

static void tick(struct cm_fsm *f, struct pair *w, uint64_t ms, struct cm_step *s)
{
	w->now_ms += ms;
	cm_fsm_tick(f, w->now_ms, s);
}

/* What each side's QP needs of the other's. */
static void test_numbers_cross(void **state)
{
	struct pair w;

	(void)state;
	establish(&w);
	assert_int_equal(w.a.remote_qpn, 0x52);
	assert_int_equal(w.p.remote_qpn, 0x41);
	assert_int_equal(w.a.sq_psn, w.p.rq_psn);
	assert_int_equal(w.p.sq_psn, w.a.rq_psn);
	assert_int_equal(w.a.responder_resources, 1);
	assert_int_equal(w.a.initiator_depth, 2);
	assert_int_equal(w.p.path_mtu, 5);
	assert_int_equal(w.a.ack_timeout, 18);
	assert_int_equal(w.p.ack_timeout, 18);
	assert_int_equal(w.a.due_ms, CM_NEVER);
	assert_int_equal(w.p.due_ms, CM_NEVER);
}

/* Sixteen requests and no answer: the peer is unreachable, and a late answer changes nothing. */
static void test_request_is_repeated(void **state)
{
	struct pair w;
	struct cm_msg m;

	(void)state;
	begin(&w);
	for (uint32_t i = 0; i < RETRIES; i++) {
		tick(&w.a, &w, REQ_MS - 1, &w.sa);
		assert_false(w.sa.sends);
		tick(&w.a, &w, 1, &w.sa);
		m = carried(&w.sa);
		assert_int_equal(m.attr, CM_REQ);
		assert_int_equal(m.tid, w.a.tid);
	}
	tick(&w.a, &w, REQ_MS, &w.sa);
	assert_false(w.sa.sends);
	assert_int_equal(w.sa.event, CM_EV_UNREACHABLE);
	assert_int_equal(w.sa.status, -ETIMEDOUT);
	assert_int_equal(cm_fsm_accept(&w.p, &rep, w.now_ms, &w.sp), 0);
	to_a(&w);
	assert_int_equal(w.sa.event, CM_EV_NONE);
}

/* A program that takes its time: the second request is answered by an MRA, and the active side
 * waits for 65 s and its ACK timeout. */
static void test_mra_extends_the_wait(void **state)
{
	struct pair w;

	(void)state;
	begin(&w);
	tick(&w.a, &w, REQ_MS, &w.sa);
	to_p(&w);
	assert_int_equal(w.sp.msg.attr, CM_MRA);
	to_a(&w);
	tick(&w.a, &w, 65536 + 512 - 1, &w.sa);
	assert_false(w.sa.sends);
	tick(&w.a, &w, 1, &w.sa);
	assert_true(w.sa.sends);
}

static void test_reply_is_repeated(void **state)
{
	struct pair w;

	(void)state;
	begin(&w);
	cm_fsm_accept(&w.p, &rep, w.now_ms, &w.sp);
	to_a(&w);
	cm_fsm_confirm(&w.a, &w.sa); /* the RTU is lost */
	tick(&w.p, &w, REP_MS, &w.sp);
	assert_int_equal(w.sp.msg.attr, CM_REP);
	to_a(&w);
	assert_int_equal(w.sa.event, CM_EV_NONE);
	assert_int_equal(w.sa.msg.attr, CM_RTU);
	to_p(&w);
	assert_int_equal(w.sp.event, CM_EV_ESTABLISHED);
	to_p(&w);
	assert_int_equal(w.sp.event, CM_EV_NONE); /* a second RTU */
}

static void test_reply_gives_up(void **state)
{
	struct pair w;

	(void)state;
	begin(&w);
	cm_fsm_accept(&w.p, &rep, w.now_ms, &w.sp);
	for (uint32_t i = 0; i < RETRIES; i++)
		tick(&w.p, &w, REP_MS, &w.sp);
	assert_int_equal(w.sp.event, CM_EV_NONE);
	tick(&w.p, &w, REP_MS, &w.sp);
	assert_int_equal(w.sp.event, CM_EV_UNREACHABLE);
	assert_int_equal(w.p.state, CM_IDLE);
}

static void test_data_before_the_rtu(void **state)
{
	struct pair w;

	(void)state;
	begin(&w);
	assert_int_equal(cm_fsm_comm_est(&w.p, &w.sp), -EINVAL);
	cm_fsm_accept(&w.p, &rep, w.now_ms, &w.sp);
	assert_int_equal(cm_fsm_comm_est(&w.p, &w.sp), 0);
	assert_int_equal(w.sp.event, CM_EV_ESTABLISHED);
	assert_int_equal(cm_fsm_comm_est(&w.p, &w.sp), -EISCONN);
}

static void test_disconnect(void **state)
{
	struct pair w;

	(void)state;
	establish(&w);
	assert_int_equal(cm_fsm_disconnect(&w.a, w.now_ms, &w.sa), 0);
	to_p(&w);
	assert_int_equal(w.sp.event, CM_EV_DISCONNECTED);
	assert_int_equal(cm_fsm_disconnect(&w.p, w.now_ms, &w.sp), 0);
	assert_int_equal(w.p.state, CM_TIMEWAIT);
	to_a(&w);
	assert_int_equal(w.sa.event, CM_EV_DISCONNECTED);
	assert_int_equal(cm_fsm_disconnect(&w.a, w.now_ms, &w.sa), -EINVAL);
	tick(&w.a, &w, WAIT_MS - 1, &w.sa);
	assert_int_equal(w.sa.event, CM_EV_NONE);
	tick(&w.a, &w, 1, &w.sa);
	assert_int_equal(w.sa.event, CM_EV_TIMEWAIT_EXIT);
	assert_int_equal(w.a.state, CM_IDLE);
}

/* The answer was lost: the repeated DREQ gets another one out of TIMEWAIT. */
static void test_dreq_in_timewait(void **state)
{
	struct pair w;

	(void)state;
	establish(&w);
	cm_fsm_disconnect(&w.a, w.now_ms, &w.sa);
	to_p(&w);
	cm_fsm_disconnect(&w.p, w.now_ms, &w.sp);
	to_p(&w);
	assert_int_equal(w.sp.event, CM_EV_NONE);
	assert_int_equal(w.sp.msg.attr, CM_DREP);
	to_a(&w);
	assert_int_equal(w.sa.event, CM_EV_DISCONNECTED);
}

static void test_dreq_without_answer(void **state)
{
	struct pair w;

	(void)state;
	establish(&w);
	cm_fsm_disconnect(&w.a, w.now_ms, &w.sa);
	for (uint32_t i = 0; i <= RETRIES; i++)
		tick(&w.a, &w, REQ_MS, &w.sa);
	assert_int_equal(w.sa.event, CM_EV_DISCONNECTED);
	assert_int_equal(w.sa.status, -ETIMEDOUT);
	assert_int_equal(w.a.state, CM_TIMEWAIT);
}

/* Numbers that somebody guessed: another connection's QP, another peer. */
static void test_strangers(void **state)
{
	struct cm_msg m = {.attr = CM_DREQ, .local_id = 0xb, .remote_id = 0xa, .qpn = 0x99};
	struct pair w;

	(void)state;
	establish(&w);
	cm_fsm_rx(&w.a, &m, w.now_ms, &w.sa);
	assert_int_equal(w.sa.event, CM_EV_NONE);
	m.qpn = 0x41;
	m.local_id = 0xc;
	cm_fsm_rx(&w.a, &m, w.now_ms, &w.sa);
	assert_int_equal(w.sa.event, CM_EV_NONE);
	m.local_id = 0xb;
	cm_fsm_rx(&w.a, &m, w.now_ms, &w.sa);
	assert_int_equal(w.sa.event, CM_EV_DISCONNECTED);
}

static void test_reject(void **state)
{
	uint8_t priv[CM_PRIV_BYTES] = "because";
	struct pair w;

	(void)state;
	begin(&w);
	assert_int_equal(cm_fsm_reject(&w.p, CM_REJ_CONSUMER, priv, w.now_ms, &w.sp), 0);
	assert_int_equal(w.sp.msg.answers, CM_ANSWERS_REQ);
	assert_string_equal((char *)carried(&w.sp).priv, "because");
	to_a(&w);
	assert_int_equal(w.sa.event, CM_EV_REJECTED);
	assert_int_equal(w.sa.status, CM_REJ_CONSUMER);
	to_a(&w);
	assert_int_equal(w.sa.event, CM_EV_NONE); /* twice */
	assert_int_equal(cm_fsm_reject(&w.p, CM_REJ_CONSUMER, NULL, w.now_ms, &w.sp), -EINVAL);
}

/* Whoever closes says so once. */
static void test_close(void **state)
{
	struct pair w;

	(void)state;
	establish(&w);
	cm_fsm_close(&w.a, w.now_ms, &w.sa);
	assert_int_equal(w.sa.msg.attr, CM_DREQ);
	assert_int_equal(w.sa.msg.qpn, 0x52);
	assert_int_equal(w.a.state, CM_TIMEWAIT);
	begin(&w);
	cm_fsm_close(&w.p, w.now_ms, &w.sp);
	assert_int_equal(w.sp.msg.attr, CM_REJ);
	assert_int_equal(w.sp.msg.reason, CM_REJ_CONSUMER);
	cm_fsm_close(&w.a, w.now_ms, &w.sa);
	assert_int_equal(w.sa.msg.reason, CM_REJ_TIMEOUT);
	assert_int_equal(carried(&w.sa).guid[0], 1); /* by which the peer finds it */
	assert_int_equal(w.a.state, CM_IDLE);
	cm_fsm_close(&w.a, w.now_ms, &w.sa);
	assert_false(w.sa.sends);
}

static void test_datagram_service(void **state)
{
	const struct cm_msg ask = {.service_id = 2}, yes = {.qpn = 0x60, .qkey = 7};
	struct pair w = {.a = fsm_new(0xa), .p = fsm_new(0xb)};
	struct cm_msg m;

	(void)state;
	assert_int_equal(cm_fsm_sidr_ask(&w.a, &ask, 0, &w.sa), 0);
	tick(&w.a, &w, REP_MS, &w.sa);
	m = carried(&w.sa);
	assert_int_equal(m.attr, CM_SIDR_REQ);
	cm_fsm_accept_req(&w.p, &m);
	assert_int_equal(cm_fsm_sidr_answer(&w.p, &yes, &w.sp), 0);
	m = carried(&w.sp);
	assert_int_equal(m.local_id, w.a.local_id);
	assert_int_equal(m.service_id, 2);
	to_a(&w);
	assert_int_equal(w.sa.event, CM_EV_ESTABLISHED);
	to_a(&w);
	assert_int_equal(w.sa.event, CM_EV_NONE);
	assert_int_equal(cm_fsm_sidr_answer(&w.p, &yes, &w.sp), -EINVAL);
}

static void test_ack_timeouts(void **state)
{
	(void)state;
	assert_int_equal(cm_ack_timeout(16, 16), 18);
	assert_int_equal(cm_ack_timeout(15, 16), 17);
	assert_int_equal(cm_ack_timeout(18, 16), 19);
	assert_int_equal(cm_ack_timeout(31, 31), 31);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_cross),
		cmocka_unit_test(test_request_is_repeated),
		cmocka_unit_test(test_mra_extends_the_wait),
		cmocka_unit_test(test_reply_is_repeated),
		cmocka_unit_test(test_reply_gives_up),
		cmocka_unit_test(test_data_before_the_rtu),
		cmocka_unit_test(test_disconnect),
		cmocka_unit_test(test_dreq_in_timewait),
		cmocka_unit_test(test_dreq_without_answer),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_reject),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_datagram_service),
		cmocka_unit_test(test_ack_timeouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
