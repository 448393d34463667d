/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * TIRs: the Toeplitz hash over the header fields that the TIR names, and the indirection table that
 * it selects a WQ from. raw.c calls rss_pick() for every frame of a TIR.
 *
 * The hash is linear in its input bits: hash(a ^ b) = hash(a) ^ hash(b). nic_tir_create()
 * therefore computes one table per input nibble, and a hash is one XOR per nibble.
 *
 * Source: Microsoft, "RSS hashing types" and "Verifying the RSS hash calculation".
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "softhca/nic/eth/eth.h"

#define RSS_INPUT_MAX 36u /* two IPv6 addresses and two ports */

/* The 32 key bits that start at bit `at`. */
static uint32_t rss_key_bits(const uint8_t *key, uint32_t key_bytes, uint32_t at)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < 5; i++)
		v = v << 8 | (at / 8 + i < key_bytes ? key[at / 8 + i] : 0);
	return (uint32_t)(v >> (8 - at % 8));
}

/* Bit by bit, as the source defines it. Only tests call it: they check rss_key_bits by the vectors
 * of the source. */
uint32_t rss_toeplitz(const uint8_t *key, uint32_t key_bytes, const uint8_t *data, uint32_t bytes)
{
	uint32_t hash = 0;

	for (uint32_t bit = 0; bit < bytes * 8; bit++)
		if (data[bit / 8] >> (7 - bit % 8) & 1)
			hash ^= rss_key_bits(key, key_bytes, bit);
	return hash;
}

static bool rss_init(struct nic_tir *t, const uint8_t *key, uint32_t key_bytes)
{
	t->hash = calloc(RSS_INPUT_MAX * 2, sizeof(*t->hash));
	if (!t->hash)
		return false;
	for (uint32_t nib = 0; nib < RSS_INPUT_MAX * 2; nib++)
		for (uint32_t v = 0; v < 16; v++)
			for (uint32_t b = 0; b < 4; b++)
				if (v >> (3 - b) & 1)
					t->hash[nib][v] ^=
						rss_key_bits(key, key_bytes, nib * 4 + b);
	return true;
}

int nic_tir_create(struct hca_tir *tir)
{
	struct nic_tir *t = calloc(1, sizeof(*t));

	if (!t || (tir->fields && !rss_init(t, tir->key, sizeof(tir->key)))) {
		free(t);
		return spw_err(ENOMEM, "no memory for a TIR");
	}
	tir->nic = t;
	return 0;
}

void nic_tir_destroy(struct hca_tir *tir)
{
	if (tir->nic)
		free(tir->nic->hash);
	free(tir->nic);
	tir->nic = NULL;
}

/* The high nibble of a byte is its first. */
static uint32_t rss_hash(const struct nic_tir *t, const uint8_t *in, uint32_t bytes)
{
	uint32_t h = 0;

	for (uint32_t i = 0; i < bytes; i++)
		h ^= t->hash[2 * i][in[i] >> 4] ^ t->hash[2 * i + 1][in[i] & 15];
	return h;
}

/* No fragment has ports here, so that all fragments of a datagram meet one queue. */
static uint32_t rss_add_ports(uint8_t *in, uint32_t n, const struct flow_key *k, uint64_t fields)
{
	const bool tcp = k->l4 == FLOW_L4_TCP, udp = k->l4 == FLOW_L4_UDP;

	if (k->is_frag)
		return n;
	if ((tcp && (fields & MLX5_RX_HASH_SRC_PORT_TCP)) ||
	    (udp && (fields & MLX5_RX_HASH_SRC_PORT_UDP))) {
		spw_prm_st16(in + n, k->src_port);
		n += 2;
	}
	if ((tcp && (fields & MLX5_RX_HASH_DST_PORT_TCP)) ||
	    (udp && (fields & MLX5_RX_HASH_DST_PORT_UDP))) {
		spw_prm_st16(in + n, k->dst_port);
		n += 2;
	}
	return n;
}

/* The order of the input is the source's: addresses, then ports, each only if the TIR names it.
 * Returns the bytes of the input; *type_out is what they are. */
static uint32_t rss_input(uint64_t fields, const struct flow_key *k, uint8_t in[RSS_INPUT_MAX],
			  uint8_t *type_out)
{
	const uint8_t *ip = k->frame + k->l3_off;
	uint32_t n = 0, l3_bytes;

	if (k->l3 == FLOW_L3_IPV4) {
		if (fields & MLX5_RX_HASH_SRC_IPV4)
			memcpy(in + n, ip + 12, 4), n += 4;
		if (fields & MLX5_RX_HASH_DST_IPV4)
			memcpy(in + n, ip + 16, 4), n += 4;
	} else if (k->l3 == FLOW_L3_IPV6) {
		if (fields & MLX5_RX_HASH_SRC_IPV6)
			memcpy(in + n, ip + 8, 16), n += 16;
		if (fields & MLX5_RX_HASH_DST_IPV6)
			memcpy(in + n, ip + 24, 16), n += 16;
	}
	/* [K] cqe_rss_hash_type: L3 in bits 3..2, L4 in bits 7..6 */
	*type_out = n ? (uint8_t)((k->l3 == FLOW_L3_IPV4 ? 1 : 2) << 2) : 0;
	if (k->l3 == FLOW_L3_NONE)
		return n;
	l3_bytes = n;
	n = rss_add_ports(in, n, k, fields);
	if (n > l3_bytes)
		*type_out |= (uint8_t)((k->l4 == FLOW_L4_TCP ? 1 : 2) << 6);
	return n;
}

/* The ring of a packet QP takes frames from RTR on, a WQ in RDY. */
struct nic_rq *rss_pick(const struct hca_tir *tir, const struct flow_key *k, uint32_t *hash_out,
			uint8_t *type_out)
{
	const struct hca_wq *wq = tir->wq;
	uint8_t in[RSS_INPUT_MAX];
	uint32_t n;

	if (!wq && !tir->tbl) {
		const struct hca_qp *qp = tir->qp;

		return qp->nic && qp->state >= HCA_QPS_RTR && qp->state != HCA_QPS_ERR &&
				       qp->nic->rq.cq
			       ? &qp->nic->rq
			       : NULL;
	}
	if (tir->tbl) {
		n = rss_input(tir->fields, k, in, type_out);
		*hash_out = n ? rss_hash(tir->nic, in, n) : 0;
		wq = tir->tbl->wq[*hash_out & ((1u << tir->tbl->log2_cnt) - 1)];
	}
	return wq && wq->nic && wq->state == HCA_WQS_RDY ? &wq->nic->rq : NULL;
}
