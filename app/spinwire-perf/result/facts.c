/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Facts of an end (facts.h): read through lib/plat, and passed on as JSON. Each end reads itself
 * and sends the result in the greeting; pair.c, limit.c and plan.c work on both. The server reads
 * anew for each session, because links come and go.
 *
 *    lib/plat ─► perf_facts_take ─► struct perf_end ─► perf_facts_json ─► ... ─► perf_facts_parse
 *
 * A fact that is unknown is 0 or "", and a limit that rests on it is unknown too. A new field
 * stands in the table of its struct, by which it is sent and read; a number that is missing there
 * is an error, so perf_proto changes with it. Numbers up to INT32_MAX are far above every fact, and
 * fit all the types that they are computed in.
 */
#include "result/facts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_text.h"
#include "control/fields.h"
#include "measure/gpu.h"
#include "result/busy.h"

/* A message needs two buffers at each end, and both ends may be one machine: half of what is
 * available is never touched, because with unified memory the GPU lives there too. */
#define MEMORY_SHARE 8u
#define DFLT_PREFIX  24u

/* Text of a driver or a file may be any bytes; here and at the other end it is printed and becomes
 * JSON. */
static void facts_copy(char *out, size_t bytes, const char *text)
{
	spw_text_show(text, out, bytes);
}

/* 0 where it is unknown. */
static uint64_t memory_available(const struct spw_plat *plat)
{
	uint64_t left = SPW_MIN(plat->available_bytes, plat->mem_left_bytes);

	return left == UINT64_MAX ? 0 : left;
}

/* The rate of the RDMA port, where no interface reports a speed: "100 Gb/sec (4X EDR)". */
static uint32_t rdma_mbps(const struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	char of[SPW_PLAT_NAME_MAX];
	double gbps;

	snprintf(of, sizeof(of), "nic %.32s", nic->netdev[0] ? nic->netdev : nic->rdma);
	for (uint32_t i = 0; i < plat->fact_cnt; i++)
		if (!strcmp(plat->fact[i].of, of) && !strcmp(plat->fact[i].name, "rate") &&
		    sscanf(plat->fact[i].value, "%lf Gb/sec", &gbps) == 1)
			return (uint32_t)(gbps * 1000);
	return 0;
}

/* Of the addresses "10.0.0.1/24 10.1.0.1/16" what follows the one that is also the GID: "/24 ...";
 * "" if none is. */
static const char *behind_gid(const struct spw_plat_nic *nic)
{
	const char *at = nic->gid_ipv4[0] ? strstr(nic->ipv4, nic->gid_ipv4) : NULL;

	return at ? at + strlen(nic->gid_ipv4) : "";
}

/* Without a prefix the usual one is assumed: rails are paired by subnet, and no prefix would pair
 * all. */
static uint32_t prefix_of(const struct spw_plat_nic *nic)
{
	unsigned int bits;

	return sscanf(behind_gid(nic), "/%u", &bits) == 1 && bits <= 32 ? bits : DFLT_PREFIX;
}

/* A file that only software devices have (with-softhca --rate). */
static void enforced_read(struct perf_nic *nic)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/enforced_mbps", nic->rdma);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fscanf(file, "%u %u", &nic->port_enforced_mbps, &nic->pcie_enforced_mbps) != 2)
		nic->port_enforced_mbps = nic->pcie_enforced_mbps = 0;
	fclose(file);
}

/* Functions of one physical port share its number, so that their counters and capacity are taken
 * once. */
static void facts_nic_add(struct perf_end *end, const struct spw_plat *plat, uint32_t i)
{
	const struct spw_plat_nic *from = &plat->nic[i];
	struct perf_nic *nic = &end->nic[end->nic_cnt];

	if (!from->rdma[0] || end->nic_cnt == PERF_NIC_MAX)
		return;
	end->nic_cnt++;
	facts_copy(nic->rdma, sizeof(nic->rdma), from->rdma);
	facts_copy(nic->netdev, sizeof(nic->netdev), from->netdev);
	facts_copy(nic->pci, sizeof(nic->pci), from->pci);
	facts_copy(nic->guid, sizeof(nic->guid), from->serial_guid);
	facts_copy(nic->ip, sizeof(nic->ip), from->gid_ipv4);
	nic->prefix = prefix_of(from);
	nic->port = from->half_of >= 0 ? (uint32_t)from->half_of : i;
	nic->mtu = from->mtu;
	nic->link_mbps = from->speed_mbit > 0 ? (uint32_t)from->speed_mbit : rdma_mbps(plat, from);
	nic->lanes = from->pcie_width;
	nic->pcie_mtps = from->pcie_mtps;
	nic->device = from->device;
	nic->up = from->port_active == 1 && from->link_is_ethernet;
	nic->in_kernel = behind_gid(from)[0] == '/';
}

/* "eth0 eth1" of the kernel becomes "eth0+eth1". */
static void slaves_read(struct perf_bond *bond)
{
	char path[80];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%s/bonding/slaves", bond->name);
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(bond->slaves, sizeof(bond->slaves), file))
		bond->slaves[0] = '\0';
	fclose(file);
	bond->slaves[strcspn(bond->slaves, "\n")] = '\0';
	for (char *c = bond->slaves; *c; c++)
		*c = *c == ' ' ? '+' : *c;
}

/* Interfaces that have /sys/class/net/NAME/bonding, and an IPv4 address. */
static void bonds_read(struct perf_end *end)
{
	struct ifaddrs *list = NULL;
	char path[64];

	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		struct perf_bond *bond = &end->bond[end->bond_cnt];
		struct sockaddr_in addr, mask;

		snprintf(path, sizeof(path), "/sys/class/net/%.15s/bonding", i->ifa_name);
		if (!i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET ||
		    access(path, F_OK) || end->bond_cnt == PERF_BOND_MAX)
			continue;
		memcpy(&addr, i->ifa_addr, sizeof(addr));
		memcpy(&mask, i->ifa_netmask, sizeof(mask));
		facts_copy(bond->name, sizeof(bond->name), i->ifa_name);
		inet_ntop(AF_INET, &addr.sin_addr, bond->ip, sizeof(bond->ip));
		bond->prefix = (uint32_t)__builtin_popcount(mask.sin_addr.s_addr);
		slaves_read(bond);
		end->bond_cnt++;
	}
	freeifaddrs(list);
}

/* Only what bears on a network's figures. */
static void findings_take(struct perf_end *end, const struct spw_plat *plat)
{
	static const char *const about[] = {"nic-",   "port-", "gid-", "pcie", "mtu",   "memlock",
					    "uverbs", "iommu", "aer",  "cma",  "quota", "governor"};

	for (uint32_t i = 0; i < plat->finding_cnt; i++) {
		const struct spw_plat_finding *from = &plat->finding[i];
		bool wanted = false;

		for (size_t k = 0; k < SPW_ARRAY_CNT(about); k++)
			wanted |= strstr(from->code, about[k]) != NULL;
		if (!wanted || end->finding_cnt == PERF_FINDING_MAX)
			continue;
		facts_copy(end->finding[end->finding_cnt].code, sizeof(end->finding[0].code),
			   from->code);
		facts_copy(end->finding[end->finding_cnt].what, sizeof(end->finding[0].what),
			   from->what);
		facts_copy(end->finding[end->finding_cnt].todo, sizeof(end->finding[0].todo),
			   from->todo);
		end->finding_cnt++;
	}
}

/* Of recorded machines as well, which is how tests make facts. */
void perf_facts_take(const struct spw_plat *plat, struct perf_end *end_out)
{
	memset(end_out, 0, sizeof(*end_out));
	facts_copy(end_out->machine, sizeof(end_out->machine), plat->machine);
	facts_copy(end_out->kernel, sizeof(end_out->kernel), plat->kernel);
	facts_copy(end_out->version, sizeof(end_out->version), SPW_VERSION);
	facts_copy(end_out->gpu, sizeof(end_out->gpu), plat->gpu_cnt ? plat->gpu[0].name : "");
	end_out->cores = plat->allowed_cnt;
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		facts_nic_add(end_out, plat, i);
	memcpy(end_out->other, plat->rdma, sizeof(end_out->other));
	end_out->other_cnt = plat->rdma_cnt;
	findings_take(end_out, plat);
}

/* What only this process can know is added to what lib/plat read: CUDA, software devices, enforced
 * rates. */
int perf_facts_read(struct perf_end *end_out)
{
	struct spw_plat *plat;
	int rc = spw_plat_read(NULL, &plat);

	if (rc < 0)
		return rc;
	perf_facts_take(plat, end_out);
	end_out->memory_max = memory_available(plat) / MEMORY_SHARE;
	spw_plat_free(plat);
	end_out->busy_percent = perf_busy_read();
	gethostname(end_out->host, sizeof(end_out->host) - 1);
	facts_copy(end_out->no_gpu, sizeof(end_out->no_gpu), perf_gpu_missing());
	/* Set by with-softhca for everything that runs over its devices. */
	end_out->software = getenv("SPW_SOFTHCA") != NULL;
	for (uint32_t i = 0; i < end_out->nic_cnt; i++)
		enforced_read(&end_out->nic[i]);
	bonds_read(end_out);
	return 0;
}

void perf_other_text(const struct spw_plat_rdma *dev, char *out, size_t bytes)
{
	const char *why = dev->software
				  ? "is software of the kernel, whose figures are those of the "
				    "CPU and of no card"
				  : "is no PCI function, so nothing is known of its link";

	snprintf(out, bytes, "%s (%s%s%s) %s; not taken", dev->rdma,
		 dev->desc[0] ? dev->desc : "of unknown make", dev->netdev[0] ? " over " : "",
		 dev->netdev, why);
}

/* ---- JSON ---- */

/* What travels of each struct, in the order of the JSON report. */
static const struct perf_field nic_field[] = {
	PERF_FIELD_TEXT("rdma", struct perf_nic, rdma),
	PERF_FIELD_TEXT("netdev", struct perf_nic, netdev),
	PERF_FIELD_TEXT("pci", struct perf_nic, pci),
	PERF_FIELD_TEXT("guid", struct perf_nic, guid),
	PERF_FIELD_TEXT("ip", struct perf_nic, ip),
	PERF_FIELD_NUMBER("prefix", struct perf_nic, prefix, 32),
	PERF_FIELD_NUMBER("port", struct perf_nic, port, INT32_MAX),
	PERF_FIELD_NUMBER("mtu", struct perf_nic, mtu, INT32_MAX),
	PERF_FIELD_NUMBER("link_mbps", struct perf_nic, link_mbps, INT32_MAX),
	PERF_FIELD_NUMBER("lanes", struct perf_nic, lanes, INT32_MAX),
	PERF_FIELD_NUMBER("pcie_mtps", struct perf_nic, pcie_mtps, INT32_MAX),
	PERF_FIELD_NUMBER("pci_device", struct perf_nic, device, INT32_MAX),
	PERF_FIELD_NUMBER("port_enforced_mbps", struct perf_nic, port_enforced_mbps, INT32_MAX),
	PERF_FIELD_NUMBER("pcie_enforced_mbps", struct perf_nic, pcie_enforced_mbps, INT32_MAX),
	PERF_FIELD_BOOL("up", struct perf_nic, up),
	PERF_FIELD_BOOL("in_kernel", struct perf_nic, in_kernel),
	{0}};
static const struct perf_field other_field[] = {
	PERF_FIELD_TEXT("rdma", struct spw_plat_rdma, rdma),
	PERF_FIELD_TEXT("desc", struct spw_plat_rdma, desc),
	PERF_FIELD_TEXT("netdev", struct spw_plat_rdma, netdev),
	PERF_FIELD_BOOL("software", struct spw_plat_rdma, software),
	{0}};
static const struct perf_field bond_field[] = {
	PERF_FIELD_TEXT("name", struct perf_bond, name),
	PERF_FIELD_TEXT("ip", struct perf_bond, ip),
	PERF_FIELD_TEXT("slaves", struct perf_bond, slaves),
	PERF_FIELD_NUMBER("prefix", struct perf_bond, prefix, 32),
	{0}};
static const struct perf_field finding_field[] = {
	PERF_FIELD_TEXT("id", struct perf_finding, code),
	PERF_FIELD_TEXT("evidence", struct perf_finding, what),
	PERF_FIELD_TEXT("mend", struct perf_finding, todo),
	{0}};
static const struct perf_field end_field[] = {
	PERF_FIELD_TEXT("host", struct perf_end, host),
	PERF_FIELD_TEXT("machine", struct perf_end, machine),
	PERF_FIELD_TEXT("kernel", struct perf_end, kernel),
	PERF_FIELD_TEXT("version", struct perf_end, version),
	PERF_FIELD_TEXT("gpu", struct perf_end, gpu),
	PERF_FIELD_TEXT("no_gpu", struct perf_end, no_gpu),
	PERF_FIELD_BOOL("software", struct perf_end, software),
	PERF_FIELD_NUMBER("cores", struct perf_end, cores, INT32_MAX),
	PERF_FIELD_NUMBER("busy_percent", struct perf_end, busy_percent, INT32_MAX),
	PERF_FIELD_NUMBER("memory_max", struct perf_end, memory_max, INT64_MAX),
	PERF_FIELD_LIST("nics", struct perf_end, nic, nic_field),
	PERF_FIELD_LIST("other_rdma", struct perf_end, other, other_field),
	PERF_FIELD_LIST("bonds", struct perf_end, bond, bond_field),
	PERF_FIELD_LIST("findings", struct perf_end, finding, finding_field),
	{0}};

json_t *perf_facts_json(const struct perf_end *end)
{
	return perf_fields_json(end_field, end);
}

/* Lists that are absent are empty; a number that is absent or out of range refuses the whole. */
int perf_facts_parse(const json_t *json, struct perf_end *end_out)
{
	memset(end_out, 0, sizeof(*end_out));
	return perf_fields_parse(end_field, json, end_out);
}

/* ---- PCIe ---- */

uint32_t perf_nic_pcie_mbps(const struct perf_nic *nic)
{
	return spw_plat_pcie_mbps(nic->lanes, nic->pcie_mtps);
}

bool perf_nic_same_link(const struct perf_nic *a, const struct perf_nic *b)
{
	return spw_plat_same_pcie(a->pci, b->pci);
}
