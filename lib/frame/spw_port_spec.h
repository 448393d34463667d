/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A port's specification, "DRIVER:DEVICE[,key=value]...", split into its keys. lib/port parses it;
 * drivers, RDMA devices and peers read their own keys from it with the functions here.
 *
 *   ethdev:net_memif0,role=server,socket=/run/x.sock
 *   ethdev:0000:01:00.0
 *   mlx5:mlx5_0,mode=eth
 *   null:size=64
 */
#ifndef SPW_FRAME_PORT_SPEC_H
#define SPW_FRAME_PORT_SPEC_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PORT_QUEUE_MAX 64
#define SPW_PORT_ARG_MAX   32

/* A plain value: it may be copied. Each driver names the keys that it takes; ethdev passes all
 * others to the PMD as devargs. */
struct spw_port_spec {
	char text[512]; /* as given */
	char driver[16];
	char device[128];
	struct {
		uint16_t key, value;
	} arg[SPW_PORT_ARG_MAX]; /* offsets of both strings in store */
	uint32_t arg_cnt;
	char store[512];
};

/* Purpose: key and value number arg_idx, in the order given.
 * Shape: arg_idx below arg_cnt.
 * Lifetime: that of the spec.
 * Thread: any.
 */
SPW_INLINE const char *spw_port_spec_key(const struct spw_port_spec *spec, uint32_t arg_idx)
{
	return spec->store + spec->arg[arg_idx].key;
}
/* Shape, lifetime: as spw_port_spec_key. Thread: any. */
SPW_INLINE const char *spw_port_spec_value(const struct spw_port_spec *spec, uint32_t arg_idx)
{
	return spec->store + spec->arg[arg_idx].value;
}

/* Purpose: the value of a key; the last one, if the key is given more than once.
 * Returns: NULL if the key is not given.
 * Lifetime: that of the spec.
 * Thread: any.
 */
const char *spw_port_spec_find(const struct spw_port_spec *spec, const char *key);

/* Purpose: the value of a key as a number, decimal, with an optional suffix k, M or G (10^3, 10^6,
 *   10^9). dflt, if the key is not given.
 * Shape: min .. max is the range allowed; dflt is not checked.
 * Thread: setup.
 * Errors: -EINVAL not a number, -ERANGE out of range; the text names key, value and limits.
 */
int spw_port_spec_u64(const struct spw_port_spec *spec, const char *key, uint64_t dflt,
		      uint64_t min, uint64_t max, uint64_t *value_out);

/* Purpose: refuses a spec with a key that is not among known[0 .. known_cnt - 1].
 * Shape: usage is the driver's list of keys, for the error text.
 * Thread: setup.
 * Errors: -EINVAL with the key and the usage.
 */
int spw_port_spec_check_keys(const struct spw_port_spec *spec, const char *const *known,
			     size_t known_cnt, const char *usage);

#ifdef __cplusplus
}
#endif
#endif
