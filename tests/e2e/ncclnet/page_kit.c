/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../unit/unit_test.h"
#include "page_kit.h"

/* The descriptor of the page, opened anew; -1: there is none. */
static int page_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int fd = -1;

	assert_non_null(dir);
	while ((e = readdir(dir)) && fd < 0) {
		char link[300], path[64];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%.20s", e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n == (ssize_t)strlen(SPW_HANG_PAGE_LINK) &&
		    !memcmp(link, SPW_HANG_PAGE_LINK, (size_t)n))
			fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	closedir(dir);
	return fd;
}

bool page_is_there(void)
{
	const int fd = page_open();

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

const struct spw_hang_page *page_map(void)
{
	const int fd = page_open();
	const struct spw_hang_page *page;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GET_SEALS) & SPW_HANG_PAGE_SEALS, SPW_HANG_PAGE_SEALS);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, SPW_HANG_PAGE_BYTES);
	page = mmap(NULL, SPW_HANG_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(page != MAP_FAILED);
	close(fd);
	assert_true(spw_hang_page_is_open(page));
	assert_int_equal(page->pid, getpid());
	assert_true(page->tsc_hz > 1000000);
	return page;
}

void page_unmap(const struct spw_hang_page *page)
{
	assert_int_equal(munmap((void *)(uintptr_t)page, SPW_HANG_PAGE_BYTES), 0);
}

struct spw_hang_comm page_comm(const struct spw_hang_page *page, uint32_t i)
{
	struct spw_hang_comm copy;

	assert_true(spw_hang_entry_read(&page->comm[i], &copy, sizeof(copy)));
	return copy;
}

uint32_t page_conns(const struct spw_hang_page *page, enum spw_hang_conn_state state,
		    struct spw_hang_conn *conn_out, uint32_t max)
{
	struct spw_hang_conn copy;
	uint32_t n = 0;

	for (uint32_t i = 0; i < SPW_HANG_CONN_MAX; i++) {
		assert_true(spw_hang_entry_read(&page->conn[i], &copy, sizeof(copy)));
		if (copy.view.state != state)
			continue;
		if (n < max)
			conn_out[n] = copy;
		n++;
	}
	return n;
}
