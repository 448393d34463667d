/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line, laid over what the file gave. Every option is a key of the table (keys.c); only
 * --config, --help and --version are not.
 *
 *   1  words_scan   the shape of every word; finds --config wherever it stands
 *   2  load         defaults, then the file
 *   3  options      in order; a --port starts a port, port options belong to the one before them
 *   4  check        what needs more than one key (check.c)
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "conf/conf_impl.h"

static const char *option_name(uint32_t idx, const void *arg)
{
	static const char *const own[] = {"config", "help", "version"};

	(void)arg;
	return idx < conf_table_cnt ? conf_table[idx].option : own[idx - conf_table_cnt];
}
#define OPTION_CNT (conf_table_cnt + 3)

/* NULL: no key has this option. */
static const struct conf_key *option_find(const char *name)
{
	for (uint32_t i = 0; i < conf_table_cnt; i++)
		if (strcmp(conf_table[i].option, name) == 0)
			return &conf_table[i];
	return NULL;
}

/* A list of cores given as an option replaces the file's, and remembers where it came from. */
static int set_at(const struct conf_key *key, void *base, const char *value)
{
	struct spw_conf_cores *cores =
		(struct spw_conf_cores *)(void *)((char *)base + key->offset);

	if (key->type == CONF_CORES)
		*cores = (struct spw_conf_cores){.where.option = key->option};
	return conf_value_set(key, base, value);
}

/* The first --port drops the file's ports: mixing both would leave open which option belongs to
 * which. */
static int port_spec_add(struct spw_conf *conf, const struct conf_key *key, const char *value)
{
	struct spw_conf_port *port;

	if (!conf->ports_by_option)
		conf->port_cnt = 0;
	conf->ports_by_option = true;
	port = conf_port_add(conf);
	if (!port)
		return spw_err(EINVAL, "more than %u ports", SPW_PORT_MAX);
	port->where.option = key->option;
	return conf_value_set(key, port, value);
}

/* A key of a port: the last one that --port named, else every port of the file. */
static int port_set(struct spw_conf *conf, const struct conf_key *key, const char *value)
{
	uint32_t first = conf->ports_by_option ? conf->port_cnt - 1 : 0;
	int rc = 0;

	if (conf->port_cnt == 0)
		return spw_err(EINVAL, "there is no port yet; put it behind its --port");
	for (uint32_t i = first; i < conf->port_cnt && rc == 0; i++)
		rc = set_at(key, &conf->port[i], value);
	return rc;
}

static int option_unknown(const char *name)
{
	const char *nearest = conf_nearest(name, OPTION_CNT, option_name, NULL);

	return spw_err(EINVAL, "--%.64s: no such option%s%s; --help lists them", name,
		       nearest ? ", did you mean --" : "", nearest ? nearest : "");
}

int spw_conf_option(struct spw_conf *conf, const char *name, const char *value)
{
	const struct conf_key *key = option_find(name);
	int rc;

	if (!key)
		return option_unknown(name);
	if (strcmp(key->section, CONF_PORTS))
		rc = set_at(key, conf, value);
	else if (strcmp(key->name, "spec") == 0)
		rc = port_spec_add(conf, key, value);
	else
		rc = port_set(conf, key, value);
	return rc ? spw_err_ctx(rc, "--%s", name) : 0;
}

/* One option of argv; *idx moves on to its last word. value_out is NULL for --help and --version.
 */
static int word_read(int argc, char **argv, int *idx, char name_out[64], const char **value_out)
{
	const char *word = argv[*idx], *equals = strchr(word, '=');
	size_t len;

	if (strncmp(word, "--", 2) || word[2] == '\0')
		return spw_err(EINVAL,
			       "'%.64s' is not an option; options are --NAME VALUE or --NAME=VALUE",
			       word);
	len = equals ? (size_t)(equals - word) - 2 : strlen(word + 2);
	len = SPW_MIN(len, 63u);
	memcpy(name_out, word + 2, len);
	name_out[len] = '\0';
	*value_out = equals ? equals + 1 : NULL;
	if (!strcmp(name_out, "help") || !strcmp(name_out, "version"))
		return equals ? spw_err(EINVAL, "--%s takes no value", name_out) : 0;
	if (strcmp(name_out, "config") && !option_find(name_out))
		return option_unknown(name_out);
	if (equals)
		return 0;
	if (*idx + 1 >= argc || !strncmp(argv[*idx + 1], "--", 2))
		return spw_err(EINVAL, "--%s needs a value", name_out);
	*value_out = argv[++*idx];
	return 0;
}

/* Finds --config, --help and --version, and checks the shape of every word. */
static int words_scan(int argc, char **argv, const char **config_out)
{
	int found = 0, rc;

	for (int i = 1; i < argc; i++) {
		const char *value;
		char name[64];

		rc = word_read(argc, argv, &i, name, &value);
		if (rc)
			return rc;
		if (!strcmp(name, "config") && *config_out)
			return spw_err(EINVAL, "--config is given twice");
		if (!strcmp(name, "config"))
			*config_out = value;
		if (!strcmp(name, "help") && !found)
			found = SPW_CONF_HELP;
		if (!strcmp(name, "version") && !found)
			found = SPW_CONF_VERSION;
	}
	return found;
}

int spw_conf_args(struct spw_conf *conf_out, int argc, char **argv)
{
	const char *config = NULL;
	int rc = words_scan(argc, argv, &config);

	spw_conf_init(conf_out);
	if (rc)
		return rc;
	if (config && (rc = spw_conf_load(conf_out, config)))
		return rc;
	for (int i = 1; i < argc; i++) {
		const char *value;
		char name[64];

		rc = word_read(argc, argv, &i, name, &value);
		if (rc == 0 && strcmp(name, "config"))
			rc = spw_conf_option(conf_out, name, value ? value : "");
		if (rc)
			return rc;
	}
	return spw_conf_check(conf_out);
}
