/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Device side of the built-in handlers: the bodies of exec/handlers/, which the CPU runs too,
 * compiled by nvcc. Part of the CUDA module, which is opened only where there is a GPU.
 *
 *   handlers.c   builtin[]: null sum crc32c echo   then place, litmus
 *   here         the same six, by index            spw_exec_device_code takes one
 *
 * The order is the only link between the two: rows that are swapped run the wrong handler. The
 * flags must be those in handlers.c as well: with SPW_HANDLER_WRITES the kernel fences before it
 * completes a batch (spw_gring.h, G2), without it an echo may leave before its bytes are visible.
 */
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
