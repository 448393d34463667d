/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --measure: which pairs are measured. Each function to itself, which turns round inside the NIC
 * and shows its PCIe link; the ports of this machine to each other, in case a cable joins them, one
 * half after the other and then both at once; and with --peer those to another machine
 * (measure_peer.c). About half a second a pair.
 *
 * Called by main.c with --measure after the machine was read; the pairs and what they mean
 * (findings) are added to the plat, so that table and receipt show them like any other fact. Each
 * GPU is put under load first, for about a second.
 *
 *    function to itself    NIC ─ PCIe ─ memory           no cable
 *    port to port          NIC ─ cable ─ NIC             if one joins them
 *    halves together       both functions of each port   at most the port's rate
 */
#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_life.h"
#include "base/spw_err.h"

bool measure_is_usable(const struct spw_plat_nic *nic)
{
	return nic->rdma[0] && nic->port_active == 1 && nic->link_is_ethernet &&
	       nic->gid_v2_ipv4 >= 0;
}

/* The best of several tries counts, because a core that was preempted is no slow cable. */
bool measure_take(struct spw_plat_pair *pair, const struct measure_result *got)
{
	if (got->mbps > pair->mbps || got->mbps < 0) {
		pair->mbps = got->mbps;
		pair->packets = got->packets;
		pair->wire = got->wire;
	}
	return spw_plat_pair_is_slow(pair);
}

/* A table that is full drops the pair: a machine has far fewer. */
void measure_add(struct measure_list *list, const struct spw_plat_pair *pair)
{
	if (list->cnt < SPW_PLAT_PAIR_MAX)
		list->pair[list->cnt++] = *pair;
}

/* ---- within this machine ---- */

/* Functions that run at once, one connection each. */
struct bundle {
	const struct spw_plat_nic *from[MEASURE_ENDS_MAX], *to[MEASURE_ENDS_MAX];
	uint32_t cnt;
};

/* The sum of what the pairs should carry, but no more than their port. */
static int64_t measure_nominal(const struct doctor_args *args, const struct bundle *b)
{
	int64_t sum = 0, port = b->from[0]->speed_mbit;

	for (uint32_t i = 0; i < b->cnt; i++) {
		int64_t from = spw_plat_nic_nominal_mbps(b->from[i]),
			to = spw_plat_nic_nominal_mbps(b->to[i]);

		if (args->expect_mbps)
			sum += args->expect_mbps;
		else if (from < 0 || to < 0)
			return -1;
		else
			sum += SPW_MIN(from, to);
	}
	return port > 0 ? SPW_MIN(sum, port) : sum;
}

/* "a+b" for functions that run at once. */
static void measure_names(const struct bundle *b, bool to, char *out, size_t bytes)
{
	size_t used = 0;

	for (uint32_t i = 0; i < b->cnt && used < bytes; i++)
		used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? "+" : "",
					 (to ? b->to : b->from)[i]->rdma);
}

/* Every end that was opened is closed, also after an error; closing one that was not is harmless.
 */
static int measure_ends_run(const struct bundle *b, struct spw_plat_pair *pair)
{
	static struct measure_end from[MEASURE_ENDS_MAX], to[MEASURE_ENDS_MAX];
	struct measure_addr a, z;
	struct measure_result got;
	bool again = true;
	int rc = 0;

	for (uint32_t i = 0; i < b->cnt && !rc; i++) {
		rc = measure_end_open(b->from[i]->rdma, &from[i]);
		rc = rc ? rc : measure_end_open(b->to[i]->rdma, &to[i]);
		if (rc)
			break;
		measure_end_addr(&from[i], &a);
		measure_end_addr(&to[i], &z);
		rc = measure_end_join(&to[i], &a);
		rc = rc ? rc : measure_end_join(&from[i], &z);
	}
	for (uint32_t try = 0; again && !rc && try < MEASURE_TRIES; try++) {
		measure_run(from, b->cnt, MEASURE_MS, &got);
		again = measure_take(pair, &got);
	}
	for (uint32_t i = 0; i < b->cnt; i++) {
		measure_end_close(&from[i]);
		measure_end_close(&to[i]);
	}
	return rc;
}

/* Ports of one machine that do not reach each other are usual: that is no row.
 * Errors: why the devices cannot be used. */
static int measure_bundle(const struct doctor_args *args, const struct bundle *b,
			  struct measure_list *list)
{
	struct spw_plat_pair pair = {.mbps = -1,
				     .cable = b->from[0] != b->to[0],
				     .nominal_mbps = measure_nominal(args, b)};
	int rc;

	measure_names(b, false, pair.from, sizeof(pair.from));
	measure_names(b, true, pair.to, sizeof(pair.to));
	app_life_phase(0, "measuring %s to %s", pair.from, pair.to);
	rc = measure_ends_run(b, &pair);
	/* Ports that no cable joins do not answer, and leave no row. */
	if (rc || (pair.mbps < 0 && pair.cable))
		return rc;
	measure_add(list, &pair);
	return 0;
}

/* From a function to itself: what leaves it turns round inside the NIC. */
static int measure_alone(const struct doctor_args *args, const struct spw_plat_nic *nic,
			 struct measure_list *list)
{
	return measure_bundle(args, &(struct bundle){.from = {nic}, .to = {nic}, .cnt = 1}, list);
}

/* The other half of a port that can be measured; NULL: there is none. */
static const struct spw_plat_nic *twin_of(const struct spw_plat *plat, uint32_t i)
{
	for (uint32_t k = i + 1; k < plat->nic_cnt; k++)
		if (plat->nic[k].half_of == (int32_t)i && measure_is_usable(&plat->nic[k]))
			return &plat->nic[k];
	return NULL;
}

/* The way back is measured only if the way there was answered. */
static int measure_ports(const struct doctor_args *args, const struct spw_plat *plat, uint32_t i,
			 uint32_t k, struct measure_list *list)
{
	const struct spw_plat_nic *a = twin_of(plat, i), *z = twin_of(plat, k);
	struct bundle there = {.from = {&plat->nic[i], a}, .to = {&plat->nic[k], z}, .cnt = 1},
		      back = {.from = {&plat->nic[k], z}, .to = {&plat->nic[i], a}, .cnt = 1};
	uint32_t before = list->cnt;
	int rc = measure_bundle(args, &there, list);

	if (rc || list->cnt == before) /* nobody answered */
		return rc;
	rc = measure_bundle(args, &back, list);
	if (a && z) {
		there.cnt = back.cnt = 2;
		rc = rc ? rc : measure_bundle(args, &there, list);
		rc = rc ? rc : measure_bundle(args, &back, list);
	}
	return rc;
}

/* The second halves of ports take part in measure_ports, together with the first ones. */
static int measure_own(const struct doctor_args *args, const struct spw_plat *plat,
		       struct measure_list *list)
{
	int rc = 0;

	for (uint32_t i = 0; i < plat->nic_cnt && !rc; i++)
		if (measure_is_usable(&plat->nic[i]))
			rc = measure_alone(args, &plat->nic[i], list);
	for (uint32_t i = 0; i < plat->nic_cnt && !rc; i++)
		for (uint32_t k = i + 1; k < plat->nic_cnt && !rc; k++)
			if (measure_is_usable(&plat->nic[i]) && plat->nic[i].half_of < 0 &&
			    measure_is_usable(&plat->nic[k]) && plat->nic[k].half_of < 0)
				rc = measure_ports(args, plat, i, k, list);
	return rc;
}

/* Without a port or a GPU there is nothing to measure, and the text says where to look. */
int doctor_measure(const struct doctor_args *args, struct spw_plat *plat)
{
	struct measure_list *list = calloc(1, sizeof(*list));
	int rc;

	if (!list)
		return spw_err(ENOMEM, "no memory to measure");
	if (!args->verbosity.quiet)
		app_life_start("spinwire-doctor");
	if (plat->gpu_cnt) {
		app_life_phase(plat->gpu_cnt * 1000000000ull, "putting the GPUs under load");
		spw_plat_gpus_load(plat, NULL, NULL);
	}
	if (args->peer[0])
		app_life_phase(0, "measuring to %s", args->peer[0]);
	rc = args->peer[0] ? measure_peer(args, plat, list) : measure_own(args, plat, list);
	if (rc == 0 && list->cnt == 0 && plat->gpu_cnt == 0)
		rc = spw_err(ENODEV, "--measure: no RDMA port with a link and an IPv4 address; "
				     "look at spinwire-doctor without --measure");
	if (rc == 0)
		spw_plat_pairs_put(plat, list->pair, list->cnt);
	app_life_phase(0, "%s", "");
	free(list);
	return rc;
}
