/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A file with the marks of NCCL's library: its name, its version's text, and a format like it.
 */
const char *ncclFakeText(int format);

const char *ncclFakeText(int format)
{
	return format ? "NCCL version %d" : "NCCL version 2.28.9+cuda13.0";
}
