/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-doctor on another host, over ssh.
 */
#ifndef DOCTOR_SSH_H
#define DOCTOR_SSH_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/types.h>

struct doctor_ssh {
	pid_t pid;
	FILE *to, *from; /* its stdin and stdout */
};

/* Starts "spinwire-doctor WORD WORD" there; word[1] may be NULL. End it after an error too.
 * Errors: -EINVAL host is no name of a host; -EIO, -ENOMEM. */
int doctor_ssh_start(const char *host, const char *const word[2], struct doctor_ssh *ssh);

/* Closes both files and waits. Returns: the exit status there, 255 if ssh failed; -1 unknown. */
int doctor_ssh_end(struct doctor_ssh *ssh);

#endif
