/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Runs a fuzz target over every file of the folders that are named: the corpus as a plain test,
 * with any compiler.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int file_run(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(1u << 20);
	size_t got;

	if (!file || !data)
		return -1;
	got = fread(data, 1, 1u << 20, file);
	fclose(file);
	/* exactly as long as the input, so that a read past it is seen */
	data = realloc(data, got ? got : 1);
	LLVMFuzzerTestOneInput(data, got);
	free(data);
	return 0;
}

static int folder_run(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char name[4096];
	int cnt = 0;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (file_run(name))
			return -1;
		cnt++;
	}
	if (dir)
		closedir(dir);
	return cnt;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int cnt = folder_run(argv[i]);

		printf("%s: %d inputs\n", argv[i], cnt);
		if (cnt <= 0)
			return 1;
	}
	return 0;
}
