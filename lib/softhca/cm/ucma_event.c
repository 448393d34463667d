/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Files and their events. The application polls a pipe that has one byte for each event that waits;
 * the events themselves are a list, since they move between files and vanish with their identifier.
 *
 *   put     event into the list, byte into the pipe
 *   get     a byte out of the pipe (here a thread waits, without the lock), then the first event
 *   purge   events out of the list, as many bytes out of the pipe
 *
 *   move    both, from the file that an identifier leaves to the one that it enters
 *   close   identifiers go first, and take their events along
 *
 * A thread that has taken a byte may find no event, because it was purged meanwhile: it waits
 * again. The wait is a read() of a descriptor of its own (hca_evq_wait), so signals and
 * cancellation act on it as on the wait inside Linux. Source: Linux drivers/infiniband/core/ucma.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "softhca/cm/cm_impl.h"

/* Beyond requests, which the backlog bounds, an identifier has few events. */
#define EVENTS_MAX 32768u

int ucma_file_open(struct ucma_file **file_out)
{
	struct ucma_file *file = calloc(1, sizeof(*file));
	int rc;

	if (!file)
		return -ENOMEM;
	file->tail = &file->events;
	rc = hca_evq_open_tokens(&file->q);
	if (rc) {
		free(file);
		return rc;
	}
	*file_out = file;
	return 0;
}

/* All identifiers are gone, and with them their events. */
void ucma_file_close(struct ucma_file *file)
{
	hca_evq_close(&file->q);
	free(file);
}

struct ucma_event *ucma_event_new(struct cm_id *id, enum cm_event type, int32_t status)
{
	struct ucma_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->id = id;
	e->resp.uid = id->uid;
	e->resp.id = id->handle;
	e->resp.event = type;
	e->resp.status = (uint32_t)status;
	return e;
}

/* The byte goes first: an event that no poll would show must not exist. */
bool ucma_event_put(struct ucma_event *e)
{
	struct ucma_file *file = e->id->file;
	const uint8_t byte = 0;

	if (!file || file->event_cnt == EVENTS_MAX || !hca_evq_send(&file->q, &byte)) {
		free(e);
		return false;
	}
	e->next = NULL;
	*file->tail = e;
	file->tail = &e->next;
	file->event_cnt++;
	return true;
}

/* Takes an event out of the list, by the place that points to it. */
static struct ucma_event *event_unlink(struct ucma_file *file, struct ucma_event **at)
{
	struct ucma_event *e = *at;

	*at = e->next;
	if (!*at)
		file->tail = at;
	file->event_cnt--;
	return e;
}

/* One byte less, unless a thread that is on its way to the list has it. */
static void pipe_take(struct ucma_file *file)
{
	uint8_t byte;

	(void)!read(file->q.own_fd, &byte, 1);
}

void ucma_event_purge(struct ucma_file *file, const struct cm_id *id, const struct cm_mcast *m)
{
	struct ucma_event **at = &file->events;

	while (*at) {
		struct ucma_event *e = *at;

		if (m ? e->mcast != m : e->id != id && e->conn != id) {
			at = &e->next;
			continue;
		}
		event_unlink(file, at);
		pipe_take(file);
		if (e->conn && e->conn != id)
			cm_id_drop(e->conn);
		free(e);
	}
}

/* In their order, and before new ones: the lock is held throughout. */
void ucma_event_move(struct cm_id *id, struct ucma_file *to)
{
	struct ucma_file *from = id->file;
	struct ucma_event **at = &from->events;

	id->file = to;
	while (*at) {
		struct ucma_event *e = *at;

		if (e->id != id) {
			at = &e->next;
			continue;
		}
		event_unlink(from, at);
		pipe_take(from);
		if (e->conn)
			e->conn->file = to;
		(void)ucma_event_put(e);
	}
}

int ucma_event_get(struct ucma_file *file, sigset_t *old, struct ucma_event **event_out)
{
	for (;;) {
		int rc = hca_evq_wait(&file->q);

		if (rc)
			return rc;
		cm_enter(old);
		if (file->events)
			break;
		cm_exit(old);
	}
	*event_out = event_unlink(file, &file->events);
	return 0;
}
