/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Small files of sysfs and procfs below a root that tests may replace (plat_impl.h). A file that is
 * missing or malformed yields a default, never an error: kernels differ in what they show.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plat/plat_impl.h"

void plat_copy(char *out, size_t bytes, const char *text)
{
	size_t n = strnlen(text, bytes - 1);

	memcpy(out, text, n);
	out[n] = '\0';
}

static void trim(char *text)
{
	size_t n = strlen(text), skip = strspn(text, " \t");

	while (n > skip && strchr(" \t\r\n", text[n - 1]))
		n--;
	memmove(text, text + skip, n - skip);
	text[n - skip] = '\0';
}

/* One value per file is the rule of sysfs; multi-line files are read with a label
 * (plat_label_text). */
static bool first_line(char *out, size_t bytes, const char *path)
{
	FILE *file = fopen(path, "re");
	bool read;

	out[0] = '\0';
	if (!file)
		return false;
	read = fgets(out, (int)bytes, file) != NULL;
	fclose(file);
	trim(out);
	return read;
}

/* Returns: false if root/PATH does not fit. */
static bool path_make(char path[PLAT_PATH_BYTES], const char *root, const char *fmt, va_list ap)
{
	int n = snprintf(path, PLAT_PATH_BYTES, "%s/", root);

	if (n < 0 || (size_t)n >= PLAT_PATH_BYTES)
		return false;
	return (size_t)vsnprintf(path + n, PLAT_PATH_BYTES - (size_t)n, fmt, ap) <
	       PLAT_PATH_BYTES - (size_t)n;
}

bool plat_text(char *out, size_t bytes, const char *root, const char *fmt, ...)
{
	char path[PLAT_PATH_BYTES];
	va_list ap;
	bool fits;

	out[0] = '\0';
	va_start(ap, fmt);
	fits = path_make(path, root, fmt, ap);
	va_end(ap);
	return fits && first_line(out, bytes, path);
}

/* Base 0: sysfs shows PCI ids with 0x and the rest in decimal. */
int64_t plat_number(int64_t dflt, const char *root, const char *fmt, ...)
{
	char path[PLAT_PATH_BYTES], text[64], *end;
	int64_t value;
	va_list ap;
	bool fits;

	va_start(ap, fmt);
	fits = path_make(path, root, fmt, ap);
	va_end(ap);
	if (!fits || !first_line(text, sizeof(text), path))
		return dflt;
	value = strtoll(text, &end, 0);
	return end == text ? dflt : value;
}

bool plat_label_text(char *out, size_t bytes, const char *root, const char *path, const char *label)
{
	char full[PLAT_PATH_BYTES], line[512];
	size_t len = strlen(label);
	bool found = false;
	FILE *file;

	out[0] = '\0';
	snprintf(full, sizeof(full), "%s/%s", root, path);
	file = fopen(full, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		if (strncmp(line, label, len))
			continue;
		trim(line);
		plat_copy(out, bytes, line + SPW_MIN(len, strlen(line)));
		trim(out);
		found = true;
	}
	if (file)
		fclose(file);
	return found;
}

int64_t plat_labelled(int64_t dflt, const char *root, const char *path, const char *label)
{
	char text[64], *end;
	int64_t value;

	if (!plat_label_text(text, sizeof(text), root, path, label))
		return dflt;
	value = strtoll(text, &end, 0);
	return end == text ? dflt : value;
}

/* For scandir(): all names but hidden ones. */
static int shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Sorted, so that results do not depend on the order in which a file system lists names. */
void plat_each(const char *root, const char *path, bool (*fn)(const char *name, void *arg),
	       void *arg)
{
	char full[PLAT_PATH_BYTES];
	struct dirent **entry;
	bool more = true;
	int cnt;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	cnt = scandir(full, &entry, shown, alphasort);
	for (int i = 0; i < cnt; i++) {
		more = more && fn(entry[i]->d_name, arg);
		free(entry[i]);
	}
	if (cnt >= 0)
		free(entry);
}

void plat_link_name(char *out, size_t bytes, const char *root, const char *fmt, ...)
{
	char path[PLAT_PATH_BYTES], target[PLAT_PATH_BYTES];
	const char *slash;
	va_list ap;
	ssize_t n = -1;

	va_start(ap, fmt);
	if (path_make(path, root, fmt, ap))
		n = readlink(path, target, sizeof(target) - 1);
	va_end(ap);
	target[n < 0 ? 0 : n] = '\0';
	slash = strrchr(target, '/');
	plat_copy(out, bytes, slash ? slash + 1 : target);
}

/* The kernel's list format: "0-3,8". Malformed text ends the list. */
uint32_t plat_list(const char *text, bool *set, uint32_t cnt)
{
	uint32_t found = 0;
	char *end;

	for (; *text; text = *end ? end + 1 : end) {
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			break;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long i = first; i <= last && i < cnt; i++) {
			found += !set[i];
			set[i] = true;
		}
	}
	return found;
}

void plat_list_text(const bool *set, uint32_t cnt, char *out, size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < cnt && used < bytes; i++) {
		uint32_t first = i;

		if (!set[i])
			continue;
		while (i + 1 < cnt && set[i + 1])
			i++;
		if (i == first)
			used += (size_t)snprintf(out + used, bytes - used, "%s%u", used ? "," : "",
						 i);
		else
			used += (size_t)snprintf(out + used, bytes - used, "%s%u-%u",
						 used ? "," : "", first, i);
	}
}
