/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A writer of pcapng files: one section, its interfaces, packets with nanosecond stamps, and at the
 * end what each interface lost. Blocks are collected in a buffer and written together. If the disk
 * refuses a write, its packets are dropped and counted, and a partial write is cut off the file:
 * the file is valid at every moment.
 *
 * Thread: any, one at a time for each file. Not for a data path: it copies, and may wait for the
 * disk. Source: draft-ietf-opsawg-pcapng, blocks: section header, interface description, enhanced
 * packet, interface statistics.
 */
#ifndef SPW_PCAPNG_H
#define SPW_PCAPNG_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PCAPNG_PACKET_MAX (64u << 10) /* bytes stored of a packet; the rest is cut off */

/* Numbers of tcpdump's LINKTYPE_ registry. */
enum spw_pcapng_link { SPW_PCAPNG_ETHERNET = 1, SPW_PCAPNG_USER0 = 147 };

/* Direction, as in bits 0 .. 1 of the packet's flags option. */
enum spw_pcapng_direction { SPW_PCAPNG_UNKNOWN = 0, SPW_PCAPNG_IN = 1, SPW_PCAPNG_OUT = 2 };

struct spw_pcapng_packet {
	uint32_t iface;
	enum spw_pcapng_direction direction;
	uint64_t stamp_ns; /* since 1970, or of any clock, the same for all packets of the file */
	const void *data;
	uint32_t bytes;      /* of data */
	uint32_t wire_bytes; /* of the whole packet, >= bytes */
	const char *comment; /* NULL: none; up to 4095 characters */
};

struct spw_pcapng;

/* Purpose: opens a new file and writes its section header. An old file of that name is emptied.
 * Owner: the caller, until spw_pcapng_close.
 * Thread: setup.
 * Errors: as spw_file_create (-EBUSY: another program is writing the file); -ENOMEM; -errno of the
 *   disk.
 */
int spw_pcapng_open(const char *path, struct spw_pcapng **file_out);

/* Purpose: describes the next interface.
 * Shape: before the first packet; link as enum spw_pcapng_link; snap_bytes 0: packets are stored
 *   whole; name and text up to 255 characters, text may be NULL.
 * Returns: its number, from 0.
 * Errors: -errno of the disk.
 */
int spw_pcapng_interface(struct spw_pcapng *file, uint16_t link, uint32_t snap_bytes,
			 const char *name, const char *text);

/* Purpose: adds a packet to the buffer; writes the buffer first if the packet does not fit.
 * Shape: packet->iface is a number that spw_pcapng_interface returned. data is copied.
 * Errors: none here; packets that the disk refused are counted by spw_pcapng_lost.
 */
void spw_pcapng_packet(struct spw_pcapng *file, const struct spw_pcapng_packet *packet);

/* Purpose: records how many packets an interface received and how many of them are not in the file;
 *   readers show both.
 * Shape: after its last packet.
 */
void spw_pcapng_statistics(struct spw_pcapng *file, uint32_t iface, uint64_t stamp_ns,
			   uint64_t received, uint64_t dropped);

/* Purpose: writes the buffer.
 * Errors: -errno of the disk (without a text): the buffered packets are lost and counted.
 */
int spw_pcapng_flush(struct spw_pcapng *file);

/* Purpose: the size of the file, with what is buffered; the packets that the disk refused.
 */
uint64_t spw_pcapng_bytes(const struct spw_pcapng *file);
uint64_t spw_pcapng_lost(const struct spw_pcapng *file);

/* Purpose: flushes, closes and frees. NULL is allowed.
 */
void spw_pcapng_close(struct spw_pcapng *file);

#ifdef __cplusplus
}
#endif
#endif
