/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Processes that have loaded NCCL, and what decides how NCCL behaves in each, put into a live tree:
 *
 *   nccl/PID/parent = 4711
 *   nccl/PID/path = /venv/lib/libnccl.so.2       the file that is mapped, as the process names it
 *   nccl/PID/libraries = 1                       how many different ones are
 *   nccl/PID/version, /build_id, /gcc            of that file (spw_nccl_file.h)
 *   nccl/PID/env = NCCL_IB_HCA=rocep1s0f0        the variables it was started with, one a line
 *   nccl/PID/conf = /etc/nccl.conf               the files of settings that NCCL reads, one a line
 *   nccl/PID/set = NCCL_DEBUG=WARN               what they set, one a line: the first holds
 *   nccl/self/...                                the same of what this program would load
 *
 * Files are opened below /proc/PID/root: a container has its own. Processes of other users are
 * passed over, since the kernel shows their maps to root alone. Only NCCL's own variables are kept,
 * and none that is a secret. Source: proc(5); NCCL, src/misc/param.cc, initEnvFunc.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plat/plat_impl.h"
#include "plat/spw_nccl_file.h"

#define BYTES_MAX  (4u << 20) /* of a file of a process */
#define TEXT_BYTES 4096u      /* of all variables of one */
#define ROOT_BYTES 32u

/* A process, or this one (id "self"). Texts have no end but their byte 0. */
struct process {
	struct plat_tree *tree;
	const char *id;
	char root[ROOT_BYTES]; /* "/proc/4711/root"; "" for this one */
	char *environ;         /* "A=1\0B=2\0\0" */
};

/* The whole file and two bytes 0; NULL: it cannot be read. */
static char *nccl_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = fd < 0 ? NULL : malloc(BYTES_MAX + 2);
	size_t used = 0;
	ssize_t n = 1;

	while (text && used < BYTES_MAX && (n = read(fd, text + used, BYTES_MAX - used)) > 0)
		used += (size_t)n;
	if (text)
		text[used] = text[used + 1] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}

static void nccl_put(const struct process *p, const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "nccl/%s/%s", p->id, name);
	if (text[0])
		plat_tree_put(p->tree, path, text);
}

static void nccl_put_number(const struct process *p, const char *name, long number)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", number);
	nccl_put(p, name, text);
}

/* ---- variables ---- */

static bool nccl_variable_is_kept(const char *line)
{
	return !strncmp(line, "NCCL_", 5) && !memmem(line, strcspn(line, "="), "SECRET", 6);
}

/* Adds a line; what does not fit is left out. */
static void nccl_line_add(char text[TEXT_BYTES], const char *line, size_t bytes)
{
	const size_t used = strlen(text);

	if (used + bytes + 2 < TEXT_BYTES)
		snprintf(text + used, TEXT_BYTES - used, "%s%.*s", used ? "\n" : "", (int)bytes,
			 line);
}

static const char *nccl_variable(const struct process *p, const char *name)
{
	const size_t n = strlen(name);

	for (const char *at = p->environ; *at; at += strlen(at) + 1)
		if (!strncmp(at, name, n) && at[n] == '=')
			return at + n + 1;
	return "";
}

static void nccl_environ_put(const struct process *p)
{
	char text[TEXT_BYTES] = "";

	for (const char *at = p->environ; *at; at += strlen(at) + 1)
		if (nccl_variable_is_kept(at) && !strpbrk(at, "\n"))
			nccl_line_add(text, at, strlen(at));
	nccl_put(p, "env", text);
}

/* Adds what a file sets, and its name to those of the files. */
static void nccl_conf_add(const struct process *p, const char *path, char set[TEXT_BYTES],
			  char names[TEXT_BYTES])
{
	char full[PLAT_TREE_PATH_MAX], *text, *line, *rest;

	snprintf(full, sizeof(full), "%s%.400s", p->root, path);
	rest = text = path[0] == '/' ? nccl_text(full) : NULL;
	if (text)
		nccl_line_add(names, path, strlen(path));
	while (rest && (line = strsep(&rest, "\n")))
		if (nccl_variable_is_kept(line))
			nccl_line_add(set, line, strlen(line));
	free(text);
}

/* The file of NCCL's variable, else the user's own, and after it that of the machine: of two that
 * set one variable the first holds, and the environment before both. */
static void nccl_conf_put(const struct process *p)
{
	const char *named = nccl_variable(p, "NCCL_CONF_FILE");
	char own[PLAT_TREE_PATH_MAX], set[TEXT_BYTES] = "", names[TEXT_BYTES] = "";

	snprintf(own, sizeof(own), "%.400s/.nccl.conf", nccl_variable(p, "HOME"));
	nccl_conf_add(p, named[0] ? named : own, set, names);
	nccl_conf_add(p, "/etc/nccl.conf", set, names);
	nccl_put(p, "conf", names);
	nccl_put(p, "set", set);
}

/* ---- libraries ---- */

static void nccl_library_put(const struct process *p, const char *path)
{
	struct spw_nccl_file file;
	char full[PLAT_TREE_PATH_MAX];

	nccl_put(p, "path", path);
	snprintf(full, sizeof(full), "%s%s", p->root, path);
	if (!spw_nccl_file_read(full, &file))
		return;
	nccl_put(p, "version", file.version);
	nccl_put(p, "build_id", file.build_id);
	if (file.gcc)
		nccl_put_number(p, "gcc", file.gcc);
}

/* Returns: how many different libraries are mapped; the first in path_out. */
static long nccl_maps_read(char *maps, char path_out[PLAT_TREE_PATH_MAX])
{
	char last[PLAT_TREE_PATH_MAX] = "", *line;
	long cnt = 0;

	path_out[0] = '\0';
	while ((line = strsep(&maps, "\n"))) {
		const char *path = spw_nccl_mapped(line);

		if (!path || !strcmp(path, last) || (cnt && !strcmp(path, path_out)))
			continue;
		plat_copy(last, sizeof(last), path);
		if (cnt++ == 0)
			plat_copy(path_out, PLAT_TREE_PATH_MAX, path);
	}
	return cnt;
}

static long nccl_parent(const char *id)
{
	char path[64], *text, *line;
	long parent = 0;

	snprintf(path, sizeof(path), "/proc/%.16s/status", id);
	text = nccl_text(path);
	line = text ? strstr(text, "\nPPid:") : NULL;
	if (line)
		parent = atol(line + 6);
	free(text);
	return parent;
}

/* A process that has loaded no NCCL leaves nothing in the tree. */
static bool nccl_process_probe(struct plat_tree *tree, const char *id)
{
	struct process p = {.tree = tree, .id = id};
	char path[64], library[PLAT_TREE_PATH_MAX], *maps;
	long cnt;

	snprintf(path, sizeof(path), "/proc/%.16s/maps", id);
	maps = nccl_text(path);
	cnt = maps ? nccl_maps_read(maps, library) : 0;
	free(maps);
	snprintf(path, sizeof(path), "/proc/%.16s/environ", id);
	p.environ = cnt ? nccl_text(path) : NULL;
	if (!p.environ)
		return false;
	snprintf(p.root, sizeof(p.root), "/proc/%.16s/root", id);
	nccl_put_number(&p, "parent", nccl_parent(id));
	nccl_put_number(&p, "libraries", cnt);
	nccl_library_put(&p, library);
	nccl_environ_put(&p);
	nccl_conf_put(&p);
	free(p.environ);
	return true;
}

/* ---- this program ---- */

/* The first file that a pattern of the shell finds. */
static bool nccl_glob_put(const struct process *p, const char *folder, const char *below)
{
	char pattern[PLAT_TREE_PATH_MAX];
	glob_t found = {0};
	bool there;

	snprintf(pattern, sizeof(pattern), "%s%s/libnccl.so.2", folder, below);
	there = folder[0] == '/' && glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc;
	if (there)
		nccl_library_put(p, found.gl_pathv[0]);
	globfree(&found);
	return there;
}

/* In the order in which Python and the loader look: the environment's wheel, LD_LIBRARY_PATH, the
 * system's folders. */
static void nccl_self_find(const struct process *p)
{
	static const char *const folder[] = {"/usr/local/lib", "/lib/*-linux-gnu",
					     "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib"};
	char paths[PLAT_TREE_PATH_MAX], *at = paths, *one;

	if (nccl_glob_put(p, nccl_variable(p, "VIRTUAL_ENV"),
			  "/lib/python3*/site-packages/nvidia/nccl/lib"))
		return;
	plat_copy(paths, sizeof(paths), nccl_variable(p, "LD_LIBRARY_PATH"));
	while ((one = strsep(&at, ":")))
		if (nccl_glob_put(p, one, ""))
			return;
	for (size_t i = 0; i < SPW_ARRAY_CNT(folder); i++)
		if (nccl_glob_put(p, folder[i], ""))
			return;
}

static void nccl_self_probe(struct plat_tree *tree)
{
	struct process p = {.tree = tree, .id = "self", .environ = nccl_text("/proc/self/environ")};

	if (!p.environ)
		return;
	nccl_self_find(&p);
	nccl_environ_put(&p);
	nccl_conf_put(&p);
	free(p.environ);
}

/* The file that this program would load is of interest while no program runs that has one. */
void plat_probe_nccl(struct plat_tree *tree)
{
	struct dirent **entry;
	int cnt = scandir("/proc", &entry, NULL, versionsort);
	uint32_t found = 0;

	for (int i = 0; i < cnt; i++) {
		if (isdigit((unsigned char)entry[i]->d_name[0]) && found < SPW_PLAT_NCCL_MAX)
			found += nccl_process_probe(tree, entry[i]->d_name);
		free(entry[i]);
	}
	if (cnt >= 0)
		free(entry);
	if (!found)
		nccl_self_probe(tree);
}
