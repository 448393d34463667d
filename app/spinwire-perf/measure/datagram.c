/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One end of a UD flow (datagram.h), for case_egress.c. Plain verbs on lib/rdma's device, one CQ
 * for both queues: the client only sends and the server only receives, so its completions are of
 * one kind.
 *
 *   | GRH 40 bytes | message |     a slot: a receive begins at the GRH (ibv_post_recv(3)), a send
 *   ^ receive      ^ send          behind it
 */
#include "measure/datagram.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "measure/pattern.h"

/* Any value that both ends use; the highest bit is the kernel's (InfiniBand, privileged Q_Keys). */
#define QKEY      0x73707770u
#define GRH_BYTES 40u
#define CQ_CNT    512u
#define GID_HEX   (2 * sizeof(union ibv_gid) + 1)

static uint32_t datagram_stride(const struct perf_datagram *d)
{
	return SPW_ALIGN_UP(GRH_BYTES + d->bytes, SPW_CACHE_LINE);
}

/* Sends leave out the room of the GRH: the NIC writes it at the receiver. */
static struct ibv_sge sge_of(const struct perf_datagram *d, uint32_t slot, bool with_grh)
{
	uint8_t *at = d->mem + (size_t)slot * datagram_stride(d) + (with_grh ? 0 : GRH_BYTES);

	return (struct ibv_sge){.addr = (uintptr_t)at,
				.length = d->bytes + (with_grh ? GRH_BYTES : 0),
				.lkey = d->mr->lkey};
}

/* ---- life ---- */

/* All slots carry the same pattern, so that posting a send writes nothing. */
static int datagram_memory_make(struct perf_datagram *d, uint64_t seed)
{
	size_t bytes = (size_t)PERF_DATAGRAM_SLOTS * datagram_stride(d);

	bytes = SPW_ALIGN_UP(bytes, (size_t)4096);
	d->mem = aligned_alloc(4096, bytes);
	if (!d->mem)
		return spw_err(ENOMEM, "no memory for datagrams");
	memset(d->mem, 0, bytes);
	for (uint32_t i = 0; i < PERF_DATAGRAM_SLOTS; i++)
		perf_pattern_fill(d->mem + (size_t)i * datagram_stride(d) + GRH_BYTES, d->bytes,
				  seed);
	return rdma_mr_reg_bytes(&d->dev, d->dev.pd, d->mem, bytes, IBV_ACCESS_LOCAL_WRITE, &d->mr);
}

static int datagram_queues_make(struct perf_datagram *d)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = CQ_CNT,
					 .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
						     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	/* sq_sig_all: every send is to have a stamp. */
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_UD,
				      .sq_sig_all = 1,
				      .cap = {.max_send_wr = PERF_DATAGRAM_AHEAD,
					      .max_recv_wr = PERF_DATAGRAM_SLOTS,
					      .max_send_sge = 1,
					      .max_recv_sge = 1}};

	d->cq = ibv_create_cq_ex(d->dev.ctx, &cq);
	if (!d->cq)
		return spw_err(ENOTSUP, "%s: a completion queue with stamps: %s", d->dev.name,
			       strerror(errno));
	qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(d->cq);
	d->qp = ibv_create_qp(d->dev.pd, &qp);
	return d->qp ? 0 : spw_err(errno, "%s: a UD queue pair: %s", d->dev.name, strerror(errno));
}

/* A UD queue pair needs no peer for its states: RTR and RTS take no attributes of the other end. */
static int datagram_queues_start(struct perf_datagram *d)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = d->dev.port_num, .qkey = QKEY};
	int rc = ibv_modify_qp(d->qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	attr.qp_state = IBV_QPS_RTR;
	rc = rc ? rc : ibv_modify_qp(d->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	rc = rc ? rc : ibv_modify_qp(d->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return rc ? spw_err(rc, "%s: a UD queue pair does not start: %s", d->dev.name, strerror(rc))
		  : 0;
}

/* Device, memory, queues; all states of a UD queue pair are reached without the other end. */
int perf_datagram_open(const char *device, uint32_t bytes, uint64_t seed,
		       struct perf_datagram *d_out)
{
	int rc;

	memset(d_out, 0, sizeof(*d_out));
	d_out->bytes = bytes;
	rc = rdma_dev_open(device, 1, &d_out->dev);
	if (rc == 0 && bytes > rdma_dev_mtu_bytes(&d_out->dev))
		rc = spw_err(EMSGSIZE, "%s: a packet carries %u bytes: set a larger MTU", device,
			     rdma_dev_mtu_bytes(&d_out->dev));
	if (rc == 0 && (rc = rdma_dev_gid(&d_out->dev, NULL, &d_out->gid)) == 0 &&
	    (rc = datagram_memory_make(d_out, seed)) == 0 &&
	    (rc = datagram_queues_make(d_out)) == 0)
		rc = datagram_queues_start(d_out);
	if (rc < 0)
		perf_datagram_close(d_out);
	return rc;
}

void perf_datagram_close(struct perf_datagram *d)
{
	if (d->ah)
		ibv_destroy_ah(d->ah);
	if (d->qp)
		ibv_destroy_qp(d->qp);
	if (d->cq)
		ibv_destroy_cq(ibv_cq_ex_to_cq(d->cq));
	if (d->mr)
		ibv_dereg_mr(d->mr);
	free(d->mem);
	rdma_dev_close(&d->dev);
	memset(d, 0, sizeof(*d));
}

/* ---- the other end ---- */

json_t *perf_datagram_json(const struct perf_datagram *d)
{
	char text[GID_HEX];

	for (size_t i = 0; i < sizeof(d->gid.gid.raw); i++)
		snprintf(text + 2 * i, 3, "%02x", d->gid.gid.raw[i]);
	return json_pack("{s:i,s:s}", "qpn", (int)d->qp->qp_num, "gid", text);
}

/* The other end's numbers are bounded: a QP number has 24 bits. */
int perf_datagram_reach(struct perf_datagram *d, const json_t *far)
{
	const char *text = json_string_value(json_object_get(far, "gid"));
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = d->dev.port_num,
				   .grh = {.sgid_index = d->gid.index, .hop_limit = 64}};
	uint64_t qpn;
	int rc = perf_number(far, "qpn", (1u << 24) - 1, &qpn);

	if (rc < 0)
		return rc;
	if (!text || strlen(text) != GID_HEX - 1)
		return spw_err(EPROTO, "the other end sent no GID");
	for (size_t i = 0; i < sizeof(attr.grh.dgid.raw); i++)
		if (sscanf(text + 2 * i, "%2hhx", &attr.grh.dgid.raw[i]) != 1)
			return spw_err(EPROTO, "the other end sent no GID");
	d->far_qpn = (uint32_t)qpn;
	d->ah = ibv_create_ah(d->dev.pd, &attr);
	return d->ah ? 0
		     : spw_err(EHOSTUNREACH, "%s: no way to the other end's address: %s",
			       d->dev.name, strerror(errno));
}

/* ---- messages ---- */

/* PERF_DATAGRAM_AHEAD bounds what the send queue holds: there is always room for a post below it.
 */
int perf_datagram_post(struct perf_datagram *d)
{
	struct ibv_sge sge = sge_of(d, (uint32_t)(d->posted % PERF_DATAGRAM_AHEAD), false);
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	int rc;

	if (d->posted - d->sent == PERF_DATAGRAM_AHEAD)
		return -EAGAIN;
	wr.wr.ud.ah = d->ah;
	wr.wr.ud.remote_qpn = d->far_qpn;
	wr.wr.ud.remote_qkey = QKEY;
	rc = ibv_post_send(d->qp, &wr, &bad);
	if (rc)
		return spw_err(EIO, "%s: a datagram cannot be sent: %s", d->dev.name, strerror(rc));
	d->posted++;
	return 0;
}

/* Calls for each completion until cnt were taken or there are no more. */
static int poll_each(struct perf_datagram *d, int cnt, int (*each)(struct perf_datagram *, void *),
		     void *arg)
{
	struct ibv_poll_cq_attr attr = {0};
	int taken = 0, rc = ibv_start_poll(d->cq, &attr);

	if (rc)
		return rc == ENOENT ? 0 : spw_err(EIO, "%s: no completions", d->dev.name);
	do {
		if (d->cq->status != IBV_WC_SUCCESS)
			rc = spw_err(EIO, "%s: a datagram failed: %s", d->dev.name,
				     ibv_wc_status_str(d->cq->status));
		else
			rc = each(d, arg);
		taken++;
	} while (rc == 0 && taken < cnt && ibv_next_poll(d->cq) == 0);
	ibv_end_poll(d->cq);
	return rc < 0 ? rc : taken;
}

/* The raw stamp, in ticks of the device's clock; case_egress.c converts it. */
static int sent_one(struct perf_datagram *d, void *arg)
{
	uint64_t **stamp = arg;

	*(*stamp)++ = ibv_wc_read_completion_ts(d->cq);
	d->sent++;
	return 0;
}

int perf_datagram_sent(struct perf_datagram *d, uint64_t *stamp_out)
{
	return poll_each(d, PERF_DATAGRAM_AHEAD, sent_one, &stamp_out);
}

/* wr_id is the slot: completions of receives report it. */
static int receive_post(struct perf_datagram *d, uint32_t slot)
{
	struct ibv_sge sge = sge_of(d, slot, true);
	struct ibv_recv_wr *bad, wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	return ibv_post_recv(d->qp, &wr, &bad)
		       ? spw_err(EIO, "%s: no receive can be posted", d->dev.name)
		       : 0;
}

int perf_datagram_listen(struct perf_datagram *d)
{
	int rc = 0;

	for (uint32_t i = 0; i < PERF_DATAGRAM_SLOTS && rc == 0; i++)
		rc = receive_post(d, i);
	return rc;
}

/* The receive is posted again at once: an unreliable datagram that finds none is lost. */
static int came_one(struct perf_datagram *d, void *arg)
{
	const uint64_t *seed = arg;
	uint32_t slot = (uint32_t)d->cq->wr_id;
	uint8_t *at = d->mem + (size_t)slot * datagram_stride(d) + GRH_BYTES;

	d->came++;
	d->wrong |= ibv_wc_read_byte_len(d->cq) != GRH_BYTES + d->bytes ||
		    perf_pattern_check(at, d->bytes, *seed) != d->bytes;
	memset(at, 0, d->bytes); /* the next one must bring its own */
	return receive_post(d, slot);
}

int perf_datagram_take(struct perf_datagram *d, uint64_t seed)
{
	return poll_each(d, PERF_DATAGRAM_SLOTS, came_one, &seed);
}
