/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The trace (trace.h): opens the file and writes its packets through lib/pcapng. Called under
 * spw_unlikely(trace != NULL) only, so it costs a branch while it is off.
 *
 * Callers: tx.c and eth/rx.c for frames, transport/sq.c for WQEs, cq/cq.c for CQEs; run/dev.c opens
 * the file at attach, and the command trace= replaces it (inject/control.c). What to know before
 * changing it: IF_* are the numbers that spw_pcapng_interface() returns, so the order of the calls
 * in trace_open counts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "prm/spw_prm.h"
#include "softhca/cable/cable.h"
#include "softhca/nic/port/trace.h"

#define TEXT_BYTES 1024u
enum { IF_WIRE, IF_WQE, IF_CQE };

/* Each device and process needs a file of its own: path, or a name next to it. */
static int trace_file_open(const char *path, const char *device, struct spw_pcapng **file_out)
{
	char other[512];
	struct stat st;
	int rc;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		snprintf(other, sizeof(other), "%s/%s-%d.pcapng", path, device, (int)getpid());
		return spw_pcapng_open(other, file_out);
	}
	rc = spw_pcapng_open(path, file_out);
	if (rc != -EBUSY)
		return rc;
	snprintf(other, sizeof(other), "%s.%s.%d", path, device, (int)getpid());
	spw_warn("%s of process %d: its trace is %s; %s is another's", device, (int)getpid(), other,
		 path);
	return spw_pcapng_open(other, file_out);
}

int trace_open(const char *path, const char *device, struct spw_pcapng **trace_out)
{
	int rc = trace_file_open(path, device, trace_out);

	if (rc)
		return spw_err_ctx(rc, "trace");
	if ((rc = spw_pcapng_interface(*trace_out, SPW_PCAPNG_ETHERNET, 0, "wire", NULL)) !=
		    IF_WIRE ||
	    (rc = spw_pcapng_interface(*trace_out, SPW_PCAPNG_USER0, 0, "wqe", NULL)) != IF_WQE ||
	    (rc = spw_pcapng_interface(*trace_out, SPW_PCAPNG_USER0 + 1, 0, "cqe", NULL)) !=
		    IF_CQE) {
		spw_pcapng_close(*trace_out);
		*trace_out = NULL;
		return rc;
	}
	return 0;
}

/* The dump of a WQE or CQE is the packet's comment: Wireshark shows it beside the bytes. */
static void trace_put(struct spw_pcapng *t, uint32_t iface, enum spw_pcapng_direction direction,
		      uint64_t stamp, const void *data, uint32_t bytes, const char *comment)
{
	spw_pcapng_packet(t, &(struct spw_pcapng_packet){.iface = iface,
							 .direction = direction,
							 .stamp_ns = stamp,
							 .data = data,
							 .bytes = bytes,
							 .wire_bytes = bytes,
							 .comment = comment});
}

/* No comment: Wireshark decodes RoCE by itself. */
void trace_frame(struct spw_pcapng *t, const uint8_t *frame, uint32_t len, bool out, uint64_t stamp)
{
	trace_put(t, IF_WIRE, out ? SPW_PCAPNG_OUT : SPW_PCAPNG_IN, stamp, frame,
		  SPW_MIN(len, CABLE_FRAME_MAX), NULL);
}

/* A WQE does not name its transport, without which its segments cannot be decoded. */
void trace_wqe(struct spw_pcapng *t, uint32_t qpn, enum spw_prm_transport transport,
	       const uint8_t *wqe, uint32_t bytes, uint64_t stamp)
{
	char text[TEXT_BYTES];
	const int n = snprintf(text, sizeof(text), "qpn=0x%x ", qpn);

	spw_prm_dump_wqe(wqe, bytes, transport, text + n, sizeof(text) - (size_t)n);
	trace_put(t, IF_WQE, SPW_PCAPNG_OUT, stamp, wqe, bytes, text);
}

/* The opcode is put into the byte with the owner bit when the CQE is written; here it is added to
 * the copy. */
void trace_cqe(struct spw_pcapng *t, uint32_t cqn, const uint64_t *cqe, uint8_t opcode,
	       uint64_t stamp)
{
	uint64_t copy[8];
	char text[TEXT_BYTES];
	const int n = snprintf(text, sizeof(text), "cqn=0x%x ", cqn);

	memcpy(copy, cqe, sizeof(copy));
	spw_prm_cqe64_set_opcode(copy, opcode);
	spw_prm_dump_cqe(copy, text + n, sizeof(text) - (size_t)n);
	trace_put(t, IF_CQE, SPW_PCAPNG_IN, stamp, copy, sizeof(copy), text);
}
