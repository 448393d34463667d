/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The one table of keys: name, option, type, range, default, help. The file, the command line,
 * --help and the man page are all made from it, so a new setting is one entry here and one field in
 * struct spw_conf.
 *
 *   YAML: run: { burst: 32 } - yaml.c -+
 *   --burst 32 ------------- option.c -+--> spw_opt_set --> field by offset
 *   default "64" ------------ below ---+
 *   an entry ---------------------------> --help, man page, completion, messages
 *
 * Rules that span several keys are in check.c. Where 0 means "the driver's choice" or "no limit",
 * min is left at 0 and the help says so.
 */
#include <stdio.h>
#include <string.h>

#include "conf/conf_impl.h"
#include "flight/spw_flight.h"

#define SECOND 1000000000ull

/* The names of a choice, in the order of its enum: the index is the value that is stored. */
static const char *exec_choice(uint32_t idx)
{
	return idx < SPW_EXEC_KIND_CNT ? spw_exec_kind_name((enum spw_exec_kind)idx) : NULL;
}

static const char *mem_choice(uint32_t idx)
{
	return idx <= SPW_MEM_GPU ? spw_mem_kind_name((enum spw_mem_kind)idx) : NULL;
}

/* lib/mem knows why; any other text gets the list of kinds. */
static int mem_refused(const char *text)
{
	enum spw_mem_kind kind;

	return strcmp(text, "managed") ? 0 : spw_mem_kind_parse(text, &kind);
}

/* A NULL ends the list; spw_opt_set and spw_opt_range walk it from 0. */
static const char *profile_choice(uint32_t idx)
{
	static const char *const name[] = {
		[SPW_CONF_LATENCY] = "latency", [SPW_CONF_THROUGHPUT] = "throughput"};

	return idx < SPW_ARRAY_CNT(name) ? name[idx] : NULL;
}

static const char *litmus_choice(uint32_t idx)
{
	static const char *const name[] = {[SPW_CONF_LITMUS_OFF] = "off",
					   [SPW_CONF_LITMUS_QUICK] = "quick",
					   [SPW_CONF_LITMUS_LONG] = "long"};

	return idx < SPW_ARRAY_CNT(name) ? name[idx] : NULL;
}

static const char *record_choice(uint32_t idx)
{
	static const char *const name[] = {
		[SPW_CONF_RECORD_SLOW] = "slow", [SPW_CONF_RECORD_END] = "end"};

	return idx < SPW_ARRAY_CNT(name) ? name[idx] : NULL;
}

/* Adds to the list: a YAML list comes item by item. */
int conf_cores_add(void *field, const char *text)
{
	struct spw_conf_cores *cores = field;

	return spw_opt_cores(text, cores->core, SPW_CONF_CORE_MAX, &cores->cnt);
}

/* Where a value goes: the section's name is the key's first part in the file, offset and bytes name
 * the field. The kind fixes what is written there (lib/opt). */
#define PORT_FIELD(field) .section = CONF_PORTS, SPW_OPT_FIELD(struct spw_conf_port, field)
#define EXEC_FIELD(field) .section = "executor", SPW_OPT_FIELD(struct spw_conf, executor.field)
#define MEM_FIELD(field)  .section = "memory", SPW_OPT_FIELD(struct spw_conf, memory.field)
#define CORES_KIND        SPW_OPT_SETTER(conf_cores_add, "CORES"), .range = SPW_OPT_CORES_RANGE
#define RUN_FIELD(field)  .section = "run", SPW_OPT_FIELD(struct spw_conf, run.field)

const struct spw_opt conf_table[] = {
	{PORT_FIELD(spec_text), .key = "spec", .name = "port", .value = "SPEC",
	 .kind = SPW_OPT_TEXT, .min = 1, .max = 511, .dflt = "",
	 .help = "where frames come from: DRIVER:DEVICE[,key=value]..., see spinwire-ports(7); "
		 "the option may be repeated"},
	{PORT_FIELD(queues), .key = "queues", .name = "queues", .kind = SPW_OPT_NUMBER, .min = 1,
	 .max = SPW_PORT_QUEUE_MAX, .dflt = "1",
	 .help = "receive queues of the port, one lcore each"},
	{PORT_FIELD(lcores), .key = "lcores", .name = "lcores", CORES_KIND, .dflt = "",
	 .help = "lcores that run the queues, in order; else the next free ones"},
	{PORT_FIELD(ring_size), .key = "ring", .name = "ring", .kind = SPW_OPT_NUMBER, .max = 32768,
	 .demands = SPW_OPT_POW2, .dflt = "0",
	 .help = "entries of a receive or transmit ring; 0: the driver's choice"},
	{PORT_FIELD(profile), .key = "profile", .name = "profile", .kind = SPW_OPT_CHOICE,
	 .choice = profile_choice, .dflt = "latency",
	 .help = "what drivers with a choice tune their queues for"},
	{PORT_FIELD(objects), .key = "objects", .name = "objects", .value = "FILE",
	 .kind = SPW_OPT_TEXT, .min = 1, .max = 511, .dflt = "",
	 .help = "make objects of the payload, as this description (YAML) says; instead of a "
		 "handler, and of the --port before it"},

	{EXEC_FIELD(kind), .key = "kind", .name = "executor", .kind = SPW_OPT_CHOICE,
	 .choice = exec_choice, .dflt = "auto", .help = "who runs the handler"},
	{EXEC_FIELD(handler), .key = "handler", .name = "handler", .kind = SPW_OPT_TEXT, .min = 1,
	 .max = 255, .dflt = "null",
	 .help = "built-in handler, or the path of a plug-in: ./x.so:key=value,...; given more "
		 "than once, each is of the --port before it"},
	{EXEC_FIELD(batches), .key = "batches", .name = "batches", .kind = SPW_OPT_NUMBER,
	 .max = SPW_GRING_BATCH_MAX, .demands = SPW_OPT_POW2, .dflt = "0",
	 .help = "batches of an executor ring; 0: the executor's choice"},
	{EXEC_FIELD(ctas), .key = "ctas", .name = "ctas", .kind = SPW_OPT_NUMBER,
	 .max = SPW_GRING_UNIT_MAX, .dflt = "0",
	 .help = "CUDA: thread blocks per ring; 0: the executor's choice"},
	{EXEC_FIELD(cores), .key = "cores", .name = "executor-cores", CORES_KIND, .dflt = "",
	 .help = "cpu: cores of the executor's threads, one per queue; else spare lcores"},
	{EXEC_FIELD(beat_timeout_ns), .key = "beat-timeout", .name = "beat-timeout",
	 .kind = SPW_OPT_TIME, .min = SECOND / 100, .max = 60 * SECOND, .dflt = "1s",
	 .help = "cuda-persistent: the kernel leaves when the host is silent for so long"},

	{MEM_FIELD(kind), .key = "kind", .name = "memory", .kind = SPW_OPT_CHOICE,
	 .choice = mem_choice, .refused = mem_refused, .dflt = "auto",
	 .help = "memory that the frames lie in"},
	{MEM_FIELD(objects), .key = "objects", .name = "object-memory", .kind = SPW_OPT_CHOICE,
	 .choice = mem_choice, .refused = mem_refused, .dflt = "auto",
	 .help = "memory that objects lie in; gpu: a discrete GPU's own, which its kernels "
		 "write and read without crossing PCIe"},
	{MEM_FIELD(slots), .key = "slots", .name = "slots", .kind = SPW_OPT_NUMBER, .min = 64,
	 .max = 1u << 24, .dflt = "8192", .help = "slots per queue, one frame each"},
	{MEM_FIELD(slot_bytes), .key = "slot-size", .name = "slot-size", .kind = SPW_OPT_BYTES,
	 .min = 64, .max = SPW_DESC_LEN_MAX, .demands = SPW_OPT_MULTIPLE_64, .dflt = "2KiB",
	 .help = "room for a frame in a slot, the driver's headroom aside"},

	{SPW_OPT_FIELD(struct spw_conf, file), .section = "run", .name = "config", .value = "FILE",
	 .kind = SPW_OPT_TEXT, .min = 1, .max = 511, .dflt = "",
	 .help = "read a YAML file with these keys first; options override it"},
	{SPW_OPT_FIELD(struct spw_conf, check), .section = "run", .name = "check",
	 .kind = SPW_OPT_FLAG, .dflt = "",
	 .help = "read options and file, say whether they are good, and start nothing"},
	{RUN_FIELD(seconds_ns), .key = "seconds", .name = "seconds", .kind = SPW_OPT_TIME,
	 .max = 366 * 86400 * SECOND, .bare_unit = SECOND, .dflt = "0",
	 .help = "stop after so long; 0: on SIGINT or SIGTERM"},
	{RUN_FIELD(frames), .key = "frames", .name = "frames", .kind = SPW_OPT_NUMBER,
	 .max = INT64_MAX, .dflt = "0",
	 .help = "stop after so many frames were received; 0: no limit"},
	{RUN_FIELD(stats_period_ns), .key = "stats-period", .name = "stats-period",
	 .kind = SPW_OPT_TIME, .max = 86400 * SECOND, .bare_unit = SECOND, .dflt = "0",
	 .help = "print a line of rates and drops so often, in seconds; 0: none"},
	{RUN_FIELD(json), .key = "json", .name = "json", .value = "FILE", .kind = SPW_OPT_TEXT,
	 .min = 1, .max = 511, .dflt = "",
	 .help = "write the summary as JSON to this file; -: stdout, and no table"},
	{RUN_FIELD(hdr), .key = "hdr", .name = "hdr", .value = "FILE", .kind = SPW_OPT_TEXT,
	 .min = 1, .max = 511, .dflt = "",
	 .help = "write an HdrHistogram log of the stages to this file, an interval a second"},
	{RUN_FIELD(trail), .key = "trail", .name = "trail", .value = "FILE", .kind = SPW_OPT_TEXT,
	 .min = 1, .max = 511, .dflt = "",
	 .help = "write the stamps of spinwire-gen's frames to this file, for tools/run to join"},
	{RUN_FIELD(trail_every), .key = "trail-every", .name = "trail-every",
	 .kind = SPW_OPT_NUMBER, .min = 1, .max = 1u << 20, .demands = SPW_OPT_POW2, .dflt = "1",
	 .help = "of each flow, frames whose number is a multiple of this are on the trail"},
	{RUN_FIELD(stamps), .key = "stamps", .name = "stamps", .kind = SPW_OPT_BOOL, .dflt = "yes",
	 .help = "record stages and regimes"},
	{RUN_FIELD(frame_stamps), .key = "frame-stamps", .name = "frame-stamps",
	 .kind = SPW_OPT_BOOL, .dflt = "yes",
	 .help = "record each frame's way from its NIC stamp; no: only the oldest of a burst, "
		 "for causes"},
	{RUN_FIELD(slow_ns), .key = "slow-threshold", .name = "slow-threshold",
	 .kind = SPW_OPT_TIME, .min = 1000, .max = 60 * SECOND, .dflt = "100us",
	 .help = "frames that take longer get a cause each"},
	{RUN_FIELD(slow_object_ns), .key = "slow-object", .name = "slow-object",
	 .kind = SPW_OPT_TIME, .max = 60 * SECOND, .dflt = "0s",
	 .help = "objects that take longer, from the first frame on, get a cause each; 0s: than "
		 "their deadline"},
	{RUN_FIELD(burst), .key = "burst", .name = "burst", .kind = SPW_OPT_NUMBER, .min = 1,
	 .max = SPW_BURST_MAX, .dflt = "64",
	 .help = "most frames of one poll, and so of one batch"},
	{RUN_FIELD(slo), .key = "slo", .name = "slo", .kind = SPW_OPT_TEXT, .max = 63, .dflt = "",
	 .help = "objective, such as 20us@p99.9: executor (if auto), its CTAs (if 0) and burst are "
		 "chosen by what is measured"},
	{RUN_FIELD(litmus), .key = "litmus", .name = "litmus", .kind = SPW_OPT_CHOICE,
	 .choice = litmus_choice, .dflt = "quick",
	 .help = "test of memory, NIC and executor before traffic; quick: 0.1 s, long: 10 s"},
	{RUN_FIELD(capture), .key = "capture", .name = "capture", .value = "FILE",
	 .kind = SPW_OPT_TEXT, .min = 1, .max = 511, .dflt = "",
	 .help = "write what is received to this file, as pcapng"},
	{RUN_FIELD(capture_limit), .key = "capture-limit", .name = "capture-limit",
	 .kind = SPW_OPT_BYTES, .min = 4096, .max = 1ull << 50, .dflt = "1GiB",
	 .help = "the capture's largest size; later frames are only counted"},
	{RUN_FIELD(capture_snap), .key = "capture-snap", .name = "capture-snap",
	 .kind = SPW_OPT_BYTES, .min = 16, .max = 65535, .dflt = "256B",
	 .help = "bytes of a frame that are captured"},
	{RUN_FIELD(receipts), .key = "receipts", .name = "receipts", .value = "FILE",
	 .kind = SPW_OPT_TEXT, .min = 1, .max = 511, .dflt = "",
	 .help = "write the receipt of each object to this file, a line of JSON each"},
	{RUN_FIELD(record), .key = "record", .name = "record", .value = "FILE",
	 .kind = SPW_OPT_TEXT, .min = 1, .max = 511, .dflt = "",
	 .help = "keep what the loops learn, and write it to this file when a frame is slow, "
		 "something fails, or on SIGUSR1; spinwire --replay runs it again"},
	{RUN_FIELD(record_rule), .key = "record-rule", .name = "record-rule",
	 .kind = SPW_OPT_CHOICE, .choice = record_choice, .dflt = "slow",
	 .help = "slow: each longest slow frame so far is a reason to write; end: the end of the "
		 "run is"},
	{RUN_FIELD(record_window_ns), .key = "record-window", .name = "record-window",
	 .kind = SPW_OPT_TIME, .max = 3600 * SECOND, .dflt = "0s",
	 .help = "the file holds so much of the time before; 0: all that was kept"},
	{RUN_FIELD(record_memory), .key = "record-memory", .name = "record-memory",
	 .kind = SPW_OPT_BYTES, .min = 4u << 20, .max = 1ull << 36, .dflt = "64MiB",
	 .help = "memory for it, of each queue"},
	{RUN_FIELD(record_cqes), .key = "record-cqes", .name = "record-cqes", .kind = SPW_OPT_BOOL,
	 .dflt = "yes", .help = "keep the CQEs, where the port can; no: cheaper, a longer window"},
	{RUN_FIELD(record_snap), .key = "record-snap", .name = "record-snap", .kind = SPW_OPT_BYTES,
	 .max = SPW_FLIGHT_SNAP_MAX, .dflt = "0B", .help = "bytes kept of each frame's payload"},

	/* a key of the file alone; it stands last (spw_conf_options) */
	{PORT_FIELD(handler), .key = "handler", .kind = SPW_OPT_TEXT, .min = 1, .max = 255,
	 .dflt = "", .help = "handler of this port; else executor.handler"},
};
_Static_assert(SPW_ARRAY_CNT(conf_table) <= SPW_CONF_OPTION_MAX, "an option for each bit of a set");
const uint32_t conf_table_cnt = SPW_ARRAY_CNT(conf_table);

/* Of the ports, or of everything else. */
static void defaults_set(void *base, bool ports)
{
	for (uint32_t i = 0; i < conf_table_cnt; i++)
		if ((strcmp(conf_table[i].section, CONF_PORTS) == 0) == ports)
			spw_opt_defaults(&conf_table[i], 1, base);
}

/* Each port gets its defaults when it is added (conf_port_add). */
void spw_conf_init(struct spw_conf *conf_out)
{
	memset(conf_out, 0, sizeof(*conf_out));
	defaults_set(conf_out, false);
}

/* Used by the file and by --port alike. */
struct spw_conf_port *conf_port_add(struct spw_conf *conf)
{
	struct spw_conf_port *port;

	if (conf->port_cnt == SPW_PORT_MAX)
		return NULL;
	port = &conf->port[conf->port_cnt++];
	memset(port, 0, sizeof(*port));
	defaults_set(port, true);
	return port;
}

/* For --help and the man page; app/spinwire adds options that are no keys. */
const struct spw_opt *spw_conf_options(uint32_t *cnt_out)
{
	*cnt_out = conf_table_cnt - 1; /* without the key of the file */
	return conf_table;
}
