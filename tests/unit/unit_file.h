/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Files that unit tests read, such as recorded machines.
 */
#ifndef UNIT_FILE_H
#define UNIT_FILE_H

#include <stdio.h>
#include <stdlib.h>

#include "unit_test.h"

/* The text of the file whose path is printed by fmt; the test fails if it cannot be read. The
 * caller frees it. */
__attribute__((format(printf, 1, 2))) static inline char *unit_file_text(const char *fmt, ...)
{
	char path[512], *text = NULL;
	size_t room = 0;
	va_list args;
	FILE *file;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	file = fopen(path, "re");
	if (!file || getdelim(&text, &room, '\0', file) < 0)
		fail_msg("%s cannot be read", path);
	fclose(file);
	return text;
}

#endif
