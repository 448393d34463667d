/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads the shared secret and computes MACs (spw_oob_auth.h has the contracts). Every copy of the
 * secret on the stack is overwritten before the function returns.
 *
 *   secret file (0600, the user's or root's) ─► struct spw_oob_secret ─► HMAC-SHA-256
 *
 * Each end of a connection adds a nonce, 32 bytes of getrandom(2), so that no MAC is good twice.
 * RFC 2104, by libnettle. Called by channel.c; users of channels read their secrets by it.
 */
#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "oob/spw_oob_auth.h"

/* A file that others can read holds no secret, and one that they can write is not the owner's
 * choice. The checks use fstat(2) on the open descriptor, so the file that is checked is the file
 * that is read. */
static int secret_check_file(const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return spw_err(EINVAL, "the secret %s is no regular file", path);
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return spw_err(EPERM,
			       "the secret %s may be read or written by others: chmod 600 %s", path,
			       path);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return spw_err(EPERM, "the secret %s belongs to user %u, not to this one or root",
			       path, st->st_uid);
	return 0;
}

/* One newline is dropped: an editor adds it. */
int spw_oob_secret_take(const char *what, const uint8_t *text, size_t len,
			struct spw_oob_secret *secret_out)
{
	secret_out->len = 0;
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if (len < SPW_OOB_SECRET_MIN || len > SPW_OOB_SECRET_MAX)
		return spw_err(EINVAL,
			       "%s holds %zu bytes: use %u to %u (head -c 32 /dev/urandom | "
			       "base64)",
			       what, len, SPW_OOB_SECRET_MIN, SPW_OOB_SECRET_MAX);
	memcpy(secret_out->byte, text, len);
	secret_out->len = (uint32_t)len;
	return 0;
}

/* The buffer is two bytes longer than the longest secret, so a file that is too long shows as such.
 */
static int secret_take_from(const char *path, int fd, struct spw_oob_secret *secret)
{
	uint8_t text[SPW_OOB_SECRET_MAX + 2];
	char what[512];
	ssize_t len = read(fd, text, sizeof(text));
	int rc;

	snprintf(what, sizeof(what), "the secret %s", path);
	rc = len < 0 ? spw_err(errno, "%s: %s", what, strerror(errno))
		     : spw_oob_secret_take(what, text, (size_t)len, secret);
	explicit_bzero(text, sizeof(text));
	return rc;
}

/* O_NONBLOCK: a FIFO in the file's place must not block the start; secret_check_file refuses it. */
int spw_oob_secret_read(const char *path, struct spw_oob_secret *secret_out)
{
	struct stat st;
	int rc, fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	secret_out->len = 0;
	if (fd < 0)
		return spw_err(errno, "the secret %s: %s", path, strerror(errno));
	rc = fstat(fd, &st) ? spw_err(errno, "the secret %s: %s", path, strerror(errno))
			    : secret_check_file(path, &st);
	rc = rc ? rc : secret_take_from(path, fd, secret_out);
	close(fd);
	return rc;
}

void spw_oob_secret_wipe(struct spw_oob_secret *secret)
{
	explicit_bzero(secret, sizeof(*secret));
}

/* Without a secret the MAC is all zeros, which only another side without one accepts: the exchange
 * keeps one format, and a list of addresses is the only barrier (callers warn). */
void spw_oob_mac(const struct spw_oob_secret *secret, const char *label, const struct iovec *part,
		 size_t cnt, uint8_t mac_out[SPW_OOB_MAC_BYTES])
{
	struct hmac_sha256_ctx ctx;

	_Static_assert(SPW_OOB_MAC_BYTES == SHA256_DIGEST_SIZE, "whole MACs only");
	memset(mac_out, 0, SPW_OOB_MAC_BYTES);
	if (!secret->len)
		return;
	hmac_sha256_set_key(&ctx, secret->len, secret->byte);
	hmac_sha256_update(&ctx, strlen(label) + 1, (const uint8_t *)label);
	for (size_t i = 0; i < cnt; i++)
		hmac_sha256_update(&ctx, part[i].iov_len, part[i].iov_base);
	hmac_sha256_digest(&ctx, SPW_OOB_MAC_BYTES, mac_out);
	explicit_bzero(&ctx, sizeof(ctx));
}

/* In constant time: how long a comparison takes would reveal how many bytes were right. */
bool spw_oob_mac_same(const uint8_t a[SPW_OOB_MAC_BYTES], const uint8_t b[SPW_OOB_MAC_BYTES])
{
	return memeql_sec(a, b, SPW_OOB_MAC_BYTES);
}

int spw_oob_nonce(uint8_t nonce_out[SPW_OOB_NONCE_BYTES])
{
	if (getrandom(nonce_out, SPW_OOB_NONCE_BYTES, 0) != (ssize_t)SPW_OOB_NONCE_BYTES)
		return spw_err(EIO, "getrandom: %s", strerror(errno));
	return 0;
}
