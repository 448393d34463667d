/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Pairs to another machine and back, which spinwire-doctor there answers over ssh
 * (measure_answer.c has the protocol). The usable functions of both are paired in their order; the
 * halves of a port then run at once too.
 *
 *    doctor_ssh_start ─ hello: the peer's usable functions ─ links
 *    for each link (then for both halves of a port at once):
 *      open, join here and there ─ write there ─ run: the peer writes back ─ close
 *
 * The lists on both machines are paired by position, as plan.c pairs ports. What the peer answers
 * is checked before it is used; a request that fails ends the measurement.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_text.h"
#include "base/spw_err.h"
#include "measure.h"
#include "ssh.h"

#define REPLY_MS 20000

struct link {
	const struct spw_plat_nic *own;
	char peer[32];
	int64_t nominal_mbps;
};

/* The other machine during one measurement. */
struct peer {
	const struct doctor_args *args;
	struct doctor_ssh ssh;
	struct link link[SPW_PLAT_NIC_MAX];
	uint32_t link_cnt;
	struct measure_end end[MEASURE_ENDS_MAX];
};

/* ---- requests ---- */

/* The next line as JSON, NULL if it is none.
 * Errors: those of doctor_ssh_line. */
static int peer_line_read(struct peer *p, uint64_t until, json_t **json_out)
{
	static char line[65536];
	int rc = doctor_ssh_line(&p->ssh, until, line, sizeof(line));

	*json_out = rc ? NULL : json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	if (rc)
		spw_err(EIO,
			"%s: spinwire-doctor does not answer over ssh (%s); is it installed there, "
			"and of this version?",
			p->args->peer[0], strerror(-rc));
	return rc;
}

/* Returns: NULL with an error text; an object that is no error. */
static json_t *peer_reply_checked(struct peer *p, json_t *reply)
{
	const char *error = json_string_value(json_object_get(reply, "error"));

	if (json_is_object(reply) && !error)
		return reply;
	spw_err(EPROTO, "%s: %.200s", p->args->peer[0], error ? error : "answers no JSON object");
	json_decref(reply);
	return NULL;
}

/* For all replies but the first: after it the peer prints nothing else on stdout. */
static json_t *peer_reply_read(struct peer *p)
{
	json_t *reply;

	return peer_line_read(p, doctor_ssh_until(REPLY_MS), &reply) ? NULL
								     : peer_reply_checked(p, reply);
}

/* The first answer, after what a shell may print when it starts. */
static json_t *peer_hello_read(struct peer *p)
{
	uint64_t until = doctor_ssh_until(REPLY_MS);
	json_t *reply;

	while (peer_line_read(p, until, &reply) == 0) {
		if (json_object_get(reply, "schema") || json_object_get(reply, "error"))
			return peer_reply_checked(p, reply);
		json_decref(reply);
	}
	return NULL;
}

/* Takes over request. NULL without an answer; the error text is set. */
static json_t *peer_request(struct peer *p, json_t *request)
{
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;

	json_decref(request);
	if (!text) {
		spw_err(ENOMEM, "no memory for a request");
		return NULL;
	}
	dprintf(p->ssh.to, "%s\n", text); /* a failure shows as no reply */
	free(text);
	return peer_reply_read(p);
}

/* ---- links ---- */

/* A device's name goes into a request and into a table: one with white space is left out. */
static void peer_link_add(struct peer *p, const struct spw_plat_nic *own, const json_t *port)
{
	struct link *link = &p->link[p->link_cnt];
	const char *device = json_string_value(json_object_get(port, "device"));
	int64_t here = spw_plat_nic_nominal_mbps(own),
		there = json_integer_value(json_object_get(port, "promised"));

	if (!device || strpbrk(device, " \t\n"))
		return;
	link->own = own;
	snprintf(link->peer, sizeof(link->peer), "%s", device);
	link->nominal_mbps = here < 0 || there <= 0 ? -1 : SPW_MIN(here, there);
	if (p->args->expect_mbps)
		link->nominal_mbps = p->args->expect_mbps;
	p->link_cnt++;
}

/* An error text that is set already (no answer) is kept. */
static int peer_links_make(struct peer *p, const struct spw_plat *plat)
{
	json_t *hello = peer_hello_read(p), *ports = json_object_get(hello, "ports");
	size_t next = 0;

	for (uint32_t i = 0; i < plat->nic_cnt && next < json_array_size(ports); i++)
		if (measure_is_usable(&plat->nic[i]))
			peer_link_add(p, &plat->nic[i], json_array_get(ports, next++));
	if (hello && p->link_cnt == 0)
		spw_err(ENODEV,
			"--measure --peer %s: %s has no RDMA port with a link and an IPv4 address",
			p->args->peer[0], json_array_size(ports) ? "this machine" : "the peer");
	json_decref(hello);
	return p->link_cnt ? 0 : -ENODEV;
}

/* ---- pairs ---- */

/* Both machines with one address would connect each end to itself, and measure its own PCIe link.
 */
static int peer_end_join(struct peer *p, uint32_t slot, const struct link *link)
{
	struct measure_addr own, there;
	int rc = measure_end_open(link->own->rdma, &p->end[slot]);
	json_t *reply;
	bool good;

	if (rc < 0)
		return rc;
	reply = peer_request(p, json_pack("{s:s,s:i,s:o}", "op", "open", "slot", (int)slot,
					  "device", app_json_text(link->peer)));
	if (!reply)
		return -EIO;
	good = measure_addr_parse(reply, &there);
	json_decref(reply);
	if (!good)
		return spw_err(EPROTO, "%s: answers no address", p->args->peer[0]);
	measure_end_addr(&p->end[slot], &own);
	/* Packets to an address of this machine's own would not leave it. */
	if (!memcmp(&own.gid, &there.gid, sizeof(own.gid)))
		return spw_err(EINVAL,
			       "%s of this machine and %s of %s have the same address: give one of "
			       "them another (spinwire-doctor plan --peer %s)",
			       link->own->rdma, link->peer, p->args->peer[0], p->args->peer[0]);
	if ((rc = measure_end_join(&p->end[slot], &there)) < 0)
		return rc;
	reply = peer_request(p, json_pack("{s:s,s:i,s:o}", "op", "join", "slot", (int)slot, "there",
					  measure_addr_json(&own)));
	json_decref(reply);
	return reply ? 0 : -EIO;
}

/* The other end writes. */
static int peer_back_run(struct peer *p, uint32_t cnt, struct measure_result *got)
{
	json_t *reply = peer_request(
		p, json_pack("{s:s,s:i,s:i}", "op", "run", "cnt", (int)cnt, "ms", (int)MEASURE_MS));

	*got = (struct measure_result){
		.mbps = json_integer_value(json_object_get(reply, "mbps")),
		.packets = json_integer_value(json_object_get(reply, "packets")),
		.wire = json_integer_value(json_object_get(reply, "wire"))};
	json_decref(reply);
	return reply ? 0 : -EIO;
}

/* If nothing arrived there, the way back is not tried: it would wait for its time-out as well. */
static int peer_there_and_back(struct peer *p, uint32_t cnt, const struct spw_plat_pair *there,
			       struct measure_list *list)
{
	struct spw_plat_pair pair = *there, back = *there;
	struct measure_result got;
	bool again = true;
	int rc = 0;

	for (uint32_t try = 0; again && try < MEASURE_TRIES; try++) {
		measure_run(p->end, cnt, MEASURE_MS, &got);
		again = measure_take(&pair, &got);
	}
	measure_add(list, &pair);
	memcpy(back.from, there->to, sizeof(back.from));
	memcpy(back.to, there->from, sizeof(back.to));
	again = pair.mbps >= 0;
	for (uint32_t try = 0; again && !rc && try < MEASURE_TRIES; try++) {
		rc = peer_back_run(p, cnt, &got);
		again = rc == 0 && measure_take(&back, &got);
	}
	if (rc == 0 && pair.mbps >= 0)
		measure_add(list, &back);
	return rc;
}

/* link[cnt] at once: the halves of one port, or one function. */
static int peer_links_measure(struct peer *p, const struct link *const *link, uint32_t cnt,
			      struct measure_list *list)
{
	struct spw_plat_pair pair = {.mbps = -1, .cable = true};
	int64_t port = link[0]->own->speed_mbit;
	size_t from = 0, to = 0;
	json_t *reply;
	int rc = 0;

	for (uint32_t i = 0; i < cnt && !rc; i++) {
		from += (size_t)snprintf(pair.from + from, sizeof(pair.from) - from, "%s%s",
					 i ? "+" : "", link[i]->own->rdma);
		to += (size_t)snprintf(pair.to + to, sizeof(pair.to) - to, "%s%.24s/%s",
				       i ? "+" : "", p->args->peer[0], link[i]->peer);
		from = SPW_MIN(from, sizeof(pair.from) - 1);
		to = SPW_MIN(to, sizeof(pair.to) - 1);
		pair.nominal_mbps += link[i]->nominal_mbps;
		rc = peer_end_join(p, i, link[i]);
	}
	pair.nominal_mbps = port > 0 ? SPW_MIN(pair.nominal_mbps, port) : pair.nominal_mbps;
	rc = rc ? rc : peer_there_and_back(p, cnt, &pair, list);
	for (uint32_t i = 0; i < cnt; i++)
		measure_end_close(&p->end[i]);
	if (rc)
		return rc;
	reply = peer_request(p, json_pack("{s:s}", "op", "close"));
	json_decref(reply);
	return reply ? 0 : -EIO;
}

/* Single functions first, so that a slow function is known before the pair is judged. */
static int peer_measure_all(struct peer *p, const struct spw_plat *plat, struct measure_list *list)
{
	int rc = 0;

	for (uint32_t i = 0; i < p->link_cnt && !rc; i++)
		rc = peer_links_measure(p, (const struct link *[]){&p->link[i]}, 1, list);
	for (uint32_t i = 0; i < p->link_cnt && !rc; i++)
		for (uint32_t k = 0; k < p->link_cnt && !rc; k++)
			if (p->link[k].own->half_of >= 0 &&
			    &plat->nic[p->link[k].own->half_of] == p->link[i].own)
				rc = peer_links_measure(
					p, (const struct link *[]){&p->link[i], &p->link[k]}, 2,
					list);
	return rc;
}

/* The doctor there ends with its stdin, which doctor_ssh_end closes. */
int measure_peer(const struct doctor_args *args, const struct spw_plat *plat,
		 struct measure_list *list)
{
	static const char *const word[] = {"answer", NULL};
	struct peer *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return spw_err(ENOMEM, "no memory to measure");
	p->args = args;
	rc = doctor_ssh_start("--peer", args->peer[0], word, &p->ssh);
	rc = rc ? rc : peer_links_make(p, plat);
	rc = rc ? rc : peer_measure_all(p, plat, list);
	doctor_ssh_end(&p->ssh);
	free(p);
	return rc;
}
