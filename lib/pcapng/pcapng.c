/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The pcapng writer. Blocks are built in buf and written together:
 *
 *   disk   | whole blocks ... file_bytes |   buf   | whole blocks | block_at: being built | fill
 *
 * A write that fails in the middle is cut off the file again, so that the file always ends with a
 * whole block.
 *
 *   block   type 4 | length 4 | body, padded to 4 | length 4        all in the writer's byte order
 *   file    section header, one interface block per queue, packets, statistics
 *
 * Source: draft-ietf-opsawg-pcapng. An error of the disk does not end a capture: the packets in buf
 * are counted as lost, and the next flush tries again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_file.h"
#include "pcapng/spw_pcapng.h"

#define BUF_BYTES (256u << 10)
#define TEXT_MAX  4095u

enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_STATISTICS = 5, BLOCK_PACKET = 6 };
enum {
	OPT_END = 0,
	OPT_COMMENT = 1,
	OPT_IF_NAME = 2,
	OPT_IF_TEXT = 3,
	OPT_IF_TSRESOL = 9,
	OPT_FLAGS = 2
};
enum { OPT_ST_RECEIVED = 4, OPT_ST_DROPPED = 5 };

struct spw_pcapng {
	int fd;
	int err; /* not 0: the file could not be cut, so nothing more is written */
	uint32_t iface_cnt;
	uint32_t fill;       /* of buf */
	uint32_t block_at;   /* start of the block that is being built */
	uint64_t packets;    /* in buf */
	uint64_t file_bytes; /* whole blocks on the disk */
	uint64_t lost;
	uint8_t buf[BUF_BYTES];
};

/* ---- the disk ---- */

/* Removes a partial write: readers could not parse what follows it. */
static void pcapng_cut_off(struct spw_pcapng *file, int err)
{
	if (ftruncate(file->fd, (off_t)file->file_bytes) ||
	    lseek(file->fd, (off_t)file->file_bytes, SEEK_SET) < 0)
		file->err = err;
}

/* Either the whole buffer reaches the file or none of it: a partial write is removed again. */
int spw_pcapng_flush(struct spw_pcapng *file)
{
	uint32_t at = 0;
	int err = file->err;

	while (!err && at < file->fill) {
		const ssize_t n = write(file->fd, file->buf + at, file->fill - at);

		if (n > 0)
			at += (uint32_t)n;
		else if (n < 0 && errno != EINTR)
			err = errno;
		else if (n == 0)
			err = ENOSPC;
	}
	if (err) {
		file->lost += file->packets;
		if (at)
			pcapng_cut_off(file, err);
	} else {
		file->file_bytes += file->fill;
	}
	file->fill = 0;
	file->packets = 0;
	return -err;
}

/* ---- blocks ---- */

static void pcapng_put32(struct spw_pcapng *file, uint32_t v)
{
	memcpy(file->buf + file->fill, &v, 4);
	file->fill += 4;
}

static void pcapng_put_padded(struct spw_pcapng *file, const void *data, uint32_t bytes)
{
	const uint32_t pad = -bytes & 3;

	memcpy(file->buf + file->fill, data, bytes);
	memset(file->buf + file->fill + bytes, 0, pad);
	file->fill += bytes + pad;
}

/* Code, length, value, padding. */
static void pcapng_put_option(struct spw_pcapng *file, uint16_t code, const void *data,
			      uint32_t bytes)
{
	pcapng_put32(file, code | bytes << 16);
	pcapng_put_padded(file, data, bytes);
}

static void pcapng_put_text(struct spw_pcapng *file, uint16_t code, const char *text)
{
	if (text && text[0])
		pcapng_put_option(file, code, text, (uint32_t)strnlen(text, TEXT_MAX));
}

/* Starts a block with variable parts of up to `bytes`; its fixed parts stay below 128 bytes. */
static void pcapng_block_begin(struct spw_pcapng *file, uint32_t type, uint32_t bytes)
{
	if (file->fill + bytes + 128 > BUF_BYTES)
		spw_pcapng_flush(file);
	file->block_at = file->fill;
	pcapng_put32(file, type);
	pcapng_put32(file, 0); /* length, filled in by pcapng_block_end */
}

static void pcapng_block_end(struct spw_pcapng *file)
{
	const uint32_t bytes = file->fill + 4 - file->block_at;

	memcpy(file->buf + file->block_at + 4, &bytes, 4);
	pcapng_put32(file, bytes);
}

/* The section header is written at once, so that a path that cannot be written is found here. */
int spw_pcapng_open(const char *path, struct spw_pcapng **file_out)
{
	struct spw_pcapng *file = calloc(1, sizeof(*file));
	int rc;

	if (!file)
		return spw_err(ENOMEM, "%s: no memory", path);
	rc = spw_file_create(path, &file->fd);
	if (rc) {
		free(file);
		return rc;
	}
	pcapng_block_begin(file, BLOCK_SECTION, 0);
	pcapng_put32(file, 0x1a2b3c4d); /* byte order */
	pcapng_put32(file, 1);          /* version 1.0 */
	pcapng_put32(file, UINT32_MAX); /* section length unknown */
	pcapng_put32(file, UINT32_MAX);
	pcapng_block_end(file);
	rc = spw_pcapng_flush(file);
	if (rc) {
		spw_pcapng_close(file);
		return spw_err(-rc, "%s: %s", path, strerror(-rc));
	}
	*file_out = file;
	return 0;
}

/* Interfaces come before all packets that name them. Returns the interface's number. */
int spw_pcapng_interface(struct spw_pcapng *file, uint16_t link, uint32_t snap_bytes,
			 const char *name, const char *text)
{
	const uint8_t nanoseconds = 9;
	int rc;

	pcapng_block_begin(file, BLOCK_INTERFACE, 2 * TEXT_MAX);
	pcapng_put32(file, link);
	pcapng_put32(file, snap_bytes);
	pcapng_put_text(file, OPT_IF_NAME, name);
	pcapng_put_text(file, OPT_IF_TEXT, text);
	pcapng_put_option(file, OPT_IF_TSRESOL, &nanoseconds, 1);
	pcapng_put32(file, OPT_END);
	pcapng_block_end(file);
	rc = spw_pcapng_flush(file);
	return rc ? spw_err(-rc, "capture file: %s", strerror(-rc)) : (int)file->iface_cnt++;
}

/* A packet that is longer than SPW_PCAPNG_PACKET_MAX is cut; wire_bytes states its real length. */
void spw_pcapng_packet(struct spw_pcapng *file, const struct spw_pcapng_packet *packet)
{
	const uint32_t bytes = SPW_MIN(packet->bytes, SPW_PCAPNG_PACKET_MAX),
		       flags = packet->direction;

	pcapng_block_begin(file, BLOCK_PACKET, bytes + (packet->comment ? TEXT_MAX : 0));
	pcapng_put32(file, packet->iface);
	pcapng_put32(file, (uint32_t)(packet->stamp_ns >> 32));
	pcapng_put32(file, (uint32_t)packet->stamp_ns);
	pcapng_put32(file, bytes);
	pcapng_put32(file, packet->wire_bytes);
	pcapng_put_padded(file, packet->data, bytes);
	pcapng_put_option(file, OPT_FLAGS, &flags, 4);
	pcapng_put_text(file, OPT_COMMENT, packet->comment);
	pcapng_put32(file, OPT_END);
	pcapng_block_end(file);
	file->packets++;
}

void spw_pcapng_statistics(struct spw_pcapng *file, uint32_t iface, uint64_t stamp_ns,
			   uint64_t received, uint64_t dropped)
{
	pcapng_block_begin(file, BLOCK_STATISTICS, 0);
	pcapng_put32(file, iface);
	pcapng_put32(file, (uint32_t)(stamp_ns >> 32));
	pcapng_put32(file, (uint32_t)stamp_ns);
	pcapng_put_option(file, OPT_ST_RECEIVED, &received, 8);
	pcapng_put_option(file, OPT_ST_DROPPED, &dropped, 8);
	pcapng_put32(file, OPT_END);
	pcapng_block_end(file);
}

uint64_t spw_pcapng_bytes(const struct spw_pcapng *file)
{
	return file->file_bytes + file->fill;
}

uint64_t spw_pcapng_lost(const struct spw_pcapng *file)
{
	return file->lost;
}

void spw_pcapng_close(struct spw_pcapng *file)
{
	if (!file)
		return;
	spw_pcapng_flush(file);
	close(file->fd);
	free(file);
}
