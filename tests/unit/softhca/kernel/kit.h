/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * For the tests of the kernel side: a device on a private cable and one context. Commands go to the
 * dispatcher as libibverbs sends them, without libibverbs and without the preload library.
 */
#ifndef SPW_TESTS_CTL_KIT_H
#define SPW_TESTS_CTL_KIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"

struct kit {
	struct hca_cfg cfg;
	struct hca_dev *dev;
	struct hca_ctx *ctx;
	struct hca_uar *uar;
	uint32_t pd;
	uint8_t *mem; /* KIT_BYTES from which rings are allocated */
	size_t used;
};

#define KIT_BYTES (1u << 20)

void kit_open(struct kit *k);
void kit_close(struct kit *k);
/* Another context of the same device, in a copy of the kit; its ctx is the caller's to close. */
void kit_context(struct kit *k);
void *kit_ring(struct kit *k, size_t bytes); /* 64-byte aligned, zeroed */

/* One part of a command, in and out; sizes are those of the objects. */
struct kit_part {
	const void *in;
	size_t in_bytes;
	void *out;
	size_t out_bytes;
};

/* One command: its core part, and the driver's. */
int kit_call(struct kit *k, uint32_t cmd, struct kit_part core, struct kit_part driver);
/* Without a driver part. */
int kit_cmd(struct kit *k, uint32_t cmd, const void *in, size_t in_bytes, void *out,
	    size_t out_bytes);

/* 0 or -errno; the handle goes to *out. */
int kit_cq(struct kit *k, int channel, uint32_t *out);
int kit_srq(struct kit *k, uint32_t *out);
int kit_qp(struct kit *k, uint8_t type, uint32_t cq, struct ib_uverbs_create_qp_resp *out);
int kit_modify(struct kit *k, uint32_t qp, uint32_t mask, uint8_t state);
/* An RC QP with a CQ of its own, in RTR. */
void kit_rc_rtr(struct kit *k, struct ib_uverbs_create_qp_resp *out);

#endif
