/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Contexts: an endpoint for each communicator, the device that NCCL is shown, and what must never
 * be silent: which rails were taken, which were left out, and why there are none.
 *
 *   process.lock ── contexts ─► context ─ lock ─► endpoint, connections, registrations, attempts
 *   init              a context, with NCCL itself as its first user
 *   listen, connect, accept, reg_mr      one more user each
 *   finalize, close, dereg_mr            one less; with the last the context ends
 *
 * Versions 8 to 10 of the plugin interface have no finalize: their one context ends when the
 * library is unloaded. A process that was forked from one with contexts is refused at every call
 * (nnet_is_forked).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_fork.h"
#include "base/spw_log.h"
#include "ncclnet/live.h"
#include "ncclnet/report.h"
#include "ncclnet/watch.h"
#include "plat/spw_plat.h"

/* Of the process. The lock orders the opening and the end of contexts; it is taken before that of a
 * context. */
static struct {
	pthread_mutex_t lock;
	struct nnet_ctx *contexts, *legacy;
	struct nnet_device device;
	bool have_device;
	bool said_forked;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- fork ---- */

/* A child has neither the parent's device files nor its registered memory as the NIC sees it. The
 * lock is not taken: a thread of the parent may have held it. */
bool nnet_forked_refuse(void)
{
	if (!process.said_forked)
		spw_warn("this process was forked after NCCL had started, and cannot use its "
			 "connections: start it before, or by fork and exec (Python: "
			 "multiprocessing's start method spawn)");
	process.said_forked = true;
	return true;
}

/* ---- the device ---- */

/* sys_image_guid, which all functions of a card share: NCCL finds by it what is one card. */
static uint64_t read_guid(const char *name)
{
	char path[128], text[32] = "";
	uint64_t guid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/sys_image_guid", name);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fgets(text, sizeof(text), f))
		for (const char *c = text; *c; c++) {
			const char digit[2] = {*c, '\0'};
			char *end;
			const unsigned long v = strtoul(digit, &end, 16);

			if (*end == '\0' && *c != '\n')
				guid = guid << 4 | v;
		}
	fclose(f);
	return guid;
}

/* Where the first rail sits in the PCI tree, by which NCCL chooses GPUs for it; "" if it is
 * unknown. */
static void read_path(const char *name, char *path_out, size_t bytes)
{
	char link[128], *real;

	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", name);
	real = realpath(link, NULL);
	snprintf(path_out, bytes, "%s", real ? real : "");
	free(real);
}

/* Returns: the length of the text, which is cut short if there is no room. */
static size_t rails_append(char *text, size_t n, size_t bytes, const struct spw_xfer_rail_stat *s)
{
	const bool used = s->state == SPW_XFER_RAIL_UP;
	int len;

	if (used)
		len = snprintf(text + n, bytes - n, "%s%s (%u Gb/s, %s verbs, MTU %u)",
			       n ? ", " : "", s->device, s->mbps / 1000,
			       s->direct ? "direct" : "plain", s->mtu);
	else
		len = snprintf(text + n, bytes - n, "; not %s: %s", s->device, s->why);
	return SPW_MIN(n + (size_t)len, bytes - 1);
}

/* What the rails carry together: NCCL plans with it. */
static uint32_t carry_mbps(const struct spw_xfer *x, uint32_t rails)
{
	const struct spw_plat_from from = {.cuda_lib = "", .nvml_lib = "", .skip_hwloc = true};
	struct spw_plat_carry carry[SPW_XFER_RAIL_MAX];
	struct spw_xfer_rail_stat s[SPW_XFER_RAIL_MAX];
	struct spw_plat *plat;
	uint32_t mbps = 0;

	for (uint32_t i = 0; i < rails; i++) {
		(void)spw_xfer_rail_stat(x, i, &s[i]);
		carry[i] = (struct spw_plat_carry){.rdma = s[i].device, .mbps = s[i].mbps};
		mbps += s[i].mbps;
	}
	if (spw_plat_read(&from, &plat))
		return mbps;
	mbps = spw_plat_carry_mbps(plat, carry, rails);
	spw_plat_free(plat);
	return mbps;
}

/* The properties that NCCL gets for all rails together, and one line of log about them. */
static void context_probe(struct spw_xfer *x, struct nnet_device *d)
{
	struct spw_xfer_rail_stat s;
	char text[768] = "";
	uint32_t rails = 0;
	size_t n = 0;

	*d = (struct nnet_device){.dmabuf = spw_xfer_dmabuf_check(x) == 0};
	for (uint32_t i = 0; spw_xfer_rail_stat(x, i, &s); i++) {
		n = rails_append(text, n, sizeof(text), &s);
		if (s.state != SPW_XFER_RAIL_UP)
			continue;
		if (!rails++) {
			d->guid = read_guid(s.device);
			read_path(s.device, d->pci_path, sizeof(d->pci_path));
		}
	}
	d->mbps = carry_mbps(x, rails);
	spw_info("%u rail%s, together %u Gb/s: %s; host memory%s%s", rails, rails == 1 ? "" : "s",
		 d->mbps / 1000, text,
		 d->dmabuf ? " and dma-buf" : ", no dma-buf: ", d->dmabuf ? "" : spw_err_text());
}

/* A copy, because the next context that is opened replaces it. */
bool nnet_device(struct nnet_device *device_out)
{
	bool have;

	pthread_mutex_lock(&process.lock);
	have = process.have_device;
	*device_out = process.device;
	pthread_mutex_unlock(&process.lock);
	return have;
}

/* ---- open ---- */

/* An empty variable is none. */
static const char *context_setting(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

/* The waits are long: NCCL's ranks start far apart, and a program that has computed for days must
 * outlive the restart of a switch. */
static int open_endpoint(struct nnet_ctx *ctx, const struct nccl_config *config)
{
	const struct spw_xfer_conf conf = {
		.rails = context_setting("NCCL_SPINWIRE_RAILS"),
		.hca = context_setting("NCCL_IB_HCA"),
		.bind = context_setting("NCCL_SPINWIRE_BIND"),
		.secret = context_setting("NCCL_SPINWIRE_SECRET"),
		.exchange_ms = NNET_WAIT_MS,
		.gone_ms = NNET_GONE_MS,
		.traffic_class = config && spw_in_range(config->traffic_class, 0, 255)
					 ? (uint8_t)config->traffic_class
					 : 0,
	};

	return spw_xfer_open(&conf, &ctx->x);
}

/* What the user will observe next, for the message. */
static const char *what_then(void)
{
	const char *net = getenv("NCCL_NET");

	return net && *net ? "NCCL ends here, as NCCL_NET asks"
			   : "NCCL goes on with its own network, perhaps slow sockets: set "
			     "NCCL_NET=spinwire to make this an error";
}

/* Errors: -errno with a text; nothing is left. */
static int context_make(uint64_t comm_id, const struct nccl_config *config,
			struct nnet_ctx **ctx_out)
{
	struct nnet_ctx *ctx = calloc(1, sizeof(*ctx));
	int rc;

	if (!ctx)
		return spw_err(ENOMEM, "no memory for a context");
	pthread_mutex_init(&ctx->lock, NULL);
	ctx->comm_id = comm_id;
	ctx->user_cnt = 1;
	rc = open_endpoint(ctx, config);
	if (rc) {
		pthread_mutex_destroy(&ctx->lock);
		free(ctx);
		return rc;
	}
	context_probe(ctx->x, &process.device);
	process.have_device = true;
	ctx->report = nnet_report_open(ctx);
	ctx->live = nnet_live_open();
	nnet_live_net(ctx, 1);
	nnet_watch_start();
	ctx->next = process.contexts;
	process.contexts = ctx;
	*ctx_out = ctx;
	return 0;
}

static int open_locked(uint64_t comm_id, const struct nccl_config *config, nccl_logger *logger,
		       struct nnet_ctx **ctx_out)
{
	int rc;

	nnet_log_start(logger);
	spw_fork_watch();
	rc = context_make(comm_id, config, ctx_out);
	if (!rc)
		return NCCL_SUCCESS;
	spw_warn("no rail is usable: %s. %s", spw_err_text(), what_then());
	return NCCL_SYSTEM_ERROR;
}

int nnet_ctx_open(uint64_t comm_id, const struct nccl_config *config, nccl_logger *logger,
		  struct nnet_ctx **ctx_out)
{
	int result;

	*ctx_out = NULL;
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	pthread_mutex_lock(&process.lock);
	result = open_locked(comm_id, config, logger, ctx_out);
	pthread_mutex_unlock(&process.lock);
	return result;
}

/* NCCL calls init more than once; the first call opens the context, and the others find it. */
int nnet_legacy_open(nccl_logger *logger)
{
	int result = NCCL_SUCCESS;

	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	pthread_mutex_lock(&process.lock);
	if (!process.legacy)
		result = open_locked(0, NULL, logger, &process.legacy);
	pthread_mutex_unlock(&process.lock);
	return result;
}

struct nnet_ctx *nnet_legacy(void)
{
	struct nnet_ctx *ctx;

	pthread_mutex_lock(&process.lock);
	ctx = process.legacy;
	pthread_mutex_unlock(&process.lock);
	return ctx;
}

/* ---- end ---- */

/* Before the lock of a context is taken, or after it was released: that of the process comes first.
 */
void nnet_ctx_get(struct nnet_ctx *ctx)
{
	pthread_mutex_lock(&process.lock);
	ctx->user_cnt++;
	pthread_mutex_unlock(&process.lock);
}

/* Under the lock of the process; nobody else has the context any more. */
static void context_end(struct nnet_ctx *ctx)
{
	struct nnet_ctx **at = &process.contexts;

	while (*at != ctx)
		at = &(*at)->next;
	*at = ctx->next;
	if (!process.contexts)
		nnet_watch_stop();
	nnet_report_end(ctx);
	while (ctx->pending) {
		struct nnet_pending *p = ctx->pending;

		ctx->pending = p->next;
		nnet_live_end(ctx, p->live);
		free(p);
	}
	nnet_live_net(ctx, -1);
	nnet_live_close(ctx->live);
	spw_xfer_close(ctx->x); /* connections that were not finished end here */
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}

/* With the last user the context ends, under the lock of the process: no other thread opens one
 * meanwhile. */
void nnet_ctx_put(struct nnet_ctx *ctx)
{
	pthread_mutex_lock(&process.lock);
	if (!--ctx->user_cnt)
		context_end(ctx);
	pthread_mutex_unlock(&process.lock);
}

/* A thread of NCCL may still use it: the report is not worth waiting for more than a moment. */
static void context_report(struct nnet_ctx *ctx)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	if (pthread_mutex_clocklock(&ctx->lock, CLOCK_MONOTONIC, &until))
		return;
	nnet_report_end(ctx);
	pthread_mutex_unlock(&ctx->lock);
}

/* The plugin is unloaded, or the process exits. Versions 8 .. 10 have no finalize; with the others
 * a program may exit without having ended its communicators. */
__attribute__((destructor)) static void context_unload(void)
{
	if (spw_fork_cnt)
		return;
	nnet_watch_stop();
	if (process.legacy)
		nnet_ctx_put(process.legacy);
	process.legacy = NULL;
	for (struct nnet_ctx *ctx = process.contexts; ctx; ctx = ctx->next)
		context_report(ctx);
}
