/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A peer that knows the secret and then misbehaves: plain verbs and the real exchange on its side.
 * Each time the server must notice, end that connection and no other, get all slots back and take
 * the next one; a good peer's traffic goes on meanwhile.
 */
#include <stdio.h>
#include <string.h>

#include "peer/spw_peer_credit.h"
#include "rogue.h"

/* ---- what it does ---- */

static struct rogue *victim; /* another peer, whose keys are known */

static void send_beyond_credits(struct rogue *r)
{
	for (uint32_t i = 0; i < ROGUE_CREDITS + 4; i++)
		rogue_post(r, IBV_WR_SEND, 16, 0, 0, 0);
}

static void send_too_long(struct rogue *r)
{
	rogue_post(r, IBV_WR_SEND, 2 * ROGUE_SLOT, 0, 0, 0);
}

static void send_nothing(struct rogue *r)
{
	rogue_post(r, IBV_WR_SEND, 0, 0, 0, 0);
}

static void greet_again(struct rogue *r)
{
	rogue_post(r, IBV_WR_SEND_WITH_IMM, 0, ROGUE_CREDITS, 0, 0);
}

static void claim_credits(struct rogue *r)
{
	rogue_post(r, IBV_WR_SEND_WITH_IMM, 0, ROGUE_CREDITS + 1, 0, 0);
}

static void claim_many_credits(struct rogue *r)
{
	rogue_post(r, IBV_WR_SEND_WITH_IMM, 0, 0x80000000u, 0, 0);
}

static void write_without_right(struct rogue *r)
{
	rogue_post(r, IBV_WR_RDMA_WRITE, 16, 0, 0x1000, 0x100);
}

static void write_a_slot_twice(struct rogue *r)
{
	for (uint32_t i = 0; i < 2; i++)
		rogue_write_slot(r, 3, 3, 16);
}

static void write_wrong_immediate(struct rogue *r)
{
	rogue_write_slot(r, 0, ROGUE_CREDITS, 16);
}

static void write_huge_immediate(struct rogue *r)
{
	rogue_write_slot(r, 0, 0xffffffff, 16);
}

static void write_across_slots(struct rogue *r)
{
	rogue_write_slot(r, 0, 0, 2 * ROGUE_SLOT);
}

static void write_nothing(struct rogue *r)
{
	rogue_write_slot(r, 0, 0, 0);
}

static void write_beyond_its_slots(struct rogue *r)
{
	rogue_write_slot(r, ROGUE_CREDITS, 0, 16);
}

static void write_to_another_peer(struct rogue *r)
{
	rogue_post(r, IBV_WR_RDMA_WRITE_WITH_IMM, 16, 0, victim->x.theirs.slot_addr,
		   victim->x.theirs.slot_rkey);
}

static void write_to_another_ring(struct rogue *r)
{
	rogue_post(r, IBV_WR_RDMA_WRITE, 16, 0, victim->x.theirs.ring_addr,
		   victim->x.theirs.ring_rkey);
}

static void send_where_writes_belong(struct rogue *r)
{
	rogue_post(r, IBV_WR_SEND, 16, 0, 0, 0);
}

/* The entry of our ring where the server grants the first slot again; NOT_GRANTED until it does. */
#define NOT_GRANTED UINT32_MAX

static uint32_t *granted_again(void)
{
	return (uint32_t *)(rogue_buf + 60 * ROGUE_SLOT) + ROGUE_CREDITS;
}

/* The server has sent W echoes by then and takes the next slot number from its ring: ours is no
 * slot. */
static void grant_a_slot_that_is_none(struct rogue *r)
{
	spw_be32 *n = (spw_be32 *)rogue_buf;

	for (uint32_t i = 0; i < ROGUE_CREDITS; i++)
		n[i] = spw_cpu_to_be32(ROGUE_CREDITS + i);
	rogue_post(r, IBV_WR_RDMA_WRITE, 4 * ROGUE_CREDITS, 0,
		   r->x.theirs.ring_addr + 4 * ROGUE_CREDITS, r->x.theirs.ring_rkey);
	for (uint32_t i = 0; i < ROGUE_CREDITS; i++)
		rogue_write_slot(r, i, i, 16);
}

static void grant_and_go_on(struct rogue *r)
{
	rogue_post(r, IBV_WR_SEND_WITH_IMM, 0, 2 * ROGUE_CREDITS, 0, 0);
	rogue_write_slot(r, ntohl(*granted_again()), 0, 16);
}

struct crime {
	const char *name;
	void (*commit)(struct rogue *r);
	bool only_gone; /* the device of the server may say no more than that the QP failed */
	bool held; /* the server gives nothing back meanwhile, no credit either, and the good peer
		      is silent */
};

static const struct crime send_crime[] = {
	{"sends beyond its credits", send_beyond_credits, false, true},
	{"sends more than a slot holds", send_too_long, false, false},
	{"sends nothing", send_nothing, false, false},
	{"greets twice", greet_again, false, false},
	{"claims a credit", claim_credits, false, false},
	{"claims many credits", claim_many_credits, false, false},
	{"writes without a right", write_without_right, true, false},
};
static const struct crime write_crime[] = {
	{"writes a slot twice", write_a_slot_twice, false, false},
	{"names a slot that is none", write_wrong_immediate, false, false},
	{"names a slot far away", write_huge_immediate, false, false},
	{"writes across slots", write_across_slots, false, false},
	{"writes nothing", write_nothing, false, false},
	{"writes beyond its slots", write_beyond_its_slots, true, false},
	{"writes to another peer's slot", write_to_another_peer, true, false},
	{"writes to another peer's ring", write_to_another_ring, true, false},
	{"sends in op=write", send_where_writes_belong, false, false},
	{"claims a credit", claim_credits, false, false},
};

struct wait {
	struct kit_end *server;
	uint32_t down;
};

static bool noticed(struct kit_end *const *end SPW_UNUSED, uint32_t cnt SPW_UNUSED, const void *arg)
{
	const struct wait *w = arg;

	return w->server->down >= w->down;
}

static void no_trace(const uint8_t *at)
{
	for (uint32_t i = 0; i < 16; i++)
		assert_true(at[i] != 0xee);
}

static void one_crime(const struct crime *c, struct kit_end *const *end, uint16_t port,
		      enum spw_peer_op op)
{
	struct spw_port_stat was, is;
	struct wait w = {.server = end[0], .down = end[0]->down + 1};
	struct rogue r;

	print_message("   a peer %s\n", c->name);
	memset(rogue_buf, 0xee, 4 * ROGUE_SLOT);
	kit_stat(end[0], &was);
	rogue_open(&r, end, port, op);
	if (c->held)
		kit_settle(end, 2);
	end[0]->hold = c->held;
	c->commit(&r);
	kit_until(end, 2, !c->held, noticed, &w, c->name);
	end[0]->hold = false;
	kit_let_go(end[0]);
	kit_stat(end[0], &is);
	if (!c->only_gone)
		assert_int_equal(is.err[SPW_PORT_ERR_protocol], was.err[SPW_PORT_ERR_protocol] + 1);
	assert_int_equal(is.err[SPW_PORT_ERR_protocol] + is.err[SPW_PORT_ERR_peer_gone],
			 was.err[SPW_PORT_ERR_protocol] + was.err[SPW_PORT_ERR_peer_gone] + 1);
	rogue_close(&r);
	kit_pump(end, 2, 50);
	assert_int_equal(end[1]->down, 0);
}

static void all_crimes(enum spw_peer_op op, const char *srq, const struct crime *crime,
		       uint32_t cnt)
{
	char server_keys[128], client_keys[64];
	struct kit_end server, good, *end[] = {&server, &good};
	struct kit_end_conf conf = {.keys = server_keys, .slots = 96, .slot_bytes = ROGUE_SLOT};
	uint16_t port = kit_free_port();
	struct rogue other;

	snprintf(server_keys, sizeof(server_keys),
		 "peers=127.0.0.1,peer_max=3,credits=%u,mtu=1024,op=%s%s", ROGUE_CREDITS,
		 op == SPW_PEER_OP_SEND ? "send" : "write", srq);
	snprintf(client_keys, sizeof(client_keys), "mtu=1024,op=%s",
		 op == SPW_PEER_OP_SEND ? "send" : "write");
	kit_server(&server, port, &conf);
	conf.keys = client_keys;
	kit_client(&good, port, &conf);
	good.bytes_max = ROGUE_SLOT;
	kit_pump(end, 2, 50);
	rogue_open(&other, end, port, op);
	victim = &other;
	for (uint32_t i = 0; i < cnt; i++)
		one_crime(&crime[i], end, port, op);
	if (op == SPW_PEER_OP_WRITE) /* the victim's slot, seen from here: the server is in this
					process */
		no_trace((const uint8_t *)(uintptr_t)other.x.theirs.slot_addr);
	rogue_close(&other);
	kit_settle(end, 2);
	kit_close(&good);
	kit_close(&server);
}

static void hostile_sender(void **state SPW_UNUSED)
{
	all_crimes(SPW_PEER_OP_SEND, "", send_crime, SPW_ARRAY_CNT(send_crime));
}

static void hostile_sender_on_a_shared_queue(void **state SPW_UNUSED)
{
	all_crimes(SPW_PEER_OP_SEND, ",srq=1", send_crime, SPW_ARRAY_CNT(send_crime));
}

static void hostile_writer(void **state SPW_UNUSED)
{
	all_crimes(SPW_PEER_OP_WRITE, "", write_crime, SPW_ARRAY_CNT(write_crime));
}

static void hostile_writer_on_a_shared_queue(void **state SPW_UNUSED)
{
	all_crimes(SPW_PEER_OP_WRITE, ",srq=1", write_crime, SPW_ARRAY_CNT(write_crime));
}

/* All echoes, and a slot to write to again: that one returns later. */
static bool echoes_came(struct kit_end *const *end SPW_UNUSED, uint32_t cnt SPW_UNUSED,
			const void *arg)
{
	struct rogue *r = (struct rogue *)(uintptr_t)arg;
	static uint32_t seen;
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(r->cq, 16, wc);

	for (int i = 0; i < n; i++)
		seen += wc[i].status == IBV_WC_SUCCESS && wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	return seen >= ROGUE_CREDITS && spw_dma_load(granted_again()) != NOT_GRANTED;
}

/* It takes part until the server needs a slot that it grants, and then names one that it does not
 * have. */
static void hostile_granter(void **state SPW_UNUSED)
{
	struct kit_end server, good, *end[] = {&server, &good};
	struct kit_end_conf conf = {
		.keys = "peers=127.0.0.1,peer_max=2,credits=8,mtu=1024,op=write",
		.slots = 96,
		.slot_bytes = ROGUE_SLOT};
	struct wait w = {.server = &server, .down = 1};
	uint16_t port = kit_free_port();
	struct rogue r;

	kit_server(&server, port, &conf);
	conf.keys = "mtu=1024,op=write";
	kit_client(&good, port, &conf);
	good.bytes_max = ROGUE_SLOT;
	kit_pump(end, 2, 50);
	rogue_open(&r, end, port, SPW_PEER_OP_WRITE);
	*granted_again() = NOT_GRANTED;
	grant_a_slot_that_is_none(&r);
	kit_until(end, 2, true, echoes_came, &r, "the first echoes");
	grant_and_go_on(&r);
	kit_until(end, 2, true, noticed, &w, "a slot that is none");
	if (!strstr(server.text, "protocol"))
		fail_msg("the server said: %s", server.text);
	rogue_close(&r);
	kit_pump(end, 2, 50);
	kit_settle(end, 2);
	kit_close(&good);
	kit_close(&server);
}

static bool echo_came(struct kit_end *const *end SPW_UNUSED, uint32_t cnt SPW_UNUSED,
		      const void *arg)
{
	struct rogue *r = (struct rogue *)(uintptr_t)arg;
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(r->cq, 16, wc);

	for (int i = 0; i < n; i++)
		if (wc[i].status == IBV_WC_SUCCESS && wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			return true;
	return false;
}

/* Writes its slot 0, names slot 3, and gets that echoed to the start of its own slots. */
static const uint8_t *read_by_echo(struct rogue *r, struct kit_end *const *end)
{
	rogue_write_slot(r, 0, 3, 16);
	kit_until(end, 2, true, echo_came, r, "the echo of a slot that was not written");
	return rogue_buf + 40 * ROGUE_SLOT;
}

/* Peer 1 is one rogue after the other: the second may read what it likes, and finds nothing of the
 * first. */
static void who_takes_over_finds_nothing(void **state SPW_UNUSED)
{
	static const char *const range[] = {"credits=8", "credits=8,srq=1"};
	struct kit_end server, good, *end[] = {&server, &good};

	for (size_t i = 0; i < SPW_ARRAY_CNT(range); i++) {
		char keys[128];
		struct kit_end_conf conf = {.keys = keys, .slots = 96, .slot_bytes = ROGUE_SLOT};
		uint16_t port = kit_free_port();
		struct wait w = {.server = &server, .down = 1};
		struct rogue r;

		snprintf(keys, sizeof(keys), "peers=127.0.0.1,peer_max=2,mtu=1024,op=write,%s",
			 range[i]);
		kit_server(&server, port, &conf);
		conf.keys = "mtu=1024,op=write";
		kit_client(&good, port, &conf);
		good.bytes_max = ROGUE_SLOT;
		kit_pump(end, 2, 50);
		memset(rogue_buf, 0xee, ROGUE_SLOT);
		rogue_open(&r, end, port, SPW_PEER_OP_WRITE);
		rogue_post(&r, IBV_WR_RDMA_WRITE, 16, 0, r.x.theirs.slot_addr + 3ull * ROGUE_SLOT,
			   r.x.theirs.slot_rkey);
		assert_int_equal(read_by_echo(&r, end)[0], 0xee); /* it can read its own */
		rogue_close(&r);
		kit_until(end, 2, true, noticed, &w, "the first one's end");
		memset(rogue_buf, 0x11, ROGUE_SLOT);
		memset(rogue_buf + 40 * ROGUE_SLOT, 0x55, ROGUE_SLOT);
		rogue_open(&r, end, port, SPW_PEER_OP_WRITE);
		assert_int_equal(read_by_echo(&r, end)[0], 0);
		no_trace(rogue_buf + 40 * ROGUE_SLOT);
		rogue_close(&r);
		kit_settle(end, 2);
		kit_close(&good);
		kit_close(&server);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_sender),
		cmocka_unit_test(hostile_sender_on_a_shared_queue),
		cmocka_unit_test(hostile_writer),
		cmocka_unit_test(hostile_writer_on_a_shared_queue),
		cmocka_unit_test(hostile_granter),
		cmocka_unit_test(who_takes_over_finds_nothing),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, rogue_dev_open, rogue_dev_close);
}
