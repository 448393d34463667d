/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Faults on request: parsing the words (fault.h has the list). What they do to frames is in
 * fault_frame.c.
 *
 *   config fault=   --+                           at=TIME:COMMAND --> run/dev.c, when it is due
 *   control socket  --+--> fault_set: fault_set_word --> struct fault --> fault_frame.c
 *
 * A new word is a field of struct fault, a line of fault_set_word and of its error, and a line of
 * fault.h and docs/060. If it hits frames that leave, fault_derive_on and fault_tx_commit know it;
 * else the model asks for it by a hook (inject.h). What happens once is a command (control.c).
 *
 * softhca-check links this file to check a configuration before a program runs.
 *
 * What to know before changing it: words change a struct fault while frames flow, each at once,
 * with the device lock held. A new command with a time is a row of FAULT_COMMANDS.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_file.h"
#include "softhca/hca_cfg.h"
#include "softhca/inject/fault.h"

/* -1 and no text: each caller has a message of its own. A unit is required, since a bare number
 * would be seconds to one and nanoseconds to another. */
int64_t fault_time_ns(const char *text)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *end;
	const double v = strtod(text, &end);

	if (end == text || v < 0 || v > 1e6)
		return -1;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(units); i++)
		if (strcmp(end, units[i].unit) == 0)
			return (int64_t)(v * units[i].ns);
	return -1;
}

/* The condition is written so that NaN fails it. */
static int fault_set_share(double *p, const char *word, const char *text)
{
	char *end;
	const double v = strtod(text, &end);

	if (end == text || *end || !(v >= 0 && v <= 1))
		return spw_err(EINVAL, "fault %s=%s: a share from 0 to 1", word, text);
	*p = v;
	return 0;
}

/* text is the copy of fault_set, and is cut at its colon. */
static int fault_set_delay(struct fault *f, char *text)
{
	char *colon = strchr(text, ':');
	int64_t ns;

	if (!colon)
		return spw_err(EINVAL, "fault delay=%s: use delay=SHARE:TIME, as in delay=0.1:20us",
			       text);
	*colon = '\0';
	ns = fault_time_ns(colon + 1);
	if (ns < 0)
		return spw_err(EINVAL, "fault delay: \"%s\" is not a time; use ns, us, ms or s",
			       colon + 1);
	f->delay_ns = (uint64_t)ns;
	return fault_set_share(&f->delay, "delay", text);
}

/* The port's state is looked at every 20 ms (port/link.c), and a link takes longer to train. */
#define FLAP_MIN_NS 50000000

static int fault_set_flap(struct fault *f, const char *text)
{
	char down[32] = "", up[32] = "";
	int64_t down_ns, up_ns;

	f->flap_down_ns = f->flap_up_ns = f->flap_at_ns = 0;
	if (strcmp(text, "none") == 0)
		return 0;
	if (sscanf(text, "%31[^:]:%31s", down, up) != 2)
		return spw_err(EINVAL,
			       "fault flap=%s: use flap=DOWN:UP, as in flap=100ms:2s, or none",
			       text);
	down_ns = fault_time_ns(down);
	up_ns = fault_time_ns(up);
	if (down_ns < FLAP_MIN_NS || up_ns < FLAP_MIN_NS)
		return spw_err(EINVAL, "fault flap=%s: two times of 50ms at least; use ms or s",
			       text);
	f->flap_down_ns = (uint64_t)down_ns;
	f->flap_up_ns = (uint64_t)up_ns;
	return 0;
}

/* Octal and hexadecimal too, as the commands read their numbers (base 0). */
static bool text_is_number(const char *text)
{
	char *end;

	strtoul(text, &end, 0);
	return isdigit((unsigned char)*text) && !*end;
}

/* Has what stands behind the '=' the form that the command takes? */
static bool command_arg_fits(enum fault_arg kind, const char *arg)
{
	switch (kind) {
	case FAULT_ARG_NONE:
		return !*arg;
	case FAULT_ARG_TIME:
		return fault_time_ns(arg) >= 0;
	case FAULT_ARG_NUMBER:
		return text_is_number(arg);
	case FAULT_ARG_MAYBE_NUMBER:
		return !*arg || text_is_number(arg);
	default:
		return true;
	}
}

/* A wrong command is refused now: when it is due, nobody reads the answer. */
static int command_check(const char *what)
{
	static const struct {
		const char *name;
		enum fault_arg arg;
	} command[] = {
#define X(word, id, kind) {word, FAULT_ARG_##kind},
		FAULT_COMMANDS(X)
#undef X
	};
	const size_t n = strcspn(what, "=");

	for (unsigned i = 0; i < SPW_ARRAY_CNT(command); i++)
		if (strlen(command[i].name) == n && strncmp(what, command[i].name, n) == 0)
			return command_arg_fits(command[i].arg, what + n + (what[n] == '='))
				       ? 0
				       : spw_err(EINVAL, "fault at=: \"%s\" is not %s=%s", what,
						 command[i].name,
						 command[i].arg == FAULT_ARG_TIME ? "TIME"
										  : "NUMBER");
	return spw_err(EINVAL, "fault at=: there is no command \"%s\"; docs/060 lists them", what);
}

/* The command itself runs when it is due (run/dev.c). */
static int fault_set_at(struct fault *f, char *text)
{
	char *colon = strchr(text, ':');
	int64_t ns;

	if (!colon || f->at_cnt == FAULT_AT_MAX || strlen(colon + 1) >= sizeof(f->at[0].what))
		return spw_err(EINVAL,
			       "fault at=%s: use at=TIME:COMMAND, as in at=2s:link-down=100ms (at "
			       "most %u)",
			       text, FAULT_AT_MAX);
	*colon = '\0';
	ns = fault_time_ns(text);
	if (ns < 0)
		return spw_err(EINVAL, "fault at=%s: TIME is not a time; use ns, us, ms or s",
			       text);
	if (command_check(colon + 1))
		return -EINVAL;
	f->at[f->at_cnt].ns = (uint64_t)ns;
	strcpy(f->at[f->at_cnt].what, colon + 1);
	f->at_cnt++;
	return 0;
}

/* The errno in "COMMAND:ERRNO"; 0 if the word is for another command or names none. */
static int fault_errno(const char *word, const char *command)
{
	const size_t n = strlen(command);

	for (int e = 1; strncmp(word, command, n) == 0 && word[n] == ':' && e < 134; e++) {
		const char *name = strerrorname_np(e);

		if (name && strncmp(word + n + 1, name, strlen(name)) == 0 &&
		    !isalnum(word[n + 1 + strlen(name)]))
			return e;
	}
	return 0;
}

/* Asked before each command of the application; without fail= the list is empty. */
int fault_fail(const struct fault *f, const char *command)
{
	int e = 0;

	for (uint32_t i = 0; i < f->fail_cnt && !e; i++)
		e = fault_errno(f->fail[i], command);
	return e;
}

/* The status in "devx-OPCODE:STATUS", both in hexadecimal, for this opcode; 0: none. */
static int fault_status(const char *word, uint32_t opcode)
{
	unsigned op, status;
	char end;

	if (sscanf(word, "devx-%4x:%2x%c", &op, &status, &end) != 2 || op != opcode)
		return 0;
	return (int)status;
}

int fault_fail_devx(const struct fault *f, uint32_t opcode)
{
	int status = 0;

	for (uint32_t i = 0; i < f->fail_cnt && !status; i++)
		status = fault_status(f->fail[i], opcode);
	return status;
}

/* "devx-OPCODE:STATUS" with a status that is one. */
static bool fault_is_devx(const char *text)
{
	unsigned op;

	return sscanf(text, "devx-%4x:", &op) == 1 && fault_status(text, op);
}

/* fail= adds to the list; the errno is resolved at each command again, so that the word is all
 * there is to store. */
static int fault_set_fail(struct fault *f, const char *text)
{
	char command[32] = "";

	if (strcmp(text, "none") == 0) {
		f->fail_cnt = 0;
		return 0;
	}
	if (f->fail_cnt == FAULT_FAIL_MAX ||
	    (!fault_is_devx(text) &&
	     (sscanf(text, "%31[a-z_]", command) != 1 || !fault_errno(text, command))))
		return spw_err(EINVAL,
			       "fault fail=%s: use fail=COMMAND:ERRNO, as in "
			       "fail=create_flow:EPERM, or fail=devx-OPCODE:STATUS, as in "
			       "fail=devx-904:8 (at most %u), or fail=none",
			       text, FAULT_FAIL_MAX);
	snprintf(f->fail[f->fail_cnt++], sizeof(f->fail[0]), "%s", text);
	return 0;
}

/* The index in name[] is enum fault_wq; "late:" and "early:" are followed by a time, the others by
 * nothing. */
static int fault_set_wq_fatal(struct fault *f, const char *text)
{
	static const char *const name[] = {"plain", "late:", "early:", "none"};
	uint32_t i = 0;
	int64_t ns = 0;

	while (i < SPW_ARRAY_CNT(name) && strncmp(text, name[i], strlen(name[i])))
		i++;
	if (i == FAULT_WQ_LATE || i == FAULT_WQ_EARLY)
		ns = fault_time_ns(text + strlen(name[i]));
	else if (i < SPW_ARRAY_CNT(name) && text[strlen(name[i])])
		ns = -1;
	if (i == SPW_ARRAY_CNT(name) || ns < 0)
		return spw_err(EINVAL,
			       "fault wq-fatal=%s: use late:TIME, early:TIME, none or plain, as in "
			       "wq-fatal=late:50ms",
			       text);
	f->wq_fatal = (enum fault_wq)i;
	f->wq_fatal_ns = (uint64_t)ns;
	return 0;
}

/* Queues that fail then complete nothing (transport/sq.c, transport/rq.c). */
static int fault_set_flush(struct fault *f, const char *text)
{
	f->no_flush = strcmp(text, "none") == 0;
	if (!f->no_flush && strcmp(text, "plain"))
		return spw_err(EINVAL, "fault flush=%s: use none or plain", text);
	return 0;
}

/* Gb/s; "none": 0. */
static int fault_set_gbps(uint32_t *mbps, const char *word, const char *text)
{
	char *end;
	const double v = strtod(text, &end);

	*mbps = 0;
	if (strcmp(text, "none") == 0)
		return 0;
	if (end == text || *end || !(v >= 0.001 && v <= 1000))
		return spw_err(EINVAL, "fault %s=%s: Gb/s from 0.001 to 1000, or none", word, text);
	*mbps = (uint32_t)(v * 1000 + 0.5);
	return 0;
}

/* Only what a port can negotiate; port-rate= takes any number. */
static int fault_set_speed(uint32_t *mbps, const char *text)
{
	*mbps = 0;
	if (strcmp(text, "none") == 0 || hca_cfg_speed(text, mbps))
		return 0;
	return spw_err(EINVAL, "fault link-speed=%s: " HCA_SPEEDS ", or none", text);
}

static int fault_set_log(struct fault *f, const char *path)
{
	int rc;

	if (f->log_fd >= 0)
		close(f->log_fd);
	f->log_fd = -1;
	rc = spw_file_create(path, &f->log_fd);
	return rc ? spw_err_ctx(rc, "fault log") : 0;
}

/* A word adds to what is set: "fault=" on the control socket changes one thing and leaves the
 * others. seed= starts the numbers of frames again, so that a test can repeat itself in one
 * process. */
static int fault_set_word(struct fault *f, char *word)
{
	const struct {
		const char *name;
		double *p;
	} probs[] = {{"loss", &f->loss},       {"dup", &f->dup}, {"reorder", &f->reorder},
		     {"corrupt", &f->corrupt}, {"ecn", &f->ecn}, {"discard", &f->discard}};
	char *eq = strchr(word, '=');

	if (eq)
		*eq++ = '\0';
	for (unsigned i = 0; eq && i < SPW_ARRAY_CNT(probs); i++)
		if (strcmp(word, probs[i].name) == 0)
			return fault_set_share(probs[i].p, word, eq);
	if (eq && strcmp(word, "delay") == 0)
		return fault_set_delay(f, eq);
	if (eq && strcmp(word, "flap") == 0)
		return fault_set_flap(f, eq);
	if (eq && strcmp(word, "at") == 0)
		return fault_set_at(f, eq);
	if (eq && strcmp(word, "fail") == 0)
		return fault_set_fail(f, eq);
	if (eq && strcmp(word, "wq-fatal") == 0)
		return fault_set_wq_fatal(f, eq);
	if (eq && strcmp(word, "flush") == 0)
		return fault_set_flush(f, eq);
	if (eq && strcmp(word, "link-speed") == 0)
		return fault_set_speed(&f->link_mbps, eq);
	if (eq && strcmp(word, "port-rate") == 0)
		return fault_set_gbps(&f->port_mbps, word, eq);
	if (eq && strcmp(word, "log") == 0)
		return fault_set_log(f, eq);
	if (eq && strcmp(word, "seed") == 0) {
		f->seed = strtoull(eq, NULL, 0);
		f->frame = 0;
		return 0;
	}
	if (!eq && strcmp(word, "icrc") == 0) {
		f->icrc = true;
		return 0;
	}
	return spw_err(EINVAL,
		       "fault \"%s\": use loss dup reorder corrupt delay discard ecn link-speed "
		       "port-rate flap wq-fatal flush at fail log seed icrc",
		       word);
}

/* Derived, so that the data path asks one flag. Frames that are still queued keep it set. */
static void fault_derive_on(struct fault *f)
{
	f->on = f->loss > 0 || f->dup > 0 || f->reorder > 0 || f->corrupt > 0 || f->delay > 0 ||
		f->queued_cnt > 0 || f->link_down;
}

/* No word: link-down= and flap= come here through port/link.c. */
void fault_link_set(struct fault *f, bool up)
{
	f->link_down = !up;
	fault_derive_on(f);
}

/* After an error the words before the wrong one are in force. */
int fault_set(struct fault *f, const char *text)
{
	char copy[512], *save = NULL;
	int rc = 0;

	if (strlen(text) >= sizeof(copy))
		return spw_err(EINVAL, "fault: longer than %zu characters", sizeof(copy) - 1);
	strcpy(copy, text);
	for (char *w = strtok_r(copy, ",", &save); w && !rc; w = strtok_r(NULL, ",", &save))
		rc = fault_set_word(f, w);
	fault_derive_on(f);
	return rc;
}

/* fault_fini follows even a failure: it accepts what was not made. */
int fault_init(struct fault *f, const char *text, uint64_t seed)
{
	memset(f, 0, sizeof(*f));
	f->log_fd = -1;
	f->seed = seed;
	f->buf = malloc(CABLE_FRAME_MAX);
	if (!f->buf)
		return spw_err(ENOMEM, "fault: no memory");
	return fault_set(f, text);
}

/* Frames that are still queued are lost. */
void fault_fini(struct fault *f)
{
	for (uint32_t i = 0; i < f->queued_cnt; i++)
		free(f->queued[i].data);
	if (f->log_fd >= 0)
		close(f->log_fd);
	free(f->buf);
}
