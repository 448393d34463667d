/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/port: the table of drivers and what they share.
 */
#ifndef SPW_PORT_IMPL_H
#define SPW_PORT_IMPL_H

#include "port/spw_port.h"

extern const struct spw_port_driver port_null_driver;
extern const struct spw_port_driver port_ethdev_driver;
extern const struct spw_port_driver port_fault_driver;
extern const struct spw_port_driver port_mlx5_driver; /* where the build has rdma-core */
extern const struct spw_port_driver port_verbs_driver; /* likewise */

/* Purpose: the driver of that name, NULL if none. */
const struct spw_port_driver *port_driver_find(const char *name);

/* Purpose: a number with an optional suffix k, M, G (powers of 1000) for the key of a spec.
 * Returns: dflt if the key is not there. Errors: -EINVAL, -ERANGE naming key, value and limits. */
int port_spec_u64(const struct spw_port_spec *spec, const char *key, uint64_t dflt, uint64_t min, uint64_t max,
		  uint64_t *value_out);

/* Purpose: refuses keys that a driver does not know. Errors: -EINVAL with the usage text. */
int port_spec_check_keys(const struct spw_port_spec *spec, const char *const *known, size_t known_cnt,
			 const char *usage);

#endif
