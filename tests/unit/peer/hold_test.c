/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An owner never waits for the control thread, whose turn may last a second.
 */
#include "peer/conn.h"
#include "unit_test.h"

static void a_turn_is_not_waited_for(void **state SPW_UNUSED)
{
	struct spw_peer_conn conn = {.turn = PTHREAD_MUTEX_INITIALIZER};

	assert_int_equal(pthread_mutex_lock(&conn.turn), 0); /* control's */
	assert_false(spw_peer_conn_hold(&conn));
	assert_int_equal(pthread_mutex_unlock(&conn.turn), 0);
	assert_true(spw_peer_conn_hold(&conn));
	spw_peer_conn_release(&conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
