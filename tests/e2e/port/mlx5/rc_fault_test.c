/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Every fault that the software ConnectX knows, while messages flow over RC: trouble of a frame is
 * recovered by the transport and goes unnoticed; trouble of a QP, a CQ, a key or a link is an
 * event. Afterwards messages flow without a restart to every peer, and port_kit counts every slot
 * and both sides of every number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_log.h"
#include "port/mlx5/rc/rc.h"
#include "rc_kit.h"

#define FLOW  1500u /* echoes before and after */
#define PEERS 3u

static struct kit_run run;

/* send, write, and send into shared receives. */
static const struct {
	const char *op;
	bool srq;
} modes[] = {{"send", false}, {"write", false}, {"send", true}};

static void open_mode(unsigned mode, const char *extra)
{
	struct rc_kit k = {.queues = 1,
			   .peers = PEERS,
			   .op = modes[mode].op,
			   .srq = modes[mode].srq,
			   .profile = "latency",
			   .extra = extra};

	rc_kit_open(&run, &k);
	run.window = 48;
	kit_pump(&run, FLOW);
}

/* For trouble that the transport gets over, however long a NIC's thread waits for a core. */
static void open_patient(unsigned mode)
{
	open_mode(mode, ",timeout=14");
}

/* For trouble that costs connections, and messages with them: all that are under way, perhaps. */
static void open_lossy(unsigned mode)
{
	open_mode(mode, ",timeout=11");
	run.lossy = true;
}

static struct mlx5_rc_queue_ctl *queue(struct kit_port *p)
{
	return &mlx5_rc_of(p->port)->queue[0];
}

static uint32_t peers_up(const struct kit_port *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < PEERS; i++)
		n += mlx5_rc_peer_at(&mlx5_rc_of(p->port)->queue[0].q, i)->rc.side ==
		     SPW_PEER_SIDE_UP;
	return n;
}

static bool all_there(struct kit_run *r, void *arg)
{
	(void)arg;
	return peers_up(&r->a) == PEERS && peers_up(&r->b) == PEERS;
}

static bool is_back(struct kit_run *r, void *arg)
{
	return r->b.events.cnt[SPW_PORT_EVENT_PEER_UP] > *(uint32_t *)arg && all_there(r, NULL);
}

/* Every peer is up and gets messages. */
static void check_alive(void)
{
	uint64_t got[PEERS];

	kit_pump_until(&run, all_there, NULL);
	for (uint32_t i = 0; i < PEERS; i++)
		got[i] = mlx5_rc_peer_at(&queue(&run.b)->q, i)->rc.rx.received;
	kit_pump(&run, FLOW);
	for (uint32_t i = 0; i < PEERS; i++)
		assert_true(mlx5_rc_peer_at(&queue(&run.b)->q, i)->rc.rx.received > got[i]);
	assert_int_equal(run.bad, 0);
	assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_DEVICE_GONE], 0);
	kit_close(&run);
}

/* At least one peer more went and came. */
static void check_recovered(uint32_t up_before)
{
	kit_pump_until(&run, is_back, &up_before);
	check_alive();
}

/* ---- frames ---- */

/* Nothing is lost, doubled or damaged, and no QP goes down. */
static void test_frames_in_trouble(void **state)
{
	static const char *const fault[] = {"loss=0.02", "dup=0.05", "reorder=0.02", "corrupt=0.02",
					    "delay=0.05:200us"};
	static const char *const off = "fault loss=0,dup=0,reorder=0,corrupt=0,delay=0:0s";

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(fault); i++)
		for (unsigned mode = 0; mode < 2; mode++) {
			open_patient(mode);
			kit_control(0, "fault %s", fault[i]);
			kit_control(1, "fault %s", fault[i]);
			kit_pump(&run, FLOW);
			kit_control(0, "%s", off);
			kit_control(1, "%s", off);
			kit_pump(&run, FLOW);
			rc_kit_check_clean(&run);
			kit_close(&run);
		}
}

/* Shorter than what the transport goes on trying: messages wait, none is lost. */
static void test_no_receive_for_a_while(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < SPW_ARRAY_CNT(modes); mode++) {
		open_patient(mode);
		kit_control(1, "rnr=100ms");
		kit_pump(&run, FLOW);
		rc_kit_check_clean(&run);
		kit_close(&run);
	}
}

/* ---- links and QPs ---- */

static bool link_came_back(struct kit_run *r, void *arg)
{
	(void)arg;
	return r->b.events.cnt[SPW_PORT_EVENT_LINK_DOWN] == 1 &&
	       r->b.events.cnt[SPW_PORT_EVENT_LINK_UP] == 2;
}

/* Short: the transport gets over it. Long: the peers are lost, and come back by themselves. */
static void test_link_down_and_up(void **state)
{
	static const char *const time[] = {"20ms", "500ms"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_lossy(i);
		kit_control(1, "link-down=%s", time[i]);
		kit_pump_until(&run, link_came_back, NULL);
		check_alive();
	}
}

/* The peer of b that came back is the one that went, and, unless it is PEERS, that number. An end
 * counts its peers in the order in which they proved themselves: a's number of one says nothing. */
static void check_same_peer(uint32_t peer)
{
	const char *up = strstr(run.b.events.up, "peer "),
		   *down = strstr(run.b.events.down, "peer ");
	uint32_t number;

	assert_non_null(up);
	assert_non_null(down);
	number = (uint32_t)strtoul(up + 5, NULL, 10);
	assert_int_equal(strtoul(down + 5, NULL, 10), number);
	if (peer < PEERS)
		assert_int_equal(number, peer);
}

/* A QP of either end fails: that peer is lost and comes back, the others do not notice. */
static void test_qp_error(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < SPW_ARRAY_CNT(modes); mode++)
		for (uint32_t end = 0; end < 2; end++) {
			struct spw_port_stat stat;

			open_lossy(mode);
			uint32_t up = run.b.events.cnt[SPW_PORT_EVENT_PEER_UP];
			struct kit_port *p = end ? &run.b : &run.a;

			kit_control(end, "qp-error=%u", mlx5_rc_peer_at(&queue(p)->q, 1)->qpn);
			kit_pump_until(&run, is_back, &up);
			spw_port_stat(p->port, &stat);
			assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_PEER_UP],
					 up + 1); /* of that peer alone */
			assert_int_equal(stat.err[SPW_PORT_ERR_queue_reset], 1);
			check_same_peer(end ? 1 : PEERS);
			assert_non_null(strstr(run.b.events.up, "is back after "));
			check_recovered(up);
		}
}

/* A QP that failed and flushes nothing: after a while its peer is given up all the same, and it is
 * back. */
static void test_no_flush(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < SPW_ARRAY_CNT(modes); mode++) {
		open_lossy(mode);
		uint32_t up = run.b.events.cnt[SPW_PORT_EVENT_PEER_UP];

		kit_control(1, "fault flush=none");
		kit_control(1, "qp-error=%u", mlx5_rc_peer_at(&queue(&run.b)->q, 1)->qpn);
		kit_pump_until(&run, is_back, &up);
		kit_control(1, "fault flush=plain");
		check_same_peer(1);
		check_recovered(up);
	}
}

/* b gives its peers their turns, and polls nothing. */
static void turns_without_polling(double seconds)
{
	for (double start = kit_seconds(); kit_seconds() - start < seconds; usleep(1000)) {
		kit_turn_a(&run);
		kit_events(&run.b);
	}
}

/* An lcore that does not poll for longer than a device may take to flush: the flush waits in the
 * CQ, and the QP is not reset before it is read. (With an SRQ receives are not flushed.) */
static void test_flush_is_read_late(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 2; mode++) {
		struct mlx5_rc_queue *q;
		struct spw_port_stat stat;

		open_lossy(mode);
		uint32_t up = run.b.events.cnt[SPW_PORT_EVENT_PEER_UP];

		q = &queue(&run.b)->q;
		kit_control(1, "qp-error=%u", mlx5_rc_peer_at(q, 1)->qpn);
		for (double start = kit_seconds();
		     !mlx5_rc_has_unread(&q->rc, &mlx5_rc_peer_at(q, 1)->rc);)
			assert_true(kit_seconds() - start < KIT_WAIT_S);
		turns_without_polling(0.5);
		spw_port_stat(run.b.port, &stat);
		assert_int_equal(stat.err[SPW_PORT_ERR_queue_reset], 0);
		check_recovered(up);
	}
}

/* Every completion queue of b in turn. */
static void test_cq_overrun(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < SPW_ARRAY_CNT(modes); mode++)
		for (unsigned which = 0; which < 2; which++) {
			struct mlx5dv_cq dv = {0};
			struct mlx5dv_obj obj = {.cq = {.out = &dv}};

			open_lossy(mode);
			uint32_t up = run.b.events.cnt[SPW_PORT_EVENT_PEER_UP];

			obj.cq.in = ibv_cq_ex_to_cq(which ? queue(&run.b)->obj->tx_cq
							  : queue(&run.b)->obj->cq);
			assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
			kit_control(1, "cq-overrun=%u", dv.cqn);
			check_recovered(up + PEERS - 1);
		}
}

static bool logged_refused;

/* A port's last words: how many error completions it had, by kind. */
static void hear(enum spw_log_level level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	logged_refused |= strstr(text, "error completions: ") &&
			  strstr(text, spw_prm_syndrome_text(SPW_PRM_SYN_LOCAL_PROT_ERR));
}

/* Every key of b in turn: whatever it was for, it is registered anew when it is needed. */
static void test_mr_revoke(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < SPW_ARRAY_CNT(modes); mode++)
		for (unsigned nth = 0;; nth++) {
			char *key;

			open_lossy(mode);
			key = strstr(kit_control(1, "objects"), " mr=");
			assert_non_null(key);
			key += 3;
			for (unsigned i = 0; i < nth && key; i++)
				key = strchr(key + 1, ',');
			if (!key) {
				kit_close(&run);
				break;
			}
			kit_control(1, "mr-revoke=%lu", strtoul(key + 1, NULL, 10));
			kit_pump(&run, FLOW);
			check_alive();
		}
	assert_true(logged_refused);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_in_trouble),
		cmocka_unit_test(test_no_receive_for_a_while),
		cmocka_unit_test(test_link_down_and_up),
		cmocka_unit_test(test_qp_error),
		cmocka_unit_test(test_no_flush),
		cmocka_unit_test(test_flush_is_read_late),
		cmocka_unit_test(test_cq_overrun),
		cmocka_unit_test(test_mr_revoke),
	};

	spw_log_sink_set(hear, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
