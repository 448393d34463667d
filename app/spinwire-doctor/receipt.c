/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings as JSON, and the receipt: facts, findings and the recorded machine, with a SHA-256 over
 * all of it, so that a change or a cut is noticed. The hash is of the receipt without its member
 * "sha256", in jansson's compact form with sorted keys. It is no signature: whoever changes a
 * receipt can compute it anew.
 *
 * main.c writes both; source.c reads receipts, by doctor_receipt_tree. A receipt holds the whole
 * recorded machine, so whoever gets one can look at it with any command.
 *
 *    {"schema": "spinwire.receipt/1", ...findings, "time", "facts": [...], "tree": {...}, "sha256"}
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nettle/sha2.h>

#include "app_text.h"
#include "base/spw_err.h"
#include "doctor.h"

static json_t *findings_json(const struct spw_plat *plat)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < plat->finding_cnt; i++) {
		const struct spw_plat_finding *f = &plat->finding[i];

		json_array_append_new(
			list, json_pack("{s:s,s:s,s:o,s:o}", "id", f->code, "severity",
					spw_plat_severity_name(f->severity), "evidence",
					app_json_text(f->what), "mend", app_json_text(f->todo)));
	}
	return list;
}

/* Unknown rates are negative in struct spw_plat, and null for readers. */
static json_t *rate_json(int64_t value)
{
	return value < 0 ? json_null() : json_integer((json_int_t)value);
}

json_t *doctor_pairs_json(const struct spw_plat *plat)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < plat->pair_cnt; i++) {
		const struct spw_plat_pair *pair = &plat->pair[i];

		json_array_append_new(
			list,
			json_pack("{s:o,s:o,s:b,s:o,s:o,s:I,s:o,s:s}", "from",
				  app_json_text(pair->from), "to", app_json_text(pair->to), "cable",
				  pair->cable, "mbps", rate_json(pair->mbps), "promised_mbps",
				  rate_json(pair->nominal_mbps), "packets",
				  (json_int_t)pair->packets, "wire_packets", rate_json(pair->wire),
				  "crossed", spw_plat_wire_name(spw_plat_pair_wire(pair))));
	}
	return list;
}

/* GPUs that were not loaded have no row. */
static json_t *loads_json(const struct spw_plat *plat)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < plat->gpu_cnt; i++) {
		const struct spw_plat_gpu_load *load = &plat->gpu[i].load;

		if (load->memory_mbs >= 0)
			json_array_append_new(
				list, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "gpu",
						app_json_text(plat->gpu[i].name), "memory_mbs",
						rate_json(load->memory_mbs), "promised_mbs",
						rate_json(load->promised_mbs), "host_mbs",
						rate_json(load->host_mbs), "clock_mhz",
						rate_json(load->clock_mhz), "throttle",
						rate_json(load->throttle)));
	}
	return list;
}

static json_t *facts_json(const struct spw_plat *plat)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < plat->fact_cnt; i++) {
		const struct spw_plat_fact *f = &plat->fact[i];

		json_array_append_new(list,
				      json_pack("{s:o,s:s,s:o,s:o}", "of", app_json_text(f->of),
						"name", f->name, f->why[0] ? "unknown" : "value",
						app_json_text(f->why[0] ? f->why : f->value),
						"source", app_json_text(f->source)));
	}
	return list;
}

/* The members that check, replay and --measure print; a receipt adds to them. */
json_t *doctor_json(const struct spw_plat *plat, bool facts)
{
	json_t *top = json_pack(
		"{s:s,s:s,s:o,s:o,s:i,s:i,s:i,s:o,s:o,s:o}", "schema", "spinwire.doctor/1",
		"version", SPW_VERSION, "machine", app_json_text(plat->machine), "kernel",
		app_json_text(plat->kernel), "cores", (int)plat->core_cnt, "network_functions",
		(int)plat->nic_cnt, "gpus", (int)plat->gpu_cnt, "measured", doctor_pairs_json(plat),
		"measured_gpus", loads_json(plat), "findings", findings_json(plat));

	if (top && facts)
		json_object_set_new(top, "facts", facts_json(plat));
	return top;
}

/* Returns: false without memory. */
static bool receipt_hash(const json_t *receipt, char hex[2 * SHA256_DIGEST_SIZE + 1])
{
	json_t *bare = json_copy((json_t *)(uintptr_t)receipt);
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;
	char *text;

	json_object_del(bare, "sha256");
	text = json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(bare);
	if (!text)
		return false;
	sha256_init(&sha);
	sha256_update(&sha, strlen(text), (const uint8_t *)text);
	sha256_digest(&sha, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	free(text);
	return true;
}

/* The hash is the last member that is added: it covers all others. */
json_t *doctor_receipt(const struct spw_plat *plat)
{
	json_t *receipt = doctor_json(plat, true);
	char hex[2 * SHA256_DIGEST_SIZE + 1];
	struct timespec now;

	if (!receipt)
		return NULL;
	clock_gettime(CLOCK_REALTIME, &now);
	json_object_set_new(receipt, "schema", json_string("spinwire.receipt/1"));
	json_object_set_new(receipt, "time", json_integer((json_int_t)now.tv_sec));
	json_object_set_new(receipt, "tree", spw_plat_record(plat));
	if (!receipt_hash(receipt, hex) ||
	    json_object_set_new(receipt, "sha256", json_string(hex))) {
		json_decref(receipt);
		return NULL;
	}
	return receipt;
}

/* The hash is checked before the tree is used: a cut file would give findings of half a machine. */
int doctor_receipt_tree(json_t *receipt, const char *name, json_t **tree_out)
{
	const char *schema = json_string_value(json_object_get(receipt, "schema"));
	const char *sha = json_string_value(json_object_get(receipt, "sha256"));
	json_t *tree = json_object_get(receipt, "tree");
	char hex[2 * SHA256_DIGEST_SIZE + 1];

	if (!schema || strcmp(schema, "spinwire.receipt/1") || !sha || !tree)
		return spw_err(EPROTO, "%s: is JSON, but not a receipt of spinwire-doctor", name);
	if (!receipt_hash(receipt, hex) || strcmp(sha, hex))
		return spw_err(
			EPROTO,
			"%s: was changed since it was written: its SHA-256 is not that of its "
			"content",
			name);
	*tree_out = tree;
	return 0;
}
