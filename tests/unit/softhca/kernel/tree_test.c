/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The sweep of folders that killed processes left: it deletes this user's, and nothing that a decoy
 * links to.
 */
#include "kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softhca/kernel/tree.h"

struct world {
	char base[64];     /* the folder that is swept */
	char precious[64]; /* the target of decoys */
};

static const char *at(const char *base, const char *name, const char *in)
{
	static char path[4][256];
	static unsigned turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%s/spw-softhca-%u-%s%s", base, (unsigned)geteuid(), name, in);
	return p;
}

static void make_file(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* A tree as tree_make and sysfs_build write it, with links that lead out of it. */
static void make_folder(const struct world *w, const char *name)
{
	assert_int_equal(mkdir(at(w->base, name, ""), 0700), 0);
	make_file(at(w->base, name, "/.lock"));
	assert_int_equal(mkdir(at(w->base, name, "/sys"), 0755), 0);
	assert_int_equal(mkdir(at(w->base, name, "/sys/class"), 0755), 0);
	for (char i[] = "/sys/class/a"; i[11] <= 'z'; i[11]++)
		make_file(at(w->base, name, i));
	assert_int_equal(symlink(w->precious, at(w->base, name, "/sys/device")), 0);
}

static int setup(void **state)
{
	static struct world w;
	char file[80];

	strcpy(w.base, "/tmp/spw-tree-XXXXXX");
	strcpy(w.precious, "/tmp/spw-precious-XXXXXX");
	assert_non_null(mkdtemp(w.base));
	assert_non_null(mkdtemp(w.precious));
	for (char *const *f = (char *const[]){".lock", "file", NULL}; *f; f++) {
		snprintf(file, sizeof(file), "%s/%s", w.precious, *f);
		make_file(file);
	}
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	const struct world *w = *state;
	char cmd[160];

	snprintf(cmd, sizeof(cmd), "rm -rf %s %s", w->base, w->precious);
	return system(cmd);
}

static void precious_is_whole(const struct world *w)
{
	char file[80];

	snprintf(file, sizeof(file), "%s/file", w->precious);
	assert_true(is_there(file));
	snprintf(file, sizeof(file), "%s/.lock", w->precious);
	assert_true(is_there(file));
}

static void dead_goes_live_stays(void **state)
{
	const struct world *w = *state;
	int lock;

	make_folder(w, "dead");
	make_folder(w, "live");
	lock = open(at(w->base, "live", "/.lock"), O_RDWR);
	assert_int_equal(flock(lock, LOCK_EX), 0);
	tree_sweep(w->base);
	assert_false(is_there(at(w->base, "dead", "")));
	assert_true(is_there(at(w->base, "live", "/sys/class/z")));
	precious_is_whole(w);
	close(lock);
}

/* Names like ours: links into a folder that is somebody's, whole or in one component. */
static void decoys_lead_nowhere(void **state)
{
	const struct world *w = *state;

	assert_int_equal(symlink(w->precious, at(w->base, "link", "")), 0);
	make_folder(w, "inner");
	assert_int_equal(symlink(w->precious, at(w->base, "inner", "/sys/class/dir")), 0);
	tree_sweep(w->base);
	assert_true(is_there(at(w->base, "link", "")));
	assert_false(is_there(at(w->base, "inner", "")));
	precious_is_whole(w);
}

static void only_what_is_ours_alone(void **state)
{
	const struct world *w = *state;

	make_folder(w, "open");
	assert_int_equal(chmod(at(w->base, "open", ""), 0755), 0);
	make_folder(w, "foreign");
	if (geteuid() == 0)
		assert_int_equal(chown(at(w->base, "foreign", ""), 65534, 65534), 0);
	tree_sweep(w->base);
	assert_true(is_there(at(w->base, "open", "/sys/class/z")));
	assert_int_equal(is_there(at(w->base, "foreign", "/sys/class/z")), geteuid() == 0);
}

static void own_folder_goes(void **state)
{
	struct tree t = {0};
	char root[sizeof(t.root)];

	(void)state;
	assert_int_equal(tree_make(&t), 0);
	strcpy(root, t.root);
	assert_int_equal(tree_file(&t, "sys/class/a/b/c", "1"), 0);
	tree_remove(&t);
	assert_false(is_there(root));
}

static uint32_t count_of_this_process(const char *base)
{
	char prefix[64];
	DIR *dir = opendir(base);
	struct dirent *e;
	uint32_t n = 0;

	snprintf(prefix, sizeof(prefix), "spw-softhca-%u-%d-", (unsigned)geteuid(), (int)getpid());
	while (dir && (e = readdir(dir)))
		n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	closedir(dir);
	return n;
}

/* The lowest number that open(2) would return is the first that it may not. */
static void no_more_descriptors(struct rlimit *before, uint32_t spare)
{
	const int fd = dup(0);
	struct rlimit none;

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
	none = *before;
	none.rlim_cur = (rlim_t)fd + spare;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

/* Neither a folder that could not be locked nor one that could not be emptied stays for ever. */
static void without_descriptors(void **state)
{
	const struct world *w = *state;
	struct rlimit before;
	struct tree t = {0};
	char root[sizeof(t.root)];

	no_more_descriptors(&before, 0);
	assert_true(tree_make(&t) < 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_string_equal(t.root, "");
	assert_int_equal(count_of_this_process("/dev/shm"), 0);

	assert_int_equal(tree_make(&t), 0);
	strcpy(root, t.root);
	assert_int_equal(tree_file(&t, "sys/class/a/b/c", "1"), 0);
	no_more_descriptors(&before, 2);
	tree_remove(&t);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(is_there(root));
	tree_sweep("/dev/shm");
	assert_false(is_there(root));

	make_folder(w, "unlocked");
	assert_int_equal(unlink(at(w->base, "unlocked", "/.lock")), 0);
	tree_sweep(w->base);
	assert_false(is_there(at(w->base, "unlocked", "")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(dead_goes_live_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(decoys_lead_nowhere, setup, teardown),
		cmocka_unit_test_setup_teardown(only_what_is_ours_alone, setup, teardown),
		cmocka_unit_test(own_folder_goes),
		cmocka_unit_test_setup_teardown(without_descriptors, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
