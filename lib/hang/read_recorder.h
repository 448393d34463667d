/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A dump of PyTorch's flight recorder as rows.
 */
#ifndef HANG_READ_RECORDER_H
#define HANG_READ_RECORDER_H

#include "hang/read_impl.h"

/* Purpose: adds the rows of a dump, which may hold anything: of each process group the newest
 * entry, and those that are not completed.
 * Thread: control. Errors: those of pickle_read; -EPROTO with a text: no dump.
 */
int hang_recorder_rows(struct hang_read *r, const struct spw_hang_proc_row *proc, const void *dump,
		       size_t bytes);

#endif
