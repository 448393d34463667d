/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The first messages of the control connection (control.h): version, secret, facts. The server
 * gives nothing but a nonce and its version until the client has proved that it knows the secret.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "control.h"

#define GREET_MS 10000u
#define MAC_HEX  (2 * PEER_MAC_BYTES + 1)

struct greeting {
	uint8_t nonce[2 * PEER_NONCE_BYTES]; /* the client's, then the server's */
	const struct peer_secret *secret;
};

static void hex(const uint8_t *bytes, size_t cnt, char *out)
{
	for (size_t i = 0; i < cnt; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static int unhex(const json_t *json, const char *name, uint8_t *out, size_t cnt)
{
	const char *text = json_string_value(json_object_get(json, name));

	if (!text || strlen(text) != 2 * cnt)
		return spw_err(EPROTO, "the other end sent no %s", name);
	for (size_t i = 0; i < cnt; i++)
		if (sscanf(text + 2 * i, "%2hhx", &out[i]) != 1)
			return spw_err(EPROTO, "the other end sent no %s", name);
	return 0;
}

static json_t *hello(const struct greeting *g, uint32_t side)
{
	char text[2 * PEER_NONCE_BYTES + 1];

	hex(g->nonce + side * PEER_NONCE_BYTES, PEER_NONCE_BYTES, text);
	return json_pack("{s:i,s:s,s:s,s:b}", "hello", PERF_PROTOCOL, "version", SPW_VERSION,
			 "nonce", text, "secret", g->secret->len > 0);
}

/* Reads the other end's hello: its version must be ours. */
static int hello_take(struct perf_ctl *ctl, struct greeting *g, uint32_t side, bool *secret_out)
{
	char version[32];
	uint64_t protocol;
	json_t *json;
	int rc = perf_ctl_recv(ctl, GREET_MS, &json);

	if (rc < 0)
		return rc;
	perf_text(json, "version", version, sizeof(version));
	rc = perf_number(json, "hello", UINT32_MAX, &protocol);
	if (rc == 0 && protocol != PERF_PROTOCOL)
		rc = spw_err(EPROTONOSUPPORT,
			     "%s: is spinwire-perf %s with protocol %u, this one is %s with %u: "
			     "install the same version at both ends",
			     ctl->peer, version, (uint32_t)protocol, SPW_VERSION, PERF_PROTOCOL);
	if (rc == 0)
		rc = unhex(json, "nonce", g->nonce + side * PEER_NONCE_BYTES, PEER_NONCE_BYTES);
	*secret_out = json_is_true(json_object_get(json, "secret"));
	json_decref(json);
	return rc;
}

static json_t *proof(const struct greeting *g, const char *label, json_t *facts)
{
	uint8_t mac[PEER_MAC_BYTES];
	char text[MAC_HEX];

	peer_mac(g->secret, label, g->nonce, sizeof(g->nonce), mac);
	hex(mac, sizeof(mac), text);
	return json_pack("{s:s,s:o}", "mac", text, "facts", facts);
}

static int proof_take(struct perf_ctl *ctl, const struct greeting *g, const char *label,
		      json_t **facts_out)
{
	uint8_t want[PEER_MAC_BYTES], got[PEER_MAC_BYTES];
	json_t *json;
	int rc = perf_ctl_recv(ctl, GREET_MS, &json);

	if (rc < 0)
		return rc;
	peer_mac(g->secret, label, g->nonce, sizeof(g->nonce), want);
	rc = unhex(json, "mac", got, sizeof(got));
	if (rc == 0 && !peer_mac_same(want, got))
		rc = spw_err(EACCES, "the secrets differ: --secret must name the same bytes at "
				     "both ends");
	*facts_out = rc ? NULL : json_incref(json_object_get(json, "facts"));
	json_decref(json);
	return rc;
}

static int secret_of_one(const struct perf_ctl *ctl, bool theirs)
{
	return spw_err(EACCES, "%s: %s: give --secret FILE with the same content at both ends",
		       ctl->peer,
		       theirs ? "wants a secret, and this end has none"
			      : "has no secret, and this end was given one");
}

int perf_greet_client(struct perf_ctl *ctl, const struct peer_secret *secret, json_t *facts,
		      json_t **theirs_out)
{
	struct greeting g = {.secret = secret};
	bool theirs;
	int rc = peer_nonce(g.nonce);

	*theirs_out = NULL;
	if (rc == 0 && (rc = perf_ctl_send(ctl, hello(&g, 0))) == 0)
		rc = hello_take(ctl, &g, 1, &theirs);
	if (rc == 0 && theirs != (secret->len > 0))
		rc = secret_of_one(ctl, theirs);
	if (rc < 0) {
		json_decref(facts);
		return rc;
	}
	rc = perf_ctl_send(ctl, proof(&g, "client", facts));
	return rc ? rc : proof_take(ctl, &g, "server", theirs_out);
}

int perf_greet_server(struct perf_ctl *ctl, const struct peer_secret *secret, json_t *facts,
		      json_t **theirs_out)
{
	struct greeting g = {.secret = secret};
	bool theirs;
	int rc = peer_nonce(g.nonce + PEER_NONCE_BYTES);

	*theirs_out = NULL;
	if (rc == 0) /* even to another version: it can then say so */
		rc = hello_take(ctl, &g, 0, &theirs);
	if (rc == 0 || rc == -EPROTONOSUPPORT) {
		int sent = perf_ctl_send(ctl, hello(&g, 1));

		rc = rc ? rc : sent;
	}
	if (rc == 0)
		rc = proof_take(ctl, &g, "client", theirs_out);
	if (rc == -EACCES)
		perf_ctl_error(ctl, rc);
	if (rc < 0) {
		json_decref(facts);
		return rc;
	}
	return perf_ctl_send(ctl, proof(&g, "server", facts));
}
