/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Device side of the built-in handlers, in the order of the table in handlers.c. */
#include "exec/handlers/builtin.h"
#include "exec/handlers/crc32c.h"
#include "exec/handlers/echo.h"
#include "exec/handlers/litmus.h"
#include "exec/handlers/null.h"
#include "exec/handlers/place.h"
#include "exec/handlers/sum.h"

SPWD_HANDLER_FUNCTOR(null)
SPWD_HANDLER_FUNCTOR(sum)
SPWD_HANDLER_FUNCTOR(crc32c)
SPWD_HANDLER_FUNCTOR(echo)
SPWD_HANDLER_FUNCTOR(place)
SPWD_HANDLER_FUNCTOR(litmus)

const struct spw_builtin_cuda spw_builtin_cuda = {{
	SPWD_HANDLER_LAUNCH_TABLE(null, 0),
	SPWD_HANDLER_LAUNCH_TABLE(sum, 0),
	SPWD_HANDLER_LAUNCH_TABLE(crc32c, 0),
	SPWD_HANDLER_LAUNCH_TABLE(echo, SPW_HANDLER_WRITES),
	SPWD_HANDLER_LAUNCH_TABLE(place, SPW_HANDLER_WRITES),
	SPWD_HANDLER_LAUNCH_TABLE(litmus, SPW_HANDLER_WRITES),
}};
