/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The functions that a probe takes from a library, which is opened at run time: a list of
 * X(member, symbol, parameters) makes the members of a structure, all of which return int, and what
 * plat_library_open fills them from. No header of the library is needed.
 */
#ifndef PLAT_PROBE_LIBRARY_H
#define PLAT_PROBE_LIBRARY_H

#include "base/spw_types.h"

#define PLAT_LIBRARY_MEMBER(member, symbol, parameters) int(*member) parameters;
#define PLAT_LIBRARY_SYMBOL(member, symbol, parameters) {#symbol, &of->member},

struct plat_symbol {
	const char *name;
	void *at; /* of the pointer to the function */
};

/* Purpose: opens a library, and fills the pointers. It is never closed: unloading a driver that may
 *   have started threads is not safe.
 * Shape: symbol[cnt]; what: "CUDA driver", for error texts.
 * Errors: -ENODEV: there is none, or it lacks a function.
 */
int plat_library_open(const char *path, const char *what, const struct plat_symbol *symbol,
		      uint32_t cnt);

#endif
