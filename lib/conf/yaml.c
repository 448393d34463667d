/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * From a YAML file to struct spw_conf: walks the document (lib/yaml) along the table of keys
 * (keys.c):
 *
 *   root mapping      ports: a list of mappings ──> section_load for each, into spw_conf_port
 *    └ spw_yaml_key    executor:, memory:, run: ──> section_load, into spw_conf
 *       └ section_load   each pair: spw_yaml_key ──> value_set ──> spw_opt_set (lib/opt)
 *
 * Untrusted bytes: a file of any content must end in a message. fuzz_conf feeds this file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "conf/conf_impl.h"
#include "yaml/spw_yaml.h"

struct walk {
	struct spw_conf *conf;
	struct spw_yaml yaml;
};

/* ---- one value ---- */

static int scalar_set(const struct walk *w, const struct spw_opt *key, void *base,
		      const yaml_node_t *node)
{
	char label[96];

	snprintf(label, sizeof(label), "%s.%s", key->section, key->key);
	return spw_yaml_set(&w->yaml, key, label, base, node);
}

/* Each item is added to what the list has: value_set has emptied it before. */
static int list_set(const struct walk *w, const struct spw_opt *key, void *base,
		    const yaml_node_t *node)
{
	const yaml_node_t *item;
	int rc = spw_yaml_expect_list(&w->yaml, node, "a list of cores");

	for (size_t i = 0; rc == 0 && (item = spw_yaml_item(&w->yaml, node, i)); i++) {
		rc = spw_yaml_expect_value(&w->yaml, item, "a core number");
		if (rc == 0)
			rc = scalar_set(w, key, base, item);
	}
	return rc;
}

/* Lists of cores are given as a YAML list or as "2,4-7" and replace what a default had put there.
 */
static int value_set(const struct walk *w, const struct spw_opt *key, void *base,
		     const yaml_node_t *node)
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
	rc = spw_yaml_expect_value(&w->yaml, node, want);
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

/* Loads one mapping; base is the struct that holds the section's fields. */
static int section_load(const struct walk *w, const char *section, void *base,
			const yaml_node_t *node)
{
	const struct spw_yaml_names names = {key_name, section, conf_table_cnt};
	const yaml_node_t *name, *value;
	uint64_t seen = 0;
	uint32_t idx = 0;
	int rc = spw_yaml_expect_mapping(&w->yaml, node);

	for (size_t i = 0; rc == 0 && spw_yaml_pair(&w->yaml, node, i, &name, &value); i++) {
		rc = spw_yaml_key(&w->yaml, name, section, &names, &seen, &idx);
		if (rc == 0)
			rc = value_set(w, &conf_table[idx], base, value);
	}
	return rc;
}

/* The file's ports replace all earlier ones; each starts with the defaults. */
static int ports_load(const struct walk *w, const yaml_node_t *node)
{
	const yaml_node_t *item;
	int rc = spw_yaml_expect_list(&w->yaml, node, "a list of ports (- spec: ...)");

	w->conf->port_cnt = 0;
	for (size_t i = 0; rc == 0 && (item = spw_yaml_item(&w->yaml, node, i)); i++) {
		struct spw_conf_port *port = conf_port_add(w->conf);

		if (!port)
			return spw_yaml_fail(&w->yaml, item,
					     spw_err(EINVAL, "more than %u ports", SPW_PORT_MAX));
		port->where.line = (uint32_t)item->start_mark.line + 1;
		port->where.column = (uint32_t)item->start_mark.column + 1;
		rc = section_load(w, CONF_PORTS, port, item);
	}
	return rc;
}

/* section_name offers each section once although the table names it once per key. */
static int root_load(const struct walk *w)
{
	const struct spw_yaml_names names = {section_name, NULL, conf_table_cnt};
	const yaml_node_t *root = spw_yaml_root(&w->yaml), *name, *value;
	uint64_t seen = 0;
	uint32_t idx = 0;
	int rc = 0;

	if (!root)
		return spw_err(
			EINVAL,
			"%s:1:1: the file is empty; examples are in config/ and share/doc/spinwire",
			w->conf->file);
	for (size_t i = 0; rc == 0 && spw_yaml_pair(&w->yaml, root, i, &name, &value); i++) {
		rc = spw_yaml_key(&w->yaml, name, "the file", &names, &seen, &idx);
		if (rc == 0 && strcmp(conf_table[idx].section, CONF_PORTS) == 0)
			rc = ports_load(w, value);
		else if (rc == 0)
			rc = section_load(w, conf_table[idx].section, w->conf, value);
	}
	return rc;
}

/* ---- documents ---- */

static int document_load(struct walk *w, int rc)
{
	snprintf(w->conf->file, sizeof(w->conf->file), "%s", w->yaml.name);
	if (rc)
		return rc;
	rc = root_load(w);
	spw_yaml_free(&w->yaml);
	return rc;
}

int spw_conf_load_text(struct spw_conf *conf, const char *name, const char *text, size_t bytes)
{
	struct walk w = {.conf = conf};

	return document_load(&w, spw_yaml_load(&w.yaml, name, text, bytes));
}

int spw_conf_load(struct spw_conf *conf, const char *path)
{
	struct walk w = {.conf = conf};

	return document_load(&w, spw_yaml_load_file(&w.yaml, "config", path));
}
