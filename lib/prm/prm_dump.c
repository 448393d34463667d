/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * CQEs and WQEs as text. Pure and cold; softhca's trace, error reports and tests call it.
 *
 * One line of "name=0xvalue" for each field that is not 0; a WQE has one line per segment. A text
 * that does not fit is cut, and the full length is returned, as snprintf does.
 *
 * The bytes may be anything, a WQE of a program with a bug included: what a length field claims is
 * bounded by what was given, and a segment that does not fit is printed as "cut".
 *
 *   WQE     ctrl | av (UD, 48) or eth + inline headers (raw) or raddr [+ atomic] | data, inline ...
 *           16 bytes each unless noted; ctrl.ds counts 16-byte units of the whole
 */
#include <stdarg.h>
#include <stdio.h>

#include "prm/spw_prm.h"

#define SEG_BYTES 16u /* segments of a WQE start at multiples of this */

/* A text under construction. */
struct out {
	char *text;
	size_t size;
	int len; /* that the whole text needs; beyond size nothing is stored */
};

/* Once the buffer is full only the length grows. */
static void SPW_PRINTF(2, 3) dump_put(struct out *o, const char *fmt, ...)
{
	const size_t at = (size_t)o->len < o->size ? (size_t)o->len : o->size;
	va_list ap;

	va_start(ap, fmt);
	o->len += vsnprintf(at < o->size ? o->text + at : NULL, o->size - at, fmt, ap);
	va_end(ap);
}

/* A field that is 0 is left out: most are, and the layout is fixed. */
static void dump_fields(struct out *o, const struct spw_prm_format *fmt, const void *p)
{
	for (unsigned i = 0; i < fmt->field_cnt; i++) {
		const uint64_t v = spw_prm_field_get(&fmt->fields[i], p);

		if (v)
			dump_put(o, "%s%s=0x%llx", o->len ? " " : "", fmt->fields[i].name,
				 (unsigned long long)v);
	}
}

/* Error CQEs have a layout of their own, and their syndrome is the reason that a user looks for. A
 * requester's CQE also names the operation that it completes. */
int spw_prm_dump_cqe(const void *cqe, char *text, size_t size)
{
	const unsigned opcode = spw_prm_cqe64_get_opcode(cqe);
	const bool err = opcode == SPW_PRM_CQE_REQ_ERR || opcode == SPW_PRM_CQE_RESP_ERR;
	struct out o = {text, size, 0};

	dump_put(&o, "%s", spw_prm_cqe_opcode_name(opcode));
	if (err)
		dump_put(&o, " %s (%s)", spw_prm_syndrome_name(spw_prm_cqe_err_get_syndrome(cqe)),
			 spw_prm_syndrome_text(spw_prm_cqe_err_get_syndrome(cqe)));
	if (opcode == SPW_PRM_CQE_REQ || opcode == SPW_PRM_CQE_REQ_ERR)
		dump_put(&o, " of %s", spw_prm_wqe_opcode_name(spw_prm_cqe64_get_send_opcode(cqe)));
	dump_fields(&o, spw_prm_format(err ? "cqe_err" : "cqe64"), cqe);
	return o.len;
}

/* "cut" where the WQE ends inside the segment. */
static void dump_segment(struct out *o, const char *name, const uint8_t *p, size_t left)
{
	const struct spw_prm_format *fmt = spw_prm_format(name);

	dump_put(o, "\n%s:", name);
	if (left < fmt->bytes)
		dump_put(o, " cut");
	else
		dump_fields(o, fmt, p);
}

/* Data and inline segments up to the WQE's end. An inline segment begins with its length, whose top
 * bit separates it from a data segment, and is rounded up to 16 bytes. */
static void dump_data(struct out *o, const uint8_t *p, size_t left)
{
	while (left >= SEG_BYTES) {
		size_t seg = SEG_BYTES;

		if (spw_prm_wqe_data_get_inline_seg(p)) {
			seg = SPW_ALIGN_UP((size_t)spw_prm_wqe_inline_get_byte_count(p) + 4,
					   (size_t)SEG_BYTES);
			dump_segment(o, "wqe_inline", p, left);
		} else {
			dump_segment(o, "wqe_data", p, left);
		}
		if (seg > left)
			return;
		p += seg;
		left -= seg;
	}
}

/* Opcodes whose ctrl segment is followed by a remote address. */
static bool dump_has_raddr(unsigned opcode)
{
	return opcode == SPW_PRM_OP_RDMA_WRITE || opcode == SPW_PRM_OP_RDMA_WRITE_IMM ||
	       opcode == SPW_PRM_OP_RDMA_READ || opcode == SPW_PRM_OP_ATOMIC_CS ||
	       opcode == SPW_PRM_OP_ATOMIC_FA;
}

/* The ctrl segment names the opcode and the length (ds, in 16 bytes); what follows depends on the
 * transport: an address vector (UD), an Ethernet segment (raw), a remote address (RDMA). */
int spw_prm_dump_wqe(const void *wqe, size_t bytes, enum spw_prm_transport transport, char *text,
		     size_t size)
{
	const uint8_t *p = wqe;
	struct out o = {text, size, 0};
	unsigned opcode;
	size_t left;

	if (bytes < SEG_BYTES) {
		dump_put(&o, "cut");
		return o.len;
	}
	opcode = spw_prm_wqe_ctrl_get_opcode(p);
	left = SPW_MIN(bytes, (size_t)spw_prm_wqe_ctrl_get_ds(p) * SEG_BYTES);
	dump_put(&o, "%s", spw_prm_wqe_opcode_name(opcode));
	dump_fields(&o, spw_prm_format("wqe_ctrl"), p);
	if (left <= SEG_BYTES)
		return o.len;
	p += SEG_BYTES;
	left -= SEG_BYTES;
	if (transport == SPW_PRM_UD || transport == SPW_PRM_RAW) {
		const char *name = transport == SPW_PRM_UD ? "wqe_av" : "wqe_eth";
		size_t seg = transport == SPW_PRM_UD ? 48 : SEG_BYTES;

		dump_segment(&o, name, p, left);
		if (transport == SPW_PRM_RAW && left >= SEG_BYTES &&
		    spw_prm_wqe_eth_get_inline_hdr_sz(p) > 2)
			seg = SPW_ALIGN_UP((size_t)spw_prm_wqe_eth_get_inline_hdr_sz(p) + 14,
					   (size_t)SEG_BYTES);
		if (seg > left)
			return o.len;
		p += seg;
		left -= seg;
	} else if (dump_has_raddr(opcode)) {
		const bool atomic = opcode == SPW_PRM_OP_ATOMIC_CS ||
				    opcode == SPW_PRM_OP_ATOMIC_FA;

		dump_segment(&o, "wqe_raddr", p, left);
		if (left < SEG_BYTES)
			return o.len;
		p += SEG_BYTES;
		left -= SEG_BYTES;
		if (atomic && left >= SEG_BYTES) {
			dump_segment(&o, "wqe_atomic", p, left);
			p += SEG_BYTES;
			left -= SEG_BYTES;
		}
	}
	dump_data(&o, p, left);
	return o.len;
}
