/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shared secret of two sides: read from a file, and the key of an HMAC-SHA-256 (RFC 2104, FIPS
 * 180-4; by nettle) over each message (oob/spw_oob_channel.h).
 */
#ifndef SPW_OOB_AUTH_H
#define SPW_OOB_AUTH_H

#include <sys/uio.h>

#include "base/spw_types.h"

/* Bytes. A secret below the minimum could be found by trying; a MAC is a whole SHA-256. */
#define SPW_OOB_SECRET_MIN  16u
#define SPW_OOB_SECRET_MAX  256u
#define SPW_OOB_NONCE_BYTES 32u
#define SPW_OOB_MAC_BYTES   32u

/* A secret in memory. Its owner wipes it when it is of no use any more; copies are wiped apart. */
struct spw_oob_secret {
	uint32_t len; /* 0: none */
	uint8_t byte[SPW_OOB_SECRET_MAX];
};

/* Purpose: takes len bytes of text as a secret; one newline at the end is not part of it. what
 * names their source in the error. Thread: setup. Errors: -EINVAL: fewer than SPW_OOB_SECRET_MIN
 * bytes, or more than SPW_OOB_SECRET_MAX. */
int spw_oob_secret_take(const char *what, const uint8_t *text, size_t len,
			struct spw_oob_secret *secret_out);

/* Purpose: reads a secret of SPW_OOB_SECRET_MIN .. SPW_OOB_SECRET_MAX bytes; one newline at the end
 * is not part of it. Thread: setup. Errors: -EPERM: group or others may access the file, or its
 * owner is neither this user nor root; -EINVAL: too short, too long, or no regular file; errno of
 * open(2) and read(2). */
int spw_oob_secret_read(const char *path, struct spw_oob_secret *secret_out);

/* Purpose: overwrites the secret with zeros; no compiler may elide it. Thread: any. */
void spw_oob_secret_wipe(struct spw_oob_secret *secret);

/* Purpose: HMAC-SHA-256 of label (with its terminating 0) followed by the bytes of cnt parts. The
 * label differs per direction, so that no message can be turned back. All zeros without a secret.
 * Thread: any. */
void spw_oob_mac(const struct spw_oob_secret *secret, const char *label, const struct iovec *part,
		 size_t cnt, uint8_t mac_out[SPW_OOB_MAC_BYTES]);

/* Returns: true if both are equal; in constant time. Thread: any. */
bool spw_oob_mac_same(const uint8_t a[SPW_OOB_MAC_BYTES], const uint8_t b[SPW_OOB_MAC_BYTES]);

/* Purpose: unpredictable bytes of getrandom(2). Errors: -EIO. Thread: any. */
int spw_oob_nonce(uint8_t nonce_out[SPW_OOB_NONCE_BYTES]);

#endif
