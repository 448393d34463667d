/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A receipt that is cut anywhere, or changed in any byte, is refused with one line, and the whole
 * one is taken.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "app_json.h"
#include "doctor.h"
#include "unit_machine.h"

static const char machine[] = "'sys/devices/system/cpu/online': '0',"
			      "'proc/self/status': 'Cpus_allowed_list:\\t0',";

/* The receipt of a small machine, in a file. */
static long receipt_write(char *path)
{
	json_t *json = unit_json(machine);
	const struct spw_plat_from from = {.record = {json}};
	struct spw_plat *plat;
	FILE *file;
	long bytes;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(spw_plat_read(&from, &plat), 0);
	assert_int_equal(app_json_write("--receipt", doctor_receipt(plat), path), 0);
	json_decref(json);
	spw_plat_free(plat);
	file = fopen(path, "r");
	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	bytes = ftell(file);
	fclose(file);
	return bytes;
}

static int load(const char *path)
{
	struct spw_plat *plat;
	int rc = doctor_load(&path, 1, &plat);

	if (rc == 0)
		spw_plat_free(plat);
	return rc;
}

static void a_cut_receipt_is_refused(void **state)
{
	char path[] = "/tmp/spw-receipt-XXXXXX";
	long bytes = receipt_write(path);

	(void)state;
	assert_int_equal(load(path), 0);
	/* what follows the closing brace is white space */
	for (bytes -= 2; bytes >= 0; bytes--) {
		assert_int_equal(truncate(path, bytes), 0);
		if (load(path) != -EINVAL)
			fail_msg("taken, cut at %ld", bytes);
		assert_null(strchr(spw_err_text(), '\n'));
	}
	unlink(path);
}

static void a_changed_receipt_is_refused(void **state)
{
	char path[] = "/tmp/spw-receipt-XXXXXX";
	long bytes = receipt_write(path);
	FILE *file = fopen(path, "r+");

	(void)state;
	assert_non_null(file);
	for (long at = 0; at < bytes; at += 7) {
		int was, rc;

		fseek(file, at, SEEK_SET);
		was = fgetc(file);
		fseek(file, at, SEEK_SET);
		fputc(was ^ 1, file);
		fflush(file);
		rc = load(path);
		/* white space between members is not content */
		if (rc == 0 && was != ' ' && was != '\n')
			fail_msg("taken, byte %ld changed from '%c'", at, was);
		fseek(file, at, SEEK_SET);
		fputc(was, file);
		fflush(file);
	}
	fclose(file);
	assert_int_equal(load(path), 0);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_receipt_is_refused),
		cmocka_unit_test(a_changed_receipt_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
