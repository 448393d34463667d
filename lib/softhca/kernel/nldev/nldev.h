/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The netlink socket of the RDMA subsystem, NETLINK_RDMA. The application's descriptor is a real
 * netlink socket of another protocol (NETLINK_USERSOCK), so that bind(), poll(), socket options,
 * MSG_PEEK and MSG_TRUNC are the kernel's; what it sends to the kernel is answered here, from a
 * second such socket. The machine's own RDMA devices answer through a third, where it has any.
 *
 *   application                     this library                         the kernel
 *   send()  ───────────────────►  nldev_send: question, its answers
 *                                    ├── of ours: nl_dev.c, nl_res.c
 *                                    └── others, listings too: nl_real.c ◄──► NETLINK_RDMA
 *   recv()  ── nldev_pump first ─►  queue ═ sendto ═► its socket
 *
 * An answer longer than the socket's buffer waits in the queue: each receive refills the buffer
 * first, as the kernel goes on with a dump in recvmsg().
 *
 *   nldev.c   sockets, questions, errors     nl_dev.c      devices, ports, counters
 *   nl_msg.c  messages                       nl_res.c      objects
 *   nl_row.c  objects of this process        nl_machine.c  those of the machine's other processes
 *   nl_real.c real devices
 *
 * Sources: Linux drivers/infiniband/core/nldev.c and netlink.c (attributes, order of checks,
 * errno), net/netlink/af_netlink.c (acknowledgements, dumps). Thread of all: any.
 */
#ifndef SPW_SOFTHCA_NLDEV_H
#define SPW_SOFTHCA_NLDEV_H

#include "softhca/hca_obj.h"
#include "softhca/kernel/nldev/nl_row.h"

/* Purpose: takes a new socket, fd, under its care; marks it (HCA_MARK_NETLINK). real_fd: a socket
 *          of the kernel's NETLINK_RDMA, or -1.
 * Owner:   fd: the application; real_fd: this file, after a failure too.
 * Errors:  -ENOMEM, or those of socket(). */
int nldev_open(struct hca_dev *devs, uint32_t cnt, int fd, int real_fd);
/* Purpose: one message to the kernel, in pieces. Returns: its bytes, or -errno. */
struct iovec;
int64_t nldev_send(int fd, const struct iovec *iov, size_t cnt);
/* Purpose: before a receive: as much of the answers as the socket's buffer takes. */
void nldev_pump(int fd);
void nldev_close(int fd); /* the application closes it; not one of ours: no-op */
void nldev_forked(void);  /* in a forked child: forgets all */

/* ---- other processes of the machine (nl_machine.c) ---- */

#define NL_WAIT_MS 1000 /* a NIC thread on a busy machine */

/* Purpose: from now on others are answered (hca_res_serve in kernel.h), by a socket in the private
 *          folder `root`. Called when a device file is opened; the first call counts. */
void nl_machine_serve(struct hca_dev *devs, uint32_t cnt, const char *root);
/* Purpose: where the folders of others are looked for: beside this one. */
void nl_machine_folder(const char *root);
void nl_machine_rows(const struct hca_dev *devs, uint32_t cnt, struct nl_rows *rows);
void nl_machine_forked(void);

#endif
