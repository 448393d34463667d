/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Writes spinwire-objects(5), for the build: descriptions of streams, from the tables by which
 * lib/obj reads them, so that page and program cannot differ.
 */
#include <stdio.h>

#include "obj/desc.h"

static const char intro[] =
	"A description says what the objects of a stream are, and how its frames say where their "
	"payload belongs. It is a YAML file, named by \\fBobjects:\\fR of a port or by "
	"\\fB\\-\\-objects\\fR.\n"
	"Numbers may have a unit of bytes (KiB, MiB, GiB). A number may be the name of a value of "
	"\\fBset\\fR.\n.PP\n"
	"A \\fIsum\\fR is NAME * NUMBER / NUMBER + (NAME \\- NUMBER) * NUMBER ... of fields, of "
	"\\fBpart\\fR, and of \\fBheader\\fR and \\fBrest\\fR, the bytes of the header and of "
	"what follows it. In \\fBnumber\\fR a quotient is rounded, elsewhere it must have no "
	"rest.\n.PP\n"
	"A \\fIcondition\\fR is { FIELD: NUMBER, FIELD: [NUMBER, ...] }: all hold; numbers of a "
	"list are below 64.\n";

static void text_write(const char *text)
{
	for (; *text; text++)
		printf(*text == '-' ? "\\-" : "%c", *text);
	putchar('\n');
}

static void tag_write(const char *name, const char *help, const char *range, const char *dflt)
{
	printf(".TP\n.B %s\n", name);
	text_write(help);
	if (range[0])
		text_write(range);
	if (dflt && dflt[0])
		printf("(default: %s)\n", dflt);
}

static void keys_write(const char *title, const struct desc_key *key, uint32_t cnt)
{
	printf(".SH %s\n", title);
	for (uint32_t i = 0; i < cnt; i++)
		tag_write(key[i].name, key[i].help, "", NULL);
}

static void rules_write(void)
{
	char range[160];

	for (uint32_t i = 0; i < DESC_RULE_CNT; i++) {
		spw_opt_range(&desc_rule_opt[i], range, sizeof(range));
		tag_write(desc_rule_opt[i].key, desc_rule_opt[i].help, range,
			  desc_rule_opt[i].dflt);
	}
}

int main(void)
{
	printf(".TH SPINWIRE\\-OBJECTS 5 \"\" \"spinwire %s\"\n", SPW_VERSION);
	printf(".SH NAME\nspinwire\\-objects \\- descriptions of streams of objects\n");
	printf(".SH DESCRIPTION\n%s", intro);
	keys_write("KEYS", desc_root_key, DESC_ROOT_CNT);
	rules_write();
	keys_write("A PART OF THE HEADER", desc_part_key, DESC_PART_CNT);
	keys_write("ITEMS", desc_items_key, DESC_ITEMS_CNT);
	keys_write("SEGMENTS", desc_segments_key, DESC_SEGMENTS_CNT);
	printf(".SH FORMATS\nTheir texts lie in share/spinwire/streams.\n");
	for (uint32_t i = 0; i < format_cnt(); i++)
		printf(".br\n.B %s\n", format_name(i, NULL));
	printf(".SH SEE ALSO\nspinwire(1)\n");
	return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
