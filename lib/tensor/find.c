/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which running spinwire publishes a stream: each of this user's DPDK programs has a telemetry
 * socket under EAL's runtime folder; those that answer /spinwire/objects have a row for each of
 * their streams:
 *
 *   name, kind                             texts
 *   config, description                    absolute paths; left out where they are too long
 *   pid, page_fd, memory_fd                a process, and numbers of descriptors in it
 *   page_bytes, memory_bytes
 *
 * Answers of other programs are untrusted: a program that is stopped costs ANSWER_S, and a row that
 * lacks a key is no stream. attach.c checks what it maps.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "tensor/tensor.h"

#define COMMAND      "/spinwire/objects"
#define ANSWER_BYTES (256u << 10)
#define ANSWER_S     2

struct find {
	const struct spw_tensor_conf *conf;
	char path[PATH_MAX]; /* conf->of as a file; "": it is none */
	struct tensor_place place;
	uint32_t of_cnt;  /* streams of conf->of */
	uint32_t cnt;     /* those of them that fit */
	char names[256];  /* likewise */
	char others[256]; /* of those that do not */
};

/* ---- one program ---- */

/* A program of another user is not asked, because its answer would name the memory to map. The
 * credentials are the connection's, so that they hold whatever the rights of the folder are. */
static int find_connect(const char *path)
{
	const struct timeval limit = {.tv_sec = ANSWER_S};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd;

	if (snprintf(at.sun_path, sizeof(at.sun_path), "%s", path) >= (int)sizeof(at.sun_path))
		return -1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (const struct sockaddr *)&at, sizeof(at)) &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.uid == geteuid())
		return fd;
	close(fd);
	return -1;
}

/* The first answer is a greeting. */
static json_t *find_ask(const char *path)
{
	char *answer = malloc(ANSWER_BYTES);
	int fd = answer ? find_connect(path) : -1;
	json_t *json = NULL;
	ssize_t got;

	if (fd >= 0 && recv(fd, answer, ANSWER_BYTES, 0) > 0 &&
	    send(fd, COMMAND, strlen(COMMAND), MSG_NOSIGNAL) > 0) {
		got = recv(fd, answer, ANSWER_BYTES, 0);
		if (got > 0)
			json = json_loadb(answer, (size_t)got, 0, NULL);
	}
	if (fd >= 0)
		close(fd);
	free(answer);
	return json;
}

/* ---- its streams ---- */

static const char *row_text(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "";
}

static json_int_t row_number(const json_t *row, const char *key)
{
	const json_t *value = json_object_get(row, key);

	return json_is_integer(value) ? json_integer_value(value) : -1;
}

static void find_append(char *list, size_t bytes, const char *name)
{
	const size_t used = strlen(list);

	snprintf(list + used, bytes - used, "%s%s", used ? ", " : "", name);
}

/* `of` is what the user has at hand: a stream's name, the file of --config, or the description.
 * Files are compared as absolute paths without links: the programs may run in other folders. */
static bool find_is_of(const struct find *find, const json_t *row)
{
	const char *of = find->conf->of;

	return !of || !strcmp(of, row_text(row, "name")) ||
	       (find->path[0] && (!strcmp(find->path, row_text(row, "config")) ||
				  !strcmp(find->path, row_text(row, "description"))));
}

/* Goes on after the first that fits, since two that fit are an error; those that do not are noted
 * for the message, which lists what the user could have meant. */
static void find_row(struct find *find, const json_t *row)
{
	const char *name = row_text(row, "name"), *stream = find->conf->stream;
	const json_int_t page = row_number(row, "page_bytes"),
			 memory = row_number(row, "memory_bytes");
	bool of;

	if (page < (json_int_t)sizeof(struct spw_obj_page) || memory <= 0)
		return;
	of = find_is_of(find, row);
	find->of_cnt += of;
	if (!of || (stream && strcmp(stream, name))) {
		find_append(find->others, sizeof(find->others), name);
		return;
	}
	find->cnt++;
	find_append(find->names, sizeof(find->names), name);
	find->place = (struct tensor_place){
		.pid = (int32_t)row_number(row, "pid"),
		.page_fd = (int32_t)row_number(row, "page_fd"),
		.memory_fd = (int32_t)row_number(row, "memory_fd"),
		.page_bytes = (uint64_t)page,
		.memory_bytes = (uint64_t)memory,
	};
	snprintf(find->place.name, sizeof(find->place.name), "%s", name);
	snprintf(find->place.kind, sizeof(find->place.kind), "%s", row_text(row, "kind"));
}

static void find_program(struct find *find, const char *top, const char *prefix)
{
	char path[PATH_MAX];
	json_t *answer, *row;
	const char *key;

	if (snprintf(path, sizeof(path), "%s/%s/dpdk_telemetry.v2", top, prefix) >=
		    (int)sizeof(path) ||
	    access(path, F_OK))
		return;
	answer = find_ask(path);
	json_object_foreach (json_object_get(answer, COMMAND), key, row)
		find_row(find, row);
	json_decref(answer);
}

/* ---- all programs ---- */

/* EAL's choice: the service's folder, root's, or the user's. */
static void find_top(char *top_out, size_t bytes)
{
	const char *service = getenv("RUNTIME_DIRECTORY"), *own = getenv("XDG_RUNTIME_DIR");

	snprintf(top_out, bytes, "%s/dpdk",
		 service          ? service
		 : geteuid() == 0 ? "/var/run"
		 : own            ? own
				  : "/tmp");
}

static void find_programs(struct find *find)
{
	char top[PATH_MAX];
	struct dirent *entry;
	DIR *folder;

	find_top(top, sizeof(top));
	if (find->conf->prefix) {
		find_program(find, top, find->conf->prefix);
		return;
	}
	folder = opendir(top);
	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			find_program(find, top, entry->d_name);
	if (folder)
		closedir(folder);
}

int tensor_find(const struct spw_tensor_conf *conf, struct tensor_place *place_out)
{
	struct find find = {.conf = conf};
	const char *of = conf->of ? conf->of : "objects";

	if (!conf->of || !realpath(conf->of, find.path))
		find.path[0] = '\0';
	find_programs(&find);
	*place_out = find.place;
	if (find.cnt > 1)
		return spw_err(EINVAL, "%s: streams %s are published: name one of them", of,
			       find.names);
	if (find.of_cnt && !find.cnt)
		return spw_err(EINVAL, "%s: publishes no stream %s; there is %s", of, conf->stream,
			       find.others);
	if (!find.cnt)
		return spw_err(ENOENT, "%s: no running spinwire of this user publishes it%s%s", of,
			       find.others[0] ? "; there is " : "", find.others);
	return 0;
}
