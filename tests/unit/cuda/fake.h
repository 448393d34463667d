/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What fake_module.c has in the place of a backend: a part that fails, and one that logs. */
#ifndef UNIT_CUDA_FAKE_H
#define UNIT_CUDA_FAKE_H

struct spw_exec_ops {
	int (*refuse)(int code); /* with an error, and a context in front of it */
	void (*warn)(void);
};

#endif
