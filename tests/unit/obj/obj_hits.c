/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a description makes of a capture, for tests: obj_hits DESCRIPTION CAPTURE prints a line of
 * JSON for the description, then one for each frame. Exit status 1: the description is refused, and
 * stderr has why; 2: the capture cannot be read.
 */
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "frame/spw_move.h"
#include "obj_same.h"

static const struct spw_enum_word miss_word[] = {SPW_ENUM_WORDS(SPW_OBJ_MISS)};
#define OP_NAME(P, name, ...) #name,
static const char *const op_name[] = {SPW_MOVE_OP_LIST(OP_NAME, )};

static void desc_print(const struct spw_obj_desc *desc)
{
	const struct spw_obj_plan *plan = &desc->plan;

	printf("{\"name\": \"%s\", \"key_bits\": %u, \"label\": %s, \"object_bytes\": %" PRIu64
	       ", \"granule\": %" PRIu64 ", \"steps\": %u, \"op\": \"%s\", \"bytes\": %" PRIu64
	       ", \"shape\": [",
	       desc->name, plan->key_bits, plan->key_label ? "true" : "false", plan->object_bytes,
	       plan->granule, plan->step_cnt, op_name[desc->rule.op], desc->shape.bytes);
	for (uint32_t i = 0; i < desc->shape.ndim; i++)
		printf("%s%" PRId64, i ? ", " : "", desc->shape.dim[i]);
	printf("]}\n");
}

static void hit_print(const struct spw_obj_hit *hit)
{
	printf("{\"key\": %" PRIu64 ", \"part\": %" PRIu64 ", \"size\": %" PRIu64
	       ", \"flags\": %u, \"pieces\": [",
	       hit->key, hit->part, hit->size, hit->flags);
	for (uint32_t i = 0; i < hit->piece_cnt; i++)
		printf("%s[%" PRIu64 ", %u, %u]", i ? ", " : "", hit->piece[i].pos,
		       hit->piece[i].skip, hit->piece[i].len);
	printf("]}\n");
}

/* A copy of exactly the frame's bytes, so that a sanitizer finds a read beyond them. The first
 * frame that is the stream's aligns it. What other frames taught the memo must not matter. */
static void frame_print(struct spw_obj_plan *plan, bool *aligned, const u_char *data, uint32_t len)
{
	static struct plan_memo memo;
	uint8_t *frame = malloc(len ? len : 1);
	struct spw_obj_hit hit;
	enum spw_obj_miss miss;

	if (!frame)
		abort();
	memcpy(frame, data, len);
	if (plan->align_first && !*aligned)
		*aligned = spw_obj_plan_align(plan, frame, len, len);
	if (!obj_plan_same(plan, &memo, frame, len, len))
		abort();
	miss = spw_obj_plan_run(plan, frame, len, len, &hit);
	if (miss)
		printf("{\"miss\": \"%s\"}\n", SPW_ENUM_NAME(miss_word, miss));
	else
		hit_print(&hit);
	free(frame);
}

int main(int argc, char **argv)
{
	static struct spw_obj_desc desc;
	char text[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *head;
	const u_char *data;
	bool aligned = false;
	pcap_t *pcap;
	int rc;

	if (argc < 2 || spw_obj_desc_load(argv[1], &desc)) {
		fprintf(stderr, "%s\n", argc < 2 ? "DESCRIPTION CAPTURE" : spw_err_text());
		return 1;
	}
	desc_print(&desc);
	if (argc < 3)
		return 0;
	pcap = pcap_open_offline(argv[2], text);
	if (!pcap) {
		fprintf(stderr, "%s\n", text);
		return 2;
	}
	while ((rc = pcap_next_ex(pcap, &head, &data)) == 1)
		frame_print(&desc.plan, &aligned, data, head->caplen);
	pcap_close(pcap);
	return rc == PCAP_ERROR_BREAK ? 0 : 2;
}
