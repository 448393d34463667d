/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which frames a port lets in before any flow rule sees them, and which of its own frames come
 * back. rx.c asks l2_accepts() for each frame that is not RoCE for this NIC; raw_tx.c calls
 * l2_loop() for each raw frame it sends.
 *
 *   unicast to the port's MAC, broadcast   always
 *   multicast                              IFF_ALLMULTI or IFF_PROMISC
 *   unicast to another MAC                 IFF_PROMISC
 *
 * That is the filter of a function that shares its port (a VF, an SF, one half of a port): the
 * switch in front of it knows its L2 addresses, and the flags of its interface. A physical function
 * alone on its port gets every frame, and its rules decide: DPDK sets the flags for VFs and SFs
 * only, and receives promiscuously on the others by rules (drivers/net/mlx5/mlx5_rxmode.c).
 * --accept overrides the card. The flags are those of the interface of --netdev, read every 20 ms;
 * they may widen the filter.
 *
 * A function's own multicast frames come back to its other contexts as soon as it has a second
 * context, or an RSS QP that asks for its own frames. A context does not get what it sent itself,
 * unless its RSS QP asks for that.
 *
 * Sources: Linux drivers/net/ethernet/mellanox/mlx5/core/en_fs.c (mlx5e_set_rx_mode_work: vport
 * contexts), drivers/infiniband/hw/mlx5/main.c (mlx5_ib_enable_lb), hw/mlx5/qp.c (self_lb_block).
 */
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softhca/nic/eth/eth.h"

void l2_refresh(struct nic_dev *nd)
{
	const char *netdev = nd->dev->id.netdev;
	struct ifreq req = {0};
	int fd;

	nd->accept = nd->dev->cfg->accept;
	if (!netdev[0] || nd->accept == HCA_ACCEPT_ALL)
		return;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	memcpy(req.ifr_name, netdev, SPW_MIN(strlen(netdev), sizeof(req.ifr_name) - 1));
	if (ioctl(fd, SIOCGIFFLAGS, &req) == 0) {
		if (req.ifr_flags & IFF_PROMISC)
			nd->accept = HCA_ACCEPT_ALL;
		else if (req.ifr_flags & IFF_ALLMULTI)
			nd->accept = HCA_ACCEPT_MULTICAST;
	}
	close(fd);
}

bool l2_accepts(const struct nic_dev *nd, const uint8_t *frame)
{
	static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	if (spw_likely(memcmp(frame, nd->dev->id.mac, 6) == 0) || nd->accept == HCA_ACCEPT_ALL)
		return true;
	if (frame[0] & 1)
		return nd->accept == HCA_ACCEPT_MULTICAST || memcmp(frame, broadcast, 6) == 0;
	return false;
}

void l2_loop(struct nic_qp *q, const uint8_t *frame, uint32_t len)
{
	struct nic_dev *nd = q->nd;
	struct nic_qp *const cur = nd->cur;

	if (!(frame[0] & 1) || !nd->flow_cnt || !l2_accepts(nd, frame))
		return;
	if (nd->dev->user_cnt < 2 && !nd->dev->self_lb_cnt)
		return;
	raw_rx_looped(nd, frame, len, q->qp->o.ctx);
	nd->cur = cur;
	nd->cur_rx = false;
}
