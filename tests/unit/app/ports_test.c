/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-ports(7) against the drivers themselves: what is on the page is taken, and what is taken
 * is on the page.
 */
#include <stdlib.h>

#include "app_opt.h"
#include "base/spw_err.h"
#include "port/spw_port.h"
#include "unit_test.h"

#define TAKES "; it takes "

static char *page;

static int page_make(void **state SPW_UNUSED)
{
	size_t bytes;
	FILE *out = open_memstream(&page, &bytes);

	app_opt_ports(out);
	return fclose(out);
}

static int page_free(void **state SPW_UNUSED)
{
	free(page);
	return 0;
}

/* Opens a port that cannot be opened. Returns: why. */
static const char *refused(const char *driver, const char *when, const char *more)
{
	struct spw_port_spec spec;
	struct spw_port *port;
	char text[256];

	snprintf(text, sizeof(text), "%s:%s,%s%s%s", driver,
		 strcmp(driver, "rails")   ? "nosuch"
		 : strcmp(driver, "fault") ? "null+null"
					   : "null",
		 when ? when : "", when ? "," : "", more);
	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	assert_true(spw_port_open(&spec, 0, 1, &port) < 0);
	return spw_err_text();
}

/* The page's section of a driver has the key, or names the driver that has it too. */
static bool page_has(const char *driver, const char *key)
{
	char title[64], tag[64], like[64];
	const char *begin, *at, *end;

	snprintf(title, sizeof(title), ".SH DRIVER %s\n", driver);
	snprintf(tag, sizeof(tag), "\\fB%s=\\fR", key);
	begin = strstr(page, title);
	assert_non_null(begin);
	end = strstr(begin + 1, ".SH ");
	assert_non_null(end);
	at = strstr(begin, tag);
	if (at && at < end)
		return true;
	at = strstr(begin, "are those of driver ");
	return at && at < end && sscanf(at, "are those of driver %60[a-z0-9]", like) == 1 &&
	       page_has(like, key);
}

/* A driver that passes keys on refuses none, so it is asked for those of its table only. */
static void test_page_is_taken(void **state SPW_UNUSED)
{
	const struct spw_port_driver *driver;

	for (uint32_t d = 0; (driver = spw_port_driver(d)); d++) {
		assert_non_null(driver->about);
		for (uint32_t s = 0; driver->keys[s]; s++) {
			const struct spw_port_keys *set = driver->keys[s];

			for (uint32_t k = 0; k < set->cnt; k++) {
				char more[64], unknown[96];

				assert_true(page_has(driver->name, set->key[k].name));
				snprintf(more, sizeof(more), "%s=?", set->key[k].name);
				snprintf(unknown, sizeof(unknown), "key '%s' is not known",
					 set->key[k].name);
				if (strcmp(driver->name, "ethdev") &&
				    strcmp(set->key[k].name, "mode"))
					assert_null(strstr(refused(driver->name, set->when, more),
							   unknown));
			}
		}
	}
}

/* Every "key=" of the message that lists what a driver takes. */
static void listed_are_on_page(const char *driver, const char *when, const char *bad)
{
	char text[1024], *at;
	uint32_t cnt = 0;

	snprintf(text, sizeof(text), "%s", refused(driver, when, bad));
	at = strstr(text, TAKES);
	assert_non_null(at);
	for (at = strtok(at + strlen(TAKES), ", "); at; at = strtok(NULL, ", "), cnt++) {
		at[strcspn(at, "=")] = '\0';
		assert_true(page_has(driver, at));
	}
	assert_true(cnt > 3);
}

static void test_taken_is_on_page(void **state SPW_UNUSED)
{
	listed_are_on_page("null", NULL, "zzz=1");
	listed_are_on_page("fault", NULL, "fault_zzzzzzzzzzzz=1");
	listed_are_on_page("rails", NULL, "rails_zzzzzzzzzzzz=1");
#ifdef SPW_HAVE_RDMA
	listed_are_on_page("verbs", "mode=eth", "zzz=1");
	listed_are_on_page("verbs", "mode=rc", "zzz=1");
#endif
#ifdef SPW_HAVE_MLX5DV
	listed_are_on_page("mlx5", "mode=eth", "zzz=1");
	listed_are_on_page("mlx5", "mode=rc", "zzz=1");
#endif
}

/* Range, default in numbers and in words. */
static void test_bounds(void **state SPW_UNUSED)
{
	assert_non_null(strstr(page, "own address never comes. (default: all, if"));
	assert_non_null(strstr(page, "\\fBflows=\\fR\\fIN\\fR"));
	assert_non_null(strstr(page, "by UDP source port. (1 .. 32768; default: 1024)"));
	assert_non_null(strstr(page, "(1 .. 86400; default: none: the rate is constant)"));
	assert_non_null(strstr(page, "no end. (0 and more; default: 0)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_page_is_taken),
		cmocka_unit_test(test_taken_is_on_page),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, page_make, page_free);
}
