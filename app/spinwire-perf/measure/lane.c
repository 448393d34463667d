/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Connections over rails, and their memory (lane.h).
 *
 *   client                                              server
 *   {"case", "rails", "half", "fresh": true}     ->     opens its devices, listens
 *                                                <-     {"handle": hex}
 *   connects; waits for the other's window              accepts; the same
 *                                                <-     {"ready": true, "memory"}
 *   {"case", "fresh": false}                     ->     has the lane already
 *                                                <-     {"ready": true, "memory"}
 *
 * The case files call perf_lane_client and perf_lane_server at the same time; both return with the
 * lane ready at both ends. Memory stays while it is long enough and of the right kind; a case that
 * needs other memory closes the lane, whose registration covers the old one.
 */
#include "measure/lane.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "measure/gpu.h"

#define OPEN_MS    15000u
#define ANSWER_MS  30000u
#define FLAG_LINE  64u
#define HANDLE_HEX (2 * SPW_XFER_HANDLE_BYTES + 1)

/* ---- memory ---- */

/* The endpoint owns connection, listener and registration; closing it invalidates all of them. */
void perf_lane_close(struct perf_lane *lane)
{
	spw_xfer_close(lane->x);
	lane->x = NULL;
	lane->mem = NULL;
	lane->listener = NULL;
	lane->conn = NULL;
	lane->remote = NULL;
	lane->rails[0] = '\0';
}

void perf_lane_free(struct perf_lane *lane)
{
	perf_lane_close(lane);
	spw_region_free(&lane->region);
	memset(&lane->region, 0, sizeof(lane->region));
}

/* Whether the region serves messages of that length for CPU or GPU. */
static bool memory_fits(const struct perf_lane *lane, uint64_t half, bool for_gpu)
{
	return lane->region.bytes && lane->half >= half && lane->for_gpu == for_gpu;
}

/* Both limits are known before anything is allocated. */
static int lane_memory_refused(const struct perf_lane *lane, uint64_t half, bool for_gpu)
{
	if (lane->memory_max && half > lane->memory_max)
		return spw_err(ENOMEM,
			       "messages of %llu bytes would need %llu MiB of memory, more than a "
			       "quarter of what is free: take smaller ones (--sizes)",
			       (unsigned long long)half, (unsigned long long)(half >> 19));
	if (for_gpu && perf_gpu_missing()[0])
		return spw_err(ENODEV, "no GPU that CUDA can use: %s", perf_gpu_missing());
	return 0;
}

static int lane_memory_make(struct perf_lane *lane, uint64_t half, bool for_gpu)
{
	struct spw_mem_req req = {.kind = for_gpu ? lane->kind : SPW_MEM_AUTO,
				  .numa_node = -1,
				  .executor_is_gpu = for_gpu};
	int rc;

	half = SPW_ALIGN_UP(SPW_MAX(half, PERF_HALF_LEAST), 4096ull);
	if (memory_fits(lane, half, for_gpu))
		return 0;
	if ((rc = lane_memory_refused(lane, half, for_gpu)) < 0)
		return rc;
	perf_lane_free(lane);
	req.bytes = 2 * half + PERF_FLAG_BYTES;
	rc = spw_region_alloc(&req, &lane->region);
	if (rc < 0)
		memset(&lane->region, 0, sizeof(lane->region));
	lane->half = half;
	lane->for_gpu = for_gpu;
	return rc;
}

/* By which transfers name its bytes; of a GPU's own memory there is no other address. */
static uint8_t *base_of(const struct perf_lane *lane)
{
	return lane->region.host_va ? lane->region.host_va
				    : (uint8_t *)(uintptr_t)lane->region.dev_va;
}

uint64_t perf_lane_gpu_va(const struct perf_lane *lane, const uint8_t *at)
{
	return lane->region.dev_va + (uint64_t)(at - base_of(lane));
}

/* At least one, whatever the size: half is never shorter than the longest message. */
uint32_t perf_lane_slots(const struct perf_lane *lane, const struct perf_case *what)
{
	uint64_t room = what->latency ? lane->half : SPW_MIN(lane->half, PERF_HOT_BYTES);

	room = SPW_MAX(room, what->bytes) / what->bytes;
	return (uint32_t)SPW_MIN(room, (uint64_t)PERF_SLOT_MAX);
}

uint8_t *perf_lane_send_at(const struct perf_lane *lane, const struct perf_case *what,
			   uint64_t slot)
{
	return base_of(lane) + slot % perf_lane_slots(lane, what) * what->bytes;
}

/* A message of up to SPW_XFER_JOIN_BYTES ends at its flag, and arrives with it in one write. */
uint8_t *perf_lane_recv_at(const struct perf_lane *lane, const struct perf_case *what,
			   uint64_t slot)
{
	if (what->bytes <= SPW_XFER_JOIN_BYTES)
		return (uint8_t *)perf_lane_flag_at(lane, slot) - what->bytes;
	return perf_lane_send_at(lane, what, slot) + lane->half;
}

/* The flags lie behind both halves, and within the window. */
uint64_t *perf_lane_flag_at(const struct perf_lane *lane, uint64_t slot)
{
	return (uint64_t *)(void *)(base_of(lane) + 2 * lane->half +
				    slot % PERF_SLOT_MAX * FLAG_LINE + FLAG_LINE / 2);
}

/* On few cores a thread that spins would keep the software NIC's threads, and the other end, from
 * running. */
void perf_lane_idle(const struct perf_lane *lane)
{
	if (lane->yield)
		sched_yield();
	else
		spw_cpu_relax();
}

/* ---- one message ---- */

/* The flag's number grows only with a put that was taken, so no number is skipped. */
int perf_lane_start(struct perf_lane *lane, const struct perf_case *what, uint64_t slot,
		    bool flagged, struct spw_xfer_req **req_out)
{
	uint64_t bytes = what->bytes;
	uint8_t *window = base_of(lane) + lane->half;
	uint8_t *addr = perf_lane_send_at(lane, what, slot);
	struct spw_xfer_access access = {
		.window = lane->remote,
		.offset = (uint64_t)(perf_lane_recv_at(lane, what, slot) - window),
		.mem = lane->mem,
		.addr = addr,
		.bytes = bytes,
		.flag_offset = SPW_XFER_NO_FLAG};
	int rc;

	if (what->op == PERF_SEND)
		return spw_xfer_send(lane->conn, lane->mem, addr, bytes, PERF_LANE_TAG, req_out);
	if (what->op == PERF_READ) /* out of the other end's receive half, into the send half */
		return spw_xfer_get(lane->conn, &access, req_out);
	if (flagged) {
		access.flag_offset = (uint64_t)((uint8_t *)perf_lane_flag_at(lane, slot) - window);
		access.flag = lane->flag + 1;
	}
	rc = spw_xfer_put(lane->conn, &access, req_out);
	lane->flag += flagged && rc == 0;
	return rc;
}

int perf_lane_receive(struct perf_lane *lane, const struct perf_case *what, uint64_t slot,
		      struct spw_xfer_req **req_out)
{
	struct spw_xfer_part part = {.mem = lane->mem,
				     .addr = perf_lane_recv_at(lane, what, slot),
				     .bytes = what->bytes,
				     .tag = PERF_LANE_TAG};

	return spw_xfer_recv(lane->conn, &part, 1, req_out);
}

/* ---- opening ---- */

/* The whole region is registered once; halves and flags are offsets in it. */
static int endpoint_open(struct perf_lane *lane, const char *rails, const char *bind)
{
	struct spw_xfer_conf conf = {.rails = rails, .bind = bind};
	bool dmabuf = lane->region.kind == SPW_MEM_GPU;
	struct spw_xfer_mem_req req = {.kind = dmabuf ? SPW_XFER_DMABUF : SPW_XFER_HOST,
				       .addr = base_of(lane),
				       .bytes = 2 * lane->half + PERF_FLAG_BYTES,
				       .dmabuf_fd = lane->region.dmabuf_fd};
	int rc = spw_xfer_open(&conf, &lane->x);

	if (rc == 0 && (rc = spw_xfer_mem_reg(lane->x, &req, &lane->mem)) == 0)
		snprintf(lane->rails, sizeof(lane->rails), "%s", rails);
	return rc;
}

/* Clears the flags too: no put is under way before both ends have reported the lane ready. */
static int windows_swap(struct perf_lane *lane, const struct perf_ctl *ctl, uint64_t deadline_ns)
{
	int rc = spw_xfer_window_expose(lane->conn, lane->mem, base_of(lane) + lane->half,
					lane->half + PERF_FLAG_BYTES);

	if (lane->region.host_va)
		memset(base_of(lane) + 2 * lane->half, 0, PERF_FLAG_BYTES);
	while (rc == 0 && (rc = spw_xfer_window_remote(lane->conn, 0, &lane->remote)) == -EAGAIN) {
		if (spw_monotonic_ns() > deadline_ns)
			return spw_err(ETIMEDOUT, "%s: exposed no window in %u s", ctl->peer,
				       OPEN_MS / 1000);
		spw_xfer_progress(lane->x);
		perf_lane_idle(lane);
		rc = 0;
	}
	/* Both ends compute addresses of the other one's window from their own half. */
	if (rc == 0 && spw_xfer_window_bytes(lane->remote) != lane->half + PERF_FLAG_BYTES)
		rc = spw_err(EPROTO, "%s: exposed a window of another size", ctl->peer);
	return rc;
}

/* Hex, of a fixed length: nothing of it is interpreted here. */
static int handle_take(const json_t *answer, struct spw_xfer_handle *handle_out)
{
	const char *text = json_string_value(json_object_get(answer, "handle"));

	if (!text || strlen(text) != HANDLE_HEX - 1)
		return spw_err(EPROTO, "the other end sent no handle");
	for (size_t i = 0; i < SPW_XFER_HANDLE_BYTES; i++)
		if (sscanf(text + 2 * i, "%2hhx", &handle_out->byte[i]) != 1)
			return spw_err(EPROTO, "the other end sent no handle");
	return 0;
}

/* Each call of spw_xfer_connect takes the attempt one step on and never blocks. */
static int connect_to(struct perf_lane *lane, const struct perf_ctl *ctl,
		      const struct spw_xfer_handle *handle)
{
	uint64_t deadline = spw_monotonic_ns() + OPEN_MS * 1000000ull;
	int rc;

	while ((rc = spw_xfer_connect(lane->x, handle, &lane->conn)) == -EAGAIN) {
		if (spw_monotonic_ns() > deadline)
			return spw_err(ETIMEDOUT,
				       "no rail came up in %u s: does a firewall let UDP port "
				       "4791 (RoCE v2) through?",
				       OPEN_MS / 1000);
		perf_lane_idle(lane);
	}
	return rc ? rc : windows_swap(lane, ctl, deadline);
}

/* Sent for every case, so that the server has checked that the lane serves it. */
static json_t *lane_request(const struct perf_case *what, const char *theirs, uint64_t half,
			    bool fresh)
{
	return json_pack("{s:o,s:s,s:I,s:b}", "case", perf_case_json(what), "rails", theirs, "half",
			 (json_int_t)half, "fresh", fresh);
}

int perf_lane_give_up(struct perf_lane *lane, struct perf_ctl *ctl, int error)
{
	char text[PERF_TEXT_BYTES];

	snprintf(text, sizeof(text), "%.300s", spw_err_text());
	perf_lane_close(lane);
	spw_err(-error, "%s", text);
	return perf_ctl_give_up(ctl, error);
}

/* This end opens its devices first: an error is then found before the server has done anything. */
static int lane_fresh(struct perf_lane *lane, struct perf_ctl *ctl, const struct perf_case *what,
		      const char *rails, const char *theirs)
{
	struct spw_xfer_handle handle;
	json_t *answer = NULL;
	int rc;

	perf_lane_close(lane);
	if ((rc = endpoint_open(lane, rails, NULL)) < 0 ||
	    (rc = perf_ctl_send(ctl, lane_request(what, theirs, lane->half, true))) < 0 ||
	    (rc = perf_ctl_recv(ctl, ANSWER_MS, &answer)) < 0) {
		perf_lane_close(lane);
		return rc;
	}
	rc = handle_take(answer, &handle);
	json_decref(answer);
	if (rc == 0)
		rc = connect_to(lane, ctl, &handle);
	return rc ? perf_lane_give_up(lane, ctl, rc) : 0;
}

/* A lane with an error is opened afresh: rails that are gone fail the case, not the session. */
int perf_lane_client(struct perf_lane *lane, struct perf_ctl *ctl, const struct perf_case *what,
		     const char *rails, const char *theirs)
{
	bool fresh = !lane->conn || spw_xfer_conn_error(lane->conn) || strcmp(lane->rails, rails);
	json_t *answer = NULL;
	int rc = lane_memory_make(lane, what->bytes, what->gpu);

	if (rc < 0)
		return rc;
	fresh |= !lane->conn; /* larger memory closes the lane */
	rc = fresh ? lane_fresh(lane, ctl, what, rails, theirs)
		   : perf_ctl_send(ctl, lane_request(what, theirs, lane->half, false));
	if (rc == 0)
		rc = perf_ctl_recv(ctl, ANSWER_MS, &answer);
	if (rc == 0)
		perf_text(answer, "memory", lane->there, sizeof(lane->there));
	else
		perf_lane_close(lane);
	json_decref(answer);
	return rc;
}

/* ---- the server's end ---- */

static int handle_give(struct perf_ctl *ctl, const struct spw_xfer_handle *handle)
{
	char text[HANDLE_HEX];

	for (size_t i = 0; i < SPW_XFER_HANDLE_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", handle->byte[i]);
	return perf_ctl_send(ctl, json_pack("{s:s}", "handle", text));
}

/* A message on the control connection is the client's abort: no connection will come. */
static int accept_one(struct perf_lane *lane, struct perf_ctl *ctl)
{
	uint64_t deadline = spw_monotonic_ns() + OPEN_MS * 1000000ull;
	int rc;

	while ((rc = spw_xfer_accept(lane->listener, &lane->conn)) == -EAGAIN) {
		if (perf_ctl_pending(ctl) || spw_monotonic_ns() > deadline)
			return spw_err(ECANCELED, "no connection over the rails came");
		perf_lane_idle(lane);
	}
	return rc ? rc : windows_swap(lane, ctl, deadline);
}

/* Transfers listen at the address that the client reached this end by. */
static int server_fresh(struct perf_lane *lane, struct perf_ctl *ctl, const json_t *req,
			bool for_gpu)
{
	struct spw_xfer_handle handle;
	char rails[sizeof(lane->rails)], bind[64];
	uint64_t half;
	int rc = perf_number(req, "half", SPW_XFER_BYTES_MAX, &half);

	perf_text(req, "rails", rails, sizeof(rails));
	snprintf(bind, sizeof(bind), strchr(ctl->local, ':') ? "[%s]:%u" : "%s:%u", ctl->local,
		 lane->port);
	perf_lane_close(lane);
	if (rc == 0 && (rc = lane_memory_make(lane, half, for_gpu)) == 0 &&
	    (rc = endpoint_open(lane, rails, bind)) == 0 &&
	    (rc = spw_xfer_listen(lane->x, &handle, &lane->listener)) == 0 &&
	    (rc = handle_give(ctl, &handle)) == 0)
		rc = accept_one(lane, ctl);
	return rc;
}

int perf_lane_server(struct perf_lane *lane, struct perf_ctl *ctl, const struct perf_case *what,
		     const json_t *req)
{
	bool fresh = json_is_true(json_object_get(req, "fresh"));
	int rc = 0;

	if (fresh)
		rc = server_fresh(lane, ctl, req, what->gpu);
	else if (!lane->conn || what->bytes > lane->half || what->gpu != lane->for_gpu)
		rc = spw_err(EPROTO, "there is no lane for this case");
	if (rc == 0)
		return perf_ctl_send(ctl, json_pack("{s:b,s:s}", "ready", 1, "memory",
						    spw_mem_kind_name(lane->region.kind)));
	perf_ctl_error(ctl, rc);
	perf_lane_close(lane);
	return rc;
}
