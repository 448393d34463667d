/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf_impl.h"
#include "unit_test.h"

static struct spw_conf conf;

static int load(const char *text)
{
	spw_conf_init(&conf);
	return spw_conf_load_text(&conf, "f.yaml", text, strlen(text));
}

static void assert_error(int rc, const char *part)
{
	if (rc == 0)
		fail_msg("no error; expected one with \"%s\"", part);
	if (!strstr(spw_err_text(), part))
		fail_msg("error \"%s\" lacks \"%s\"", spw_err_text(), part);
}

static void every_default_passes_its_own_check(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < conf_table_cnt; i++) {
		const struct spw_opt *key = &conf_table[i];
		static struct spw_conf all;
		static struct spw_conf_port port;

		if (key->dflt[0] == '\0')
			continue;
		if (spw_opt_set(key, strcmp(key->section, CONF_PORTS) ? (void *)&all : &port,
				key->dflt))
			fail_msg("%s.%s: %s", key->section, key->name, spw_err_text());
	}
	assert_true(conf_table_cnt <= 64);
	spw_conf_init(&conf);
	assert_int_equal(conf.executor.kind, SPW_EXEC_AUTO);
	assert_string_equal(conf.executor.handler, "null");
	assert_int_equal(conf.executor.beat_timeout_ns, 1000000000);
	assert_int_equal(conf.memory.slots, 8192);
	assert_int_equal(conf.memory.slot_bytes, 2048);
	assert_true(conf.run.stamps);
	assert_int_equal(conf.run.burst, 64);
	assert_int_equal(conf.port_cnt, 0);
}

static void a_whole_file_is_read(void **state)
{
	static const char text[] =
		"# two ports\n"
		"ports:\n"
		"  - spec: \"null:size=64,queues=2\"\n"
		"    queues: 2\n"
		"    lcores: [2, 3]\n"
		"    ring: 1024\n"
		"    profile: throughput\n"
		"  - { spec: 'null:', lcores: 5, handler: './syn.so:port=443' }\n"
		"executor: { kind: cpu, handler: ./my.so, batches: 256, cores: [8-9, 10], "
		"beat-timeout: 2.5s }\n"
		"memory: { kind: host, objects: gpu, slots: 0x400, slot-size: 9KiB }\n"
		"run: { seconds: 90, frames: 1000000, json: '-', stamps: off, burst: 32 }\n";

	(void)state;
	assert_int_equal(load(text), 0);
	assert_int_equal(spw_conf_check(&conf), 0);
	assert_int_equal(conf.port_cnt, 2);
	assert_string_equal(conf.port[0].spec.driver, "null");
	assert_int_equal(conf.port[0].queues, 2);
	assert_int_equal(conf.port[0].lcores.cnt, 2);
	assert_int_equal(conf.port[0].lcores.core[1], 3);
	assert_int_equal(conf.port[0].lcores.where.line, 5);
	assert_int_equal(conf.port[0].ring_size, 1024);
	assert_int_equal(conf.port[0].profile, SPW_CONF_THROUGHPUT);
	assert_int_equal(conf.port[1].queues, 1);
	assert_int_equal(conf.port[1].lcores.core[0], 5);
	assert_int_equal(conf.port[1].profile, SPW_CONF_LATENCY);
	assert_string_equal(conf.port[0].handler, "");
	assert_string_equal(conf.port[1].handler, "./syn.so:port=443");
	assert_int_equal(conf.executor.kind, SPW_EXEC_CPU);
	assert_string_equal(conf.executor.handler, "./my.so");
	assert_int_equal(conf.executor.batches, 256);
	assert_int_equal(conf.executor.cores.cnt, 3);
	assert_int_equal(conf.executor.cores.core[2], 10);
	assert_int_equal(conf.executor.beat_timeout_ns, 2500000000);
	assert_int_equal(conf.memory.kind, SPW_MEM_HOST);
	assert_int_equal(conf.memory.objects, SPW_MEM_GPU);
	assert_int_equal(conf.memory.slots, 1024);
	assert_int_equal(conf.memory.slot_bytes, 9216);
	assert_true(conf.run.seconds_ns == 90000000000ull);
	assert_int_equal(conf.run.frames, 1000000);
	assert_string_equal(conf.run.json, "-");
	assert_false(conf.run.stamps);
	assert_int_equal(conf.run.burst, 32);
}

static void anchors_and_aliases_work(void **state)
{
	(void)state;
	assert_int_equal(load("ports:\n"
			      "  - &first { spec: 'null:', queues: &two 2 }\n"
			      "  - *first\n"
			      "run: { burst: *two }\n"),
			 0);
	assert_int_equal(conf.port_cnt, 2);
	assert_int_equal(conf.port[1].queues, 2);
	assert_int_equal(conf.run.burst, 2);
}

/* A file of brackets, dashes, anchors or directives: each made libyaml's time grow with the square,
 * to minutes for 1 MiB. */
static void hostile_files_end_soon(void **state)
{
	static const char *const piece[] = {"[", "- ", "? ", "{a: ", "- &a1 x\n", "%TAG !a! b\n"};
	enum { BYTES = 64 << 10 };
	char *text = malloc(BYTES + 16);
	clock_t begin = clock();

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < SPW_ARRAY_CNT(piece); i++) {
		size_t bytes = strlen(piece[i]), used = 0;

		while (used + bytes <= BYTES) {
			memcpy(text + used, piece[i], bytes);
			used += bytes;
		}
		assert_int_equal(spw_conf_load_text(&conf, "f.yaml", text, used), -EINVAL);
	}
	assert_non_null(strstr(spw_err_text(), "f.yaml:"));
	assert_true((clock() - begin) / CLOCKS_PER_SEC < 10);
	assert_int_equal(spw_conf_load_text(&conf, "f.yaml", text, BYTES + 1), -EFBIG);
	free(text);
	assert_int_equal(load("run: [[[[[[[[[[1]]]]]]]]]]\n"), -EINVAL);
	assert_non_null(
		strstr(spw_err_text(), "f.yaml:1:13: lists and mappings inside each other"));
}

/* Each with the place and what is allowed. */
static const struct {
	const char *text, *error;
} wrong[] = {
	{"", "f.yaml:1:1: the file is empty"},
	{"# nothing\n", "f.yaml:1:1: the file is empty"},
	{"7\n", "f.yaml:1:1: a single value where a mapping"},
	{"[a]\n", "f.yaml:1:1: a list where a mapping"},
	{"run:\n  brust: 3\n",
	 "f.yaml:2:3: unknown key 'brust' in run, did you mean 'burst'; allowed: "},
	{"rum: {}\n", "f.yaml:1:1: unknown key 'rum' in the file, did you mean 'run'; "
		      "allowed: ports, executor"},
	{"xyzzy: {}\n", "unknown key 'xyzzy' in the file; allowed: ports, executor, memory, run"},
	{"run: {}\nrun: {}\n", "f.yaml:2:1: 'run' is given twice in the file"},
	{"run: { burst: 1,\n burst: 2 }\n", "f.yaml:2:2: 'burst' is given twice in run"},
	{"run: { burst: 65 }\n", "f.yaml:1:15: run.burst: '65' is not allowed; allowed: 1 .. 64"},
	{"run: { burst: 0 }\n", "'0' is not allowed; allowed: 1 .. 64"},
	{"run: { burst: -1 }\n", "'-1' is not allowed; allowed: 1 .. 64"},
	{"run: { burst: 3.5 }\n", "'3.5' is not a whole number"},
	{"run: { burst: many }\n", "'many' is not a number"},
	{"run: { burst: \"3\" }\n", "f.yaml:1:15: run.burst: a quoted text where a plain value"},
	{"run: { burst: 8KiB }\n", "'8KiB' is not a whole number"},
	{"run: { burst: 99999999999999999999 }\n", "is not allowed; allowed: 1 .. 64"},
	{"run: { burst: [3] }\n", "f.yaml:1:15: a list where a value; allowed: 1 .. 64"},
	{"run: { burst: { a: 1 } }\n", "a mapping where a value"},
	{"run: { burst: }\n", "run.burst: no value"},
	{"run:\n", "f.yaml:1:5: a single value where a mapping"},
	{"run: { stamps: maybe }\n", "'maybe' is not allowed; allowed: yes, no"},
	{"run: { seconds: 5h }\n", "has the unknown unit 'h'; allowed: ns, us, ms, s, min"},
	{"run: { seconds: 0.1ns }\n", "'0.1ns' is finer than one ns"},
	{"executor: { beat-timeout: 5 }\n", "'5' has no unit: 5ms? allowed: ns, us, ms, s, min"},
	{"executor: { beat-timeout: 1ms }\n", "allowed: 10ms .. 60s"},
	{"executor: { kind: gpu }\n",
	 "executor.kind: 'gpu' is not allowed; allowed: auto, inline, cpu"},
	{"executor: { batches: 48 }\n", "allowed: 0 or 1 .. 4096, a power of 2"},
	{"executor: { cores: [1, 9999] }\n",
	 "f.yaml:1:24: executor.cores: '9999' is not allowed; allowed: core"},
	{"executor: { cores: 4-2 }\n", "'4-2' is not allowed"},
	{"executor: { cores: 4, }\nrun: { burst: x }\n", "f.yaml:2:15"},
	{"executor: { cores: [[1]] }\n", "a list where a core number"},
	{"memory: { kind: managed }\n", "its pages move between CPU and GPU"},
	{"memory: { objects: managed }\n", "its pages move between CPU and GPU"},
	{"memory: { slot-size: 2KB }\n", "unknown unit 'KB'; allowed: B, KiB, MiB, GiB"},
	{"memory: { slot-size: 100B }\n", "allowed: 64B .. 64MiB, a multiple of 64"},
	{"memory: { slot-size: 2048 }\n", "'2048' has no unit: 2048B? allowed"},
	{"memory: { kind: vram }\n", "memory.kind: 'vram' is not allowed; allowed: auto, host"},
	{"ports: {}\n", "f.yaml:1:8: a mapping where a list of ports"},
	{"ports:\n  - null\n", "f.yaml:2:5: a single value where a mapping"},
	{"ports:\n  - { spec: '' }\n",
	 "f.yaml:2:13: ports.spec: '' is not allowed; allowed: 1 .. 511"},
	{"ports:\n- spec: a\n  que: 1\n",
	 "f.yaml:3:3: unknown key 'que' in ports; allowed: spec, queues"},
	{"ports: [{},{},{},{},{},{},{},{},{}]\n", "f.yaml:1:33: more than 8 ports"},
	{"run: { <<: {} }\n", "unknown key '<<' in run"},
	{"run: { burst: !!int 3 }\n",
	 "f.yaml:1:15: the tag 'tag:yaml.org,2002:int' is not used here"},
	{"run: { burst: *nope }\n", "f.yaml:1:15: found undefined alias"},
	{"run: &r { burst: *r }\n", "a mapping where a value"},
	{"ports: &p [ *p ]\n", "a list where a mapping"},
	{"? [a]\n: b\n", "f.yaml:1:3: a list where a key"},
	{"run: {}\n---\nrun: {}\n", "f.yaml:3:1: a second document"},
	{"run: {}\n...\n@", "f.yaml:3:1: "},
	{"run: { burst: 3\n", "f.yaml:2:1: "},
	{"run:\n\tburst: 3\n", "f.yaml:2:1: a tab: YAML indents with spaces only"},
	{"run: { json: \"a\\0b\" }\n", "f.yaml:1:14: a NUL byte in a value"},
	{"run: \xff\xfe\n", "f.yaml:1:"},
};

static void errors_name_the_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		spw_err_clear();
		assert_error(load(wrong[i].text), wrong[i].error);
	}
}

/* ---- command line ---- */

#define ARGS(...) args((char *[]){"spinwire", __VA_ARGS__, NULL})

static int args(char **argv)
{
	struct spw_opt_program program = {.name = "spinwire"};
	int argc = 0;

	program.opt = spw_conf_options(&program.opt_cnt);
	while (argv[argc])
		argc++;
	return spw_conf_args(&conf, &program, argc, argv);
}

static char path[] = "/tmp/spw-conf-test-XXXXXX";

static int file_make(void **state)
{
	static const char text[] =
		"ports:\n- { spec: 'null:', queues: 2, lcores: [2, 3] }\n- { spec: 'null:size=128' "
		"}\n"
		"executor: { handler: sum, cores: [5,6,7] }\nrun: { seconds: 3, burst: 16 }\n";
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 || write(fd, text, sizeof(text) - 1) != (ssize_t)sizeof(text) - 1 ||
	       close(fd);
}

static int file_remove(void **state)
{
	(void)state;
	return unlink(path);
}

static void options_override_the_file(void **state)
{
	(void)state;
	assert_int_equal(ARGS("--seconds", "7.5", "--config", path, "--handler=echo"), 0);
	assert_true(conf.run.seconds_ns == 7500000000ull);
	assert_string_equal(conf.executor.handler, "echo");
	assert_int_equal(conf.run.burst, 16);
	assert_int_equal(conf.port_cnt, 2);
	assert_int_equal(conf.executor.cores.cnt, 3);

	assert_int_equal(ARGS("--config", path, "--beat-timeout", "2s", "--ctas", "4",
			      "--frame-stamps", "no", "--trail-every", "8", "--capture-snap", "1K"),
			 0);
	assert_true(conf.executor.beat_timeout_ns == 2000000000 && conf.executor.ctas == 4);
	assert_true(!conf.run.frame_stamps && conf.run.trail_every == 8);
	assert_int_equal(conf.run.capture_snap, 1024);

	assert_int_equal(ARGS("--config", path, "--ring", "64"), 0); /* every port of the file */
	assert_int_equal(conf.port[0].ring_size, 64);
	assert_int_equal(conf.port[1].ring_size, 64);

	assert_int_equal(ARGS("--config", path, "--executor-cores", "9-10,12",
			      "--lcores=", "--port", "null:size=99"),
			 -EINVAL);
	assert_int_equal(ARGS("--config", path, "--executor-cores=9", "--port", "null:size=99"), 0);
	assert_int_equal(conf.port_cnt, 1); /* the file's ports are gone */
	assert_string_equal(conf.port[0].spec_text, "null:size=99");
	assert_int_equal(conf.port[0].queues, 1);
	assert_int_equal(conf.executor.cores.core[0], 9);
}

static void options_belong_to_the_port_before_them(void **state)
{
	(void)state;
	assert_int_equal(ARGS("--port", "null:", "--queues", "2", "--lcores", "2,3", "--port",
			      "null:size=64", "--lcores=4"),
			 0);
	assert_int_equal(conf.port_cnt, 2);
	assert_int_equal(conf.port[0].queues, 2);
	assert_int_equal(conf.port[0].lcores.core[1], 3);
	assert_int_equal(conf.port[1].queues, 1);
	assert_int_equal(conf.port[1].lcores.core[0], 4);
}

static void option_errors_name_the_option(void **state)
{
	(void)state;
	assert_error(ARGS("--sceonds", "3"),
		     "--sceonds: no such option, did you mean --seconds; spinwire --help");
	assert_error(ARGS("--seconds"), "--seconds needs a value");
	assert_error(ARGS("--seconds", "--frames", "3"), "--seconds needs a value");
	assert_error(ARGS("--seconds", "fast"), "--seconds: 'fast' is not a number");
	assert_error(ARGS("--port", "null:", "--burst", "65"),
		     "--burst: '65' is not allowed; allowed: 1 .. 64");
	assert_error(ARGS("--queues", "2"), "--queues: there is no port yet");
	assert_error(ARGS("seconds"), "'seconds' is not an option");
	assert_error(ARGS("-s"), "'-s' is not an option");
	assert_error(ARGS("--"), "'--' is not an option");
	assert_error(ARGS("--help=1"), "--help takes no value");
	assert_error(ARGS("--config", "/nonexistent.yaml"),
		     "config /nonexistent.yaml: No such file");
	assert_error(ARGS("--config", "/tmp"), "config /tmp: is a folder; name the file in it");
	assert_error(ARGS("--config", path, "--config", path), "--config: is given twice");
	assert_error(ARGS("--seconds", "1"), "no port; name one with --port");
	assert_int_equal(ARGS("--help"), SPW_OPT_HELP);
	assert_int_equal(ARGS("--seconds", "1", "--version"), SPW_OPT_VERSION);
}

static void checks_across_keys(void **state)
{
	(void)state;
	assert_error(ARGS("--port", "nosuch:x"),
		     "--port: port 'nosuch:x', character 1: the driver is not known");
	assert_error(ARGS("--port", "null:", "--queues", "2", "--lcores", "3"),
		     "--lcores: 1 lcores for 2 queues");
	assert_error(ARGS("--port", "null:", "--lcores", "3", "--port", "null:", "--lcores", "3"),
		     "--lcores: core 3 has two jobs");
	assert_error(ARGS("--port", "null:", "--lcores", "3", "--executor-cores", "3"),
		     "--executor-cores: core 3 has two jobs");
	assert_error(ARGS("--port", "null:", "--executor-cores", "3,4"),
		     "--executor-cores: 2 cores for 1 queues");
	assert_int_equal(load("ports:\n  - spec: 'null:'\n  - queues: 3\n"), 0);
	assert_error(spw_conf_check(&conf), "f.yaml:3:5: ports[1]: has no spec");
	assert_int_equal(load("ports:\n  - spec: 'null:'\n    lcores: [1, 2]\n"), 0);
	assert_error(spw_conf_check(&conf), "f.yaml:3:13: ports[0]: 2 lcores for 1 queues");
}

static void lcores_outside_of_eal_are_refused(void **state)
{
	const bool is_lcore[4] = {true, true, false, true};

	(void)state;
	assert_int_equal(load("ports:\n  - spec: 'null:'\n    lcores: [3]\n"), 0);
	assert_int_equal(spw_conf_check_lcores(&conf, is_lcore, 4), 0);
	assert_error(spw_conf_check_lcores(&conf, is_lcore, 3),
		     "f.yaml:3:13: lcores: lcore 3 is not in EAL's set (0,1)");
	assert_int_equal(ARGS("--port", "null:", "--lcores", "2"), 0);
	assert_error(spw_conf_check_lcores(&conf, is_lcore, 4),
		     "--lcores: lcore 2 is not in EAL's set (0,1,3); add it to -l");
}

/* A --handler alone is of all ports, wherever it stands; several are of the ports before them. */
static void handlers_belong_to_ports(void **state)
{
	(void)state;
	assert_int_equal(ARGS("--port", "null:", "--port", "null:", "--handler", "echo"), 0);
	assert_string_equal(conf.executor.handler, "echo");
	assert_string_equal(conf.port[1].handler, "");
	assert_int_equal(ARGS("--port", "null:", "--handler", "sum", "--port", "null:", "--handler",
			      "./syn.so:port=443"),
			 0);
	assert_string_equal(conf.port[0].handler, "sum");
	assert_string_equal(conf.port[1].handler, "./syn.so:port=443");
	assert_int_equal(
		ARGS("--handler", "sum", "--port", "null:", "--port", "null:", "--handler", "echo"),
		0);
	assert_string_equal(conf.executor.handler, "sum");
	assert_string_equal(conf.port[0].handler, "");
	assert_string_equal(conf.port[1].handler, "echo");
}

static void every_key_has_help(void **state)
{
	uint32_t cnt;
	const struct spw_opt *opt = spw_conf_options(&cnt);
	char range[160];

	(void)state;
	assert_int_equal(cnt, conf_table_cnt - 1); /* a port's handler is a key of the file alone */
	for (uint32_t i = 0; i < cnt; i++) {
		assert_true(opt[i].name[0] && opt[i].help[0] && opt[i].section[0]);
		spw_opt_range(&opt[i], range, sizeof(range));
		if (strcmp(opt[i].name, "slot-size") == 0)
			assert_string_equal(range, "64B .. 64MiB, a multiple of 64");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_default_passes_its_own_check),
		cmocka_unit_test(a_whole_file_is_read),
		cmocka_unit_test(anchors_and_aliases_work),
		cmocka_unit_test(hostile_files_end_soon),
		cmocka_unit_test(errors_name_the_place),
		cmocka_unit_test(options_override_the_file),
		cmocka_unit_test(options_belong_to_the_port_before_them),
		cmocka_unit_test(option_errors_name_the_option),
		cmocka_unit_test(checks_across_keys),
		cmocka_unit_test(lcores_outside_of_eal_are_refused),
		cmocka_unit_test(handlers_belong_to_ports),
		cmocka_unit_test(every_key_has_help),
	};

	return cmocka_run_group_tests(tests, file_make, file_remove);
}
