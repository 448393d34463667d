/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the parsers of received frames: RoCE v2 packets (wire_parse) and the headers for steering
 * (flow_parse). Every pointer and length that they return must lie inside the frame.
 */
#include <stdlib.h>

#include "softhca/nic/eth/flow.h"
#include "softhca/nic/port/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static void check_packet(const uint8_t *data, uint32_t len, bool icrc_valid)
{
	struct wire_pkt pkt;

	if (wire_parse(data, len, icrc_valid, &pkt) != WIRE_OK)
		return;
	CHECK(pkt.payload_len == 0 ||
	      (pkt.payload >= data &&
	       pkt.payload + pkt.payload_len + WIRE_ICRC_BYTES <= data + len));
	CHECK(pkt.op < WIRE_OP_CNT && (pkt.hdrs & WIRE_H_VALID));
	CHECK(pkt.psn <= WIRE_PSN_MASK && pkt.dqpn <= 0xffffff);
	CHECK(pkt.l3 >= data && pkt.l3 < data + len);
}

static void check_key(const uint8_t *data, uint32_t len)
{
	struct flow_key key;

	flow_parse(data, len, &key);
	CHECK(key.l3 == FLOW_L3_NONE || key.l3_off < len);
	CHECK(key.l3 == FLOW_L3_NONE || key.l3_off + key.l3_bytes <= len);
	CHECK((key.l4 != FLOW_L4_TCP && key.l4 != FLOW_L4_UDP) || key.is_frag ||
	      key.l4_off + 4u <= len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 16384)
		return 0;
	check_packet(data, (uint32_t)size, true);
	check_packet(data, (uint32_t)size, false);
	check_key(data, (uint32_t)size);
	return 0;
}
