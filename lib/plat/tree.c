/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The files of a machine, live or loaded (tree.h), as one JSON document of jansson's: a folder is
 * an object, and what its own reading gives stands in it under a mark. All input may be hostile:
 * paths, expansions and the number of changes are bounded.
 *
 *   plat_tree_read   in the document? --yes--> its text, link or errno
 *                      |no
 *                    live? --yes--> read the file, keep the result, return it
 *                      |no
 *                    ENOENT
 *
 * A live tree keeps what it read, errors included, so that a saved tree answers the same questions
 * alike. Only "not there" is not kept: no member means that already. tree_load.c reads documents.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "plat/tree_impl.h"

#define FILE_BYTES_MAX (256u << 10) /* of a file that a live tree reads */

int plat_tree_new(bool live, struct plat_tree **tree_out)
{
	struct plat_tree *tree = calloc(1, sizeof(*tree));

	if (tree)
		tree->root = json_pack("{s:s}", "#", "a machine recorded by spinwire-doctor");
	if (!tree || !tree->root) {
		free(tree);
		return spw_err(ENOMEM, "no memory for the facts of this machine");
	}
	tree->live = live;
	*tree_out = tree;
	return 0;
}

void plat_tree_free(struct plat_tree *tree)
{
	if (tree)
		json_decref(tree->root);
	free(tree);
}

bool plat_tree_is_live(const struct plat_tree *tree)
{
	return tree->live;
}

/* ---- the document ---- */

bool plat_tree_is_mark(const char *name)
{
	return !strcmp(name, "#") || !strcmp(name, "=") || !strcmp(name, "->") ||
	       !strcmp(name, "!");
}

/* A member that is a folder, or becomes one: a text that was there becomes its "=". */
static json_t *tree_folder_make(struct plat_tree *tree, json_t *up, const char *name)
{
	json_t *node = json_object_get(up, name), *folder;

	if (json_is_object(node))
		return node;
	if (tree->change_cnt == PLAT_TREE_CHANGE_MAX || plat_tree_is_mark(name) || !name[0])
		return NULL;
	tree->change_cnt++;
	folder = json_object();
	if (json_is_string(node))
		json_object_set(folder, "=", node);
	return json_object_set_new(up, name, folder) ? NULL : folder;
}

/* The folder that a path is in, and the last component of the path. */
static json_t *tree_folder_of(struct plat_tree *tree, const char *path, bool make,
			      char name[PLAT_TREE_PATH_MAX])
{
	json_t *at = tree->root;

	while (at) {
		size_t n = strcspn(path, "/");

		if (n >= PLAT_TREE_PATH_MAX)
			return NULL;
		memcpy(name, path, n);
		name[n] = '\0';
		if (!path[n])
			break;
		at = make ? tree_folder_make(tree, at, name) : json_object_get(at, name);
		path += n + 1;
	}
	return at;
}

const json_t *plat_tree_find(struct plat_tree *tree, const char *path)
{
	char name[PLAT_TREE_PATH_MAX];
	const json_t *up = tree_folder_of(tree, path, false, name);

	return up ? json_object_get(up, name) : NULL;
}

/* A folder, link or error has its marks in an object; a file is its text alone. */
int plat_tree_set(struct plat_tree *tree, const char *path, const char *mark, json_t *value)
{
	static const char *const marks[] = {"=", "->", "!"};
	char name[PLAT_TREE_PATH_MAX] = "";
	json_t *up = tree_folder_of(tree, path, true, name);

	if (!name[0] || plat_tree_is_mark(name) || tree->change_cnt == PLAT_TREE_CHANGE_MAX) {
		json_decref(value);
		return tree->change_cnt == PLAT_TREE_CHANGE_MAX ? -E2BIG : -EINVAL;
	}
	tree->change_cnt++;
	if (strcmp(mark, "=") || json_is_object(json_object_get(up, name))) {
		up = tree_folder_make(tree, up, name);
		for (size_t i = 0; i < SPW_ARRAY_CNT(marks); i++)
			json_object_del(up, marks[i]);
		return json_object_set_new(up, mark, value) ? -EINVAL : 0;
	}
	return json_object_set_new(up, name, value) ? -EINVAL : 0;
}

void plat_tree_remove(struct plat_tree *tree, const char *path)
{
	char name[PLAT_TREE_PATH_MAX];
	json_t *up = tree_folder_of(tree, path, false, name);

	json_object_del(up, name);
}

/* What is no text (a byte 0, as in configuration space of PCI; no UTF-8) is kept as hexadecimal
 * digits, two for each byte. */
static json_t *tree_text(const char *in, size_t bytes)
{
	json_t *text = memchr(in, 0, bytes) ? NULL : json_stringn(in, bytes);
	char *hex = text ? NULL : malloc(2 * bytes + 1);

	for (size_t i = 0; hex && i < bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", (uint8_t)in[i]);
	if (hex)
		text = json_stringn(hex, 2 * bytes);
	free(hex);
	return text;
}

void plat_tree_put(struct plat_tree *tree, const char *path, const char *text)
{
	plat_tree_set(tree, path, "=", tree_text(text, strlen(text)));
}

void plat_tree_put_error(struct plat_tree *tree, const char *path, int error)
{
	plat_tree_set(tree, path, "!", json_string(strerrorname_np(error)));
}

json_t *plat_tree_document(const struct plat_tree *tree)
{
	return json_incref(tree->root);
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

/* Its last newlines are not kept: nearly every file of sysfs ends with one. */
static void tree_live_read(struct plat_tree *tree, const char *path)
{
	char full[PLAT_TREE_PATH_MAX + 2], *raw = malloc(FILE_BYTES_MAX);
	ssize_t n = -ENOMEM;

	snprintf(full, sizeof(full), "/%s", path);
	if (raw)
		n = tree_file_read(full, raw, FILE_BYTES_MAX);
	while (n > 0 && raw[n - 1] == '\n')
		n--;
	if (n >= 0)
		plat_tree_set(tree, path, "=", tree_text(raw, (size_t)n));
	else if (n != -ENOENT && n != -ENOTDIR)
		plat_tree_put_error(tree, path, (int)-n);
	free(raw);
}

/* Everything else in the tree is an answer that a probe put there, and is never read from disk. */
bool plat_tree_is_file(const char *path)
{
	return !strncmp(path, "sys/", 4) || !strncmp(path, "proc/", 5) ||
	       !strncmp(path, "dev/", 4) || !strncmp(path, "etc/", 4) ||
	       !strncmp(path, "run/", 4) || !strcmp(path, ".dockerenv");
}

/* A file without a folder's object is its own "=". */
static const char *tree_mark(const json_t *node, const char *mark)
{
	if (json_is_object(node))
		node = json_object_get(node, mark);
	else if (strcmp(mark, "="))
		return NULL;
	return json_string_value(node);
}

/* Names, not numbers, are recorded: errno numbers differ between architectures. 133 is the last one
 * of Linux on most of them. */
int plat_tree_error(const char *name)
{
	for (int error = 1; name && error < 134; error++)
		if (strerrorname_np(error) && !strcmp(strerrorname_np(error), name))
			return error;
	return 0;
}

/* A link has no text of its own: reading it is EISDIR, as of a folder. */
int plat_tree_read(struct plat_tree *tree, const char *path, const char **text_out)
{
	const json_t *node = plat_tree_find(tree, path);
	int error;

	if (tree->live && plat_tree_is_file(path) && !tree_mark(node, "=") &&
	    !tree_mark(node, "->") && !tree_mark(node, "!")) {
		tree_live_read(tree, path);
		node = plat_tree_find(tree, path);
	}
	*text_out = tree_mark(node, "=");
	if (*text_out)
		return 0;
	*text_out = "";
	error = plat_tree_error(tree_mark(node, "!"));
	return error ? error : !node ? ENOENT : json_is_object(node) ? EISDIR : ENODATA;
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
	const char *target = tree_mark(plat_tree_find(tree, path), "->");
	char full[PLAT_TREE_PATH_MAX + 2], real[PATH_MAX];
	bool fits = true;

	out[0] = '\0';
	if (target) {
		if (target[0] != '/')
			fits = tree_path_append(out, path) && tree_path_append(out, "..");
		fits = fits && tree_path_append(out, target);
	} else if (tree->live && plat_tree_is_file(path)) {
		snprintf(full, sizeof(full), "/%s", path);
		fits = realpath(full, real) && tree_path_append(out, real);
		if (fits)
			plat_tree_set(tree, path, "->", json_string(real));
	} else {
		fits = false;
	}
	if (!fits)
		out[0] = '\0';
	return fits;
}

/* A name that is listed is kept as null until it is read. One with a brace would be loaded as a
 * list of numbers. */
static void tree_live_names(struct plat_tree *tree, const char *path)
{
	char full[PLAT_TREE_PATH_MAX + 2], name[PLAT_TREE_PATH_MAX];
	json_t *folder;
	struct dirent **entry;
	int cnt;

	snprintf(full, sizeof(full), "/%s", path);
	cnt = scandir(full, &entry, NULL, NULL);
	if (cnt < 0)
		return;
	folder = tree_folder_make(tree, tree_folder_of(tree, path, true, name), name);
	for (int i = 0; i < cnt; i++) {
		const char *of = entry[i]->d_name;

		if (of[0] != '.' && !strchr(of, '{') && !plat_tree_is_mark(of) &&
		    !json_object_get(folder, of))
			json_object_set_new(folder, of, json_null());
		free(entry[i]);
	}
	free(entry);
}

static int tree_by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All names are collected first: fn usually reads files, which changes the folder's members. Their
 * keys stay where they are, since none is removed. */
void plat_tree_each(struct plat_tree *tree, const char *path,
		    bool (*fn)(const char *name, void *arg), void *arg)
{
	const char **name, *key;
	json_t *folder, *value;
	size_t cnt = 0;

	if (tree->live && plat_tree_is_file(path))
		tree_live_names(tree, path);
	folder = (json_t *)(uintptr_t)plat_tree_find(tree, path);
	name = calloc(json_object_size(folder) + 1, sizeof(*name));
	if (!name)
		return;
	json_object_foreach (folder, key, value)
		if (!plat_tree_is_mark(key))
			name[cnt++] = key;
	qsort(name, cnt, sizeof(*name), tree_by_name);
	for (size_t i = 0; i < cnt && fn(name[i], arg); i++)
		;
	free(name);
}
