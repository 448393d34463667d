/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A peer that knows the secret and then misbehaves: plain verbs and the real exchange on its side. Each time the server must
 * notice, end that connection and no other, get all slots back and take the next one; a good peer's traffic goes on meanwhile.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "port/rdma/rc_credit.h"
#include "port/rdma/rc_exchange.h"
#include "port/rdma/rdma_dev.h"
#include "rc_kit.h"

#define CREDITS   8u
#define SLOT      1024u
#define BUF_BYTES (64u * SLOT)

struct rogue {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct rc_exchange x;
	struct rc_params ours;
	int fd;
};

static struct rdma_dev dev;
static struct rdma_gid gid;
static uint8_t *buf;
static struct ibv_mr *mr;
static const struct rc_secret no_secret;

static int dev_open(void **state SPW_UNUSED)
{
	buf = aligned_alloc(4096, BUF_BYTES);
	assert_int_equal(rdma_dev_open("mlx5_0", 1, &dev), 0);
	assert_int_equal(rdma_dev_gid(&dev, NULL, &gid), 0);
	assert_int_equal(rdma_mr_reg_bytes(&dev, dev.pd, buf, BUF_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &mr), 0);
	return 0;
}

static int dev_close(void **state SPW_UNUSED)
{
	ibv_dereg_mr(mr);
	rdma_dev_close(&dev);
	free(buf);
	return 0;
}

/* ---- a rogue ---------------------------------------------------------------------------------------- */

static int tcp_connect(uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static void qp_make(struct rogue *r)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1,
								      .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	r->cq = ibv_create_cq(dev.ctx, 512, NULL, NULL, 0);
	assert_non_null(r->cq);
	init.send_cq = init.recv_cq = r->cq;
	r->qp = ibv_create_qp(dev.pd, &init);
	assert_non_null(r->qp);
	assert_int_equal(ibv_modify_qp(r->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	for (int i = 0; i < 64; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)buf + 32 * SLOT, .length = SLOT, .lkey = mr->lkey};
		struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

		assert_int_equal(ibv_post_recv(r->qp, &wr, &bad), 0);
	}
}

static void qp_ready(struct rogue *r)
{
	const struct rc_params *to = &r->x.theirs;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->qpn, .rq_psn = to->psn, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid.index, .hop_limit = 64}},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, to->gid, 16);
	assert_int_equal(ibv_modify_qp(r->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = r->ours.psn,
				    .max_rd_atomic = 1};
	assert_int_equal(ibv_modify_qp(r->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static bool agreed(struct kit_end *const *end SPW_UNUSED, uint32_t cnt SPW_UNUSED, const void *arg)
{
	struct rogue *r = (struct rogue *)(uintptr_t)arg;

	switch (rc_exchange_step(&r->x, 0)) {
	case RC_TURN_TO_OFFER: rc_exchange_offer(&r->x, &r->ours); break;
	case RC_TURN_TO_READY:
		qp_ready(r);
		rc_exchange_ready(&r->x);
		break;
	case RC_TURN_FAILED: fail_msg("the rogue was refused: %s", rc_refused_name(r->x.why)); break;
	default: break;
	}
	return r->x.turn == RC_TURN_DONE;
}

static void rogue_open(struct rogue *r, struct kit_end *const *end, uint16_t port, enum rc_op op)
{
	memset(r, 0, sizeof(*r));
	qp_make(r);
	r->ours = (struct rc_params){.qpn = r->qp->qp_num, .psn = 77, .mtu = 1024, .op = (uint8_t)op, .credit_cnt = CREDITS,
				     .slot_bytes = SLOT};
	memcpy(r->ours.gid, gid.gid.raw, 16);
	if (op == RC_OP_WRITE) {
		r->ours.slot_stride = SLOT;
		r->ours.slot_rkey = r->ours.ring_rkey = mr->rkey;
		r->ours.slot_addr = (uintptr_t)buf + 40 * SLOT;
		r->ours.ring_addr = (uintptr_t)buf + 60 * SLOT;
		r->ours.ring_cnt = 1024;
	}
	r->fd = tcp_connect(port);
	rc_exchange_client(&r->x, r->fd, &no_secret, UINT64_MAX);
	kit_until(end, 2, true, agreed, r, "the rogue's exchange");
}

static void rogue_close(struct rogue *r)
{
	close(r->fd);
	ibv_destroy_qp(r->qp);
	ibv_destroy_cq(r->cq);
}

static void post(struct rogue *r, enum ibv_wr_opcode op, uint32_t len, uint32_t imm, uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = len, .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = len ? 1 : 0, .opcode = op, .imm_data = htonl(imm),
				       .wr.rdma = {.remote_addr = raddr, .rkey = rkey}};

	assert_int_equal(ibv_post_send(r->qp, &wr, &bad), 0);
}

static void write_slot(struct rogue *r, uint32_t slot, uint32_t imm, uint32_t len)
{
	const struct rc_params *to = &r->x.theirs;

	post(r, IBV_WR_RDMA_WRITE_WITH_IMM, len, imm, to->slot_addr + (uint64_t)slot * to->slot_stride, to->slot_rkey);
}

/* ---- what it does ------------------------------------------------------------------------------------ */

static struct rogue *victim; /* another peer, whose keys are known */

static void send_beyond_credits(struct rogue *r)
{
	for (uint32_t i = 0; i < CREDITS + 4; i++)
		post(r, IBV_WR_SEND, 16, 0, 0, 0);
}

static void send_too_long(struct rogue *r)
{
	post(r, IBV_WR_SEND, 2 * SLOT, 0, 0, 0);
}

static void send_nothing(struct rogue *r)
{
	post(r, IBV_WR_SEND, 0, 0, 0, 0);
}

static void claim_credits(struct rogue *r)
{
	post(r, IBV_WR_SEND_WITH_IMM, 0, CREDITS + 1, 0, 0);
}

static void claim_many_credits(struct rogue *r)
{
	post(r, IBV_WR_SEND_WITH_IMM, 0, 0x80000000u, 0, 0);
}

static void write_without_right(struct rogue *r)
{
	post(r, IBV_WR_RDMA_WRITE, 16, 0, 0x1000, 0x100);
}

static void write_a_slot_twice(struct rogue *r)
{
	for (uint32_t i = 0; i < 2; i++)
		write_slot(r, 3, 3, 16);
}

static void write_wrong_immediate(struct rogue *r)
{
	write_slot(r, 0, CREDITS, 16);
}

static void write_huge_immediate(struct rogue *r)
{
	write_slot(r, 0, 0xffffffff, 16);
}

static void write_across_slots(struct rogue *r)
{
	write_slot(r, 0, 0, 2 * SLOT);
}

static void write_nothing(struct rogue *r)
{
	write_slot(r, 0, 0, 0);
}

static void write_beyond_its_slots(struct rogue *r)
{
	write_slot(r, CREDITS, 0, 16);
}

static void write_to_another_peer(struct rogue *r)
{
	post(r, IBV_WR_RDMA_WRITE_WITH_IMM, 16, 0, victim->x.theirs.slot_addr, victim->x.theirs.slot_rkey);
}

static void write_to_another_ring(struct rogue *r)
{
	post(r, IBV_WR_RDMA_WRITE, 16, 0, victim->x.theirs.ring_addr, victim->x.theirs.ring_rkey);
}

static void send_where_writes_belong(struct rogue *r)
{
	post(r, IBV_WR_SEND, 16, 0, 0, 0);
}

/* The server has sent W echoes by then and takes the next slot number from its ring: ours is no slot. */
static void grant_a_slot_that_is_none(struct rogue *r)
{
	spw_be32 *n = (spw_be32 *)buf;

	for (uint32_t i = 0; i < CREDITS; i++)
		n[i] = spw_cpu_to_be32(CREDITS + i);
	post(r, IBV_WR_RDMA_WRITE, 4 * CREDITS, 0, r->x.theirs.ring_addr + 4 * CREDITS, r->x.theirs.ring_rkey);
	for (uint32_t i = 0; i < CREDITS; i++)
		write_slot(r, i, i, 16);
}

static void grant_and_go_on(struct rogue *r)
{
	post(r, IBV_WR_SEND_WITH_IMM, 0, 2 * CREDITS, 0, 0);
	write_slot(r, spw_be32_to_cpu(*(spw_be32 *)(buf + 60 * SLOT + 4 * CREDITS)), 0, 16);
}

struct crime {
	const char *name;
	void (*commit)(struct rogue *r);
	bool only_gone; /* the device of the server may say no more than that the QP failed */
	bool held;      /* the server gives nothing back meanwhile, no credit either, and the good peer is silent */
};

static const struct crime send_crime[] = {
	{"sends beyond its credits", send_beyond_credits, false, true},
	{"sends more than a slot holds", send_too_long, false, false},
	{"sends nothing", send_nothing, false, false},
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

static void one_crime(const struct crime *c, struct kit_end *const *end, uint16_t port, enum rc_op op)
{
	struct spw_port_stat was, is;
	struct wait w = {.server = end[0], .down = end[0]->down + 1};
	struct rogue r;

	print_message("   a peer %s\n", c->name);
	memset(buf, 0xee, 4 * SLOT);
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

static void all_crimes(enum rc_op op, const char *srq, const struct crime *crime, uint32_t cnt)
{
	char server_keys[128], client_keys[64];
	struct kit_end server, good, *end[] = {&server, &good};
	struct kit_end_conf conf = {.keys = server_keys, .slots = 96, .slot_bytes = SLOT};
	uint16_t port = kit_free_port();
	struct rogue other;

	snprintf(server_keys, sizeof(server_keys), "peers=127.0.0.1,peer_max=3,credits=%u,mtu=1024,op=%s%s", CREDITS,
		 op == RC_OP_SEND ? "send" : "write", srq);
	snprintf(client_keys, sizeof(client_keys), "mtu=1024,op=%s", op == RC_OP_SEND ? "send" : "write");
	kit_server(&server, port, &conf);
	conf.keys = client_keys;
	kit_client(&good, port, &conf);
	good.bytes_max = SLOT;
	kit_pump(end, 2, 50);
	rogue_open(&other, end, port, op);
	victim = &other;
	for (uint32_t i = 0; i < cnt; i++)
		one_crime(&crime[i], end, port, op);
	if (op == RC_OP_WRITE) /* the victim's slot, seen from here: the server is in this process */
		no_trace((const uint8_t *)(uintptr_t)other.x.theirs.slot_addr);
	rogue_close(&other);
	kit_settle(end, 2);
	kit_close(&good);
	kit_close(&server);
}

static void hostile_sender(void **state SPW_UNUSED)
{
	all_crimes(RC_OP_SEND, "", send_crime, SPW_ARRAY_CNT(send_crime));
}

static void hostile_sender_on_a_shared_queue(void **state SPW_UNUSED)
{
	all_crimes(RC_OP_SEND, ",srq=1", send_crime, SPW_ARRAY_CNT(send_crime));
}

static void hostile_writer(void **state SPW_UNUSED)
{
	all_crimes(RC_OP_WRITE, "", write_crime, SPW_ARRAY_CNT(write_crime));
}

static void hostile_writer_on_a_shared_queue(void **state SPW_UNUSED)
{
	all_crimes(RC_OP_WRITE, ",srq=1", write_crime, SPW_ARRAY_CNT(write_crime));
}

static bool echoes_came(struct kit_end *const *end SPW_UNUSED, uint32_t cnt SPW_UNUSED, const void *arg)
{
	struct rogue *r = (struct rogue *)(uintptr_t)arg;
	static uint32_t seen;
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(r->cq, 16, wc);

	for (int i = 0; i < n; i++)
		seen += wc[i].status == IBV_WC_SUCCESS && wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	return seen >= CREDITS;
}

/* It takes part until the server needs a slot that it grants, and then names one that it does not have. */
static void hostile_granter(void **state SPW_UNUSED)
{
	struct kit_end server, good, *end[] = {&server, &good};
	struct kit_end_conf conf = {.keys = "peers=127.0.0.1,peer_max=2,credits=8,mtu=1024,op=write", .slots = 96, .slot_bytes = SLOT};
	struct wait w = {.server = &server, .down = 1};
	uint16_t port = kit_free_port();
	struct rogue r;

	kit_server(&server, port, &conf);
	conf.keys = "mtu=1024,op=write";
	kit_client(&good, port, &conf);
	good.bytes_max = SLOT;
	kit_pump(end, 2, 50);
	rogue_open(&r, end, port, RC_OP_WRITE);
	grant_a_slot_that_is_none(&r);
	kit_until(end, 2, true, echoes_came, &r, "the first echoes");
	grant_and_go_on(&r);
	kit_until(end, 2, true, noticed, &w, "a slot that is none");
	assert_non_null(strstr(server.text, "protocol"));
	rogue_close(&r);
	kit_pump(end, 2, 50);
	kit_settle(end, 2);
	kit_close(&good);
	kit_close(&server);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_sender),
		cmocka_unit_test(hostile_sender_on_a_shared_queue),
		cmocka_unit_test(hostile_writer),
		cmocka_unit_test(hostile_writer_on_a_shared_queue),
		cmocka_unit_test(hostile_granter),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, dev_open, dev_close);
}
