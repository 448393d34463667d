/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * When the NIC thread spins and when it naps, by how much others take of its core (run/pace.h).
 * Time is simulated.
 */
#include "softhca/nic/run/pace.h"
#include "unit_test.h"

#define US 1000ull
#define MS 1000000ull
#define S  1000000000ull

/* Another thread takes the core for lost_ns in each every_ns, as long as the NIC thread spins. */
struct core {
	uint64_t every_ns, lost_ns;
};

/* Share of the time that the NIC thread naps, in percent. */
static uint32_t napping(struct nic_pace *p, const struct core *core, uint64_t from_ns,
			uint64_t to_ns)
{
	uint64_t now = from_ns, naps = 0;

	while (now < to_ns) {
		if (pace_spins(p, now)) {
			now += core->every_ns;
			if (core->lost_ns)
				pace_lost(p, now, core->lost_ns);
		} else {
			now += PACE_NAP_NS;
			naps += PACE_NAP_NS;
		}
	}
	return (uint32_t)(naps * 100 / (to_ns - from_ns));
}

static void alone(void **state)
{
	struct nic_pace p = {0};

	(void)state;
	assert_int_equal(napping(&p, &(struct core){MS, 0}, S, 20 * S), 0);
}

/* 100 us of each millisecond, or five slices of 4 ms a second: naps would cost more. */
static void housekeepers(void **state)
{
	struct nic_pace p = {0};

	(void)state;
	assert_int_equal(napping(&p, &(struct core){MS, 100 * US}, S, 20 * S), 0);
	assert_int_equal(napping(&p, &(struct core){196 * MS, 4 * MS}, 20 * S, 60 * S), 0);
}

/* A computation shares the core: each gets 4 ms of 8. */
static void hog(void **state)
{
	struct nic_pace p = {0};
	uint32_t share = napping(&p, &(struct core){8 * MS, 4 * MS}, S, 40 * S);

	(void)state;
	assert_in_range(share, 94, 99);
	assert_int_equal(napping(&p, &(struct core){MS, 0}, 43 * S, 60 * S), 0); /* it has ended */
}

/* A program that was stopped for an hour naps for two seconds, not for years. */
static void stopped(void **state)
{
	struct nic_pace p = {0};

	(void)state;
	pace_lost(&p, 4000 * S, 3600 * S);
	assert_false(pace_spins(&p, 4000 * S + 1));
	assert_true(pace_spins(&p, 4000 * S + PACE_USED_MAX_NS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone),
		cmocka_unit_test(housekeepers),
		cmocka_unit_test(hog),
		cmocka_unit_test(stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
