/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads the shared secret and computes MACs (auth.h has the contracts). Called by conf.c at open
 * and by exchange.c in the control thread. Every copy of the secret on the stack is overwritten
 * before the function returns.
 */
#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "peer/auth.h"

/* A file that others can read holds no secret, and one that they can write is not the owner's
 * choice. The checks use fstat(2) on the open descriptor, so the file that is checked is the file
 * that is read. */
static int check_file(const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return spw_err(EINVAL, "secret=%s is no regular file", path);
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return spw_err(EPERM, "secret=%s may be read or written by others: chmod 600 %s",
			       path, path);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return spw_err(EPERM, "secret=%s belongs to user %u, not to this one or root", path,
			       st->st_uid);
	return 0;
}

/* One newline is dropped: an editor adds it. The buffer of the caller is two bytes longer than the
 * longest secret, so a file that is too long shows as such. */
static int take(const char *path, uint8_t *text, ssize_t len, struct peer_secret *secret)
{
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if (len < (ssize_t)PEER_SECRET_MIN || len > (ssize_t)PEER_SECRET_MAX)
		return spw_err(EINVAL,
			       "secret=%s holds %zd bytes: use %u to %u (head -c 32 /dev/urandom | "
			       "base64)",
			       path, len, PEER_SECRET_MIN, PEER_SECRET_MAX);
	memcpy(secret->byte, text, (size_t)len);
	secret->len = (uint32_t)len;
	return 0;
}

/* O_NONBLOCK: a FIFO in the file's place must not block the start; check_file refuses it. */
int peer_secret_read(const char *path, struct peer_secret *secret_out)
{
	uint8_t text[PEER_SECRET_MAX + 2];
	struct stat st;
	ssize_t len;
	int rc, fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	secret_out->len = 0;
	if (fd < 0)
		return spw_err(errno, "secret=%s: %s", path, strerror(errno));
	rc = fstat(fd, &st) ? spw_err(errno, "secret=%s: %s", path, strerror(errno))
			    : check_file(path, &st);
	if (!rc) {
		len = read(fd, text, sizeof(text));
		rc = len < 0 ? spw_err(errno, "secret=%s: %s", path, strerror(errno))
			     : take(path, text, len, secret_out);
		explicit_bzero(text, sizeof(text));
	}
	close(fd);
	return rc;
}

void peer_secret_wipe(struct peer_secret *secret)
{
	explicit_bzero(secret, sizeof(*secret));
}

/* Without a secret the MAC is all zeros, which only another side without one accepts: the exchange
 * keeps one format, and peers= is the only barrier (conn.c warns). */
void peer_mac(const struct peer_secret *secret, const char *label, const uint8_t *transcript,
	      size_t len, uint8_t mac_out[PEER_MAC_BYTES])
{
	struct hmac_sha256_ctx ctx;

	_Static_assert(PEER_MAC_BYTES == SHA256_DIGEST_SIZE, "whole MACs only");
	memset(mac_out, 0, PEER_MAC_BYTES);
	if (!secret->len)
		return;
	hmac_sha256_set_key(&ctx, secret->len, secret->byte);
	hmac_sha256_update(&ctx, strlen(label) + 1, (const uint8_t *)label);
	hmac_sha256_update(&ctx, len, transcript);
	hmac_sha256_digest(&ctx, PEER_MAC_BYTES, mac_out);
	explicit_bzero(&ctx, sizeof(ctx));
}

bool peer_mac_same(const uint8_t a[PEER_MAC_BYTES], const uint8_t b[PEER_MAC_BYTES])
{
	return memeql_sec(a, b, PEER_MAC_BYTES);
}

int peer_nonce(uint8_t nonce_out[PEER_NONCE_BYTES])
{
	if (getrandom(nonce_out, PEER_NONCE_BYTES, 0) != (ssize_t)PEER_NONCE_BYTES)
		return spw_err(EIO, "getrandom: %s", strerror(errno));
	return 0;
}
