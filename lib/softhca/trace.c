/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/nic_impl.h"

#define BUF_BYTES (256u << 10)
#define TEXT_BYTES 1024u
enum { IF_WIRE, IF_WQE, IF_CQE };
enum { OPT_END = 0, OPT_COMMENT = 1, OPT_IF_NAME = 2, OPT_FLAGS = 2, OPT_IF_TSRESOL = 9 };
enum { LINK_ETHERNET = 1, LINK_USER0 = 147 };

struct trace {
	int fd;
	uint32_t fill;
	uint64_t lost; /* blocks that the disk did not take */
	uint64_t stamp;
	uint8_t buf[BUF_BYTES];
};

void trace_flush(struct trace *t)
{
	uint32_t at = 0;

	while (at < t->fill) {
		const ssize_t n = write(t->fd, t->buf + at, t->fill - at);

		if (n <= 0) {
			t->lost++;
			break;
		}
		at += (uint32_t)n;
	}
	t->fill = 0;
}

static void put32(struct trace *t, uint32_t v)
{
	memcpy(t->buf + t->fill, &v, 4);
	t->fill += 4;
}

static void put_pad(struct trace *t, const void *p, uint32_t len)
{
	const uint32_t pad = -len & 3;

	memcpy(t->buf + t->fill, p, len);
	memset(t->buf + t->fill + len, 0, pad);
	t->fill += len + pad;
}

static void put_opt(struct trace *t, uint16_t code, const void *p, uint32_t len)
{
	put32(t, code | len << 16);
	put_pad(t, p, len);
}

static uint32_t opt_bytes(uint32_t len)
{
	return 4 + SPW_ALIGN_UP(len, 4u);
}

static void put_interface(struct trace *t, uint32_t link, const char *name)
{
	const uint32_t name_len = (uint32_t)strlen(name);
	const uint32_t bytes = 16 + opt_bytes(name_len) + opt_bytes(1) + 4 + 4;
	const uint8_t ns = 9;

	put32(t, 1);
	put32(t, bytes);
	put32(t, link);
	put32(t, 0); /* no snap length */
	put_opt(t, OPT_IF_NAME, name, name_len);
	put_opt(t, OPT_IF_TSRESOL, &ns, 1);
	put32(t, OPT_END);
	put32(t, bytes);
}

static void put_packet(struct trace *t, uint32_t iface, const void *data, uint32_t len, uint32_t flags,
		       const char *comment)
{
	const uint32_t text = comment ? (uint32_t)strlen(comment) : 0;
	const uint32_t bytes = 28 + SPW_ALIGN_UP(len, 4u) + opt_bytes(4) + (text ? opt_bytes(text) : 0) + 4 + 4;

	if (t->fill + bytes > BUF_BYTES)
		trace_flush(t);
	put32(t, 6);
	put32(t, bytes);
	put32(t, iface);
	put32(t, (uint32_t)(t->stamp >> 32));
	put32(t, (uint32_t)t->stamp);
	put32(t, len);
	put32(t, len);
	put_pad(t, data, len);
	put_opt(t, OPT_FLAGS, &flags, 4);
	if (text)
		put_opt(t, OPT_COMMENT, comment, text);
	put32(t, OPT_END);
	put32(t, bytes);
}

int trace_open(const char *path, const char *device, struct trace **trace_out)
{
	char file[512];
	struct stat st;
	struct trace *t;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		snprintf(file, sizeof(file), "%s/%s-%d.pcapng", path, device, (int)getpid());
	else
		snprintf(file, sizeof(file), "%s", path);
	t = calloc(1, sizeof(*t));
	if (!t)
		return spw_err(ENOMEM, "trace %s: no memory", file);
	t->fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (t->fd < 0) {
		free(t);
		return spw_err(errno, "trace %s: %s", file, strerror(errno));
	}
	put32(t, 0x0a0d0d0a);
	put32(t, 28);
	put32(t, 0x1a2b3c4d);
	put32(t, 1); /* version 1.0 */
	put32(t, UINT32_MAX);
	put32(t, UINT32_MAX); /* section length unknown */
	put32(t, 28);
	put_interface(t, LINK_ETHERNET, "wire");
	put_interface(t, LINK_USER0, "wqe");
	put_interface(t, LINK_USER0 + 1, "cqe");
	*trace_out = t;
	return 0;
}

void trace_close(struct trace *t)
{
	trace_flush(t);
	close(t->fd);
	free(t);
}

void trace_frame(struct trace *t, const uint8_t *frame, uint32_t len, bool out, uint64_t stamp)
{
	t->stamp = stamp;
	put_packet(t, IF_WIRE, frame, SPW_MIN(len, CABLE_FRAME_MAX), out ? 2 : 1, NULL);
}

void trace_wqe(struct trace *t, const struct nic_qp *q, const struct nic_swr *w)
{
	uint8_t wqe[1024];
	char text[TEXT_BYTES];
	const uint32_t bytes = SPW_MIN(w->ds * 16u, (uint32_t)sizeof(wqe));
	int n = 0;

	for (uint32_t off = 0; off < bytes; off += 16)
		memcpy(wqe + off, sq_bytes(q, w->idx, off), 16);
	n = snprintf(text, sizeof(text), "qpn=0x%x ", q->qp->qpn);
	spw_prm_dump_wqe(wqe, bytes, (enum spw_prm_transport)q->transport, text + n, sizeof(text) - (size_t)n);
	t->stamp = q->nd->stamp;
	put_packet(t, IF_WQE, wqe, bytes, 2, text);
}

void trace_cqe(struct trace *t, uint32_t cqn, const struct nic_cqe *e, uint8_t opcode)
{
	struct nic_cqe copy = *e;
	char text[TEXT_BYTES];
	const int n = snprintf(text, sizeof(text), "cqn=0x%x ", cqn);

	spw_prm_cqe64_set_opcode(&copy, opcode);
	spw_prm_dump_cqe(&copy, text + n, sizeof(text) - (size_t)n);
	put_packet(t, IF_CQE, &copy, sizeof(copy), 1, text);
}
