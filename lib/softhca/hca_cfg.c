/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Parses the options of tools/with-softhca by the table at the end: a row says where a number or a
 * text goes, or has a function.
 * Called when the library is loaded, and by softhca-check, which reports a wrong option before the
 * program starts. Message: the option, its value, and what it takes.
 *
 *   SPW_SOFTHCA="devices=2;mtu=1500;cable=shm:a"      NAME=VALUE for each option, in their order
 *     hca_cfg_parse: defaults --> cfg_set_option for each --> what concerns several of them
 *
 * What to know before changing it: options are applied in their order, and a later one overwrites
 * an earlier one. So --as, which sets the functions of its card, comes before --name or --mac. A
 * new option is a row of `opts`, a field of struct hca_cfg, and its lines in
 * tools/with-softhca and docs/060. Nothing is opened here.
 */
#include "softhca/hca_cfg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"

#define PCI_DOMAIN  0x5c00u /* of no real machine */
#define VALUE_BYTES 512u

/* The text of every refusal: the option as it was given, and what it takes. */
static int cfg_bad(const char *opt, const char *val, const char *want)
{
	return spw_err(EINVAL, "--%s %s: want %s", opt, val, want);
}

/* Decimal, or hexadecimal with 0x. strtoull would take a minus sign, so that is refused first. */
static int cfg_uint(const char *opt, const char *val, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end, want[64];
	unsigned long long v;

	*out = 0;
	errno = 0;
	v = strtoull(val, &end, 0);
	if (errno || end == val || *end || *val == '-' || v < min || v > max) {
		snprintf(want, sizeof(want), "a number from %llu to %llu", (unsigned long long)min,
			 (unsigned long long)max);
		return cfg_bad(opt, val, want);
	}
	*out = v;
	return 0;
}

/* A text that does not fit is refused, never cut: it may be a path. */
static int cfg_text(const char *opt, const char *val, char *dst, size_t bytes)
{
	if (!*val || strlen(val) >= bytes)
		return spw_err(EINVAL, "--%s: want 1 to %zu characters", opt, bytes - 1);
	memcpy(dst, val, strlen(val) + 1);
	return 0;
}

/* ---- devices ---- */

/* One value of an option that has one for each device. */
typedef int dev_set_fn(struct hca_dev_cfg *d, const char *opt, const char *val);

/* Defaults: two functions on each PCI bus, as on a card with two ports. */
static void cfg_plain_dev(struct hca_cfg *cfg, uint32_t i)
{
	struct hca_dev_cfg *d = &cfg->dev[i];

	*d = (struct hca_dev_cfg){.pci_domain = PCI_DOMAIN, .pci_bus = (uint8_t)(1 + i / 2)};
	snprintf(d->name, sizeof(d->name), "mlx5_%u", i);
	d->pci_func = i & 1;
	d->port = (uint8_t)i;
}

/* Devices that are there already keep what was set; the last --devices counts. */
static int opt_devices(struct hca_cfg *cfg, const char *opt, const char *val)
{
	uint64_t n;
	int rc = cfg_uint(opt, val, 1, HCA_DEV_MAX, &n);

	if (rc)
		return rc;
	for (uint32_t i = cfg->dev_cnt; i < n; i++)
		cfg_plain_dev(cfg, i);
	cfg->dev_cnt = (uint32_t)n;
	return 0;
}

/* The functions of a card that always has the same ones. */
static void cfg_card_funcs(struct hca_cfg *cfg)
{
	for (uint32_t i = 0; i < cfg->card->func_cnt; i++) {
		const struct hca_card_func *f = &cfg->card->func[i];
		struct hca_dev_cfg *d = &cfg->dev[i];

		cfg_plain_dev(cfg, i);
		snprintf(d->name, sizeof(d->name), "%s", f->rdma);
		snprintf(d->netdev, sizeof(d->netdev), "%s", f->netdev);
		d->netdev_emulated = true;
		d->pci_domain = f->pci_domain;
		d->pci_bus = f->pci_bus;
		d->pci_func = f->pci_func;
		d->port = f->port;
	}
	if (cfg->card->func_cnt)
		cfg->dev_cnt = cfg->card->func_cnt;
}

/* The speed of the card becomes the default; a --speed that follows replaces it. */
static int opt_as(struct hca_cfg *cfg, const char *opt, const char *val)
{
	const struct hca_card *card = hca_card_find(val);
	char names[128];

	if (!card) {
		hca_card_names(names, sizeof(names));
		return cfg_bad(opt, val, names);
	}
	cfg->card = card;
	cfg->speed_mbps = card->speed_mbps;
	cfg_card_funcs(cfg);
	return 0;
}

/* One value for each device, separated by commas. More values than devices add devices; fewer leave
 * the rest unchanged. */
static int cfg_each_dev(struct hca_cfg *cfg, const char *opt, const char *val, dev_set_fn *one)
{
	char buf[VALUE_BYTES], *save = NULL;
	uint32_t i = 0;

	snprintf(buf, sizeof(buf), "%s", val);
	for (char *p = strtok_r(buf, ",", &save); p; p = strtok_r(NULL, ",", &save), i++) {
		int rc = i < HCA_DEV_MAX ? 0 : cfg_bad(opt, val, "no more than 8 values");

		if (!rc && i >= cfg->dev_cnt)
			cfg_plain_dev(cfg, cfg->dev_cnt++);
		rc = rc ? rc : one(&cfg->dev[i], opt, p);
		if (rc)
			return rc;
	}
	return i ? 0 : cfg_bad(opt, val, "a value");
}

/* The name becomes the name of a folder in the emulated /sys, so it has no slash and no dot. */
static int dev_set_name(struct hca_dev_cfg *d, const char *opt, const char *val)
{
	if (strspn(val, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
	    strlen(val))
		return cfg_bad(opt, val, "letters, digits, _ and -");
	return cfg_text(opt, val, d->name, sizeof(d->name));
}

/* An interface of the machine, in place of the one that a card may bring. */
static int dev_set_netdev(struct hca_dev_cfg *d, const char *opt, const char *val)
{
	d->netdev_emulated = false;
	return cfg_text(opt, val, d->netdev, sizeof(d->netdev));
}

/* %c finds what stands behind the address. The lowest bit of the first byte marks a group. */
static int dev_set_mac(struct hca_dev_cfg *d, const char *opt, const char *val)
{
	unsigned int b[6];
	char rest;

	if (sscanf(val, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
		   &rest) != 6 ||
	    b[0] & 1)
		return cfg_bad(opt, val, "a unicast address like 02:00:00:00:00:01");
	for (uint32_t i = 0; i < 6; i++)
		d->mac[i] = (uint8_t)b[i];
	return 0;
}

static int dev_set_ip(struct hca_dev_cfg *d, const char *opt, const char *val)
{
	if (inet_pton(AF_INET, val, d->ip) != 1)
		return cfg_bad(opt, val, "an IPv4 address like 10.0.0.1");
	return 0;
}

static int dev_set_pci(struct hca_dev_cfg *d, const char *opt, const char *val)
{
	unsigned int dom, bus, dev, fn;
	char rest;

	if (sscanf(val, "%4x:%2x:%2x.%1x%c", &dom, &bus, &dev, &fn, &rest) != 4 || dev > 31 ||
	    fn > 7)
		return cfg_bad(opt, val, "an address like 5c00:01:00.0");
	d->pci_domain = (uint16_t)dom;
	d->pci_bus = (uint8_t)bus;
	d->pci_dev = (uint8_t)dev;
	d->pci_func = (uint8_t)fn;
	return 0;
}

/* ---- the port ---- */

/* Also the values of --fault link-speed=. HCA_SPEEDS is the same list as a text. */
bool hca_cfg_speed(const char *text, uint32_t *mbps_out)
{
	static const char *const gbps[] = {"10", "25", "40", "50", "100", "200", "400"};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(gbps); i++) {
		if (strcmp(gbps[i], text))
			continue;
		*mbps_out = (uint32_t)atoi(text) * 1000;
		return true;
	}
	return false;
}

static int opt_speed(struct hca_cfg *cfg, const char *opt, const char *val)
{
	return hca_cfg_speed(val, &cfg->speed_mbps) ? 0 : cfg_bad(opt, val, HCA_SPEEDS);
}

#define RATES "card, or port=GBPS,pcie=GBPS (or one of them) from 0.001 to 1000; then pause=off"

/* "port=2.5" and the like. Returns: false: it is not of that form. */
static bool cfg_rate_word(struct hca_cfg *cfg, const char *word)
{
	const bool port = strncmp(word, "port=", 5) == 0;
	const bool pcie = strncmp(word, "pcie=", 5) == 0;
	char *end = NULL;
	const double v = port || pcie ? strtod(word + 5, &end) : 0;

	if (strcmp(word, "card") == 0)
		return cfg->rate_card = true;
	if (strcmp(word, "pause=off") == 0)
		return cfg->rate_no_pause = true;
	if (!(v >= 0.001 && v <= 1000) || *end)
		return false;
	*(port ? &cfg->rate_port_mbps : &cfg->rate_pcie_mbps) = (uint32_t)(v * 1000 + 0.5);
	return true;
}

static int opt_rate(struct hca_cfg *cfg, const char *opt, const char *val)
{
	char copy[VALUE_BYTES], *save = NULL;

	cfg->rate_port_mbps = cfg->rate_pcie_mbps = 0;
	cfg->rate_card = cfg->rate_no_pause = false;
	snprintf(copy, sizeof(copy), "%s", val);
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save))
		if (!cfg_rate_word(cfg, w))
			return cfg_bad(opt, val, RATES);
	/* Exactly one of the two: the rates of the card, or rates that are named. */
	if (cfg->rate_card == (cfg->rate_port_mbps || cfg->rate_pcie_mbps))
		return cfg_bad(opt, val, RATES);
	return 0;
}

#define CABLES                                                                                   \
	"shm:NAME, afpacket:INTERFACE, unix:MINE,PEER or udp:PEER; several, one for each port: " \
	"A+B"

/* One for all ports, or one each: A+B. */
static int opt_cable(struct hca_cfg *cfg, const char *opt, const char *val)
{
	if (!hca_cfg_cable_known(val))
		return cfg_bad(opt, val, CABLES);
	return cfg_text(opt, val, cfg->cable, sizeof(cfg->cable));
}

/* Either word may be missing. The range is tested so that "nan" fails it. */
static int opt_clock(struct hca_cfg *cfg, const char *opt, const char *val)
{
	char copy[VALUE_BYTES], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", val);
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *end = NULL;

		if (strncmp(w, "offset=", 7) == 0)
			cfg->clock_offset = strtoll(w + 7, &end, 0);
		else if (strncmp(w, "ppm=", 4) == 0)
			cfg->clock_ppm = strtod(w + 4, &end);
		if (!end || *end || end[-1] == '=' ||
		    !(cfg->clock_ppm >= -1000 && cfg->clock_ppm <= 1000))
			return cfg_bad(opt, val, "offset=NS,ppm=F with F from -1000 to 1000");
	}
	return 0;
}

static int opt_adversary(struct hca_cfg *cfg, const char *opt, const char *val)
{
	(void)opt;
	return hca_adversary_parse(val, &cfg->adversary);
}

static int opt_cqe_layout(struct hca_cfg *cfg, const char *opt, const char *val)
{
	cfg->cqe_enhanced = strcmp(val, "enhanced") == 0;
	if (!cfg->cqe_enhanced && strcmp(val, "basic"))
		return cfg_bad(opt, val, "basic or enhanced");
	return 0;
}

/* The names are in the order of enum hca_accept, which begins with "by the card". */
static int opt_accept(struct hca_cfg *cfg, const char *opt, const char *val)
{
	static const char *const name[] = {"own", "multicast", "all"};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(name); i++) {
		if (strcmp(val, name[i]))
			continue;
		cfg->accept = (enum hca_accept)(HCA_ACCEPT_OWN + i);
		return 0;
	}
	return cfg_bad(opt, val, "own, multicast or all");
}

static int opt_trail_every(struct hca_cfg *cfg, const char *opt, const char *val)
{
	uint64_t v;
	int rc = cfg_uint(opt, val, 1, 1u << 20, &v);

	if (rc || (v & (v - 1)))
		return rc ? rc : cfg_bad(opt, val, "a power of 2");
	cfg->trail_every = (uint32_t)v;
	return 0;
}

static int opt_trap(struct hca_cfg *cfg, const char *opt, const char *val)
{
	cfg->trap_blueflame = strcmp(val, "blueflame") == 0;
	return cfg->trap_blueflame ? 0 : cfg_bad(opt, val, "blueflame");
}

/* From with-softhca alone: its number, and its process, lest that number was given away again. */
static int opt_machine(struct hca_cfg *cfg, const char *opt, const char *val)
{
	return hca_cfg_machine(val, &cfg->machine) ? 0 : cfg_bad(opt, val, "NUMBER,PID");
}

/* A row has a function, or one that is called for each device, or where its number or text goes. */
#define FIELD(name) \
	.at = offsetof(struct hca_cfg, name), .bytes = sizeof(((struct hca_cfg *)NULL)->name)
static const struct {
	const char *name;
	int (*fn)(struct hca_cfg *cfg, const char *opt, const char *val);
	dev_set_fn *dev;
	size_t at, bytes;
	uint64_t min, max; /* of a number; max 0: it is a text */
} opts[] = {
	{"as", .fn = opt_as},
	{"devices", .fn = opt_devices},
	{"name", .dev = dev_set_name},
	{"netdev", .dev = dev_set_netdev},
	{"mac", .dev = dev_set_mac},
	{"ip", .dev = dev_set_ip},
	{"pci", .dev = dev_set_pci},
	{"speed", .fn = opt_speed},
	/* the largest IP packet, as of a network interface: without the Ethernet header */
	{"mtu", FIELD(mtu_bytes), .min = 576, .max = 9600},
	{"cable", .fn = opt_cable},
	/* inject/fault.c parses it when a device is attached, softhca-check before the start */
	{"fault", FIELD(fault)},
	/* of the faults; the adversary has a seed of its own */
	{"seed", FIELD(seed), .min = 0, .max = UINT64_MAX},
	/* paths, opened when a device is attached */
	{"control", FIELD(control)},
	{"trace", FIELD(trace)},
	{"trail", FIELD(trail)},
	{"trail-every", .fn = opt_trail_every},
	{"clock", .fn = opt_clock},
	{"cqe-layout", .fn = opt_cqe_layout},
	/* whether the process may use it is found out when the thread starts (nic/run/thread.c) */
	{"nic-cpu", FIELD(nic_cpu), .min = 0, .max = CPU_SETSIZE - 1},
	{"nic-threads", FIELD(nic_threads), .min = 1, .max = HCA_NIC_THREADS_MAX},
	{"trap", .fn = opt_trap},
	{"accept", .fn = opt_accept},
	{"adversary", .fn = opt_adversary},
	{"rate", .fn = opt_rate},
	{"machine", .fn = opt_machine},
};

/* Numbers are of 4 bytes or of 8. */
static int cfg_set_row(struct hca_cfg *cfg, uint32_t row, const char *opt, const char *val)
{
	char *field = (char *)cfg + opts[row].at;
	uint32_t small;
	uint64_t v;
	int rc;

	if (opts[row].fn)
		return opts[row].fn(cfg, opt, val);
	if (opts[row].dev)
		return cfg_each_dev(cfg, opt, val, opts[row].dev);
	if (!opts[row].max)
		return cfg_text(opt, val, field, opts[row].bytes);
	if ((rc = cfg_uint(opt, val, opts[row].min, opts[row].max, &v)) < 0)
		return rc;
	small = (uint32_t)v;
	memcpy(field, opts[row].bytes == sizeof(v) ? (void *)&v : &small, opts[row].bytes);
	return 0;
}

/* text is "NAME=VALUE", the copy of hca_cfg_parse, and is cut in two. */
static int cfg_set_option(struct hca_cfg *cfg, char *text)
{
	char *val = strchr(text, '=');

	if (!val)
		return spw_err(EINVAL, "--%s: it has no value", text);
	*val++ = 0;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(opts); i++)
		if (strcmp(opts[i].name, text) == 0)
			return cfg_set_row(cfg, i, text, val);
	return spw_err(EINVAL, "--%s: there is no such option", text);
}

/* libibverbs and the files in /sys know a device by its name alone. */
static int cfg_names_differ(const struct hca_cfg *cfg)
{
	for (uint32_t i = 0; i < cfg->dev_cnt; i++)
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(cfg->dev[i].name, cfg->dev[k].name) == 0)
				return cfg_bad("name", cfg->dev[i].name, "one for each device");
	return 0;
}

/* A kernel at the other end (rdma_rxe, or a plain interface) has time-outs and a socket buffer that
 * a NIC which comes late does not keep to. */
static int cfg_adversary_fits(const struct hca_cfg *cfg)
{
	if (cfg->adversary.what && strstr(cfg->cable, "afpacket:"))
		return spw_err(EINVAL,
			       "--adversary: not on --cable %s, whose other end is a kernel that "
			       "would lose frames to it; use shm:NAME, unix:MINE,PEER or udp:PEER",
			       cfg->cable);
	return 0;
}

/* After an error *cfg_out has the options before the wrong one; callers use none of it. */
int hca_cfg_parse(const char *text, struct hca_cfg *cfg_out)
{
	char *copy, *save = NULL;
	int rc = 0;

	memset(cfg_out, 0, sizeof(*cfg_out));
	cfg_out->card = hca_card_default;
	cfg_out->trail_every = 1;
	cfg_out->speed_mbps = hca_card_default->speed_mbps;
	cfg_out->mtu_bytes = 4200; /* carries the largest IB MTU, 4096, with all headers */
	cfg_out->seed = 1;
	cfg_out->nic_cpu = -1;
	cfg_out->dev_cnt = 1;
	cfg_plain_dev(cfg_out, 0);
	snprintf(cfg_out->cable, sizeof(cfg_out->cable), "shm:default");
	copy = strdup(text ? text : "");
	if (!copy)
		return spw_err(ENOMEM, "no memory");
	for (char *p = strtok_r(copy, ";", &save); p && !rc; p = strtok_r(NULL, ";", &save))
		rc = cfg_set_option(cfg_out, p);
	free(copy);
	if (cfg_out->accept == HCA_ACCEPT_BY_CARD)
		cfg_out->accept = cfg_out->card->shares_port ? HCA_ACCEPT_OWN : HCA_ACCEPT_ALL;
	rc = rc ? rc : cfg_names_differ(cfg_out);
	return rc ? rc : cfg_adversary_fits(cfg_out);
}
