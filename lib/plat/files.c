/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Small files of a tree as facts (plat_impl.h). A file that is missing or malformed yields a
 * default and a reason, never an error: kernels differ in what they show.
 *
 *   plat_of "nic eth0"                  r->of
 *   plat_number "mtu", "sys/class/..."  -> value for the caller
 *                                       -> fact: of "nic eth0", name "mtu", value, source, why not
 *
 * A reader never branches on "could the file be read": it gets the default, and the reason stands
 * in the list of facts, where a user and --json find it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

void plat_copy(char *out, size_t bytes, const char *text)
{
	size_t n = strnlen(text, bytes - 1);

	memcpy(out, text, n);
	out[n] = '\0';
}

/* ---- facts ---- */

void plat_of(struct plat_read *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->of, sizeof(r->of), fmt, ap);
	va_end(ap);
}

void plat_note(struct plat_read *r, const char *name, const char *value, const char *source,
	       const char *why)
{
	struct spw_plat *plat = r->plat;
	struct spw_plat_fact *f;

	if (plat->fact_cnt == plat->fact_room) {
		uint32_t room = plat->fact_room ? 2 * plat->fact_room : 256;
		struct spw_plat_fact *more = realloc(plat->fact, room * sizeof(*more));

		if (!more)
			return;
		plat->fact = more;
		plat->fact_room = room;
	}
	f = &plat->fact[plat->fact_cnt++];
	plat_copy(f->of, sizeof(f->of), r->of);
	plat_copy(f->name, sizeof(f->name), name);
	plat_copy(f->value, sizeof(f->value), value);
	plat_copy(f->source, sizeof(f->source), source);
	plat_copy(f->why, sizeof(f->why), why ? why : "");
}

/* Sources that are files of the machine are named with their first slash; those that are answers of
 * a probe without: "ethtool/eth0/link". */
static void files_note(struct plat_read *r, const char *name, const char *value, const char *path,
		       const char *label, const char *why)
{
	char source[192];

	if (name[0] == '\0')
		return;
	snprintf(source, sizeof(source), "%s%.140s%s%.40s", plat_tree_is_file(path) ? "/" : "",
		 path, label ? " " : "", label ? label : "");
	plat_note(r, name, value, source, why);
}

static const char *files_reason(int error)
{
	return error == ENOENT ? "absent" : error == ENODATA ? "not recorded" : strerror(error);
}

/* ---- reading ---- */

/* Copies the first line, without white space at its ends. */
static void files_first_line(char *out, size_t bytes, const char *text)
{
	size_t n = strcspn(text, "\n"), skip = strspn(text, " \t");

	skip = SPW_MIN(skip, n);
	while (n > skip && strchr(" \t\r", text[n - 1]))
		n--;
	n = SPW_MIN(n - skip, bytes - 1);
	memcpy(out, text + skip, n);
	out[n] = '\0';
}

/* Returns: false if the path does not fit. */
static bool files_path_make(char path[PLAT_TREE_PATH_MAX], const char *fmt, va_list ap)
{
	int n = vsnprintf(path, PLAT_TREE_PATH_MAX, fmt, ap);

	return n >= 0 && (size_t)n < PLAT_TREE_PATH_MAX;
}

/* Returns: the errno of the file, 0 if it was read. Callers begin with ENAMETOOLONG, for a path
 * that does not fit. */
static int files_line_read(struct plat_read *r, const char *path, char *out, size_t bytes)
{
	const char *text;
	int error = plat_tree_read(r->tree, path, &text);

	out[0] = '\0';
	if (error == 0)
		files_first_line(out, bytes, text);
	return error;
}

bool plat_text(struct plat_read *r, const char *name, char *out, size_t bytes, const char *fmt, ...)
{
	char path[PLAT_TREE_PATH_MAX];
	int error = ENAMETOOLONG;
	va_list ap;

	out[0] = '\0';
	va_start(ap, fmt);
	if (files_path_make(path, fmt, ap))
		error = files_line_read(r, path, out, bytes);
	va_end(ap);
	files_note(r, name, out, path, NULL, error ? files_reason(error) : NULL);
	return error == 0;
}

/* The whole text must be the number: "8.0 GT/s" is none. */
static bool files_number(const char *text, int64_t *value_out)
{
	char *end;

	errno = 0;
	*value_out = strtoll(text, &end, 0);
	return end != text && *end == '\0' && errno == 0;
}

/* Base 0: sysfs shows PCI ids with 0x and the rest in decimal. */
static int64_t files_number_read(struct plat_read *r, const char *name, int64_t dflt,
				 const char *fmt, va_list ap)
{
	char path[PLAT_TREE_PATH_MAX], text[64] = "";
	int error = ENAMETOOLONG;
	int64_t value = dflt;
	bool good = false;

	if (files_path_make(path, fmt, ap))
		error = files_line_read(r, path, text, sizeof(text));
	if (error == 0)
		good = files_number(text, &value);
	files_note(r, name, text, path, NULL,
		   error  ? files_reason(error)
		   : good ? NULL
			  : "not a number");
	return good ? value : dflt;
}

int64_t plat_number(struct plat_read *r, const char *name, int64_t dflt, const char *fmt, ...)
{
	int64_t value;
	va_list ap;

	va_start(ap, fmt);
	value = files_number_read(r, name, dflt, fmt, ap);
	va_end(ap);
	return value;
}

/* Negative numbers become 0: no counter has them. */
uint64_t plat_count(struct plat_read *r, const char *name, const char *fmt, ...)
{
	int64_t value;
	va_list ap;

	va_start(ap, fmt);
	value = files_number_read(r, name, 0, fmt, ap);
	va_end(ap);
	return value < 0 ? 0 : (uint64_t)value;
}

/* For files of many lines, "MemTotal:   16 kB": the first line that begins with the label. */
bool plat_label_text(struct plat_read *r, const char *name, char *out, size_t bytes,
		     const char *path, const char *label)
{
	size_t len = strlen(label);
	const char *text;
	int error = plat_tree_read(r->tree, path, &text);

	out[0] = '\0';
	while (error == 0 && *text && strncmp(text, label, len)) {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	if (error == 0 && *text)
		files_first_line(out, bytes, text + len);
	files_note(r, name, out, path, label,
		   error   ? files_reason(error)
		   : *text ? NULL
			   : "no such line");
	return error == 0 && *text;
}

int64_t plat_labelled(struct plat_read *r, const char *name, int64_t dflt, const char *path,
		      const char *label)
{
	char text[64], *end;
	int64_t value;

	if (!plat_label_text(r, name, text, sizeof(text), path, label))
		return dflt;
	value = strtoll(text, &end, 0);
	return end == text ? dflt : value;
}

/* What a link points to names a thing in sysfs: the driver, the device, the IOMMU group. */
void plat_link_name(struct plat_read *r, const char *name, char *out, size_t bytes, const char *fmt,
		    ...)
{
	char path[PLAT_TREE_PATH_MAX], target[PLAT_TREE_PATH_MAX] = "";
	const char *slash;
	va_list ap;

	va_start(ap, fmt);
	if (files_path_make(path, fmt, ap))
		plat_tree_real(r->tree, path, target);
	va_end(ap);
	slash = strrchr(target, '/');
	plat_copy(out, bytes, slash ? slash + 1 : target);
	files_note(r, name, out, path, NULL, target[0] ? NULL : "absent");
}

/* A file that exists and cannot be read is there, as is a folder: only ENOENT says otherwise. */
bool plat_is_there(struct plat_read *r, const char *fmt, ...)
{
	char path[PLAT_TREE_PATH_MAX];
	const char *text;
	bool there = false;
	va_list ap;

	va_start(ap, fmt);
	if (files_path_make(path, fmt, ap))
		there = plat_tree_read(r->tree, path, &text) != ENOENT;
	va_end(ap);
	return there;
}

/* ---- lists ---- */

/* The kernel's list format, "0-3,8". Numbers from cnt on are ignored, so that a machine with more
 * cores than the table still has those that fit. */
int spw_plat_list_parse(const char *text, bool *set, uint32_t cnt)
{
	int found = 0;
	char *end;

	for (; *text; text = *end ? end + 1 : end) {
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			return -EINVAL;
		if (*end == '-') {
			const char *from = end + 1;

			last = strtoul(from, &end, 10);
			if (end == from)
				return -EINVAL;
		}
		if (*end && *end != ',')
			return -EINVAL;
		for (unsigned long i = first; i <= last && i < cnt; i++) {
			found += !set[i];
			set[i] = true;
		}
	}
	return found;
}

void spw_plat_list_text(const bool *set, uint32_t cnt, char *out, size_t bytes)
{
	char one[32];
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t first = i;
		size_t n;

		if (!set[i])
			continue;
		while (i + 1 < cnt && set[i + 1])
			i++;
		n = (size_t)snprintf(one, sizeof(one), i == first ? "%s%u" : "%s%u-%u",
				     used ? "," : "", first, i);
		if (used + n + sizeof(",...") > bytes) {
			snprintf(out + used, bytes - used, "%s...", used ? "," : "");
			return;
		}
		memcpy(out + used, one, n + 1);
		used += n;
	}
}
