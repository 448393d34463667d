/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Errors of the control path: a call returns 0 or -errno and leaves a text that says what was wrong,
 * where, and what to do. The text belongs to the calling thread and is written only on failure.
 * The data path never uses this; it counts.
 */
#ifndef SPW_BASE_ERR_H
#define SPW_BASE_ERR_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_ERR_TEXT_BYTES 1024 /* a longer text is cut */

/* Purpose: starts a new error text and hands the code back: `return spw_err(EINVAL, "port %s: ...", s);`
 * Shape:   code > 0, an errno value. The message has no newline and no full stop.
 * Thread:  any (per-thread text). Returns: -code. */
int spw_err(int code, const char *fmt, ...) SPW_PRINTF(2, 3) SPW_COLD;

/* Purpose: puts what the caller was doing in front of the text: `return spw_err_ctx(rc, "config %s", path);`
 *          gives "config x.yaml: <text so far>".
 * Shape:   rc is the negative code in hand. Thread: any. Returns: rc. */
int spw_err_ctx(int rc, const char *fmt, ...) SPW_PRINTF(2, 3) SPW_COLD;

/* Purpose: the text of this thread's last error, "" if none. Lifetime: until the next spw_err* here. */
const char *spw_err_text(void);

/* Purpose: forgets the text. */
void spw_err_clear(void);

#ifdef __cplusplus
}
#endif
#endif
