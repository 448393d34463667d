/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * From a description to struct spw_obj_desc. A description may begin with a shipped format and
 * replaces keys of it; keys are read in the order of the table, so that a value finds the names
 * that stand in keys above it:
 *
 *   format: gvsp ──> its document ─┐
 *                                  ├─> a place for each key ─> read, in order ─> desc_emit
 *   the user's document ───────────┘   (the user's wins)
 *
 * Untrusted bytes: a file of any content must end in a message. fuzz_obj_desc feeds this file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "obj/desc.h"
#include "obj/spw_obj_page.h"

/* ---- mappings and lists ---- */

bool desc_pair(const struct desc_at *at, size_t idx, struct desc_at *key_out,
	       struct desc_at *value_out)
{
	key_out->yaml = value_out->yaml = at->yaml;
	return spw_yaml_pair(at->yaml, at->node, idx, &key_out->node, &value_out->node);
}

bool desc_item(const struct desc_at *at, size_t idx, struct desc_at *item_out)
{
	*item_out = (struct desc_at){at->yaml, spw_yaml_item(at->yaml, at->node, idx)};
	return item_out->node;
}

/* Only collects where each value stands and reads none of them, so that the caller decides the
 * order of reading: the order of the keys in the document means nothing in YAML. */
int desc_mapping(const struct desc_at *at, const char *inside, const struct spw_yaml_names *names,
		 struct desc_at *at_out)
{
	struct desc_at key, value;
	uint64_t seen = 0;
	uint32_t idx = 0;
	int rc = spw_yaml_expect_mapping(at->yaml, at->node);

	for (size_t i = 0; rc == 0 && desc_pair(at, i, &key, &value); i++) {
		rc = spw_yaml_key(at->yaml, key.node, inside, names, &seen, &idx);
		if (rc == 0)
			at_out[idx] = value;
	}
	return rc;
}

const char *desc_key_name(uint32_t idx, const void *key)
{
	return ((const struct desc_key *)key)[idx].name;
}

/* A key's place in its table is its priority: `order` stands before `fields` there, because a field
 * is placed by the byte order of its part. The array bounds the keys of any mapping below the
 * root; the largest, segments, has 8. */
int desc_mapping_read(struct desc_build *b, const struct desc_at *at, const char *inside,
		      const struct desc_key *key, uint32_t key_cnt)
{
	struct desc_at value[16] = {{NULL, NULL}};
	const struct spw_yaml_names names = {desc_key_name, key, key_cnt};
	int rc = desc_mapping(at, inside, &names, value);

	for (uint32_t i = 0; rc == 0 && i < key_cnt; i++)
		if (value[i].node)
			rc = key[i].read(b, &value[i]);
	return rc;
}

int desc_list_read(struct desc_build *b, const struct desc_at *at, const char *want,
		   int (*read)(struct desc_build *b, const struct desc_at *at))
{
	struct desc_at item;
	int rc = spw_yaml_expect_list(at->yaml, at->node, want);

	for (size_t i = 0; rc == 0 && desc_item(at, i, &item); i++)
		rc = read(b, &item);
	return rc;
}

/* ---- the packet ---- */

static const char *under_name(uint32_t idx, const void *arg)
{
	static const struct spw_enum_word word[] = {SPW_ENUM_WORDS(SPW_OBJ_UNDER)};

	(void)arg;
	return SPW_ENUM_NAME(word, idx);
}

static int under_read(struct desc_build *b, const struct desc_at *at)
{
	uint32_t under;
	int rc = desc_choice(at, under_name, NULL, SPW_OBJ_UNDER_CNT, &under);

	b->desc->plan.under = (enum spw_obj_under)under;
	return rc;
}

/* The plan has one number for both keys, of which only the one that belongs to `under` is allowed.
 * `under` stands above both in the table and is therefore known here. */
static int port_set(struct desc_build *b, const struct desc_at *at, enum spw_obj_under under)
{
	uint64_t port;
	int rc = desc_number(b, at, 0, UINT16_MAX, &port);

	if (rc == 0 && b->desc->plan.under != under)
		rc = desc_fail(at, spw_err(EINVAL, "under: %s has no such number",
					   under_name(b->desc->plan.under, NULL)));
	b->desc->plan.port = (uint16_t)port;
	return rc;
}

static int udp_port_read(struct desc_build *b, const struct desc_at *at)
{
	return port_set(b, at, SPW_OBJ_UNDER_udp);
}

static int ethertype_read(struct desc_build *b, const struct desc_at *at)
{
	return port_set(b, at, SPW_OBJ_UNDER_ethernet);
}

/* ---- the object ---- */

static int number_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_sum_read(b, at, &b->number);
}

static int per_read(struct desc_build *b, const struct desc_at *at)
{
	b->per_at = *at; /* whether `per` fits the counter is known only at the end */
	return desc_number(b, at, 1, UINT64_MAX, &b->per);
}

/* Counts objects, for a sender that begins again at 0 before its field is full. A power of 2, since
 * the window compares keys modulo their width. */
static int wrap_read(struct desc_build *b, const struct desc_at *at)
{
	int rc = desc_number(b, at, 2, 1ull << 32, &b->wrap);

	return rc || SPW_IS_POW2(b->wrap) ? rc : desc_fail(at, spw_err(EINVAL, "a power of 2"));
}

static int align_read(struct desc_build *b, const struct desc_at *at)
{
	static const char *const word[] = {"zero", "first"};
	uint32_t first;
	int rc = desc_choice(at, desc_word, word, SPW_ARRAY_CNT(word), &first);

	b->desc->plan.align_first = first == 1;
	return rc;
}

/* The key of an object has 64 bits, into which the fields of a label are concatenated in the order
 * of the list; the first one is the most significant. */
static int label_field(struct desc_build *b, const struct desc_at *at)
{
	const char *name;
	uint32_t field = 0;
	int rc = desc_text(at, "a field", &name);

	if (rc == 0)
		rc = desc_field_find(b, at, name, &field);
	if (rc == 0 && b->label_cnt == SPW_ARRAY_CNT(b->label))
		rc = desc_fail(at,
			       spw_err(EINVAL, "more than %zu fields", SPW_ARRAY_CNT(b->label)));
	if (rc)
		return rc;
	b->label[b->label_cnt++] = field;
	b->desc->plan.key_bits += b->field[field].bits;
	if (b->desc->plan.key_bits > 64)
		return desc_fail(at, spw_err(EINVAL, "a label of more than 64 bits"));
	return desc_field_use(b, at, field);
}

static int label_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_list_read(b, at, "a list of fields", label_field);
}

static int place_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_sum_read(b, at, &b->place);
}

static int bytes_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_sum_read(b, at, &b->bytes);
}

static int packet_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_sum_read(b, at, &b->packet);
}

static int size_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_sum_read(b, at, &b->size);
}

static int whole_read(struct desc_build *b, const struct desc_at *at)
{
	const struct spw_opt opt = {.kind = SPW_OPT_BOOL,
				    .offset = offsetof(struct desc_build, whole)};
	const char *text;
	int rc = desc_text(at, "yes or no", &text);

	return rc ? rc : spw_yaml_set(at->yaml, &opt, "whole", b, at->node);
}

static int info_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_when_use(b, at, &b->info);
}

static int end_read(struct desc_build *b, const struct desc_at *at)
{
	return desc_when_use(b, at, &b->end);
}

/* ---- the keys ---- */

/* One value of `set`. The values of the format come first in b->set: the user's document may
 * replace those, but not name one of its own a second time. */
static int set_add(struct desc_build *b, const struct desc_at *key, const struct desc_at *at)
{
	struct desc_set *set = &b->set[b->set_cnt];
	const char *name;
	int rc = desc_text(key, "a name", &name);

	for (uint32_t i = 0; rc == 0 && i < b->set_default_cnt; i++)
		if (strcmp(b->set[i].name, name) == 0)
			return desc_number(b, at, 0, UINT64_MAX, &b->set[i].value);
	if (rc == 0 && b->set_cnt == DESC_SET_MAX)
		rc = desc_fail(key, spw_err(EINVAL, "more than %u values", DESC_SET_MAX));
	if (rc == 0)
		rc = desc_name_new(b, key, name, strlen(name));
	if (rc)
		return rc;
	rc = desc_number(b, at, 0, UINT64_MAX, &set->value);
	memcpy(set->name, name, strlen(name) + 1);
	b->set_cnt++;
	return rc;
}

/* Of the format first, then of the user's document, which may use values of it. */
static int set_read(struct desc_build *b, const struct desc_at *at)
{
	struct desc_at key, value;
	int rc = spw_yaml_expect_mapping(at->yaml, at->node);

	for (size_t i = 0; rc == 0 && desc_pair(at, i, &key, &value); i++)
		rc = set_add(b, &key, &value);
	return rc;
}

/* Read before all others, by desc_read. */
static int format_read(struct desc_build *b, const struct desc_at *at)
{
	(void)b;
	(void)at;
	return 0;
}

/* The order of reading: names before what uses them. Therefore `set` comes first (desc_read has
 * used `format` before), `header` and `items`, which make the fields, before the sums and
 * conditions of other keys, `under` before the number of a port, and `shape` before `strides`. */
const struct desc_key desc_root_key[] = {
	{"format", format_read, "a shipped format to begin with; keys given beside it replace its"},
	{"set", set_read, "NAME: NUMBER, to be used by name wherever a number may stand"},
	{"under", under_read, "where the header begins: udp, ethernet or message"},
	{"port", udp_port_read, "UDP destination port; 0: any"},
	{"ethertype", ethertype_read, "Ethernet type"},
	{"header", desc_header_read, "parts, each a list of fields NAME BITS in their order"},
	{"items", desc_items_read, "items behind the header, searched by id"},
	{"packet", packet_read, "sum: bytes of the packet, header included, where it says them"},
	{"only", desc_only_read, "FIELD: NUMBER or a list of them; other frames are not_object"},
	{"number", number_read, "sum: counts packets, samples or objects"},
	{"per", per_read, "how many of them are an object; `part` is the number within it"},
	{"wrap", wrap_read,
	 "objects after which their numbers begin again, where fields do not wrap"},
	{"align", align_read, "where objects begin: zero, or first: at the first frame's number"},
	{"label", label_read, "in place of number: fields that name the object"},
	{"info", info_read, "these frames have no payload for the object"},
	{"end", end_read, "these frames are an object's last"},
	{"size", size_read, "sum: bytes of the object, of formats that say it; 0: unknown"},
	{"bytes", bytes_read, "sum: bytes of payload; else all that follows the header"},
	{"place", place_read, "sum: where in the object the payload belongs"},
	{"whole", whole_read, "yes: the header is part of the payload"},
	{"segments", desc_segments_read, "in place of bytes and place: several a frame"},
	{"wire", desc_wire_read, "type of the elements on the wire"},
	{"order", desc_wire_order_read, "their bytes on the wire: big or little"},
	{"type", desc_type_read, "type of the elements that consumers see; else wire's"},
	{"shape", desc_shape_read, "dimensions of an object, outermost first"},
	{"strides", desc_strides_read, "elements from one to the next in each dimension"},
};

static const char *policy_choice(uint32_t idx)
{
	static const struct spw_enum_word word[] = {SPW_ENUM_WORDS(SPW_OBJ_POLICY)};

	return idx < SPW_OBJ_POLICY_CNT ? word[idx].name : NULL;
}

#define RULE(field) SPW_OPT_FIELD(struct spw_obj_desc, rule.field)

/* Keys that are plain options, so that lib/opt checks their ranges, writes their help and reads
 * their units. They are values of struct spw_obj_desc itself, not of the build. */
const struct spw_opt desc_rule_opt[] = {
	{SPW_OPT_FIELD(struct spw_obj_desc, name), .key = "name", .kind = SPW_OPT_TEXT, .min = 1,
	 .max = SPW_OBJ_NAME_BYTES - 1, .dflt = "objects", .help = "of the stream, in reports"},
	{RULE(deadline_ns), .key = "deadline", .kind = SPW_OPT_TIME, .min = 1000,
	 .max = 3600000000000ull, .dflt = "100ms",
	 .help = "from an object's first frame to its close, whatever is missing then"},
	{RULE(granule), .key = "granule", .kind = SPW_OPT_BYTES, .bare_unit = 1, .dflt = "0",
	 .max = DESC_BYTES_MAX,
	 .help = "bytes of the wire that come or are missing together; 0: as the places say"},
	{RULE(buffers), .key = "buffers", .kind = SPW_OPT_NUMBER, .min = 2,
	 .max = SPW_OBJ_BUFFER_MAX, .demands = SPW_OPT_POW2, .dflt = "8",
	 .help = "objects in memory"},
	{RULE(open_max), .key = "open", .kind = SPW_OPT_NUMBER, .min = 1,
	 .max = SPW_OBJ_BUFFER_MAX - 1, .dflt = "2", .help = "objects being filled at once"},
	{RULE(policy), .key = "policy", .kind = SPW_OPT_CHOICE, .choice = policy_choice,
	 .dflt = "oldest",
	 .help = "when no buffer is free: keep the oldest, or take back for the newest"},
	{RULE(priority), .key = "priority", .kind = SPW_OPT_NUMBER, .max = 255, .dflt = "0",
	 .help = "streams of 0 are shed first"},
	{RULE(fill), .key = "fill", .kind = SPW_OPT_NUMBER, .max = 255, .dflt = "0",
	 .help = "what every missing byte becomes"},
};

#define ROOT_CNT (DESC_ROOT_CNT + DESC_RULE_CNT)
_Static_assert(SPW_ARRAY_CNT(desc_root_key) == DESC_ROOT_CNT, "keys");
_Static_assert(SPW_ARRAY_CNT(desc_rule_opt) == DESC_RULE_CNT, "options");

static const char *root_name(uint32_t idx, const void *arg)
{
	(void)arg;
	return idx < DESC_ROOT_CNT ? desc_root_key[idx].name
				   : desc_rule_opt[idx - DESC_ROOT_CNT].key;
}

/* A number may be the name of a value of `set`. */
static int opt_read(struct desc_build *b, const struct spw_opt *opt, const struct desc_at *at)
{
	const struct desc_set *set;
	const char *text;
	char number[24];
	int rc = desc_text(at, opt->help, &text);

	if (rc)
		return rc;
	set = opt->kind == SPW_OPT_TEXT ? NULL : desc_set_find(b, text);
	if (!set)
		return spw_yaml_set(at->yaml, opt, opt->key, b->desc, at->node);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)set->value);
	rc = spw_opt_set(opt, b->desc, number);
	return rc ? desc_fail(at, spw_err_ctx(rc, "%s", opt->key)) : 0;
}

static int keys_read(struct desc_build *b, const struct desc_at *value)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < ROOT_CNT; i++) {
		if (!value[i].node)
			continue;
		if (i < DESC_ROOT_CNT)
			rc = desc_root_key[i].read(b, &value[i]);
		else
			rc = opt_read(b, &desc_rule_opt[i - DESC_ROOT_CNT], &value[i]);
	}
	return rc;
}

/* ---- what spans several keys ---- */

/* What needs all keys, in the order of dependence: the size of an object, the granule of its
 * places, the steps, which test pieces against the granule; and last, whether the frames of an
 * object can fill it. */
static int build_finish(struct desc_build *b)
{
	const char *lacks = !b->part_cnt                ? "header"
			    : !b->desc->shape.ndim      ? "shape"
			    : b->wire == DESC_TYPE_NONE ? "wire"
							: NULL;
	int rc;

	if (lacks)
		return desc_fail(&b->at,
				 spw_err(EINVAL, "no %s; or begin with format: NAME", lacks));
	if (b->type == DESC_TYPE_NONE)
		b->type = b->wire;
	rc = desc_shape_finish(b);
	if (rc == 0)
		rc = desc_granule_choose(b);
	if (rc == 0)
		rc = desc_emit(b);
	return rc ? rc : desc_places_check(b);
}

/* ---- documents ---- */

static int root_find(const struct spw_yaml *yaml, struct desc_at *value)
{
	const struct spw_yaml_names names = {root_name, NULL, ROOT_CNT};
	const struct desc_at at = {yaml, spw_yaml_root(yaml)};

	if (!at.node)
		return spw_err(EINVAL,
			       "%s:1:1: the file is empty; descriptions are in "
			       "share/spinwire/streams",
			       yaml->name);
	return desc_mapping(&at, "the description", &names, value);
}

/* The format's document, if the description names one. */
static int format_load(const struct desc_at *at, struct spw_yaml *format_out)
{
	const char *name, *text, *nearest;
	char allowed[256];
	size_t bytes;
	int rc = desc_text(at, "the name of a format", &name);

	if (rc)
		return rc;
	text = format_text(name, &bytes);
	if (text)
		return spw_yaml_load(format_out, name, text, bytes);
	nearest = spw_opt_nearest(name, format_cnt(), format_name, NULL);
	spw_opt_join(allowed, sizeof(allowed), format_cnt(), format_name, NULL);
	return desc_fail(at, spw_err(EINVAL, "no format '%.64s'%s%s%s; there are: %s", name,
				     nearest ? "; did you mean '" : "", nearest ? nearest : "",
				     nearest ? "'?" : "", allowed));
}

/* The format's values are there for the user's `set`, which is read behind it. */
static int format_merge(struct desc_build *b, struct desc_at *value, const struct spw_yaml *format)
{
	struct desc_at own[ROOT_CNT] = {{NULL, NULL}};
	int rc = root_find(format, own);

	for (uint32_t i = 0; rc == 0 && i < ROOT_CNT; i++) {
		if (own[i].node && strcmp(root_name(i, NULL), "set") == 0)
			rc = set_read(b, &own[i]);
		else if (!value[i].node)
			value[i] = own[i];
	}
	b->set_default_cnt = b->set_cnt;
	return rc;
}

/* Both documents stay loaded until the end: every value remembers the node that it was read from,
 * and a fault found late is reported with the file and the line of that node. */
static int desc_read(struct desc_build *b, const struct spw_yaml *yaml)
{
	struct desc_at value[ROOT_CNT] = {{NULL, NULL}};
	struct spw_yaml format;
	int rc = root_find(yaml, value);
	bool formatted = rc == 0 && value[0].node; /* `format` is the first key */

	if (formatted) {
		rc = format_load(&value[0], &format);
		if (rc)
			return rc;
	}
	b->at = (struct desc_at){yaml, spw_yaml_root(yaml)};
	if (formatted)
		rc = format_merge(b, value, &format);
	if (rc == 0)
		rc = keys_read(b, value);
	if (rc == 0)
		rc = build_finish(b);
	if (formatted)
		spw_yaml_free(&format);
	return rc;
}

/* Owns the document from here on. Options get their defaults first, and keys then replace them. */
static int desc_begin(struct spw_yaml *yaml, struct spw_obj_desc *desc_out)
{
	struct desc_build b = {
		.desc = desc_out, .big_wire = true, .type = DESC_TYPE_NONE, .wire = DESC_TYPE_NONE};
	int rc;

	memset(desc_out, 0, sizeof(*desc_out));
	rc = spw_opt_defaults(desc_rule_opt, DESC_RULE_CNT, desc_out);
	if (rc == 0)
		rc = desc_read(&b, yaml);
	spw_yaml_free(yaml);
	return rc;
}

int spw_obj_desc_load_text(const char *name, const char *text, size_t bytes,
			   struct spw_obj_desc *desc_out)
{
	struct spw_yaml yaml;
	int rc = spw_yaml_load(&yaml, name, text, bytes);

	return rc ? rc : desc_begin(&yaml, desc_out);
}

int spw_obj_desc_load(const char *path, struct spw_obj_desc *desc_out)
{
	struct spw_yaml yaml;
	int rc = spw_yaml_load_file(&yaml, "objects", path);

	return rc ? rc : desc_begin(&yaml, desc_out);
}
