/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A trace of what the NIC saw, one pcapng file per device and process, in the order in which it happened:
 *   interface 0 "wire"  Ethernet: frames, direction in the packet flags
 *   interface 1 "wqe"   LINKTYPE_USER0: send WQEs as fetched (with comment: decoded)
 *   interface 2 "cqe"   LINKTYPE_USER1: CQEs as written (likewise)
 * Times are the NIC clock's nanoseconds. The file is lib/pcapng's: it is flushed and closed there.
 */
#ifndef SPW_SOFTHCA_TRACE_H
#define SPW_SOFTHCA_TRACE_H

#include "base/spw_types.h"
#include "pcapng/spw_pcapng.h"

struct nic_qp;
struct nic_swr;
struct nic_cqe;

/* Purpose: opens path, or path/DEVICE-PID.pcapng if it is a directory. Errors: -errno with text. */
int trace_open(const char *path, const char *device, struct spw_pcapng **trace_out);
void trace_frame(struct spw_pcapng *t, const uint8_t *frame, uint32_t len, bool out, uint64_t stamp);
void trace_wqe(struct spw_pcapng *t, const struct nic_qp *q, const struct nic_swr *w);
void trace_cqe(struct spw_pcapng *t, uint32_t cqn, const struct nic_cqe *e, uint8_t opcode, uint64_t stamp);

#endif
