/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A handler plug-in of a version that does not exist.
 */
#include "exec/spw_handler.h"

extern const struct spw_handler spw_handler_plugin;
const struct spw_handler spw_handler_plugin = {
	.abi = SPW_HANDLER_ABI + 1000,
	.bytes = sizeof(struct spw_handler),
	.name = "future",
	.text = "of another version",
};
