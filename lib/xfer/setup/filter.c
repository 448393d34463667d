/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which devices a list in the syntax of NCCL_IB_HCA admits (filter.h). Called by find.c.
 * Pure. The list is the user's, so that one setting serves NCCL's own network and this one alike.
 *
 *   [^][=]NAME[:PORT][,NAME[:PORT]]...    ^ all but these    = whole names, else their beginnings
 */
#include "xfer/filter.h"

#include <stdlib.h>
#include <string.h>

/* One word of the list, of len characters. */
static bool word_has(const char *word, size_t len, bool exact, const char *device, uint32_t port)
{
	const char *colon = memchr(word, ':', len);
	const size_t name = colon ? (size_t)(colon - word) : len;

	if (strncmp(word, device, name) || (exact && device[name]))
		return false;
	return !colon || strtoul(colon + 1, NULL, 10) == port;
}

/* Empty words count for nothing: ",," and "^" admit all. */
bool xfer_filter_has(const char *list, const char *device, uint32_t port)
{
	bool exact, not, any = false, has = false;

	if (!list)
		return true;
	not = *list == '^';
	list += not ;
	exact = *list == '=';
	list += exact;
	for (size_t len; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		any |= len > 0;
		has |= len && word_has(list, len, exact, device, port);
	}
	return any ? has != not : true;
}
