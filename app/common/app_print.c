/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * stdout and stderr of a program as streams of their own (fopencookie), whose every byte passes
 * base/spw_text.h before it is written. So a printf of whatever file or peer said what cannot
 * forget the filter.
 *
 *   printf --> FILE's buffer --> sieve_write --> held: the character that is not whole yet --> fd
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app_print.h"
#include "base/spw_file.h"
#include "base/spw_text.h"

#define OUT_BYTES 4096u

struct sieve {
	int fd;
	uint32_t held_cnt;
	char held[4];
};

/* Moves what of held is whole to out. Returns: bytes written there. */
static size_t sieve_take(struct sieve *s, char *out)
{
	size_t used = 0;

	while (s->held_cnt && spw_text_char(s->held, s->held_cnt) >= 0) {
		char shown[SPW_TEXT_SHOWN_BYTES] = {s->held[0]};
		uint32_t n = 1;

		if (s->held[0] != '\n' && s->held[0] != '\t')
			n = spw_text_next(s->held, s->held_cnt, shown);
		memcpy(out + used, shown, strlen(shown));
		used += strlen(shown);
		s->held_cnt -= n;
		memmove(s->held, s->held + n, s->held_cnt);
	}
	return used;
}

/* A character may be cut between two writes, so its first bytes are held until the rest comes. */
static ssize_t sieve_write(void *cookie, const char *text, size_t bytes)
{
	struct sieve *s = cookie;
	char out[OUT_BYTES];
	size_t used = 0;

	for (size_t i = 0; i < bytes; i++) {
		s->held[s->held_cnt++] = text[i];
		used += sieve_take(s, out + used);
		if (used + sizeof(s->held) * SPW_TEXT_SHOWN_BYTES <= sizeof(out) && i + 1 < bytes)
			continue;
		if (!spw_file_put(s->fd, out, used))
			return 0;
		used = 0;
	}
	return (ssize_t)bytes;
}

/* Without memory for it the stream remains as it was. */
static void sieve_put(FILE **stream, struct sieve *s, int mode)
{
	FILE *file = fopencookie(s, "w", (cookie_io_functions_t){.write = sieve_write});

	if (!file)
		return;
	setvbuf(file, NULL, mode, 0);
	*stream = file;
}

FILE *app_print_report(int fd)
{
	static struct sieve sieve;
	FILE *file = NULL;

	sieve.fd = fd;
	sieve_put(&file, &sieve, _IOFBF);
	return file;
}

/* stdout is buffered by lines on a terminal only; stderr never, so that a message is not lost in a
 * crash. */
void app_print_start(void)
{
	static struct sieve out = {.fd = STDOUT_FILENO}, err = {.fd = STDERR_FILENO};

	sieve_put(&stdout, &out, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
	sieve_put(&stderr, &err, _IONBF);
}

static bool print_has_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDERR_FILENO) && !(no && no[0]) && term && strcmp(term, "dumb") != 0;
}

/* Colours go to the descriptor: the stream has no buffer, and lets none through. */
void app_print_tag(const char *program, const char *sgr, const char *tag)
{
	bool colour = tag[0] && print_has_colour();

	fprintf(stderr, "%s: ", program);
	if (colour)
		dprintf(STDERR_FILENO, "\033[%sm", sgr);
	fputs(tag, stderr);
	if (colour)
		dprintf(STDERR_FILENO, "\033[0m");
}
