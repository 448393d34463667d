/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The raw direct-verbs loop of spinwire-bench as a program of its own, for raw_dv.py. */
#include "softhca_raw.h"

int main(int argc, char **argv)
{
	return softhca_raw_main(argc, argv);
}
