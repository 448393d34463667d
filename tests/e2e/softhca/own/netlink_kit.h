/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NETLINK_RDMA by bare system calls: one question, its answer as a list of messages. Nothing here
 * knows who answers: on a machine with a card it is the kernel. Not nl_: libnl's names.
 */
#ifndef NETLINK_KIT_H
#define NETLINK_KIT_H

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASK(...) (&(struct rnl_ask){__VA_ARGS__})

struct rnl_ask {
	uint16_t command, flags; /* flags beside NLM_F_REQUEST */
	uint32_t dev1, port;     /* dev1: the index + 1; 0: the question has none */
	uint16_t attr;           /* one more, a u32; 0: none */
	uint32_t value;
	const char *text_value; /* and one text, text_attr */
	uint16_t text_attr;
};

/* All messages of an answer, one after the other, without its end. */
struct rnl_reply {
	uint8_t *bytes;
	size_t used;
	size_t longest; /* datagram */
	uint32_t datagrams;
	int error; /* of NLMSG_ERROR or NLMSG_DONE: 0 or -errno */
	bool acked, done;
};

int rnl_open(void);
void rnl_send(int fd, const struct rnl_ask *ask);
/* Until the end of a dump, an error or acknowledgement, or one message of an answer without. The
 * caller frees reply->bytes. */
void rnl_receive(int fd, const struct rnl_ask *ask, struct rnl_reply *reply);
void rnl_question(int fd, const struct rnl_ask *ask, struct rnl_reply *reply);
/* The error of a question, or 0. */
int rnl_error(int fd, const struct rnl_ask *ask);

/* The n-th attribute of that type in [at, at + bytes). NULL: there are not as many. */
const uint8_t *rnl_find(const uint8_t *at, size_t bytes, uint16_t type, uint32_t n,
			size_t *bytes_out);
/* A number of 1, 4 or 8 bytes, which must be there. */
uint64_t rnl_number(const uint8_t *at, size_t bytes, uint16_t type);
/* Calls fn with each entry of a table in all messages. */
void rnl_entries(const struct rnl_reply *reply, uint16_t table, uint16_t entry,
		 void (*fn)(const uint8_t *at, size_t bytes, void *arg), void *arg);
/* The attributes of the n-th message. NULL: there are not as many. */
const uint8_t *rnl_message(const struct rnl_reply *reply, uint32_t n, size_t *bytes_out);
/* The attributes of the message of the device of that name, in a list of devices. */
const uint8_t *rnl_device(const struct rnl_reply *reply, const char *name, size_t *bytes_out);
/* The effective set of this thread, less or with CAP_NET_ADMIN. Returns: false: it has not got it.
 */
bool rnl_administrate(bool on);

#endif
