/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Writes pcapng: one section, interfaces, packets with nanosecond stamps, and at the end what each interface lost. Blocks are
 * gathered in a buffer and written in one piece; a piece that the disk does not take is given up, counted, and cut off the
 * file again, so that the file is whole at every moment.
 *
 * Thread: one at a time. Nothing here is for a data path: it copies, and it may wait for the disk.
 * Source: the IETF's pcapng draft (draft-ietf-opsawg-pcapng): section header, interface description, enhanced packet and
 * interface statistics blocks.
 */
#ifndef SPW_PCAPNG_H
#define SPW_PCAPNG_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PCAPNG_PACKET_MAX (64u << 10) /* bytes kept of a packet at most; the rest is cut off */

/* LINKTYPE_ numbers of the tcpdump registry. */
enum spw_pcapng_link { SPW_PCAPNG_ETHERNET = 1, SPW_PCAPNG_USER0 = 147 };

enum spw_pcapng_way { SPW_PCAPNG_UNKNOWN = 0, SPW_PCAPNG_IN = 1, SPW_PCAPNG_OUT = 2 };

struct spw_pcapng_packet {
	uint32_t iface;
	enum spw_pcapng_way way;
	uint64_t stamp_ns;      /* since 1970, or of any clock that all of the file's stamps are of */
	const void *data;
	uint32_t bytes;         /* of data */
	uint32_t wire_bytes;    /* of the whole packet, >= bytes */
	const char *comment;    /* NULL: none; up to 4095 characters */
};

struct spw_pcapng;

/* Purpose: a new file with its section header; an old one of that name is gone. Owner: the caller, until spw_pcapng_close.
 * Errors:  -errno with path and reason; -ENOMEM. */
int spw_pcapng_open(const char *path, struct spw_pcapng **file_out);

/* Purpose: describes the next interface. Shape: before the first packet; snap_bytes 0: packets are kept whole; name and text up
 *          to 255 characters, text may be NULL. Returns: its number, from 0; or -errno as spw_pcapng_open. */
int spw_pcapng_interface(struct spw_pcapng *file, uint16_t link, uint32_t snap_bytes, const char *name, const char *text);

/* Purpose: adds a packet to the buffer; writes the buffer when it is full. */
void spw_pcapng_packet(struct spw_pcapng *file, const struct spw_pcapng_packet *packet);

/* Purpose: what came in on an interface and how much of it is not in the file; readers show both. */
void spw_pcapng_statistics(struct spw_pcapng *file, uint32_t iface, uint64_t stamp_ns, uint64_t received, uint64_t dropped);

/* Purpose: writes what is buffered. Returns: 0, or -errno of the disk: what was buffered is lost and counted. */
int spw_pcapng_flush(struct spw_pcapng *file);

/* Bytes of the file, buffered ones included; packets that the disk did not take. */
uint64_t spw_pcapng_bytes(const struct spw_pcapng *file);
uint64_t spw_pcapng_lost(const struct spw_pcapng *file);

/* Flushes first. NULL is fine. */
void spw_pcapng_close(struct spw_pcapng *file);

#ifdef __cplusplus
}
#endif
#endif
