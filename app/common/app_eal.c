/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * EAL's arguments and start, the same in every program that has lcores (app_eal.h).
 *
 *   app_eal_split   the user's words
 *   app_eal_port    for each port: what its driver needs
 *   app_eal_start   after rights were dropped: defaults ─ limits ─ rte_eal_init
 *
 * A default is added only if the user has not named the option: whoever gives EAL arguments knows
 * why. EAL's log is read while it starts, because its first error is more precise than rte_errno.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "app_eal.h"
#include "app_limits.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

/* The last place stays NULL, as argv ends. */
static int eal_add(struct app_eal *eal, char *arg)
{
	if (eal->argc >= APP_EAL_ARG_MAX - 1)
		return spw_err(EINVAL, "too many EAL arguments, the limit is %d",
			       APP_EAL_ARG_MAX - 2);
	eal->argv[eal->argc++] = arg;
	return 0;
}

/* "--name" and "--name=value"; EAL accepts both. */
static bool has_option(const struct app_eal *eal, const char *name)
{
	size_t bytes = strlen(name);

	for (int i = 1; i < eal->argc; i++)
		if (!strncmp(eal->argv[i], name, bytes) &&
		    (eal->argv[i][bytes] == '\0' || eal->argv[i][bytes] == '='))
			return true;
	return false;
}

/* -a ADDRESS and -aADDRESS as well as --allow. */
static bool names_device(const struct app_eal *eal)
{
	for (int i = 1; i < eal->argc; i++)
		if (!strncmp(eal->argv[i], "-a", 2))
			return true;
	return has_option(eal, "--allow");
}

/* With -a or --vdev the PMD is not known, so no capability is dropped for it. */
int app_eal_split(struct app_eal *eal, int argc, char **argv)
{
	int rc = 0;

	for (eal->split = 0; eal->split < argc && strcmp(argv[eal->split], "--") && rc == 0;
	     eal->split++)
		rc = eal_add(eal, argv[eal->split]);
	eal->pci = names_device(eal);
	if (eal->pci || has_option(eal, "--vdev"))
		eal->caps = SPW_PORT_CAPS_ALL; /* whatever the PMD is */
	return rc;
}

/* argv points into need, which therefore lives in struct app_eal. */
int app_eal_port(struct app_eal *eal, const struct spw_port_spec *spec)
{
	static char allow[] = "-a";
	struct spw_port_need *need = &eal->need[eal->need_cnt];
	int rc = spw_port_need(spec, need);

	if (rc < 0)
		return rc;
	eal->need_cnt++;
	eal->pci |= need->pci;
	eal->caps |= need->caps;
	for (uint32_t i = 0; need->allow[i][0] && rc == 0; i++)
		if ((rc = eal_add(eal, allow)) == 0)
			rc = eal_add(eal, need->allow[i]);
	return rc;
}

static char runtime_dir[512]; /* for at_exit only */

/* EAL leaves its runtime folder with a few megabytes of state for processes that may attach; it is
 * removed unless one is attached, which has a socket there, or it has files of other programs.
 * `config` comes last: the lock on it keeps a successor with the same prefix out. */
static void at_exit(void)
{
	DIR *dir = runtime_dir[0] ? opendir(runtime_dir) : NULL;
	bool attached = false;

	for (struct dirent *e; dir && (e = readdir(dir));)
		attached |= !strncmp(e->d_name, "mp_socket_", 10);
	if (dir)
		rewinddir(dir);
	for (struct dirent *e; dir && !attached && (e = readdir(dir));)
		if (!strncmp(e->d_name, "fbarray_", 8))
			unlinkat(dirfd(dir), e->d_name, 0);
	if (dir && !attached)
		unlinkat(dirfd(dir), "config", 0);
	if (dir)
		closedir(dir);
	if (runtime_dir[0])
		rmdir(runtime_dir);
}

static char eal_reason[256]; /* the first error that EAL logged: more precise than rte_errno */

/* Passes EAL's log on to stderr, and keeps its first error. */
static ssize_t log_write(void *cookie SPW_UNUSED, const char *text, size_t bytes)
{
	if (!eal_reason[0] && rte_log_cur_msg_loglevel() <= (int)RTE_LOG_ERR && bytes > 5 &&
	    !strncmp(text, "EAL: ", 5))
		snprintf(eal_reason, sizeof(eal_reason), "%.*s", (int)strcspn(text + 5, "\n"),
			 text + 5);
	return fwrite(text, 1, bytes, stderr) == bytes ? (ssize_t)bytes : -1;
}

/* EAL prints its usage, a hundred lines, when it refuses an argument: it is caught in text, and
 * dropped if EAL does not start. What prints and ends the process is not caught. */
static int app_eal_init_caught(struct app_eal *eal)
{
	FILE *const out = stdout;
	char *text = NULL;
	size_t bytes = 0;
	FILE *caught = has_option(eal, "--log-level=help") ? NULL : open_memstream(&text, &bytes);
	int rc;

	if (caught)
		stdout = caught;
	rc = rte_eal_init(eal->argc, eal->argv);
	stdout = out;
	if (caught)
		fclose(caught);
	if (rc >= 0 && text)
		fwrite(text, 1, bytes, stdout);
	free(text);
	return rc;
}

/* The log's stream exists only while EAL starts: afterwards it logs as usual. */
static int app_eal_init(struct app_eal *eal)
{
	FILE *log = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});
	int rc;

	atexit(at_exit); /* before EAL's own, so that it runs after them */
	if (log)
		rte_openlog_stream(log);
	rc = app_eal_init_caught(eal);
	/* Back to EAL's own stream: ours ends with this function. */
	rte_openlog_stream(NULL);
	if (log)
		fclose(log);
	if (rte_eal_get_runtime_dir() && rte_eal_process_type() == RTE_PROC_PRIMARY)
		snprintf(runtime_dir, sizeof(runtime_dir), "%s", rte_eal_get_runtime_dir());
	return rc;
}

/* A hint for the user, by a word of EAL's error. */
static const char *app_eal_remedy(const char *reason)
{
	static const struct {
		const char *word, *text;
	} hint[] = {
		{"lock",
		 "; another program runs with the same --file-prefix: give this one its own"},
		{"huge", "; reserve hugepages, or run without them: --no-huge"},
		{"core", "; -l and --lcores name cores that this process may use"},
		{"Error creating", /* EAL's folder, which is named */
		 "; RUNTIME_DIRECTORY, else XDG_RUNTIME_DIR (/var/run as root), must be writable"},
	};

	for (size_t i = 0; i < SPW_ARRAY_CNT(hint); i++)
		if (strstr(reason, hint[i].word))
			return hint[i].text;
	return "; EAL's arguments come before \"--\", the program's own after it";
}

static bool any_free(const char *path)
{
	FILE *f = fopen(path, "re");
	uint64_t cnt = 0;
	bool any = f && fscanf(f, "%" SCNu64, &cnt) == 1 && cnt;

	if (f)
		fclose(f);
	return any;
}

/* Of any size, on any node. */
static bool any_hugepage(void)
{
	glob_t found;
	bool any = false;

	if (glob("/sys/kernel/mm/hugepages/hugepages-*/free_hugepages", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			any |= any_free(found.gl_pathv[i]);
		globfree(&found);
	}
	return any;
}

/* EAL ends without a hugepage. What it has in them is mbuf headers and rings; slots are elsewhere,
 * and lib/mem says what plain pages cost. Whoever names hugepages gets EAL's error. */
static int memory_add(struct app_eal *eal)
{
	static char no_huge[] = "--no-huge", m[] = "-m", mib[] = "256";
	int rc;

	if (has_option(eal, "--no-huge") || has_option(eal, "--huge-dir") ||
	    has_option(eal, "--huge-unlink") || has_option(eal, "--socket-mem") || any_hugepage())
		return 0;
	spw_info("no hugepage is free: EAL runs with --no-huge");
	rc = eal_add(eal, no_huge);
	for (int i = 1; i < eal->argc; i++)
		if (!strncmp(eal->argv[i], m, 2))
			return rc;
	rc = rc ? rc : eal_add(eal, m);
	return rc ? rc : eal_add(eal, mib);
}

/* What can be checked here is refused before rte_eal_init, which answers some of it with a panic.
 */
int app_eal_start(struct app_eal *eal, char *prefix)
{
	static char file_prefix[] = "--file-prefix", no_pci[] = "--no-pci",
		    quiet[] = "--log-level=lib.eal:warning",
		    mute[] = "--log-level=lib.telemetry:error";
	int rc = memory_add(eal);

	if (rc == 0 && prefix && !has_option(eal, file_prefix) &&
	    (rc = eal_add(eal, file_prefix)) == 0)
		rc = eal_add(eal, prefix);
	if (rc == 0 && !eal->pci && !has_option(eal, "--no-pci"))
		rc = eal_add(eal, no_pci);
	if (rc == 0 && !eal->verbose && !has_option(eal, "--log-level") &&
	    (rc = eal_add(eal, quiet)) == 0)
		rc = eal_add(eal, mute);
	if (rc == 0)
		rc = app_limits_check(eal);
	if (rc < 0 || app_eal_init(eal) >= 0)
		return rc;
	rc = rte_errno ? rte_errno : EIO;
	return spw_err(rc, "EAL did not start: %s%s", eal_reason[0] ? eal_reason : rte_strerror(rc),
		       app_eal_remedy(eal_reason));
}

/* An lcore may have a set of cores: the lowest is named. */
uint32_t app_lcore_cpu(uint32_t lcore_id)
{
	rte_cpuset_t set = rte_lcore_cpuset(lcore_id);
	uint32_t cpu = 0;

	while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &set))
		cpu++;
	return cpu;
}
