/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The methods of DEVX, firmware commands of an application (devx/): rows of ioctl.c.
 */
#ifndef SPW_SOFTHCA_DEVX_METHODS_H
#define SPW_SOFTHCA_DEVX_METHODS_H

#include "softhca/kernel/attr.h"

int do_devx_other(struct uv_ioctl *io);
int do_devx_query_uar(struct uv_ioctl *io);
int do_devx_query_eqn(struct uv_ioctl *io);
int do_devx_obj_create(struct uv_ioctl *io);
int do_devx_obj_destroy(struct uv_ioctl *io);
int do_devx_obj_modify(struct uv_ioctl *io);
int do_devx_obj_query(struct uv_ioctl *io);
int do_devx_obj_async_query(struct uv_ioctl *io);
int do_devx_subscribe(struct uv_ioctl *io);
int do_devx_cmd_fd(struct uv_ioctl *io);
int do_devx_event_fd(struct uv_ioctl *io);
int do_devx_umem_reg(struct uv_ioctl *io);
int do_devx_umem_dereg(struct uv_ioctl *io);

#endif
