/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a program prints about itself, all made from its table of options (opt/spw_opt.h).
 */
#ifndef APP_OPT_H
#define APP_OPT_H

#include <stdio.h>

#include "opt/spw_opt.h"

/* Purpose: answers a question of the command line on stdout: --help (one screen), --help-all,
 *   --version, and for the build --help-man (a man page), --help-bash and --help-zsh (completion).
 * Shape: ask is above SPW_OPT_RUN.
 * Thread: main.
 */
void app_opt_answer(const struct spw_opt_program *program, int ask);

/* Purpose: the command line of a program whose own arguments follow EAL's and "--": answers
 *   questions in front of "--" too, and refuses own options there with the corrected line.
 * Shape: split is the index of "--"; argc: there is none.
 * Returns: an enum spw_opt_ask, or -EINVAL.
 * Thread: main.
 */
int app_opt_split(const struct spw_opt_program *program, int argc, char **argv, int split);

/* app_opt_man.c, app_opt_complete.c */
void app_opt_man(FILE *out, const struct spw_opt_program *program);
void app_opt_bash(FILE *out, const struct spw_opt_program *program);
void app_opt_zsh(FILE *out, const struct spw_opt_program *program);

/* Purpose: what stands for an option's value: "FILE", "TIME"; "" of a flag.
 * Thread: any.
 */
const char *app_opt_value(const struct spw_opt *opt);

/* Purpose: an option's help with its range and default.
 * Thread: any.
 */
void app_opt_text(const struct spw_opt *opt, char *out, size_t bytes);

#endif
