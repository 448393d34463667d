/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The members of tests/corpus/TARGET.tar, one after the other: an uncompressed archive as POSIX.1
 * describes it (ustar), packed and unpacked by tests/corpus/archive.
 *
 *   header  name 0..99, size in octal 124..135, type 156 ('0': a file), "ustar" 257   512 bytes
 *   data    padded to 512 bytes
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CORPUS_BLOCK = 512 };

/* The next file of the archive whose name begins with folder and '/': its name after that, and what
 * it holds. False at the end, and if the archive is not sound (then *sound is false). */
static inline bool corpus_next(FILE *tar, const char *folder, char name[100], uint8_t *data,
			       size_t cap, size_t *size_out, bool *sound)
{
	const size_t skip = strlen(folder);
	char head[CORPUS_BLOCK];

	*sound = false;
	while (fread(head, 1, sizeof(head), tar) == sizeof(head)) {
		const bool is_file = head[156] == '0';
		size_t size, padded;

		if (head[0] == '\0')
			return *sound = true, false;
		if (memcmp(head + 257, "ustar", 5) != 0)
			return false;
		size = is_file ? strtoul(head + 124, NULL, 8) : 0;
		padded = (size + CORPUS_BLOCK - 1) / CORPUS_BLOCK * CORPUS_BLOCK;
		head[100] = '\0';
		if (!is_file || strncmp(head, folder, skip) != 0 || head[skip] != '/') {
			if (fseek(tar, (long)padded, SEEK_CUR))
				return false;
			continue;
		}
		if (size > cap || fread(data, 1, size, tar) != size ||
		    fseek(tar, (long)(padded - size), SEEK_CUR))
			return false;
		snprintf(name, 100, "%.99s", head + skip + 1);
		*size_out = size;
		return *sound = true;
	}
	return false;
}
