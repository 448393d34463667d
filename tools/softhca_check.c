/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * softhca-check OPTIONS: checks a configuration of the software ConnectX (hca_cfg.h) and prints
 * what is wrong. softhca-check --adversary: prints the words that --adversary takes.
 * tools/with-softhca runs it before COMMAND, in which the library could only report "no devices".
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable/udp_addr.h"
#include "softhca/inject/fault.h"
#include "softhca/hca_cfg.h"

static int check_fault(const struct hca_cfg *cfg)
{
	struct fault f;
	const int rc = fault_init(&f, cfg->fault, cfg->seed);

	if (rc)
		return spw_err_ctx(rc, "--fault");
	fault_fini(&f);
	return 0;
}

static int check_netdevs(const struct hca_cfg *cfg)
{
	for (uint32_t i = 0; i < cfg->dev_cnt; i++)
		if (cfg->dev[i].netdev[0] && !cfg->dev[i].netdev_emulated &&
		    !if_nametoindex(cfg->dev[i].netdev))
			return spw_err(
				ENODEV,
				"--netdev %s: there is no such interface; ip link shows them",
				cfg->dev[i].netdev);
	return 0;
}

/* Can a file be created at the path? */
static int check_path(const char *opt, const char *path)
{
	char folder[HCA_TEXT_BYTES];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	if (!*path || access(slash ? folder : ".", W_OK | X_OK) == 0)
		return 0;
	return spw_err(errno, "--%s %s: the folder cannot be written: %s", opt, path,
		       strerror(errno));
}

/* unix:MINE,PEER. The peer may make its socket, and its folder, later. */
static int check_unix(const char *cable)
{
	const char *mine = cable + strlen("unix:"), *comma = strchr(mine, ',');
	const size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
	char path[HCA_TEXT_BYTES];
	struct stat st;

	if (!comma || comma == mine || !comma[1] || (size_t)(comma - mine) > max ||
	    strlen(comma + 1) > max)
		return spw_err(
			EINVAL,
			"--cable %s: want unix:MINE,PEER, two paths of at most %zu characters",
			cable, max);
	snprintf(path, sizeof(path), "%.*s", (int)(comma - mine), mine);
	if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return spw_err(EEXIST, "--cable %s: %s is not a socket; use another name", cable,
			       path);
	return check_path("cable", path);
}

static int check_udp(const char *ends)
{
	struct cable_udp_addr mine, peer;
	const int rc = cable_udp_resolve(ends, &mine, &peer);

	return rc ? spw_err_ctx(rc, "--cable") : 0;
}

static int check_cable(const char *cable)
{
	const char *name = strchr(cable, ':') + 1;
	int fd;

	if (strncmp(cable, "shm:", 4) == 0 && (!*name || strlen(name) > 64 || strchr(name, '/')))
		return spw_err(EINVAL, "--cable %s: the name has 1 to 64 characters and no slash",
			       cable);
	if (strncmp(cable, "unix:", 5) == 0)
		return check_unix(cable);
	if (strncmp(cable, "udp:", 4) == 0)
		return check_udp(name);
	if (strncmp(cable, "afpacket:", 9))
		return 0;
	if (!if_nametoindex(name))
		return spw_err(ENODEV, "--cable %s: there is no such interface; ip link shows them",
			       cable);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return spw_err(errno, "--cable %s: %s%s", cable, strerror(errno),
			       errno == EPERM ? "; it needs CAP_NET_RAW" : "");
	close(fd);
	return 0;
}

static int check_cables(const struct hca_cfg *cfg)
{
	char cable[HCA_TEXT_BYTES];
	int rc = 0;

	for (uint32_t i = 0; i < cfg->dev_cnt && !rc; i++) {
		hca_cfg_cable(cfg, cfg->dev[i].port, cable);
		rc = check_cable(cable);
	}
	return rc;
}

static int print_adversary(void)
{
	const char *text, *word;

	for (uint32_t i = 0; (word = hca_adversary_word(i, &text)); i++)
		printf("  %-12s %s\n", word, text);
	return 0;
}

int main(int argc, char **argv)
{
	struct hca_cfg cfg;

	if (argc == 2 && strcmp(argv[1], "--adversary") == 0)
		return print_adversary();
	if (argc == 2 && hca_cfg_parse(argv[1], &cfg) == 0 && !check_fault(&cfg) &&
	    !check_netdevs(&cfg) && !check_cables(&cfg) && !check_path("control", cfg.control) &&
	    !check_path("trace", cfg.trace))
		return 0;
	fprintf(stderr, "with-softhca: %s\n",
		argc == 2 ? spw_err_text() : "softhca-check wants one argument");
	return 1;
}
