/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "cq_trace.h"

#include <inttypes.h>
#include <stdlib.h>

#include "unit_test.h"

static FILE *must_open(const char *folder, const char *name, const char *suffix)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.%s", folder, name, suffix);
	file = fopen(path, "rb");
	if (!file)
		fail_msg("%s cannot be read", path);
	return file;
}

static void shape_key(struct cq_trace *t, const char *key, uint32_t value)
{
	const struct {
		const char *name;
		uint32_t *to;
	} keys[] = {
		{"flags", &t->flags},     {"cq", &t->cq},
		{"rq", &t->rq},           {"strides_log2", &t->strides_log2},
		{"slot", &t->slot},       {"slots", &t->slots},
		{"credits", &t->credits}, {"qpn", &t->qpn},
	};

	for (unsigned i = 0; i < SPW_ARRAY_CNT(keys); i++)
		if (!strcmp(key, keys[i].name)) {
			*keys[i].to = value;
			return;
		}
	fail_msg("a shape has no %s", key);
}

void cq_trace_open(struct cq_trace *t, const char *folder, const char *name)
{
	char line[256], *save, *word;

	memset(t, 0, sizeof(*t));
	t->ring = must_open(folder, name, "cq");
	t->text = must_open(folder, name, "txt");
	assert_non_null(fgets(line, sizeof(line), t->text));
	assert_string_equal(strtok_r(line, " \n", &save), "shape");
	while ((word = strtok_r(NULL, " \n", &save))) {
		char *value = strchr(word, '=');

		assert_non_null(value);
		*value = '\0';
		shape_key(t, word, (uint32_t)strtoul(value + 1, NULL, 10));
	}
	assert_in_range(t->cq, 1, CQ_TRACE_MAX);
	for (uint32_t i = 0; i < t->cq; i++) {
		t->written[i * 64 + 62] = 0xff;
		t->written[i * 64 + 63] = 0xf0;
	}
	cq_trace_line(t);
}

static void check_stamp(struct cq_trace *t)
{
	bool frame = !strcmp(t->word, "frame") && t->values == 4,
	     message = !strcmp(t->word, "message") && t->values == 3;

	if (!frame && !message)
		return;
	assert_true(t->value[frame ? 3 : 2] >= t->stamp);
	t->stamp = t->value[frame ? 3 : 2];
}

void cq_trace_line(struct cq_trace *t)
{
	char line[256] = "";
	int n;

	t->word[0] = '\0';
	if (!fgets(line, sizeof(line), t->text))
		return;
	n = sscanf(line, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, t->word, &t->value[0],
		   &t->value[1], &t->value[2], &t->value[3]);
	assert_true(n > 1);
	t->values = (unsigned)n - 1;
	check_stamp(t);
}

static void write_slot(struct cq_trace *t, uint32_t slot, uint8_t *ring)
{
	uint8_t mask[8], *cqe = t->written + (size_t)slot * 64;

	assert_in_range(slot, 0, t->cq - 1);
	assert_int_equal(fread(mask, 1, sizeof(mask), t->ring), sizeof(mask));
	for (uint32_t i = 0; i < 64; i++)
		if (mask[i / 8] >> i % 8 & 1)
			assert_int_equal(fread(&cqe[i], 1, 1, t->ring), 1);
	memcpy(ring + (size_t)slot * 64, cqe, 64);
}

void cq_trace_batch(struct cq_trace *t, uint8_t *ring)
{
	for (;;) {
		uint8_t at[2];
		uint32_t slot;

		assert_int_equal(fread(at, 1, sizeof(at), t->ring), sizeof(at));
		slot = at[0] | (uint32_t)at[1] << 8;
		if (slot == 0xffff)
			return;
		write_slot(t, slot, ring);
	}
}

void cq_trace_close(struct cq_trace *t)
{
	assert_string_equal(t->word, "");
	assert_int_equal(fgetc(t->ring), EOF);
	fclose(t->ring);
	fclose(t->text);
}
