/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The other machine's part of --measure --peer: one JSON object a line, on stdin and stdout. What
 * comes in is checked; it names devices of this machine, and QPs and memory of the other one.
 *
 *   here                                       there (measure_peer.c)
 *   {"schema", "ports": [...]}            ->
 *                                         <-   {"op":"open","slot":0,"device":"rocep1s0f0"}
 *   {"qpn", "rkey", "mtu", "addr", "gid"} ->
 *                                         <-   {"op":"join","slot":0,"there":{"qpn"...}}
 *   {}                                    ->        writes, as it likes
 *                                         <-   {"op":"run","cnt":1,"ms":400}
 *   {"mbps", "packets", "wire"}           ->        after it has written itself
 *                                         <-   {"op":"close"}, or the end of stdin
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_program.h"
#include "app_text.h"
#include "base/spw_err.h"
#include "measure.h"

#define LINE_MAX_BYTES 65536
#define RUN_MS_MAX     5000

struct answer {
	struct spw_plat *plat;
	struct measure_end end[MEASURE_ENDS_MAX];
};

/* One line a reply, flushed: the other end waits for it. */
static void answer_send(json_t *reply)
{
	char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;

	printf("%s\n", text ? text : "{\"error\":\"no memory\"}");
	fflush(stdout);
	free(text);
	json_decref(reply);
}

static json_t *answer_error(void)
{
	return json_pack("{s:s}", "error", spw_err_text());
}

/* Only functions that can be measured are offered, so the other machine pairs usable ones. */
static json_t *answer_hello(const struct spw_plat *plat)
{
	json_t *ports = json_array();

	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i];

		if (measure_is_usable(nic))
			json_array_append_new(
				ports,
				json_pack("{s:o,s:I}", "device", app_json_text(nic->rdma),
					  "promised", (json_int_t)spw_plat_nic_nominal_mbps(nic)));
	}
	return json_pack("{s:s,s:o}", "schema", "spinwire.measure/1", "ports", ports);
}

/* Slots that are not open are left alone. */
static void answer_close_all(struct answer *a)
{
	for (uint32_t i = 0; i < MEASURE_ENDS_MAX; i++)
		if (a->end[i].dev.ctx)
			measure_end_close(&a->end[i]);
}

/* A slot that is open already is opened again: the other end may have given up a pair. */
static json_t *answer_open(struct answer *a, const json_t *ask, uint32_t slot)
{
	const char *device = json_string_value(json_object_get(ask, "device"));
	struct measure_addr addr;

	if (!device)
		return json_pack("{s:s}", "error", "open names no device");
	if (a->end[slot].dev.ctx)
		measure_end_close(&a->end[slot]);
	if (measure_end_open(device, &a->end[slot]) < 0) {
		measure_end_close(&a->end[slot]);
		return answer_error();
	}
	measure_end_addr(&a->end[slot], &addr);
	return measure_addr_json(&addr);
}

/* An end that is not open, or an invalid address, is refused before any call of verbs. */
static json_t *answer_join(struct answer *a, const json_t *ask, uint32_t slot)
{
	struct measure_addr there;

	if (!a->end[slot].qp || !measure_addr_parse(json_object_get(ask, "there"), &there))
		return json_pack("{s:s}", "error", "join names no open end, or no address");
	return measure_end_join(&a->end[slot], &there) < 0 ? answer_error() : json_object();
}

/* Bounded in time: a request cannot keep this machine busy. */
static json_t *answer_run(struct answer *a, const json_t *ask)
{
	json_int_t cnt = json_integer_value(json_object_get(ask, "cnt")),
		   ms = json_integer_value(json_object_get(ask, "ms"));
	struct measure_result got;

	if (!spw_in_range(cnt, 1, MEASURE_ENDS_MAX) || !spw_in_range(ms, 1, RUN_MS_MAX))
		return json_pack("{s:s}", "error", "run is out of range");
	for (json_int_t i = 0; i < cnt; i++)
		if (!a->end[i].mtu_bytes) /* not joined */
			return json_pack("{s:s}", "error", "run before join");
	measure_run(a->end, (uint32_t)cnt, (uint32_t)ms, &got);
	return json_pack("{s:I,s:I,s:I}", "mbps", (json_int_t)got.mbps, "packets",
			 (json_int_t)got.packets, "wire", (json_int_t)got.wire);
}

/* An unknown request is answered, so that the peer need not wait for its time-out. */
static json_t *answer_to(struct answer *a, const json_t *ask)
{
	const char *op = json_string_value(json_object_get(ask, "op"));
	json_int_t slot = json_integer_value(json_object_get(ask, "slot"));

	if (!op || !spw_in_range(slot, 0, (json_int_t)MEASURE_ENDS_MAX - 1))
		return json_pack("{s:s}", "error", "no such request");
	if (!strcmp(op, "open"))
		return answer_open(a, ask, (uint32_t)slot);
	if (!strcmp(op, "join"))
		return answer_join(a, ask, (uint32_t)slot);
	if (!strcmp(op, "run"))
		return answer_run(a, ask);
	if (strcmp(op, "close"))
		return json_pack("{s:s}", "error", "no such request");
	answer_close_all(a);
	return json_object();
}

/* Ends with stdin, so it does not outlive the ssh session that started it. */
int doctor_answer(const struct doctor_args *args SPW_UNUSED)
{
	static struct answer answer;
	static char line[LINE_MAX_BYTES];
	const struct spw_plat_from from = {.cuda_lib = "", .nvml_lib = "", .skip_hwloc = true};

	if (spw_plat_read(&from, &answer.plat) < 0) {
		answer_send(answer_error());
		return APP_MACHINE;
	}
	answer_send(answer_hello(answer.plat));
	while (fgets(line, sizeof(line), stdin)) {
		json_t *ask = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

		answer_send(answer_to(&answer, ask));
		json_decref(ask);
	}
	answer_close_all(&answer);
	spw_plat_free(answer.plat);
	return APP_GOOD;
}
