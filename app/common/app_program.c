/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Exit status, log lines and signals: what all programs of spinwire do in the same way.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app_life.h"
#include "app_print.h"
#include "app_program.h"
#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_order.h"

/* Errors that the user's words cause are APP_USAGE; all others are the machine's. */
int app_complain(const char *program, int rc)
{
	app_print_tag(program, "1;31", "error: ");
	fprintf(stderr, "%s\n", spw_err_text());
	return rc == -EINVAL || rc == -ENOENT || rc == -ERANGE || rc == -EPROTO ? APP_USAGE
										: APP_MACHINE;
}

/* Written by the sink, whose calls never overlap, while the program opens its parts. */
static struct {
	bool held;
	char codes[256];
} advice;

/* Each code once: the doctor explains it better than a line of a log does. */
static void advice_note(const char *text)
{
	const size_t used = strlen(advice.codes);
	char code[64];

	snprintf(code, sizeof(code), "%.*s", (int)strcspn(text, ":"), text);
	if (!strstr(advice.codes, code))
		snprintf(advice.codes + used, sizeof(advice.codes) - used, "%s%s", used ? ", " : "",
			 code);
}

void app_advice_hold(void)
{
	advice.held = true;
}

const char *app_advice_codes(void)
{
	return advice.codes;
}

static enum spw_log_level log_lowest; /* written while no other thread logs */

int app_program_verbosity(const struct spw_opt_verbosity *verbosity, enum spw_log_level usual)
{
	if (verbosity->quiet && verbosity->verbose)
		return spw_err(EINVAL, "--quiet and --verbose exclude each other");
	log_lowest = verbosity->quiet ? SPW_LOG_WARN : verbosity->verbose ? SPW_LOG_INFO : usual;
	return 0;
}

static void app_log_line(enum spw_log_level level, const char *text, void *program)
{
	static const struct {
		const char *sgr, *tag;
	} tag[] = {[SPW_LOG_INFO] = {"", ""},
		   [SPW_LOG_ADVICE] = {"36", "advice: "},
		   [SPW_LOG_WARN] = {"33", "warning: "},
		   [SPW_LOG_ERROR] = {"1;31", "error: "}};

	if (level == SPW_LOG_ADVICE)
		advice_note(text);
	if ((level == SPW_LOG_ADVICE && advice.held) || level < log_lowest)
		return;
	app_life_clear();
	app_print_tag(program, tag[level].sgr, tag[level].tag);
	fprintf(stderr, "%s\n", text);
}

/* The next file that is opened gets a descriptor that was closed before, and output would go into
 * it: EAL's shared memory, a report. /dev/null the wrong way round fails as a closed one does. */
static void program_fds_fill(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void app_program_start(const char *program)
{
	program_fds_fill();
	app_print_start();
	spw_log_sink_set(app_log_line, (void *)(uintptr_t)program);
}

static uint32_t *stop_word; /* all that the signal handler touches */

/* The first signal asks for a stop, the second for one without waiting; the third meets the default
 * action, which ends the process. */
static void app_on_signal(int number)
{
	bool again = spw_thr_load_rlx(stop_word) != 0;

	spw_thr_store_rlx(stop_word, (uint32_t)number | (again ? APP_SIGNAL_AGAIN : 0));
	if (again)
		signal(number, SIG_DFL);
}

/* SIGHUP too, unless it is ignored: a program that was started under nohup goes on. */
void app_catch_signals(uint32_t *stop)
{
	struct sigaction action = {.sa_handler = app_on_signal}, old;

	stop_word = stop;
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup */
		sigaction(SIGHUP, &action, NULL);
}

/* A full disk behind stdout is an error of the program: its output is what was asked for. */
int app_end(const char *program, int status)
{
	bool whole = fflush(stdout) == 0 && !ferror(stdout);

	if (!whole)
		fprintf(stderr, "%s: error: not all output could be written to stdout\n", program);
	return whole || status ? status : APP_MACHINE;
}
