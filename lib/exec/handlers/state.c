/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The state of a plug-in on the host: its declarations are checked, its arguments read, its
 * counters added up and, of a table, the largest found. handlers.c opens and closes it; executors
 * and lib/replay copy `initial` into a block of their own and add its counters to a sum.
 *
 * A plug-in is another's code: what it declares must lie within its state before anything is
 * written there. What its functions then do is its own affair, as it runs in this process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "exec/handlers/state.h"

/* ---- what is declared ---- */

/* As Prometheus wants it: telemetry and exporter make a metric of it. */
static bool state_name_is_sound(const char *name)
{
	return name[0] && !(name[0] >= '0' && name[0] <= '9') &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

/* cnt counters of 8 bytes, without a sum that could wrap. */
static bool state_holds(const struct spw_handler_state *state, uint64_t offset, uint64_t cnt)
{
	return offset % 8 == 0 && cnt && offset <= state->bytes &&
	       cnt <= (state->bytes - offset) / 8;
}

/* Lists end with an entry that has no name. */
static int state_check(const char *path, const struct spw_handler_state *state)
{
	uint32_t cnt = 0;

	for (const struct spw_handler_counter *c = state->counter; c && c->name; c++)
		if (!state_name_is_sound(c->name) || !c->help ||
		    !state_holds(state, c->offset, c->cnt) || ++cnt > SPW_HANDLER_COUNTER_MAX)
			return spw_err(EINVAL,
				       "handler %s: counter '%.32s': a name of a-z, 0-9 and _, a "
				       "help text, a place within the state of %zu bytes, and %u "
				       "counters at most",
				       path, c->name, state->bytes, SPW_HANDLER_COUNTER_MAX);
	for (const struct spw_handler_arg *a = state->arg; a && a->name; a++)
		if (!a->help ||
		    (a->bytes ? a->offset > state->bytes || a->bytes > state->bytes - a->offset
			      : !state_holds(state, a->offset, 1)))
			return spw_err(EINVAL,
				       "handler %s: argument '%.32s' has no help text, or lies "
				       "outside the state of %zu bytes",
				       path, a->name, state->bytes);
	return 0;
}

/* ---- arguments ---- */

/* "port=0..65535 (count this port only)", for the message. */
static void state_args_list(const struct spw_handler_state *state, char *out, size_t bytes)
{
	size_t used = 0;

	snprintf(out, bytes, "nothing");
	for (const struct spw_handler_arg *a = state ? state->arg : NULL;
	     a && a->name && used < bytes; a++)
		used += (size_t)(a->bytes ? snprintf(out + used, bytes - used, "%s%s=TEXT (%s)",
						     used ? ", " : "", a->name, a->help)
					  : snprintf(out + used, bytes - used,
						     "%s%s=%llu..%llu (%s)", used ? ", " : "",
						     a->name, (unsigned long long)a->min,
						     (unsigned long long)a->max, a->help));
}

/* The first character is a digit: strtoull would take a sign, and make 2^64 - 1 of -1. */
static int arg_number_set(const struct spw_handler_arg *arg, void *field, const char *value)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(value, &end, 0);
	if (errno || *end || *value < '0' || *value > '9' || v < arg->min || v > arg->max)
		return spw_err(EINVAL, "%s=%.64s: %llu .. %llu%s", arg->name, value,
			       (unsigned long long)arg->min, (unsigned long long)arg->max,
			       strchr(value, ':') ? "; a comma separates arguments" : "");
	memcpy(field, &v, sizeof(v));
	return 0;
}

static int arg_text_set(const struct spw_handler_arg *arg, char *field, const char *value)
{
	if (strlen(value) >= arg->bytes)
		return spw_err(EINVAL, "%s: a text of at most %u bytes", arg->name, arg->bytes - 1);
	strcpy(field, value);
	return 0;
}

/* One of key=value. */
static int state_arg_set(const struct spw_handler_state *state, uint8_t *block, char *pair)
{
	const struct spw_handler_arg *arg = state ? state->arg : NULL;
	char *value = strchr(pair, '='), takes[512];

	if (value)
		*value++ = '\0';
	while (arg && arg->name && strcmp(arg->name, pair))
		arg++;
	if (!arg || !arg->name) {
		state_args_list(state, takes, sizeof(takes));
		return spw_err(EINVAL, "there is no argument '%.64s'; it takes %s", pair, takes);
	}
	if (!value)
		return spw_err(EINVAL, "%s has no value; %s=VALUE", arg->name, arg->name);
	return arg->bytes ? arg_text_set(arg, (char *)block + arg->offset, value)
			  : arg_number_set(arg, block + arg->offset, value);
}

static int state_args_set(const struct spw_handler_state *state, uint8_t *block, const char *args)
{
	char *own = strdup(args), *rest = own, *pair;
	int rc = own ? 0 : spw_err(ENOMEM, "no memory for its arguments");

	while (rc == 0 && (pair = strsep(&rest, ",")))
		rc = state_arg_set(state, block, pair);
	free(own);
	return rc;
}

/* ---- life ---- */

static uint8_t *state_block_make(const struct spw_handler_state *state)
{
	size_t bytes = SPW_ALIGN_UP(state->bytes, (size_t)SPW_CACHE_LINE);
	uint8_t *block = aligned_alloc(SPW_CACHE_LINE, bytes);

	if (block)
		memset(block, 0, bytes);
	return block;
}

/* Defaults, then what the user said, then the plug-in itself, which may refuse both. */
static int state_fill(const struct spw_handler_state *state, uint8_t *block, const char *args)
{
	const char *wrong;
	int rc = 0;

	for (const struct spw_handler_arg *a = state->arg; a && a->name; a++)
		if (!a->bytes)
			memcpy(block + a->offset, &a->dflt, sizeof(a->dflt));
	if (args)
		rc = state_args_set(state, block, args);
	if (rc == 0 && state->init && (wrong = state->init(block)))
		rc = spw_err(EINVAL, "%s", wrong);
	return rc;
}

int handler_state_open(struct spw_handler *handler, const char *path, const char *args)
{
	const struct spw_handler_state *state = handler->state;
	uint8_t *initial, *total;
	int rc;

	if (!state) {
		rc = args ? state_args_set(NULL, NULL, args) : 0;
		return rc ? spw_err_ctx(rc, "handler %s", path) : 0;
	}
	if ((rc = state_check(path, state)) < 0)
		return rc;
	initial = state_block_make(state);
	total = state_block_make(state);
	rc = initial && total ? state_fill(state, initial, args)
			      : spw_err(ENOMEM, "no memory for a state of %zu bytes", state->bytes);
	if (rc) {
		free(initial);
		free(total);
		return spw_err_ctx(rc, "handler %s", path);
	}
	memcpy(total, initial, state->bytes);
	handler->initial = initial;
	handler->total = total;
	return 0;
}

void handler_state_close(struct spw_handler *handler)
{
	if (handler->total && handler->state->fini)
		handler->state->fini(handler->total);
	free((void *)(uintptr_t)handler->initial);
	free(handler->total);
	handler->initial = handler->total = NULL;
}

/* ---- counters ---- */

/* The executor counts on meanwhile: each counter is right, and all together of no one moment. */
void spw_handler_counters_add(const struct spw_handler *handler, const void *block, void *sum)
{
	for (const struct spw_handler_counter *c = handler->state->counter; c && c->name; c++) {
		const uint64_t *from = (const uint64_t *)((const uint8_t *)block + c->offset);
		uint64_t *to = (uint64_t *)((uint8_t *)sum + c->offset);

		for (uint32_t i = 0; i < c->cnt; i++)
			to[i] += spw_thr_load_rlx(&from[i]);
	}
}

/* Keeps at_out sorted: few are asked for, and most places of a table hold 0. */
uint32_t spw_handler_counter_top(const struct spw_handler_counter *counter, const uint64_t *value,
				 uint32_t max, uint32_t *at_out, uint64_t *sum_out,
				 uint32_t *used_out)
{
	uint32_t cnt = 0, at;

	*sum_out = 0;
	*used_out = 0;
	for (uint32_t i = 0; i < counter->cnt; i++) {
		if (!value[i])
			continue;
		*sum_out += value[i];
		++*used_out;
		if (cnt == max && (!max || value[at_out[max - 1]] >= value[i]))
			continue;
		at = cnt < max ? cnt++ : max - 1;
		for (; at > 0 && value[at_out[at - 1]] < value[i]; at--)
			at_out[at] = at_out[at - 1];
		at_out[at] = i;
	}
	return cnt;
}
