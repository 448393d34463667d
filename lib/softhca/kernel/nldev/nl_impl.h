/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of this folder share: one open socket, one question.
 */
#ifndef SPW_SOFTHCA_NL_IMPL_H
#define SPW_SOFTHCA_NL_IMPL_H

#include "softhca/kernel/nldev/nl_msg.h"
#include "softhca/kernel/nldev/nldev.h"

struct nl_file {
	struct nl_file *next;
	struct hca_dev *devs;
	uint32_t dev_cnt;
	int fd;         /* the application's */
	int own_fd;     /* sends to it */
	int real_fd;    /* the kernel's, or -1 */
	bool short_ack; /* NETLINK_CAP_ACK */
	struct nl_queue queue;
};

/* Devices have the indices from here on: above those of real ones, where there may be some. */
SPW_INLINE uint32_t nl_first_index(const struct nl_file *f)
{
	return f->real_fd < 0 ? 0 : 1000;
}

struct nl_call {
	struct nl_file *file;
	struct nl_req req;
	struct nl_out out;
	struct nl_rows rows; /* of a RES command: gathered once, since other processes are asked */
	uint16_t op;         /* RDMA_NLDEV_CMD_* */
};

#define NL_THE_PORT 1u /* each device has one */

/* One whole message about a device, begun by nl_answer. */
typedef void nl_fill_fn(struct nl_call *c, const struct hca_dev *dev, uint16_t flags);

/* Purpose: answers the messages of one datagram from the port `portid`, any bytes; what its buffer
 * does not take is in f->queue. */
void nl_question(struct nl_file *f, const uint8_t *at, size_t bytes, uint32_t portid);

/* Returns: the device of DEV_INDEX that is still there; NULL: none. */
struct hca_dev *nl_device(const struct nl_call *c);
/* Purpose: DEV_INDEX and DEV_NAME. */
void nl_put_device(struct nl_call *c, const struct hca_dev *dev);
/* Purpose: begins an answer of command `op`. */
void nl_answer(struct nl_call *c, uint16_t op, uint16_t flags);
/* Purpose: the answer of a question about one device. Errors: -EINVAL: dev is NULL. */
int nl_one(struct nl_call *c, const struct hca_dev *dev, nl_fill_fn *fill);
/* Purpose: a dump's message about a device: a full datagram is flushed and fill is called again.
 * Errors: -EINVAL: dev is NULL; -EMSGSIZE: no datagram can hold it. */
int nl_dump_one(struct nl_call *c, const struct hca_dev *dev, nl_fill_fn *fill);
/* Purpose: one for each device, whatever the question names. */
int nl_dump_all(struct nl_call *c, nl_fill_fn *fill);

/* Commands. do: the answer is c->out's message. dump: all of its messages. Returns: 0 or -errno. */
int nl_get(struct nl_call *c);
int nl_get_dump(struct nl_call *c);
int nl_set(struct nl_call *c);
int nl_port_get(struct nl_call *c);
int nl_port_get_dump(struct nl_call *c);
int nl_chardev(struct nl_call *c);
int nl_sys_get(struct nl_call *c);
int nl_stat_get(struct nl_call *c);
int nl_stat_get_dump(struct nl_call *c);
int nl_stat_set(struct nl_call *c);
int nl_stat_del(struct nl_call *c);
int nl_stat_status(struct nl_call *c);
int nl_res_get(struct nl_call *c);
int nl_res_get_dump(struct nl_call *c);
int nl_res_one(struct nl_call *c);
int nl_res_dump(struct nl_call *c);

/* ---- nl_real.c ---- */

/* Purpose: passes a message to the kernel and queues its answers. listing: without devices that
 * have the name of an emulated one, and without the end: more follows. */
void nl_real_relay(struct nl_file *f, const void *msg, size_t bytes, uint32_t portid, bool listing);

#endif
