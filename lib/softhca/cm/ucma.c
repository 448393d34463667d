/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * /dev/infiniband/rdma_cm: open, write and close. Commands are decoded here and are in ucma_cmd.c.
 *
 *   write(): header {command, bytes in, bytes out} | structure, which names where the answer goes
 *   ucma_write   header, sizes --> copy in --> lock --> the command --> unlock --> copy out
 *
 * What librdmacm sends for a connection, and the events that it fetches in between:
 *
 *   server                                   client
 *   CREATE_ID  BIND_IP  LISTEN               CREATE_ID  RESOLVE_IP
 *                                              ADDR_RESOLVED
 *                                            QUERY_ROUTE  RESOLVE_ROUTE
 *                                              ROUTE_RESOLVED
 *                                            QUERY_ROUTE  INIT_QP_ATTR (INIT)  CONNECT
 *     CONNECT_REQUEST, with a new identifier
 *   QUERY_ROUTE  INIT_QP_ATTR (INIT, RTR, RTS)  ACCEPT
 *                                              CONNECT_RESPONSE
 *                                            INIT_QP_ATTR (INIT, RTR, RTS)  ACCEPT (valid 0)
 *     ESTABLISHED
 *                                            DISCONNECT
 *     DISCONNECTED
 *   DISCONNECT                                 DISCONNECTED
 *     TIMEWAIT_EXIT                            TIMEWAIT_EXIT
 *   DESTROY_ID                               DESTROY_ID
 *
 * GET_EVENT alone waits, and takes the lock when it has an event. What to know before changing it:
 * nothing of the caller's memory is used in place, and an answer that could not be written is
 * refused before anything changes.
 * Source: Linux drivers/infiniband/core/ucma.c (sizes, order of checks, errno).
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "softhca/cm/ucma_impl.h"
#include "softhca/kernel/ctl.h"

#define VALUE_BYTES  8u /* of the options that exist */
#define OPTION_BYTES 4096u
#define EVENT_BYTES  offsetof(struct rdma_ucm_event_resp, reserved)
/* The index of the device is left out, as by kernels before 5.9: librdmacm goes by the GUID. */
#define ROUTE_BYTES offsetof(struct rdma_ucm_query_route_resp, ibdev_index)
#define ADDR_BYTES  offsetof(struct rdma_ucm_query_addr_resp, ibdev_index)

/* ---- the table ---- */

struct ucma_cmd {
	int (*fn)(struct ucma_call *c);
	uint16_t in_bytes, out_bytes; /* out: what the caller must have room for */
	int16_t response_at;          /* of the answer's address; -1: no answer */
};

#define RESPONSE(s)   offsetof(struct rdma_ucm_##s, response)
#define CMD(id, f, s) [RDMA_USER_CM_CMD_##id] = {f, sizeof(struct rdma_ucm_##s), 0, -1}
#define CMD_R(id, f, s, resp) \
	[RDMA_USER_CM_CMD_##id] = {f, sizeof(struct rdma_ucm_##s), resp, RESPONSE(s)}

static const struct ucma_cmd cmds[] = {
	CMD_R(CREATE_ID, ucma_create, create_id, sizeof(struct rdma_ucm_create_id_resp)),
	CMD_R(DESTROY_ID, ucma_destroy, destroy_id, sizeof(struct rdma_ucm_destroy_id_resp)),
	CMD(BIND_IP, ucma_bind_ip, bind_ip),
	CMD(RESOLVE_IP, ucma_resolve_ip, resolve_ip),
	CMD(RESOLVE_ROUTE, ucma_resolve_route, resolve_route),
	CMD_R(QUERY_ROUTE, ucma_query_route, query, ROUTE_BYTES),
	CMD(CONNECT, ucma_connect, connect),
	CMD(LISTEN, ucma_listen, listen),
	CMD(ACCEPT, ucma_accept, accept),
	CMD(REJECT, ucma_reject, reject),
	CMD(DISCONNECT, ucma_disconnect, disconnect),
	CMD_R(INIT_QP_ATTR, ucma_init_qp_attr, init_qp_attr, sizeof(struct ib_uverbs_qp_attr)),
	CMD_R(GET_EVENT, NULL, get_event, EVENT_BYTES),
	CMD(SET_OPTION, ucma_set_option, set_option),
	CMD(NOTIFY, ucma_notify, notify),
	CMD_R(JOIN_IP_MCAST, ucma_join_ip, join_ip_mcast, sizeof(struct rdma_ucm_create_id_resp)),
	CMD_R(LEAVE_MCAST, ucma_leave, destroy_id, sizeof(struct rdma_ucm_destroy_id_resp)),
	CMD_R(MIGRATE_ID, ucma_migrate, migrate_id, sizeof(struct rdma_ucm_migrate_resp)),
	CMD_R(QUERY, ucma_query, query, ADDR_BYTES),
	CMD(BIND, ucma_bind, bind),
	CMD(RESOLVE_ADDR, ucma_resolve_addr, resolve_addr),
	CMD_R(JOIN_MCAST, ucma_join, join_mcast, sizeof(struct rdma_ucm_create_id_resp)),
};

/* ---- GET_EVENT ---- */

/* A listener has room for one more once its request has been fetched. */
static int ucma_get_event(struct ucma_call *c)
{
	struct ucma_event *e;
	sigset_t old;
	int rc = ucma_event_get(c->file, &old, &e);

	if (rc)
		return rc;
	c->out.event = e->resp;
	c->out_bytes = sizeof(c->out.event);
	e->id->reported++;
	if (e->mcast)
		e->mcast->reported++;
	if (e->conn) {
		e->conn->unfetched = false;
		e->id->backlog++;
	}
	free(e);
	cm_exit(&old);
	return 0;
}

/* ---- write() ---- */

/* What a command needs besides its structure. */
static int ucma_prepare(struct ucma_call *c, uint32_t cmd, const struct ucma_finder *finder)
{
	if (cmd == RDMA_USER_CM_CMD_SET_OPTION) {
		if (c->in.option.optlen > OPTION_BYTES)
			return -EINVAL;
		return hca_umem_read(c->value, c->in.option.optval,
				     SPW_MIN(c->in.option.optlen, VALUE_BYTES));
	}
	if (cmd != RDMA_USER_CM_CMD_MIGRATE_ID)
		return 0;
	c->other = finder->find((int)c->in.migrate.fd);
	if (c->other)
		return 0;
	return fcntl((int)c->in.migrate.fd, F_GETFD) < 0 ? -ENOENT : -EINVAL;
}

static int ucma_run(struct ucma_call *c, const struct ucma_cmd *d)
{
	sigset_t old;
	int rc;

	if (!d->fn)
		return ucma_get_event(c);
	cm_enter(&old);
	rc = d->fn(c);
	cm_exit(&old);
	c->out_bytes = d->out_bytes;
	return rc;
}

/* Can the answer be written? Its place keeps its bytes. */
static int ucma_probe(struct ucma_call *c, uint64_t response, uint32_t bytes)
{
	int rc = hca_umem_read(&c->out, response, bytes);

	rc = rc ? rc : hca_umem_write(response, &c->out, bytes);
	memset(&c->out, 0, sizeof(c->out));
	return rc;
}

/* Structures are read whole, whatever the header says they have: as by the kernel. CONNECT and
 * ACCEPT grew, and older libraries send less. */
static int ucma_command(struct ucma_call *c, const struct rdma_ucm_cmd_hdr *h, uint64_t at,
			const struct ucma_finder *finder)
{
	const struct ucma_cmd *d = &cmds[h->cmd];
	const bool grew = d->fn == ucma_connect || d->fn == ucma_accept;
	uint64_t response = 0;
	int rc;

	if (h->out < d->out_bytes)
		return -ENOSPC;
	if (grew && h->in < d->in_bytes - sizeof(struct rdma_ucm_ece))
		return -EINVAL;
	rc = hca_umem_read(&c->in, at, grew ? SPW_MIN(h->in, d->in_bytes) : d->in_bytes);
	if (rc)
		return rc;
	if (d->response_at >= 0) {
		memcpy(&response, (uint8_t *)&c->in + d->response_at, sizeof(response));
		rc = ucma_probe(c, response, d->out_bytes);
	}
	rc = rc ? rc : ucma_prepare(c, h->cmd, finder);
	if (rc)
		return rc;
	rc = ucma_run(c, d);
	if (c->other)
		finder->put(c->other);
	if (!rc && d->response_at >= 0)
		rc = hca_umem_write(response, &c->out, SPW_MIN((uint32_t)h->out, c->out_bytes));
	return rc;
}

int64_t ucma_write(struct ucma_file *file, const void *buf, size_t len,
		   const struct ucma_finder *finder)
{
	struct ucma_call c = {.file = file};
	struct rdma_ucm_cmd_hdr h;
	int rc;

	if (len < sizeof(h))
		return -EINVAL;
	rc = hca_umem_read(&h, (uint64_t)(uintptr_t)buf, sizeof(h));
	if (rc)
		return rc;
	if (h.cmd >= SPW_ARRAY_CNT(cmds) || h.in + sizeof(h) > len)
		return -EINVAL;
	if (!cmds[h.cmd].in_bytes)
		return -ENOSYS; /* GET_OPTION, which Linux has not either */
	rc = ucma_command(&c, &h, (uint64_t)(uintptr_t)buf + sizeof(h), finder);
	return rc ? rc : (int64_t)len;
}

/* ---- open and close ---- */

int ucma_open(struct hca_dev *devs, uint32_t cnt, struct ucma_file **file_out, int *fd_out)
{
	int rc = 0;

	for (uint32_t i = 0; i < cnt && !rc; i++)
		rc = nic_start(&devs[i]);
	rc = rc ? rc : ucma_file_open(file_out);
	if (rc)
		return rc;
	cm_all.dev_cnt = cnt;
	spw_thr_store_rel(&cm_all.devs, devs);
	nl_rows_more(cm_res_rows);
	*fd_out = (*file_out)->q.app_fd;
	return 0;
}

void ucma_close(struct ucma_file *file)
{
	struct cm_id *id, *next;
	sigset_t old;

	cm_enter(&old);
	for (id = cm_all.list; id; id = next) {
		next = id->next;
		if (id->file == file && id->uid)
			ucma_drop(id);
	}
	/* What is left are requests that nobody fetched, and those fetched and not accepted. */
	while ((id = cm_all.list)) {
		while (id && id->file != file)
			id = id->next;
		if (!id)
			break;
		ucma_drop(id);
	}
	cm_exit(&old);
	ucma_file_close(file);
}
