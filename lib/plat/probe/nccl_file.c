/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a file of NCCL's library is: its version, build id, and the oldest GCC that compiled a part
 * of it. Called by nccl.c. The file is read, never loaded: what a variable, a package or an image
 * says of it need not hold.
 *
 *   .rodata              "NCCL version 2.28.9+cuda13.0"
 *   .note.gnu.build-id   name and description of the note, which differ from build to build
 *   .comment             "GCC: (GNU) 8.5.0 20210514 (Red Hat 8.5.0-21)", one for each compiler
 *
 * Any file may bear the name, so each offset and size is checked. Source: elf(5).
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plat/spw_nccl_file.h"

#define SECTION_MAX 1024u
#define BYTES_MAX   (16u << 20) /* of a section that is read */
#define GCC_TEXT    "GCC: ("

/* A part of the file, in memory of its own; no bytes: it could not be read. */
struct part {
	uint8_t *at;
	size_t bytes;
};

static struct part section_read(int fd, uint64_t offset, uint64_t bytes)
{
	struct part part = {.at = bytes && bytes <= BYTES_MAX ? malloc(bytes) : NULL};

	if (part.at && offset <= INT64_MAX &&
	    pread(fd, part.at, bytes, (off_t)offset) == (ssize_t)bytes)
		part.bytes = bytes;
	return part;
}

static bool elf_head(int fd, Elf64_Ehdr *head_out)
{
	return pread(fd, head_out, sizeof(*head_out), 0) == sizeof(*head_out) &&
	       !memcmp(head_out->e_ident, ELFMAG, SELFMAG) &&
	       head_out->e_ident[EI_CLASS] == ELFCLASS64 &&
	       head_out->e_shentsize == sizeof(Elf64_Shdr) && head_out->e_shnum <= SECTION_MAX &&
	       head_out->e_shstrndx < head_out->e_shnum;
}

/* Free its memory; no bytes: there is no such section. */
static struct part elf_find(int fd, const char *name)
{
	struct part all, names = {0}, found = {0};
	const Elf64_Shdr *section;
	Elf64_Ehdr head;

	if (!elf_head(fd, &head))
		return found;
	all = section_read(fd, head.e_shoff, head.e_shnum * sizeof(*section));
	section = (const Elf64_Shdr *)(const void *)all.at;
	if (all.bytes)
		names = section_read(fd, section[head.e_shstrndx].sh_offset,
				     section[head.e_shstrndx].sh_size);
	for (uint32_t i = 0; all.bytes && i < head.e_shnum && !found.at; i++) {
		const uint32_t from = section[i].sh_name;

		if (section[i].sh_type != SHT_NOBITS && from < names.bytes &&
		    strlen(name) < names.bytes - from &&
		    !memcmp(names.at + from, name, strlen(name) + 1))
			found = section_read(fd, section[i].sh_offset, section[i].sh_size);
	}
	free(all.at);
	free(names.at);
	return found;
}

/* NULL: it is not there. A section that was not found has no address. */
static uint8_t *part_find(const struct part *part, const char *text, size_t bytes)
{
	return part->at ? memmem(part->at, part->bytes, text, bytes) : NULL;
}

/* "NCCL version " also stands before a format; a digit follows in the version itself. */
static void file_version(const struct part *rodata, char *out, size_t bytes)
{
	static const char head[] = "NCCL version ";
	const size_t skip = sizeof(head) - 1;
	struct part rest = *rodata;
	uint8_t *at;

	out[0] = '\0';
	while ((at = part_find(&rest, head, skip)) && !out[0]) {
		size_t n = 0;

		rest = (struct part){at + skip, rest.bytes - (size_t)(at + skip - rest.at)};
		while (n < rest.bytes && n + 1 < bytes &&
		       (rest.at[n] == '.' || (rest.at[n] >= '0' && rest.at[n] <= '9')))
			n++;
		memcpy(out, rest.at, n);
		out[n] = '\0';
	}
}

static void file_build_id(const struct part *note, char *out, size_t bytes)
{
	const size_t head = sizeof(Elf64_Nhdr) + sizeof("GNU");
	Elf64_Nhdr n;

	out[0] = '\0';
	if (note->bytes < head)
		return;
	memcpy(&n, note->at, sizeof(n));
	if (n.n_type != NT_GNU_BUILD_ID || n.n_namesz != sizeof("GNU"))
		return;
	for (size_t i = 0; i < n.n_descsz && head + i < note->bytes && 2 * i + 3 <= bytes; i++)
		snprintf(out + 2 * i, 3, "%02x", note->at[head + i]);
}

/* The major number follows the closing bracket: "GCC: (GNU) 8.5.0". */
static int32_t file_gcc(const struct part *comment)
{
	char text[64];
	struct part rest = *comment;
	uint8_t *at;
	int32_t oldest = 0;

	while ((at = part_find(&rest, GCC_TEXT, sizeof(GCC_TEXT) - 1))) {
		const size_t left = rest.bytes - (size_t)(at - rest.at);
		const char *digits;
		int32_t major;

		snprintf(text, sizeof(text), "%.*s", (int)SPW_MIN(left, sizeof(text) - 1),
			 (const char *)at);
		digits = strstr(text, ") ");
		major = digits ? atoi(digits + 2) : 0;
		if (major > 0 && (!oldest || major < oldest))
			oldest = major;
		rest = (struct part){at + 1, left - 1};
	}
	return oldest;
}

const char *spw_nccl_mapped(const char *line)
{
	const char *path = strchr(line, '/'), *name = path ? strrchr(path, '/') : NULL;

	return name && !strncmp(name, "/libnccl.so", 11) ? path : NULL;
}

bool spw_nccl_file_read(const char *path, struct spw_nccl_file *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct part rodata, note, comment;

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		return false;
	rodata = elf_find(fd, ".rodata");
	note = elf_find(fd, ".note.gnu.build-id");
	comment = elf_find(fd, ".comment");
	close(fd);
	file_version(&rodata, out->version, sizeof(out->version));
	file_build_id(&note, out->build_id, sizeof(out->build_id));
	out->gcc = file_gcc(&comment);
	free(rodata.at);
	free(note.at);
	free(comment.at);
	return out->version[0] != '\0';
}
