/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The tables of flow rules, and the search for those that match a frame. kernel/flow/fte.c adds and
 * removes rules through nic.h; raw.c calls flow_steer() for each frame that is not RoCE for this
 * NIC.
 *
 *   level 0 .. 32 (hca_flow.h)      the first with a match decides; dont_trap: and on to the next
 *     group, one for each mask      by age
 *       bucket, by the hash of the masked words
 *         entry (FTE), one value    the oldest match of a level wins
 *           rules, one for each receiver: they share match, tag and action; the counter of
 *                                   each counts the frames of all
 *   default rules                   only if no entry took the frame, or one said miss
 *   sniffers                        always
 *
 * What to know before changing it: a group's age is at most that of its entries, so the search of a
 * level ends at the first group that is younger than the match found. An entry keeps its age while
 * it has a rule.
 *
 * Sources: Linux drivers/net/ethernet/mellanox/mlx5/core/fs_core.c (add_rule_fg, fs_core.h
 * MLX5_FS_MAX_ENTRIES), ibv_create_flow(3).
 */
#include <errno.h>
#include <stdlib.h>

#include "softhca/nic/dev.h"
#include "softhca/nic/eth/flow.h"

#define LEVEL_ENTRIES 65536u
#define CHAIN_MEAN    2u /* entries per bucket before there are more buckets */

struct flow_fte {
	struct flow_fte *next; /* in its bucket */
	struct flow_group *group;
	struct hca_flow *rules;
	uint64_t age;
	uint32_t tag;
	uint32_t cnt_cnt; /* rules with a counter */
	bool drop, miss, dont_trap;
	uint64_t val[]; /* the words that the group's mask names */
};

struct flow_group {
	struct flow_group *next; /* younger */
	uint64_t age;
	uint64_t hash; /* of the mask */
	uint32_t word_cnt, entry_cnt;
	uint32_t bucket_mask; /* buckets - 1 */
	struct flow_fte **bucket;
	uint8_t at[FLOW_WORD_CNT]; /* which words */
	uint64_t mask[FLOW_WORD_CNT];
};

struct flow_level {
	struct flow_group *groups;
	uint32_t entry_cnt;
};

struct flow_tables {
	struct flow_level level[FLOW_LEVEL_CNT];
	uint64_t used; /* levels with entries */
	uint64_t age;
	uint32_t deep_cnt; /* groups that compare more than the outer section */
	struct hca_flow *defaults, *sniffers;
};
_Static_assert(FLOW_LEVEL_CNT <= 64, "`used` has a bit for each level");

/* ---- search ----
 *
 * Per frame: one layout of its headers, then for each level in use a look into each group. Groups
 * are few, since applications use few masks; entries may be many. */

/* Folds both halves of the product, so that each bit of the word reaches the low bits, which choose
 * the bucket. Strangers choose the frames, but only rules are in the chains. */
SPW_INLINE uint64_t flow_hash_add(uint64_t h, uint64_t word)
{
	const __uint128_t p =
		(__uint128_t)(h ^ word ^ 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* A group of few entries has one bucket and needs no hash. */
static struct flow_fte *flow_group_find(const struct flow_group *g, const uint64_t *word)
{
	uint64_t key[FLOW_WORD_CNT], h = 0;
	struct flow_fte *e;

	for (uint32_t i = 0; i < g->word_cnt; i++)
		key[i] = word[g->at[i]] & g->mask[i];
	if (g->bucket_mask)
		for (uint32_t i = 0; i < g->word_cnt; i++)
			h = flow_hash_add(h, key[i]);
	for (e = g->bucket[h & g->bucket_mask]; e; e = e->next) {
		uint32_t i = 0;

		while (i < g->word_cnt && e->val[i] == key[i])
			i++;
		if (i == g->word_cnt)
			return e;
	}
	return NULL;
}

static const struct flow_fte *flow_level_find(const struct flow_level *l,
					      const struct flow_fields *fields)
{
	const struct flow_fte *best = NULL, *e;

	for (const struct flow_group *g = l->groups; g && (!best || g->age < best->age);
	     g = g->next) {
		e = flow_group_find(g, fields->word);
		if (e && (!best || e->age < best->age))
			best = e;
	}
	return best;
}

/* ---- receivers ---- */

/* Beyond FLOW_DST_MAX receivers the rest gets no copy. Rules of one entry with one TIR are one
 * receiver, as on a card. */
static void flow_dst_add(struct flow_hit *hit, uint32_t first, struct hca_tir *tir, uint32_t tag)
{
	for (uint32_t i = first; i < hit->dst_cnt; i++)
		if (hit->dst[i].tir == tir)
			return;
	if (hit->dst_cnt < FLOW_DST_MAX)
		hit->dst[hit->dst_cnt++] = (struct flow_dst){tir, tag};
}

static void flow_list_add(struct flow_hit *hit, const struct hca_flow *rules)
{
	for (const struct hca_flow *f = rules; f; f = f->next)
		if (f->tir && !f->drop && hit->dst_cnt < FLOW_DST_MAX)
			hit->dst[hit->dst_cnt++] = (struct flow_dst){f->tir, f->tag};
}

static void flow_entry_add(struct flow_hit *hit, const struct flow_fte *e)
{
	const uint32_t first = hit->dst_cnt;

	for (const struct hca_flow *f = e->rules; f && hit->dst_cnt < FLOW_DST_MAX; f = f->next)
		if (f->tir && !e->drop)
			flow_dst_add(hit, first, f->tir, e->tag);
}

/* Returns: whether an entry took the frame. */
static bool flow_steer_normal(const struct flow_tables *t, const struct flow_key *key,
			      struct flow_hit *hit)
{
	struct flow_fields fields;

	if (!t->used)
		return false;
	flow_fields_outer(key, &fields);
	if (spw_unlikely(t->deep_cnt != 0))
		flow_fields_inner(key, &fields);
	for (uint64_t left = t->used; left; left &= left - 1) {
		const struct flow_fte *e =
			flow_level_find(&t->level[__builtin_ctzll(left)], &fields);

		if (!e)
			continue;
		flow_entry_add(hit, e);
		if (!e->dont_trap) { /* a rule of verbs, which has no counter, if it is */
			hit->dropped = e->drop;
			hit->counted = e->cnt_cnt ? e : NULL;
			return !e->miss;
		}
	}
	return false;
}

/* Default rules have no order among them: each gets the frame. */
static void flow_steer_default(const struct flow_tables *t, const struct flow_key *key,
			       struct flow_hit *hit)
{
	const bool multicast = key->frame_bytes && key->frame[0] & 1;

	for (const struct hca_flow *f = t->defaults; f && hit->dst_cnt < FLOW_DST_MAX; f = f->next)
		if (!f->drop && (f->type == FLOW_ALL_DEFAULT || multicast))
			hit->dst[hit->dst_cnt++] = (struct flow_dst){f->tir, f->tag};
}

/* A frame that a drop rule took still reaches the sniffers. */
void flow_steer(const struct hca_dev *dev, const struct flow_key *key, struct flow_hit *hit_out)
{
	const struct flow_tables *t = dev->nic->flows;

	hit_out->dst_cnt = 0;
	hit_out->dropped = false;
	hit_out->counted = NULL;
	if (!t)
		return;
	if (!flow_steer_normal(t, key, hit_out))
		flow_steer_default(t, key, hit_out);
	flow_list_add(hit_out, t->sniffers);
}

void flow_count(const struct flow_hit *hit, uint32_t bytes)
{
	if (spw_likely(!hit->counted))
		return;
	for (const struct hca_flow *f = hit->counted->rules; f; f = f->next)
		if (f->cnt) {
			f->cnt->frames++;
			f->cnt->bytes += bytes;
		}
}

void flow_sniff(const struct hca_dev *dev, struct flow_hit *hit_out)
{
	hit_out->dst_cnt = 0;
	hit_out->counted = NULL;
	if (dev->nic->flows)
		flow_list_add(hit_out, dev->nic->flows->sniffers);
}

/* ---- entries ----
 *
 * Made and freed by commands, under the device lock that the NIC thread holds for a round. A group
 * that is empty is freed at once, so that the search meets groups with entries only. */

static struct flow_fte **flow_bucket_of(const struct flow_group *g, const uint64_t *val)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < g->word_cnt && g->bucket_mask; i++)
		h = flow_hash_add(h, val[i]);
	return &g->bucket[h & g->bucket_mask];
}

/* Without memory for more buckets chains grow, and it is tried again with the next entry. */
static void flow_group_grow(struct flow_group *g)
{
	const uint32_t cnt = g->bucket_mask + 1;
	struct flow_fte **old = g->bucket, **more, *e;

	if (g->entry_cnt <= cnt * CHAIN_MEAN)
		return;
	more = calloc(2 * (size_t)cnt, sizeof(struct flow_fte *));
	if (!more)
		return;
	g->bucket = more;
	g->bucket_mask = 2 * cnt - 1;
	for (uint32_t i = 0; i < cnt; i++)
		while ((e = old[i]) != NULL) {
			struct flow_fte **at = flow_bucket_of(g, e->val);

			old[i] = e->next;
			e->next = *at;
			*at = e;
		}
	free(old);
}

/* Does it compare more than the outer section? */
static bool flow_group_is_deep(const struct flow_group *g)
{
	return g->word_cnt && g->at[g->word_cnt - 1] >= FLOW_SECTION_BYTES / 8;
}

/* As old as the entry that is made next. */
static struct flow_group *flow_group_new(struct flow_tables *t, const struct flow_fields *mask,
					 uint64_t hash)
{
	struct flow_group *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->hash = hash;
	g->age = t->age + 1;
	for (uint32_t i = 0; i < FLOW_WORD_CNT; i++)
		if (mask->word[i]) {
			g->at[g->word_cnt] = (uint8_t)i;
			g->mask[g->word_cnt++] = mask->word[i];
		}
	g->bucket = calloc(1, sizeof(struct flow_fte *));
	if (!g->bucket) {
		free(g);
		return NULL;
	}
	t->deep_cnt += flow_group_is_deep(g);
	return g;
}

/* Words that are 0 are not stored, so their number must be the same too. */
static bool flow_group_has_mask(const struct flow_group *g, const struct flow_fields *mask)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < FLOW_WORD_CNT; i++)
		cnt += mask->word[i] != 0;
	for (uint32_t i = 0; i < g->word_cnt; i++)
		if (mask->word[g->at[i]] != g->mask[i])
			return false;
	return cnt == g->word_cnt;
}

/* Returns: where the group is, or belongs: behind all others. */
static struct flow_group **flow_group_at(struct flow_level *l, const struct flow_fields *mask,
					 uint64_t hash)
{
	struct flow_group **at = &l->groups;

	while (*at && ((*at)->hash != hash || !flow_group_has_mask(*at, mask)))
		at = &(*at)->next;
	return at;
}

static void flow_group_free(struct flow_tables *t, struct flow_level *l, struct flow_group *g)
{
	HCA_UNLINK(l->groups, g, next);
	t->deep_cnt -= flow_group_is_deep(g);
	free(g->bucket);
	free(g);
}

/* f's own receiver, tag and action; the entry has no rule yet. */
static struct flow_fte *flow_entry_new(struct flow_tables *t, struct flow_group *g,
				       const struct hca_flow *f, const struct flow_match *m)
{
	struct flow_fte *e = calloc(1, sizeof(*e) + g->word_cnt * sizeof(e->val[0]));
	struct flow_fte **at;

	if (!e)
		return NULL;
	for (uint32_t i = 0; i < g->word_cnt; i++)
		e->val[i] = m->val.word[g->at[i]];
	e->group = g;
	e->age = ++t->age;
	e->tag = f->tag;
	e->drop = f->drop;
	e->miss = f->miss;
	e->dont_trap = f->dont_trap;
	g->entry_cnt++;
	flow_group_grow(g);
	at = flow_bucket_of(g, e->val);
	e->next = *at;
	*at = e;
	return e;
}

/* Its group goes with the last entry. */
static void flow_entry_free(struct flow_tables *t, struct flow_level *l, struct flow_fte *e)
{
	struct flow_group *g = e->group;

	HCA_UNLINK(*flow_bucket_of(g, e->val), e, next);
	l->entry_cnt--;
	if (!--g->entry_cnt)
		flow_group_free(t, l, g);
	free(e);
	if (!l->entry_cnt)
		t->used &= ~(1ull << (l - t->level));
}

/* ---- rules ---- */

/* Doubly linked: many rules may be equal. */
static void flow_list_put(struct hca_flow **list, struct hca_flow *f)
{
	f->next = *list;
	f->at = list;
	if (f->next)
		f->next->at = &f->next;
	*list = f;
}

static void flow_list_take(struct hca_flow *f)
{
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
}

/* Rules of one match and level share the entry; what the entry does was decided by its first. */
static int flow_entry_join(const struct flow_fte *e, const struct hca_flow *f)
{
	return e->drop != f->drop || e->miss != f->miss || (f->has_tag && e->tag != f->tag)
		       ? -EEXIST
		       : 0;
}

/* The check for room comes after that for an equal, which needs none. */
static int flow_add_normal(struct flow_tables *t, struct hca_flow *f, const struct flow_match *m)
{
	struct flow_level *l = &t->level[f->level];
	struct flow_group **at;
	struct flow_fte *e;
	uint64_t hash = 0;

	for (uint32_t i = 0; i < FLOW_WORD_CNT; i++)
		hash = flow_hash_add(hash, m->mask.word[i]);
	at = flow_group_at(l, &m->mask, hash);
	e = *at ? flow_group_find(*at, m->val.word) : NULL;
	if (e) {
		f->fte = e;
		return flow_entry_join(e, f);
	}
	if (l->entry_cnt == LEVEL_ENTRIES)
		return -ENOSPC;
	if (!*at && !(*at = flow_group_new(t, &m->mask, hash)))
		return -ENOMEM;
	f->fte = flow_entry_new(t, *at, f, m);
	if (!f->fte) {
		if (!(*at)->entry_cnt)
			flow_group_free(t, l, *at);
		return -ENOMEM;
	}
	l->entry_cnt++;
	t->used |= 1ull << f->level;
	return 0;
}

int nic_flow_create(struct hca_flow *f, const struct flow_match *match)
{
	struct nic_dev *nd = f->o.ctx->dev->nic;
	struct flow_tables *t = nd->flows ? nd->flows : calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	nd->flows = t;
	rc = f->type == FLOW_NORMAL ? flow_add_normal(t, f, match) : 0;
	if (rc)
		return rc;
	flow_list_put(f->fte                    ? &f->fte->rules
		      : f->type == FLOW_SNIFFER ? &t->sniffers
						: &t->defaults,
		      f);
	if (f->cnt)
		f->fte->cnt_cnt++;
	nd->flow_cnt++;
	return 0;
}

/* The entry goes with its last rule, and the group with its last entry. */
void nic_flow_destroy(struct hca_flow *f)
{
	struct nic_dev *nd = f->o.ctx->dev->nic;

	flow_list_take(f);
	nd->flow_cnt--;
	if (f->cnt)
		f->fte->cnt_cnt--;
	if (f->fte && !f->fte->rules)
		flow_entry_free(nd->flows, &nd->flows->level[f->level], f->fte);
}

void flow_tables_free(struct nic_dev *nd)
{
	free(nd->flows);
	nd->flows = NULL;
}
