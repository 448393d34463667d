/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cold half of a trail (spw_trail.h): its memory, and its file. The programs call it at set-up
 * and after the data path has ended; the NIC thread's library calls it where that thread ends.
 *
 *    file   | head of trail 0 | records, oldest first | head of trail 1 | ...
 *
 * The owner only adds; once the ring has wrapped the oldest are overwritten, and the head says how
 * many there were.
 */
#include "trail/spw_trail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/spw_err.h"
#include "base/spw_file.h"

#define RING_CNT   (1u << SPW_TRAIL_LOG2)
#define RING_BYTES ((size_t)RING_CNT * sizeof(struct spw_trail_rec))

/* Populated here: a page fault would be a gap on the trail of its own making. */
int spw_trail_open(struct spw_trail *trail, uint32_t every)
{
	void *at;

	memset(trail, 0, sizeof(*trail));
	if (!every || (every & (every - 1)))
		return spw_err(EINVAL, "trail: one frame in %u; use a power of 2", every);
	at = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (at == MAP_FAILED)
		return spw_err(ENOMEM, "trail: no memory for %zu MiB", RING_BYTES >> 20);
	trail->rec = at;
	trail->every = every;
	return 0;
}

void spw_trail_close(struct spw_trail *trail)
{
	if (trail->rec)
		munmap(trail->rec, RING_BYTES);
	memset(trail, 0, sizeof(*trail));
}

/* The ring from its oldest record on: two pieces once it has wrapped. */
static bool trail_put(int fd, const struct spw_trail *trail, const char *names)
{
	struct spw_trail_head head = {.magic = "SPWTRAIL",
				      .version = SPW_TRAIL_VERSION,
				      .every = trail->every,
				      .all = trail->cnt,
				      .kept = SPW_MIN(trail->cnt, (uint64_t)RING_CNT)};
	const uint64_t first = (trail->cnt - head.kept) & (RING_CNT - 1);
	const uint64_t tail = SPW_MIN(head.kept, RING_CNT - first);

	snprintf(head.names, sizeof(head.names), "%s", names);
	return spw_file_put(fd, &head, sizeof(head)) &&
	       spw_file_put(fd, trail->rec + first, tail * sizeof(*trail->rec)) &&
	       spw_file_put(fd, trail->rec, (head.kept - tail) * sizeof(*trail->rec));
}

/* After the owners have ended. */
int spw_trail_write(const struct spw_trail *const *trail, uint32_t cnt, const char *names,
		    const char *path)
{
	struct spw_file file;
	int rc = spw_file_begin(path, 0600, &file);
	bool ok = true;

	if (rc)
		return rc;
	for (uint32_t i = 0; ok && i < cnt; i++)
		ok = trail_put(file.fd, trail[i], names);
	return spw_file_end(&file, ok ? 0 : errno);
}
