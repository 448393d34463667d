/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * From a YAML file to struct spw_conf. libyaml's document interface builds a tree whose nodes keep
 * line and column; this file walks it along the table of keys (keys.c):
 *
 *   root mapping      ports: a list of mappings ──> section_load for each, into spw_conf_port
 *    └ key_find        executor:, memory:, run: ──> section_load, into spw_conf
 *       └ section_load   each pair: key_find ──> value_set ──> spw_opt_set (lib/opt)
 *
 * Every message begins with FILE:LINE:COLUMN of the node that caused it. The walk is as deep as the
 * table is (a list of mappings of scalars), so an alias to its own parent ends as a wrong type and
 * not as an endless loop.
 *
 * Untrusted bytes: a file of any content must end in a message. fuzz_conf feeds this file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/spw_err.h"
#include "conf/conf_impl.h"

/* libyaml compares each anchor and each tag directive with all earlier ones: a file is short. */
#define FILE_BYTES_MAX (64u << 10)
#define DEPTH_MAX      8 /* the table of keys needs 4 */

struct walk {
	struct spw_conf *conf;
	yaml_document_t doc;
};

static int fail_mark(const struct walk *w, const yaml_mark_t *mark, int rc)
{
	return spw_err_ctx(rc, "%s:%zu:%zu", w->conf->file, mark->line + 1, mark->column + 1);
}

static const char *kind_name(const yaml_node_t *node)
{
	switch (node->type) {
	case YAML_SCALAR_NODE:
		return "a single value";
	case YAML_SEQUENCE_NODE:
		return "a list";
	case YAML_MAPPING_NODE:
		return "a mapping";
	default:
		return "nothing";
	}
}

/* Every node that is used passes here: it must be of the right kind, and have no tag of its own. */
static int node_expect(const struct walk *w, const yaml_node_t *node, yaml_node_type_t type,
		       const char *tag, const char *want)
{
	if (node->type != type)
		return fail_mark(w, &node->start_mark,
				 spw_err(EINVAL, "%s where %s is wanted", kind_name(node), want));
	if (node->tag && strcmp((const char *)node->tag, tag))
		return fail_mark(w, &node->start_mark,
				 spw_err(EINVAL, "the tag '%.64s' is not used here", node->tag));
	return 0;
}

static int mapping_expect(const struct walk *w, const yaml_node_t *node)
{
	return node_expect(w, node, YAML_MAPPING_NODE, YAML_MAP_TAG,
			   "a mapping (key: value, in YAML or JSON)");
}

/* Values become C strings, so a NUL byte inside one is refused. */
static int scalar_expect(const struct walk *w, const yaml_node_t *node, const char *want)
{
	int rc = node_expect(w, node, YAML_SCALAR_NODE, YAML_STR_TAG, want);

	if (rc == 0 && memchr(node->data.scalar.value, '\0', node->data.scalar.length))
		rc = fail_mark(w, &node->start_mark, spw_err(EINVAL, "a NUL byte in a value"));
	return rc;
}

static const char *scalar_text(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

/* ---- one value ---- */

/* A quoted text is taken only where text is wanted: seconds: "10" is more likely a mistake than a
 * number. */
static int scalar_set(struct walk *w, const struct spw_opt *key, void *base,
		      const yaml_node_t *node)
{
	bool quoted = node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	char place[96];
	int rc;

	snprintf(place, sizeof(place), "%s.%s", key->section, key->key);
	if (quoted && key->kind != SPW_OPT_TEXT && key->kind != SPW_OPT_CHOICE)
		rc = spw_err(EINVAL,
			     "a quoted text where a plain value is wanted; leave the quotes out");
	else if (!quoted && node->data.scalar.length == 0)
		rc = spw_err(EINVAL, "no value");
	else
		rc = spw_opt_set(key, base, scalar_text(node));
	return rc ? fail_mark(w, &node->start_mark, spw_err_ctx(rc, "%s", place)) : 0;
}

/* Each item is added to what the list has: value_set has emptied it before. */
static int list_set(struct walk *w, const struct spw_opt *key, void *base, const yaml_node_t *node)
{
	const yaml_node_item_t *item = node->data.sequence.items.start;
	int rc = node_expect(w, node, YAML_SEQUENCE_NODE, YAML_SEQ_TAG, "a list of cores");

	for (; rc == 0 && item < node->data.sequence.items.top; item++) {
		yaml_node_t *one = yaml_document_get_node(&w->doc, *item);

		rc = scalar_expect(w, one, "a core number");
		if (rc == 0)
			rc = scalar_set(w, key, base, one);
	}
	return rc;
}

/* Lists of cores are given as a YAML list or as "2,4-7" and replace what a default had put there.
 */
static int value_set(struct walk *w, const struct spw_opt *key, void *base, const yaml_node_t *node)
{
	struct spw_conf_cores *cores =
		(struct spw_conf_cores *)(void *)((char *)base + key->offset);
	char want[160] = "a value; allowed: ";
	size_t used = strlen(want);
	int rc;

	if (conf_is_cores(key)) {
		*cores = (struct spw_conf_cores){.where = {(uint32_t)node->start_mark.line + 1,
							   (uint32_t)node->start_mark.column + 1,
							   NULL}};
		if (node->type == YAML_SEQUENCE_NODE)
			return list_set(w, key, base, node);
	}
	spw_opt_range(key, want + used, sizeof(want) - used);
	rc = scalar_expect(w, node, want);
	return rc ? rc : scalar_set(w, key, base, node);
}

/* ---- mappings ---- */

/* NULL leaves a name out, as spw_opt_join and spw_opt_nearest expect. */
static const char *key_name(uint32_t idx, const void *section)
{
	return strcmp(conf_table[idx].section, section) ? NULL : conf_table[idx].key;
}

/* Names of the sections, each once. */
static const char *section_name(uint32_t idx, const void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < idx; i++)
		if (strcmp(conf_table[i].section, conf_table[idx].section) == 0)
			return NULL;
	return conf_table[idx].section;
}

/* Finds the key of a pair among names; each at most once a mapping. */
static int key_find(const struct walk *w, const yaml_node_t *node, const char *inside,
		    const char *(*name_of)(uint32_t idx, const void *arg), const void *arg,
		    uint64_t *seen, uint32_t *idx_out)
{
	const char *text, *nearest, *name;
	char allowed[256];
	int rc = scalar_expect(w, node, "a key");

	if (rc)
		return rc;
	text = scalar_text(node);
	for (uint32_t i = 0; i < conf_table_cnt; i++) {
		name = name_of(i, arg);
		if (!name || strcmp(name, text))
			continue;
		if (*seen & (1ull << i))
			return fail_mark(
				w, &node->start_mark,
				spw_err(EINVAL, "'%s' is given twice in %s", text, inside));
		*seen |= 1ull << i;
		*idx_out = i;
		return 0;
	}
	spw_opt_join(allowed, sizeof(allowed), conf_table_cnt, name_of, arg);
	nearest = spw_opt_nearest(text, conf_table_cnt, name_of, arg);
	return fail_mark(w, &node->start_mark,
			 spw_err(EINVAL, "unknown key '%.64s' in %s%s%s%s; allowed: %s", text,
				 inside, nearest ? ", did you mean '" : "", nearest ? nearest : "",
				 nearest ? "'" : "", allowed));
}

/* Loads one mapping; base is the struct that holds the section's fields. */
static int section_load(struct walk *w, const char *section, void *base, const yaml_node_t *node)
{
	const yaml_node_pair_t *pair;
	uint64_t seen = 0;
	uint32_t idx = 0;
	int rc = mapping_expect(w, node);

	if (rc)
		return rc;
	for (pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
		rc = key_find(w, yaml_document_get_node(&w->doc, pair->key), section, key_name,
			      section, &seen, &idx);
		if (rc == 0)
			rc = value_set(w, &conf_table[idx], base,
				       yaml_document_get_node(&w->doc, pair->value));
		if (rc)
			return rc;
	}
	return 0;
}

/* The file's ports replace all earlier ones; each starts with the defaults. */
static int ports_load(struct walk *w, const yaml_node_t *node)
{
	const yaml_node_item_t *item = node->data.sequence.items.start;
	int rc = node_expect(w, node, YAML_SEQUENCE_NODE, YAML_SEQ_TAG,
			     "a list of ports (- spec: ...)");

	w->conf->port_cnt = 0;
	for (; rc == 0 && item < node->data.sequence.items.top; item++) {
		yaml_node_t *one = yaml_document_get_node(&w->doc, *item);
		struct spw_conf_port *port = conf_port_add(w->conf);

		if (!port)
			return fail_mark(w, &one->start_mark,
					 spw_err(EINVAL, "more than %u ports", SPW_PORT_MAX));
		port->where.line = (uint32_t)one->start_mark.line + 1;
		port->where.column = (uint32_t)one->start_mark.column + 1;
		rc = section_load(w, CONF_PORTS, port, one);
	}
	return rc;
}

/* section_name offers each section once although the table names it once per key. */
static int root_load(struct walk *w)
{
	const yaml_node_t *root = yaml_document_get_root_node(&w->doc);
	const yaml_node_pair_t *pair;
	uint64_t seen = 0;
	uint32_t idx = 0;
	int rc;

	if (!root)
		return spw_err(
			EINVAL,
			"%s:1:1: the file is empty; examples are in config/ and share/doc/spinwire",
			w->conf->file);
	rc = mapping_expect(w, root);
	if (rc)
		return rc;
	for (pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
		const yaml_node_t *value = yaml_document_get_node(&w->doc, pair->value);

		rc = key_find(w, yaml_document_get_node(&w->doc, pair->key), "the file",
			      section_name, NULL, &seen, &idx);
		if (rc)
			return rc;
		if (strcmp(conf_table[idx].section, CONF_PORTS) == 0)
			rc = ports_load(w, value);
		else
			rc = section_load(w, conf_table[idx].section, w->conf, value);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- documents ---- */

/* The most common mistake gets a text of its own; libyaml says only "found character that cannot
 * start any token". */
static const char *problem_text(const yaml_parser_t *parser)
{
	if (parser->buffer.pointer < parser->buffer.last && *parser->buffer.pointer == '\t')
		return "a tab: YAML indents with spaces only";
	return parser->problem ? parser->problem : "not YAML";
}

/* libyaml's mark is where it noticed the problem. */
static int parser_fail(const struct walk *w, const yaml_parser_t *parser)
{
	const yaml_mark_t *mark = &parser->problem_mark;

	if (parser->error == YAML_MEMORY_ERROR)
		return spw_err(ENOMEM, "%s: not enough memory to read it", w->conf->file);
	if (parser->error == YAML_READER_ERROR)
		mark = &parser->mark; /* bytes that are no text: as far as was read */
	return fail_mark(w, mark, spw_err(EINVAL, "%s", problem_text(parser)));
}

/* Nothing may follow the one document. */
static int end_expect(struct walk *w, yaml_parser_t *parser)
{
	yaml_document_t doc;
	const yaml_node_t *root;
	int rc = 0;

	if (!yaml_parser_load(parser, &doc))
		return parser_fail(w, parser);
	root = yaml_document_get_root_node(&doc);
	if (root)
		rc = fail_mark(w, &root->start_mark,
			       spw_err(EINVAL, "a second document; the file has one"));
	yaml_document_delete(&doc);
	return rc;
}

/* The text stays the caller's, and outlives the parser. */
static int parser_open(yaml_parser_t *parser, const char *name, const char *text, size_t bytes)
{
	if (!yaml_parser_initialize(parser))
		return spw_err(ENOMEM, "%s: not enough memory to read it", name);
	yaml_parser_set_input_string(parser, (const unsigned char *)text, bytes);
	return 0;
}

/* What libyaml does for a token grows with the depth at it, so a file of brackets alone would take
 * minutes. Depth is judged event by event, before a document is made of them. */
static int depth_check(const struct walk *w, const char *text, size_t bytes)
{
	yaml_parser_t parser;
	bool more = true;
	int depth = 0, rc = parser_open(&parser, w->conf->file, text, bytes);

	if (rc)
		return rc;
	while (rc == 0 && more) {
		yaml_event_t event;

		if (!yaml_parser_parse(&parser, &event))
			break; /* parsing the document meets it again, and reports it */
		depth += event.type == YAML_SEQUENCE_START_EVENT ||
			 event.type == YAML_MAPPING_START_EVENT;
		depth -= event.type == YAML_SEQUENCE_END_EVENT ||
			 event.type == YAML_MAPPING_END_EVENT;
		if (depth > DEPTH_MAX)
			rc = fail_mark(w, &event.start_mark,
				       spw_err(EINVAL,
					       "lists and mappings inside each other, "
					       "deeper than %d",
					       DEPTH_MAX));
		more = event.type != YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return rc;
}

/* Depth is checked in a pass of its own, before libyaml builds a document. */
int spw_conf_load_text(struct spw_conf *conf, const char *name, const char *text, size_t bytes)
{
	struct walk w = {.conf = conf};
	yaml_parser_t parser;
	int rc;

	snprintf(conf->file, sizeof(conf->file), "%s", name);
	if (bytes > FILE_BYTES_MAX)
		return spw_err(EFBIG, "%s: larger than %u KiB", name, FILE_BYTES_MAX >> 10);
	rc = depth_check(&w, text, bytes);
	if (rc == 0)
		rc = parser_open(&parser, name, text, bytes);
	if (rc)
		return rc;
	if (!yaml_parser_load(&parser, &w.doc)) {
		rc = parser_fail(&w, &parser);
		yaml_parser_delete(&parser);
		return rc;
	}
	rc = root_load(&w);
	yaml_document_delete(&w.doc);
	if (rc == 0)
		rc = end_expect(&w, &parser);
	yaml_parser_delete(&parser);
	return rc;
}

/* Reads one byte more than is allowed, so that a file of exactly the limit passes and a larger one
 * does not. */
int spw_conf_load(struct spw_conf *conf, const char *path)
{
	FILE *file = fopen(path, "rb");
	char *text;
	size_t got;
	int rc;

	if (!file)
		return spw_err(errno, "config %s: %s", path, strerror(errno));
	text = malloc(FILE_BYTES_MAX + 1);
	got = text ? fread(text, 1, FILE_BYTES_MAX + 1, file) : 0;
	if (!text)
		rc = spw_err(ENOMEM, "config %s: not enough memory to read it", path);
	else if (ferror(file))
		rc = errno == EISDIR
			     ? spw_err(EINVAL, "config %s: is a folder; name the file in it", path)
			     : spw_err(errno, "config %s: %s", path, strerror(errno));
	else
		rc = spw_conf_load_text(conf, path, text, got);
	free(text);
	fclose(file);
	return rc;
}
