/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * ethtool on a device's network interface (--netdev), as mlx5_core answers it.
 */
#ifndef SPW_SOFTHCA_ETHTOOL_H
#define SPW_SOFTHCA_ETHTOOL_H

#include "softhca/hca_obj.h"

/* Purpose: one SIOCETHTOOL command for the device's interface; data is what ifr_data points to.
 * Errors:  -EFAULT; -EOPNOTSUPP: not emulated, the caller asks the kernel. Thread: any. */
int hca_ethtool(const struct hca_dev *dev, void *data);

#endif
