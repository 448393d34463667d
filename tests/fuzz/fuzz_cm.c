/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the connection manager: an input is a session of one process with two files of rdma_cm,
 * and what strangers send to its QP 1 meanwhile. The real manager; the NIC behind it does nothing
 * (nic_stub.c).
 *
 *   input: records of  u8 kind, u8 file, u16 bytes (little-endian), the bytes
 *   kind   0 write()   1 a datagram, from one of four addresses (file)   2 rounds and time
 *
 * Numbers of connections are handles ^ 1, so that an input can name them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_arena.h"
#include "softhca/cm/cm_impl.h"
#include "softhca/kernel/ctl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WRITE, DATAGRAM, TIME, KINDS };

static struct hca_cfg cfg;
static struct hca_dev *devs;
static struct ucma_file *file[2];

static struct ucma_file *find(int fd)
{
	return fd == 0 || fd == 1 ? file[fd] : NULL;
}

static void put(struct ucma_file *f)
{
	(void)f;
}

static void setup(void)
{
	void *at = mmap(FUZZ_ARENA, FUZZ_ARENA_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != FUZZ_ARENA || hca_cfg_parse("", &cfg) || hca_devs_open(&cfg, &devs)) {
		fprintf(stderr, "fuzz_cm: cannot set up\n");
		exit(1);
	}
}

static void datagram(uint8_t from, const uint8_t *data, size_t bytes)
{
	uint8_t mad[CM_MAD_BYTES] = {0}, gid[16];

	memcpy(gid, devs->gid[3], 16);
	gid[15] = from & 3;
	memcpy(mad, data, SPW_MIN(bytes, sizeof(mad)));
	cm_rx(devs, gid, devs->gid[from & 4 ? 1 : 3], mad);
}

/* What is in TIMEWAIT would last into the next input. */
static void forget(void)
{
	while (cm_all.list)
		cm_id_free(cm_all.list);
	hca_tbl_free(&cm_all.ids);
	hca_tbl_free(&cm_all.mcasts);
	if (cm_all.groups)
		abort(); /* a group outlived its identifier */
	memset(&cm_all, 0, sizeof(cm_all));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ucma_finder finder = {find, put};
	uint8_t *in = FUZZ_ARENA + FUZZ_ARENA_BYTES / 2;
	int fd[2];

	if (!devs)
		setup();
	memset(FUZZ_ARENA, 0, 65536);
	for (uint32_t i = 0; i < 2; i++) {
		if (ucma_open(devs, 1, &file[i], &fd[i]))
			abort();
		fcntl(fd[i], F_SETFL, O_RDWR | O_NONBLOCK);
	}
	cm_all.operand = 1;
	while (size >= 4) {
		const uint8_t kind = data[0] % KINDS, which = data[1];
		size_t bytes = data[2] | (size_t)data[3] << 8;

		data += 4;
		size -= 4;
		bytes = SPW_MIN(bytes, size);
		memcpy(in, data, bytes);
		if (kind == WRITE) {
			(void)ucma_write(file[which & 1], in, bytes, &finder);
		} else if (kind == DATAGRAM) {
			datagram(which, data, bytes);
		} else {
			(void)cm_round(devs);
			cm_tick(devs);
		}
		data += bytes;
		size -= bytes;
	}
	cm_leave(devs);
	for (uint32_t i = 0; i < 2; i++) {
		ucma_close(file[i]);
		close(fd[i]);
	}
	forget();
	return 0;
}
