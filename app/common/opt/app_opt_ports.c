/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-ports(7): what may stand behind --port, from the tables in which the drivers themselves
 * look up their keys. The build asks spinwire for it with --help-man-ports.
 *
 *   struct spw_port_driver   about ─► a section         keys ─► sets, by mode
 *   struct spw_port_key      name=VALUE, text, (range; default)
 *
 * A set that several drivers take is described with the first of them.
 *
 * A driver's new key thus needs no line here. The page has the drivers of this build, in the order
 * of its table; help texts pass app_roff_text (app_opt_man.c), so they may hold dashes and
 * backslashes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app_opt.h"
#include "port/spw_port.h"

/* In man(7) already: it goes out as it is. */
static const char intro[] = "A port is where frames come from and where they go:\n"
			    "\\fIDRIVER\\fR:\\fIDEVICE\\fR[,\\fIkey\\fR=\\fIvalue\\fR]... behind "
			    "\\fB\\-\\-port\\fR of\n"
			    "spinwire and spinwire\\-gen, and behind \\fBspec:\\fR in a "
			    "configuration file. A key that the\n"
			    "driver does not take is refused. Of a key that comes twice the last "
			    "value counts, unless it\n"
			    "may be repeated. Numbers may end in k, M or G (10^3, 10^6, 10^9).\n";

static const struct spw_opt_pair example[] = {
	{"spinwire -l 0,1 --no-huge -m 64 -- --port null:rate=10kpps --seconds 10",
	 "Frames without a NIC, 10,000 a second."},
	{"spinwire -l 0,1 -- --port mlx5:mlx5_0,mode=eth,udp=5357 --handler echo",
	 "UDP frames to port 5357; all others remain with the kernel."},
	{"spinwire -l 0,1 -- --port "
	 "verbs:rxe0,mode=rc,listen=192.0.2.1:7000,peers=192.0.2.2,secret=/etc/spinwire/secret",
	 "Messages of one peer that knows the secret."},
	{"spinwire -l 0,1 -- --port ethdev:net_memif0,role=server,socket=/run/memif.sock",
	 "Frames of another process; role= and socket= are keys of DPDK's net_memif."},
	{NULL, NULL}};

/* " (1 .. 65535; default: 64)", or what there is of it. max 0: no number; UINT64_MAX / 2:
 * no bound. */
static void key_bounds(const struct spw_port_key *key, char *out, size_t bytes)
{
	char range[64] = "";

	if (key->max == UINT64_MAX / 2)
		snprintf(range, sizeof(range), "%" PRIu64 " and more", key->min);
	else if (key->max)
		snprintf(range, sizeof(range), "%" PRIu64 " .. %" PRIu64, key->min, key->max);
	out[0] = '\0';
	if (range[0] || key->dflt)
		snprintf(out, bytes, " (%s%s%s%s)", range, range[0] && key->dflt ? "; " : "",
			 key->dflt ? "default: " : "", key->dflt ? key->dflt : "");
}

static void keys_write(FILE *out, const struct spw_port_keys *set)
{
	for (uint32_t i = 0; i < set->cnt; i++) {
		const struct spw_port_key *key = &set->key[i];
		char name[64], bounds[200], text[1200];

		snprintf(name, sizeof(name), "%s=", key->name);
		key_bounds(key, bounds, sizeof(bounds));
		snprintf(text, sizeof(text), "%s%s", key->help, bounds);
		app_roff_tag(out, name, key->value, text);
	}
}

/* The driver before this one that takes the set too; NULL: none. */
static const struct spw_port_driver *set_before(uint32_t idx, const struct spw_port_keys *set)
{
	for (uint32_t d = 0; d < idx; d++)
		for (uint32_t s = 0; spw_port_driver(d)->keys[s]; s++)
			if (spw_port_driver(d)->keys[s] == set)
				return spw_port_driver(d);
	return NULL;
}

static void driver_write(FILE *out, uint32_t idx)
{
	const struct spw_port_driver *driver = spw_port_driver(idx);
	const char *when = "";

	fprintf(out, ".SH DRIVER %s\n", driver->name);
	app_roff_text(out, driver->about);
	fputs(".\n", out);
	for (uint32_t s = 0; driver->keys[s]; s++) {
		const struct spw_port_keys *set = driver->keys[s];
		const struct spw_port_driver *before = set_before(idx, set);

		if (set->when && strcmp(when, set->when))
			fprintf(out, ".SS %s\n", when = set->when);
		if (before)
			fprintf(out, ".PP\nThe other keys of %s are those of driver %s.\n",
				set->when ? set->when : driver->name, before->name);
		else
			keys_write(out, set);
	}
}

void app_opt_ports(FILE *out)
{
	app_roff_title(out, "spinwire-ports", 7, "ports of spinwire, and their keys");
	fprintf(out, ".SH DESCRIPTION\n%s", intro);
	for (uint32_t d = 0; spw_port_driver(d); d++)
		driver_write(out, d);
	fputs(".SH EXAMPLES\n", out);
	for (uint32_t i = 0; example[i].name; i++)
		app_roff_tag(out, example[i].name, "", example[i].help);
	fputs(".SH SEE ALSO\nspinwire(1), spinwire\\-gen(1), spinwire\\-doctor(1)\n", out);
}
