/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "match_rules.h"

#include "unit_test.h"

uint32_t match_random(uint64_t *state, uint32_t below)
{
	return (uint32_t)(unit_random(state) % below);
}

/* ---- fields ---- */

enum who { OUTER, INNER, MISC };

enum what {
	SMAC,
	DMAC,
	ETHERTYPE,
	PRIO,
	CFI,
	VID,
	PROTO,
	DSCP,
	ECN,
	CVLAN,
	SVLAN,
	FRAG,
	VERSION,
	TCP_FLAGS,
	TCP_SPORT,
	TCP_DPORT,
	TTL,
	UDP_SPORT,
	UDP_DPORT,
	SRC,
	DST,
	LAYER_FIELDS,
	GRE_C = LAYER_FIELDS,
	GRE_K,
	GRE_S,
	GRE_PROTO,
	GRE_KEY,
	VNI,
	VID2,
	VID2_INNER,
	CVLAN2,
	CVLAN2_INNER,
	SVLAN2,
	SVLAN2_INNER,
	LABEL,
	LABEL_INNER,
	FIELDS
};

/* Bit offset in its section, width. */
static const struct {
	uint16_t bit, width;
} place[FIELDS] = {
	[SMAC] = {0x00, 48},        [ETHERTYPE] = {0x30, 16},    [DMAC] = {0x40, 48},
	[PRIO] = {0x70, 3},         [CFI] = {0x73, 1},           [VID] = {0x74, 12},
	[PROTO] = {0x80, 8},        [DSCP] = {0x88, 6},          [ECN] = {0x8e, 2},
	[CVLAN] = {0x90, 1},        [SVLAN] = {0x91, 1},         [FRAG] = {0x92, 1},
	[VERSION] = {0x93, 4},      [TCP_FLAGS] = {0x97, 9},     [TCP_SPORT] = {0xa0, 16},
	[TCP_DPORT] = {0xb0, 16},   [TTL] = {0xd8, 8},           [UDP_SPORT] = {0xe0, 16},
	[UDP_DPORT] = {0xf0, 16},   [SRC] = {0x100, 128},        [DST] = {0x180, 128},
	[GRE_C] = {0x00, 1},        [GRE_K] = {0x02, 1},         [GRE_S] = {0x03, 1},
	[VID2] = {0x44, 12},        [VID2_INNER] = {0x54, 12},   [CVLAN2] = {0x60, 1},
	[CVLAN2_INNER] = {0x61, 1}, [SVLAN2] = {0x62, 1},        [SVLAN2_INNER] = {0x63, 1},
	[GRE_PROTO] = {0x70, 16},   [GRE_KEY] = {0x80, 32},      [VNI] = {0xa0, 24},
	[LABEL] = {0xec, 20},       [LABEL_INNER] = {0x10c, 20},
};

static uint32_t section_bit(enum who who)
{
	return who == OUTER ? 0 : who == MISC ? 512 : 1024;
}

static bool bit_get(const uint8_t *p, uint32_t bit)
{
	return p[bit / 8] >> (7 - bit % 8) & 1;
}

static void bit_set(uint8_t *p, uint32_t bit, bool value)
{
	p[bit / 8] = (uint8_t)((p[bit / 8] & ~(0x80u >> bit % 8)) | (value ? 0x80u >> bit % 8 : 0));
}

/* A number as the last bits of 16 bytes. */
static bool number(uint8_t out[16], uint64_t n, bool present)
{
	for (unsigned i = 0; i < 8; i++)
		out[15 - i] = (uint8_t)(n >> 8 * i);
	return present;
}

static bool bytes(uint8_t out[16], const uint8_t *p, unsigned n, bool present)
{
	memcpy(out + 16 - n, p, n);
	return present;
}

static bool layer_field(const struct truth_layer *l, enum what f, uint8_t out[16])
{
	const bool tcp = l->l4 == 6, udp = l->l4 == 17, tagged = l->tag_cnt > 0;

	switch (f) {
	case SMAC:
		return bytes(out, l->smac, 6, l->has_l2);
	case DMAC:
		return bytes(out, l->dmac, 6, l->has_l2);
	case ETHERTYPE:
		return number(out, l->ether_type, l->has_l2);
	case PRIO:
		return number(out, l->tci[0] >> 13, tagged);
	case CFI:
		return number(out, l->tci[0] >> 12 & 1, tagged);
	case VID:
		return number(out, l->tci[0] & 0xfff, tagged);
	case PROTO:
		return number(out, l->proto, l->has_l3);
	case DSCP:
		return number(out, l->tos >> 2, l->has_l3);
	case ECN:
		return number(out, l->tos & 3, l->has_l3);
	case CVLAN:
		return number(out, tagged && l->tag_type[0] == 0x8100, l->has_l2);
	case SVLAN:
		return number(out, tagged && l->tag_type[0] == 0x88a8, l->has_l2);
	case FRAG:
		return number(out, l->frag, l->has_l3);
	case VERSION:
		return number(out, l->version, true);
	case TCP_FLAGS:
		return number(out, l->flags, tcp);
	case TCP_SPORT:
		return number(out, l->sport, tcp);
	case TCP_DPORT:
		return number(out, l->dport, tcp);
	case TTL:
		return number(out, l->ttl, l->has_l3);
	case UDP_SPORT:
		return number(out, l->sport, udp);
	case UDP_DPORT:
		return number(out, l->dport, udp);
	case SRC:
		return bytes(out, l->src, 16, l->has_l3);
	default:
		return bytes(out, l->dst, 16, l->has_l3);
	}
}

static bool misc_field(const struct truth *t, enum what f, uint8_t out[16])
{
	const struct truth_layer *o = &t->outer, *i = &t->inner;

	switch (f) {
	case GRE_C:
		return number(out, t->gre_bits >> 7, t->has_gre);
	case GRE_K:
		return number(out, t->gre_bits >> 5 & 1, t->has_gre);
	case GRE_S:
		return number(out, t->gre_bits >> 4 & 1, t->has_gre);
	case GRE_PROTO:
		return number(out, t->gre_proto, t->has_gre);
	case GRE_KEY:
		return number(out, t->gre_key, t->has_gre && t->gre_bits & 0x20);
	case VNI:
		return number(out, t->vni, t->has_vni);
	case VID2:
		return number(out, o->tci[1] & 0xfff, o->tag_cnt > 1);
	case VID2_INNER:
		return number(out, i->tci[1] & 0xfff, i->tag_cnt > 1);
	case CVLAN2:
		return number(out, o->tag_cnt > 1 && o->tag_type[1] == 0x8100, true);
	case CVLAN2_INNER:
		return number(out, i->tag_cnt > 1 && i->tag_type[1] == 0x8100, true);
	case SVLAN2:
		return number(out, o->tag_cnt > 1 && o->tag_type[1] == 0x88a8, true);
	case SVLAN2_INNER:
		return number(out, i->tag_cnt > 1 && i->tag_type[1] == 0x88a8, true);
	case LABEL:
		return number(out, o->label, o->version == 6);
	default:
		return number(out, i->label, i->version == 6);
	}
}

static bool field_of(const struct truth *t, enum who who, enum what f, uint8_t out[16])
{
	memset(out, 0, 16);
	return who == MISC    ? misc_field(t, f, out)
	       : who == OUTER ? layer_field(&t->outer, f, out)
			      : layer_field(&t->inner, f, out);
}

static bool field_matches(const struct rule *r, const struct truth *t, enum who who, enum what f)
{
	const uint32_t at = section_bit(who) + place[f].bit;
	uint8_t x[16];
	const bool present = field_of(t, who, f, x);

	for (uint32_t i = 0; i < place[f].width; i++) {
		if (!bit_get(r->mask, at + i))
			continue;
		if (!present || bit_get(r->val, at + i) != bit_get(x, 128 - place[f].width + i))
			return false;
	}
	return true;
}

bool rule_matches(const struct rule *r, const struct truth *t)
{
	for (uint32_t i = 0; i < r->field_cnt; i++)
		if (!field_matches(r, t, r->who[i], r->what[i]))
			return false;
	return true;
}

/* A field is named whole, by a part, or not in the way of the frame. */
void rule_make(uint64_t *state, const struct truth *like, struct rule *r)
{
	memset(r, 0, sizeof(*r));
	r->field_cnt = match_random(state, RULE_FIELDS + 1);
	for (uint32_t n = 0; n < r->field_cnt; n++) {
		const uint32_t x = match_random(state, 2 * LAYER_FIELDS + FIELDS);
		const enum who who = x < 2 * LAYER_FIELDS                  ? OUTER
				     : x - 2 * LAYER_FIELDS < LAYER_FIELDS ? INNER
									   : MISC;
		const enum what f = who == OUTER ? x % LAYER_FIELDS : x - 2 * LAYER_FIELDS;
		const uint32_t at = section_bit(who) + place[f].bit;
		const uint32_t part = match_random(state, 4), other = match_random(state, 6);
		uint8_t v[16];

		r->who[n] = who;
		r->what[n] = f;
		field_of(like, who, f, v);
		for (uint32_t i = 0; i < place[f].width; i++) {
			const bool on = part || match_random(state, 2);
			const bool one = bit_get(v, 128 - place[f].width + i) ^
					 (!other && i + 1 == place[f].width);

			bit_set(r->mask, at + i, on);
			bit_set(r->val, at + i, on && one);
		}
	}
	for (uint32_t i = 0; i < PARAM_BYTES; i++)
		if (r->mask[i])
			r->criteria |= (uint8_t)(1u << i / 64);
}

/* ---- frames ---- */

static void put(struct truth *t, const void *p, uint32_t n)
{
	memcpy(t->frame + t->frame_bytes, p, n);
	t->frame_bytes += n;
}

static void put16(struct truth *t, uint32_t v)
{
	put(t, (uint8_t[]){(uint8_t)(v >> 8), (uint8_t)v}, 2);
}

static void put_l2(uint64_t *s, struct truth *t, struct truth_layer *l)
{
	static const uint8_t mac[4][6] = {
		{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, {1, 0, 0x5e, 0, 0, 1}, {0}};

	l->has_l2 = true;
	memcpy(l->dmac, mac[match_random(s, 4)], 6);
	memcpy(l->smac, mac[match_random(s, 2)], 6);
	put(t, l->dmac, 6);
	put(t, l->smac, 6);
	l->tag_cnt = match_random(s, 4) ? 0 : 1 + match_random(s, 2);
	for (uint32_t i = 0; i < l->tag_cnt; i++) {
		l->tag_type[i] = match_random(s, 2) ? 0x8100 : 0x88a8;
		l->tci[i] = (uint16_t)(match_random(s, 2) << 13 | match_random(s, 2) << 12 |
				       match_random(s, 3));
		put16(t, l->tag_type[i]);
		put16(t, l->tci[i]);
	}
	put16(t, l->ether_type);
}

/* room: bytes that follow the IP header. */
static void put_l3(uint64_t *s, struct truth *t, struct truth_layer *l, uint32_t room)
{
	l->has_l3 = true;
	l->tos = (uint8_t)match_random(s, 8);
	l->ttl = (uint8_t)(1 + match_random(s, 2));
	if (l->version == 4) {
		l->src[12] = l->dst[12] = 10;
		l->src[15] = (uint8_t)(1 + match_random(s, 2));
		l->dst[15] = (uint8_t)match_random(s, 3);
		put(t, (uint8_t[]){0x45, l->tos}, 2);
		put16(t, 20 + room);
		put16(t, 0);
		put16(t, l->frag ? match_random(s, 2) ? 0x2000 : 0x0010 : 0x4000);
		put(t, (uint8_t[]){l->ttl, l->proto, 0, 0}, 4);
		put(t, l->src + 12, 4);
		put(t, l->dst + 12, 4);
		return;
	}
	l->label = match_random(s, 3);
	l->src[0] = l->dst[0] = 0xfd;
	l->src[15] = (uint8_t)(1 + match_random(s, 2));
	l->dst[15] = (uint8_t)match_random(s, 3);
	put16(t, 0x6000u | (uint32_t)l->tos << 4);
	put16(t, l->label);
	put16(t, room + (l->frag ? 8 : 0));
	put(t, (uint8_t[]){l->frag ? 44 : l->proto, l->ttl}, 2);
	put(t, l->src, 16);
	put(t, l->dst, 16);
	if (l->frag)
		put(t, (uint8_t[]){l->proto, 0, 0, match_random(s, 2) ? 1 : 0x10, 0, 0, 0, 0}, 8);
}

static void put_l4(uint64_t *s, struct truth *t, struct truth_layer *l, uint32_t room)
{
	const uint32_t from = t->frame_bytes;

	l->l4 = l->frag || (l->proto != 6 && l->proto != 17) ? 0 : l->proto;
	l->sport = (uint16_t)match_random(s, 3);
	if (l->dport != 4789)
		l->dport = (uint16_t)match_random(s, 3);
	if (l->proto == 17 || l->proto == 6) {
		put16(t, l->sport);
		put16(t, l->dport);
	}
	if (l->proto == 17) {
		put16(t, room);
		put16(t, 0);
	} else if (l->proto == 6) {
		l->flags = (uint16_t)(match_random(s, 2) << 8 | 1u << match_random(s, 5));
		put(t, (uint8_t[8]){0}, 8);
		put(t, (uint8_t[]){(uint8_t)(0x50 | l->flags >> 8), (uint8_t)l->flags}, 2);
		put(t, (uint8_t[6]){0}, 6);
	}
	if (t->frame_bytes - from < room && l->dport != 4789)
		t->frame_bytes = from + room;
}

static uint32_t l4_bytes(uint8_t proto)
{
	return proto == 6 ? 20 : proto == 17 ? 8 : 4;
}

static void choose_l3(uint64_t *s, struct truth_layer *l)
{
	static const uint8_t version[] = {4, 4, 6, 6, 0}, proto[] = {6, 17, 17, 1};

	l->version = version[match_random(s, 5)];
	l->ether_type = l->version == 4 ? 0x800 : l->version == 6 ? 0x86dd : 0x9000;
	l->proto = l->version ? proto[match_random(s, 4)] : 0;
	l->frag = l->version && !match_random(s, 5);
}

static void put_packet(uint64_t *s, struct truth *t, struct truth_layer *l)
{
	if (!l->version)
		return;
	put_l3(s, t, l, l4_bytes(l->proto));
	put_l4(s, t, l, l4_bytes(l->proto));
}

/* The frame of the tunnel is made first, apart, because the outer header has its length. */
static void put_tunnel(uint64_t *s, struct truth *t, bool gre)
{
	struct truth in = {.frame_bytes = 0};
	struct truth_layer *o = &t->outer;
	const bool bare = gre && match_random(s, 2);
	uint32_t gre_bytes;

	choose_l3(s, &in.inner);
	if (bare && !in.inner.version)
		in.inner.version = 4, in.inner.ether_type = 0x800, in.inner.proto = 17;
	t->gre_proto = bare ? in.inner.ether_type : 0x6558;
	if (!bare)
		put_l2(s, &in, &in.inner);
	put_packet(s, &in, &in.inner);
	if (bare)
		in.inner.ether_type = 0;
	o->version = match_random(s, 2) ? 4 : 6;
	o->ether_type = o->version == 4 ? 0x800 : 0x86dd;
	o->frag = false;
	o->proto = gre ? 47 : 17;
	o->dport = gre ? 0 : 4789;
	t->gre_bits = gre ? (uint8_t)(match_random(s, 2) << 7 | match_random(s, 2) << 5 |
				      match_random(s, 2) << 4)
			  : 0;
	gre_bytes = 4 + 4u * (t->gre_bits >> 7) + 4u * (t->gre_bits >> 5 & 1) +
		    4u * (t->gre_bits >> 4 & 1);
	put_l2(s, t, o);
	put_l3(s, t, o, (gre ? gre_bytes : 16) + in.frame_bytes);
	t->inner = in.inner;
	t->has_gre = gre;
	t->has_vni = !gre;
	if (gre) {
		t->gre_key = match_random(s, 3) << 7;
		put(t, (uint8_t[]){t->gre_bits, 0}, 2);
		put16(t, t->gre_proto);
		if (t->gre_bits & 0x80)
			put(t, (uint8_t[4]){0}, 4);
		if (t->gre_bits & 0x20)
			put(t, (uint8_t[]){0, 0, (uint8_t)(t->gre_key >> 8), (uint8_t)t->gre_key},
			    4);
		if (t->gre_bits & 0x10)
			put(t, (uint8_t[4]){9, 9, 9, 9}, 4);
	} else {
		put_l4(s, t, o, 16 + in.frame_bytes);
		t->vni = match_random(s, 3);
		put(t, (uint8_t[]){8, 0, 0, 0, 0, 0, (uint8_t)t->vni, 0}, 8);
	}
	put(t, in.frame, in.frame_bytes);
}

void truth_make(uint64_t *s, struct truth *t)
{
	const uint32_t kind = match_random(s, 4);

	memset(t, 0, sizeof(*t));
	if (kind < 2) {
		put_tunnel(s, t, kind);
		return;
	}
	choose_l3(s, &t->outer);
	put_l2(s, t, &t->outer);
	put_packet(s, t, &t->outer);
}
