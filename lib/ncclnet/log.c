/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lines to the user. They go to NCCL's logger; without NCCL_DEBUG that drops even warnings, so
 * warnings then go to stderr: a user learns without any variable why a connection ended, or why
 * NCCL is about to use sockets.
 *
 *   lib: spw_info, spw_warn ───► nnet_log_sink ─┬─ information ─► NCCL's logger (NCCL_DEBUG=INFO)
 *                                               └─ warning ─┬─ NCCL_DEBUG set ─► NCCL's logger
 *                                                           └─ not set ────────► stderr
 *
 * Also the one place where an error of this library becomes a result of NCCL's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "ncclnet/ncclnet.h"

/* One writev(2), so that lines of several ranks on one terminal are not mixed. */
static void nnet_log_stderr(const char *text)
{
	static const char head[] = "NET/spinwire: ";
	const struct iovec part[] = {{(void *)(uintptr_t)head, sizeof(head) - 1},
				     {(void *)(uintptr_t)text, strlen(text)},
				     {(void *)(uintptr_t) "\n", 1}};

	if (writev(STDERR_FILENO, part, SPW_ARRAY_CNT(part)) < 0)
		return; /* nobody listens */
}

/* arg is where the logger's pointer lies: a pointer to a function does not convert to void *. */
static void nnet_log_sink(enum spw_log_level level, const char *text, void *arg)
{
	nccl_logger *logger;

	memcpy(&logger, arg, sizeof(logger));
	if (level == SPW_LOG_INFO)
		logger(NCCL_LOG_INFO, NCCL_LOG_INIT | NCCL_LOG_NET, "spinwire", 0,
		       "NET/spinwire: %s", text);
	else if (getenv("NCCL_DEBUG"))
		logger(NCCL_LOG_WARN, NCCL_LOG_NET, "spinwire", 0, "NET/spinwire: %s", text);
	else
		nnet_log_stderr(text);
}

/* Called at each init, under the lock of the process; with the same logger again it does nothing.
 */
void nnet_log_start(nccl_logger *logger)
{
	static nccl_logger *current; /* written before it is used; NCCL has one logger */

	if (!logger || current == logger)
		return;
	spw_log_sink_set(NULL, NULL);
	current = logger;
	spw_log_sink_set(nnet_log_sink, &current);
}

/* What the peer or the network caused is a remote error, so that the user looks at the other
 * machine; what NCCL asked for and cannot have is its own. */
int nnet_result(int rc)
{
	switch (-rc) {
	case 0:
		return NCCL_SUCCESS;
	case EINVAL:
	case ERANGE:
		return NCCL_INVALID_ARGUMENT;
	case EMSGSIZE:
		return NCCL_INVALID_USAGE;
	case ECONNRESET:
	case ECONNREFUSED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EACCES:
	case EPROTO:
	case EPROTONOSUPPORT:
	case EREMOTEIO:
		return NCCL_REMOTE_ERROR;
	default:
		return NCCL_SYSTEM_ERROR;
	}
}

int nnet_fail(int rc, const char *what)
{
	spw_warn("%s: %s", what, spw_err_text());
	return nnet_result(rc);
}
