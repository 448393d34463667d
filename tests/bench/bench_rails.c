/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What order costs: receiving and releasing through rails, beside the same ports polled bare, each
 * tag read once, in turn in one run. The rails are null ports; a call in front of each writes the
 * generator's mark into what it lends, for both sides alike, so that the numbers go on.
 *
 *   bare    null ─ mark ─ rx_burst ─ read the mark ─ release     the ports in turn
 *   rails   null ─ mark ─ rails: rx_burst, release
 *
 * Frames lie in the L1 cache, since they are just written: what is measured is instructions.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "frame/spw_ident.h"
#include "bench.h"
#include "port/spw_port.h"
#include "time/spw_time.h"

#define SLOT_BYTES 2048u
#define SLOT_CNT   4096u
#define RUNS_MAX   101u
#define FRAMES     20000u /* per run: shorter than a time slice */
#define FLOWS      16u    /* of each rail, spread by flow */
#define RUN        7u

/* A null port whose frames get marks. */
struct marked {
	struct spw_port_queue null; /* what it was */
	const struct spw_pool *pool;
	uint32_t seq[FLOWS], next, flow_first, seq_step;
	uint32_t flows;
};

struct side {
	struct spw_port *port[SPW_PORT_RAIL_MAX]; /* one: rails */
	uint32_t port_cnt, next;
	struct spw_region region;
	struct spw_pool pool[SPW_PORT_RAIL_MAX];
	struct marked mark[SPW_PORT_RAIL_MAX];
	uint64_t sum; /* of what the bare side read, so that it is read */
};

/* ---- the source ---- */

static uint16_t marked_rx(void *arg, struct spw_desc *desc, uint16_t cnt)
{
	struct marked *m = arg;
	const uint16_t n = m->null.rx_burst(m->null.q, desc, cnt);

	for (uint16_t i = 0; i < n; i++) {
		uint8_t *at = spw_pool_slot_addr(m->pool, desc[i].slot) + desc[i].offset +
			      SPW_IDENT_ETH_OFFSET;
		const uint32_t k = m->next, flow = m->flow_first + k, seq = m->seq[k];
		const spw_be32 head = spw_cpu_to_be32(SPW_IDENT_MAGIC << 16 |
						      SPW_IDENT_VERSION << 8 | SPW_IDENT_STREAM);
		const spw_be64 id =
			spw_cpu_to_be64((uint64_t)RUN << 48 | (uint64_t)flow << 32 | seq);
		const spw_be32 number = spw_cpu_to_be32(seq);

		memcpy(at, &head, sizeof(head));
		memcpy(at + 4, &id, sizeof(id));
		memcpy(at + SPW_IDENT_BYTES, &number, sizeof(number));
		m->seq[k] = seq + m->seq_step;
		m->next = k + 1 == m->flows ? 0 : k + 1;
	}
	return n;
}

static void marked_release(void *arg, const uint32_t *slot, uint16_t cnt)
{
	struct marked *m = arg;

	m->null.release_burst(m->null.q, slot, cnt);
}

static uint16_t marked_events(void *arg, struct spw_port_event *event, uint16_t cnt)
{
	struct marked *m = arg;

	return m->null.events(m->null.q, event, cnt);
}

/* Interposes on a port's queue. by_frame: all rails carry one flow, number by number in turn. */
static void mark(struct marked *m, const struct spw_port *port, const struct spw_pool *pool,
		 uint32_t rail, uint32_t rails, bool by_frame)
{
	struct spw_port_queue *pq = &((struct spw_port *)(uintptr_t)port)->queue[0];

	*m = (struct marked){.null = *pq,
			     .pool = pool,
			     .flows = by_frame ? 1 : FLOWS,
			     .flow_first = by_frame ? 0 : rail * FLOWS,
			     .seq_step = by_frame ? rails : 1,
			     .seq = {by_frame ? rail : 0}};
	pq->rx_burst = marked_rx;
	pq->release_burst = marked_release;
	pq->events = marked_events;
	pq->q = m;
}

/* ---- the two sides ---- */

static int port_open(struct side *side, const char *text)
{
	struct spw_port_queue_conf conf = {.pool = &side->pool[side->port_cnt], .numa_node = -1};
	struct spw_port **port = &side->port[side->port_cnt];
	struct spw_port_spec spec;
	int rc = spw_port_spec_parse(text, &spec);

	rc = rc ? rc
		: spw_pool_init(conf.pool, &side->region,
				(size_t)side->port_cnt * SLOT_CNT * SLOT_BYTES, SLOT_BYTES,
				SLOT_CNT);
	rc = rc ? rc : spw_port_open(&spec, 0, 1, port);
	rc = rc ? rc : spw_port_region_attach(*port, &side->region);
	rc = rc ? rc : spw_port_queue_setup(*port, 0, &conf);
	side->port_cnt += rc == 0;
	return rc ? rc : spw_port_start(*port);
}

static int region_open(struct side *side)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST,
				  .bytes = (size_t)SPW_PORT_RAIL_MAX * SLOT_CNT * SLOT_BYTES,
				  .numa_node = -1};

	return spw_region_alloc(&req, &side->region);
}

static int bare_open(struct side *side, uint32_t rails, bool by_frame)
{
	int rc = region_open(side);

	for (uint32_t r = 0; r < rails && !rc; r++) {
		rc = port_open(side, "null:size=68");
		if (!rc)
			mark(&side->mark[r], side->port[r], &side->pool[r], r, rails, by_frame);
	}
	return rc;
}

static int rails_open(struct side *side, uint32_t rails, bool by_frame)
{
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	char text[256] = "rails:";
	int rc = region_open(side);

	for (uint32_t r = 0; r < rails; r++)
		strcat(text, r ? "+null:size=68" : "null:size=68");
	strcat(text, by_frame ? ",rails_order=stream" : ",rails_order=flow");
	rc = rc ? rc : port_open(side, text);
	for (uint32_t r = 0; !rc && r < spw_port_rails(side->port[0], rail); r++)
		mark(&side->mark[r], rail[r].port, &side->pool[0], r, rails, by_frame);
	return rc;
}

static void side_close(struct side *side)
{
	for (uint32_t p = 0; p < side->port_cnt; p++) {
		spw_port_stop(side->port[p]);
		spw_port_close(side->port[p]);
		if (spw_pool_fini(&side->pool[p]))
			fprintf(stderr, "spinwire-bench rails: slots were lost\n");
	}
	spw_region_free(&side->region);
}

/* ---- what is measured ---- */

/* The bare side reads each mark, as any receiver of numbered frames must. */
static void read_marks(struct side *side, const struct spw_desc *desc, uint16_t n)
{
	const struct spw_pool *pool = &side->pool[side->next];
	struct spw_ident ident = {0};

	for (uint16_t i = 0; i < n; i++) {
		if (spw_ident_read(spw_pool_slot_addr(pool, desc[i].slot) + desc[i].offset +
					   SPW_IDENT_ETH_OFFSET,
				   &ident))
			side->sum += ident.seq;
	}
}

static uint16_t take(struct side *side, uint16_t burst, bool bare)
{
	struct spw_port_queue *pq = &side->port[side->next]->queue[0];
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	const uint16_t n = spw_port_rx_burst(pq, desc, burst);

	if (bare)
		read_marks(side, desc, n);
	for (uint16_t i = 0; i < n; i++)
		slot[i] = desc[i].slot;
	spw_port_release_burst(pq, slot, n);
	side->next = side->next + 1 == side->port_cnt ? 0 : side->next + 1;
	return n;
}

static double ticks(struct side *side, uint16_t burst, bool bare)
{
	const uint64_t begin = spw_tsc_now_ordered();
	uint64_t frames = 0;

	while (frames < FRAMES)
		frames += take(side, burst, bare);
	return (double)(spw_tsc_now_ordered() - begin) / (double)frames;
}

/* Order must hold, or the time says nothing: no number was given up and none came twice. */
static int check(struct side *side)
{
	struct spw_port_stat stat;

	spw_port_stat(side->port[0], &stat);
	if (!stat.err[SPW_PORT_ERR_gap] && !stat.dropped[SPW_PORT_DROP_late] &&
	    !stat.dropped[SPW_PORT_DROP_duplicate])
		return 0;
	fprintf(stderr, "spinwire-bench rails: %" PRIu64 " numbers were given up\n",
		stat.err[SPW_PORT_ERR_gap]);
	return 3;
}

static int compare(uint32_t rails, bool by_frame, uint32_t runs, struct spw_bench_out *out)
{
	double bare[RUNS_MAX], through[RUNS_MAX], more[RUNS_MAX];
	static struct side side[2];
	char name[72];
	int rc;

	memset(side, 0, sizeof(side));
	rc = bare_open(&side[0], rails, by_frame);
	rc = rc ? rc : rails_open(&side[1], rails, by_frame);
	if (rc) {
		fprintf(stderr, "spinwire-bench rails: %s\n", spw_err_text());
		return 2;
	}
	ticks(&side[0], SPW_BURST_MAX, true);
	ticks(&side[1], SPW_BURST_MAX, false);
	for (uint32_t i = 0; i < runs; i++) {
		bare[i] = ticks(&side[0], SPW_BURST_MAX, true);
		through[i] = ticks(&side[1], SPW_BURST_MAX, false);
		more[i] = through[i] - bare[i];
	}
	rc = check(&side[1]);
	snprintf(name, sizeof(name), "%u ports, %s", rails,
		 by_frame ? "one stream, frame by frame" : "by flow");
	spw_bench_add(out, name, "bare, mark read", "ticks/frame", bare, runs);
	spw_bench_add(out, name, "through rails", "ticks/frame", through, runs);
	spw_bench_add(out, name, "order costs", "ticks/frame", more, runs);
	side_close(&side[0]);
	side_close(&side[1]);
	return rc;
}

int spw_bench_rails(int argc, char **argv, struct spw_bench_out *out)
{
	static const struct spw_opt opt[] = {{.name = "runs",
					      .bytes = sizeof(uint32_t),
					      .kind = SPW_OPT_NUMBER,
					      .min = 1,
					      .max = RUNS_MAX,
					      .dflt = "101",
					      .help = "of each case"}};
	uint32_t runs;
	const struct spw_opt_take take = {.base = &runs};
	int rc = spw_bench_args(out, opt, SPW_ARRAY_CNT(opt), argc, argv, &take);

	if (rc != SPW_BENCH_RUN)
		return rc;
	rc = 0;
	for (uint32_t rails = 2; rails <= SPW_PORT_RAIL_MAX && !rc; rails += 2) {
		rc = compare(rails, false, runs, out);
		rc = rc ? rc : compare(rails, true, runs, out);
	}
	return rc;
}
