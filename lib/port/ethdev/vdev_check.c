/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Catches what a PMD of DPDK accepts without an error and then does not do: found before EAL
 * creates the device, and reported with the remedy. Sources: DPDK v22.11, drivers/net/memif and
 * drivers/net/af_packet.
 *
 *   net_pcap        rx_pcap= is complete (capture_check.c)
 *   net_memif       the socket's folder is there, no zero-copy; a hint if no server listens
 *   net_af_packet   the interface is there, packet sockets are allowed; frames fit its MTU
 *
 * Called by dev.c before EAL probes. Where a PMD's own choice is too small, more_args has a better
 * one; keys of the user stay as they are.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/ethdev/ethdev.h"

#define AF_PACKET_FRAME 2048u /* the PMD's own choice of framesz */
#define AF_PACKET_HEAD \
	66u /* TPACKET_ALIGN(TPACKET2_HDRLEN + 16) - 14: where a frame's first byte lies */
#define AF_PACKET_L2 \
	18u /* Ethernet header and a second VLAN tag; the kernel strips the first one */
#define AF_PACKET_RING_BYTES (16u << 20)
#define AF_PACKET_FRAMES_MIN 512u   /* the PMD's own choice of framecnt */
#define AF_PACKET_FRAME_MAX  61440u /* whole pages that an mbuf of 65535 bytes holds */

/* rx_pcap= may come once for each queue. */
static int ethdev_check_pcap(const struct spw_port_spec *spec)
{
	int rc = 0;

	for (uint32_t i = 0; i < spec->arg_cnt && !rc; i++)
		if (!strcmp(spw_port_spec_key(spec, i), "rx_pcap"))
			rc = ethdev_capture_check(spw_port_spec_value(spec, i));
	return rc;
}

/* ---- net_memif ---- */

/* Refuses a folder that does not exist: the PMD would take the path as an abstract name (its
 * default), where no peer finds it. */
static int ethdev_check_socket(const char *path)
{
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash;

	if (strlen(path) >= sizeof(folder))
		return spw_err(EINVAL, "socket=%s: more than %zu characters", path,
			       sizeof(folder) - 1);
	memcpy(folder, path, strlen(path) + 1);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return 0;
	*slash = '\0';
	return access(folder, F_OK)
		       ? spw_err(errno, "socket=%s: folder %s: %s", path, folder, strerror(errno))
		       : 0;
}

/* zero-copy would hand EAL's memory to the peer; the frames of spinwire lie elsewhere. */
static int ethdev_check_memif(const struct spw_port_spec *spec, struct ethdev_port *ep)
{
	const char *zc = spw_port_spec_find(spec, "zero-copy"),
		   *socket = spw_port_spec_find(spec, "socket");
	const char *role = spw_port_spec_find(spec, "role");
	int rc = socket ? ethdev_check_socket(socket) : 0;

	if (rc)
		return rc;
	if (zc && !strcmp(zc, "yes"))
		return spw_err(
			ENOTSUP,
			"zero-copy=yes gives the peer EAL's own memory, and slots lie in a region "
			"of their "
			"own: leave it out (the PMD then copies once, counted as a port copy)");
	if (!role || strcmp(role, "server"))
		snprintf(ep->start_hint, sizeof(ep->start_hint),
			 "no memif server listens at %s: start it first, with the same "
			 "socket and socket-abstract",
			 socket ? socket : "its default socket");
	return 0;
}

/* ---- net_af_packet ---- */

/* One attribute of a network interface, by ioctl: sysfs may show those of another namespace. */
static int ethdev_netdev_ask(const char *name, unsigned long request, struct ifreq *ask_out)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	memset(ask_out, 0, sizeof(*ask_out));
	snprintf(ask_out->ifr_name, sizeof(ask_out->ifr_name), "%s", name);
	rc = fd < 0 || ioctl(fd, request, ask_out) ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Up and with a carrier. */
bool ethdev_netdev_is_up(const char *name)
{
	struct ifreq ask;

	return ethdev_netdev_ask(name, SIOCGIFFLAGS, &ask) == 0 && (ask.ifr_flags & IFF_UP) &&
	       (ask.ifr_flags & IFF_RUNNING);
}

/* Returns: 0: unknown. */
uint32_t ethdev_netdev_mtu(const char *name)
{
	struct ifreq ask;

	return ethdev_netdev_ask(name, SIOCGIFMTU, &ask) ? 0 : (uint32_t)ask.ifr_mtu;
}

/* Whether the process may lock so much more, by its limit or its right; nothing is faulted in. */
static bool ethdev_can_lock(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can = at != MAP_FAILED && mlock2(at, bytes, MLOCK_ONFAULT) == 0;

	if (at != MAP_FAILED)
		munmap(at, bytes);
	return can;
}

/* The PMD's own 512 frames are full after 0.3 ms at 1.5 Mpps. It locks its two rings, which leave
 * half of what may be locked to the slots. */
static void ethdev_choose_ring(uint32_t frame, struct ethdev_port *ep)
{
	const size_t n = strlen(ep->more_args);
	uint32_t cnt = AF_PACKET_RING_BYTES / frame;

	while (cnt > AF_PACKET_FRAMES_MIN && !ethdev_can_lock((size_t)cnt * frame * 4))
		cnt /= 2;
	snprintf(ep->more_args + n, sizeof(ep->more_args) - n, "%sframecnt=%u", n ? "," : "",
		 SPW_MAX(cnt, AF_PACKET_FRAMES_MIN));
}

/* Chooses frames one byte longer than the interface's longest: one that fills it was truncated. */
static int ethdev_choose_frame(const struct spw_port_spec *spec, int mtu, struct ethdev_port *ep)
{
	const uint32_t more = AF_PACKET_L2 + AF_PACKET_HEAD + 1, need = (uint32_t)mtu + more,
		       mtu_max = AF_PACKET_FRAME_MAX - more;
	uint64_t frame = AF_PACKET_FRAME;
	int rc;

	if (spw_port_spec_find(spec, "framesz") || spw_port_spec_find(spec, "blocksz")) {
		rc = spw_port_spec_u64(spec, "framesz", AF_PACKET_FRAME, 256, AF_PACKET_FRAME_MAX,
				       &frame);
		if (rc)
			return rc;
		if (frame < need)
			spw_warn("port %s: framesz=%u takes frames of up to %u bytes, %s sends %d "
				 "and headers; longer ones are "
				 "counted too_long",
				 ep->base.name, (uint32_t)frame,
				 (uint32_t)frame - AF_PACKET_HEAD - 1, ep->netdev, mtu);
	} else if (need > AF_PACKET_FRAME_MAX) {
		return spw_err(ERANGE,
			       "%s has an MTU of %d; net_af_packet takes %u: ip link set %s mtu %u",
			       ep->netdev, mtu, mtu_max, ep->netdev, mtu_max);
	} else if (need > frame) {
		frame = SPW_MIN(spw_pow2_ceil32(need), AF_PACKET_FRAME_MAX);
		snprintf(ep->more_args, sizeof(ep->more_args), "blocksz=%u,framesz=%u",
			 SPW_ALIGN_UP((uint32_t)frame, (uint32_t)sysconf(_SC_PAGESIZE)),
			 (uint32_t)frame);
	}
	ep->cut_bytes = (uint32_t)frame - AF_PACKET_HEAD;
	if (!spw_port_spec_find(spec, "framecnt"))
		ethdev_choose_ring((uint32_t)frame, ep);
	return 0;
}

static int ethdev_check_af_packet(const struct spw_port_spec *spec, struct ethdev_port *ep)
{
	const char *name = spw_port_spec_find(spec, "iface");
	struct ifreq ask;
	int fd, rc;

	if (!name)
		return spw_err(EINVAL, "no iface=NAME: which network interface?");
	rc = ethdev_netdev_ask(name, SIOCGIFMTU, &ask);
	if (rc)
		return spw_err(-rc, "iface=%s: %s; 'ip link' lists the interfaces", name,
			       strerror(-rc));
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return spw_err(errno,
			       "a packet socket on %s: %s; it needs CAP_NET_RAW: run as root, or "
			       "setcap cap_net_raw+ep on the "
			       "program",
			       name, strerror(errno));
	close(fd);
	snprintf(ep->netdev, sizeof(ep->netdev), "%s", name);
	spw_info("port %s: the kernel strips an outer VLAN tag and net_af_packet loses its "
		 "EtherType (0x88a8 arrives as 0x8100); "
		 "IPv4 fragments are reassembled before, so that a single one never arrives",
		 ep->base.name);
	return ethdev_choose_frame(spec, ask.ifr_mtu, ep);
}

/* PMDs of virtual devices are named by prefix: net_memif0, net_memif_a. */
bool ethdev_dev_is(const struct spw_port_spec *spec, const char *pmd)
{
	return !strncmp(spec->device, pmd, strlen(pmd));
}

/* cut_bytes: a frame of at least that length may have been cut by the PMD; UINT32_MAX: none is. */
int ethdev_vdev_check(const struct spw_port_spec *spec, struct ethdev_port *ep)
{
	ep->cut_bytes = UINT32_MAX;
	if (ethdev_dev_is(spec, "net_pcap"))
		return ethdev_check_pcap(spec);
	if (ethdev_dev_is(spec, "net_memif"))
		return ethdev_check_memif(spec, ep);
	if (ethdev_dev_is(spec, "net_af_packet"))
		return ethdev_check_af_packet(spec, ep);
	return 0;
}
