/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of the command hang share.
 */
#ifndef DOCTOR_HANG_H
#define DOCTOR_HANG_H

#include "hang/spw_hang.h"

/* hang_print.c: the answer in at most ten lines on stdout. */
void hang_print(const struct spw_hang_answer *answer);

#endif
