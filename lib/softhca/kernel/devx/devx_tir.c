/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What stands between flow rules and receive queues, TIRs and their tables; and what a queue needs
 * to exist: PDs, transport domains and TISs, which the model only counts as used.
 *
 *   flow rule --> TIR --direct--------> RQ
 *                     --hash--> RQT --> RQ
 *
 * A TIR hashes the fields of one network protocol and one transport protocol, which the rules
 * before it select; programs make one for each combination. The table of an RQT may be replaced
 * while frames arrive: the lock keeps the NIC out, so a frame meets the old list or the new one.
 *
 *   TD <-- TIS <-- SQ          counted as used only: a domain says which of its own frames a
 *   TD <-- TIR                 function may receive, which self_lb decides here (nic/eth/l2.c)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softhca/kernel/devx/devx.h"

#define TISC_OUT_AT 16u  /* in the answer */
#define RQT_LIST_AT 272u /* in the mailbox */
#define KEY_AT      (DEVX_CTX_AT + 0x28u)
enum { DIRECT = 0, INDIRECT = 1 };
enum { HASH_NONE = 0, HASH_TOEPLITZ = 2 };
enum { SRC_IP = 1, DST_IP = 2, SRC_PORT = 4, DST_PORT = 8 };
enum { SELF_LB_MC = 2 };

int devx_make_plain(struct devx_cmd *c, enum hca_obj_type type, size_t bytes)
{
	c->obj = hca_obj_new(c->ctx, type, bytes, 0);
	if (!c->obj)
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	devx_put(c->out, DEVX_OUT_NUMBER, c->obj->handle);
	return 0;
}

int devx_alloc_pd(struct devx_cmd *c)
{
	int rc = devx_make_plain(c, HCA_PD, sizeof(struct hca_pd));

	if (!rc)
		((struct hca_pd *)c->obj)->pdn = c->obj->handle;
	return rc;
}

/* A number, by which TISs and TIRs belong together. */
int devx_alloc_td(struct devx_cmd *c)
{
	return devx_make_plain(c, HCA_TD, sizeof(struct hca_obj));
}

/* Priority and port affinity of a TIS have no effect with one port and one traffic class. */
int devx_create_tis(struct devx_cmd *c)
{
	struct hca_obj *td =
		devx_number(c->ctx, HCA_TD, devx_get(c->in + DEVX_CTX_AT, DEVX_TISC_TD));
	int rc;

	if (!td)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_TISC_TD);
	rc = devx_make_plain(c, HCA_TIS, sizeof(struct hca_obj));
	if (!rc)
		hca_obj_hold(c->obj, td);
	return rc;
}

/* That of a verbs QP is in the domain that all TIRs without one belong to. */
int devx_query_tis(struct devx_cmd *c)
{
	const struct hca_obj *td = c->obj->type == HCA_TIS ? c->obj->held[0] : NULL;

	devx_put(c->out + TISC_OUT_AT, DEVX_TISC_TD, td ? td->handle : 0);
	return 0;
}

/* ---- RQT ---- */

/* Returns: 0, and the queues of the list, from malloc. */
static int rqt_read(struct devx_cmd *c, struct hca_wq ***queues_out, uint32_t *log2_out)
{
	const uint8_t *rqtc = c->in + DEVX_CTX_AT;
	const uint32_t cnt = (uint32_t)devx_get(rqtc, DEVX_RQTC_ACTUAL);
	struct hca_wq **q;

	if (devx_get(rqtc, DEVX_RQTC_LIST_TYPE))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_RQTC_LIST_TYPE);
	if (!SPW_IS_POW2(cnt) || cnt > 1u << c->ctx->dev->cfg->card->rss_table_log2)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_RQTC_ACTUAL);
	if (c->in_bytes < RQT_LIST_AT + cnt * 4u)
		return devx_refuse(c, DEVX_BAD_INP_LEN, DEVX_RQTC_ACTUAL);
	q = calloc(cnt, sizeof(struct hca_wq *));
	if (!q)
		return -ENOMEM;
	for (uint32_t i = 0; i < cnt; i++) {
		q[i] = devx_wq_number(c->ctx, devx_get(c->in + RQT_LIST_AT + 4ul * i, 8 << 8 | 24));
		if (!q[i]) {
			free(q);
			return devx_refuse(c, DEVX_BAD_RES, DEVX_RQTC_LIST_TYPE);
		}
	}
	*queues_out = q;
	*log2_out = spw_log2_floor64(cnt);
	return 0;
}

/* It may grow up to rqt_max_size by MODIFY_RQT. */
int devx_create_rqt(struct devx_cmd *c)
{
	const uint8_t *rqtc = c->in + DEVX_CTX_AT;
	const uint64_t max = devx_get(rqtc, DEVX_RQTC_MAX);
	struct hca_rwq_tbl *t;
	struct hca_wq **queues;
	uint32_t log2_cnt;
	int rc;

	if (max < devx_get(rqtc, DEVX_RQTC_ACTUAL) ||
	    max > 1u << c->ctx->dev->cfg->card->rss_table_log2)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_RQTC_MAX);
	rc = rqt_read(c, &queues, &log2_cnt);
	if (rc)
		return rc;
	if (hca_rwq_tbl_make(c->ctx, queues, log2_cnt, &t)) {
		free(queues);
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	}
	t->max = (uint32_t)max;
	c->obj = &t->o;
	devx_put(c->out, DEVX_OUT_NUMBER, t->o.handle);
	return 0;
}

/* The next frame meets the new list. */
int devx_modify_rqt(struct devx_cmd *c)
{
	struct hca_rwq_tbl *t = (struct hca_rwq_tbl *)c->obj;
	struct hca_wq **queues;
	uint32_t log2_cnt;
	int rc;

	if (devx_get(c->in, DEVX_IN_MODIFY_MASK) != 1)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_IN_MODIFY_MASK);
	if (devx_get(c->in + DEVX_CTX_AT, DEVX_RQTC_ACTUAL) > (t->max ? t->max : 1u << t->log2_cnt))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_RQTC_ACTUAL);
	rc = rqt_read(c, &queues, &log2_cnt);
	if (rc)
		return rc;
	hca_rwq_refs(queues, log2_cnt, 1);
	hca_rwq_refs(t->wq, t->log2_cnt, -1u);
	free(t->wq);
	t->wq = queues;
	t->log2_cnt = log2_cnt;
	return 0;
}

/* ---- TIR ---- */

/* The firmware hashes the fields of one network and one transport protocol. */
static uint64_t tir_fields(const uint8_t *tirc)
{
	const uint64_t sel = devx_get(tirc, DEVX_TIRC_OUTER_FIELDS);
	const bool ip6 = devx_get(tirc, DEVX_TIRC_OUTER_IPV6),
		   udp = devx_get(tirc, DEVX_TIRC_OUTER_UDP);
	uint64_t f = 0;

	if (sel & SRC_IP)
		f |= ip6 ? MLX5_RX_HASH_SRC_IPV6 : MLX5_RX_HASH_SRC_IPV4;
	if (sel & DST_IP)
		f |= ip6 ? MLX5_RX_HASH_DST_IPV6 : MLX5_RX_HASH_DST_IPV4;
	if (sel & SRC_PORT)
		f |= udp ? MLX5_RX_HASH_SRC_PORT_UDP : MLX5_RX_HASH_SRC_PORT_TCP;
	if (sel & DST_PORT)
		f |= udp ? MLX5_RX_HASH_DST_PORT_UDP : MLX5_RX_HASH_DST_PORT_TCP;
	return f;
}

/* Security parameters (IPsec) and inner headers are not hashed. The key has its 40 bytes always. */
static int tir_hash(struct devx_cmd *c, const uint8_t *tirc, struct hca_tir *want)
{
	const uint64_t fn = devx_get(tirc, DEVX_TIRC_HASH_FN);

	want->fields = tir_fields(tirc);
	memcpy(want->key, c->in + KEY_AT, sizeof(want->key));
	if (devx_get(tirc, DEVX_TIRC_OUTER_FIELDS) > (SRC_IP | DST_IP | SRC_PORT | DST_PORT) ||
	    want->fields & ~c->ctx->dev->cfg->card->rss_fields)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_TIRC_OUTER_FIELDS);
	if (fn != HASH_NONE && fn != HASH_TOEPLITZ)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_TIRC_HASH_FN);
	return fn == HASH_NONE && want->fields ? devx_refuse(c, DEVX_BAD_PARAM, DEVX_TIRC_HASH_FN)
					       : 0;
}

/* The queue or table is the context's; the TIR counts as its user. */
static int tir_target(struct devx_cmd *c, const uint8_t *tirc, struct hca_tir *want)
{
	switch (devx_get(tirc, DEVX_TIRC_TYPE)) {
	case DIRECT:
		want->wq = devx_wq_number(c->ctx, devx_get(tirc, DEVX_TIRC_INLINE_RQN));
		return want->wq ? 0 : devx_refuse(c, DEVX_BAD_RES, DEVX_TIRC_INLINE_RQN);
	case INDIRECT:
		want->tbl = devx_number(c->ctx, HCA_RWQ_TBL, devx_get(tirc, DEVX_TIRC_TABLE));
		return want->tbl ? 0 : devx_refuse(c, DEVX_BAD_RES, DEVX_TIRC_TABLE);
	default:
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_TIRC_TYPE);
	}
}

/* Transport domain 0 is a card's own: DPDK's first TIR names it (its drop queue, made before it
 * stores the number of its domain). The answer has no ICM address: rules are made by the kernel. */
int devx_create_tir(struct devx_cmd *c)
{
	static const uint32_t zero[] = {DEVX_TIRC_LRO, DEVX_TIRC_SYMMETRIC, DEVX_TIRC_TUNNELED,
					DEVX_TIRC_INNER_FIELDS};
	const uint8_t *tirc = c->in + DEVX_CTX_AT;
	const uint64_t tdn = devx_get(tirc, DEVX_TIRC_TD);
	struct hca_obj *td = devx_number(c->ctx, HCA_TD, tdn);
	struct hca_tir want = {.self_lb_mc = devx_get(tirc, DEVX_TIRC_SELF_LB) & SELF_LB_MC}, *tir;
	int rc = 0;

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(zero); i++)
		if (devx_get(tirc, zero[i]))
			return devx_refuse(c, DEVX_BAD_PARAM, zero[i]);
	if (tdn && !td)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_TIRC_TD);
	rc = tir_target(c, tirc, &want);
	rc = rc || want.wq ? rc : tir_hash(c, tirc, &want);
	if (rc)
		return rc;
	if (hca_tir_make(c->ctx, &want, &tir))
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	if (td)
		hca_obj_hold(&tir->o, td);
	c->obj = &tir->o;
	devx_put(c->out, DEVX_OUT_NUMBER, tir->o.handle);
	return 0;
}
