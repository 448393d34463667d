/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shared secret of mode=rc: read from a file, used as key of HMAC-SHA-256 (RFC 2104, FIPS 180-4; by nettle) over
 * everything that both sides said so far. Private to lib/port.
 */
#ifndef SPW_PORT_RC_AUTH_H
#define SPW_PORT_RC_AUTH_H

#include "base/spw_types.h"

#define RC_SECRET_MIN  16u
#define RC_SECRET_MAX  256u
#define RC_NONCE_BYTES 32u
#define RC_MAC_BYTES   32u

struct rc_secret {
	uint32_t len;             /* 0: none */
	uint8_t byte[RC_SECRET_MAX];
};

/* Purpose: reads a secret of RC_SECRET_MIN .. RC_SECRET_MAX bytes; one newline at the end is not part of it.
 * Errors:  -EPERM: others than its owner may read or write the file, or the owner is neither this user nor root; -EINVAL: too
 *          short, too long or no regular file; what open gives. Thread: setup. */
int rc_secret_read(const char *path, struct rc_secret *secret_out);

/* Purpose: forgets it: overwritten in a way that no compiler leaves out. */
void rc_secret_wipe(struct rc_secret *secret);

/* Purpose: HMAC-SHA-256 of label (with its ending 0) and then said[0 .. said_len); all 0 without a secret.
 *          label tells messages and directions apart, so that none can be played back as another. */
void rc_mac(const struct rc_secret *secret, const char *label, const uint8_t *said, size_t said_len,
	    uint8_t mac_out[RC_MAC_BYTES]);

/* Purpose: compares in a time that does not depend on where they differ. */
bool rc_mac_same(const uint8_t a[RC_MAC_BYTES], const uint8_t b[RC_MAC_BYTES]);

/* Purpose: bytes that nobody can guess. -EIO when the kernel has none. Thread: any. */
int rc_nonce(uint8_t nonce_out[RC_NONCE_BYTES]);

#endif
