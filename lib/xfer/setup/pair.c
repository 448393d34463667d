/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which of our devices is paired with which of the peer's. Pure: addresses and past attempts in, a
 * matching out. Called by round.c.
 *
 * A pair of one subnet is taken for a cable. Link-local addresses (169.254/16, fe80::/10) are the
 * same on every cable, so such pairs are found by trying. Addresses of different subnets are a pair
 * only where nothing else is left: a router would have to lead there.
 *
 * Of all matchings the best one is taken: the most pairs first, then the fewest failed attempts,
 * then the longest common prefix, then devices of the same number. With at most 4 devices a side
 * all 209 are tried; picking pair by pair would leave a device without its only partner.
 */
#include <string.h>

#include "xfer/pair.h"

#define WORTH      (1u << 24) /* of one more pair: above all costs */
#define MAPPED     96u        /* bits before an IPv4 address: RFC 4291 2.5.5.2 */
#define V4_BITS    24u        /* the longest prefix of subnets that is of use for a choice */
#define V6_BITS    64u
#define FAILED_MAX 250u

static bool is_v4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	return !memcmp(gid, mapped, sizeof(mapped));
}

bool xfer_gid_is_local(const uint8_t gid[16])
{
	return is_v4(gid) ? gid[12] == 169 && gid[13] == 254
			  : gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

uint16_t xfer_gid_prefix(const uint8_t gid[16], uint32_t bits)
{
	if (xfer_gid_is_local(gid))
		return 0;
	if (!bits)
		bits = is_v4(gid) ? MAPPED + V4_BITS : V6_BITS;
	return (uint16_t)bits;
}

/* Leading bits that are equal. */
static uint32_t common_bits(const uint8_t a[16], const uint8_t b[16])
{
	for (uint32_t i = 0; i < 16; i++)
		if (a[i] != b[i])
			return i * 8 + (uint32_t)__builtin_clz((unsigned)(a[i] ^ b[i])) - 24;
	return 128;
}

enum xfer_pair_kind xfer_pair_kind(const struct xfer_end *a, const struct xfer_end *b)
{
	static const uint8_t gone[16];

	if (is_v4(a->gid) != is_v4(b->gid) || !memcmp(a->gid, gone, sizeof(gone)) ||
	    !memcmp(b->gid, gone, sizeof(gone)))
		return XFER_PAIR_NEVER;
	if (!a->prefix && !b->prefix)
		return XFER_PAIR_BLIND;
	if (a->prefix && b->prefix && common_bits(a->gid, b->gid) >= SPW_MAX(a->prefix, b->prefix))
		return XFER_PAIR_SUBNET;
	return XFER_PAIR_ROUTED;
}

/* Different subnets only once round.c has found nothing else (routed). */
static bool may_pair(const struct xfer_pairs *p, uint32_t mine, uint32_t theirs)
{
	return xfer_pair_kind(&p->mine[mine], &p->theirs[theirs]) >=
	       (p->routed ? XFER_PAIR_ROUTED : XFER_PAIR_BLIND);
}

/* Of a pair that may be tried; the smallest is the best. */
static uint32_t pair_cost(const struct xfer_pairs *p, uint32_t mine, uint32_t theirs)
{
	const struct xfer_end *a = &p->mine[mine], *b = &p->theirs[theirs];
	const uint32_t useful = is_v4(a->gid) ? MAPPED + V4_BITS : V6_BITS;
	const uint32_t same = SPW_MIN(common_bits(a->gid, b->gid), useful);

	return (uint32_t)p->failed[mine][theirs] << 12 | (useful - same) << 3 |
	       (mine > theirs ? mine - theirs : theirs - mine);
}

struct search {
	const struct xfer_pairs *p;
	uint8_t mine_free;
	int8_t pair[SPW_XFER_RAIL_MAX], *best_out;
	uint32_t best;
};

/* Device `mine` and those after it. */
static void search_from(struct search *s, uint32_t mine, uint8_t theirs_free, uint32_t worth)
{
	if (mine >= s->p->mine_cnt || mine >= SPW_XFER_RAIL_MAX) {
		if (worth > s->best) {
			s->best = worth;
			memcpy(s->best_out, s->pair, sizeof(s->pair));
		}
		return;
	}
	for (uint32_t i = 0; s->mine_free >> mine & 1u && i < s->p->theirs_cnt; i++) {
		if (!(theirs_free >> i & 1u) || !may_pair(s->p, mine, i))
			continue;
		s->pair[mine] = (int8_t)i;
		search_from(s, mine + 1, theirs_free & (uint8_t) ~(1u << i),
			    worth + WORTH - pair_cost(s->p, mine, i));
	}
	s->pair[mine] = XFER_NO_PAIR;
	search_from(s, mine + 1, theirs_free, worth);
}

uint32_t xfer_pairs_match(const struct xfer_pairs *p, uint8_t mine_free, uint8_t theirs_free,
			  int8_t theirs_out[SPW_XFER_RAIL_MAX])
{
	struct search s = {.p = p, .mine_free = mine_free, .best_out = theirs_out};
	uint32_t cnt = 0;

	memset(s.pair, XFER_NO_PAIR, sizeof(s.pair));
	memset(theirs_out, XFER_NO_PAIR, sizeof(s.pair));
	search_from(&s, 0, theirs_free, 0);
	for (uint32_t i = 0; i < p->mine_cnt; i++)
		cnt += theirs_out[i] != XFER_NO_PAIR;
	return cnt;
}

bool xfer_pairs_left(const struct xfer_pairs *p, enum xfer_pair_kind least, bool untried)
{
	for (uint32_t i = 0; i < p->mine_cnt; i++)
		for (uint32_t j = 0; j < p->theirs_cnt; j++)
			if (xfer_pair_kind(&p->mine[i], &p->theirs[j]) >= least &&
			    !(untried && p->failed[i][j]))
				return true;
	return false;
}

void xfer_pairs_failed(struct xfer_pairs *p, uint32_t mine, uint32_t theirs)
{
	p->failed[mine][theirs] += p->failed[mine][theirs] < FAILED_MAX;
}
