/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Where a description's header begins in a frame: behind the headers of the packet. The common
 * ones, UDP without tags and options, are read in plan.c. And what is asked once of a plan: how
 * much of a frame it reads at least, and with which counter objects begin.
 *
 *   udp        Ethernet, 0 .. 2 tags, IPv4 with options or IPv6, UDP    begin: the UDP header
 *   ethernet   Ethernet, 0 .. 2 tags                                    begin: behind the type
 *   message    of mode=rc                                               begin: 0
 *
 * `head` bytes of a frame are readable, which may be less than its length. A frame comes from the
 * wire: every length in it is checked against head before anything behind it is read. `cut` means
 * that bytes are missing, `not_object` that they are there and of another kind: the counters
 * differ.
 */
#include "obj/plan.h"

enum { ETH_BYTES = 14, IPV4_BYTES = 20, TAG_BYTES = 4, TAG_MAX = 2, IPV6_BYTES = 40 };

/* Behind the Ethernet type and the tags in front of it; 0: the frame is too short. */
SPW_INLINE uint64_t ethernet_skip(const uint8_t *frame, uint64_t len, uint32_t *type_out)
{
	uint64_t at = ETH_BYTES;

	if (len < at)
		return 0;
	*type_out = spw_be16_load(frame + at - 2);
	for (int i = 0; i < TAG_MAX && (*type_out == 0x8100 || *type_out == 0x88a8); i++) {
		at += TAG_BYTES;
		if (len < at)
			return 0;
		*type_out = spw_be16_load(frame + at - 2);
	}
	return at;
}

/* type 0: any. */
static enum spw_obj_miss ethernet_begin(const uint8_t *frame, uint64_t len, uint32_t type,
					uint64_t *begin_out)
{
	uint32_t got;

	*begin_out = ethernet_skip(frame, len, &got);
	if (!*begin_out)
		return SPW_OBJ_MISS_cut;
	return type == 0 || got == type ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_not_object;
}

/* The bytes of the IP header; 0: not UDP, or a fragment. The reads lie within 20 bytes. IPv6 with
 * extension headers is not taken, and so neither are its fragments. 0x3fff: the offset and "more
 * fragments", not "don't fragment". */
SPW_INLINE uint64_t ip_bytes(const uint8_t *ip, uint32_t type)
{
	uint32_t bytes = (ip[0] & 15u) * 4;

	if (type == 0x86dd)
		return ip[0] >> 4 == 6 && ip[6] == 17 ? IPV6_BYTES : 0;
	if (type != 0x0800 || ip[0] >> 4 != 4 || bytes < 20 || ip[9] != 17)
		return 0;
	return spw_be16_load(ip + 6) & 0x3fff ? 0 : bytes;
}

/* UDP with tags, options or IPv6. */
static enum spw_obj_miss udp_begin(const uint8_t *frame, uint64_t len, uint64_t *at_out)
{
	uint32_t type;
	uint64_t at = ethernet_skip(frame, len, &type), bytes;

	if (!at || len - at < 20)
		return SPW_OBJ_MISS_cut;
	bytes = ip_bytes(frame + at, type);
	if (!bytes)
		return SPW_OBJ_MISS_not_object;
	*at_out = at + bytes;
	return len < *at_out + PLAN_UDP_BYTES ? SPW_OBJ_MISS_cut : SPW_OBJ_MISS_none;
}

enum spw_obj_miss plan_begin(const struct spw_obj_plan *plan, const uint8_t *frame, uint32_t head,
			     uint64_t *begin_out)
{
	*begin_out = 0;
	if (plan->under == SPW_OBJ_UNDER_ethernet)
		return ethernet_begin(frame, head, plan->port, begin_out);
	if (plan->under == SPW_OBJ_UNDER_message)
		return SPW_OBJ_MISS_none;
	return udp_begin(frame, head, begin_out);
}

/* Steps that frames may skip are left out, and what moves `at` by a field's value moves it by 0. */
uint32_t spw_obj_plan_head(const struct spw_obj_plan *plan)
{
	static const uint32_t begin[] = {[SPW_OBJ_UNDER_udp] =
						 ETH_BYTES + IPV4_BYTES + PLAN_UDP_BYTES,
					 [SPW_OBJ_UNDER_ethernet] = ETH_BYTES,
					 [SPW_OBJ_UNDER_message] = 0};
	uint32_t at = begin[plan->under], head = at, word = at;

	for (const struct spw_obj_step *step = plan->step;
	     step < plan->step + plan->step_cnt && step->op != PLAN_OP_items; step++) {
		if (step->op == PLAN_OP_skip)
			at += step->off;
		else if (step->op == PLAN_OP_unless_is || step->op == PLAN_OP_unless_in ||
			 step->op == PLAN_OP_unless_more)
			step += step->off;
		else if (step->op == PLAN_OP_load || step->op == PLAN_OP_load_little)
			head = SPW_MAX(head, (word = at + step->off) + step->need);
		else if (step->op == PLAN_OP_same || step->op == PLAN_OP_same_is)
			head = SPW_MAX(head, word + step->need);
		else if (step->op == PLAN_OP_load_is)
			head = SPW_MAX(head, at + step->off + step->need);
	}
	return head;
}

/* Five steps of Newton's method: the odd factor is its own inverse modulo 2^3, and each step
 * doubles the bits that are right. */
void plan_granule_set(struct spw_obj_plan *plan, uint64_t granule)
{
	uint64_t odd, inverse;

	plan->granule = granule;
	plan->granule_max = UINT64_MAX / granule;
	plan->granule_shift = (uint32_t)__builtin_ctzll(granule);
	odd = inverse = granule >> plan->granule_shift;
	for (int i = 0; i < 5; i++)
		inverse *= 2 - odd * inverse;
	plan->granule_inverse = inverse;
}

/* Runs the plan on the first frame as if there were one object without bounds and with phase 0, so
 * that the frame's place does not matter: the part that comes out is the counter with which objects
 * begin. */
bool spw_obj_plan_align(struct spw_obj_plan *plan, const uint8_t *frame, uint32_t head,
			uint32_t len)
{
	struct spw_obj_plan one = *plan;
	struct spw_obj_hit hit;

	one.object_bytes = UINT64_MAX;
	plan_granule_set(&one, 1);
	one.phase = 0;
	if (spw_obj_plan_run(&one, frame, head, len, &hit) != SPW_OBJ_MISS_none)
		return false;
	plan->phase = hit.part;
	return true;
}
