/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * /dev/infiniband/rdma_cm: a file for each channel of librdmacm, commands by write(). No input may
 * do worse than return an errno.
 * Sources: <rdma/rdma_user_cm.h>; errno values as in Linux drivers/infiniband/core/ucma.c, cma.c.
 */
#ifndef SPW_SOFTHCA_CM_UCMA_H
#define SPW_SOFTHCA_CM_UCMA_H

#include "softhca/hca_obj.h"

struct ucma_file;

/* Purpose: open(). The NIC thread works for all devices from then on: a listener needs no other
 *          open file.
 * Owner:   file_out: the caller, until ucma_close; fd_out, which polls and reads nothing but
 *          POLLIN while events wait: the application.
 * Thread:  any. */
int ucma_open(struct hca_dev *devs, uint32_t cnt, struct ucma_file **file_out, int *fd_out);

/* Purpose: the last reference goes: destroys the identifiers that the file still has. Thread: any.
 */
void ucma_close(struct ucma_file *file);

/* Purpose: write(fd, buf, len). GET_EVENT waits, without a lock; a signal or a cancellation ends
 *          the wait as it ends a read().
 * Shape:   find(fd): the file of another descriptor, for MIGRATE_ID, held until put.
 * Returns: len or -errno. Thread: any. */
struct ucma_finder {
	struct ucma_file *(*find)(int fd);
	void (*put)(struct ucma_file *file);
};
int64_t ucma_write(struct ucma_file *file, const void *buf, size_t len,
		   const struct ucma_finder *finder);

/* Purpose: in a forked child, which has none of it: forgets all. */
void ucma_forked(void);

#endif
