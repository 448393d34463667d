/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * coll_rank RANK RANKS HOST:PORT RAILS [PART...]: one rank of a group whose executor is the current
 * GPU. Parts, all of them by default; every rank plays the same:
 *
 *   results: all types, operations and sizes up to 8 MB, long ones in pieces, every bit compared
 *   inside:  many calls within one kernel, of 1 and of 4 CTAs
 *   lazy:    another module is loaded, and memory freed, while a kernel waits for a late rank
 *   gone:    the last rank leaves: the kernel of the others ends
 *   silent:  the last rank does not call: the kernel of the others ends in time
 *
 * Exit status: 0 good, 1 not, 77 no GPU. It ends itself after LIMIT_S.
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../e2e/coll/numbers.h"
#include "base/spw_err.h"
#include "coll_kernel.h"

#define LIMIT_S    100
#define TIMEOUT_MS 2000u
#define LATE_MS    300u

static uint32_t rank, rank_cnt;
static const char *root, *rails;
static struct spw_coll *coll;
static cudaStream_t stream;

#define MUST(cond, ...)                                                                  \
	do {                                                                             \
		if (!(cond)) {                                                           \
			printf("rank %u: %s:%d: %s: ", rank, __FILE__, __LINE__, #cond); \
			printf(__VA_ARGS__);                                             \
			printf("; %s; CUDA: %s\n", spw_err_text(),                       \
			       cudaGetErrorString(cudaGetLastError()));                  \
			fflush(stdout);                                                  \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void open_group(void)
{
	struct spw_coll_conf conf = {.rank = rank,
				     .rank_cnt = rank_cnt,
				     .exchange = spw_coll_tcp_exchange,
				     .exec = SPW_COLL_CUDA,
				     .timeout_ms = TIMEOUT_MS,
				     .xfer = {.rails = rails, .bind = "127.0.0.1:0"}};
	const struct spw_coll_tcp_conf tcp_conf = {
		.root = root, .rank = rank, .rank_cnt = rank_cnt};
	struct spw_coll_tcp *tcp;

	MUST(!spw_coll_tcp_open(&tcp_conf, &tcp), "exchange");
	conf.exchange_arg = tcp;
	MUST(!spw_coll_open(&conf, &coll), "open");
	spw_coll_tcp_close(tcp);
}

static bool is_last(void)
{
	return rank == rank_cnt - 1;
}

/* ---- results ---- */

struct buffers {
	uint8_t *in, *out;               /* the device's */
	uint8_t *host_in, *got, *wanted; /* the host's */
};

/* Where it differs, and how often. */
static void compare(const struct buffers *b, const struct spw_coll_call *call, uint64_t round,
		    uint64_t whole)
{
	const uint32_t size = spw_coll_type_bytes(call->type);
	uint64_t wrong = 0, first = 0;

	for (uint64_t i = 0; i < whole / size; i++)
		if (memcmp(b->got + i * size, b->wanted + i * size, size) != 0 && !wrong++)
			first = i;
	MUST(!wrong,
	     "round %llu: kind %d, type %d, op %d, %llu elements, %s: %llu are wrong, first %llu: "
	     "%02x%02x instead of %02x%02x (lowest bytes)",
	     (unsigned long long)round, (int)call->kind, (int)call->type, (int)call->op,
	     (unsigned long long)call->count, call->in == call->out ? "in place" : "apart",
	     (unsigned long long)wrong, (unsigned long long)first, b->got[first * size + 1],
	     b->got[first * size], b->wanted[first * size + 1], b->wanted[first * size]);
}

static void one_call(const struct buffers *b, struct spw_coll_call *call, uint64_t round)
{
	const uint64_t bytes = call->count * spw_coll_type_bytes(call->type);
	const bool gather = call->kind == SPW_COLL_ALL_GATHER, in_place = round % 2;
	const uint64_t whole = gather ? rank_cnt * bytes : bytes;
	uint8_t *in = in_place ? b->out + (gather ? rank * bytes : 0) : b->in;

	numbers_fill(b->host_in, call->count, call->type, rank, round);
	numbers_reference(call, rank_cnt, round, b->wanted);
	call->in = in;
	call->out = b->out;
	MUST(!cudaMemset(b->out, 0xee, whole + 16), "memset");
	MUST(!cudaMemcpy(in, b->host_in, bytes, cudaMemcpyHostToDevice), "copy");
	/* A copy from pageable memory may return before it has arrived, and the stream is ordered
	 * with no other. */
	MUST(!cudaDeviceSynchronize(), "synchronize");
	MUST(!spw_coll_launch(coll, call, stream), "launch");
	MUST(!cudaStreamSynchronize(stream), "synchronize");
	MUST(!spw_coll_error(coll), "round %llu", (unsigned long long)round);
	MUST(!cudaMemcpy(b->got, b->out, whole + 16, cudaMemcpyDeviceToHost), "copy");
	compare(b, call, round, whole);
	for (uint32_t i = 0; i < 16; i++)
		MUST(b->got[whole + i] == 0xee, "a byte past the end was written");
}

static void results(void)
{
	static const uint64_t counts[] = {0,    1,    2,     3,      7,      8,       31,
					  1000, 4097, 65536, 262145, 524288, 1048577, 2000001};
	const size_t most = (size_t)rank_cnt * 4 * counts[SPW_ARRAY_CNT(counts) - 1] + 16;
	struct buffers b = {.host_in = malloc(most), .got = malloc(most), .wanted = malloc(most)};
	uint64_t round = 0;

	MUST(!cudaMalloc((void **)&b.in, most) && !cudaMalloc((void **)&b.out, most), "memory");
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(counts); i++)
		for (uint32_t type = 0; type < 3; type++)
			for (uint32_t what = 0; what < 3; what++) {
				struct spw_coll_call call = {
					.kind = what == 2 ? SPW_COLL_ALL_GATHER
							  : SPW_COLL_ALL_REDUCE,
					.type = (enum spw_coll_type)type,
					.op = what == 1 ? SPW_COLL_MAX : SPW_COLL_SUM,
					.count = counts[i]};

				one_call(&b, &call, ++round);
			}
	printf("rank %u: results: %llu calls, every bit right\n", rank, (unsigned long long)round);
	cudaFree(b.in);
	cudaFree(b.out);
	free(b.host_in);
	free(b.got);
	free(b.wanted);
}

/* ---- inside ---- */

static void many_calls(uint32_t cta_cnt, uint64_t count, uint32_t calls)
{
	const size_t bytes = count * sizeof(float) * calls;
	uint8_t *in, *out, *host = malloc(bytes), *wanted = malloc(count * sizeof(float));
	const struct spw_coll_call call = {.count = count};
	struct spw_coll_dev dev;
	double begin;

	MUST(!spw_coll_device(coll, &dev), "device");
	MUST(!cudaMalloc((void **)&in, bytes) && !cudaMalloc((void **)&out, bytes), "memory");
	for (uint32_t i = 0; i < calls; i++)
		numbers_fill(host + i * count * sizeof(float), count, SPW_COLL_F32, rank, i);
	MUST(!cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice), "copy");
	begin = now_ms();
	MUST(!coll_test_many(&dev, out, in, count, calls, cta_cnt), "launch");
	MUST(!cudaDeviceSynchronize(), "synchronize");
	begin = now_ms() - begin;
	MUST(!spw_coll_error(coll), "%u calls in a kernel", calls);
	MUST(!cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost), "copy");
	for (uint32_t i = 0; i < calls; i++) {
		numbers_reference(&call, rank_cnt, i, wanted);
		MUST(!memcmp(host + i * count * sizeof(float), wanted, count * sizeof(float)),
		     "call %u of a kernel with %u CTAs: wrong bits", i, cta_cnt);
	}
	printf("rank %u: inside: %u calls of %llu f32 in one kernel of %u CTAs: %.2f us a call\n",
	       rank, calls, (unsigned long long)count, cta_cnt, begin * 1e3 / calls);
	cudaFree(in);
	cudaFree(out);
	free(host);
	free(wanted);
}

static void inside(void)
{
	many_calls(1, 256, 20);
	many_calls(1, 256, 2000);
	many_calls(1, 2048, 2000);
	many_calls(4, 16384, 500);
	many_calls(4, 16383, 500);
}

/* ---- a module that is loaded meanwhile ---- */

static void lazy(void)
{
	struct spw_coll_call call = {.count = 1};
	cudaStream_t other;
	uint32_t *word;
	float *x;
	double begin = now_ms(), loaded;

	MUST(!cudaMalloc((void **)&x, 16) && !cudaMalloc((void **)&word, 16), "memory");
	MUST(!cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "stream");
	MUST(!cudaMemset(x, 0, 16) && !cudaDeviceSynchronize(), "memset");
	call.in = call.out = x;
	if (is_last())
		usleep(LATE_MS * 1000);
	MUST(!spw_coll_launch(coll, &call, stream), "launch");
	MUST(!coll_test_spare(word, other), "a kernel of another module");
	MUST(!cudaStreamSynchronize(other), "synchronize");
	loaded = now_ms() - begin;
	MUST(!cudaFree(word), "free");
	MUST(!cudaStreamSynchronize(stream), "synchronize");
	MUST(!spw_coll_error(coll), "a late rank");
	printf("rank %u: lazy (CUDA_MODULE_LOADING=%s): another kernel ran after %.1f ms, memory "
	       "was freed "
	       "after %.1f ms; the last rank came after %u ms\n",
	       rank, getenv("CUDA_MODULE_LOADING") ? getenv("CUDA_MODULE_LOADING") : "", loaded,
	       now_ms() - begin, LATE_MS);
	cudaFree(x);
	cudaStreamDestroy(other);
}

/* ---- failures ---- */

/* Two launches after a round that succeeded: the second returns at once. */
static void expect_end(int error, double limit_ms)
{
	const struct spw_coll_call call = {.count = 0};
	double begin = now_ms();

	MUST(!spw_coll_launch(coll, &call, stream) && !spw_coll_launch(coll, &call, stream),
	     "launch");
	MUST(!cudaStreamSynchronize(stream), "synchronize");
	begin = now_ms() - begin;
	MUST(spw_coll_error(coll) == error && begin < limit_ms, "after %.1f ms", begin);
	printf("rank %u: ended after %.1f ms: %s\n", rank, begin, spw_err_text());
	MUST(spw_coll_lost(coll) == 1u << (rank_cnt - 1), "lost %#x", spw_coll_lost(coll));
}

static void good_round(void)
{
	const struct spw_coll_call call = {.count = 0};

	MUST(!spw_coll_launch(coll, &call, stream) && !cudaStreamSynchronize(stream), "launch");
	MUST(!spw_coll_error(coll), "a barrier");
}

static void gone(void)
{
	good_round();
	if (is_last())
		return;
	usleep(LATE_MS * 1000);
	expect_end(-ECONNRESET, TIMEOUT_MS);
}

static void silent(void)
{
	good_round();
	if (is_last())
		usleep(2 * TIMEOUT_MS * 1000);
	else
		expect_end(-ETIMEDOUT, 2 * TIMEOUT_MS);
}

/* ---- all ---- */

static const struct {
	const char *name;
	void (*play)(void);
} parts[] = {{"results", results},
	     {"inside", inside},
	     {"lazy", lazy},
	     {"gone", gone},
	     {"silent", silent}};

static void play(const char *name)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(parts); i++) {
		if (name && strcmp(name, parts[i].name) != 0)
			continue;
		open_group();
		parts[i].play();
		spw_coll_close(coll);
		coll = NULL;
		printf("rank %u: %s: good\n", rank, parts[i].name);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	int devices = 0;

	if (argc < 5) {
		fprintf(stderr, "usage: coll_rank RANK RANKS HOST:PORT RAILS [PART...]\n");
		return 2;
	}
	rank = (uint32_t)atoi(argv[1]);
	rank_cnt = (uint32_t)atoi(argv[2]);
	root = argv[3];
	rails = argv[4];
	alarm(LIMIT_S);
	if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
		printf("skipped: no GPU\n");
		return 77;
	}
	MUST(!cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
	for (int i = 5; i < argc; i++)
		play(argv[i]);
	if (argc == 5)
		play(NULL);
	return 0;
}
