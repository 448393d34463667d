/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The options of spinwire-gen: one table with name, setter, default and help. The defaults are
 * texts and pass through the setters before the command line does, so a default is checked like any
 * value.
 *
 *   argv: --rate 2Mpps, --rate=2Mpps
 *     option_set --> option[] --> set_rate(conf + field, "2Mpps") --> struct gen_conf
 *
 * --help, --help-all and the man page print the same table. What spans several options is checked
 * at the end of gen_conf_args; what needs the port or the lcores, by main.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "conf/spw_conf.h"
#include "conf.h"
#include "time/spw_time.h"

static const char *const gaps_name[] = {"constant", "poisson", "burst", "ramp", "capture"};

const char *gen_gaps_name(enum gen_gaps gaps)
{
	return gaps_name[gaps];
}

/* ---- fields of one kind ---- */

static int set_text(void *text_out, const char *value)
{
	*(const char **)text_out = value;
	return 0;
}

/* A bare number is seconds, as people write --seconds 10; set_time_ns is for options in which it is
 * nanoseconds. */
static int set_time(void *ns_out, const char *value)
{
	return spw_opt_quantity(value, SPW_OPT_UNIT_NS, 1000000000, ns_out);
}

static int set_time_ns(void *ns_out, const char *value)
{
	return spw_opt_quantity(value, SPW_OPT_UNIT_NS, 1, ns_out);
}

static int set_mac(void *mac, const char *value)
{
	return rte_ether_unformat_addr(value, mac)
		       ? spw_err(EINVAL, "'%s' is not a MAC address", value)
		       : 0;
}

/* %c finds anything behind the address. Kept in host order, as RTE_IPV4 makes it. */
static int set_ip(void *ip_out, const char *value)
{
	unsigned int a, b, c, d;
	char more;

	if (sscanf(value, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &more) != 4 || a > 255 || b > 255 ||
	    c > 255 || d > 255)
		return spw_err(EINVAL, "'%s' is not an IPv4 address", value);
	*(uint32_t *)ip_out = RTE_IPV4(a, b, c, d);
	return 0;
}

/* ---- one setter an option ---- */

static int set_port(void *arg, const char *value)
{
	struct gen_conf *conf = arg;

	return spw_port_spec_parse(value, &conf->port);
}

static int set_rate(void *arg, const char *value)
{
	struct gen_conf *conf = arg;
	uint64_t pps;
	int rc = spw_opt_quantity(value, SPW_OPT_UNIT_PPS, 1, &pps);

	conf->plan.rate_fps = (double)pps;
	return rc;
}

/* "FROM-TO/TIME", "100kpps-2Mpps/5s". */
static int set_ramp(struct gen_conf *conf, const char *value)
{
	char text[96], *to, *over;
	uint64_t from_pps, to_pps;
	int rc;

	snprintf(text, sizeof(text), "%s", value);
	to = strchr(text, '-');
	over = to ? strchr(to, '/') : NULL;
	if (!over)
		return spw_err(EINVAL,
			       "'%s' is not a ramp; FROM-TO/TIME, as in ramp:100kpps-2Mpps/5s",
			       value);
	*to++ = '\0';
	*over++ = '\0';
	if ((rc = spw_opt_quantity(text, SPW_OPT_UNIT_PPS, 1, &from_pps)) ||
	    (rc = spw_opt_quantity(to, SPW_OPT_UNIT_PPS, 1, &to_pps)) ||
	    (rc = spw_opt_quantity(over, SPW_OPT_UNIT_NS, 0, &conf->plan.ramp_ns)))
		return rc;
	conf->plan.gaps = GEN_RAMP;
	conf->plan.rate_fps = (double)from_pps;
	conf->plan.rate_end_fps = (double)to_pps;
	return 0;
}

static int set_burst(struct gen_conf *conf, const char *value)
{
	uint64_t cnt;
	int rc = spw_opt_quantity(value, SPW_OPT_UNIT_NONE, 1, &cnt);

	conf->plan.gaps = GEN_BURST;
	conf->plan.burst_cnt = (uint32_t)SPW_MIN(cnt, UINT32_MAX);
	return rc;
}

/* burst and ramp need a value and are taken before the loop; "constant", "poisson" and "capture"
 * stand alone. */
static int set_schedule(void *arg, const char *value)
{
	struct gen_conf *conf = arg;

	if (!strncmp(value, "ramp:", 5))
		return set_ramp(conf, value + 5);
	if (!strncmp(value, "burst:", 6))
		return set_burst(conf, value + 6);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(gaps_name); i++) {
		if (!strcmp(value, gaps_name[i]) && i != GEN_BURST && i != GEN_RAMP) {
			conf->plan.gaps = (enum gen_gaps)i;
			return 0;
		}
	}
	return spw_err(
		EINVAL,
		"'%s' is not a schedule; constant, poisson, burst:N, ramp:FROM-TO/TIME, capture",
		value);
}

/* Without FCS, which the NIC adds. GEN_SIZE_MIN has room for the generator's own header. */
static int size_read(const char *text, uint16_t *bytes_out)
{
	uint64_t bytes;
	int rc = spw_opt_quantity(text, SPW_OPT_UNIT_BYTES, 1, &bytes);

	if (rc == 0 && !spw_in_range(bytes, GEN_SIZE_MIN, GEN_SIZE_MAX))
		return spw_err(ERANGE, "%s is out of range; %u to %u bytes without FCS", text,
			       GEN_SIZE_MIN, GEN_SIZE_MAX);
	*bytes_out = (uint16_t)bytes;
	return rc;
}

/* "64", "64-1514", "imix", "capture". */
static int set_size(void *arg, const char *value)
{
	struct gen_conf *conf = arg;
	const char *dash = strchr(value, '-');
	char first[32];
	int rc;

	if (!strcmp(value, "imix") || !strcmp(value, "capture")) {
		conf->plan.sizes = value[0] == 'i' ? GEN_SIZE_IMIX : GEN_SIZE_CAPTURE;
		return 0;
	}
	snprintf(first, sizeof(first), "%.*s", dash ? (int)SPW_MIN(dash - value, 31) : 31, value);
	rc = size_read(first, &conf->plan.size_min);
	conf->plan.sizes = dash ? GEN_SIZE_RANGE : GEN_SIZE_FIXED;
	conf->plan.size_max = conf->plan.size_min;
	return rc || !dash ? rc : size_read(dash + 1, &conf->plan.size_max);
}

/* Ranges are here and not in the table, so that a message can name both ends. */
static int number_read(const char *text, uint64_t min, uint64_t max, uint64_t *value_out)
{
	int rc = spw_opt_quantity(text, SPW_OPT_UNIT_NONE, 1, value_out);

	if (rc == 0 && !spw_in_range(*value_out, min, max))
		rc = spw_err(ERANGE, "%s is out of range; %" PRIu64 " to %" PRIu64, text, min, max);
	return rc;
}

static int set_flows(void *arg, const char *value)
{
	struct gen_conf *conf = arg;
	uint64_t cnt;
	int rc = number_read(value, 1, GEN_FLOW_MAX, &cnt);

	conf->plan.flow_cnt = (uint16_t)cnt;
	return rc;
}

static int set_slots(void *arg, const char *value)
{
	struct gen_conf *conf = arg;
	uint64_t cnt;
	int rc = number_read(value, 128, 1u << 24, &cnt);

	conf->slots = (uint32_t)cnt;
	return rc;
}

/* That it is a power of 2 is checked where it is used. */
static int set_every(void *every_out, const char *value)
{
	uint64_t cnt;
	int rc = number_read(value, 1, 1u << 20, &cnt);

	*(uint32_t *)every_out = (uint32_t)cnt;
	return rc;
}

static int set_seed(void *arg, const char *value)
{
	struct gen_conf *conf = arg;

	return number_read(value, 0, UINT64_MAX, &conf->plan.seed);
}

static int set_run(void *arg, const char *value)
{
	struct gen_conf *conf = arg;
	uint64_t run;
	int rc = number_read(value, 0, UINT16_MAX, &run);

	conf->frame.run = (uint16_t)run;
	return rc;
}

static int set_seconds(void *arg, const char *value)
{
	struct gen_conf *conf = arg;
	int rc = spw_opt_quantity(value, SPW_OPT_UNIT_NS, 1000000000, &conf->seconds_ns);

	if (rc == 0 && (conf->seconds_ns == 0 || conf->seconds_ns > 24ull * 3600 * 1000000000))
		rc = spw_err(ERANGE, "%s is out of range; more than 0, up to 24 hours", value);
	return rc;
}

static int set_yes(void *field, const char *value)
{
	bool *yes = field;

	*yes = !strcmp(value, "yes");
	return *yes || !strcmp(value, "no") ? 0
					    : spw_err(EINVAL, "'%s' is neither yes nor no", value);
}

#define FIELD(name) offsetof(struct gen_conf, name)

static const struct gen_option {
	const char *name;
	int (*set)(void *field, const char *value);
	size_t field;     /* offset of what set is given; 0: the whole */
	const char *dflt; /* set before the command line; NULL: none */
	const char *help;
} option[] = {
	{"port", set_port, 0, NULL, "where to send, as spinwire's --port"},
	{"rate", set_rate, 0, "1Mpps", "mean rate: pps, kpps, Mpps"},
	{"schedule", set_schedule, 0, "constant",
	 "constant, poisson, burst:N, ramp:FROM-TO/TIME, capture"},
	{"size", set_size, 0, "64", "bytes without FCS, 64 to 9600: N, FROM-TO, imix, capture"},
	{"capture", set_text, FIELD(plan.capture), NULL,
	 "pcap or pcapng file whose times or sizes are used"},
	{"flows", set_flows, 0, "16", "flows, by UDP source port"},
	{"seconds", set_seconds, 0, "10s", "how long the plan runs"},
	{"warm-up", set_time, FIELD(warm_up_ns), "0s",
	 "frames due in that time are sent and counted, but not in percentiles"},
	{"linger", set_time, FIELD(linger_ns), "1s",
	 "how long to wait for the last echo, or for a sink to empty the path; a signal ends it"},
	{"link-wait", set_time, FIELD(link_wait_ns), "10s",
	 "how long to wait for the port's link before the plan starts"},
	{"probe", set_time, FIELD(probe_ns), "100ms",
	 "how long to measure, before the plan, what the machine takes from the senders' cores; "
	 "0s: not"},
	{"hold", set_time, FIELD(hold_ns), "0s",
	 "how long to keep the port open after the report, for a receiver that should end first"},
	{"echo", set_yes, FIELD(expect_echo), "yes", "whether frames are expected back"},
	{"stream", set_yes, FIELD(frame.stream), "no",
	 "whether each frame has its number in the stream of its sender, for rails_order=stream "
	 "(68 bytes and more)"},
	{"seed", set_seed, 0, "1", "the same seed is the same plan"},
	{"run", set_run, 0, NULL,
	 "number of the run in every frame; echoes of others are refused (default: from the "
	 "clock)"},
	{"slots", set_slots, 0, "8192", "frames that a sender may have under way"},
	{"src-mac", set_mac, FIELD(frame.src_mac), NULL, "of the frames (default: the port's own)"},
	{"dst-mac", set_mac, FIELD(frame.dst_mac), NULL,
	 "of the frames (default: the kernel's neighbour with --dst-ip, else 02:00:00:00:00:02)"},
	{"src-ip", set_ip, FIELD(frame.src_ip), "198.18.0.1",
	 "of the frames (RFC 2544 benchmarking addresses)"},
	{"dst-ip", set_ip, FIELD(frame.dst_ip), "198.18.0.2", "of the frames"},
	{"slow-threshold", set_time_ns, FIELD(slow_ns), "100us",
	 "frames that take longer get a cause each"},
	{"json", set_text, FIELD(json), NULL, "file for the summary; -: stdout, and no table"},
	{"hdr", set_text, FIELD(hdr), NULL,
	 "file for an HdrHistogram log: round trips and schedule errors, an interval a second"},
	{"trail", set_text, FIELD(trail), NULL,
	 "file for the stamps of slow frames, for tools/run to join"},
	{"trail-every", set_every, FIELD(trail_every), "1",
	 "of each flow, frames whose number is a multiple of this power of 2 are on the trail"},
};

#define HELP_COLUMNS 80

static void help_names(void)
{
	int column = printf("options:");

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(option); i++) {
		if (column + (int)strlen(option[i].name) + 3 > HELP_COLUMNS)
			column = printf("\n        ") - 1;
		column += printf(" --%s", option[i].name);
	}
	printf("\n");
}

static void help_options(void)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(option); i++)
		printf("  --%-14s  %s%s%s\n", option[i].name, option[i].help,
		       option[i].dflt ? ", default " : "", option[i].dflt ? option[i].dflt : "");
}

void gen_conf_help(bool all)
{
	printf("Usage: spinwire-gen [EAL arguments] -- --port SPEC [options]\n"
	       "  or:  spinwire-gen --help | --help-all\n\n"
	       "Sends frames on a schedule that nothing can slow down, and reports what came\n"
	       "back and how late. Every worker lcore is a sender with a port queue of its own;\n"
	       "one is needed besides the main lcore.\n\n");
	if (all)
		help_options();
	else
		help_names();
	printf("\nport drivers: %s\n", spw_port_driver_names());
	if (!all)
		printf("example: spinwire-gen -l 0,1 -- --port mlx5:mlx5_1 --rate 1Mpps\n"
		       "Every option and default: man spinwire-gen, or spinwire-gen --help-all\n");
}

/* name has no terminator: it may be the part of "name=value" before the '='. An option without a
 * value gets its help as the message. */
static int option_set(struct gen_conf *conf, const char *name, size_t name_bytes, const char *value)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(option); i++) {
		int rc;

		if (strlen(option[i].name) != name_bytes ||
		    strncmp(option[i].name, name, name_bytes))
			continue;
		if (!value)
			return spw_err(EINVAL, "--%s: needs a value: %s", option[i].name,
				       option[i].help);
		rc = option[i].set((char *)conf + option[i].field, value);
		return rc ? spw_err_ctx(rc, "--%s", option[i].name) : 0;
	}
	return spw_err(EINVAL, "--%.*s: no such option; spinwire-gen --help lists them",
		       (int)name_bytes, name);
}

/* One line for the reports: what was asked for, in words. */
static void describe(struct gen_conf *conf)
{
	const struct gen_plan_conf *plan = &conf->plan;
	char size[48], gaps[96];

	if (plan->sizes == GEN_SIZE_FIXED)
		snprintf(size, sizeof(size), "%u bytes", plan->size_min);
	else if (plan->sizes == GEN_SIZE_RANGE)
		snprintf(size, sizeof(size), "%u-%u bytes", plan->size_min, plan->size_max);
	else
		snprintf(size, sizeof(size), "%s sizes",
			 plan->sizes == GEN_SIZE_IMIX ? "imix" : "the capture's");
	if (plan->gaps == GEN_RAMP)
		snprintf(gaps, sizeof(gaps), "ramp %.0f-%.0f frames/s in %.3f s", plan->rate_fps,
			 plan->rate_end_fps, (double)plan->ramp_ns * 1e-9);
	else if (plan->gaps == GEN_CAPTURE)
		snprintf(gaps, sizeof(gaps), "the capture's timing");
	else
		snprintf(gaps, sizeof(gaps), "%s %.0f frames/s", gen_gaps_name(plan->gaps),
			 plan->rate_fps);
	snprintf(conf->schedule, sizeof(conf->schedule), "%s, %s, %u flows", gaps, size,
		 plan->flow_cnt);
}

/* The run's number comes from the clock, so that echoes of an earlier run are told apart without an
 * option. */
static int defaults(struct gen_conf *conf)
{
	int rc = 0;

	memset(conf, 0, sizeof(*conf));
	conf->frame.run = (uint16_t)(spw_tsc_now() >> 20);
	for (uint32_t i = 0; rc == 0 && i < SPW_ARRAY_CNT(option); i++)
		if (option[i].dflt)
			rc = option[i].set((char *)conf + option[i].field, option[i].dflt);
	return rc;
}

/* The first error, or --help, ends the loop. The value is behind '=' or the next argument, even if
 * that begins with a dash. */
int gen_conf_args(struct gen_conf *conf_out, int argc, char **argv)
{
	int rc = defaults(conf_out);

	for (int i = 1; rc == 0 && i < argc; i++) {
		const char *name = argv[i] + 2, *equals = strchr(argv[i], '=');
		const char *value = equals ? equals + 1 : i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--help"))
			return GEN_CONF_HELP;
		if (strncmp(argv[i], "--", 2))
			return spw_err(EINVAL,
				       "'%s' is not an option; spinwire-gen --help lists them",
				       argv[i]);
		rc = option_set(conf_out, name, equals ? (size_t)(equals - name) : strlen(name),
				value);
		i += equals == NULL;
	}
	if (rc == 0 && !conf_out->port.text[0])
		rc = spw_err(EINVAL, "--port: is missing; it names the port to send from");
	if (rc == 0 && conf_out->warm_up_ns >= conf_out->seconds_ns)
		rc = spw_err(ERANGE, "--warm-up: must be shorter than --seconds");
	if (rc == 0)
		describe(conf_out);
	return rc;
}
