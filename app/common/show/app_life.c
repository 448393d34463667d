/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One line of progress (app_life.h). It is written to the descriptor itself: stderr's stream lets
 * no cursor move (app_print.h).
 *
 *   main    phase ─── step ─── step ─── ... ─── phase ""
 *              \          \
 *   thread      shown four times a second on a terminal, every REPORT_NS elsewhere
 */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "app_life.h"
#include "base/spw_monotonic.h"
#include "base/spw_text.h"
#include "base/spw_thread.h"

#define SECOND    1000000000ull
#define TURN_NS   250000000l
#define REPORT_NS (10 * SECOND)
#define COLUMNS   80

static struct {
	pthread_mutex_t lock;
	const char *program;
	char text[128];    /* of the phase; "" shows nothing */
	uint64_t whole_ns; /* that it takes; 0: not known */
	uint64_t begin_ns, due_ns;
	bool terminal, shown;
} life = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int life_columns(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : COLUMNS;
}

/* "2.1 s of 8"; "9.2 s" where 8 was too short an estimate. The signal handler calls it too: no
 * lock, no floating point. */
static void life_took(uint64_t took_ns, uint64_t whole_ns, char *out, size_t bytes)
{
	const unsigned long tenth = SECOND / 10, took = took_ns / tenth, whole = whole_ns / tenth;
	int n = snprintf(out, bytes, "%lu.%lu s", took / 10, took % 10);

	if (!whole || whole < took)
		return;
	n += snprintf(out + n, bytes - (size_t)n, " of %lu", whole / 10);
	if (whole % 10)
		snprintf(out + n, bytes - (size_t)n, ".%lu", whole % 10);
}

static void life_clear_locked(void)
{
	if (life.shown)
		dprintf(STDERR_FILENO, "\r\033[K");
	life.shown = false;
}

/* With the lock held. */
static void life_show(uint64_t now)
{
	char took[48], line[192];

	if (!life.text[0] || now < life.due_ns)
		return;
	life_took(now - life.begin_ns, life.whole_ns, took, sizeof(took));
	snprintf(line, sizeof(line), "%s: %s", life.text, took);
	if (life.terminal) {
		dprintf(STDERR_FILENO, "\r\033[K%.*s", life_columns() - 1, line);
		life.shown = true;
	} else {
		dprintf(STDERR_FILENO, "%s: %s\n", life.program, line);
		life.due_ns = now + REPORT_NS;
	}
}

static void *life_main(void *unused SPW_UNUSED)
{
	const struct timespec nap = {.tv_sec = life.terminal ? 0 : REPORT_NS / SECOND,
				     .tv_nsec = life.terminal ? TURN_NS : 0};

	for (;;) {
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&life.lock);
		life_show(spw_monotonic_ns());
		pthread_mutex_unlock(&life.lock);
	}
	return NULL;
}

/* What is over within ten seconds needs no line in a log. */
void app_life_start(const char *program)
{
	pthread_t thread;

	life.program = program;
	life.terminal = isatty(STDERR_FILENO);
	life.due_ns = life.terminal ? 0 : spw_monotonic_ns() + REPORT_NS;
	if (spw_thread_start(&thread, life_main, NULL) == 0)
		pthread_detach(thread);
}

/* Text of a peer or a device may be part of it. */
SPW_PRINTF(3, 0) static void life_set(bool begins, uint64_t whole_ns, const char *fmt, va_list ap)
{
	char raw[sizeof(life.text)];

	vsnprintf(raw, sizeof(raw), fmt, ap);
	pthread_mutex_lock(&life.lock);
	life_clear_locked();
	spw_text_show(raw, life.text, sizeof(life.text));
	life.whole_ns = whole_ns;
	if (begins)
		life.begin_ns = spw_monotonic_ns();
	pthread_mutex_unlock(&life.lock);
}

void app_life_phase(uint64_t whole_ns, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	life_set(true, whole_ns, fmt, ap);
	va_end(ap);
}

void app_life_step(uint64_t whole_ns, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	life_set(false, whole_ns, fmt, ap);
	va_end(ap);
}

void app_life_clear(void)
{
	pthread_mutex_lock(&life.lock);
	life_clear_locked();
	pthread_mutex_unlock(&life.lock);
}

/* ---- Ctrl-C, SIGTERM ---- */

int app_life_interrupted(const char *program, uint32_t number, uint64_t took_ns, uint64_t whole_ns)
{
	char text[48];

	app_life_phase(0, "%s", "");
	life_took(took_ns, whole_ns, text, sizeof(text));
	dprintf(STDERR_FILENO, "%s: interrupted after %s\n", program, text);
	return 128 + (int)number;
}

/* Takes no lock: the thread that was interrupted may hold it. What it may read half-written is one
 * line of text. */
static void life_on_interrupt(int number)
{
	char took[48], line[256];
	int n;

	life_took(spw_monotonic_ns() - life.begin_ns, life.whole_ns, took, sizeof(took));
	n = snprintf(line, sizeof(line), "%s%s: interrupted after %s%s%s\n",
		     life.shown ? "\r\033[K" : "", life.program, took, life.text[0] ? ": " : "",
		     life.text);
	if (write(STDERR_FILENO, line, (size_t)SPW_MIN(n, (int)sizeof(line) - 1)) < 0)
		_exit(128 + number); /* nobody reads it */
	_exit(128 + number);
}

void app_life_ends(const char *program)
{
	life.program = program;
	life.begin_ns = spw_monotonic_ns();
	signal(SIGINT, life_on_interrupt);
	signal(SIGTERM, life_on_interrupt);
}
