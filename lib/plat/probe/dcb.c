/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What RoCE rests on and a restart takes away: priorities with flow control, the table from DSCP to
 * priority, and whether a file that is read at boot sets them. Put into a live tree:
 *
 *   dcb/DEV/pfc = 0x08        priorities with flow control, a bit each
 *   dcb/DEV/dscp = 26:3 48:6  DSCP:priority
 *   boot/mtu = 9000 1500      every MTU in a file that is read at boot; an error: one cannot be
 * read boot/pfc = 0              whether one of them names flow control of priorities
 *
 * By the kernel's netlink of DCB, as iproute2's dcb does; reading wants no right. Of the files only
 * this is kept: they may hold secrets. Source: Linux include/uapi/linux/dcbnl.h, net/dcb/dcbnl.c.
 */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_netlink.h"
#include "plat/plat_impl.h"

#define ANSWER_BYTES 8192u
#define FILE_BYTES   (64u << 10)
#define LIST_BYTES   256u

/* ---- the kernel ---- */

struct dcb_ask {
	struct nlmsghdr head;
	struct dcbmsg dcb;
	struct rtattr attr;
	char name[16];
};

/* The first attribute of a type in [at, at + bytes). Returns: its value, NULL: there is none. */
static const uint8_t *dcb_find(const uint8_t *at, size_t bytes, uint16_t type, size_t *size_out)
{
	struct spw_netlink_attr attr;

	while (spw_netlink_next(&at, &bytes, &attr)) {
		*size_out = attr.bytes;
		if (attr.type == type)
			return attr.value;
	}
	return NULL;
}

/* Every entry of the application table that maps a DSCP. */
static void dcb_dscp_put(struct plat_tree *tree, const char *dev, const uint8_t *table,
			 size_t bytes)
{
	char text[LIST_BYTES] = "", path[64];
	struct spw_netlink_attr attr;
	struct dcb_app app;
	size_t used = 0;

	while (used < sizeof(text) && spw_netlink_next(&table, &bytes, &attr)) {
		if (attr.type != DCB_ATTR_IEEE_APP)
			continue;
		if (attr.bytes < sizeof(app))
			break;
		memcpy(&app, attr.value, sizeof(app));
		if (app.selector == IEEE_8021QAZ_APP_SEL_DSCP)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u:%u",
						 used ? " " : "", app.protocol, app.priority);
	}
	snprintf(path, sizeof(path), "dcb/%.15s/dscp", dev);
	plat_tree_put(tree, path, text);
}

static void dcb_answer_put(struct plat_tree *tree, const char *dev, const uint8_t *answer,
			   size_t bytes)
{
	const size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct dcbmsg));
	const uint8_t *ieee, *part;
	struct ieee_pfc pfc;
	char path[64], text[16];
	size_t size, all;

	if (bytes < skip || !(ieee = dcb_find(answer + skip, bytes - skip, DCB_ATTR_IEEE, &all)))
		return;
	part = dcb_find(ieee, all, DCB_ATTR_IEEE_PFC, &size);
	if (part && size >= 2) {
		memcpy(&pfc, part, SPW_MIN(size, sizeof(pfc)));
		snprintf(text, sizeof(text), "0x%02x", pfc.pfc_en);
		snprintf(path, sizeof(path), "dcb/%.15s/pfc", dev);
		plat_tree_put(tree, path, text);
	}
	part = dcb_find(ieee, all, DCB_ATTR_IEEE_APP_TABLE, &size);
	if (part)
		dcb_dscp_put(tree, dev, part, size);
}

/* An interface without DCB answers with an error, which leaves nothing in the tree. */
void plat_probe_dcb(struct plat_tree *tree, const char *dev)
{
	struct dcb_ask ask = {.head = {.nlmsg_len = sizeof(ask),
				       .nlmsg_type = RTM_GETDCB,
				       .nlmsg_flags = NLM_F_REQUEST},
			      .dcb = {.cmd = DCB_CMD_IEEE_GET},
			      .attr = {.rta_len = sizeof(struct rtattr) + sizeof(ask.name),
				       .rta_type = DCB_ATTR_IFNAME}};
	const struct timeval wait = {.tv_usec = 200000};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	uint8_t answer[ANSWER_BYTES];
	ssize_t n = -1;

	if (fd < 0)
		return;
	snprintf(ask.name, sizeof(ask.name), "%s", dev);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (send(fd, &ask, sizeof(ask), 0) == sizeof(ask))
		n = recv(fd, answer, sizeof(answer), 0);
	close(fd);
	if (n > 0)
		dcb_answer_put(tree, dev, answer, (size_t)n);
}

/* ---- files that are read at boot ---- */

struct boot {
	char mtu[LIST_BYTES];
	bool pfc;
	int error; /* of a file that cannot be read */
};

/* "mtu: 9000", "MTUBytes=9000", "ATTR{mtu}="9000"", "ip link set eth0 mtu 9000". */
static void boot_mtus_add(struct boot *b, const char *text)
{
	for (const char *at = text; (at = strcasestr(at, "mtu"));) {
		const char *digits = at + strcspn(at, "0123456789\n");
		const size_t used = strlen(b->mtu);
		const int n = isdigit((unsigned char)*digits) ? (int)strspn(digits, "0123456789")
							      : 0;

		if (n && digits - at < 16 && used + (size_t)n + 2 < sizeof(b->mtu))
			snprintf(b->mtu + used, sizeof(b->mtu) - used, "%.*s ", n, digits);
		at = digits;
	}
}

static void boot_file_read(struct boot *b, const char *path)
{
	static char text[FILE_BYTES];
	FILE *file = fopen(path, "re");
	size_t n;

	if (!file) {
		b->error = errno == ENOENT ? b->error : errno;
		return;
	}
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	boot_mtus_add(b, text);
	b->pfc = b->pfc || strcasestr(text, "pfc") || strstr(text, "mlnx_qos");
}

void plat_probe_boot(struct plat_tree *tree)
{
	static const char *const pattern[] = {"/etc/netplan/*.yaml",
					      "/etc/systemd/network/*",
					      "/etc/systemd/system/*.service",
					      "/etc/network/interfaces",
					      "/etc/network/interfaces.d/*",
					      "/etc/udev/rules.d/*.rules",
					      "/etc/rc.local",
					      "/etc/NetworkManager/system-connections/*",
					      "/etc/sysconfig/network-scripts/ifcfg-*"};
	struct boot b = {.error = 0};
	glob_t found;

	for (size_t i = 0; i < SPW_ARRAY_CNT(pattern); i++) {
		found = (glob_t){0};
		if (glob(pattern[i], 0, NULL, &found) == 0)
			for (size_t k = 0; k < found.gl_pathc; k++)
				boot_file_read(&b, found.gl_pathv[k]);
		globfree(&found);
	}
	if (b.error) {
		plat_tree_put_error(tree, "boot/mtu", b.error);
		plat_tree_put_error(tree, "boot/pfc", b.error);
		return;
	}
	plat_tree_put(tree, "boot/mtu", b.mtu);
	plat_tree_put(tree, "boot/pfc", b.pfc ? "1" : "0");
}
