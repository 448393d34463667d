/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A library of the NVIDIA driver, opened at run time (spw_cuda_library.h): for the probes of
 * lib/plat, lib/tensor, and memory that processes share (share.c).
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda_library.h"

/* memcpy: ISO C has no cast from an object pointer to a function pointer. */
int spw_cuda_library_open(const char *path, const char *what, const struct spw_cuda_symbol *symbol,
			  uint32_t cnt)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return spw_err(ENODEV, "no %s library (%s); install the NVIDIA driver to use a GPU",
			       what, path);
	for (uint32_t i = 0; i < cnt; i++) {
		void *at = dlsym(lib, symbol[i].name);

		if (!at)
			return spw_err(ENODEV, "%s has no %s; it is not a %s library", path,
				       symbol[i].name, what);
		memcpy(symbol[i].at, &at, sizeof(at));
	}
	return 0;
}
