/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shared-memory switch: joining, leaving, and who is alive. Cold code. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable_shm_impl.h"

static int lock_byte(int fd, int cmd, short type, off_t at)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
	int rc;

	do
		rc = fcntl(fd, cmd, &fl);
	while (rc < 0 && errno == EINTR);
	if (rc == 0 && cmd == F_OFD_GETLK)
		return fl.l_type != F_UNLCK; /* 1: held by another */
	return rc < 0 ? -errno : 0;
}

static void port_set(struct cable_shm *s, uint32_t p, uint32_t live)
{
	spw_thr_store_rel(&s->hdr->port[p].live, live);
	spw_thr_fetch_add(&s->hdr->epoch, 1u);
}

void shm_rx_refresh(struct cable_shm *s, uint32_t epoch)
{
	s->rx_epoch = epoch;
	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		struct shm_rx *r;

		if (s->rx_known & 1u << p || !spw_thr_load_acq(&s->hdr->port[p].live))
			continue;
		s->rx_known |= 1u << p;
		r = &s->rx[s->rx_cnt++];
		r->from = p;
		r->ring = (struct shm_ring *)(s->base + SHM_RING_AT(s->id.port, p));
		r->head = spw_thr_load_rlx(&r->ring->head); /* set when this port was taken */
	}
}

void shm_reap_dead(struct cable_shm *s)
{
	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		if (p == s->id.port || !spw_thr_load_rlx(&s->hdr->port[p].live))
			continue;
		if (lock_byte(s->fd, F_OFD_GETLK, F_WRLCK, (off_t)p) == 0)
			port_set(s, p, 0);
	}
}

static bool table_alone(struct cable_shm *s)
{
	for (uint32_t p = 0; p < SHM_PORTS; p++)
		if (lock_byte(s->fd, F_OFD_GETLK, F_WRLCK, (off_t)p) != 0)
			return false;
	return true;
}

void shm_close(struct cable *c)
{
	struct cable_shm *s = (struct cable_shm *)c;

	if (s->fd >= 0 && s->base) {
		if (lock_byte(s->fd, F_OFD_SETLKW, F_WRLCK, SHM_LOCK_TABLE) == 0) {
			port_set(s, s->id.port, 0);
			lock_byte(s->fd, F_OFD_SETLK, F_UNLCK, (off_t)s->id.port);
			if (table_alone(s))
				unlink(s->path);
		}
	}
	if (s->base)
		munmap(s->base, SHM_FILE_BYTES);
	if (s->fd >= 0)
		close(s->fd); /* drops every lock */
	free(s);
}

/* Opens the file and takes the table lock; a file that was unlinked meanwhile is opened anew. */
static int open_locked(struct cable_shm *s)
{
	struct stat st;

	for (int turn = 0; turn < 100; turn++) {
		s->fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (s->fd < 0)
			return spw_err(errno, "cable %s: %s", s->path, strerror(errno));
		if (lock_byte(s->fd, F_OFD_SETLKW, F_WRLCK, SHM_LOCK_TABLE))
			return spw_err(errno, "cable %s: cannot lock: %s", s->path, strerror(errno));
		if (fstat(s->fd, &st) == 0 && st.st_nlink > 0)
			return 0;
		close(s->fd);
		s->fd = -1;
	}
	return spw_err(EBUSY, "cable %s: others keep removing it", s->path);
}

static int map_and_check(struct cable_shm *s)
{
	struct stat st;
	bool fresh;

	if (fstat(s->fd, &st))
		return spw_err(errno, "cable %s: %s", s->path, strerror(errno));
	fresh = st.st_size == 0;
	if (fresh && (ftruncate(s->fd, (off_t)SHM_FILE_BYTES) || posix_fallocate(s->fd, 0, SHM_HDR_SPAN)))
		return spw_err(ENOSPC, "cable %s: no room; free some of /dev/shm", s->path);
	if (!fresh && st.st_size != (off_t)SHM_FILE_BYTES)
		return spw_err(EPROTO, "cable %s: made by another version; end its users and remove it", s->path);
	s->base = mmap(NULL, SHM_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->fd, 0);
	if (s->base == MAP_FAILED) {
		s->base = NULL;
		return spw_err(errno, "cable %s: mmap: %s", s->path, strerror(errno));
	}
	madvise(s->base, SHM_FILE_BYTES, MADV_DONTFORK);
	s->hdr = (struct shm_hdr *)s->base;
	if (fresh) {
		s->hdr->magic = SHM_MAGIC;
		s->hdr->version = SHM_VERSION;
		s->hdr->hdr_bytes = sizeof(*s->hdr);
		s->hdr->port_cnt = SHM_PORTS;
		s->hdr->ring_bytes = SHM_RING_BYTES;
	}
	if (s->hdr->magic != SHM_MAGIC || s->hdr->version != SHM_VERSION || s->hdr->hdr_bytes != sizeof(*s->hdr) ||
	    s->hdr->port_cnt != SHM_PORTS || s->hdr->ring_bytes != SHM_RING_BYTES)
		return spw_err(EPROTO, "cable %s: made by another version; end its users and remove it", s->path);
	return 0;
}

/* Takes the first port whose lock is free, and skips what was sent to its last holder. */
static int take_port(struct cable_shm *s, struct cable_id *id)
{
	static const uint8_t none[6];
	uint32_t p = 0;
	uint64_t mac = 0;

	while (p < SHM_PORTS && lock_byte(s->fd, F_OFD_SETLK, F_WRLCK, (off_t)p))
		p++;
	if (p == SHM_PORTS)
		return spw_err(ENOSPC, "cable %s: all %u ports are taken; use another name", s->path, SHM_PORTS);
	id->port = p;
	if (memcmp(id->mac, none, 6) == 0)
		memcpy(id->mac, (const uint8_t[6]){0x02, 0x53, 0x57, 0x00, 0x00, (uint8_t)(p + 1)}, 6);
	if (memcmp(id->ip, none, 4) == 0)
		memcpy(id->ip, (const uint8_t[4]){10, 53, 0, (uint8_t)(p + 1)}, 4);
	for (uint32_t from = 0; from < SHM_PORTS; from++) {
		struct shm_ring *ring = (struct shm_ring *)(s->base + SHM_RING_AT(p, from));

		if (posix_fallocate(s->fd, (off_t)SHM_RING_AT(p, from), 4096))
			return spw_err(ENOSPC, "cable %s: no room; free some of /dev/shm", s->path);
		spw_thr_store_rel(&ring->head, spw_thr_load_acq(&ring->tail) & ~15ull);
	}
	memcpy(&mac, id->mac, 6);
	s->hdr->port[p].pid = (uint32_t)getpid();
	spw_thr_store_rlx(&s->hdr->port[p].mac, mac);
	memcpy(&s->hdr->port[p].ip, id->ip, 4);
	s->id = *id;
	port_set(s, p, 1);
	return 0;
}

/* ---- files of the dead ------------------------------------------------------------------------------- */

/* With the table's lock: a switch of this version, or one whose maker died before it had a header. */
static bool is_ours(int fd)
{
	struct shm_hdr hdr;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	if (st.st_size == 0)
		return true;
	return st.st_size == (off_t)SHM_FILE_BYTES && pread(fd, &hdr, sizeof(hdr), 0) == (ssize_t)sizeof(hdr) &&
	       (hdr.magic == 0 || (hdr.magic == SHM_MAGIC && hdr.version == SHM_VERSION));
}

/* Removes the file if it is a switch that nobody is on. Who opens it at this moment waits for the table's lock, finds it
 * without a name, and opens anew (open_locked). */
static void sweep_file(const char *path)
{
	struct cable_shm s = {.fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};

	if (s.fd < 0)
		return;
	if (lock_byte(s.fd, F_OFD_SETLK, F_WRLCK, SHM_LOCK_TABLE) == 0 && is_ours(s.fd) && table_alone(&s))
		unlink(path);
	close(s.fd);
}

/* A process that was killed cannot remove its cable; the next one does, on whatever cable. */
static void sweep(const char *but)
{
	char prefix[32], path[sizeof(((struct cable_shm *)0)->path)];
	DIR *dir = opendir("/dev/shm");
	struct dirent *entry;

	if (!dir)
		return;
	snprintf(prefix, sizeof(prefix), "spinwire-%u-", (unsigned)getuid());
	while ((entry = readdir(dir))) {
		int n = snprintf(path, sizeof(path), "/dev/shm/%s", entry->d_name);

		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && (size_t)n < sizeof(path) && strcmp(path, but) != 0)
			sweep_file(path);
	}
	closedir(dir);
}

int cable_shm_open(const char *name, struct cable_id *id, struct cable **cable_out)
{
	struct cable_shm *s;
	int rc;

	if (!*name || strlen(name) > 64 || strchr(name, '/'))
		return spw_err(EINVAL, "cable shm:%s: the name has 1 to 64 characters and no slash", name);
	s = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*s), (size_t)128));
	if (!s)
		return spw_err(ENOMEM, "cable shm:%s: no memory", name);
	memset(s, 0, sizeof(*s));
	s->fd = -1;
	s->c.ops = &shm_ops;
	s->c.trusts = true;
	snprintf(s->path, sizeof(s->path), "/dev/shm/spinwire-%u-%s", (unsigned)getuid(), name);
	sweep(s->path);
	rc = open_locked(s);
	if (!rc)
		rc = map_and_check(s);
	if (!rc)
		rc = take_port(s, id);
	if (s->fd >= 0)
		lock_byte(s->fd, F_OFD_SETLK, F_UNLCK, SHM_LOCK_TABLE);
	if (rc) {
		if (s->base)
			munmap(s->base, SHM_FILE_BYTES);
		if (s->fd >= 0)
			close(s->fd);
		free(s);
		return rc;
	}
	*cable_out = &s->c;
	return 0;
}
