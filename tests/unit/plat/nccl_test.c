/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A process that has NCCL's library loaded, as the doctor finds it; and files that are none, or no
 * longer whole. Usage: nccl_test FAKE_NCCL
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "plat/spw_nccl_file.h"
#include "plat/spw_plat.h"
#include "unit_test.h"

static const char *library;

static const struct spw_plat_nccl *self_find(const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->nccl_cnt; i++)
		if (atoi(plat->nccl[i].id) == getpid())
			return &plat->nccl[i];
	return NULL;
}

static void a_process_with_nccl_is_found(void **state)
{
	const struct spw_plat_from from = {
		.cuda_lib = "", .nvml_lib = "", .skip_hwloc = true, .nccl = true};
	const struct spw_plat_nccl *self;
	void *handle = dlopen(library, RTLD_NOW);
	struct spw_plat *plat;
	json_t *record;
	char *text;

	(void)state;
	assert_non_null(handle);
	assert_int_equal(spw_plat_read(&from, &plat), 0);
	self = self_find(plat);
	assert_non_null(self);
	assert_int_equal(self->parent, getppid());
	assert_int_equal(self->library_cnt, 1);
	assert_string_equal(self->version, "2.28.9");
	assert_string_equal(self->build_id, "feed0123");
	assert_non_null(strstr(self->env, "NCCL_PROTO=LL"));
	record = spw_plat_record(plat);
	text = json_dumps(record, 0);
	assert_null(strstr(text, "hush"));
	free(text);
	json_decref(record);
	spw_plat_free(plat);
	dlclose(handle);
}

#define FILE_BYTES (256u << 10)

/* As a package manager leaves it when the disk is full. */
static void a_file_cut_short_gives_no_wrong_answer(void **state)
{
	static char bytes[FILE_BYTES];
	FILE *file = fopen(library, "re"), *cut = tmpfile();
	struct spw_nccl_file is;
	char path[64];
	size_t size;

	(void)state;
	assert_true(file && cut);
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	assert_true(size > 4096 && size < sizeof(bytes));
	assert_int_equal(fwrite(bytes, 1, size, cut), size);
	fflush(cut);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(cut));
	assert_true(spw_nccl_file_read(path, &is));
	assert_true(is.gcc >= 9);
	while (size > 61) {
		size -= 61;
		assert_int_equal(ftruncate(fileno(cut), (off_t)size), 0);
		if (spw_nccl_file_read(path, &is))
			assert_string_equal(is.version, "2.28.9");
	}
	assert_false(spw_nccl_file_read(path, &is));
	fclose(cut);
	assert_false(spw_nccl_file_read("/dev/null", &is));
	assert_false(spw_nccl_file_read("/nonexistent", &is));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_with_nccl_is_found),
		cmocka_unit_test(a_file_cut_short_gives_no_wrong_answer),
	};

	if (argc != 2)
		return 1;
	library = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
