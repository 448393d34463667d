/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream whose owner is this test, and a GPU that is a stand-in: who holds a buffer, when it goes
 * back, and who is refused. Other processes: tests/e2e/tensor.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "owner.h"

#define DL_CUDA 2

/* As dlpack.h has them. */
struct managed {
	void *data;
	int32_t device_type, device_id, ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;
	uint64_t byte_offset;
	void *context;
	void (*deleter)(struct managed *self);
};

struct versioned {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct versioned *self);
	uint64_t flags;
	void *data;
	int32_t device_type, device_id, ndim;
};

static struct spw_tensor take(const struct owner *owner, struct spw_tensor_stream *stream)
{
	struct spw_tensor tensor;

	assert_true(owner_publish(owner));
	assert_int_equal(spw_tensor_next(stream, 0, &tensor), 0);
	assert_int_equal(tensor.receipt->id, owner->page->head);
	return tensor;
}

static void *export(struct spw_tensor_stream *stream, const struct spw_tensor *tensor,
		    bool versioned, bool cuda, uintptr_t cuda_stream)
{
	const struct spw_tensor_export how = {versioned, cuda, cuda_stream};
	void *managed = NULL;

	assert_int_equal(spw_tensor_dlpack(stream, tensor, &how, &managed), 0);
	return managed;
}

/* next() also looks at what is on its way back. */
static void look(struct spw_tensor_stream *stream)
{
	struct spw_tensor tensor;

	assert_int_equal(spw_tensor_next(stream, 0, &tensor), -ETIMEDOUT);
}

/* ---- the CPU alone ---- */

static void test_release(void **state)
{
	struct owner owner = owner_make("host");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_AUTO);
	struct spw_tensor first = take(&owner, stream), again;

	(void)state;
	assert_int_equal(spw_tensor_gpu(stream), -1);
	assert_int_equal(first.cuda, 0);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS - 1);
	assert_int_equal(spw_tensor_release(stream, &first), 0);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	assert_int_equal(spw_tensor_release(stream, &first), -EALREADY);
	again = take(&owner, stream);
	assert_int_equal(again.buffer, first.buffer);
	assert_int_equal(spw_tensor_release(stream, &first), -EALREADY);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS - 1);
	assert_int_equal(spw_tensor_record(stream, &again, 5), -ENOTSUP);
	assert_int_equal(spw_tensor_release(stream, &again), 0);
	spw_tensor_close(stream);
	assert_int_equal(owner.page->consumer_pid, 0);
	owner_end(&owner);
}

static void test_exports(void **state)
{
	struct owner owner = owner_make("host");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_CPU);
	struct spw_tensor tensor = take(&owner, stream);
	struct managed *old = export(stream, &tensor, false, false, 0);
	struct versioned *now = export(stream, &tensor, true, false, 0);

	(void)state;
	assert_ptr_equal(old->data, tensor.data);
	assert_int_equal((uintptr_t)old->data % 256, 0);
	assert_int_equal(old->device_type, 1);
	assert_int_equal(old->ndim, 2);
	assert_int_equal(old->code, 2);
	assert_int_equal(old->bits, 32);
	assert_int_equal(old->lanes, 1);
	assert_int_equal(old->shape[0] * 1000 + old->shape[1], 3040);
	assert_int_equal(old->strides[0] * 1000 + old->strides[1], 40001);
	assert_int_equal(old->byte_offset, 0);
	assert_int_equal(now->major, 1);
	assert_int_equal(now->flags, 0);
	assert_ptr_equal(now->data, tensor.data);
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	old->deleter(old);
	old = export(stream, &tensor, false, false,
		     0); /* the other tensor still holds the object */
	old->deleter(old);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS - 1);
	spw_tensor_close(stream); /* the last tensor keeps the stream, and the claim */
	assert_int_equal(owner.page->consumer_pid, getpid());
	assert_int_equal(owner_free_cnt(&owner), BUFFERS - 1);
	now->deleter(now);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	assert_int_equal(owner.page->consumer_pid, 0);
	owner_end(&owner);
}

/* In a child, which would count references of its parent's. */
static bool child_is_refused(struct spw_tensor_stream *stream, struct spw_tensor *tensor,
			     struct managed *t)
{
	const struct spw_tensor_export how = {0};
	struct spw_tensor none;
	void *managed;

	t->deleter(t);
	return spw_tensor_dlpack(stream, tensor, &how, &managed) == -ECHILD &&
	       spw_tensor_next(stream, 0, &none) == -ECHILD &&
	       spw_tensor_record(stream, tensor, 0) == -ECHILD &&
	       spw_tensor_release(stream, tensor) == -ECHILD;
}

static void test_fork(void **state)
{
	struct owner owner = owner_make("host");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_CPU);
	struct spw_tensor tensor = take(&owner, stream);
	struct managed *t = export(stream, &tensor, false, false, 0);
	const pid_t child = fork();
	int status;

	(void)state;
	if (child == 0)
		_exit(!child_is_refused(stream, &tensor, t));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	t->deleter(t);
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	spw_tensor_close(stream);
	owner_end(&owner);
}

static void test_end(void **state)
{
	struct owner owner = owner_make("host");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_AUTO);
	struct spw_tensor tensor, none;

	(void)state;
	assert_int_equal(spw_tensor_next(stream, 3000000, &tensor), -ETIMEDOUT);
	assert_true(owner_publish(&owner));
	spw_thr_store_rel(&owner.page->ended, 1u);
	assert_int_equal(spw_tensor_next(stream, -1, &tensor), 0);
	assert_int_equal(spw_tensor_next(stream, -1, &none), -EPIPE);
	spw_tensor_close(stream);
	assert_int_equal(*(const uint8_t *)tensor.data, 0); /* still mapped */
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	owner_end(&owner);
}

static void refuse(const struct owner *owner, int error, const char *word)
{
	struct spw_tensor_stream *stream;

	assert_int_equal(tensor_attach(&owner->place, SPW_TENSOR_AUTO, 0, &stream), -error);
	assert_non_null(strstr(spw_err_text(), word));
	assert_non_null(strstr(spw_err_text(), "camera"));
}

static void test_refused(void **state)
{
	struct owner owner = owner_make("host"), good = owner;

	(void)state;
	owner.place.memory_bytes--;
	refuse(&owner, EPROTO, "buffers");
	owner.place.memory_bytes = 1 << 20;
	refuse(&owner, EPROTO, "cannot be mapped");
	owner = good;
	owner.place.page_bytes += 4096;
	refuse(&owner, EPROTO, "cannot be mapped");
	owner = good;
	owner.place.page_fd = 1000;
	refuse(&owner, ENOENT, "/fd/1000");
	owner = good;
	owner.page->version++;
	refuse(&good, EPROTO, "version");
	owner.page->version--;
	owner.page->consumer_pid = 1;
	refuse(&good, EBUSY, "(pid 1)");
	owner.page->consumer_pid = 0;
	spw_tensor_close(attach(&good, SPW_TENSOR_AUTO));
	owner_end(&good);
}

/* ---- with a GPU ---- */

static void test_stream_order(void **state)
{
	struct owner owner = owner_make("cuda-host");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_AUTO);
	struct spw_tensor tensor = take(&owner, stream);
	struct versioned *t = export(stream, &tensor, true, true, 0x1234);

	(void)state;
	fake_driver.running = 1;
	assert_int_equal(t->device_type, DL_CUDA);
	assert_int_equal((uintptr_t)t->data, (uintptr_t)tensor.data + FAKE_AT);
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	t->deleter(t);
	assert_int_equal(fake_driver.records, 0); /* a deleter calls no CUDA */
	for (int i = 0; i < 3; i++)
		look(stream);
	assert_int_equal(fake_driver.records, 1);
	assert_int_equal(fake_driver.recorded, 0x1234);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS - 1);
	fake_driver.running = 0;
	look(stream);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	tensor = take(&owner, stream); /* the same buffer: its event is recorded anew */
	t = export(stream, &tensor, true, true, 2);
	t->deleter(t);
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	look(stream);
	assert_int_equal(fake_driver.records, 2);
	assert_int_equal(fake_driver.recorded, 1); /* a thread's own stream, by the legacy one */
	spw_tensor_close(stream);
	assert_int_equal(fake_driver.events + fake_driver.registered + fake_driver.contexts, 0);
	owner_end(&owner);
}

static void test_captures(void **state)
{
	struct owner owner = owner_make("cuda-host");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_CUDA);
	struct spw_tensor tensor = take(&owner, stream);
	const uint32_t before = fake_driver.records;

	(void)state;
	assert_int_equal(spw_tensor_record(stream, &tensor, 0x99), 0);
	fake_driver.capturing = 1;
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	look(stream);
	assert_int_equal(fake_driver.records, before); /* the event would be the graph's */
	fake_driver.capturing = 0;
	fake_driver.captured_once = 1;
	look(stream);
	assert_int_equal(fake_driver.records, before + 1);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS - 1);
	look(stream); /* recorded again, outside the capture */
	assert_int_equal(fake_driver.records, before + 2);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	tensor = take(&owner, stream);
	assert_int_equal(spw_tensor_record(stream, &tensor, 0x99), 0);
	fake_driver.record_error = 700; /* the context failed: nothing runs in it any more */
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	look(stream);
	fake_driver.record_error = 0;
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	spw_tensor_close(stream);
	owner_end(&owner);
}

static void test_many_streams(void **state)
{
	struct owner owner = owner_make("host");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_CUDA);
	struct spw_tensor tensor = take(&owner, stream);
	const uint32_t before = fake_driver.records;

	(void)state;
	for (uintptr_t i = 0; i < 2 * TENSOR_NOTED_MAX; i++)
		assert_int_equal(spw_tensor_record(stream, &tensor, 100 + i / 2), 0);
	assert_int_equal(spw_tensor_record(stream, &tensor, 99), -ENOSPC);
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	assert_int_equal(spw_tensor_record(stream, &tensor, 100), -EALREADY);
	look(stream);
	assert_int_equal(fake_driver.records, before + TENSOR_NOTED_MAX);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	spw_tensor_close(stream);
	owner_end(&owner);
}

/* ---- deleters of other threads ---- */

#define ROUNDS  500
#define THREADS 3

static void *pending[THREADS]; /* a tensor for each thread, by exchange */

static void *delete_all(void *arg)
{
	void **mine = arg;

	for (int done = 0; done < ROUNDS;) {
		struct managed *t = spw_thr_exchange(mine, NULL);

		if (t) {
			t->deleter(t);
			done++;
		} else {
			sched_yield();
		}
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct owner owner = owner_make("cuda-host");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_AUTO);
	uint32_t given[THREADS] = {0};
	pthread_t thread[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, delete_all, &pending[i]);
	for (uint32_t n = 0; n < ROUNDS * THREADS;) {
		struct spw_tensor tensor;

		owner_publish(&owner);
		if (spw_tensor_next(stream, 1000000, &tensor))
			continue;
		for (int i = 0; i < THREADS; i++) {
			if (given[i] == ROUNDS || spw_thr_load_acq(&pending[i]))
				continue;
			spw_thr_store_rel(&pending[i], export(stream, &tensor, false, n % 2, 3));
			given[i]++;
			n++;
		}
		assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	}
	spw_tensor_close(stream); /* beside the last deleters */
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	while (owner.page->tail < owner.page->head && owner_free_cnt(&owner) < BUFFERS) {
		uint64_t generation; /* published, and never taken */
		int b = spw_obj_take(owner.page, &generation);

		spw_obj_release(owner.page, (uint32_t)b, generation, 0);
	}
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	assert_int_equal(owner.page->consumer_pid, 0);
	assert_int_equal(fake_driver.events + fake_driver.registered + fake_driver.contexts, 0);
	owner_end(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_release),      cmocka_unit_test(test_exports),
		cmocka_unit_test(test_end),          cmocka_unit_test(test_refused),
		cmocka_unit_test(test_stream_order), cmocka_unit_test(test_captures),
		cmocka_unit_test(test_many_streams), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
