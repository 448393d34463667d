/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Documents of libyaml, and what all their users check in the same words (spw_yaml.h). lib/conf and
 * lib/obj walk the nodes, each along its own table of keys. fuzz_conf and fuzz_obj_desc feed this
 * file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "yaml/spw_yaml.h"

/* libyaml compares each anchor and each tag directive with all earlier ones: a file is short. */
#define FILE_BYTES_MAX (64u << 10)
#define DEPTH_MAX      8 /* the tables of keys need 6 */

static int fail_mark(const struct spw_yaml *yaml, const yaml_mark_t *mark, int rc)
{
	return spw_err_ctx(rc, "%s:%zu:%zu", yaml->name, mark->line + 1, mark->column + 1);
}

int spw_yaml_fail(const struct spw_yaml *yaml, const yaml_node_t *node, int rc)
{
	return fail_mark(yaml, &node->start_mark, rc);
}

/* libyaml's call takes a document that is not const, and changes nothing in it. */
static const yaml_node_t *node_at(const struct spw_yaml *yaml, int index)
{
	return yaml_document_get_node((yaml_document_t *)(uintptr_t)&yaml->doc, index);
}

/* libyaml numbers nodes from 1, the root first. */
const yaml_node_t *spw_yaml_root(const struct spw_yaml *yaml)
{
	return node_at(yaml, 1);
}

bool spw_yaml_pair(const struct spw_yaml *yaml, const yaml_node_t *mapping, size_t idx,
		   const yaml_node_t **key_out, const yaml_node_t **value_out)
{
	const yaml_node_pair_t *first = mapping->data.mapping.pairs.start;

	if (idx >= (size_t)(mapping->data.mapping.pairs.top - first))
		return false;
	*key_out = node_at(yaml, first[idx].key);
	*value_out = node_at(yaml, first[idx].value);
	return true;
}

const yaml_node_t *spw_yaml_item(const struct spw_yaml *yaml, const yaml_node_t *list, size_t idx)
{
	const yaml_node_item_t *first = list->data.sequence.items.start;

	return idx < (size_t)(list->data.sequence.items.top - first) ? node_at(yaml, first[idx])
								     : NULL;
}

const char *spw_yaml_text(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

/* ---- nodes ---- */

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

static int node_expect(const struct spw_yaml *yaml, const yaml_node_t *node, yaml_node_type_t type,
		       const char *tag, const char *want)
{
	if (node->type != type)
		return spw_yaml_fail(
			yaml, node,
			spw_err(EINVAL, "%s where %s is wanted", kind_name(node), want));
	if (node->tag && strcmp((const char *)node->tag, tag))
		return spw_yaml_fail(
			yaml, node, spw_err(EINVAL, "the tag '%.64s' is not used here", node->tag));
	return 0;
}

int spw_yaml_expect_mapping(const struct spw_yaml *yaml, const yaml_node_t *node)
{
	return node_expect(yaml, node, YAML_MAPPING_NODE, YAML_MAP_TAG,
			   "a mapping (key: value, in YAML or JSON)");
}

int spw_yaml_expect_list(const struct spw_yaml *yaml, const yaml_node_t *node, const char *want)
{
	return node_expect(yaml, node, YAML_SEQUENCE_NODE, YAML_SEQ_TAG, want);
}

/* Values become C strings, so a NUL byte inside one is refused. */
int spw_yaml_expect_value(const struct spw_yaml *yaml, const yaml_node_t *node, const char *want)
{
	int rc = node_expect(yaml, node, YAML_SCALAR_NODE, YAML_STR_TAG, want);

	if (rc == 0 && memchr(node->data.scalar.value, '\0', node->data.scalar.length))
		rc = spw_yaml_fail(yaml, node, spw_err(EINVAL, "a NUL byte in a value"));
	return rc;
}

int spw_yaml_key(const struct spw_yaml *yaml, const yaml_node_t *node, const char *inside,
		 const struct spw_yaml_names *names, uint64_t *seen, uint32_t *idx_out)
{
	const char *text, *nearest, *name;
	char allowed[256];
	int rc = spw_yaml_expect_value(yaml, node, "a key");

	if (rc)
		return rc;
	text = spw_yaml_text(node);
	for (uint32_t i = 0; i < names->cnt; i++) {
		name = names->name_of(i, names->arg);
		if (!name || strcmp(name, text))
			continue;
		if (*seen & (1ull << i))
			return spw_yaml_fail(
				yaml, node,
				spw_err(EINVAL, "'%s' is given twice in %s", text, inside));
		*seen |= 1ull << i;
		*idx_out = i;
		return 0;
	}
	spw_opt_join(allowed, sizeof(allowed), names->cnt, names->name_of, names->arg);
	nearest = spw_opt_nearest(text, names->cnt, names->name_of, names->arg);
	return spw_yaml_fail(yaml, node,
			     spw_err(EINVAL, "unknown key '%.64s' in %s%s%s%s; allowed: %s", text,
				     inside, nearest ? ", did you mean '" : "",
				     nearest ? nearest : "", nearest ? "'" : "", allowed));
}

int spw_yaml_set(const struct spw_yaml *yaml, const struct spw_opt *opt, const char *label,
		 void *base, const yaml_node_t *node)
{
	bool quoted = node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	int rc;

	if (quoted && opt->kind != SPW_OPT_TEXT && opt->kind != SPW_OPT_CHOICE)
		rc = spw_err(EINVAL,
			     "a quoted text where a plain value is wanted; leave the quotes out");
	else if (!quoted && node->data.scalar.length == 0)
		rc = spw_err(EINVAL, "no value");
	else
		rc = spw_opt_set(opt, base, spw_yaml_text(node));
	return rc ? spw_yaml_fail(yaml, node, spw_err_ctx(rc, "%s", label)) : 0;
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
static int parser_fail(const struct spw_yaml *yaml, const yaml_parser_t *parser)
{
	const yaml_mark_t *mark = &parser->problem_mark;

	if (parser->error == YAML_MEMORY_ERROR)
		return spw_err(ENOMEM, "%s: not enough memory to read it", yaml->name);
	if (parser->error == YAML_READER_ERROR)
		mark = &parser->mark; /* bytes that are no text: as far as was read */
	return fail_mark(yaml, mark, spw_err(EINVAL, "%s", problem_text(parser)));
}

/* Nothing may follow the one document. */
static int end_expect(const struct spw_yaml *yaml, yaml_parser_t *parser)
{
	yaml_document_t doc;
	const yaml_node_t *root;
	int rc = 0;

	if (!yaml_parser_load(parser, &doc))
		return parser_fail(yaml, parser);
	root = yaml_document_get_root_node(&doc);
	if (root)
		rc = spw_yaml_fail(yaml, root,
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
static int depth_check(const struct spw_yaml *yaml, const char *text, size_t bytes)
{
	yaml_parser_t parser;
	bool more = true;
	int depth = 0, rc = parser_open(&parser, yaml->name, text, bytes);

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
			rc = fail_mark(yaml, &event.start_mark,
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
int spw_yaml_load(struct spw_yaml *yaml_out, const char *name, const char *text, size_t bytes)
{
	const yaml_node_t *root;
	yaml_parser_t parser;
	int rc;

	snprintf(yaml_out->name, sizeof(yaml_out->name), "%s", name);
	if (bytes > FILE_BYTES_MAX)
		return spw_err(EFBIG, "%s: larger than %u KiB", name, FILE_BYTES_MAX >> 10);
	rc = depth_check(yaml_out, text, bytes);
	if (rc == 0)
		rc = parser_open(&parser, name, text, bytes);
	if (rc)
		return rc;
	if (!yaml_parser_load(&parser, &yaml_out->doc)) {
		rc = parser_fail(yaml_out, &parser);
	} else {
		/* first: what follows may be worse to read, in TOML for one */
		root = yaml_document_get_root_node(&yaml_out->doc);
		rc = root ? spw_yaml_expect_mapping(yaml_out, root) : 0;
		rc = rc ? rc : end_expect(yaml_out, &parser);
		if (rc)
			spw_yaml_free(yaml_out);
	}
	yaml_parser_delete(&parser);
	return rc;
}

/* Reads one byte more than is allowed, so that a file of exactly the limit passes and a larger one
 * does not. */
int spw_yaml_load_file(struct spw_yaml *yaml_out, const char *what, const char *path)
{
	FILE *file = fopen(path, "rb");
	char *text;
	size_t got;
	int rc;

	if (!file)
		return spw_err(errno, "%s %s: %s", what, path, strerror(errno));
	text = malloc(FILE_BYTES_MAX + 1);
	got = text ? fread(text, 1, FILE_BYTES_MAX + 1, file) : 0;
	if (!text)
		rc = spw_err(ENOMEM, "%s %s: not enough memory to read it", what, path);
	else if (ferror(file))
		rc = errno == EISDIR ? spw_err(EINVAL, "%s %s: is a folder; name the file in it",
					       what, path)
				     : spw_err(errno, "%s %s: %s", what, path, strerror(errno));
	else
		rc = spw_yaml_load(yaml_out, path, text, got);
	free(text);
	fclose(file);
	return rc;
}

void spw_yaml_free(struct spw_yaml *yaml)
{
	yaml_document_delete(&yaml->doc);
}
