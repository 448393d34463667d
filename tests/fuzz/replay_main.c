/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Stands in for libFuzzer where a target is only replayed: every file of the archive's given
 * folders, as it is, cut at every length (short files), and in a fixed series of mutations. Each
 * input is one allocation, so that AddressSanitizer detects the first byte read beyond it.
 *
 *   fuzz_x_replay ARCHIVE [[-m MUTATIONS] FOLDER]...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t rng_state;
static unsigned long runs;

static uint32_t rng(uint32_t below)
{
	rng_state = rng_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((rng_state >> 33) % below);
}

static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (size)
		memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	runs++;
}

/* One to four edits: a bit, a byte, a word of an interesting value, a copied piece, a new end. */
static size_t mutate(uint8_t *data, size_t size, size_t cap)
{
	static const uint32_t words[] = {0,      1,          0x7f,       0x80,
					 0xff,   0x100,      0x7fff,     0x8000,
					 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
	const uint32_t *word = &words[rng(sizeof(words) / sizeof(words[0]))];

	for (uint32_t i = rng(4) + 1; i > 0 && size; i--) {
		const size_t at = rng((uint32_t)size);
		uint32_t len = rng(4) + 1;

		switch (rng(5)) {
		case 0:
			data[at] ^= (uint8_t)(1u << rng(8));
			break;
		case 1:
			data[at] = (uint8_t)rng(256);
			break;
		case 2:
			if (len > size - at)
				len = (uint32_t)(size - at);
			memcpy(data + at, word, len);
			break;
		case 3:
			len = rng((uint32_t)(size - at)) + 1;
			memmove(data + rng((uint32_t)(size - len + 1)), data + at, len);
			break;
		default:
			size = rng(2) ? at : size + rng((uint32_t)(cap - size + 1));
			break;
		}
	}
	return size;
}

static uint8_t original[1 << 16], edited[1 << 16];

static void replay(size_t size, unsigned mutations)
{
	run(original, size);
	for (size_t cut = 0; cut < size && cut < 256; cut++)
		run(original, cut);
	rng_state = size;
	for (unsigned i = 0; i < mutations; i++) {
		memset(edited, 0, sizeof(edited));
		memcpy(edited, original, size);
		run(edited, mutate(edited, size, size + 64 < sizeof(edited) ? size + 64 : size));
	}
}

static int replay_folder(const char *archive, const char *folder, unsigned mutations)
{
	FILE *tar = fopen(archive, "rb");
	unsigned long files = 0;
	bool sound = false;
	char name[100];
	size_t size;

	if (tar) {
		for (; corpus_next(tar, folder, name, original, sizeof(original), &size, &sound);
		     files++)
			replay(size, mutations);
		fclose(tar);
	}
	if (!sound || files == 0)
		fprintf(stderr, "%s: no files in %s, or not an archive\n", archive, folder);
	return sound && files ? 0 : -1;
}

int main(int argc, char **argv)
{
	unsigned mutations = 2000;

	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "-m") == 0 && i + 1 < argc)
			mutations = (unsigned)atoi(argv[++i]);
		else if (replay_folder(argv[1], argv[i], mutations))
			return 1;
	}
	printf("%lu inputs\n", runs);
	return runs == 0;
}
