/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An attached stream: its mappings, who may take from it, and the references to each object.
 *
 * slot.word  | generation 48 | held 1 | exports 15 |
 *
 *   taken: held ─ export: + 1 ─ deleter: - 1 ─ release: not held ─> 0 references
 *     no stream noted: back to the owner, from any thread
 *     else: onto the list `dropped` ─reap─> `waiting` until its events have passed ─> to the owner
 *
 * The stream itself has a reference of its user's, until close, and one for each object that is not
 * yet back; the last one unmaps everything. What works on an object beyond its last reference has
 * one more.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_fork.h"
#include "base/spw_monotonic.h"
#include "tensor/tensor.h"

#define SLOT_HELD    0x8000u
#define SLOT_EXPORTS 0x7fffu
#define SLOT_REFS    0xffffu

#define SPIN_NS  20000 /* before the first sleep */
#define LOOK_NS  20000 /* between two looks at events, while nothing else is done */
#define SLEEP_NS 100000
#define CLOSE_NS (5 * TENSOR_NS_PER_S) /* for kernels */

void tensor_sleep_ns(int64_t ns)
{
	nanosleep(&(struct timespec){ns / TENSOR_NS_PER_S, ns % TENSOR_NS_PER_S}, NULL);
}

/* In a child of fork(), the mappings are shared with the parent and the counters of references are
 * a copy: releasing there would return buffers that the parent still reads. */
static int tensor_forked(const struct spw_tensor_stream *stream)
{
	return stream->forks == spw_fork_cnt
		       ? 0
		       : spw_err(ECHILD,
				 "stream %s was opened before a fork: open it in this "
				 "process",
				 stream->page->name);
}

/* ---- the stream's own references ---- */

/* The events go before the context that they belong to, and the claim is returned while the page is
 * still mapped. No buffer is TAKEN any more: each had a reference to the stream. */
static void stream_free(struct spw_tensor_stream *stream)
{
	for (uint32_t i = 0; stream->cuda.calls && i < stream->page->buffer_cnt; i++)
		tensor_cuda_forget(&stream->cuda, &stream->slot[i].noted);
	tensor_cuda_close(&stream->cuda);
	spw_obj_page_reclaim(stream->page, (uint32_t)getpid());
	if (stream->memory)
		munmap(stream->memory, stream->memory_bytes);
	munmap(stream->page, stream->page_bytes);
	close(stream->owner_fd);
	pthread_mutex_destroy(&stream->reap_lock);
	free(stream);
}

static void stream_ref(struct spw_tensor_stream *stream)
{
	spw_thr_fetch_add(&stream->refs, 1u);
}

static void stream_unref(struct spw_tensor_stream *stream)
{
	if (spw_thr_fetch_add(&stream->refs, -1u) == 1)
		stream_free(stream);
}

/* ---- objects on their way back ---- */

/* From here on the slot may be another object's. */
static void slot_return(struct spw_tensor_stream *stream, uint32_t buffer)
{
	spw_obj_release(stream->page, buffer, stream->slot[buffer].generation, spw_cpu_counter());
	stream_unref(stream);
}

/* [TE2] acquires the list: who pushed has dropped the last reference. */
static void tensor_collect(struct spw_tensor_stream *stream)
{
	uint32_t at = spw_thr_exchange(&stream->dropped, 0u), next;

	for (; at; at = next) {
		next = stream->slot[at - 1].next;
		stream->slot[at - 1].next = stream->waiting;
		stream->waiting = at;
	}
}

/* Not in the order of release: an object whose kernels have ended does not wait for one whose have
 * not. Only the holder of reap_lock changes `waiting`. */
static void tensor_return_passed(struct spw_tensor_stream *stream)
{
	uint32_t *link = &stream->waiting, at;

	while ((at = *link)) {
		struct tensor_slot *slot = &stream->slot[at - 1];

		if (tensor_cuda_passed(&stream->cuda, &slot->noted)) {
			*link = slot->next;
			slot_return(stream, at - 1);
		} else {
			link = &slot->next;
		}
	}
}

/* The caller has a reference to the stream. limit_ns: how long kernels may take; 0 looks once. When
 * the time is over, what still waits stays on the list: its buffer is never handed to the owner
 * while a kernel may read it. */
static void tensor_reap(struct spw_tensor_stream *stream, int64_t limit_ns)
{
	const uint64_t until = limit_ns ? spw_monotonic_ns() + (uint64_t)limit_ns : 0;

	pthread_mutex_lock(&stream->reap_lock);
	for (;;) {
		tensor_collect(stream);
		tensor_return_passed(stream);
		if (!stream->waiting || spw_monotonic_ns() >= until)
			break;
		tensor_sleep_ns(LOOK_NS);
	}
	pthread_mutex_unlock(&stream->reap_lock);
}

/* `closed` is read by an operation that spw_tensor_close's own is ordered with: either finds the
 * other's, so nobody leaves the object on the list. */
static void slot_push(struct spw_tensor_stream *stream, uint32_t buffer)
{
	struct tensor_slot *slot = &stream->slot[buffer];
	uint32_t head = spw_thr_load_rlx(&stream->dropped);

	stream_ref(stream);
	do
		slot->next = head;
	while (!spw_thr_cas(&stream->dropped, &head, buffer + 1)); /* [TE1] releases it */
	if (spw_thr_fetch_add(&stream->closed, 0u))
		tensor_reap(stream, CLOSE_NS);
	stream_unref(stream);
}

/* ---- references to an object ---- */

/* [TE3] Both ends: what a reference's user read and wrote comes before the last one is dropped. */
static int slot_change(struct spw_tensor_stream *stream, uint32_t buffer, uint64_t word,
		       uint64_t new_word)
{
	struct tensor_slot *slot = &stream->slot[buffer];

	if (!spw_thr_cas(&slot->word, &word, new_word))
		return -EAGAIN;
	if (!(new_word & SLOT_REFS)) {
		if (spw_thr_load_rlx(&slot->noted.cnt))
			slot_push(stream, buffer);
		else
			slot_return(stream, buffer);
	}
	return 0;
}

/* Returns: the slot's word if the tensor has one of `refs` there, else 0. */
static uint64_t slot_read(struct spw_tensor_stream *stream, const struct spw_tensor *tensor,
			  uint64_t refs)
{
	uint64_t word;

	if (tensor->buffer >= stream->page->buffer_cnt)
		return 0;
	word = spw_thr_load_acq(&stream->slot[tensor->buffer].word);
	return word >> 16 == tensor->generation << 16 >> 16 && word & refs ? word : 0;
}

static int slot_gone(struct spw_tensor_stream *stream)
{
	return spw_err(EALREADY, "stream %s: the object was released", stream->page->name);
}

/* An export may be made while the object is held, or of another export; without either, the buffer
 * may be another object's already. The check and the increment are one CAS, so that a release in
 * between makes it fail. */
int tensor_keep(struct spw_tensor_stream *stream, const struct spw_tensor *tensor)
{
	int rc = tensor_forked(stream);
	uint64_t word;

	if (rc)
		return rc;
	do {
		word = slot_read(stream, tensor, SLOT_REFS);
		if (!word)
			return slot_gone(stream);
		if ((word & SLOT_EXPORTS) == SLOT_EXPORTS)
			return spw_err(ENOSPC, "%u tensors of one object", SLOT_EXPORTS);
	} while (slot_change(stream, tensor->buffer, word, word + 1));
	return 0;
}

/* No generation is compared: an export's own reference keeps the object in its slot. */
void tensor_drop(struct spw_tensor_stream *stream, uint32_t buffer)
{
	uint64_t word;

	if (stream->forks != spw_fork_cnt)
		return;
	do
		word = spw_thr_load_acq(&stream->slot[buffer].word);
	while (slot_change(stream, buffer, word, word - 1));
}

int spw_tensor_release(struct spw_tensor_stream *stream, const struct spw_tensor *tensor)
{
	int rc = tensor_forked(stream);
	uint64_t word;

	if (rc)
		return rc;
	do {
		word = slot_read(stream, tensor, SLOT_HELD);
		if (!word)
			return slot_gone(stream);
	} while (slot_change(stream, tensor->buffer, word, word & ~(uint64_t)SLOT_HELD));
	return 0;
}

/* The thread's own default stream is another one in the thread that records the event; the legacy
 * stream waits for all of these. */
int spw_tensor_record(struct spw_tensor_stream *stream, const struct spw_tensor *tensor,
		      uintptr_t cuda_stream)
{
	const uintptr_t noted = cuda_stream > 2 ? cuda_stream : 1;
	struct tensor_noted *to;
	uint32_t cnt, at;
	int rc = tensor_forked(stream);

	if (rc)
		return rc;
	if (!stream->cuda.calls)
		return spw_err(ENOTSUP, "stream %s is read by the CPU alone: open it for a GPU",
			       stream->page->name);
	if (!slot_read(stream, tensor, SLOT_REFS))
		return slot_gone(stream);
	to = &stream->slot[tensor->buffer].noted;
	cnt = spw_thr_load_rlx(&to->cnt);
	for (at = 0; at < SPW_MIN(cnt, TENSOR_NOTED_MAX); at++)
		if (spw_thr_load_rlx(&to->stream[at]) == noted)
			return 0;
	at = cnt < TENSOR_NOTED_MAX ? spw_thr_fetch_add(&to->cnt, 1u) : cnt;
	if (at >= TENSOR_NOTED_MAX)
		return spw_err(ENOSPC, "an object is read in %u CUDA streams at most",
			       TENSOR_NOTED_MAX);
	spw_thr_store_rlx(&to->stream[at], noted);
	return 0;
}

/* ---- next ---- */

/* All of the slot is written before its word is stored: until then no call finds a reference in it.
 * The reference to the stream is the object's; slot_return drops it. */
static void tensor_fill(struct spw_tensor_stream *stream, uint32_t buffer, uint64_t generation,
			struct spw_tensor *tensor_out)
{
	struct tensor_slot *slot = &stream->slot[buffer];
	const struct spw_obj_page *page = stream->page;
	const uint64_t at = buffer * page->buffer_stride;

	stream_ref(stream);
	slot->generation = generation;
	slot->noted.cnt = slot->noted.recorded = 0;
	spw_thr_store_rel(&slot->word, generation << 16 | SLOT_HELD); /* [TE3] */
	*tensor_out = (struct spw_tensor){
		.data = stream->memory ? stream->memory + at : NULL,
		.cuda = stream->cuda.calls ? stream->cuda.at + at : 0,
		.receipt = &page->buffer[buffer].receipt,
		.generation = generation,
		.buffer = buffer,
	};
}

static bool tensor_owner_died(const struct spw_tensor_stream *stream)
{
	struct pollfd fd = {.fd = stream->owner_fd, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

/* Until the owner has published more than `wake`, or a moment is over: the owner, which may make no
 * system call, wakes nobody, so a moment is what a consumer that sleeps is late by. */
static void tensor_wait(struct spw_tensor_stream *stream, uint32_t wake, int64_t waited_ns,
			int64_t left_ns)
{
	const struct timespec sleep = {0, SPW_MIN(left_ns, SLEEP_NS)};

	if (waited_ns < SPIN_NS)
		spw_cpu_relax();
	else
		syscall(SYS_futex, &stream->page->wake, FUTEX_WAIT, wake, &sleep, NULL, 0);
}

static int tensor_over(const struct spw_tensor_stream *stream, int rc, bool died)
{
	if (rc == -EPIPE)
		return spw_err(EPIPE, "stream %s has ended", stream->page->name);
	if (died)
		return spw_err(EOWNERDEAD, "stream %s: spinwire (pid %d) died", stream->page->name,
			       stream->owner_pid);
	return spw_err(ETIMEDOUT, "stream %s: no object in time", stream->page->name);
}

/* `wake` and the owner's death are read before the queue is. An object that is published between
 * these reads has changed `wake`, so that the wait returns at once; and objects that an owner
 * published before it died are still taken, before -EOWNERDEAD is returned. */
int spw_tensor_next(struct spw_tensor_stream *stream, int64_t timeout_ns,
		    struct spw_tensor *tensor_out)
{
	const uint64_t begin = spw_monotonic_ns();
	uint64_t generation;
	int rc = tensor_forked(stream);

	if (rc)
		return rc;
	if (spw_thr_load_acq(&stream->closed))
		return spw_err(EINVAL, "the stream is closed");
	for (;;) {
		const uint32_t wake = spw_thr_load_acq(&stream->page->wake);
		const bool died = tensor_owner_died(stream); /* before the last look */
		int64_t waited, left;

		tensor_reap(stream, 0);
		rc = spw_obj_take(stream->page, &generation);
		if (rc >= 0) {
			tensor_fill(stream, (uint32_t)rc, generation, tensor_out);
			return 0;
		}
		waited = (int64_t)(spw_monotonic_ns() - begin);
		left = timeout_ns < 0 ? INT64_MAX : timeout_ns - waited;
		if (rc != -EAGAIN || died || left <= 0)
			return tensor_over(stream, rc, died);
		tensor_wait(stream, wake, waited, left);
	}
}

/* ---- close ---- */

/* `closed` is set before the list is collected (slot_push has the other half): from here on the
 * thread that drops an object's last reference returns the buffer itself, for there is no next call
 * that would. */
void spw_tensor_close(struct spw_tensor_stream *stream)
{
	if (!stream || stream->forks != spw_fork_cnt)
		return;
	spw_thr_exchange(&stream->closed, 1u);
	tensor_reap(stream, CLOSE_NS);
	stream_unref(stream);
}

/* ---- what it is ---- */

const struct spw_obj_page *spw_tensor_page(const struct spw_tensor_stream *stream)
{
	return stream->page;
}

int32_t spw_tensor_pid(const struct spw_tensor_stream *stream)
{
	return stream->owner_pid;
}

int32_t spw_tensor_gpu(const struct spw_tensor_stream *stream)
{
	return stream->cuda.gpu;
}

const char *spw_tensor_error(void)
{
	return spw_err_text();
}

static const struct spw_enum_word state_word[] = {SPW_ENUM_WORDS(SPW_OBJ_STATE)};
static const struct spw_enum_word cause_word[] = {SPW_ENUM_WORDS(SPW_OBJ_CAUSE)};

const char *spw_tensor_state_name(uint32_t state)
{
	return SPW_ENUM_NAME(state_word, state);
}

const char *spw_tensor_cause_name(uint32_t cause)
{
	return SPW_ENUM_NAME(cause_word, cause);
}
