/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Writes spinwire-objects(5), for the build: descriptions of streams, from the tables by which
 * lib/obj reads them, so that page and program cannot differ.
 */
#include <stdio.h>
#include <string.h>

#include "obj/spw_obj_plan.h"

static const char intro[] =
	"A description says what the objects of a stream are, and how its frames say where their "
	"payload belongs. It is a YAML file, named by \\fBobjects:\\fR of a port or by "
	"\\fB\\-\\-objects\\fR.\n"
	"Numbers may have a unit of bytes (KiB, MiB, GiB). A number may be the name of a value of "
	"\\fBset\\fR.\n.PP\n"
	"A \\fIsum\\fR is NAME * NAME * NUMBER / NUMBER + (NAME \\- NUMBER) * NUMBER ... of "
	"fields, "
	"of \\fBpart\\fR, and of \\fBheader\\fR and \\fBrest\\fR, the bytes of the header and of "
	"what follows it. In \\fBnumber\\fR a quotient is rounded, elsewhere it must have no "
	"rest.\n.PP\n"
	"A \\fIcondition\\fR is { FIELD: NUMBER, FIELD: [NUMBER, ...] }: all hold; numbers of a "
	"list are below 64.\n";

static const char examples[] = "A camera of GigE Vision: camera.yaml is\n.PP\n.nf\n"
			       "format: gvsp\n"
			       "set: { port: 20202, width: 1920, height: 1200, payload: 8164 }\n"
			       "deadline: 20ms\n.fi\n"
			       ".TP\n\\fBspinwire \\-\\- \\-\\-port mlx5:mlx5_0,mode=eth,udp=20202 "
			       "\\-\\-objects camera.yaml \\-\\-receipts images.jsonl\\fR\n"
			       "Makes an image of the payload of each frame's block, with a "
			       "receipt of each as a line of JSON.\n";

static void roff_text(const char *text)
{
	for (; *text; text++)
		printf(*text == '-' ? "\\-" : "%c", *text);
	putchar('\n');
}

static void key_write(const struct spw_obj_desc_key *key)
{
	printf(".TP\n.B %s\n", key->name);
	roff_text(key->help);
	if (key->range[0])
		printf("(%s; default: %s)\n", key->range, key->dflt);
}

static void keys_write(void)
{
	const char *section = "";
	struct spw_obj_desc_key key;

	for (uint32_t i = 0; spw_obj_desc_key(i, &key); i++) {
		if (strcmp(section, key.section))
			printf(".SH KEYS: %s\n", section = key.section);
		key_write(&key);
	}
}

int main(void)
{
	const char *name;

	printf(".TH SPINWIRE\\-OBJECTS 5 \"\" \"spinwire %s\"\n", SPW_VERSION);
	printf(".SH NAME\nspinwire\\-objects \\- descriptions of streams of objects\n");
	printf(".SH DESCRIPTION\n%s", intro);
	keys_write();
	printf(".SH FORMATS\nTheir texts lie in share/spinwire/streams.\n");
	for (uint32_t i = 0; (name = spw_obj_desc_format(i)); i++)
		printf(".br\n.B %s\n", name);
	printf(".SH EXAMPLES\n%s", examples);
	printf(".SH SEE ALSO\nspinwire(1), spinwire\\-ports(7)\n");
	return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
