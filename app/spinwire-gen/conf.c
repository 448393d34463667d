/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The options of spinwire-gen: one table of lib/opt, from which --help, the man page and
 * completion are made too. What spans several options is checked at the end of gen_conf_args; what
 * needs the port or the lcores, by senders.c.
 *
 *    argv behind "--" ─► table ─► struct gen_conf: port, frame, plan, times ─► senders.c, lib/gen
 *                        └ setters for what is no number: addresses, rate, schedule, size
 *
 * A later option overrides an earlier one. Sizes are without FCS, times in ns, rates in frames a
 * second. A new option is one entry and one field of struct gen_conf; senders.c passes on what a
 * sender needs (lib/gen/spw_gen_run.h).
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "base/spw_err.h"
#include "conf.h"
#include "time/spw_time.h"

#define SECOND 1000000000ull

static const char *const gaps_name[] = {"constant", "poisson", "burst", "ramp", "capture"};

/* In the order of enum gen_gaps. */
const char *gen_gaps_name(enum gen_gaps gaps)
{
	return gaps_name[gaps];
}

/* ---- options whose value is neither a number nor a plain text ---- */

static int conf_mac_set(void *mac, const char *value)
{
	return gen_address_parse(value, mac) ? 0
					     : spw_err(EINVAL, "'%s' is not a MAC address", value);
}

/* %c finds anything behind the address. Kept in host order. */
static int conf_ip_set(void *ip_out, const char *value)
{
	unsigned int a, b, c, d;
	char more;

	if (sscanf(value, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &more) != 4 || a > 255 || b > 255 ||
	    c > 255 || d > 255)
		return spw_err(EINVAL, "'%s' is not an IPv4 address", value);
	*(uint32_t *)ip_out = a << 24 | b << 16 | c << 8 | d;
	return 0;
}

/* Whether the driver can send is known only when the port is open (senders.c). */
static int conf_port_spec_set(void *arg, const char *value)
{
	struct gen_conf *conf = arg;

	return spw_port_spec_parse(value, &conf->port);
}

static int conf_rate_set(void *arg, const char *value)
{
	struct gen_conf *conf = arg;
	uint64_t pps;
	int rc = spw_opt_quantity(value, SPW_OPT_UNIT_PPS, 1, &pps);

	conf->plan.rate_fps = (double)pps;
	return rc;
}

/* "FROM-TO/TIME", "100kpps-2Mpps/5s". */
static int conf_ramp_set(struct gen_conf *conf, const char *value)
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

/* The plan refuses what is too many (gen_plan_init). */
static int conf_burst_set(struct gen_conf *conf, const char *value)
{
	uint64_t cnt;
	int rc = spw_opt_quantity(value, SPW_OPT_UNIT_NONE, 1, &cnt);

	conf->plan.gaps = GEN_BURST;
	conf->plan.burst_cnt = (uint32_t)SPW_MIN(cnt, UINT32_MAX);
	return rc;
}

/* burst and ramp need a value and are taken before the loop; "constant", "poisson" and "capture"
 * stand alone. */
static int conf_schedule_set(void *arg, const char *value)
{
	struct gen_conf *conf = arg;

	if (!strncmp(value, "ramp:", 5))
		return conf_ramp_set(conf, value + 5);
	if (!strncmp(value, "burst:", 6))
		return conf_burst_set(conf, value + 6);
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
static int conf_size_one_set(const char *text, uint16_t *bytes_out)
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
static int conf_size_set(void *arg, const char *value)
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
	rc = conf_size_one_set(first, &conf->plan.size_min);
	conf->plan.sizes = dash ? GEN_SIZE_RANGE : GEN_SIZE_FIXED;
	conf->plan.size_max = conf->plan.size_min;
	return rc || !dash ? rc : conf_size_one_set(dash + 1, &conf->plan.size_max);
}

#define IN(heading, member)          .section = heading, SPW_OPT_FIELD(struct gen_conf, member)
#define WHOLE(heading, setter, what) .section = heading, SPW_OPT_SETTER(setter, what)

/* A number without unit is seconds only where the option's name says so. */
static const struct spw_opt table[] = {
	{WHOLE("path", conf_port_spec_set, "SPEC"), .name = "port",
	 .help = "where to send: DRIVER:DEVICE[,key=value]..., see spinwire-ports(7)"},
	{IN("path", frame.src_mac), .name = "src-mac", SPW_OPT_SETTER(conf_mac_set, "MAC"),
	 .help = "of the frames; else the port's own"},
	{IN("path", frame.dst_mac), .name = "dst-mac", SPW_OPT_SETTER(conf_mac_set, "MAC"),
	 .help = "of the frames; else the kernel's neighbour with --dst-ip, else "
		 "02:00:00:00:00:02"},
	{IN("path", frame.src_ip), .name = "src-ip", SPW_OPT_SETTER(conf_ip_set, "IPV4"),
	 .dflt = "198.18.0.1", .help = "of the frames (RFC 2544 benchmarking addresses)"},
	{IN("path", frame.dst_ip), .name = "dst-ip", SPW_OPT_SETTER(conf_ip_set, "IPV4"),
	 .dflt = "198.18.0.2", .help = "of the frames"},
	{IN("path", slots), .name = "slots", .kind = SPW_OPT_NUMBER, .min = 128, .max = 1u << 24,
	 .dflt = "8192", .help = "frames that a sender may have under way"},
	{IN("path", link_wait_ns), .name = "link-wait", .kind = SPW_OPT_TIME, .dflt = "10s",
	 .help = "how long to wait for the port's link before the plan starts"},

	{WHOLE("plan", conf_rate_set, "RATE"), .name = "rate",
	 .range = "pps, kpps, Mpps, Gpps; without a unit pps", .dflt = "1Mpps",
	 .help = "mean rate"},
	{WHOLE("plan", conf_schedule_set, "SCHEDULE"), .name = "schedule", .dflt = "constant",
	 .help = "constant, poisson, burst:N, ramp:FROM-TO/TIME, capture"},
	{WHOLE("plan", conf_size_set, "SIZE"), .name = "size", .dflt = "64",
	 .help = "bytes without FCS, 64 to 9600: N, FROM-TO, imix, capture"},
	{IN("plan", plan.capture), .name = "capture", SPW_OPT_FILE,
	 .help = "pcap or pcapng file whose times or sizes are used"},
	{IN("plan", plan.flow_cnt), .name = "flows", .kind = SPW_OPT_NUMBER, .min = 1,
	 .max = GEN_FLOW_MAX, .dflt = "16", .help = "flows, by UDP source port"},
	{IN("plan", frame.stream), .name = "stream", .kind = SPW_OPT_BOOL, .dflt = "no",
	 .help = "whether each frame has its number in the stream of its sender, for "
		 "rails_order=stream (68 bytes and more)"},
	{IN("plan", plan.seed), .name = "seed", .kind = SPW_OPT_NUMBER, .dflt = "1",
	 .help = "the same seed is the same plan"},
	{IN("plan", frame.run), .name = "run", .kind = SPW_OPT_NUMBER,
	 .help = "number of the run in every frame; echoes of others are refused; else from the "
		 "clock"},

	{IN("plan", check), .name = "check", .kind = SPW_OPT_FLAG,
	 .help = "read the options, say whether they are good, and send nothing"},

	{IN("time", seconds_ns), .name = "seconds", .kind = SPW_OPT_TIME, .min = 1,
	 .max = 24 * 3600 * SECOND, .bare_unit = SECOND, .dflt = "10s",
	 .help = "how long the plan runs"},
	{IN("time", warm_up_ns), .name = "warm-up", .kind = SPW_OPT_TIME, .dflt = "0s",
	 .help = "frames due in that time are sent and counted, but not in "
		 "percentiles"},
	{IN("time", linger_ns), .name = "linger", .kind = SPW_OPT_TIME, .dflt = "1s",
	 .help = "how long to wait for the last echo, or for a sink to empty the path; a signal "
		 "ends it"},
	{IN("time", probe_ns), .name = "probe", .kind = SPW_OPT_TIME, .dflt = "100ms",
	 .help = "how long to measure, before the plan, what the machine takes from the senders' "
		 "cores; 0s: not"},
	{IN("time", hold_ns), .name = "hold", .kind = SPW_OPT_TIME, .dflt = "0s",
	 .help = "how long to keep the port open after the report, for a receiver that should end "
		 "first"},

	{IN("result", expect_echo), .name = "echo", .kind = SPW_OPT_BOOL, .dflt = "yes",
	 .help = "whether frames are expected back"},
	{IN("result", slow_ns), .name = "slow-threshold", .kind = SPW_OPT_TIME, .dflt = "100us",
	 .help = "frames that take longer get a cause each"},
	{IN("result", full), .name = "full", .kind = SPW_OPT_FLAG,
	 .help = "print every table of the result; without it ten lines"},
	{IN("result", stats_period_ns), .name = "stats-period", .kind = SPW_OPT_TIME,
	 .max = 86400 * SECOND, .bare_unit = SECOND, .dflt = "0",
	 .help = "print a line of rates and drops so often, in seconds; 0: none"},
	SPW_OPT_VERBOSITY(struct gen_conf, verbosity, "result"),
	{IN("result", json), .name = "json", SPW_OPT_FILE,
	 .help = "file for the summary; -: stdout, and no table"},
	{IN("result", hdr), .name = "hdr", SPW_OPT_FILE,
	 .help = "file for an HdrHistogram log: round trips and schedule errors, an interval a "
		 "second"},
	{IN("result", trail), .name = "trail", SPW_OPT_FILE,
	 .help = "file for the stamps of slow frames, for spinwire-run to join"},
	{IN("result", trail_every), .name = "trail-every", .kind = SPW_OPT_NUMBER, .min = 1,
	 .max = 1u << 20, .demands = SPW_OPT_POW2, .dflt = "1",
	 .help = "of each flow, frames whose number is a multiple of this are on the trail"},
};

static const char *const usage[] = {"[EAL arguments] -- --port SPEC [options]", NULL};
static const struct spw_opt_pair status[] = {{"0", "good"},
					     {"1", "usage"},
					     {"2", "the machine cannot do it, or frames that the "
						   "port took were not sent"},
					     {"3", "slots were not returned"},
					     {"130 or 143", "interrupted"},
					     {NULL, NULL}};
static const struct spw_opt_pair example[] = {
	{"spinwire-gen -l 0,1 -- --port mlx5:mlx5_1 --rate 1Mpps",
	 "A million frames a second for ten seconds, each expected back."},
	{"spinwire-gen -l 0,1 -- --port mlx5:mlx5_1 --schedule ramp:100kpps-2Mpps/5s --size imix",
	 "A rate that rises for five seconds, of mixed sizes."},
	{"spinwire-gen -l 0,1 -- --port mlx5:mlx5_1 --echo no --seconds 1min --json sent.json",
	 "A sink at the other end, the summary to a file."},
	{NULL, NULL}};

/* The list of drivers is what this build has, so it is made when it is asked for. */
const struct spw_opt_program *gen_conf_program(void)
{
	static char notes[160];
	static struct spw_opt_program program = {
		.name = "spinwire-gen",
		.summary = "send frames on a schedule that nothing can slow down",
		.usage = usage,
		.about = "Sends frames on a schedule that nothing can slow down, and reports what "
			 "came\n"
			 "back and how late. Every worker lcore is a sender with a port queue of "
			 "its "
			 "own;\n"
			 "one is needed besides the main lcore.\n",
		.opt = table,
		.opt_cnt = SPW_ARRAY_CNT(table),
		.notes = notes,
		.status = status,
		.example = example,
		.see = "spinwire(1), spinwire-ports(7), spinwire-run(1), spinwire-profile(1)"};

	snprintf(notes, sizeof(notes), "port drivers (man spinwire-ports): %s",
		 spw_port_driver_names());
	return &program;
}

/* One line for the reports: what was asked for, in words. */
static void conf_schedule_describe(struct gen_conf *conf)
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

/* The run's number comes from the clock, so that echoes of an earlier run are distinguished without
 * an option. */
int gen_conf_args(struct gen_conf *conf_out, int argc, char **argv)
{
	int rc;

	memset(conf_out, 0, sizeof(*conf_out));
	conf_out->frame.run = (uint16_t)(spw_tsc_now() >> 20);
	rc = spw_opt_defaults(table, SPW_ARRAY_CNT(table), conf_out);
	if (rc == 0)
		rc = spw_opt_parse(gen_conf_program(), argc, argv,
				   &(struct spw_opt_take){.base = conf_out});
	if (rc == 0 && !conf_out->port.text[0])
		rc = spw_err(EINVAL, "--port: is missing; it names the port to send from");
	if (rc == 0 && conf_out->warm_up_ns >= conf_out->seconds_ns)
		rc = spw_err(ERANGE, "--warm-up: must be shorter than --seconds");
	if (rc == 0)
		rc = gen_plan_check(&conf_out->plan);
	if (rc == 0)
		conf_schedule_describe(conf_out);
	return rc;
}
