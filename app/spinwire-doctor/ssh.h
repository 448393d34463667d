/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-doctor on another host, over ssh. A shell that starts there may print a banner first:
 * whoever reads passes over what is not the doctor's.
 */
#ifndef DOCTOR_SSH_H
#define DOCTOR_SSH_H

#include <sys/types.h>

#include "base/spw_types.h"

struct doctor_ssh {
	pid_t pid;
	int to, from; /* its stdin and stdout */
};

#define DOCTOR_SSH_WORD_MAX 4u

/* Starts "spinwire-doctor WORD ..." there; word: at most DOCTOR_SSH_WORD_MAX, then NULL. option
 * named host. End it after an error too. Errors: -EINVAL host is no name of a host; -EIO; -errno of
 * pipe2(). */
int doctor_ssh_start(const char *option, const char *host, const char *const *word,
		     struct doctor_ssh *ssh);

/* Returns: the time by which something has to come, ms from now; for the calls below. */
uint64_t doctor_ssh_until(uint32_t ms);

/* What has come. Returns: bytes, 0 at its end; -ETIMEDOUT, -errno of read(); no text. */
ssize_t doctor_ssh_read(const struct doctor_ssh *ssh, uint64_t until, void *out, size_t bytes);

/* A whole line, without its end. Errors: those of doctor_ssh_read; -ECONNRESET the end of the file;
 * -EMSGSIZE no line of less than room bytes; no text. */
int doctor_ssh_line(const struct doctor_ssh *ssh, uint64_t until, char *line, size_t room);

/* source.c: all that it sends, as JSON; what a shell printed before the first line that is a brace
 * alone is passed over. *out: a new reference, or NULL.
 * Errors: -ETIMEDOUT, -errno of read(); -EINVAL it is too large; -EPROTO no JSON. */
struct json_t;
int doctor_ssh_json(const struct doctor_ssh *ssh, const char *host, uint64_t until,
		    struct json_t **out);

/* Closes both files and waits; ssh is killed if it goes on. Returns: the exit status there, 255 if
 * ssh failed; -1 unknown. */
int doctor_ssh_end(struct doctor_ssh *ssh);

#endif
