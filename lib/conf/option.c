/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line, laid over what the file gave. Every option is an entry of the table (keys.c);
 * lib/opt reads the words.
 *
 *   1  config_find  reads the words once for the questions, and for --config wherever it stands
 *   2  load         defaults, then the file
 *   3  options      in order; a --port starts a port, port options belong to the one before them
 *   4  check        what needs more than one key (check.c)
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "conf/conf_impl.h"

/* A list of cores given as an option replaces the file's, and remembers where it came from. */
static int conf_option_set(const struct spw_opt *key, void *base, const char *value)
{
	struct spw_conf_cores *cores =
		(struct spw_conf_cores *)(void *)((char *)base + key->offset);

	if (conf_is_cores(key))
		*cores = (struct spw_conf_cores){.where.option = key->name};
	return spw_opt_set(key, base, value);
}

/* The first --port drops the file's ports: mixing both would leave open which option belongs to
 * which. */
static int port_spec_add(struct spw_conf *conf, const struct spw_opt *key, const char *value)
{
	struct spw_conf_port *port;

	if (!conf->ports_by_option)
		conf->port_cnt = 0;
	conf->ports_by_option = true;
	port = conf_port_add(conf);
	if (!port)
		return spw_err(EINVAL, "more than %u ports", SPW_PORT_MAX);
	port->where.option = key->name;
	return spw_opt_set(key, port, value);
}

/* A key of a port: the last one that --port named, else every port of the file. */
static int port_option_set(struct spw_conf *conf, const struct spw_opt *key, const char *value)
{
	uint32_t first = conf->ports_by_option ? conf->port_cnt - 1 : 0;
	int rc = 0;

	if (conf->port_cnt == 0)
		return spw_err(EINVAL, "there is no port yet; put it behind its --port");
	for (uint32_t i = first; i < conf->port_cnt && rc == 0; i++)
		rc = conf_option_set(key, &conf->port[i], value);
	return rc;
}

/* The port's own, until spw_conf_check finds that it was the only one; it replaces the file's. */
static int handler_option_set(struct spw_conf *conf, const struct spw_opt *key, const char *value)
{
	struct spw_conf_port *last = &conf->port[conf->port_cnt ? conf->port_cnt - 1 : 0];

	conf->handler_cnt++;
	if (conf->ports_by_option)
		return spw_opt_set(&conf_table[conf_table_cnt - 1], last, value);
	for (uint32_t i = 0; i < conf->port_cnt; i++)
		conf->port[i].handler[0] = '\0';
	return spw_opt_set(key, conf, value);
}

/* Port options go to a port; all others are of the whole configuration. */
int spw_conf_option(struct spw_conf *conf, const struct spw_opt *opt, const char *value)
{
	if (!strcmp(opt->name, "handler"))
		return handler_option_set(conf, opt, value);
	if (strcmp(opt->section, CONF_PORTS))
		return conf_option_set(opt, conf, value);
	return strcmp(opt->name, "port") ? port_option_set(conf, opt, value)
					 : port_spec_add(conf, opt, value);
}

static bool is_config(const struct spw_opt *opt)
{
	return !strcmp(opt->name, "config");
}

/* --config may stand anywhere, and must be known before the first option is laid over the file. */
static int config_find(void *config_out, const struct spw_opt *opt, const char *value)
{
	const char **config = config_out;

	if (!is_config(opt))
		return 0;
	if (*config)
		return spw_err(EINVAL, "is given twice");
	*config = value;
	return 0;
}

static int conf_option_take(void *conf, const struct spw_opt *opt, const char *value)
{
	return is_config(opt) ? 0 : spw_conf_option(conf, opt, value);
}

/* Two passes over the same words: the first only looks for --config, the second sets. */
int spw_conf_args(struct spw_conf *conf_out, const struct spw_opt_program *program, int argc,
		  char **argv)
{
	const char *config = NULL;
	int rc = spw_opt_parse(program, argc, argv,
			       &(struct spw_opt_take){.base = &config, .option = config_find});

	spw_conf_init(conf_out);
	if (rc == 0 && config)
		rc = spw_conf_load(conf_out, config);
	if (rc == 0)
		rc = spw_opt_parse(
			program, argc, argv,
			&(struct spw_opt_take){.base = conf_out, .option = conf_option_take});
	return rc ? rc : spw_conf_check(conf_out);
}
