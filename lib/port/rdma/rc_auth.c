/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "port/rdma/rc_auth.h"

static int check_file(const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return spw_err(EINVAL, "secret=%s is no regular file", path);
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return spw_err(EPERM, "secret=%s may be read or written by others: chmod 600 %s", path, path);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return spw_err(EPERM, "secret=%s belongs to user %u, not to this one or root", path, st->st_uid);
	return 0;
}

static int take(const char *path, uint8_t *text, ssize_t len, struct rc_secret *secret)
{
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if (len < (ssize_t)RC_SECRET_MIN || len > (ssize_t)RC_SECRET_MAX)
		return spw_err(EINVAL, "secret=%s holds %zd bytes: use %u to %u (head -c 32 /dev/urandom | base64)", path, len,
			       RC_SECRET_MIN, RC_SECRET_MAX);
	memcpy(secret->byte, text, (size_t)len);
	secret->len = (uint32_t)len;
	return 0;
}

int rc_secret_read(const char *path, struct rc_secret *secret_out)
{
	uint8_t text[RC_SECRET_MAX + 2];
	struct stat st;
	ssize_t len;
	int rc, fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	secret_out->len = 0;
	if (fd < 0)
		return spw_err(errno, "secret=%s: %s", path, strerror(errno));
	rc = fstat(fd, &st) ? spw_err(errno, "secret=%s: %s", path, strerror(errno)) : check_file(path, &st);
	if (!rc) {
		len = read(fd, text, sizeof(text));
		rc = len < 0 ? spw_err(errno, "secret=%s: %s", path, strerror(errno)) : take(path, text, len, secret_out);
		explicit_bzero(text, sizeof(text));
	}
	close(fd);
	return rc;
}

void rc_secret_wipe(struct rc_secret *secret)
{
	explicit_bzero(secret, sizeof(*secret));
}

void rc_mac(const struct rc_secret *secret, const char *label, const uint8_t *said, size_t said_len,
	    uint8_t mac_out[RC_MAC_BYTES])
{
	struct hmac_sha256_ctx ctx;

	_Static_assert(RC_MAC_BYTES == SHA256_DIGEST_SIZE, "whole MACs only");
	memset(mac_out, 0, RC_MAC_BYTES);
	if (!secret->len)
		return;
	hmac_sha256_set_key(&ctx, secret->len, secret->byte);
	hmac_sha256_update(&ctx, strlen(label) + 1, (const uint8_t *)label);
	hmac_sha256_update(&ctx, said_len, said);
	hmac_sha256_digest(&ctx, RC_MAC_BYTES, mac_out);
	explicit_bzero(&ctx, sizeof(ctx));
}

bool rc_mac_same(const uint8_t a[RC_MAC_BYTES], const uint8_t b[RC_MAC_BYTES])
{
	return memeql_sec(a, b, RC_MAC_BYTES);
}

int rc_nonce(uint8_t nonce_out[RC_NONCE_BYTES])
{
	if (getrandom(nonce_out, RC_NONCE_BYTES, 0) != (ssize_t)RC_NONCE_BYTES)
		return spw_err(EIO, "getrandom: %s", strerror(errno));
	return 0;
}
