/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The files of a machine, live or loaded (tree.h): the entries in a search tree, and the format in
 * which they are saved is tree_text.c. All input may be hostile: entries, paths and expansions are
 * bounded.
 *
 *   plat_tree_read   entry? --yes--> its text, link or errno
 *                      |no
 *                    live? --yes--> read the file, keep the result, return it
 *                      |no
 *                    ENOENT
 *
 * A live tree keeps what it read, errors included, so that a saved tree answers the same questions
 * alike. Only "not there" is not kept: no entry means that already.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "plat/tree_impl.h"

#define FILE_BYTES_MAX (256u << 10) /* of a file that a live tree reads */

int plat_tree_new(bool live, struct plat_tree **tree_out)
{
	struct plat_tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return spw_err(ENOMEM, "no memory for the facts of this machine");
	tree->live = live;
	*tree_out = tree;
	return 0;
}

/* For tdestroy(), hence void *. */
static void tree_entry_free(void *entry)
{
	struct plat_entry *e = entry;

	free(e->path);
	free(e->text);
	free(e);
}

void plat_tree_free(struct plat_tree *tree)
{
	if (tree)
		tdestroy(tree->root, tree_entry_free);
	free(tree);
}

bool plat_tree_is_live(const struct plat_tree *tree)
{
	return tree->live;
}

/* In the order of strcmp, but a folder comes right before what is in it, also before "folder-2". So
 * all that is below a folder lies together, which tree_name_below and tree_by_folder rely on. */
static int tree_char_rank(char c)
{
	return !c ? 0 : c == '/' ? 1 : (unsigned char)c + 1;
}

static int tree_by_path(const void *a, const void *b)
{
	const char *x = ((const struct plat_entry *)a)->path,
		   *y = ((const struct plat_entry *)b)->path;

	while (*x && *x == *y)
		x++, y++;
	return tree_char_rank(*x) - tree_char_rank(*y);
}

/* tree_by_path, but the key is alike to all that is below it. */
static int tree_by_folder(const void *key, const void *entry)
{
	const char *x = ((const struct plat_entry *)key)->path,
		   *y = ((const struct plat_entry *)entry)->path;

	while (*x && *x == *y)
		x++, y++;
	return !*x && *y == '/' ? 0 : tree_char_rank(*x) - tree_char_rank(*y);
}

const struct plat_entry *plat_tree_find(const struct plat_tree *tree, const char *path)
{
	const struct plat_entry key = {.path = (char *)(uintptr_t)path};
	void *node = tfind(&key, &tree->root, tree_by_path);

	return node ? *(struct plat_entry *const *)node : NULL;
}

/* The new text is copied before the old one is freed: text may be the old one. On failure the entry
 * is as it was. */
int plat_tree_set(struct plat_tree *tree, const char *path, const char *text, int error, bool link)
{
	struct plat_entry *e = (struct plat_entry *)(uintptr_t)plat_tree_find(tree, path);
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	if (!e && tree->cnt == PLAT_TREE_ENTRY_MAX) {
		free(copy);
		return -E2BIG;
	}
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e || !(e->path = strdup(path)) || !tsearch(e, &tree->root, tree_by_path)) {
			if (e)
				free(e->path);
			free(e);
			free(copy);
			return -ENOMEM;
		}
		tree->cnt++;
	}
	free(e->text);
	e->text = copy;
	e->error = error;
	e->link = link;
	return 0;
}

void plat_tree_remove(struct plat_tree *tree, const char *path)
{
	const struct plat_entry key = {.path = (char *)(uintptr_t)path};
	void *node;

	while ((node = tfind(&key, &tree->root, tree_by_folder)) != NULL) {
		struct plat_entry *e = *(struct plat_entry *const *)node;

		tdelete(e, &tree->root, tree_by_path);
		tree_entry_free(e);
		tree->cnt--;
	}
}

/* ---- the running machine ---- */

/* O_NONBLOCK: a file of /dev or /proc must not block the reader. What exceeds the buffer is cut.
 * read() is repeated, since it may return less than was asked for. */
static ssize_t tree_file_read(const char *path, char *out, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error;
	size_t used = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (used < bytes && (n = read(fd, out + used, bytes - used)) > 0)
		used += (size_t)n;
	error = n < 0 ? errno : 0;
	close(fd);
	return error ? -error : (ssize_t)used;
}

/* A byte 0 would end the text. A file that has one (configuration space of PCI) is kept as
 * hexadecimal digits, two for each byte. */
static void tree_zeros_keep(char *out, const char *in, size_t bytes)
{
	static const char digit[] = "0123456789abcdef";

	if (!memchr(in, 0, bytes)) {
		memcpy(out, in, bytes);
		out[bytes] = '\0';
		return;
	}
	for (size_t i = 0; i < bytes; i++) {
		*out++ = digit[(uint8_t)in[i] >> 4];
		*out++ = digit[in[i] & 15];
	}
	*out = '\0';
}

/* Returns: errno, 0 if the file was read. Its last newlines are not kept: nearly every file of
 * sysfs ends with one. */
static int tree_live_read(struct plat_tree *tree, const char *path)
{
	char full[PLAT_TREE_PATH_MAX + 2];
	char *raw = malloc(FILE_BYTES_MAX), *text = malloc(2 * FILE_BYTES_MAX + 1);
	ssize_t n = -ENOMEM;

	snprintf(full, sizeof(full), "/%s", path);
	if (raw && text)
		n = tree_file_read(full, raw, FILE_BYTES_MAX);
	if (n >= 0) {
		while (n > 0 && raw[n - 1] == '\n')
			n--;
		tree_zeros_keep(text, raw, (size_t)n);
		plat_tree_set(tree, path, text, 0, false);
	} else if (n != -ENOENT && n != -ENOTDIR) {
		plat_tree_set(tree, path, "", (int)-n, false);
	}
	free(raw);
	free(text);
	return n < 0 ? (int)-n : 0;
}

/* Everything else in the tree is an answer that a probe put there, and is never read from disk. */
bool plat_tree_is_file(const char *path)
{
	return !strncmp(path, "sys/", 4) || !strncmp(path, "proc/", 5) ||
	       !strncmp(path, "dev/", 4) || !strncmp(path, "etc/", 4) ||
	       !strncmp(path, "run/", 4) || !strcmp(path, ".dockerenv");
}

/* A link has no text of its own: reading it is EISDIR, as of a folder. */
int plat_tree_read(struct plat_tree *tree, const char *path, const char **text_out)
{
	const struct plat_entry *e = plat_tree_find(tree, path);
	int error;

	*text_out = "";
	if (!e && tree->live && plat_tree_is_file(path) &&
	    (error = tree_live_read(tree, path)) != 0)
		return error;
	e = e ? e : plat_tree_find(tree, path);
	if (!e)
		return ENOENT;
	*text_out = e->text;
	return e->link ? EISDIR : e->error;
}

void plat_tree_put(struct plat_tree *tree, const char *path, const char *text)
{
	plat_tree_set(tree, path, text, 0, false);
}

void plat_tree_put_error(struct plat_tree *tree, const char *path, int error)
{
	plat_tree_set(tree, path, "", error, false);
}

/* ---- links and folders ---- */

/* Appends the components of path to out, which is a normal path; ".." takes one away. */
static bool tree_path_append(char out[PLAT_TREE_PATH_MAX], const char *path)
{
	size_t used = strlen(out);

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && !strncmp(path, "..", 2)) {
			char *slash = strrchr(out, '/');

			used = slash ? (size_t)(slash - out) : 0;
		} else if (n && !(n == 1 && *path == '.')) {
			if (used + n + 2 > PLAT_TREE_PATH_MAX)
				return false;
			if (used)
				out[used++] = '/';
			memcpy(out + used, path, n);
			used += n;
		}
		out[used] = '\0';
		path += n + (path[n] == '/');
	}
	return true;
}

/* A loaded link is resolved one step: it was recorded with the path that realpath() returned. A
 * relative target, written by hand, begins in the link's folder. A live link is recorded on the
 * way. */
bool plat_tree_real(struct plat_tree *tree, const char *path, char out[PLAT_TREE_PATH_MAX])
{
	const struct plat_entry *e = plat_tree_find(tree, path);
	char full[PLAT_TREE_PATH_MAX + 2], real[PATH_MAX];
	bool fits = true;

	out[0] = '\0';
	if (e && e->link && !e->error) {
		if (e->text[0] != '/')
			fits = tree_path_append(out, path) && tree_path_append(out, "..");
		fits = fits && tree_path_append(out, e->text);
	} else if (tree->live && plat_tree_is_file(path)) {
		snprintf(full, sizeof(full), "/%s", path);
		fits = realpath(full, real) && tree_path_append(out, real);
		if (fits)
			plat_tree_set(tree, path, real, 0, true);
	} else {
		fits = false;
	}
	if (!fits)
		out[0] = '\0';
	return fits;
}

struct names {
	char **name;
	size_t cnt, room;
	const char *path;
	size_t bytes;
};

/* The same name often comes several times in a row, once for each file below it; only the last one
 * is compared. Without memory the name is missing. */
static void tree_name_add(struct names *names, const char *name, size_t bytes)
{
	char *copy;

	if (bytes == 0 || (names->cnt && strlen(names->name[names->cnt - 1]) == bytes &&
			   !strncmp(names->name[names->cnt - 1], name, bytes)))
		return;
	if (names->cnt == names->room) {
		size_t room = names->room ? 2 * names->room : 64;
		char **more = realloc(names->name, room * sizeof(*more));

		if (!more)
			return;
		names->name = more;
		names->room = room;
	}
	copy = strndup(name, bytes);
	if (copy)
		names->name[names->cnt++] = copy;
}

/* Of "FOLDER/name/file" the name, for each entry below the folder. */
static void tree_name_below(const void *node, VISIT visit, void *arg)
{
	const struct plat_entry *e = *(struct plat_entry *const *)node;
	struct names *names = arg;

	if ((visit == postorder || visit == leaf) && !strncmp(e->path, names->path, names->bytes) &&
	    e->path[names->bytes] == '/')
		tree_name_add(names, e->path + names->bytes + 1,
			      strcspn(e->path + names->bytes + 1, "/"));
}

/* A folder that is listed stays in the tree by its names, in the file "FOLDER/". */
static void tree_live_names(struct plat_tree *tree, const char *path, struct names *names)
{
	char full[PLAT_TREE_PATH_MAX + 2], *list;
	struct dirent **entry;
	size_t bytes = 1;
	int cnt;

	snprintf(full, sizeof(full), "/%s", path);
	cnt = scandir(full, &entry, NULL, alphasort);
	for (int i = 0; i < cnt; i++) {
		if (entry[i]->d_name[0] != '.')
			tree_name_add(names, entry[i]->d_name, strlen(entry[i]->d_name));
		bytes += strlen(entry[i]->d_name) + 1;
		free(entry[i]);
	}
	if (cnt < 0)
		return;
	free(entry);
	list = calloc(1, bytes);
	for (size_t i = 0; list && i < names->cnt; i++) {
		strcat(list, i ? " " : "");
		strcat(list, names->name[i]);
	}
	snprintf(full, sizeof(full), "%s/", path);
	if (list && names->cnt)
		plat_tree_put(tree, full, list);
	free(list);
}

static int tree_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Two sources: the list that tree_live_names recorded, and the entries themselves, for trees
 * written by hand. */
static void tree_loaded_names(struct plat_tree *tree, const char *path, struct names *names)
{
	char listed[PLAT_TREE_PATH_MAX + 2];
	const struct plat_entry *e;

	snprintf(listed, sizeof(listed), "%s/", path);
	e = plat_tree_find(tree, listed);
	for (const char *at = e ? e->text : ""; *at; at += at[strcspn(at, " ")] ? 1 : 0) {
		tree_name_add(names, at, strcspn(at, " "));
		at += strcspn(at, " ");
	}
	twalk_r(tree->root, tree_name_below, names);
	if (names->cnt)
		qsort(names->name, names->cnt, sizeof(*names->name), tree_by_name);
}

/* All names are collected first: fn usually reads files, which adds entries to the tree. A name is
 * freed one step late, because the next one is compared with it. */
void plat_tree_each(struct plat_tree *tree, const char *path,
		    bool (*fn)(const char *name, void *arg), void *arg)
{
	struct names names = {.path = path, .bytes = strlen(path)};
	bool more = true;

	if (tree->live && plat_tree_is_file(path))
		tree_live_names(tree, path, &names);
	else
		tree_loaded_names(tree, path, &names);
	for (size_t i = 0; i < names.cnt; i++) {
		more = more &&
		       (i && !strcmp(names.name[i], names.name[i - 1]) ? true
								       : fn(names.name[i], arg));
		if (i)
			free(names.name[i - 1]);
	}
	if (names.cnt)
		free(names.name[names.cnt - 1]);
	free(names.name);
}
