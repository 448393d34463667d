/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shared-memory switch: its file. Opened and locked, mapped, lost, removed. Not in the data
 * path; shm_join.c calls it.
 *
 * /dev/shm is writable by every user. A file is used only if it belongs to this user and nobody
 * else may open it, so that no other user can read, lock or truncate a cable. A process of the same
 * user still can truncate it (tmpfs has no seal for that), and the next access is then a SIGBUS:
 *
 *   SIGBUS handler (nic/host/guard.c) -> cable_shm_repair(): anonymous memory replaces the mapping
 *   shm_check(), every 100 ms     -> c.lost: no frame comes or goes any more
 *   run/dev.c, tick               -> the link goes down (PORT_ERR)
 *
 * What to know before changing it: joining and leaving run with the lock of the table (byte
 * SHM_LOCK_TABLE) taken. It is a lock of the open file description, which the mapping keeps alive:
 * closing the descriptor does not drop it, so whoever is done with it unlocks it. A name may
 * be unlinked between open() and lock; then the file is not the one that others find, and is opened
 * again.
 *
 *   open --> lock the table --> has it still a name? --no--> close, open again
 *                                   |
 *                                   yes --> map --> write or check the header --> shm_join.c
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_uid.h"
#include "softhca/cable/shm_impl.h"

#define LOCK_WAIT_MS 3000 /* it is owned for milliseconds, unless its owner is stopped */
#define MAPS         64u

/* All mappings, for the signal handler. Static, so that it may read them at any moment. */
static struct {
	uint8_t *base; /* NULL: free */
	uint32_t lost; /* the file was shorter than the mapping */
} maps[MAPS];

/* ---- locks ---- */

/* Locks of the open file description (F_OFD_*), not of the process: with those of the process,
 * closing any other descriptor of the file would drop them all. */
int shm_lock(int fd, int cmd, short type, off_t at)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
	int rc;

	do
		rc = fcntl(fd, cmd, &fl);
	while (rc < 0 && errno == EINTR);
	if (rc == 0 && cmd == F_OFD_GETLK)
		return fl.l_type != F_UNLCK;
	return rc < 0 ? -errno : 0;
}

int shm_lock_table(const struct cable_shm *s)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	for (int i = 0; i < LOCK_WAIT_MS; i++) {
		const int rc = shm_lock(s->fd, F_OFD_SETLK, F_WRLCK, SHM_LOCK_TABLE);

		if (rc != -EAGAIN && rc != -EACCES)
			return rc ? spw_err(-rc, "cable %s: cannot lock: %s", s->path,
					    strerror(-rc))
				  : 0;
		nanosleep(&ms, NULL);
	}
	return spw_err(ETIMEDOUT,
		       "cable %s: another process has held its lock for %d s; is one of yours "
		       "stopped (fuser -v %s)?",
		       s->path, LOCK_WAIT_MS / 1000, s->path);
}

/* No port is owned through another open file description; the locks of this one do not count. With
 * the lock of the table. */
static bool shm_table_is_alone(int fd)
{
	for (uint32_t p = 0; p < SHM_PORTS; p++)
		if (shm_lock(fd, F_OFD_GETLK, F_WRLCK, (off_t)p) != 0)
			return false;
	return true;
}

/* ---- the file ---- */

/* Inside a user namespace the number is that of the user outside, so that all processes of a user
 * find the same name. */
void shm_path(const char *name, char *path_out, size_t bytes)
{
	snprintf(path_out, bytes, "/dev/shm/spinwire-%u-%s", spw_uid_outer(), name);
}

/* Why a file must not be used; NULL: it may. */
static const char *shm_refuse_file(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "it is no regular file";
	if (st->st_uid != geteuid())
		return "it belongs to another user";
	if (st->st_mode & 077)
		return "other users may open it";
	return st->st_nlink > 1 ? "it has a second name" : NULL;
}

/* O_NOFOLLOW: in a folder that all may write to, a symbolic link could lead anywhere. */
static int shm_open_file(struct cable_shm *s)
{
	const char *why = NULL;
	struct stat st;

	s->fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->fd < 0)
		return spw_err(errno, "cable %s: %s; use another name", s->path,
			       errno == ELOOP ? "it is a symbolic link" : strerror(errno));
	if (fstat(s->fd, &st))
		return spw_err(errno, "cable %s: %s", s->path, strerror(errno));
	why = shm_refuse_file(&st);
	return why ? spw_err(EPERM, "cable %s: %s; remove it or use another name", s->path, why)
		   : 0;
}

int shm_open_locked(struct cable_shm *s)
{
	struct stat st;

	for (int turn = 0; turn < 100; turn++) {
		int rc = shm_open_file(s);

		if (!rc)
			rc = shm_lock_table(s);
		if (rc)
			return rc;
		if (fstat(s->fd, &st) == 0 && st.st_nlink > 0)
			return 0;
		close(s->fd);
		s->fd = -1;
	}
	return spw_err(EBUSY, "cable %s: others keep removing it", s->path);
}

/* ---- the mapping ---- */

/* MADV_DONTFORK: a forked child has no port, and must not write to the rings of its parent. */
static int shm_map_file(struct cable_shm *s)
{
	uint32_t i = 0;
	void *p;

	while (i < MAPS && spw_thr_load_rlx(&maps[i].base))
		i++;
	if (i == MAPS)
		return spw_err(ENOSPC, "cable %s: this process has %u cables already", s->path,
			       MAPS);
	p = mmap(NULL, SHM_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->fd,
		 0);
	if (p == MAP_FAILED)
		return spw_err(errno, "cable %s: mmap: %s", s->path, strerror(errno));
	madvise(p, SHM_FILE_BYTES, MADV_DONTFORK);
	s->map = i;
	s->base = p;
	s->hdr = p;
	spw_thr_store_rlx(&maps[i].lost, 0u);
	spw_thr_store_rel(&maps[i].base, s->base); /* [N9 release, pairs with N10] */
	return 0;
}

/* Only the header gets its memory here, so that a full /dev/shm is an error and no SIGBUS; rings
 * get theirs at first use. All sizes are compared, since the layout is that of the compiled
 * structures. */
int shm_map(struct cable_shm *s)
{
	struct shm_hdr *hdr;
	struct stat st;
	bool fresh;
	int rc;

	if (fstat(s->fd, &st))
		return spw_err(errno, "cable %s: %s", s->path, strerror(errno));
	fresh = st.st_size == 0;
	if (fresh &&
	    (ftruncate(s->fd, (off_t)SHM_FILE_BYTES) || posix_fallocate(s->fd, 0, SHM_HDR_SPAN)))
		return spw_err(ENOSPC, "cable %s: no room; free some of /dev/shm", s->path);
	if (!fresh && st.st_size != (off_t)SHM_FILE_BYTES)
		return spw_err(EPROTO,
			       "cable %s: made by another version; end its users and remove it",
			       s->path);
	rc = shm_map_file(s);
	if (rc)
		return rc;
	hdr = s->hdr;
	if (fresh) {
		hdr->magic = SHM_MAGIC;
		hdr->version = SHM_VERSION;
		hdr->hdr_bytes = sizeof(*hdr);
		hdr->port_cnt = SHM_PORTS;
		hdr->ring_bytes = SHM_RING_BYTES;
	}
	if (hdr->magic != SHM_MAGIC || hdr->version != SHM_VERSION ||
	    hdr->hdr_bytes != sizeof(*hdr) || hdr->port_cnt != SHM_PORTS ||
	    hdr->ring_bytes != SHM_RING_BYTES)
		return spw_err(EPROTO,
			       "cable %s: made by another version; end its users and remove it",
			       s->path);
	return 0;
}

/* First out of the table of the signal handler, then unmapped: in the other order another mapping
 * could take the addresses and be repaired by mistake. */
void shm_unmap(struct cable_shm *s)
{
	if (!s->base)
		return;
	spw_thr_store_rel(&maps[s->map].base, NULL);
	munmap(s->base, SHM_FILE_BYTES);
	s->base = NULL;
}

/* Replaces a mapping by anonymous memory, and marks it lost. Async-signal-safe. */
static void shm_replace_mapping(uint32_t i, uint8_t *base)
{
	mmap(base, SHM_FILE_BYTES, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	spw_thr_store_rel(&maps[i].lost, 1u);
}

bool cable_shm_repair(const void *addr)
{
	const int keep = errno;

	for (uint32_t i = 0; i < MAPS; i++) {
		/* [N10 acquire, pairs with N9] */
		uint8_t *base = spw_thr_load_acq(&maps[i].base);

		if (!base || (uintptr_t)addr - (uintptr_t)base >= SHM_FILE_BYTES)
			continue;
		shm_replace_mapping(i, base);
		errno = keep;
		return true;
	}
	return false;
}

/* Size and owner are compared as well: a process that truncated the file may have extended it
 * again, and the port then reads as free. */
void shm_check(struct cable_shm *s)
{
	const struct shm_port *own = &s->hdr->port[s->id.port];
	struct stat st;

	if (s->fd < 0 || s->c.lost)
		return;
	if (fstat(s->fd, &st) == 0 && st.st_size == (off_t)SHM_FILE_BYTES &&
	    !spw_thr_load_acq(&maps[s->map].lost) && spw_thr_load_rlx(&own->live) &&
	    own->pid == (uint32_t)getpid())
		return;
	shm_replace_mapping(s->map, s->base);
	s->c.lost = true;
}

/* ---- removal ---- */

/* The name must still be that of this file: another process may have made a new one under it. */
void shm_unlink_if_alone(int fd, const char *path)
{
	struct stat mine, there;

	if (shm_table_is_alone(fd) && fstat(fd, &mine) == 0 && lstat(path, &there) == 0 &&
	    mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
		unlink(path);
}

/* Is the file a switch of this version, or one whose creator died before it wrote a header? With
 * the table's lock. */
static bool shm_is_switch(int fd)
{
	struct shm_hdr hdr;
	struct stat st;

	if (fstat(fd, &st) || shm_refuse_file(&st))
		return false;
	if (st.st_size == 0)
		return true;
	return st.st_size == (off_t)SHM_FILE_BYTES &&
	       pread(fd, &hdr, sizeof(hdr), 0) == (ssize_t)sizeof(hdr) &&
	       (hdr.magic == 0 || (hdr.magic == SHM_MAGIC && hdr.version == SHM_VERSION));
}

/* Removes the file if it is a switch without users. A process that opens it at this moment waits
 * for the table's lock, finds the file unlinked, and opens it again (shm_open_locked). */
static void shm_sweep_file(const char *path)
{
	const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return;
	if (shm_lock(fd, F_OFD_SETLK, F_WRLCK, SHM_LOCK_TABLE) == 0 && shm_is_switch(fd))
		shm_unlink_if_alone(fd, path);
	close(fd);
}

/* Called when a cable is opened: files of processes that were killed would otherwise fill
 * /dev/shm. */
void shm_sweep(const char *but)
{
	char prefix[32], path[sizeof(((struct cable_shm *)0)->path)];
	DIR *dir = opendir("/dev/shm");
	struct dirent *entry;

	if (!dir)
		return;
	snprintf(prefix, sizeof(prefix), "spinwire-%u-", spw_uid_outer());
	while ((entry = readdir(dir))) {
		int n = snprintf(path, sizeof(path), "/dev/shm/%s", entry->d_name);

		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
		    (size_t)n < sizeof(path) && strcmp(path, but) != 0)
			shm_sweep_file(path);
	}
	closedir(dir);
}
