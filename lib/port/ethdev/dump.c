/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * dpdk-dumpcap and dpdk-pdump are refused. They are processes of their own that attach to this
 * one's memory and ask it, through EAL's channel between processes, to copy frames within every
 * burst, into buffers whose mempool operations they name by an index of theirs. That index means
 * something else here, where the view of lib/pool is registered as well (pool.c), and the copies
 * would be the data path's to make. So the request gets an answer, and the log what does the same.
 *
 *   request, reply   struct pdump_request, pdump_response: lib/pdump/rte_pdump.c of DPDK, v19.05 on
 */
#include <errno.h>
#include <rte_eal.h>
#include <string.h>

#include "base/spw_log.h"
#include "port/ethdev/ethdev.h"

#define DUMP_ACTION "mp_pdump"

struct dump_answer {
	uint16_t version, operation;
	int32_t error;
};

/* EAL's thread for such messages. */
static int dump_refuse(const struct rte_mp_msg *request, const void *peer)
{
	struct dump_answer answer;
	struct rte_mp_msg reply;

	memset(&reply, 0, sizeof(reply));
	memcpy(&answer, request->param, sizeof(answer));
	answer.error = ENOTSUP;
	memcpy(reply.param, &answer, sizeof(answer));
	memcpy(reply.name, DUMP_ACTION, sizeof(DUMP_ACTION));
	reply.len_param = sizeof(answer);
	spw_warn("dpdk-dumpcap or dpdk-pdump asked for frames and is refused: another process "
		 "cannot copy them within a burst; --capture FILE writes what is received, as "
		 "pcapng");
	return rte_mp_reply(&reply, peer);
}

/* Fails without a channel (--no-shconf), where nobody can ask, and the second time. */
void ethdev_dump_refuse(void)
{
	rte_mp_action_register(DUMP_ACTION, dump_refuse);
}
