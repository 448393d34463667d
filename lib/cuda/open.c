/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Finds and opens the CUDA module (spw_cuda.h). It is named by an absolute path always, so neither
 * LD_LIBRARY_PATH nor the working directory decides what is loaded, and stays loaded: executors
 * hold pointers into it, and the CUDA runtime in it cannot be unloaded safely.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "cuda/spw_cuda.h"
#include "cuda_build.h"

#define FILE_NAME "libspinwire-cuda.so"

/* From the folder of the program, or of the library, that this is linked into. */
static const char *const beside[] = {
	FILE_NAME,                             /* a bundle */
	"../../lib/cuda/module/" FILE_NAME,    /* a build: app/NAME, lib/coll, tests/NAME */
	"../../../lib/cuda/module/" FILE_NAME, /* tests/unit/NAME */
};

static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct spw_cuda_module *module_open;

/* The loader names a program by "", a library by its path. */
static bool module_folder(char folder_out[PATH_MAX])
{
	struct link_map *map = NULL;
	Dl_info info;
	char *slash;

	if (!dladdr1((const void *)beside, &info, (void **)&map, RTLD_DL_LINKMAP) ||
	    !realpath(map->l_name[0] ? map->l_name : "/proc/self/exe", folder_out))
		return false;
	slash = strrchr(folder_out, '/');
	if (slash)
		*slash = '\0';
	return slash;
}

/* What lies beside a program with rights that its caller does not have may be the caller's: a hard
 * link to the program can lie anywhere. */
static bool module_find_beside(char path_out[PATH_MAX])
{
	char folder[PATH_MAX];

	if (getauxval(AT_SECURE) || !module_folder(folder))
		return false;
	for (size_t i = 0; i < SPW_ARRAY_CNT(beside); i++)
		if (snprintf(path_out, PATH_MAX, "%s/%s", folder, beside[i]) < PATH_MAX &&
		    !access(path_out, F_OK))
			return true;
	return false;
}

static int module_find(char path_out[PATH_MAX])
{
	const char *named = secure_getenv("SPW_CUDA_MODULE");

	if (!named && module_find_beside(path_out))
		return 0;
	snprintf(path_out, PATH_MAX, "%s", named ? named : SPW_CUDA_DIR "/" FILE_NAME);
	if (strchr(path_out, '/') && !access(path_out, F_OK))
		return 0;
	return spw_err(ENOTSUP,
		       "%s, which holds the CUDA executors, is not there: install spinwire-cuda, "
		       "or in a source tree an nvcc of CUDA 12.0 or later (nvidia-cuda-toolkit; "
		       "CUDA_HOME names its folder), then meson setup --reconfigure build and "
		       "ninja -C build",
		       named ? path_out : FILE_NAME);
}

static int module_load(const struct spw_cuda_module **module_out)
{
	static const struct spw_cuda_host host = {spw_err, spw_err_ctx, spw_err_text, spw_log};
	const struct spw_cuda_module *module;
	char path[PATH_MAX];
	void *lib;
	int rc = module_find(path);

	if (rc)
		return rc;
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	module = lib ? dlsym(lib, SPW_CUDA_SYMBOL) : NULL;
	if (!module)
		return spw_err(ENOTSUP, "the CUDA executors cannot be loaded: %s", dlerror());
	if (strncmp(module->build, SPW_CUDA_BUILD, sizeof(module->build)))
		return spw_err(
			ENOTSUP,
			"%s is of another build (%.*s) than this program (" SPW_CUDA_BUILD
			"): install spinwire-cuda of the same version, or run ninja -C build",
			path, (int)sizeof(module->build) - 1, module->build);
	module->adopt(&host);
	*module_out = module;
	return 0;
}

int spw_cuda_open(const struct spw_cuda_module **module_out)
{
	int rc = 0;

	pthread_mutex_lock(&module_lock);
	if (!module_open)
		rc = module_load(&module_open);
	*module_out = module_open;
	pthread_mutex_unlock(&module_lock);
	return rc;
}
