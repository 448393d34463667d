/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A trace of what the NIC did, one pcapng file per device and process, in order of time:
 *
 *   interface 0  "wire"  Ethernet         frames; direction in the packet flags
 *   interface 1  "wqe"   LINKTYPE_USER0   send WQEs as fetched, decoded in the comment
 *   interface 2  "cqe"   LINKTYPE_USER1   CQEs as written, decoded in the comment
 *
 * Times are the NIC clock's nanoseconds. The file is lib/pcapng's; run/dev.c flushes and closes it.
 * Thread: all calls with the device lock held.
 */
#ifndef SPW_SOFTHCA_PORT_TRACE_H
#define SPW_SOFTHCA_PORT_TRACE_H

#include "base/spw_types.h"
#include "pcapng/spw_pcapng.h"
#include "prm/spw_prm.h"

/* Purpose: opens a trace: path; path/DEVICE-PID.pcapng if path is a folder; path.DEVICE.PID if
 *          another device or process is writing path.
 * Errors:  -errno with text. */
int trace_open(const char *path, const char *device, struct spw_pcapng **trace_out);

/* Purpose: one frame, cut to CABLE_FRAME_MAX; out: it leaves. */
void trace_frame(struct spw_pcapng *t, const uint8_t *frame, uint32_t len, bool out,
		 uint64_t stamp);
/* Purpose: a send WQE that was just fetched, of at most 1024 bytes. */
void trace_wqe(struct spw_pcapng *t, uint32_t qpn, enum spw_prm_transport transport,
	       const uint8_t *wqe, uint32_t bytes, uint64_t stamp);
/* Purpose: a CQE before it is written, 64 bytes; opcode: the one that it will have. */
void trace_cqe(struct spw_pcapng *t, uint32_t cqn, const uint64_t *cqe, uint8_t opcode,
	       uint64_t stamp);

#endif
