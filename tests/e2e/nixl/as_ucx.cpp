/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The plugin under the name that NIXL's own tests ask for: libplugin_UCX.so, with the one option
 * that they look at. All else is that of libplugin_SPINWIRE.so, whose path is $SPW_TEST_PLUGIN.
 */
#include "backend/backend_plugin.h"

#include <cstdlib>
#include <dlfcn.h>

static nixlBackendPlugin *spinwire;

static nixl_b_params_t as_ucx_options()
{
	nixl_b_params_t options = spinwire->get_backend_options();

	options["ucx_error_handling_mode"] = "peer";
	return options;
}

nixlBackendPlugin *nixl_plugin_init()
{
	static nixlBackendPlugin plugin;
	const char *path = getenv("SPW_TEST_PLUGIN");
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : nullptr;
	void *init = lib ? dlsym(lib, "nixl_plugin_init") : nullptr;

	if (!init)
		return nullptr;
	spinwire = reinterpret_cast<nixlBackendPlugin *(*)()>(init)();
	plugin = *spinwire;
	plugin.get_plugin_name = []() { return "UCX"; };
	plugin.get_backend_options = as_ucx_options;
	return &plugin;
}

void nixl_plugin_fini() {}
