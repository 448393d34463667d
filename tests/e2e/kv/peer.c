/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One agent as a process of its own, for tests that kill it or cut its rails.
 *
 *   kv_peer RAILS NAME      prints "agent INFO BLOB" (hex), then reads lines:
 *   peer NAME INFO BLOB     from now on it streams to this agent, which may have had another info
 *
 * A round: a write of scattered pieces with a notification; the other one compares every byte and
 * answers; a read of the same bytes, compared again.
 *
 *   "rounds N"  complete so far, five times a second       "wrong ..."  a byte differs
 *   "ended ERRNO TEXT"  what was asked of the other one failed
 *
 * $SPW_TEST_GONE_MS: of spw_xfer_conf.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_monotonic.h"
#include "kv/spw_kv.h"

#define ROOM   (1u << 20) /* 0: the other one writes, 1: written from, 2: read into */
#define PIECES 512u

enum step { NONE, WRITE, ANSWER, READ };

static struct spw_kv *kv;
static struct spw_kv_mem *mem;
static uint8_t *buf;
static char to[64];
static struct spw_kv_region *region;
static struct spw_kv_transfer *transfer[2]; /* write, read */
static enum step step;
static uint32_t rounds, good; /* complete; compared by the other one */
static uint64_t next_ms;

static int die(const char *what)
{
	printf("%s: %s\n", what, spw_err_text());
	return 2;
}

static uint8_t byte_of(uint32_t round, uint32_t i)
{
	return (uint8_t)(round * 31 + i * 7 + (i >> 8));
}

static void check(const uint8_t *at, uint32_t round)
{
	for (uint32_t i = 0; i < ROOM; i++)
		if (at[i] != byte_of(round, i)) {
			printf("wrong byte %u in round %u\n", i, round);
			return;
		}
}

static void print_hex(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		printf("%02x", at[i]);
}

static size_t read_hex(const char *text, uint8_t *out, size_t room)
{
	size_t n = 0;

	while (n < room && sscanf(text + 2 * n, "%2hhx", &out[n]) == 1)
		n++;
	return n;
}

/* ---- streaming ---- */

static void ended(int rc)
{
	printf("ended %d %s\n", -rc, spw_err_text());
	step = NONE;
}

static int make(bool write)
{
	static struct spw_kv_near near[PIECES];
	static struct spw_kv_far far[PIECES];
	const struct spw_kv_lists lists = {near, far, PIECES, PIECES, write};
	const uint32_t len = ROOM / PIECES;

	for (uint32_t i = 0; i < PIECES; i++) {
		const uint32_t at = i * 77 % PIECES * len; /* each once */

		near[i] = (struct spw_kv_near){mem, buf + (write ? 1 : 2) * ROOM + at, len};
		far[i] = (struct spw_kv_far){region, at, len};
	}
	return spw_kv_transfer_make(kv, to, strlen(to), &lists, &transfer[!write]);
}

static void begin(void)
{
	uint8_t *from = buf + ROOM;
	char text[32];
	int rc;

	for (uint32_t i = 0; i < ROOM; i++)
		from[i] = byte_of(rounds, i);
	snprintf(text, sizeof(text), "round %u", rounds);
	step = WRITE;
	rc = spw_kv_post(transfer[0], text, strlen(text));
	if (rc)
		ended(rc);
}

static void forget(void)
{
	spw_kv_release(transfer[0]);
	spw_kv_release(transfer[1]);
	transfer[0] = transfer[1] = NULL;
	if (to[0])
		(void)spw_kv_peer_drop(kv, to, strlen(to));
	if (spw_kv_region_drop(region))
		printf("wrong: %s\n", spw_err_text());
	region = NULL;
}

static int meet(const char *name, const char *info_hex, const char *blob_hex)
{
	uint8_t info[SPW_KV_INFO_BYTES], blob[SPW_XFER_BLOB_BYTES];
	const size_t info_len = read_hex(info_hex, info, sizeof(info));
	const size_t blob_len = read_hex(blob_hex, blob, sizeof(blob));
	int rc;

	forget();
	snprintf(to, sizeof(to), "%s", name);
	rc = spw_kv_peer_load(kv, to, strlen(to), info, info_len);
	rc = rc ? rc : spw_kv_region_load(kv, to, strlen(to), blob, blob_len, 3 * ROOM, &region);
	rc = rc ? rc : make(true);
	rc = rc ? rc : make(false);
	if (rc)
		return rc;
	rounds = good = 0;
	begin();
	return 0;
}

/* ---- turns ---- */

/* "round N": compared and answered by "good N". */
static void on_note(const struct spw_kv_note *note)
{
	char text[32] = {0};
	uint32_t round;

	memcpy(text, note->text, note->bytes < sizeof(text) ? note->bytes : sizeof(text) - 1);
	if (sscanf(text, "round %u", &round) == 1) {
		check(buf, round);
		snprintf(text, sizeof(text), "good %u", round);
		(void)spw_kv_notify(kv, note->name, note->name_bytes, text, strlen(text));
	} else if (sscanf(text, "good %u", &round) == 1) {
		good = round + 1; /* perhaps before this end knows that its write is done */
	}
}

/* A step is done. */
static void go_on(void)
{
	int rc;

	switch (step) {
	case WRITE:
		step = ANSWER;
		break;
	case ANSWER:
		step = READ;
		rc = spw_kv_post(transfer[1], NULL, 0);
		if (rc)
			ended(rc);
		break;
	case READ:
		check(buf + 2 * ROOM, rounds);
		rounds++;
		begin();
		break;
	case NONE:
		break;
	}
}

static void turn(void)
{
	struct spw_kv_note *note;
	int rc = step == WRITE || step == READ ? spw_kv_check(transfer[step == READ]) : -EAGAIN;

	if (step == ANSWER) {
		rc = spw_kv_peer_connect(kv, to, strlen(to));
		rc = rc || good > rounds ? rc : -EAGAIN;
	}
	if (rc && rc != -EAGAIN)
		ended(rc);
	else if (!rc)
		go_on();
	if (!spw_kv_note_take(kv, &note)) {
		on_note(note);
		spw_kv_note_free(note);
	}
	if (spw_monotonic_ms() >= next_ms) {
		next_ms = spw_monotonic_ms() + 200;
		printf("rounds %u\n", rounds);
	}
}

static void on_line(char *line)
{
	char name[64], info[512], blob[128];

	if (sscanf(line, "peer %63s %511s %127s", name, info, blob) != 3)
		printf("wrong line: %s\n", line);
	else if (meet(name, info, blob))
		printf("wrong: %s\n", spw_err_text());
}

static int run(void)
{
	static char line[2048];
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

	for (;;) {
		if (poll(&in, 1, 0) > 0) {
			if (!fgets(line, sizeof(line), stdin))
				return 0;
			on_line(line);
		}
		turn();
		sched_yield();
	}
}

static void on_log(enum spw_log_level level SPW_UNUSED, const char *text, void *arg SPW_UNUSED)
{
	printf("log %s\n", text);
}

int main(int argc, char **argv)
{
	const char *gone_ms = getenv("SPW_TEST_GONE_MS");
	struct spw_kv_conf conf = {.xfer = {.bind = "127.0.0.1:0"}};
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .bytes = 3 * ROOM};
	struct spw_xfer_blob blob;
	struct spw_kv_info info;

	setlinebuf(stdout);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll(2) knows of all that was not read */
	spw_log_sink_set(on_log, NULL);
	if (argc < 3)
		return 1;
	conf.xfer.rails = argv[1];
	conf.xfer.gone_ms = gone_ms ? (uint32_t)atoi(gone_ms) : 0;
	conf.name = argv[2];
	conf.name_bytes = strlen(argv[2]);
	req.addr = buf = aligned_alloc(4096, req.bytes);
	if (!buf || spw_kv_open(&conf, &kv))
		return die("open");
	if (spw_kv_mem_reg(kv, &req, &mem))
		return die("register");
	spw_kv_info(kv, &info);
	spw_kv_mem_blob(mem, &blob);
	printf("agent ");
	print_hex(info.byte, sizeof(info.byte));
	printf(" ");
	print_hex(blob.byte, sizeof(blob.byte));
	printf("\n");
	return run();
}
