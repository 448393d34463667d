/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The text in which a tree is saved (tree.h has the format).
 *
 *   line --line_split--> path, text | link | errno
 *        --line_load---> a list {..} in the path: line_put_each, by number; else: line_put
 *
 * A loaded text may come from anywhere: a machine that failed while it was recorded, a bug report,
 * a fuzzer (tests/fuzz). Every line is checked, and a wrong one is reported by its number.
 */
#include <ctype.h>
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/spw_plat.h"
#include "plat/tree_impl.h"

#define PATH_BYTES ((int)PLAT_TREE_PATH_MAX - 8) /* of a loaded path, with its end */

/* ---- load ---- */

static int tree_hex_digit(char c)
{
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
					    : -1;
}

/* Replaces \n, \t, \\ and \xHH in place. Returns: false if there is another escape, or a byte 0. */
static bool tree_unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		if (*text != '\\') {
			*out++ = *text;
		} else if (text[1] && strchr("nt\\", text[1])) {
			text++;
			*out++ = *text == 'n' ? '\n' : *text == 't' ? '\t' : '\\';
		} else if (text[1] == 'x' && tree_hex_digit(text[2]) >= 0 &&
			   tree_hex_digit(text[3]) >= 0) {
			*out = (char)(tree_hex_digit(text[2]) << 4 | tree_hex_digit(text[3]));
			if (!*out++)
				return false;
			text += 3;
		} else {
			return false;
		}
	}
	*out = '\0';
	return true;
}

struct line {
	char *path, *text;
	int error;
	bool link;
};

/* Names, not numbers, are recorded: errno numbers differ between architectures. 133 is the last one
 * of Linux on most of them. */
static int tree_error_number(const char *name)
{
	for (int error = 1; error < 134; error++)
		if (strerrorname_np(error) && !strcmp(strerrorname_np(error), name))
			return error;
	return 0;
}

/* Splits "PATH = TEXT", "PATH -> TARGET" or "PATH ! ERRNO". */
static bool line_split(char *text, struct line *line)
{
	char *at = strchr(text, ' ');

	*line = (struct line){.path = text};
	if (!at || at == text)
		return false;
	*at++ = '\0';
	if (!strncmp(at, "= ", 2) || !strcmp(at, "="))
		line->text = at + 1 + (at[1] == ' ');
	else if (!strncmp(at, "-> ", 3) && at[3])
		line->text = at + 3, line->link = true;
	else if (!strncmp(at, "! ", 2) && (line->error = tree_error_number(at + 2)) != 0)
		line->text = at + strlen(at);
	return line->text != NULL;
}

/* ENOENT removes the path and what is below it, so that a few lines can describe a machine that
 * lacks something. */
static int line_put(struct plat_tree *tree, const struct line *line, const char *path,
		    const char *text)
{
	if (tree->loaded == PLAT_TREE_LOAD_MAX)
		return -E2BIG;
	tree->loaded++;
	if (line->error == ENOENT) {
		plat_tree_remove(tree, path);
		return 0;
	}
	return plat_tree_set(tree, path, text, line->error, line->link);
}

/* text with number in place of each {}; cut to the buffer. */
static void line_fill(char *out, size_t bytes, const char *text, uint32_t number)
{
	size_t used = 0;

	while (*text && used + 12 < bytes) {
		if (!strncmp(text, "{}", 2)) {
			used += (size_t)snprintf(out + used, bytes - used, "%u", number);
			text += 2;
		} else {
			out[used++] = *text++;
		}
	}
	out[used] = '\0';
}

/* The path is checked for each number, since a longer number makes a longer path. */
static int line_put_each(struct plat_tree *tree, const struct line *line, const bool *set,
			 const char *before, const char *after)
{
	char path[PLAT_TREE_PATH_MAX], text[1024];
	int rc = 0;

	for (uint32_t i = 0; i < SPW_PLAT_CORE_MAX && rc == 0; i++) {
		if (!set[i])
			continue;
		if (snprintf(path, sizeof(path), "%s%u%s", before, i, after) >= PATH_BYTES)
			return -EINVAL;
		line_fill(text, sizeof(text), line->text, i);
		rc = line_put(tree, line, path, text);
	}
	return rc;
}

/* A path with {} is written by hand and has no escapes; a saved one has its '{' escaped. The text
 * is checked in any case. */
static int line_load(struct plat_tree *tree, struct line *line)
{
	char *open = strchr(line->path, '{'), *close = open ? strchr(open, '}') : NULL;
	bool set[SPW_PLAT_CORE_MAX] = {false};

	if (!tree_unescape(line->text))
		return -EINVAL;
	if (!open && (!tree_unescape(line->path) || strlen(line->path) >= (size_t)PATH_BYTES))
		return -EINVAL;
	if (!open)
		return line_put(tree, line, line->path, line->text);
	if (!close)
		return -EINVAL;
	*open = *close = '\0';
	if (spw_plat_list_parse(open + 1, set, SPW_PLAT_CORE_MAX) < 0)
		return -EINVAL;
	return line_put_each(tree, line, set, line->path, close + 1);
}

/* The last line counts as torn if its newline is missing: the recording stopped there. It is no
 * error, and its file reads as EBADMSG. A wrong line ends the load, as do a lack of memory and a
 * full tree; what was loaded stays in the tree, which the caller frees. */
int plat_tree_load(struct plat_tree *tree, const char *name, const char *text, size_t bytes)
{
	char *copy = malloc(bytes + 1), *at = copy, *next;
	uint32_t number = 0;
	int rc = 0;

	if (!copy)
		return spw_err(ENOMEM, "%s: no memory", name);
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	if (memchr(copy, 0, bytes))
		rc = spw_err(EINVAL, "%s: holds a byte 0; it is not a recorded tree", name);
	for (; rc == 0 && *at; at = next) {
		char *end = strchr(at, '\n');
		struct line line;

		number++;
		next = end ? end + 1 : at + strlen(at);
		if (end)
			*end = '\0';
		if (*at == '#' || *at == '\0')
			continue;
		if (line_split(at, &line)) {
			line.error = end ? line.error : EBADMSG;
			rc = line_load(tree, &line);
		} else {
			rc = end ? -EINVAL : 0; /* torn before its path was complete */
		}
		if (rc == -EINVAL && end)
			spw_err(EINVAL,
				"%s:%u: no \"PATH = TEXT\", \"PATH -> LINK\" or \"PATH ! ERRNO\"",
				name, number);
		else if (rc == -EINVAL)
			rc = 0;
		else if (rc)
			rc = spw_err(-rc,
				     "%s:%u: too many files or changes of files, the limits are %u "
				     "and %u",
				     name, number, PLAT_TREE_ENTRY_MAX, PLAT_TREE_LOAD_MAX);
	}
	free(copy);
	return rc;
}

/* ---- save ---- */

static void save_text(FILE *file, const char *text)
{
	fwrite(text, 1, strlen(text), file);
}

/* One byte as it is, or as an escape. `also`: characters that must not stand as they are at this
 * place: a blank ends a path, and '{' opens a list. */
static void save_byte(FILE *file, unsigned char c, const char *also)
{
	char text[8] = {(char)c};

	if (c == '\n')
		strcpy(text, "\\n");
	else if (c == '\t')
		strcpy(text, "\\t");
	else if (c == '\\')
		strcpy(text, "\\\\");
	else if (c < 32 || c >= 127 || strchr(also, c))
		snprintf(text, sizeof(text), "\\x%02x", c);
	save_text(file, text);
}

static void save_escaped(FILE *file, const char *text, const char *also)
{
	for (; *text; text++)
		save_byte(file, (unsigned char)*text, also);
}

/* twalk_r() visits an inner node three times: postorder is the visit in sorted order. */
static void save_entry(const void *node, VISIT visit, void *arg)
{
	const struct plat_entry *e = *(struct plat_entry *const *)node;
	FILE *file = arg;

	if (visit != postorder && visit != leaf)
		return;
	save_escaped(file, e->path, " {");
	save_text(file, e->error ? " ! " : e->link ? " -> " : " = ");
	if (e->error)
		save_text(file, strerrorname_np(e->error));
	else
		save_escaped(file, e->text, "");
	save_text(file, "\n");
}

int plat_tree_save(const struct plat_tree *tree, FILE *file)
{
	save_text(file, "# spinwire machine 1\n");
	twalk_r(tree->root, save_entry, file);
	return ferror(file) ? spw_err(EIO, "the recorded tree could not be written") : 0;
}
