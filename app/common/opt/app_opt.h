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
 *   questions in front of "--" too, and refuses own options there, and EAL's behind it, with the
 *   corrected line.
 * Shape: split is the index of "--"; argc: there is none.
 * Returns: an enum spw_opt_ask, or -EINVAL.
 * Thread: main.
 */
int app_opt_split(const struct spw_opt_program *program, int argc, char **argv, int split);

/* Purpose: the answer to --check: a line on stdout.
 * Returns: above 0, as after any other question.
 * Thread: main.
 */
int app_opt_checked(const struct spw_opt_program *program);

/* app_opt_man.c, app_opt_complete.c */
void app_opt_man(FILE *out, const struct spw_opt_program *program);

/* Purpose: spinwire-ports(7), from the drivers' own tables of keys (port/spw_port.h). In a file of
 *   its own: a program that does not name it needs no drivers.
 * Thread: main.
 */
void app_opt_ports(FILE *out);

/* Purpose: a man page's title and NAME; text in which groff finds no escapes; an indented paragraph
 *   with a bold name, an italic value, and text.
 * Thread: main.
 */
void app_roff_title(FILE *out, const char *name, int section, const char *summary);
void app_roff_text(FILE *out, const char *text);
void app_roff_tag(FILE *out, const char *bold, const char *italic, const char *text);

void app_opt_bash(FILE *out, const struct spw_opt_program *program);
void app_opt_zsh(FILE *out, const struct spw_opt_program *program);

/* Returns: whether option idx is the first of its section; the first option always is.
 * Thread: any.
 */
bool app_opt_begins(const struct spw_opt_program *program, uint32_t idx);

/* Purpose: what stands for an option's value: "FILE", "TIME"; "" of a flag.
 * Thread: any.
 */
const char *app_opt_value(const struct spw_opt *opt);

/* Purpose: "--seconds", "--verbose, -v".
 * Returns: out.
 * Thread: any.
 */
#define APP_OPT_NAME_BYTES 64u
const char *app_opt_name(const struct spw_opt *opt, char out[APP_OPT_NAME_BYTES]);

/* Purpose: an option's help with its range and default.
 * Thread: any.
 */
void app_opt_text(const struct spw_opt *opt, char *out, size_t bytes);

#endif
