/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the executor ring: any batches, executed by the CPU executor or answered with any bytes
 * as completion words. Each word of a descriptor carries its field, handlers stay inside their
 * frame, batches are reaped once and in order, a unit lies within its array, and no frame has two
 * verdicts, a verdict beyond the batch, or a reason without a verdict.
 *
 *   input: four bytes of configuration, then steps: an opcode byte and its operands
 */
#include <string.h>

#include "fuzz_port.h"
#include "exec/exec.h"

#define SLOT_BYTES 512u
#define SLOTS      8u

struct run {
	struct fuzz_input in;
	struct spw_gring ring;
	struct spw_exec_cpu_unit unit;
	uint8_t *slots;
	uint64_t reaped;
};

/* Each block is one allocation, so that AddressSanitizer detects an access one word beyond it. */
static void *block(size_t bytes)
{
	void *p = calloc(1, SPW_ALIGN_UP(bytes, (size_t)SPW_CACHE_LINE));

	fuzz_demand(p);
	return p;
}

static uint64_t tsc_now(struct spw_gring *ring)
{
	(void)ring;
	return spw_tsc_now();
}

static uint64_t take64(struct run *r)
{
	const uint8_t *p = fuzz_take(&r->in, 8);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, sizeof(v));
	return v;
}

static void open_run(struct run *r, const uint8_t *conf)
{
	uint32_t log2 = 1 + conf[0] % 4u, cnt = 1u << log2;
	struct spw_pool pool = {.region_offset = 0, .slot_bytes = SLOT_BYTES};

	r->ring = (struct spw_gring){
		.desc = block(cnt * SPW_GRING_FRAME_MAX * sizeof(*r->ring.desc)),
		.done = block(cnt * sizeof(*r->ring.done)),
		.batch = aligned_alloc(SPW_CACHE_LINE, cnt * sizeof(*r->ring.batch)),
		.batch_mask = cnt - 1,
		.batch_log2 = log2,
		.unit_cnt = 1 + conf[1] % 4u,
		.region_cnt = 1,
		.exec_now = tsc_now};
	fuzz_demand(r->ring.batch);
	memset(r->ring.batch, 0, cnt * sizeof(*r->ring.batch));
	r->ring.unit_frames = calloc(r->ring.unit_cnt, sizeof(*r->ring.unit_frames));
	r->slots = malloc(SLOTS * SLOT_BYTES);
	fuzz_demand(r->ring.unit_frames && r->slots);
	memset(r->slots, conf[3], SLOTS * SLOT_BYTES);
	spw_gring_bind(&r->ring, &pool);
	r->unit.run = spw_handler_builtin(conf[2] % 4u)->host;
	for (uint32_t i = 0; i < SPW_REGION_MAX; i++)
		r->unit.env.region_base[i] = (uint64_t)(uintptr_t)r->slots;
}

static void close_run(struct run *r)
{
	free(r->ring.desc);
	free(r->ring.done);
	free(r->ring.batch);
	free(r->ring.unit_frames);
	free(r->slots);
}

static void check_entry(const struct run *r, const struct spw_gring_batch *batch, uint32_t i)
{
	const struct spw_gring_desc *e =
		&r->ring.desc[(batch->seq & r->ring.batch_mask) * SPW_GRING_FRAME_MAX + i];
	const struct spw_desc *d = &batch->desc[i];
	uint64_t tag = spw_gring_tag(batch->seq, r->ring.batch_log2);

	fuzz_demand(spw_gring_has_tag(e->lo, tag) && spw_gring_has_tag(e->hi, tag));
	fuzz_demand(spw_gring_lo_offset(e->lo) == (uint64_t)d->slot * SLOT_BYTES + d->offset);
	fuzz_demand(spw_gring_hi_len(e->hi) == d->len && spw_gring_hi_region(e->hi) == d->region);
	fuzz_demand(spw_gring_hi_flags(e->hi) == (d->flags & SPW_DESC_HANDLER_FLAGS));
	fuzz_demand(spw_gring_meta(e->lo, e->hi) == d->meta);
	fuzz_demand(spw_gring_hi_cnt(e->hi) == (i ? 1 : batch->cnt));
}

/* A frame of any length that its slot holds; what a port lends. */
static void add_frame(struct run *r, struct spw_gring_batch *batch, uint32_t i)
{
	uint64_t v = take64(r);
	struct spw_desc *d = &batch->desc[i];
	size_t bytes;

	*d = (struct spw_desc){.slot = v % SLOTS,
			       .offset = (uint32_t)(v >> 8) % SLOT_BYTES,
			       .meta = (uint32_t)(v >> 32),
			       .flags = (uint16_t)(v >> 24),
			       .region = (uint16_t)(v >> 40) % SPW_REGION_MAX};
	d->len = 1 + (uint32_t)(v >> 48) % (SLOT_BYTES - d->offset);
	bytes = SPW_MIN(r->in.left, (size_t)d->len);
	memcpy(r->slots + d->slot * SLOT_BYTES + d->offset, r->in.data, bytes);
}

static void step_push(struct run *r, uint8_t cnt)
{
	struct spw_gring_batch *batch = spw_gring_next(&r->ring);

	if (!batch)
		return;
	batch->cnt = 1 + cnt % SPW_GRING_FRAME_MAX;
	for (uint32_t i = 0; i < batch->cnt; i++)
		add_frame(r, batch, i);
	spw_gring_push(&r->ring, batch);
	for (uint32_t i = 0; i < batch->cnt; i++)
		check_entry(r, batch, i);
}

static void step_reap(struct run *r)
{
	uint64_t faults = r->ring.fault_cnt, mask;
	struct spw_gring_batch *batch = spw_gring_reap(&r->ring);
	uint32_t reasons = 0;

	if (!batch)
		return;
	mask = batch->cnt == 64 ? UINT64_MAX : (1ull << batch->cnt) - 1;
	for (uint32_t i = 0; i < SPW_GRING_REASON_MAX; i++)
		reasons += batch->bad[i];
	fuzz_demand(batch->seq == r->reaped++ && r->ring.tail_seq <= r->ring.head_seq);
	fuzz_demand(batch->unit < r->ring.unit_cnt);
	fuzz_demand(!((batch->verdict[0] | batch->verdict[1]) & ~mask) &&
		    !(batch->verdict[0] & batch->verdict[1]));
	fuzz_demand(reasons == (uint32_t)__builtin_popcountll(batch->verdict[1]));
	fuzz_demand(r->ring.fault_cnt == faults || batch->bad[SPW_BAD_verdict] == batch->cnt);
	spw_gring_retire(&r->ring, batch);
	fuzz_demand(r->ring.in_exec_frames == 0 || r->ring.retired_seq != r->ring.head_seq);
}

/* Executes the oldest batch as the CPU executor does: nothing that it writes may be refused. */
static void step_execute(struct run *r)
{
	uint64_t faults = r->ring.fault_cnt;

	r->unit.next_seq = r->ring.tail_seq;
	if (r->ring.tail_seq == r->ring.head_seq)
		return;
	fuzz_demand(spw_exec_run_one(&r->ring, &r->unit, 0));
	step_reap(r);
	fuzz_demand(r->ring.fault_cnt == faults);
}

/* A completion of any bytes; tagged: with valid lap tags. */
static void step_complete(struct run *r, bool tagged, uint8_t words)
{
	uint64_t tag = spw_gring_tag(r->ring.tail_seq, r->ring.batch_log2);
	struct spw_gring_done *done = &r->ring.done[r->ring.tail_seq & r->ring.batch_mask];
	struct spw_gring_batch *batch = &r->ring.batch[r->ring.tail_seq & r->ring.batch_mask];

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(done->w); i++) {
		uint64_t v = words >> i & 1 ? take64(r) : i == 2 ? (uint64_t)batch->cnt << 16 : 0;

		done->w[i] = tagged ? tag | (v & SPW_GRING_VALUE_MASK) : v;
	}
	step_reap(r);
}

static bool step(struct run *r)
{
	const uint8_t *op = fuzz_take(&r->in, 2);

	if (!op)
		return false;
	switch (op[0] % 4) {
	case 0:
		step_push(r, op[1]);
		break;
	case 1:
		step_execute(r);
		break;
	case 2:
		step_complete(r, true, op[1]);
		break;
	default:
		step_complete(r, false, op[1]);
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run r = {.in = {data, size}};
	const uint8_t *conf = fuzz_take(&r.in, 4);

	if (!conf)
		return 0;
	open_run(&r, conf);
	while (step(&r))
		;
	close_run(&r);
	return 0;
}
