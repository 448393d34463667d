/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The options of a program as one table: name, kind, range, default, help and the field that takes
 * the value. Everything that a user meets is made from it:
 *
 *                      ┌─ parse.c: the command line, "did you mean"
 *   struct spw_opt[] ──┼─ value.c: text to field, the same for a file (lib/conf) and for defaults
 *                      └─ app/common/opt/app_opt.h: --help, --help-all, man page, completion
 *
 * A setting is one entry and one field, and what it accepts cannot differ from what help prints.
 * An entry knows nothing of "--", so that keys of a file or of a port can stand in such a table.
 */
#ifndef SPW_OPT_H
#define SPW_OPT_H

#include <stddef.h>
#include <stdio.h>

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a value is, and in brackets the field that takes it. */
enum spw_opt_kind {
	SPW_OPT_NUMBER, /* whole number [unsigned integer] */
	SPW_OPT_BYTES,  /* 64KiB, 64K [unsigned integer] */
	SPW_OPT_TIME,   /* 10ms, in ns [uint64_t] */
	SPW_OPT_RATE,   /* 2Mpps, in packets a second [uint64_t] */
	SPW_OPT_BITS,   /* 400Gbps, in bit/s [uint64_t] */
	SPW_OPT_BOOL,   /* yes or no [bool] */
	SPW_OPT_TEXT,   /* [char array of max + 1] */
	SPW_OPT_STRING, /* the caller's text itself [const char *] */
	SPW_OPT_CHOICE, /* one of a list [an enum without gaps that begins at 0] */
	SPW_OPT_FLAG,   /* has no value on the command line [bool] */
	SPW_OPT_OWN     /* set() reads it */
};

/* More that a number must be. */
#define SPW_OPT_POW2        (1u << 0) /* a power of 2, or 0 if min is 0 */
#define SPW_OPT_MULTIPLE_64 (1u << 1)

struct spw_opt {
	const char *name;    /* "slot-size" */
	const char *section; /* its heading; in a file, the mapping that it stands in; or NULL */
	const char *key;     /* its name in a file; NULL: it is none of a file's keys */
	const char *value;   /* what stands for the value in help, as FILE; NULL: by kind */
	const char *dflt;    /* as a user would write it; NULL or "": none */
	const char *help;    /* one clause */
	const char *(*choice)(uint32_t idx); /* CHOICE: name of value idx, NULL after the last */
	/* CHOICE: the error of a value that deserves a reason of its own, else 0; or NULL */
	int (*refused)(const char *text);
	/* OWN: puts text into the field. Errors: -EINVAL, -ERANGE "'TEXT' ...; allowed: ..." */
	int (*set)(void *field, const char *text);
	const char *range;      /* OWN, STRING: what is allowed, in words; NULL: anything */
	uint64_t min, max;      /* numbers; TEXT: length without NUL. max 0: the kind's largest */
	uint64_t bare_unit;     /* what a number without unit counts in: 1000000000 on a TIME is
				   seconds; 0: a unit is needed */
	uint32_t offset, bytes; /* of the field in the struct that the table is of */
	enum spw_opt_kind kind;
	unsigned int demands;
	char letter; /* FLAG: "-v" is the same; 0: none */
};

/* How much a program prints: -q and -v, which mean the same in each. */
struct spw_opt_verbosity {
	bool quiet, verbose;
};

/* Parts of a row. A row begins with the first or second: where its value goes, a member of the
 * structure that the table is of; or who takes it. */
#define SPW_OPT_FIELD(type, member) \
	.offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)
#define SPW_OPT_SETTER(setter, what) .kind = SPW_OPT_OWN, .set = setter, .value = what
#define SPW_OPT_FILE                 .kind = SPW_OPT_STRING, .value = "FILE"

/* Both entries of a table, for a member of that struct. heading: their section, or NULL. */
#define SPW_OPT_VERBOSITY(type, member, heading)                                      \
	{SPW_OPT_FIELD(type, member.quiet),                                           \
	 .name = "quiet",                                                             \
	 .letter = 'q',                                                               \
	 .section = heading,                                                          \
	 .kind = SPW_OPT_FLAG,                                                        \
	 .help = "no result: print warnings, errors and what other options ask for"}, \
	{                                                                             \
		SPW_OPT_FIELD(type, member.verbose),                                  \
			.name = "verbose", .letter = 'v', .section = heading,         \
			.kind = SPW_OPT_FLAG,                                         \
			.help = "log what was chosen and why, EAL's lines, advice"    \
	}

/* ---- values ---- */

enum spw_opt_unit {
	SPW_OPT_UNIT_NONE,
	SPW_OPT_UNIT_BYTES,
	SPW_OPT_UNIT_NS,
	SPW_OPT_UNIT_PPS,
	SPW_OPT_UNIT_BPS
};

/* Purpose: "64KiB", "2.5us", "1Mpps", "0x40" to a whole number of bytes, ns, packets a second or
 *          bit/s. K, M and G of bytes are KiB, MiB and GiB.
 * Shape:   bare_unit: what a number without unit counts in (1: bytes, ns, pps; 1000000000:
 *          seconds); 0: a unit is needed.
 * Errors:  -EINVAL not a number, unknown or missing unit (the text lists them), finer than one;
 *          -ERANGE above 2^64 - 1.
 * Thread:  any */
int spw_opt_quantity(const char *text, enum spw_opt_unit unit, uint64_t bare_unit,
		     uint64_t *value_out);

/* Purpose: adds the cores of "2,4-7" to a list; a range has both ends.
 * Shape:   core[0 .. max-1], *cnt of them are there already.
 * Errors:  -EINVAL "'TEXT' is not allowed; allowed: ...", or more than max.
 * Thread:  any */
int spw_opt_cores(const char *text, uint32_t *core, uint32_t max, uint32_t *cnt);
#define SPW_OPT_CORES_RANGE "core numbers 0 .. 1023, as 2,4-7"

/* Purpose: puts text into the option's field in base.
 * Errors:  -EINVAL with a text "... ; allowed: ..." that has no place yet; those of set().
 * Thread:  any */
int spw_opt_set(const struct spw_opt *opt, void *base, const char *text);

/* Purpose: every default of a table into base, through spw_opt_set.
 * Errors:  as spw_opt_set: the table is wrong.
 * Thread:  any */
int spw_opt_defaults(const struct spw_opt *opt, uint32_t cnt, void *base);

/* Purpose: "1 .. 64, a power of 2", "auto, host": what is allowed; "" if anything is.
 * Thread:  any */
void spw_opt_range(const struct spw_opt *opt, char *out, size_t bytes);

/* ---- words of messages ---- */

/* "a, b, c" of the n names that name_of gives (NULL ones are left out); cut at bytes.
 * Thread:  any */
void spw_opt_join(char *out, size_t bytes, uint32_t n,
		  const char *(*name_of)(uint32_t idx, const void *arg), const void *arg);

/* Purpose: of cnt names, the one that was probably meant by text, or NULL if none was.
 * Thread:  any */
const char *spw_opt_nearest(const char *text, uint32_t cnt,
			    const char *(*name_of)(uint32_t idx, const void *arg), const void *arg);

/* ---- a program and its command line ---- */

struct spw_opt_pair {
	const char *name, *help;
};

/* A word that chooses what is done. */
struct spw_opt_command {
	const char *name, *args, *help; /* "record", "FILE" */
};

struct spw_opt_program {
	const char *name;         /* "spinwire-gen" */
	const char *summary;      /* what it does, one clause: the man page's first line */
	const char *const *usage; /* each way to call it, without the name; NULL ends it */
	const char *about;        /* lines of at most 80 columns */
	const struct spw_opt_command *command; /* NULL: none; NULL name ends it */
	const struct spw_opt *opt;
	uint32_t opt_cnt;
	const char *notes;                  /* lines below the options; NULL: none */
	const struct spw_opt_pair *status;  /* name: the number; NULL name ends it */
	const struct spw_opt_pair *example; /* name: the command; NULL name ends it */
	const char *see;                    /* "spinwire(1), spinwire-gen(1)" */
	const char *version;                /* what stands behind the name; NULL: SPW_VERSION */
	void (*ports)(FILE *out);           /* writes spinwire-ports(7); NULL: not this program */
};

/* What a command line asks in place of a run. From MAN on they are hidden: the build asks them. */
enum spw_opt_ask {
	SPW_OPT_RUN,
	SPW_OPT_HELP,
	SPW_OPT_HELP_ALL,
	SPW_OPT_VERSION,
	SPW_OPT_MAN,
	SPW_OPT_MAN_PORTS,
	SPW_OPT_BASH,
	SPW_OPT_ZSH
};

/* Returns: what the word asks ("--help", "-h", "--help-all", "--version", "--help-man" ...).
 * Thread:  any */
enum spw_opt_ask spw_opt_asked(const char *word);

/* Purpose: the option of that name.
 * Returns: NULL: there is none.
 * Thread:  any */
const struct spw_opt *spw_opt_find(const struct spw_opt_program *program, const char *name,
				   size_t name_bytes);

/* Where a command line goes. */
struct spw_opt_take {
	void *base; /* the struct that the table is of */
	/* NULL: spw_opt_set. Its errors get "--NAME: " in front. */
	int (*option)(void *base, const struct spw_opt *opt, const char *value);
	/* A word that is no option; NULL: such words are refused. */
	int (*word)(void *base, const char *word);
};

/* Purpose: reads a command line: "--name value", "--name=value", flags, words. Does not set
 *          defaults. A value may begin with one dash, as in "-" for stdout, but not with two.
 * Shape:   argv[0] is skipped.
 * Lifetime: STRING fields point into argv.
 * Returns: an enum spw_opt_ask; the first question ends the reading.
 * Errors:  -EINVAL "--NAME: what is wrong; what is allowed", with the name that was probably meant;
 *          those of option() and word().
 * Thread:  any */
int spw_opt_parse(const struct spw_opt_program *program, int argc, char **argv,
		  const struct spw_opt_take *take);

/* Purpose: the error of a word that is no command: names the nearest one.
 * Returns: -EINVAL.
 * Thread:  any */
int spw_opt_no_command(const struct spw_opt_program *program, const char *word);

#ifdef __cplusplus
}
#endif
#endif
