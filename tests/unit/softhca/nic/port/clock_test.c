/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC's clock against the host's: offset and skew are what the configuration says.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"
#include "unit_test.h"

struct dev {
	struct hca_cfg cfg;
	struct hca_dev *dev;
};

static int open_dev(struct dev *d, const char *clock)
{
	char text[128];
	int rc;

	snprintf(text, sizeof(text), "cable=shm:clock-%d;clock=%s", getpid(), clock);
	rc = hca_cfg_parse(text, &d->cfg);
	return rc ? rc : hca_devs_open(&d->cfg, &d->dev);
}

static uint64_t host_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Both clocks at nearly one moment: the host's showed host to host + width. */
struct moment {
	uint64_t nic, host, width;
};

static struct moment both(const struct dev *d)
{
	struct moment best = {.width = UINT64_MAX};

	for (unsigned i = 0; i < 1000 && best.width > 200; i++) {
		const uint64_t before = host_ns(), nic = nic_clock(d->dev),
			       width = host_ns() - before;

		if (width < best.width)
			best = (struct moment){nic, before, width};
	}
	return best;
}

static void offset(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} cases[] = {{"offset=0", 0},
		     {"offset=1000000000000", 1000000000000},
		     {"offset=-500000", -500000}};

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		struct moment m;
		struct dev d;

		assert_int_equal(open_dev(&d, cases[i].text), 0);
		m = both(&d);
		assert_in_range(m.nic - m.host - (uint64_t)cases[i].ns, 0, m.width);
		hca_devs_close(d.dev, 1);
	}
}

/* Over half a second and more the two drift apart by the skew, to within how well they can be read
 * together. */
static void skew(void **state)
{
	static const struct {
		const char *text;
		int64_t ppm;
	} cases[] = {{"ppm=1000", 1000}, {"ppm=-250", -250}};

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		struct moment from, to;
		int64_t drift, want;
		uint64_t slack;
		struct dev d;

		assert_int_equal(open_dev(&d, cases[i].text), 0);
		from = both(&d);
		usleep(500000);
		to = both(&d);
		slack = from.width + to.width + 2;
		drift = (int64_t)(to.nic - from.nic) - (int64_t)(to.host - from.host);
		want = (int64_t)(to.host - from.host) * cases[i].ppm / 1000000;
		assert_in_range((uint64_t)(drift - want) + slack, 0, 2 * slack);
		hca_devs_close(d.dev, 1);
	}
}

static void refused(void **state)
{
	static const char *const bad[] = {"ppm=1001", "ppm=fast", "offset=", "speed=3"};

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(bad); i++) {
		struct dev d;

		assert_int_equal(open_dev(&d, bad[i]), -EINVAL);
		assert_non_null(strstr(spw_err_text(), "offset=NS,ppm=F"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(offset), cmocka_unit_test(skew),
					   cmocka_unit_test(refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
