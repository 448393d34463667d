/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream whose owner is the test, in this process.
 */
#ifndef TENSOR_OWNER_H
#define TENSOR_OWNER_H

#include <sys/mman.h>
#include <unistd.h>

#include "fake_driver.h"
#include "obj/spw_obj.h"
#include "tensor/tensor.h"
#include "unit_test.h"

#define BUFFERS 4u
#define STRIDE  512u

struct owner {
	struct spw_obj_page *page;
	struct tensor_place place;
};

SPW_UNUSED static int owner_memory(const char *name, uint64_t bytes)
{
	int fd = memfd_create(name, 0);

	assert_true(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	return fd;
}

SPW_UNUSED static struct owner owner_make(const char *kind)
{
	const struct spw_obj_desc desc = {
		.name = "camera",
		.rule = {.buffers = BUFFERS},
		.shape = {2, 32, 2, {3, 40}, {40, 1}, 480},
	};
	const uint64_t bytes = spw_obj_page_bytes(BUFFERS);
	struct owner owner = {.place = {.pid = getpid(),
					.page_fd = owner_memory("page", bytes),
					.memory_fd = owner_memory("objects", BUFFERS * STRIDE),
					.page_bytes = bytes,
					.memory_bytes = BUFFERS * STRIDE,
					.name = "camera"}};

	strcpy(owner.place.kind, kind);
	owner.page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, owner.place.page_fd, 0);
	assert_ptr_not_equal(owner.page, MAP_FAILED);
	spw_obj_page_init(owner.page, &desc, STRIDE, 1000000000);
	return owner;
}

SPW_UNUSED static void owner_end(const struct owner *owner)
{
	munmap(owner->page, owner->place.page_bytes);
	close(owner->place.page_fd);
	close(owner->place.memory_fd);
}

SPW_UNUSED static uint32_t owner_free_cnt(const struct owner *owner)
{
	uint32_t cnt = 0;

	for (uint32_t b = 0; b < BUFFERS; b++)
		cnt += (spw_thr_load_acq(&owner->page->buffer[b].state) & 0xff) == SPW_OBJ_FREE;
	return cnt;
}

SPW_UNUSED static bool owner_publish(const struct owner *owner)
{
	struct spw_obj_page *page = owner->page;
	const uint64_t generation = page->head + 1;

	for (uint32_t b = 0; b < BUFFERS; b++) {
		if ((spw_thr_load_acq(&page->buffer[b].state) & 0xff) != SPW_OBJ_FREE)
			continue;
		page->buffer[b].receipt.id = generation;
		spw_thr_store_rel(&page->buffer[b].state,
				  spw_obj_state_word(generation, SPW_OBJ_READY));
		spw_obj_page_queue(page, BUFFERS)[page->head & (2 * BUFFERS - 1)] = b;
		spw_thr_store_rel(&page->head, generation);
		return true;
	}
	return false;
}

SPW_UNUSED static struct spw_tensor_stream *attach(const struct owner *owner,
						   enum spw_tensor_device device)
{
	struct spw_tensor_stream *stream = NULL;

	assert_int_equal(tensor_attach(&owner->place, device, 0, &stream), 0);
	return stream;
}

#endif
