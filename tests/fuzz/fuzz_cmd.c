/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the command dispatcher: an input is a session of one process with the character device.
 * The real control path executes it; the NIC behind it does nothing (nic_stub.c).
 *
 *   input: records of  u8 kind (0 write(), 1 ioctl()), u8 0, u16 bytes (little-endian), the bytes
 *
 * Buffers that a session may name lie in one arena at a fixed address, so that a corpus file means
 * the same in every run: record bytes are copied to its upper half; the lower half is for answers
 * and queues.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_arena.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/uverbs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct hca_cfg cfg;
static struct hca_dev *devs;

static void setup(void)
{
	void *at = mmap(FUZZ_ARENA, FUZZ_ARENA_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != FUZZ_ARENA || hca_cfg_parse("", &cfg) || hca_devs_open(&cfg, &devs)) {
		fprintf(stderr, "fuzz_cmd: cannot set up\n");
		exit(1);
	}
}

/* Closes the descriptors that answers named, as an application would at its end. */
static void close_from(int first)
{
	for (int fd = first; fd < first + 64; fd++)
		close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = FUZZ_ARENA + FUZZ_ARENA_BYTES / 2;
	struct hca_ctx *ctx;
	int fd;

	if (!devs)
		setup();
	memset(FUZZ_ARENA, 0, 65536);
	fd = dup(0);
	if (hca_ctx_open(devs, &ctx))
		abort();
	while (size >= 4) {
		size_t bytes = data[2] | (size_t)data[3] << 8;
		const uint8_t kind = data[0];

		data += 4;
		size -= 4;
		bytes = SPW_MIN(bytes, size);
		memcpy(in, data, bytes);
		if (kind & 1)
			uv_ioctl(ctx, in);
		else
			uv_write(ctx, in, bytes);
		data += bytes;
		size -= bytes;
	}
	hca_ctx_close(ctx);
	close_from(fd);
	return 0;
}
