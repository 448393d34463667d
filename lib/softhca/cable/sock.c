/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Cables on a datagram socket: sending and receiving in bursts of sendmmsg() and recvmmsg().
 *
 *   tx slots  | committed, not sent | reserved | free
 *             0                     ^tx_cnt
 *   rx slots  | consumed | lent, or waiting | free
 *             0          ^rx_at             ^rx_cnt
 *
 * A flush that ends early moves the unsent slots to the front, so the order stays. recvmmsg() runs
 * only when all received slots are consumed. A receiver whose queue is full is waited for (pending)
 * up to CABLE_STUCK_NS; then its frames are dropped and counted, as on Ethernet.
 *
 * It is the cable of afpacket.c, unix.c and udp.c, which open the socket and describe it in struct
 * cable_sock_how; nobody else calls it. What to know before changing it: slot i of tx sends
 * tx_iov[i], and an iovec that moves takes its memory with it. A frame that was lent is read from
 * its slot until it is released, so no receive call may run before that.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable/sock.h"

#define TAG_ROOM   4u /* before a received frame, for its VLAN tag */
#define TYPE_CVLAN 0x8100u
#define FRAME_ROOM (CABLE_FRAME_MAX + 64u)

struct cable_sock {
	struct cable c;
	int fd, claim[2];
	uint32_t claim_cnt;
	/* AF_PACKET: the kernel takes VLAN tags off frames that arrive */
	bool vlan_aux;
	struct sockaddr_un to;
	uint32_t to_bytes;
	char unlink_path[108];
	char iface[IFNAMSIZ]; /* "": no interface, the link is always up */
	/* sending: slots [0, tx_cnt) are committed */
	uint32_t tx_cnt, tx_len;
	uint64_t now_ns;
	struct cable_full full;
	struct mmsghdr tx[CABLE_BURST];
	struct iovec tx_iov[CABLE_BURST];
	/* receiving: [rx_at, rx_cnt) lent or waiting */
	uint32_t rx_at, rx_cnt;
	struct mmsghdr rx[CABLE_BURST];
	struct iovec rx_iov[CABLE_BURST];
	char aux[CABLE_BURST][CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	struct cable_frame frames[CABLE_BURST];
	uint8_t *tx_mem, *rx_mem;
};

/* After a failed send: is the receiver's queue full, and not for too long? */
static bool sock_is_worth_waiting(struct cable_sock *s)
{
	return (errno == EAGAIN || errno == ENOBUFS) && cable_waits(&s->full, s->now_ns);
}

/* sendmmsg stops at the first frame that cannot be sent; whether that one waits or is lost is
 * decided by its error. Frames that wait keep their order. */
static void sock_tx_flush(struct cable *c)
{
	struct cable_sock *s = (struct cable_sock *)c;
	uint32_t at = 0;

	while (at < s->tx_cnt) {
		const int n =
			sendmmsg(s->fd, s->tx + at, s->tx_cnt - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			at += (uint32_t)n;
			s->full = (struct cable_full){0};
		} else if (sock_is_worth_waiting(s)) {
			break;
		} else {
			c->stat.tx_dropped++; /* no receiver, or it is stuck: lost */
			at++;
		}
	}
	s->tx_cnt -= at;
	c->pending = s->tx_cnt != 0;
	for (uint32_t i = 0; at && i < s->tx_cnt; i++) { /* the rest moves to the front */
		const struct iovec front = s->tx_iov[i];

		s->tx_iov[i] = s->tx_iov[at + i];
		s->tx_iov[at + i] = front;
	}
}

/* The clock of cable_waits() moves in ticks. */
static void sock_tick(struct cable *c, uint64_t now_ns)
{
	((struct cable_sock *)c)->now_ns = now_ns;
}

/* An interface that is down or has no carrier. One that was deleted or renamed is down as well. */
static bool sock_link_up(struct cable *c, uint32_t own)
{
	const struct cable_sock *s = (struct cable_sock *)c;
	struct ifreq ifr = {0};

	(void)own;
	if (!s->iface[0])
		return true;
	memcpy(ifr.ifr_name, s->iface, sizeof(s->iface));
	return ioctl(s->fd, SIOCGIFFLAGS, &ifr) == 0 && ifr.ifr_flags & IFF_UP &&
	       ifr.ifr_flags & IFF_RUNNING;
}

/* Who is meant does not matter: a socket has one other end. */
static uint8_t *sock_tx_reserve(struct cable *c, const uint8_t *dmac, uint32_t dqpn, uint32_t len)
{
	struct cable_sock *s = (struct cable_sock *)c;

	(void)dmac;
	(void)dqpn;
	if (len > CABLE_FRAME_MAX)
		return NULL;
	if (s->tx_cnt == CABLE_BURST)
		sock_tx_flush(c);
	if (s->tx_cnt == CABLE_BURST) {
		c->stat.tx_wait++;
		return NULL;
	}
	s->tx_len = len;
	return s->tx_iov[s->tx_cnt].iov_base;
}

/* The frame is in the slot already; the flush sends it. A socket carries no flags: every ICRC was
 * computed, since this cable does not trust (cable.h). */
static void sock_tx_commit(struct cable *c, uint32_t flags)
{
	struct cable_sock *s = (struct cable_sock *)c;

	(void)flags;
	s->tx_iov[s->tx_cnt++].iov_len = s->tx_len;
}

/* Puts the VLAN tag that the kernel took off back between the addresses and the EtherType. */
static uint8_t *sock_retag(struct msghdr *m, uint8_t *frame, uint32_t *len)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		struct tpacket_auxdata aux;
		uint16_t type = TYPE_CVLAN;

		if (h->cmsg_level != SOL_PACKET || h->cmsg_type != PACKET_AUXDATA ||
		    h->cmsg_len < CMSG_LEN(sizeof(aux)))
			continue;
		memcpy(&aux, CMSG_DATA(h), sizeof(aux));
		if (!(aux.tp_status & TP_STATUS_VLAN_VALID) || *len < 14)
			continue;
		/* The addresses move to the front by four bytes, into the room that
		 * cable_sock_new() left. */
		memmove(frame - TAG_ROOM, frame, 12);
		frame -= TAG_ROOM;
		if (aux.tp_status & TP_STATUS_VLAN_TPID_VALID)
			type = aux.tp_vlan_tpid;
		frame[12] = (uint8_t)(type >> 8);
		frame[13] = (uint8_t)type;
		frame[14] = (uint8_t)(aux.tp_vlan_tci >> 8);
		frame[15] = (uint8_t)aux.tp_vlan_tci;
		*len += TAG_ROOM;
	}
	return frame;
}

/* Truncated frames are longer than any frame may be, and counted. */
static void sock_fill(struct cable_sock *s)
{
	int n;

	for (uint32_t i = 0; i < CABLE_BURST; i++) {
		s->rx[i].msg_hdr.msg_control = s->vlan_aux ? s->aux[i] : NULL;
		s->rx[i].msg_hdr.msg_controllen = s->vlan_aux ? sizeof(s->aux[i]) : 0;
	}
	n = recvmmsg(s->fd, s->rx, CABLE_BURST, MSG_DONTWAIT, NULL);
	s->rx_at = s->rx_cnt = 0;
	for (int i = 0; i < n; i++) {
		struct cable_frame *f = &s->frames[s->rx_cnt];
		uint8_t *p = s->rx_iov[i].iov_base;
		uint32_t len = s->rx[i].msg_len;

		if (len > CABLE_FRAME_MAX || (s->rx[i].msg_hdr.msg_flags & MSG_TRUNC)) {
			s->c.stat.rx_bad++;
			continue;
		}
		if (s->vlan_aux)
			p = sock_retag(&s->rx[i].msg_hdr, p, &len);
		*f = (struct cable_frame){.data = p, .len = len, .from = CABLE_FROM_ANY};
		s->rx_cnt++;
	}
}

/* Frames that were not released are lent again by the next burst, before new ones are received. */
static uint32_t sock_rx_burst(struct cable *c, struct cable_frame *f, uint32_t max)
{
	struct cable_sock *s = (struct cable_sock *)c;
	uint32_t n;

	if (max && s->rx_at == s->rx_cnt)
		sock_fill(s);
	n = SPW_MIN(max, s->rx_cnt - s->rx_at);
	memcpy(f, s->frames + s->rx_at, n * sizeof(*f));
	return n;
}

static void sock_rx_release(struct cable *c, uint32_t cnt)
{
	struct cable_sock *s = (struct cable_sock *)c;

	s->rx_at += SPW_MIN(cnt, s->rx_cnt - s->rx_at);
}

/* claim[]: locks that keep other processes off this name or interface, released by closing. */
static void sock_fds_close(struct cable_sock *s)
{
	if (s->fd >= 0)
		close(s->fd);
	for (uint32_t i = 0; i < s->claim_cnt; i++)
		close(s->claim[i]);
	s->fd = -1;
	s->claim_cnt = 0;
}

/* Async-signal-safe, as cable.h asks. A second call finds nothing left. */
static void sock_leave(struct cable *c)
{
	struct cable_sock *s = (struct cable_sock *)c;

	sock_fds_close(s);
	if (s->unlink_path[0])
		unlink(s->unlink_path);
	s->unlink_path[0] = '\0';
}

static void sock_close(struct cable *c)
{
	struct cable_sock *s = (struct cable_sock *)c;

	sock_leave(c);
	free(s->tx_mem);
	free(s->rx_mem);
	free(s);
}

/* The path stays: it is the parent's socket. */
static void sock_forked(struct cable *c)
{
	struct cable_sock *s = (struct cable_sock *)c;

	sock_fds_close(s);
}

static const struct cable_ops sock_ops = {
	.tx_reserve = sock_tx_reserve,
	.tx_commit = sock_tx_commit,
	.tx_flush = sock_tx_flush,
	.rx_burst = sock_rx_burst,
	.rx_release = sock_rx_release,
	.tick = sock_tick,
	.link_up = sock_link_up,
	.leave = sock_leave,
	.close = sock_close,
	.forked = sock_forked,
};

static struct cable_sock *sock_alloc(void)
{
	struct cable_sock *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->tx_mem = malloc(CABLE_BURST * FRAME_ROOM);
	s->rx_mem = malloc(CABLE_BURST * FRAME_ROOM);
	if (s->tx_mem && s->rx_mem)
		return s;
	free(s->tx_mem);
	free(s->rx_mem);
	free(s);
	return NULL;
}

/* All slots are laid out once; a burst then changes lengths only. */
int cable_sock_new(int fd, const struct cable_sock_how *how, struct cable **cable_out)
{
	struct cable_sock *s = sock_alloc();

	if (!s) {
		close(fd);
		for (uint32_t i = 0; i < how->claim_cnt; i++)
			close(how->claim[i]);
		return spw_err(ENOMEM, "cable: no memory");
	}
	s->c.ops = &sock_ops;
	s->fd = fd;
	s->claim_cnt = how->claim_cnt;
	memcpy(s->claim, how->claim, sizeof(s->claim));
	s->vlan_aux = how->vlan_aux;
	s->to_bytes = how->to_bytes;
	s->to = how->to;
	if (how->iface)
		snprintf(s->iface, sizeof(s->iface), "%s", how->iface);
	if (how->unlink_path)
		strcpy(s->unlink_path, how->unlink_path);
	for (uint32_t i = 0; i < CABLE_BURST; i++) {
		s->tx_iov[i].iov_base = s->tx_mem + i * FRAME_ROOM;
		s->tx[i].msg_hdr.msg_iov = &s->tx_iov[i];
		s->tx[i].msg_hdr.msg_iovlen = 1;
		s->tx[i].msg_hdr.msg_name = how->to_bytes ? &s->to : NULL;
		s->tx[i].msg_hdr.msg_namelen = how->to_bytes;
		s->rx_iov[i].iov_base = s->rx_mem + i * FRAME_ROOM + 16;
		s->rx_iov[i].iov_len = CABLE_FRAME_MAX;
		s->rx[i].msg_hdr.msg_iov = &s->rx_iov[i];
		s->rx[i].msg_hdr.msg_iovlen = 1;
	}
	*cable_out = &s->c;
	return 0;
}
