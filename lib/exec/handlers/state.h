/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The state of a handler that was opened: what handlers.c calls.
 */
#ifndef EXEC_HANDLERS_STATE_H
#define EXEC_HANDLERS_STATE_H

#include "exec/spw_handler.h"

/* Purpose: makes initial and total of an opened copy of a plug-in. path names it in messages; args
 *          is what followed its colon, NULL: nothing did.
 * Errors:  -EINVAL, -ENOMEM, with a text; nothing is left then.
 * Thread:  setup. */
int handler_state_open(struct spw_handler *handler, const char *path, const char *args);

/* Purpose: fini, and frees what open made. Thread: setup. */
void handler_state_close(struct spw_handler *handler);

#endif
