/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A NIC that exists and does nothing, so that the control path can be fuzzed alone.
 */
#include <string.h>

#include "softhca/nic/nic.h"

int nic_attach(struct hca_dev *dev)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1}, ip[4] = {10, 0, 0, 1};

	memcpy(dev->id.mac, mac, sizeof(mac));
	memcpy(dev->id.ip, ip, sizeof(ip));
	dev->link_up = 1;
	return 0;
}

int nic_start(struct hca_dev *dev)
{
	(void)dev;
	return 0;
}
int nic_guarded(struct hca_dev *dev, int (*command)(void *arg), void *arg)
{
	(void)dev;
	return command(arg);
}
void nic_detach(struct hca_dev *dev)
{
	(void)dev;
}
void nic_leave(struct hca_dev *dev)
{
	(void)dev;
}
void nic_forked(void) {}
void nic_mask_save(void) {}
int nic_uar_create(struct hca_uar *uar)
{
	(void)uar;
	return 0;
}
void nic_uar_destroy(struct hca_uar *uar)
{
	(void)uar;
}
int nic_cq_create(struct hca_cq *cq)
{
	(void)cq;
	return 0;
}
void nic_cq_destroy(struct hca_cq *cq)
{
	(void)cq;
}
int nic_cq_resize(struct hca_cq *cq, uint8_t *buf, uint32_t ncqe)
{
	(void)cq;
	(void)buf;
	(void)ncqe;
	return 0;
}
int nic_srq_create(struct hca_srq *srq)
{
	(void)srq;
	return 0;
}
void nic_srq_destroy(struct hca_srq *srq)
{
	(void)srq;
}
int nic_tir_create(struct hca_tir *tir)
{
	(void)tir;
	return 0;
}
void nic_tir_destroy(struct hca_tir *tir)
{
	(void)tir;
}
int nic_wq_create(struct hca_wq *wq)
{
	(void)wq;
	return 0;
}
void nic_wq_destroy(struct hca_wq *wq)
{
	(void)wq;
}
void nic_wq_modified(struct hca_wq *wq, uint8_t from)
{
	(void)wq;
	(void)from;
}
int nic_flow_create(struct hca_flow *f, const struct flow_match *match)
{
	(void)f;
	(void)match;
	return 0;
}
void nic_flow_destroy(struct hca_flow *f)
{
	(void)f;
}
int nic_qp_create(struct hca_qp *qp)
{
	(void)qp;
	return 0;
}
void nic_qp_destroy(struct hca_qp *qp)
{
	(void)qp;
}
void nic_qp_modified(struct hca_qp *qp, uint8_t from, uint32_t mask)
{
	(void)qp;
	(void)from;
	(void)mask;
}
int nic_resolve(struct hca_dev *dev, uint32_t sgid_index, const uint8_t dgid[16],
		uint8_t mac_out[6])
{
	(void)dev;
	(void)sgid_index;
	(void)dgid;
	memset(mac_out, 0xff, 6);
	return 0;
}
uint64_t nic_clock(const struct hca_dev *dev)
{
	(void)dev;
	return 1;
}
bool nic_mad_send(struct hca_dev *dev, const struct nic_mad *to, const uint8_t *mad)
{
	(void)dev;
	(void)to;
	(void)mad;
	return true;
}
int nic_fault_of(struct hca_dev *dev, const char *command)
{
	(void)dev;
	(void)command;
	return 0;
}
int nic_fault_devx(struct hca_dev *dev, uint32_t opcode)
{
	(void)dev;
	(void)opcode;
	return 0;
}
void nic_control(struct hca_dev *dev, const char *line, char *answer, size_t answer_bytes)
{
	(void)dev;
	(void)line;
	if (answer_bytes)
		answer[0] = '\0';
}
