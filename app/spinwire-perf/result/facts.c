/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Facts of an end (facts.h): read through lib/plat, and passed on as JSON. Each end reads itself
 * and sends the result in the greeting; pair.c, limit.c and plan.c work on both. The server reads
 * anew for each session, because links come and go.
 *
 *    lib/plat ─► perf_facts_take ─► struct perf_end ─► perf_facts_json ─► ... ─► perf_facts_parse
 *
 * A fact that is unknown is 0 or "", and a limit that rests on it is unknown too. A new field is
 * written by the _json function and read by the _parse function of its struct; a number that is
 * missing there is an error, so perf_proto changes with it.
 */
#include "result/facts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app_text.h"
#include "base/spw_err.h"
#include "base/spw_text.h"
#include "measure/gpu.h"

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
	static const char *const about[] = {"nic-",   "port-", "gid-", "pcie", "mtu",  "memlock",
					    "uverbs", "iommu", "aer",  "cma",  "quota"};

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

/* Numbers that are unknown travel as 0, as they stand in the struct. */
static json_t *facts_nics_json(const struct perf_end *end)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < end->nic_cnt; i++) {
		const struct perf_nic *nic = &end->nic[i];

		json_array_append_new(
			list,
			json_pack(
				"{s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b}",
				"rdma", nic->rdma, "netdev", nic->netdev, "pci", nic->pci, "guid",
				nic->guid, "ip", nic->ip, "prefix", (int)nic->prefix, "port",
				(int)nic->port, "mtu", (int)nic->mtu, "link_mbps",
				(int)nic->link_mbps, "lanes", (int)nic->lanes, "pcie_mtps",
				(int)nic->pcie_mtps, "device", (int)nic->device,
				"port_enforced_mbps", (int)nic->port_enforced_mbps,
				"pcie_enforced_mbps", (int)nic->pcie_enforced_mbps, "up", nic->up,
				"in_kernel", nic->in_kernel));
	}
	return list;
}

static json_t *others_json(const struct perf_end *end)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < end->other_cnt; i++)
		json_array_append_new(list, json_pack("{s:o,s:o,s:o,s:b}", "rdma",
						      app_json_text(end->other[i].rdma), "desc",
						      app_json_text(end->other[i].desc), "netdev",
						      app_json_text(end->other[i].netdev),
						      "software", end->other[i].software));
	return list;
}

static json_t *bonds_json(const struct perf_end *end)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < end->bond_cnt; i++)
		json_array_append_new(list, json_pack("{s:s,s:s,s:o,s:i}", "name",
						      end->bond[i].name, "ip", end->bond[i].ip,
						      "slaves", app_json_text(end->bond[i].slaves),
						      "prefix", (int)end->bond[i].prefix));
	return list;
}

/* The doctor's findings of this end: the client prints those of both. */
static json_t *facts_findings_json(const struct perf_end *end)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < end->finding_cnt; i++)
		json_array_append_new(list,
				      json_pack("{s:s,s:o,s:o}", "id", end->finding[i].code,
						"evidence", app_json_text(end->finding[i].what),
						"mend", app_json_text(end->finding[i].todo)));
	return list;
}

/* Texts pass app_json_text or facts_copy: a driver may report any bytes. */
json_t *perf_facts_json(const struct perf_end *end)
{
	return json_pack("{s:o,s:o,s:o,s:s,s:o,s:s,s:b,s:i,s:I,s:o,s:o,s:o,s:o}", "host",
			 app_json_text(end->host), "machine", app_json_text(end->machine), "kernel",
			 app_json_text(end->kernel), "version", end->version, "gpu",
			 app_json_text(end->gpu), "no_gpu", end->no_gpu, "software", end->software,
			 "cores", (int)end->cores, "memory_max", (json_int_t)end->memory_max,
			 "nics", facts_nics_json(end), "other_rdma", others_json(end), "bonds",
			 bonds_json(end), "findings", facts_findings_json(end));
}

/* INT32_MAX is far above every fact, and fits all the types that they are computed in. */
static int u32_take(const json_t *json, const char *name, uint32_t *out)
{
	uint64_t value;
	int rc = perf_number(json, name, INT32_MAX, &value);

	*out = rc ? 0 : (uint32_t)value;
	return rc;
}

/* Numbers are bounded by u32_take, the prefix by what a shift can take. */
static int nic_parse(const json_t *json, struct perf_nic *nic)
{
	const struct {
		const char *name;
		uint32_t *value;
	} number[] = {{"prefix", &nic->prefix},
		      {"port", &nic->port},
		      {"mtu", &nic->mtu},
		      {"link_mbps", &nic->link_mbps},
		      {"lanes", &nic->lanes},
		      {"pcie_mtps", &nic->pcie_mtps},
		      {"device", &nic->device},
		      {"port_enforced_mbps", &nic->port_enforced_mbps},
		      {"pcie_enforced_mbps", &nic->pcie_enforced_mbps}};
	int rc = 0;

	perf_text(json, "rdma", nic->rdma, sizeof(nic->rdma));
	perf_text(json, "netdev", nic->netdev, sizeof(nic->netdev));
	perf_text(json, "pci", nic->pci, sizeof(nic->pci));
	perf_text(json, "guid", nic->guid, sizeof(nic->guid));
	perf_text(json, "ip", nic->ip, sizeof(nic->ip));
	nic->up = json_is_true(json_object_get(json, "up"));
	nic->in_kernel = json_is_true(json_object_get(json, "in_kernel"));
	for (size_t i = 0; i < SPW_ARRAY_CNT(number) && rc == 0; i++)
		rc = u32_take(json, number[i].name, number[i].value);
	return rc ? rc : nic->prefix > 32 ? spw_err(EPROTO, "a prefix above 32") : 0;
}

/* Of each list what there is room for is taken. */
static int nics_parse(const json_t *list, struct perf_end *end)
{
	int rc = 0;

	for (size_t i = 0; i < json_array_size(list) && i < PERF_NIC_MAX && rc == 0; i++)
		rc = nic_parse(json_array_get(list, i), &end->nic[end->nic_cnt++]);
	return rc;
}

/* Texts alone: they are printed, and nothing is computed from them. */
static void others_parse(const json_t *list, struct perf_end *end)
{
	for (size_t i = 0; i < json_array_size(list) && i < SPW_PLAT_RDMA_MAX; i++) {
		const json_t *item = json_array_get(list, i);
		struct spw_plat_rdma *dev = &end->other[end->other_cnt++];

		perf_text(item, "rdma", dev->rdma, sizeof(dev->rdma));
		perf_text(item, "desc", dev->desc, sizeof(dev->desc));
		perf_text(item, "netdev", dev->netdev, sizeof(dev->netdev));
		dev->software = json_is_true(json_object_get(item, "software"));
	}
}

/* The prefix is cut, not refused: a wrong one pairs no bonds. */
static int bonds_parse(const json_t *list, struct perf_end *end)
{
	int rc = 0;

	for (size_t i = 0; i < json_array_size(list) && i < PERF_BOND_MAX && rc == 0; i++) {
		const json_t *item = json_array_get(list, i);
		struct perf_bond *bond = &end->bond[end->bond_cnt++];

		perf_text(item, "name", bond->name, sizeof(bond->name));
		perf_text(item, "ip", bond->ip, sizeof(bond->ip));
		perf_text(item, "slaves", bond->slaves, sizeof(bond->slaves));
		rc = u32_take(item, "prefix", &bond->prefix);
		bond->prefix = SPW_MIN(bond->prefix, 32u);
	}
	return rc;
}

static void findings_parse(const json_t *list, struct perf_end *end)
{
	for (size_t i = 0; i < json_array_size(list) && i < PERF_FINDING_MAX; i++) {
		const json_t *item = json_array_get(list, i);
		struct perf_finding *finding = &end->finding[end->finding_cnt++];

		perf_text(item, "id", finding->code, sizeof(finding->code));
		perf_text(item, "evidence", finding->what, sizeof(finding->what));
		perf_text(item, "mend", finding->todo, sizeof(finding->todo));
	}
}

/* Lists that are absent are empty; a number that is absent or out of range refuses the whole. */
int perf_facts_parse(const json_t *json, struct perf_end *end_out)
{
	int rc;

	memset(end_out, 0, sizeof(*end_out));
	perf_text(json, "host", end_out->host, sizeof(end_out->host));
	perf_text(json, "machine", end_out->machine, sizeof(end_out->machine));
	perf_text(json, "kernel", end_out->kernel, sizeof(end_out->kernel));
	perf_text(json, "version", end_out->version, sizeof(end_out->version));
	perf_text(json, "gpu", end_out->gpu, sizeof(end_out->gpu));
	perf_text(json, "no_gpu", end_out->no_gpu, sizeof(end_out->no_gpu));
	end_out->software = json_is_true(json_object_get(json, "software"));
	rc = u32_take(json, "cores", &end_out->cores);
	if (rc == 0)
		rc = perf_number(json, "memory_max", INT64_MAX, &end_out->memory_max);
	rc = rc ? rc : nics_parse(json_object_get(json, "nics"), end_out);
	rc = rc ? rc : bonds_parse(json_object_get(json, "bonds"), end_out);
	others_parse(json_object_get(json, "other_rdma"), end_out);
	findings_parse(json_object_get(json, "findings"), end_out);
	return rc;
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
