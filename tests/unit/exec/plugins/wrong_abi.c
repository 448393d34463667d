/* SPDX-License-Identifier: BSD-3-Clause
 * A plug-in of another time. */
#include "exec/spw_handler.h"

SPW_PLUGIN_SYMBOL
const struct spw_handler spw_handler_plugin = {
	.abi = SPW_HANDLER_ABI + 1, .bytes = sizeof(struct spw_handler), .name = "old"};
