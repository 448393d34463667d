/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The table of built-in handlers, and plug-ins opened by path. A new built-in needs an entry here
 * and in cuda/handlers.cu, in the same order.
 *
 * A plug-in is a shared object that exports one struct spw_handler (SPW_HANDLER_SYMBOL). It is
 * checked before it is used: the ABI number, which covers the words of the executor ring, and the
 * size of the struct. It is loaded with RTLD_LOCAL, so two plug-ins may use the same names.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda.h"
#include "exec/handlers/builtin.h"
#include "exec/exec.h"
#include "exec/handlers/crc32c.h"
#include "exec/handlers/echo.h"
#include "exec/handlers/litmus.h"
#include "exec/handlers/null.h"
#include "exec/handlers/place.h"
#include "exec/handlers/state.h"
#include "exec/handlers/sum.h"

#define PATH_BYTES 4096 /* of a plug-in, as of any file (PATH_MAX) */

SPW_HANDLER_BATCH(null)
SPW_HANDLER_BATCH(sum)
SPW_HANDLER_BATCH(crc32c)
SPW_HANDLER_BATCH(echo)
SPW_HANDLER_BATCH(place)
SPW_HANDLER_BATCH(litmus)

static const struct spw_handler builtin[] = {
	SPW_HANDLER_INIT(null, "touches nothing", 0, NULL),
	SPW_HANDLER_INIT(sum, "adds up every byte", 0, NULL),
	SPW_HANDLER_INIT(crc32c, "checks a CRC-32C at the end of the payload", 0, NULL),
	SPW_HANDLER_INIT(echo, "sends UDP frames back", SPW_HANDLER_WRITES, NULL),
};

const struct spw_handler spw_litmus_handler =
	SPW_HANDLER_INIT(litmus, "checks the frames of the litmus", SPW_HANDLER_WRITES, NULL);

static const struct spw_handler_state place_state = {.bytes = sizeof(struct spw_place_state)};

const struct spw_handler spw_place_handler = SPW_HANDLER_INIT_STATE(
	place, "puts payload into objects", SPW_HANDLER_WRITES, NULL, &place_state);

_Static_assert(SPW_ARRAY_CNT(builtin) + 2 == SPW_HANDLER_BUILTIN_CNT,
	       "one of handlers.cu for each");

/* Plug-ins that are open: copies, whose states are their own. lib NULL: a free place. */
static struct {
	struct spw_handler handler;
	void *lib;
} plugin[16];

/* NULL beyond the last one, so that a caller can list them. */
const struct spw_handler *spw_handler_builtin(uint32_t i)
{
	return i < SPW_ARRAY_CNT(builtin) ? &builtin[i] : NULL;
}

/* Device code of a plug-in is in the plug-in, that of the others in the CUDA module. Of place there
 * are copies, each with a state of its own. */
const struct spw_handler_cuda *spw_exec_device_code(const struct spw_handler *handler,
						    const struct spw_cuda_module *module)
{
	size_t i = 0;

	if (handler->host == spw_batch_place)
		return &module->builtin->code[SPW_ARRAY_CNT(builtin)];
	if (handler == &spw_litmus_handler)
		return &module->builtin->code[SPW_ARRAY_CNT(builtin) + 1];
	while (i < SPW_ARRAY_CNT(builtin) && handler != &builtin[i])
		i++;
	return i < SPW_ARRAY_CNT(builtin) ? &module->builtin->code[i] : handler->cuda;
}

/* Texts name the remedy: most failures are a plug-in that was built against another version of the
 * header. */
static int plugin_check(const char *path, const struct spw_handler *h)
{
	if (!h)
		return spw_err(EINVAL,
			       "handler %s: it exports no " SPW_HANDLER_SYMBOL
			       "; end the file with SPW_HANDLER_PLUGIN",
			       path);
	if (h->abi != SPW_HANDLER_ABI)
		return spw_err(EINVAL,
			       "handler %s: built for ABI %u, this program has %u; build it again "
			       "with its header",
			       path, h->abi, SPW_HANDLER_ABI);
	if (h->bytes != sizeof(*h) || !h->host || !h->name)
		return spw_err(EINVAL,
			       "handler %s: its " SPW_HANDLER_SYMBOL
			       " is not whole (%u bytes of %zu)",
			       path, h->bytes, sizeof(*h));
	return 0;
}

static int plugin_load(size_t at, const char *path, const char *args)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct spw_handler *exported;
	int rc;

	if (!lib)
		return spw_err(ENOENT, "handler %s: %s", path, dlerror());
	exported = dlsym(lib, SPW_HANDLER_SYMBOL);
	rc = plugin_check(path, exported);
	if (rc == 0) {
		plugin[at].handler = *exported;
		rc = handler_state_open(&plugin[at].handler, path, args);
	}
	if (rc)
		dlclose(lib);
	else
		plugin[at].lib = lib;
	return rc;
}

/* Stays loaded until spw_handler_close: executors hold pointers into it. */
static int plugin_open(const char *spec, size_t len, const struct spw_handler **handler_out)
{
	char path[PATH_BYTES];
	size_t at = 0;
	int rc;

	while (at < SPW_ARRAY_CNT(plugin) && plugin[at].lib)
		at++;
	if (at == SPW_ARRAY_CNT(plugin))
		return spw_err(ENOSPC, "handler %s: %zu plug-ins are open already", spec, at);
	if (len >= sizeof(path))
		return spw_err(EINVAL, "handler %s: a path of at most %zu bytes", spec,
			       sizeof(path) - 1);
	memcpy(path, spec, len);
	path[len] = '\0';
	rc = plugin_load(at, path, spec[len] ? spec + len + 1 : NULL);
	*handler_out = rc ? NULL : &plugin[at].handler;
	return rc;
}

/* By name, among the built-in ones only. */
const struct spw_handler *spw_handler_find(const char *name)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(builtin); i++)
		if (!strcmp(name, builtin[i].name))
			return &builtin[i];
	return NULL;
}

/* A name with a slash is a path, as in a shell; any other is a built-in handler. Arguments begin at
 * the first colon. */
int spw_handler_open(const char *name, const struct spw_handler **handler_out)
{
	const size_t len = strcspn(name, ":");
	const char *dot = memrchr(name, '.', len);
	const bool so = dot && dot + 3 == name + len && !strncmp(dot, ".so", 3);
	const bool other = dot && !so; /* a name of another kind of file is no hint at a plug-in */

	if (memchr(name, '/', len))
		return plugin_open(name, len, handler_out);
	*handler_out = spw_handler_find(name);
	if (*handler_out)
		return 0;
	return spw_err(ENOENT,
		       "handler %s: there are null, sum, crc32c and echo, without arguments; a "
		       "plug-in is named by its path (./%.*s%s%s)",
		       name, other ? 4 : (int)len, other ? "NAME" : name, so ? "" : ".so",
		       name + len);
}

/* Built-in handlers need no closing and are ignored. */
void spw_handler_close(const struct spw_handler *handler)
{
	for (size_t i = 0; handler && i < SPW_ARRAY_CNT(plugin); i++)
		if (&plugin[i].handler == handler) {
			handler_state_close(&plugin[i].handler);
			dlclose(plugin[i].lib);
			plugin[i].lib = NULL;
			return;
		}
}
