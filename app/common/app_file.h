/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reports in text, to a file or to stdout ("-").
 */
#ifndef APP_FILE_H
#define APP_FILE_H

#include "base/spw_types.h"

/* Purpose: whether path is "-", which stands for stdout. NULL is not.
 * Thread: any.
 */
bool app_file_is_stdout(const char *path);

/* Purpose: checks, before a run, that the file of an option can be written; leaves nothing there.
 *   NULL and "" mean no file; "-" is refused.
 * Thread: any.
 * Errors: -EIO with option and path.
 */
int app_file_try(const char *option, const char *path);

/* Purpose: as app_file_try, for an option that takes "-": stdout is then the report's alone, and
 *   what anybody prints from here on goes to stderr.
 * Lifetime: of option: until the program ends.
 * Thread: setup, before EAL.
 * Errors: -EIO with option and path; -EINVAL: another option has stdout.
 */
int app_file_take(const char *option, const char *path);

/* Purpose: writes a report that app_file_take has tried. A file appears whole, or stays as it was;
 *   devices and pipes are written in place (base/spw_file.h).
 * Shape: what: the option, or a word for it. text NULL stands for a report that could not be made.
 * Owner: takes over text, which malloc() gave.
 * Thread: any.
 * Errors: -ENOMEM (text is NULL); -EIO with what and path.
 */
int app_file_write(const char *what, char *text, const char *path);

#endif
