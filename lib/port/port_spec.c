/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "DRIVER:DEVICE[,key=value]..." -> struct spw_port_spec.
 *
 *   text   ethdev:net_memif0,role=client,id=3
 *          ──────                               driver
 *                 ──────────                    device
 *                            ────────────────   keys: strings in store, at the same offsets
 *
 * Pure but for the hint to a device that exists (access(2)). Called by lib/conf, spinwire-gen, and
 * by fault and rails for the ports behind them. Only the form is checked: each driver knows its own
 * keys (spw_port_spec_check_keys of lib/frame).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "opt/spw_opt.h"
#include "port/port.h"

/* meant: "; did you mean ...", or "". Positions in the message count from 1. */
static int port_spec_bad(const char *text, size_t pos, const char *what, const char *meant)
{
	return spw_err(EINVAL,
		       "port '%.200s', character %zu: %s%s; a port is "
		       "DRIVER:DEVICE[,key=value]... with driver %s",
		       text, pos + 1, what, meant, spw_port_driver_names());
}

static const char *port_spec_driver_at(uint32_t idx, const void *arg SPW_UNUSED)
{
	return spw_port_driver(idx)->name;
}

/* A name with a slash would leave the folder. */
static bool port_spec_is_in(const char *folder, const char *name)
{
	char path[320];

	snprintf(path, sizeof(path), "%s/%.255s", folder, name);
	return name[0] && !strchr(name, '/') && !access(path, F_OK);
}

/* "0000:01:00.0" or "01:00.0", and keys or nothing after it. */
static bool port_spec_is_pci(const char *text)
{
	unsigned part[4];
	int end = 0;

	if (sscanf(text, "%4x:%2x:%2x.%1x%n", &part[0], &part[1], &part[2], &part[3], &end) != 4 &&
	    sscanf(text, "%2x:%2x.%1x%n", &part[0], &part[1], &part[2], &end) != 3)
		return false;
	return end && (text[end] == '\0' || text[end] == ',');
}

/* What was probably meant by a driver that there is not: the device alone, or a misspelt driver. */
static int port_spec_no_driver(const char *text)
{
	char word[64], meant[288] = "";
	const size_t len = SPW_MIN(strcspn(text, ":,"), sizeof(word) - 1);
	const char *nearest;
	uint32_t cnt = 0;

	memcpy(word, text, len);
	word[len] = '\0';
	while (spw_port_driver(cnt))
		cnt++;
	nearest = spw_opt_nearest(word, cnt, port_spec_driver_at, NULL);
	if (!strncmp(text, "mlx5_", 5) || port_spec_is_in("/sys/class/infiniband", text))
		snprintf(meant, sizeof(meant), "; did you mean mlx5:%.200s", text);
	else if (port_spec_is_in("/sys/class/net", text))
		snprintf(meant, sizeof(meant), "; did you mean ethdev:net_af_packet0,iface=%.200s",
			 text);
	else if (!strncmp(text, "net_", 4) || port_spec_is_pci(text))
		snprintf(meant, sizeof(meant), "; did you mean ethdev:%.200s", text);
	else if (word[0] && !word[strspn(word, "0123456789")])
		return port_spec_bad(text, 0, "a port has no number", "; " PORT_BY_NAME);
	else if (nearest)
		snprintf(meant, sizeof(meant), "; did you mean %s%s%.200s", nearest,
			 text[len] ? ":" : "", text + len + (text[len] != '\0'));
	return port_spec_bad(text, 0, "the driver is not known", meant);
}

/* Texts appear in messages, logs and JSON, so they are plain ASCII from here on. */
static int port_spec_check_text(const char *text)
{
	size_t n = strlen(text);

	if (n >= sizeof(((struct spw_port_spec *)0)->text))
		return port_spec_bad(text, sizeof(((struct spw_port_spec *)0)->text) - 1,
				     "the text is too long", "");
	for (size_t i = 0; i < n; i++)
		if (text[i] < 0x20 || text[i] > 0x7e)
			return port_spec_bad(text, i, "not a printable ASCII character", "");
	return 0;
}

/* *pos_out: behind the driver and its colon. */
static int port_spec_take_driver(struct spw_port_spec *spec, size_t *pos_out)
{
	const char *colon = strchr(spec->text, ':');
	size_t n = colon ? (size_t)(colon - spec->text) : strlen(spec->text);

	if (n >= sizeof(spec->driver))
		return port_spec_no_driver(spec->text);
	memcpy(spec->driver, spec->text, n);
	spec->driver[n] = '\0';
	if (!port_driver_find(spec->driver))
		return port_spec_no_driver(spec->text);
	*pos_out = colon ? n + 1 : n;
	return 0;
}

static int port_spec_take_device(struct spw_port_spec *spec, size_t pos, size_t end)
{
	if (end - pos >= sizeof(spec->device))
		return port_spec_bad(spec->text, pos, "the device name is too long", "");
	memcpy(spec->device, spec->text + pos, end - pos);
	spec->device[end - pos] = '\0';
	return 0;
}

/* text and store have the same offsets: store is text with its separators made into ends of
 * strings. */
static int port_spec_take_arg(struct spw_port_spec *spec, size_t pos, size_t end)
{
	const char *eq = memchr(spec->text + pos, '=', end - pos);

	if (!eq || eq == spec->text + pos)
		return port_spec_bad(spec->text, pos, "expected key=value", "");
	if (spec->arg_cnt == SPW_PORT_ARG_MAX)
		return port_spec_bad(spec->text, pos, "too many keys", "");
	spec->arg[spec->arg_cnt].key = (uint16_t)pos;
	spec->arg[spec->arg_cnt].value = (uint16_t)(eq - spec->text + 1);
	spec->arg_cnt++;
	spec->store[eq - spec->text] = '\0';
	spec->store[end] = '\0';
	return 0;
}

/* The device is what comes first and has no '='. On an error *spec_out is of no use. */
int spw_port_spec_parse(const char *text, struct spw_port_spec *spec_out)
{
	struct spw_port_spec *spec = spec_out;
	size_t pos = 0, end;
	bool first = true;
	int rc;

	memset(spec, 0, sizeof(*spec));
	rc = port_spec_check_text(text);
	if (rc)
		return rc;
	strcpy(spec->text, text);
	strcpy(spec->store, text);
	rc = port_spec_take_driver(spec, &pos);
	for (; !rc && spec->text[pos]; first = false) {
		end = pos + strcspn(spec->text + pos, ",");
		if (first && !memchr(spec->text + pos, '=', end - pos))
			rc = port_spec_take_device(spec, pos, end);
		else
			rc = port_spec_take_arg(spec, pos, end);
		if (!rc && spec->text[end] == ',' && !spec->text[end + 1])
			rc = port_spec_bad(spec->text, end, "a comma with nothing after it", "");
		pos = spec->text[end] ? end + 1 : end;
	}
	return rc;
}
