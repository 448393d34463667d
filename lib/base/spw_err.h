/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Errors of the control path. A call returns 0 or -errno and leaves a text: what was wrong, where,
 * and what to do. Callers add context on the way up, and the program prints the text once:
 *
 *   spw_err(EINVAL, "mtu %u: 68 .. 9978", mtu)      "mtu 12: 68 .. 9978"
 *   spw_err_ctx(rc, "port %s", name)                "port a: mtu 12: 68 .. 9978"
 *   spw_err_ctx(rc, "config %s", path)              "config x.yaml: port a: mtu 12: 68 .. 9978"
 *
 * The text belongs to the calling thread and is written on failure only. The data path never uses
 * this; it counts.
 */
#ifndef SPW_BASE_ERR_H
#define SPW_BASE_ERR_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_ERR_TEXT_BYTES 1024 /* a longer text is cut */

/* Purpose: starts a new error text and returns the code, for use in a return statement. The text is
 *   one line that a terminal may have (spw_text.h), whatever names are in it.
 * Shape: code > 0, an errno value. The message has neither newline nor full stop.
 * Returns: -code.
 * Thread: any (the text is per thread).
 */
int spw_err(int code, const char *fmt, ...) SPW_PRINTF(2, 3) SPW_COLD;

/* Purpose: puts what the caller was doing, and a colon, in front of the current text.
 * Shape: rc is the negative code that the failed call returned.
 * Returns: rc.
 * Thread: any.
 */
int spw_err_ctx(int rc, const char *fmt, ...) SPW_PRINTF(2, 3) SPW_COLD;

/* Purpose: the text of this thread's last error.
 * Returns: "" if there was none.
 * Lifetime: until the next spw_err, spw_err_ctx or spw_err_clear of this thread.
 * Thread: any.
 */
const char *spw_err_text(void);

/* Purpose: empties the text of this thread.
 * Thread: any.
 */
void spw_err_clear(void);

#ifdef __cplusplus
}
#endif
#endif
