/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a header is made of: parts one after the other, each a list of fields ("NAME BITS", _ for
 * bits that nobody needs) that follow each other without gaps, as standards draw them. A part may
 * depend on fields before it, be little-endian, or be a number of bytes that fields say.
 *
 *   header:
 *     - [version 2, _ 2, count 4]
 *     - { when: { version: 1 }, order: little, fields: [stamp 64] }
 *     - { bytes: count * 4 }
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "obj/desc.h"

/* ---- fields ---- */

static struct desc_part *part_last(struct desc_build *b)
{
	return &b->part[b->part_cnt - 1];
}

/* A big-endian field lies within the 8 bytes from the one that it begins in. A little-endian one
 * is counted from the top of its word; where no word is named it is one, at any byte. Either way a
 * run loads 8 bytes, shifts them right by `shift` and masks them; the packet must have the first
 * `need` of them, counted from `off`:
 *
 *   big, 12 bits from bit 4 on   |....xxxx|xxxxxxxx|   off 0, need 2, shift 48
 */
static int field_place(const struct desc_part *part, struct desc_field *field)
{
	uint32_t word = part->word ? part->word : field->bits, first = part->bits % 8;
	uint32_t from = part->word ? part->bits % word : 0; /* bit of the word */

	if (part->little) {
		if (word % 8 || (part->bits - from) % 8 || from + field->bits > word)
			return spw_err(EINVAL,
				       "a little-endian field is whole bytes, or lies in one word: "
				       "word: 16, 32 or 64");
		field->off = (part->bits - from) / 8;
		field->need = (uint8_t)(word / 8);
		field->shift = (uint8_t)(word - from - field->bits);
		return 0;
	}
	if (first + field->bits > 64)
		return spw_err(EINVAL, "%u bits from bit %u of a byte on are more than 8 bytes",
			       field->bits, first);
	field->off = part->bits / 8;
	field->need = (uint8_t)((first + field->bits + 7) / 8);
	field->shift = (uint8_t)(64 - first - field->bits);
	return 0;
}

/* Bits named _ take room and no entry: standards have far more reserved bits than a description has
 * fields, and they may be longer than the 64 bits of a field. */
static int field_add(struct desc_build *b, const struct desc_at *at, const char *text, size_t bytes,
		     uint32_t bits)
{
	struct desc_part *part = part_last(b);
	struct desc_field *field = &b->field[b->field_cnt];
	int rc;

	if (part->bits + bits > DESC_PART_BYTES * 8)
		return desc_fail(at,
				 spw_err(EINVAL, "a part of more than %u bytes: beyond any header",
					 DESC_PART_BYTES));
	if (bytes != 1 || text[0] != '_') {
		if (b->field_cnt == DESC_FIELD_MAX)
			return desc_fail(at,
					 spw_err(EINVAL, "more than %u fields", DESC_FIELD_MAX));
		rc = desc_name_new(b, at, text, bytes);
		if (rc)
			return rc;
		*field = (struct desc_field){
			.bits = bits, .part = b->part_cnt - 1, .little = part->little};
		memcpy(field->name, text, bytes);
		if (bits > 64)
			return desc_fail(at, spw_err(EINVAL, "%s has %u bits; a field has 1 .. 64",
						     field->name, bits));
		rc = field_place(part, field);
		if (rc)
			return desc_fail(at, spw_err_ctx(rc, "%s", field->name));
		b->field_cnt++;
	}
	part->bits += bits;
	return 0;
}

/* "NAME BITS" */
static int field_read(struct desc_build *b, const struct desc_at *at)
{
	const char *text;
	char *end;
	unsigned long bits;
	size_t bytes;
	int rc = desc_text(at, "a field, as seq 32", &text);

	if (rc)
		return rc;
	bytes = strcspn(text, " ");
	bits = strtoul(text + bytes, &end, 10);
	if (bytes == 0 || text[bytes] == '\0' || *end || bits == 0 || bits > DESC_PART_BYTES * 8)
		return desc_fail(at,
				 spw_err(EINVAL,
					 "'%.48s' is no field; a field is its name and its bits, "
					 "as seq 32; _ 3 are bits that nothing needs",
					 text));
	return field_add(b, at, text, bytes, (uint32_t)bits);
}

/* ---- parts ---- */

/* The callbacks of a part's keys get no part: it is always the last one of the build, which
 * part_begin has added. */
static int part_when(struct desc_build *b, const struct desc_at *at)
{
	return desc_when_use(b, at, &part_last(b)->when);
}

static int part_order(struct desc_build *b, const struct desc_at *at)
{
	return desc_order_read(at, &part_last(b)->little);
}

static int part_word(struct desc_build *b, const struct desc_at *at)
{
	uint64_t bits;
	int rc = desc_number(b, at, 16, 64, &bits);

	if (rc == 0 && !SPW_IS_POW2(bits))
		rc = desc_fail(at, spw_err(EINVAL, "a word has 16, 32 or 64 bits"));
	part_last(b)->word = (uint32_t)bits;
	return rc;
}

static int part_fields(struct desc_build *b, const struct desc_at *at)
{
	return desc_list_read(b, at, "a list of fields, as [seq 32]", field_read);
}

static int part_bytes(struct desc_build *b, const struct desc_at *at)
{
	return desc_sum_read(b, at, &part_last(b)->bytes);
}

const struct desc_key desc_part_key[] = {
	{"when", part_when, "the part is there if these fields have these values"},
	{"order", part_order, "big or little: of the bytes of its fields"},
	{"word", part_word, "little: bits of the words that its fields stand in"},
	{"fields", part_fields, "its fields, NAME BITS"},
	{"bytes", part_bytes, "a number of bytes, behind its fields, that nothing needs"},
};

static int part_begin(struct desc_build *b, const struct desc_at *at)
{
	if (b->part_cnt == DESC_PART_MAX)
		return desc_fail(at, spw_err(EINVAL, "more than %u parts", DESC_PART_MAX));
	b->part[b->part_cnt++] = (struct desc_part){0};
	return 0;
}

/* Parts begin at whole bytes, so that an offset that a part shifts at run time (`when`, `bytes`)
 * never shifts bits. */
static int part_end(struct desc_build *b, const struct desc_at *at)
{
	const struct desc_part *part = part_last(b);

	if (part->bits % 8 || (part->word && part->bits % part->word))
		return desc_fail(at,
				 spw_err(EINVAL,
					 "the part's %u bits end within a %s; fill it with _ BITS",
					 part->bits, part->bits % 8 ? "byte" : "word"));
	if (part->bits == 0 && part->bytes.cnt == 0)
		return desc_fail(at, spw_err(EINVAL, "a part without fields and bytes"));
	return 0;
}

static int part_read(struct desc_build *b, const struct desc_at *at)
{
	int rc = part_begin(b, at);

	if (rc)
		return rc;
	if (at->node->type == YAML_SEQUENCE_NODE)
		rc = part_fields(b, at);
	else
		rc = desc_mapping_read(b, at, "a part of the header", desc_part_key, DESC_PART_CNT);
	return rc ? rc : part_end(b, at);
}

int desc_header_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_list_read(b, at, "a list of parts, each a list of fields", part_read);
}

/* A guard of a field that stands in an absent part holds. A guard needs no register where the load
 * itself can compare: one value of a big-endian field. A set of values, or bytes that have to be
 * swapped first, do need one. */
int desc_only_read(struct desc_build *b, const struct desc_at *at)
{
	struct desc_when when;
	int rc = desc_when_read(b, at, &when);

	for (uint32_t i = 0; rc == 0 && i < when.cnt; i++) {
		struct desc_field *field = &b->field[when.test[i].field];

		if (field->guarded)
			return desc_fail(at,
					 spw_err(EINVAL, "only of %s is given twice", field->name));
		field->guarded = true;
		field->guard = when.test[i];
		if (field->guard.set || field->little)
			rc = desc_field_use(b, at, when.test[i].field);
	}
	return rc;
}

/* ---- items ---- */

static int items_count(struct desc_build *b, const struct desc_at *at)
{
	const char *name;
	int rc = desc_text(at, "a field", &name);

	uint32_t field;

	if (rc == 0)
		rc = desc_field_find(b, at, name, &field);
	if (rc)
		return rc;
	b->items.count = 1 + field;
	return desc_field_use(b, at, field);
}

static int items_id(struct desc_build *b, const struct desc_at *at)
{
	uint64_t bits;
	int rc = desc_number(b, at, 1, 16, &bits);

	b->items.id_bits = (uint32_t)bits;
	return rc;
}

static int items_lack(const struct desc_at *at)
{
	return desc_fail(at, spw_err(EINVAL, "items need count, id and fields"));
}

/* The ids of fields and those of `none` share one list: the run searches all of them in one pass
 * and accepts a frame in which exactly the first field_cnt were found. */
static int item_id(struct desc_build *b, const struct desc_at *at)
{
	uint64_t id;
	int rc;

	if (!b->items.count || !b->items.id_bits)
		return items_lack(at);
	rc = desc_number(b, at, 0, UINT64_MAX >> (64 - b->items.id_bits), &id);
	if (rc == 0 && b->items.id_cnt == PLAN_ITEM_ID_MAX)
		rc = desc_fail(at, spw_err(EINVAL, "more than %u ids", PLAN_ITEM_ID_MAX));
	for (uint32_t i = 0; rc == 0 && i < b->items.id_cnt; i++)
		if (b->items.id[i] == id)
			rc = desc_fail(at, spw_err(EINVAL, "the id is given twice"));
	if (rc == 0)
		b->items.id[b->items.id_cnt++] = (uint16_t)id;
	return rc;
}

/* Registers of consecutive fields follow each other, because nothing else comes between. */
static int items_fields(struct desc_build *b, const struct desc_at *at)
{
	struct desc_at key, value;
	int rc = spw_yaml_expect_mapping(at->yaml, at->node);

	b->items.field = b->field_cnt;
	for (size_t i = 0; rc == 0 && desc_pair(at, i, &key, &value); i++) {
		struct desc_field *field = &b->field[b->field_cnt];
		const char *name;

		rc = desc_text(&key, "a name", &name);
		if (rc == 0)
			rc = desc_name_new(b, &key, name, strlen(name));
		if (rc == 0 && b->field_cnt == DESC_FIELD_MAX)
			rc = desc_fail(&key,
				       spw_err(EINVAL, "more than %u fields", DESC_FIELD_MAX));
		if (rc == 0)
			rc = item_id(b, &value);
		if (rc)
			return rc;
		/* Of no part: an item is where it is found, so no step may load it by an offset. */
		*field = (struct desc_field){.bits = 64 - b->items.id_bits, .part = DESC_PART_MAX};
		memcpy(field->name, name, strlen(name));
		rc = desc_field_use(b, &key, b->field_cnt++);
		b->items.field_cnt++;
	}
	return rc;
}

static int items_none(struct desc_build *b, const struct desc_at *at)
{
	return desc_list_read(b, at, "a list of ids", item_id);
}

const struct desc_key desc_items_key[] = {
	{"count", items_count, "field with the number of items of 8 bytes"},
	{"id", items_id, "bits of an item that are its id, 1 .. 16; the rest is its value"},
	{"fields", items_fields, "NAME: ID of items that a frame must have"},
	{"none", items_none, "ids of items that a frame of objects does not have"},
};

int desc_items_read(struct desc_build *b, const struct desc_at *at)
{
	int rc = desc_mapping_read(b, at, "items", desc_items_key, DESC_ITEMS_CNT);

	if (rc == 0 && b->items.field_cnt == 0)
		rc = items_lack(at);
	b->items.value_bits = 64 - b->items.id_bits;
	return rc;
}

/* ---- segments ---- */

static int segments_most(struct desc_build *b, const struct desc_at *at)
{
	uint64_t most;
	int rc = desc_number(b, at, 1, SPW_OBJ_PIECE_MAX, &most);

	b->segments.most = (uint32_t)most;
	return rc;
}

static int segments_data(struct desc_build *b, const struct desc_at *at)
{
	static const char *const word[] = {"after", "inline"};
	uint32_t idx;
	int rc = desc_choice(at, desc_word, word, SPW_ARRAY_CNT(word), &idx);

	b->segments.inline_data = idx == 1;
	return rc;
}

static int segments_header(struct desc_build *b, const struct desc_at *at)
{
	int rc = part_begin(b, at);

	b->segments.part = b->part_cnt;
	if (rc == 0)
		rc = part_fields(b, at);
	return rc ? rc : part_end(b, at);
}

static int segments_more(struct desc_build *b, const struct desc_at *at)
{
	return desc_when_use(b, at, &b->segments.more);
}

static int segments_bytes(struct desc_build *b, const struct desc_at *at)
{
	return desc_sum_read(b, at, &b->segments.bytes);
}

static int segments_zero(struct desc_build *b, const struct desc_at *at)
{
	return desc_number(b, at, 1, DESC_BYTES_MAX, &b->segments.zero);
}

static int segments_place(struct desc_build *b, const struct desc_at *at)
{
	return desc_sum_read(b, at, &b->segments.place);
}

const struct desc_key desc_segments_key[] = {
	{"most", segments_most, "segments of a frame, at most"},
	{"data", segments_data, "after: behind all headers; inline: each behind its own"},
	{"header", segments_header, "fields of a segment's header"},
	{"only", desc_only_read, "as above, of these fields"},
	{"more", segments_more, "another one follows; else they go on to the packet's end"},
	{"bytes", segments_bytes, "length of its data"},
	{"zero", segments_zero, "its length where bytes comes out as 0, of formats where 0 is all"},
	{"place", segments_place, "where in the object it belongs"},
};

/* Where data follows all headers, nothing but a field can say where the headers end. Inline data
 * needs no such field: the next header follows until the packet is used up. */
int desc_segments_read(struct desc_build *b, const struct desc_at *at)
{
	struct desc_segments *s = &b->segments;
	int rc = desc_mapping_read(b, at, "segments", desc_segments_key, DESC_SEGMENTS_CNT);

	if (rc == 0 && (!s->most || !s->part || !s->bytes.cnt || !s->place.cnt))
		rc = desc_fail(at, spw_err(EINVAL, "segments need most, header, bytes and place"));
	if (rc == 0 && !s->inline_data && !s->more.cnt)
		rc = desc_fail(at, spw_err(EINVAL, "data: after needs more: when is there another "
						   "header?"));
	return rc;
}
