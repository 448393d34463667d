/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Where a machine comes from: the running system, files, or another host over ssh. All but the
 * first are untrusted input.
 *
 *    doctor_live   this system, counters read twice SAMPLE_MS apart
 *    doctor_load   files, each a recorded machine or a receipt; later ones change what the first
 * one has doctor_peer   a file of that name, else that host over ssh
 *
 * Input is bounded (INPUT_BYTES_MAX), and read whole before it is parsed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "doctor.h"
#include "ssh.h"

#define INPUT_BYTES_MAX (16u << 20)
#define SAMPLE_MS       250
#define RECEIPT_MS      60000u /* for a receipt over ssh: to log in, to read a machine */

struct input {
	char *text;
	size_t bytes, room;
	json_t *top, *tree; /* what the text is, and the recorded machine in it */
};

static void source_input_free(struct input *in)
{
	json_decref(in->top);
	free(in->text);
}

/* Makes room for more, and for an end. */
static int source_input_room(struct input *in, const char *name)
{
	char *more;

	if (in->bytes < in->room)
		return 0;
	if (in->bytes >= INPUT_BYTES_MAX)
		return spw_err(EINVAL, "%s: larger than %u MiB; it is not a recorded machine", name,
			       INPUT_BYTES_MAX >> 20);
	in->room = in->room ? 2 * in->room : 65536;
	more = realloc(in->text, in->room + 1);
	if (!more)
		return spw_err(ENOMEM, "%s: no memory", name);
	in->text = more;
	return 0;
}

/* Reads to the end without asking for the size: the file may be a pipe. */
static int source_input_file(struct input *in, const char *name, FILE *file)
{
	size_t n = 1;
	int rc;

	while (n) {
		if ((rc = source_input_room(in, name)) < 0)
			return rc;
		n = fread(in->text + in->bytes, 1, in->room - in->bytes, file);
		in->bytes += n;
	}
	return ferror(file) ? spw_err(EIO, "%s: cannot read: %s", name, strerror(errno)) : 0;
}

/* A receipt has a schema; a recorded machine has files alone. */
static int source_input_parse(struct input *in, const char *name)
{
	json_error_t error;

	if (in->bytes == 0)
		return spw_err(EINVAL, "%s: is empty", name);
	in->top = json_loadb(in->text, in->bytes, JSON_REJECT_DUPLICATES, &error);
	if (!in->top)
		return spw_err(EINVAL, "%s:%d: is no recorded machine, and no whole receipt: %s",
			       name, error.line, error.text);
	in->tree = in->top;
	return json_object_get(in->top, "schema") ? doctor_receipt_tree(in->top, name, &in->tree)
						  : 0;
}

/* The file is read whole and closed; errors name it. */
static int source_input_open(struct input *in, const char *name)
{
	FILE *file = fopen(name, "re");
	int rc;

	if (!file)
		return spw_err(EIO, "%s: cannot read: %s", name, strerror(errno));
	rc = source_input_file(in, name, file);
	fclose(file);
	return rc ? rc : source_input_parse(in, name);
}

/* With two readings of the counters, so it takes SAMPLE_MS longer. */
int doctor_live(struct spw_plat **plat_out)
{
	return spw_plat_read(&(struct spw_plat_from){.sample_ms = SAMPLE_MS, .nccl = true},
			     plat_out);
}

static int source_inputs_load(struct input *in, const char *const *name, uint32_t cnt,
			      struct spw_plat **plat_out)
{
	struct spw_plat_from from = {.sample_ms = 0};

	for (uint32_t i = 0; i < cnt; i++) {
		from.record[i] = in[i].tree;
		from.name[i] = name[i];
	}
	return spw_plat_read(&from, plat_out);
}

/* All inputs are released, also those that were not opened: a zeroed one is fine. */
int doctor_load(const char *const *file, uint32_t file_cnt, struct spw_plat **plat_out)
{
	struct input in[DOCTOR_FILE_MAX] = {0};
	int rc = 0;

	for (uint32_t i = 0; i < file_cnt && rc == 0; i++)
		rc = source_input_open(&in[i], file[i]);
	if (rc == 0)
		rc = source_inputs_load(in, file, file_cnt, plat_out);
	for (uint32_t i = 0; i < file_cnt; i++)
		source_input_free(&in[i]);
	return rc;
}

/* ---- another host ---- */

/* One deadline for all of it, so a host that sends slowly cannot hold this end. */
static int source_ssh_input(struct input *in, const char *host, const struct doctor_ssh *ssh,
			    uint64_t until)
{
	ssize_t n = 1;
	int rc;

	while (n) {
		if ((rc = source_input_room(in, host)) < 0)
			return rc;
		n = doctor_ssh_read(ssh, until, in->text + in->bytes, in->room - in->bytes);
		if (n < 0)
			return spw_err((int)-n, "%s: nothing whole came over ssh in time: %s", host,
				       strerror((int)-n));
		in->bytes += (size_t)n;
	}
	return 0;
}

/* A receipt's first line is a brace alone; what a shell printed before it is passed over. */
static void source_banner_skip(struct input *in)
{
	const char *at = in->text, *end = at + in->bytes;

	while (at < end && (end - at < 2 || memcmp(at, "{\n", 2))) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		at = newline ? newline + 1 : end;
	}
	in->bytes = (size_t)(end - at);
	memmove(in->text, at, in->bytes);
}

/* The exit status there explains an empty answer; with a receipt it does not matter, as findings
 * set it too. */
static int source_ssh_read(struct input *in, const char *host)
{
	static const char *const word[] = {"--receipt", "-", NULL};
	struct doctor_ssh ssh;
	int rc = doctor_ssh_start("--peer", host, word, &ssh), status;

	rc = rc ? rc : source_ssh_input(in, host, &ssh, doctor_ssh_until(RECEIPT_MS));
	status = doctor_ssh_end(&ssh);
	if (rc == 0)
		source_banner_skip(in);
	if (rc == 0 && in->bytes == 0)
		rc = spw_err(
			EIO,
			"%s: no receipt came over ssh (exit status %d); is spinwire-doctor "
			"installed there? Else copy a receipt here, made there by spinwire-doctor "
			"--receipt FILE, and name it: --peer FILE",
			host, status);
	return rc;
}

int doctor_ssh_json(const struct doctor_ssh *ssh, const char *host, uint64_t until, json_t **out)
{
	struct input in = {0};
	int rc = source_ssh_input(&in, host, ssh, until);

	if (rc == 0)
		source_banner_skip(&in);
	*out = rc ? NULL : json_loadb(in.text, in.bytes, JSON_REJECT_DUPLICATES, NULL);
	if (rc == 0 && !*out)
		rc = spw_err(EPROTO, "%s: answers no JSON over ssh", host);
	source_input_free(&in);
	return rc;
}

int doctor_json_load(const char *file, json_t **out)
{
	struct input in = {0};
	FILE *from = fopen(file, "re");
	json_error_t error;
	int rc = from ? source_input_file(&in, file, from)
		      : spw_err(EIO, "%s: cannot read: %s", file, strerror(errno));

	if (from)
		fclose(from);
	*out = rc ? NULL : json_loadb(in.text, in.bytes, JSON_REJECT_DUPLICATES, &error);
	if (rc == 0 && !*out)
		rc = spw_err(EINVAL, "%s:%d: is no JSON: %s", file, error.line, error.text);
	source_input_free(&in);
	return rc;
}

int doctor_peer(const char *peer, struct spw_plat **plat_out)
{
	struct input in = {0};
	int rc;

	if (access(peer, F_OK) == 0)
		return doctor_load(&peer, 1, plat_out);
	rc = source_ssh_read(&in, peer);
	if (rc == 0)
		rc = source_input_parse(&in, peer);
	if (rc == 0)
		rc = source_inputs_load(&in, &peer, 1, plat_out);
	source_input_free(&in);
	return rc;
}
