/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Pairs of functions (pair.h): client.c calls this once after the greeting, with the facts of both
 * ends. Two functions face each other if they are in one IPv4 subnet, as the rails of one cable
 * are. A function that cannot be a rail is left out with a line that says what to do; the run goes
 * on without it, but the exit status reports it (client.c).
 *
 *   --rails a=b     a faces b, whatever their addresses are
 *   --rails a+c     each faces what is in its subnet
 *   without         every function of this end that is up and has an address, the same way
 *
 * Where a subnet has several functions at either end (perf_pair_is_open), client.c lets probes find
 * out which one faces which (prove.c), and calls again with what they found. Without probes the
 * first that is not taken is chosen.
 */
#include "measure/pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"

/* What does not fit the table is left out: it has two lines for each rail. */
static void SPW_PRINTF(2, 3) pair_fault(struct perf_rails *rails, const char *fmt, ...)
{
	va_list args;

	if (rails->fault_cnt == SPW_ARRAY_CNT(rails->fault))
		return;
	va_start(args, fmt);
	vsnprintf(rails->fault[rails->fault_cnt++], PERF_TEXT_BYTES, fmt, args);
	va_end(args);
}

/* A prefix of 0 is one net of all: a shift by 32 is undefined. */
static uint32_t net_of(const char *ip, uint32_t prefix)
{
	struct in_addr addr = {0};

	inet_pton(AF_INET, ip, &addr);
	return prefix ? ntohl(addr.s_addr) >> (32 - prefix) : 0;
}

static bool same_net_of(const char *a, uint32_t a_prefix, const char *b, uint32_t b_prefix)
{
	return a[0] && b[0] && a_prefix == b_prefix && net_of(a, a_prefix) == net_of(b, b_prefix);
}

static bool same_net(const struct perf_nic *a, const struct perf_nic *b)
{
	return same_net_of(a->ip, a->prefix, b->ip, b->prefix);
}

/* By pointer: facts are not copied while rails are paired. */
static bool is_taken(const struct perf_rails *rails, const struct perf_nic *nic)
{
	for (uint32_t i = 0; i < rails->cnt; i++)
		if (rails->rail[i].own == nic || rails->rail[i].peer == nic)
			return true;
	return false;
}

/* What keeps a function from being a rail; NULL: nothing. */
static const char *pair_unfit(const struct perf_nic *nic)
{
	if (!nic->up)
		return "its port is not up: is the cable in, and the interface up (ip link)?";
	if (!nic->ip[0])
		return "it has no RoCE v2 GID over IPv4: give its interface an address "
		       "(spinwire-doctor plan)";
	return NULL;
}

/* Two MTUs that differ leave the pair out: the fault says which one to set. */
static void pair_join(struct perf_rails *rails, const struct perf_nic *a, const struct perf_nic *b)
{
	if (a->mtu && b->mtu && a->mtu != b->mtu) {
		pair_fault(rails,
			   "%s: its MTU is %u, that of %s at the other end %u: set both alike (ip "
			   "link "
			   "set %s mtu %u); left out",
			   a->rdma, a->mtu, b->rdma, b->mtu,
			   a->mtu < b->mtu && a->netdev[0] ? a->netdev : b->netdev,
			   SPW_MAX(a->mtu, b->mtu));
		return;
	}
	rails->rail[rails->cnt++] = (struct perf_rail){
		.own = a, .peer = b, .one_card = a->guid[0] && !strcmp(a->guid, b->guid)};
}

/* What probes found. Returns: whether they were sent from this function. */
static bool pair_found(const struct perf_facing *facing, const struct perf_nic *nic,
		       const struct perf_nic **peer_out)
{
	for (uint32_t i = 0; facing && i < facing->cnt; i++)
		if (facing->own[i] == nic) {
			*peer_out = facing->peer[i];
			return true;
		}
	return false;
}

/* A function of the other end faces one of this end alone. */
static const struct perf_nic *pair_facing(const struct perf_rails *rails,
					  const struct perf_end *peer,
					  const struct perf_facing *facing,
					  const struct perf_nic *nic)
{
	const struct perf_nic *found;

	if (pair_found(facing, nic, &found))
		return found;
	for (uint32_t i = 0; i < peer->nic_cnt; i++)
		if (!pair_unfit(&peer->nic[i]) && same_net(nic, &peer->nic[i]) &&
		    !is_taken(rails, &peer->nic[i]))
			return &peer->nic[i];
	return NULL;
}

/* How many functions of the other end could face this one, taken or not. */
static uint32_t facing_cnt(const struct perf_end *peer, const struct perf_nic *nic)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < peer->nic_cnt; i++)
		cnt += !pair_unfit(&peer->nic[i]) && same_net(nic, &peer->nic[i]);
	return cnt;
}

/* Whether probes reached every rail of the other end in this one's subnet, from others. */
static bool pair_none_left(const struct perf_facing *facing, const struct perf_end *peer,
			   const struct perf_nic *nic)
{
	uint32_t reached = 0;

	for (uint32_t i = 0; i < facing->cnt; i++)
		reached += facing->peer[i] && same_net(nic, facing->peer[i]);
	return reached == facing_cnt(peer, nic);
}

/* The faults differ: the other end has no rail in the subnet, none that a probe reached, or none
 * that is left. */
static void pair_one(struct perf_rails *rails, const struct perf_end *peer,
		     const struct perf_facing *facing, const struct perf_nic *nic)
{
	const struct perf_nic *other = pair_facing(rails, peer, facing, nic);

	if (other)
		pair_join(rails, nic, other);
	else if (pair_found(facing, nic, &other) && !pair_none_left(facing, peer, nic))
		pair_fault(rails,
			   "%s: its subnet %s/%u has rails of %s, but no probe reached one: does "
			   "its cable lead to another host? left out",
			   nic->rdma, nic->ip, nic->prefix, peer->host);
	else if (facing_cnt(peer, nic))
		pair_fault(
			rails,
			"%s: %s has fewer rails in the subnet of %s/%u, none is left to face it; "
			"left out",
			nic->rdma, peer->host, nic->ip, nic->prefix);
	else
		pair_fault(
			rails,
			"%s: no rail of %s is in its subnet %s/%u: does its cable lead to another "
			"host? addresses: spinwire-doctor plan; left out",
			nic->rdma, peer->host, nic->ip, nic->prefix);
}

/* Names of the user are exact: a part of a name could mean several devices. */
static const struct perf_nic *pair_by_name(const struct perf_end *end, const char *name)
{
	for (uint32_t i = 0; i < end->nic_cnt; i++)
		if (!strcmp(end->nic[i].rdma, name))
			return &end->nic[i];
	return NULL;
}

/* A device that is no NIC is named with the reason why it is not taken. */
static int no_such_device(const struct perf_end *end, const char *name)
{
	char text[PERF_TEXT_BYTES];

	for (uint32_t i = 0; i < end->other_cnt; i++)
		if (!strcmp(end->other[i].rdma, name)) {
			perf_other_text(&end->other[i], text, sizeof(text));
			return spw_err(EINVAL, "--rails: %s: %s", end->host, text);
		}
	return spw_err(EINVAL, "--rails: %s has no RDMA device %s; ibv_devices lists them",
		       end->host, name);
}

/* One word of --rails: "a" or "a=b". */
static int pair_named(struct perf_rails *rails, const struct perf_end *own,
		      const struct perf_end *peer, const struct perf_facing *facing, char *word)
{
	char *other = strchr(word, '=');
	const struct perf_nic *a, *b;

	if (other)
		*other++ = '\0';
	a = pair_by_name(own, word);
	b = other ? pair_by_name(peer, other) : NULL;
	if (!a || (other && !b))
		return no_such_device(a ? peer : own, a ? other : word);
	if (pair_unfit(a) || (b && pair_unfit(b)))
		pair_fault(rails, "%s: %s; left out", pair_unfit(a) ? word : other,
			   pair_unfit(a) ? pair_unfit(a) : pair_unfit(b));
	else if (b)
		pair_join(rails, a, b);
	else
		pair_one(rails, peer, facing, a);
	return 0;
}

static int pair_names(struct perf_rails *rails, const struct perf_end *own,
		      const struct perf_end *peer, const char *names,
		      const struct perf_facing *facing)
{
	char text[256], *rest = NULL;
	int rc = 0;

	if ((size_t)snprintf(text, sizeof(text), "%s", names) >= sizeof(text))
		return spw_err(EINVAL, "--rails: longer than 255 characters");
	for (char *word = strtok_r(text, "+", &rest); word && rc == 0;
	     word = strtok_r(NULL, "+", &rest))
		rc = rails->cnt == PERF_RAIL_MAX
			     ? spw_err(EINVAL, "--rails: more than %u rails", PERF_RAIL_MAX)
			     : pair_named(rails, own, peer, facing, word);
	return rc;
}

/* The order of the facts is that of PCI addresses at either end, so rails have the same numbers in
 * each run. */
int perf_pair(const struct perf_end *own, const struct perf_end *peer, const char *names,
	      const struct perf_facing *facing, struct perf_rails *rails_out)
{
	uint32_t usable = 0;

	memset(rails_out, 0, sizeof(*rails_out));
	if (names)
		return pair_names(rails_out, own, peer, names, facing);
	for (uint32_t i = 0; i < own->nic_cnt && rails_out->cnt < PERF_RAIL_MAX; i++)
		if (!pair_unfit(&own->nic[i])) {
			usable++;
			pair_one(rails_out, peer, facing, &own->nic[i]);
		}
	if (own->nic_cnt == 0)
		pair_fault(rails_out, "%s has no RDMA device%s", own->host,
			   own->other_cnt ? " that is a NIC" : ": ibv_devices lists none");
	else if (usable == 0)
		pair_fault(rails_out, "%s: %s", own->nic[0].rdma, pair_unfit(&own->nic[0]));
	return 0;
}

/* Of the chosen rails: a function that faces nothing leaves nothing open. */
bool perf_pair_is_open(const struct perf_rails *rails, const struct perf_end *own,
		       const struct perf_end *peer)
{
	for (uint32_t i = 0; i < rails->cnt; i++)
		if (facing_cnt(peer, rails->rail[i].own) > 1 ||
		    facing_cnt(own, rails->rail[i].peer) > 1)
			return true;
	return false;
}

uint32_t perf_pair_candidates(const struct perf_end *end, const struct perf_end *other,
			      const struct perf_nic *nic_out[static PERF_RAIL_MAX])
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < end->nic_cnt && cnt < PERF_RAIL_MAX; i++)
		if (!pair_unfit(&end->nic[i]) && facing_cnt(other, &end->nic[i]))
			nic_out[cnt++] = &end->nic[i];
	return cnt;
}

/* The first pair is taken: more than one bond between two machines is not expected. */
bool perf_pair_bonds(const struct perf_end *own, const struct perf_end *peer,
		     const struct perf_bond **own_out, const struct perf_bond **peer_out)
{
	for (uint32_t i = 0; i < own->bond_cnt; i++)
		for (uint32_t k = 0; k < peer->bond_cnt; k++) {
			const struct perf_bond *a = &own->bond[i], *b = &peer->bond[k];

			if (!same_net_of(a->ip, a->prefix, b->ip, b->prefix))
				continue;
			*own_out = a;
			*peer_out = b;
			return true;
		}
	return false;
}

/* Each queue pair of a rail is one entry: lib/xfer makes a QP for each. */
void perf_rails_text(const struct perf_rails *rails, uint32_t mask, uint32_t qps, bool of_peer,
		     char *out, size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < rails->cnt; i++)
		for (uint32_t q = 0; q < qps && mask >> i & 1 && used < bytes; q++)
			used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? "+" : "",
						 of_peer ? rails->rail[i].peer->rdma
							 : rails->rail[i].own->rdma);
}
