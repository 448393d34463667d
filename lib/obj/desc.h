/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/obj: a description while it is read. desc.c walks the document, desc_header.c
 * reads what the header is made of, desc_words.c reads single values, desc_emit.c makes the plan.
 */
#ifndef OBJ_DESC_H
#define OBJ_DESC_H

#include "obj/plan.h"
#include "yaml/spw_yaml.h"

#define DESC_FIELD_MAX  64u
#define DESC_PART_MAX   16u
#define DESC_TERM_MAX   6u
#define DESC_TEST_MAX   8u
#define DESC_SET_MAX    16u
#define DESC_NAME_BYTES 32u
#define DESC_BYTES_MAX  (1ull << 40) /* of an object, of all buffers: what a move can name */
#define DESC_TYPE_NONE  UINT32_MAX
#define DESC_PART_BYTES 1024u /* of a part of the header */

/* Where a value stands. */
struct desc_at {
	const struct spw_yaml *yaml;
	const yaml_node_t *node; /* NULL: not given */
};

/* A condition on one field: reg is `value`, or is one of a set of values below 64. */
struct desc_test {
	uint32_t field;
	bool set;
	uint64_t value;
};

/* All tests hold. */
struct desc_when {
	uint32_t cnt;
	struct desc_test test[DESC_TEST_MAX];
};

/* (reg - minus) * times / over, added or subtracted; or, minus 0, reg * by ... * times / over. */
struct desc_term {
	enum plan_reg reg, by[2];
	uint32_t by_cnt;
	bool negative;
	uint64_t minus, times, over;
};

struct desc_sum {
	struct desc_at at;
	uint32_t cnt; /* 0: not given */
	struct desc_term term[DESC_TERM_MAX];
};

struct desc_field {
	char name[DESC_NAME_BYTES];
	uint32_t bits, part;
	uint32_t off; /* bytes from the start of its part */
	uint8_t shift, need;
	bool little;
	uint8_t reg;      /* 0: nothing needs it but its guard */
	uint32_t use_cnt; /* what needs it */
	bool guarded;
	struct desc_test guard;
};

/* A piece of the header: fields of fixed size, or a number of bytes that fields say. */
struct desc_part {
	struct desc_when when; /* cnt 0: always there */
	uint32_t bits, word;   /* of all fields; of the words that they stand in, 0: none */
	bool little;
	struct desc_sum bytes; /* skipped behind the fields */
};

/* Items that are searched by id: SPEAD. */
struct desc_items {
	uint32_t count; /* 1 + its field; 0: none */
	uint32_t id_bits, value_bits;
	uint32_t field, field_cnt;     /* their values, from this field on */
	uint16_t id[PLAN_ITEM_ID_MAX]; /* of the fields, then those that must not be there */
	uint32_t id_cnt;
};

/* Several pieces in a frame, each with a header of its own. */
struct desc_segments {
	uint32_t most; /* 0: none */
	bool inline_data;
	uint32_t part; /* 1 + index of its header's part; 0: none */
	struct desc_when more;
	struct desc_sum place, bytes;
	uint64_t zero; /* bytes, where they come out as 0 */
};

struct desc_set {
	char name[DESC_NAME_BYTES];
	uint64_t value;
};

struct desc_build {
	struct spw_obj_desc *desc;
	struct desc_at at; /* of the description, for what is missing */
	struct desc_set set[DESC_SET_MAX];
	uint32_t set_cnt, set_default_cnt; /* the format's come first */
	struct desc_field field[DESC_FIELD_MAX];
	uint32_t field_cnt;
	struct desc_part part[DESC_PART_MAX];
	uint32_t part_cnt;
	uint32_t reg_cnt; /* registers of fields */
	struct desc_items items;
	struct desc_segments segments;
	struct desc_sum number, place, bytes, size, packet;
	struct desc_at per_at;
	uint64_t per, wrap; /* 0: not given */
	uint32_t label[DESC_TEST_MAX];
	uint32_t label_cnt;
	struct desc_when info, end;
	bool whole, big_wire;
	uint32_t type, wire; /* index of the element types, or DESC_TYPE_NONE */
};

/* One key of a mapping. */
struct desc_key {
	const char *name;
	int (*read)(struct desc_build *b, const struct desc_at *at);
	const char *help;
};

/* All keys, with their help: of the description, of how objects are kept (lib/opt), of a part of
 * the header, of items, of segments. tools/objects_page.c writes spinwire-objects(5) from them. */
enum {
	DESC_ROOT_CNT = 26,
	DESC_RULE_CNT = 8,
	DESC_PART_CNT = 5,
	DESC_ITEMS_CNT = 4,
	DESC_SEGMENTS_CNT = 8
};
extern const struct desc_key desc_root_key[DESC_ROOT_CNT], desc_part_key[DESC_PART_CNT],
	desc_items_key[DESC_ITEMS_CNT], desc_segments_key[DESC_SEGMENTS_CNT];
extern const struct spw_opt desc_rule_opt[DESC_RULE_CNT];

/* Purpose: "FILE:LINE:COLUMN: " in front of the error. Thread: setup. */
int desc_fail(const struct desc_at *at, int rc);

/* Purpose: the places of a mapping's values, by key; unknown and doubled keys are refused.
 * Shape: at_out[cnt]. Thread: setup. */
int desc_mapping(const struct desc_at *at, const char *inside, const struct spw_yaml_names *names,
		 struct desc_at *at_out);
/* Purpose: the same, and calls read of each key that is given, in the order of the table. */
int desc_mapping_read(struct desc_build *b, const struct desc_at *at, const char *inside,
		      const struct desc_key *key, uint32_t key_cnt);
const char *desc_key_name(uint32_t idx, const void *key);

/* Purpose: the pair of a mapping, or the item of a list, as spw_yaml_pair and spw_yaml_item.
 * Returns: false: there are no more. */
bool desc_pair(const struct desc_at *at, size_t idx, struct desc_at *key_out,
	       struct desc_at *value_out);
bool desc_item(const struct desc_at *at, size_t idx, struct desc_at *item_out);

/* Purpose: reads a list, item by item. */
int desc_list_read(struct desc_build *b, const struct desc_at *at, const char *want,
		   int (*read)(struct desc_build *b, const struct desc_at *at));

/* Purpose: index of a text among names; desc_word: of an array of words. */
int desc_choice(const struct desc_at *at, const char *(*name_of)(uint32_t, const void *),
		const void *arg, uint32_t cnt, uint32_t *idx_out);
const char *desc_word(uint32_t idx, const void *words);
int desc_order_read(const struct desc_at *at, bool *little_out);

/* Purpose: a value's text, or its number: of a set value by name, or a number with or without a
 *          unit of bytes. */
int desc_text(const struct desc_at *at, const char *want, const char **text_out);
int desc_number(const struct desc_build *b, const struct desc_at *at, uint64_t min, uint64_t max,
		uint64_t *value_out);

/* Purpose: finds a field by name; desc_field_use also gives it a register. */
int desc_field_find(const struct desc_build *b, const struct desc_at *at, const char *name,
		    uint32_t *field_out);
int desc_field_use(struct desc_build *b, const struct desc_at *at, uint32_t field);

/* Purpose: the value of `set` that has this name; NULL: there is none. */
const struct desc_set *desc_set_find(const struct desc_build *b, const char *name);

/* Purpose: a name of a field or of a set value: letters, digits and _, and new. */
int desc_name_new(const struct desc_build *b, const struct desc_at *at, const char *name,
		  size_t bytes);

/* Purpose: reads a sum, "line * pitch + x / 2 * 5"; of a condition, { m: 1, type: [6, 7] };
 *          desc_when_use also gives its fields registers. */
int desc_sum_read(struct desc_build *b, const struct desc_at *at, struct desc_sum *sum_out);
int desc_when_read(struct desc_build *b, const struct desc_at *at, struct desc_when *when_out);
int desc_when_use(struct desc_build *b, const struct desc_at *at, struct desc_when *when_out);

/* Purpose: the greatest common divisor. Pure. */
SPW_INLINE uint64_t desc_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Purpose: the value of a sum that is one number; 0: it is not. Pure. */
SPW_INLINE uint64_t desc_sum_constant(const struct desc_sum *sum)
{
	return sum->cnt == 1 && sum->term[0].reg == PLAN_REG_ONE && sum->term[0].over == 1
		       ? sum->term[0].times
		       : 0;
}

/* Purpose: the keys that make the header (desc_header.c). */
int desc_header_read(struct desc_build *b, const struct desc_at *at);
int desc_items_read(struct desc_build *b, const struct desc_at *at);
int desc_segments_read(struct desc_build *b, const struct desc_at *at);
int desc_only_read(struct desc_build *b, const struct desc_at *at);

/* Purpose: the keys of what a consumer sees (desc_shape.c), and what they are together. */
int desc_wire_read(struct desc_build *b, const struct desc_at *at);
int desc_wire_order_read(struct desc_build *b, const struct desc_at *at);
int desc_type_read(struct desc_build *b, const struct desc_at *at);
int desc_shape_read(struct desc_build *b, const struct desc_at *at);
int desc_strides_read(struct desc_build *b, const struct desc_at *at);
int desc_shape_finish(struct desc_build *b);
int desc_granule_choose(struct desc_build *b);
int desc_places_check(const struct desc_build *b);
uint64_t desc_place_granule(const struct desc_sum *place);

/* Purpose: the plan of what was read. Errors: -EINVAL with the place. */
int desc_emit(struct desc_build *b);

/* Purpose: text of a shipped format; NULL: there is none of that name. names: format_name(i). */
const char *format_text(const char *name, size_t *bytes_out);
const char *format_name(uint32_t idx, const void *arg);
uint32_t format_cnt(void);

#endif
