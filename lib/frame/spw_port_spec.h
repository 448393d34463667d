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

/* One key that a driver takes: what its checks, its messages and spinwire-ports(7) know of it. */
struct spw_port_key {
	const char *name, *value; /* "udp", "PORT": what stands behind its "=" */
	const char *help;         /* sentences for the manual page */
	const char *dflt;         /* as a user would write it, or in words; NULL: none */
	uint64_t min, max;        /* of a number; both 0: it is none */
};

/* Keys that go together; several drivers may share a set. */
struct spw_port_keys {
	const char *when; /* "mode=rc"; NULL: always */
	const struct spw_port_key *key;
	uint32_t cnt;
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

/* Purpose: the value of a key of a set, with the range and the default that stand there. A default
 *   in words is 0 here: the caller knows what it depends on.
 * Shape: name is a number of the set.
 * Thread: setup.
 * Errors: as spw_port_spec_u64.
 */
int spw_port_spec_number(const struct spw_port_spec *spec, const struct spw_port_keys *keys,
			 const char *name, uint64_t *value_out);

/* Purpose: refuses a spec with a key that is in no set.
 * Shape: NULL ends the sets.
 * Thread: setup.
 * Errors: -EINVAL with the key, and all that there are.
 */
int spw_port_spec_check_keys(const struct spw_port_spec *spec,
			     const struct spw_port_keys *const *sets);

/* Purpose: "size=BYTES, rate=FRAMES/S, ..." of all sets, for messages; cut at bytes.
 * Returns: out.
 * Thread: any.
 */
const char *spw_port_keys_text(const struct spw_port_keys *const *sets, char *out, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
