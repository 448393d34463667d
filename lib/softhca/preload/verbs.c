/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The order of devices. libibverbs lists them in the order in which their drivers were loaded, and
 * most programs take the first one. Under this library the emulated devices come first, in the
 * order of the options; the machine's own follow.
 *
 * ibv_get_device_list is the one function of libibverbs that is interposed; all others run as they
 * are, on the emulated /sys and the emulated device files. The list is libibverbs', and so are its
 * entries: only their order changes, and the program frees it as usual.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "softhca/preload/preload.h"
#include "softhca/preload/proc.h"

struct ibv_device;
typedef struct ibv_device **get_fn(int *);
typedef const char *name_fn(struct ibv_device *);

get_fn ibv_get_device_list;

/* Not NEXT: libibverbs may be loaded by a plug-in, outside the search order of RTLD_NEXT. */
static void *verbs_fn(const char *name)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *fn = lib ? dlsym(lib, name) : NULL;

	if (lib)
		dlclose(lib); /* the caller keeps it loaded */
	return fn;
}

/* Moves the emulated devices to the front; the others keep their order. */
static void ours_first(struct ibv_device **list, const struct hca_cfg *cfg, name_fn *name_of)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < cfg->dev_cnt; i++) {
		for (uint32_t k = first; list[k]; k++) {
			struct ibv_device *dev = list[k];

			if (strcmp(cfg->dev[i].name, name_of(dev)) != 0)
				continue;
			memmove(&list[first + 1], &list[first], (k - first) * sizeof(*list));
			list[first++] = dev;
			break;
		}
	}
}

EXPORT struct ibv_device **ibv_get_device_list(int *cnt)
{
	get_fn *get = (get_fn *)verbs_fn("ibv_get_device_list");
	name_fn *name_of = (name_fn *)verbs_fn("ibv_get_device_name");
	struct ibv_device **list;

	/* A program that finds this symbol without libibverbs: as if no driver were there. */
	if (!get || !name_of) {
		errno = ENOSYS;
		return NULL;
	}
	list = get(cnt);
	if (list && proc_cfg())
		ours_first(list, proc_cfg(), name_of);
	return list;
}
