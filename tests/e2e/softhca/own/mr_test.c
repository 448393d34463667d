/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory regions of a dma-buf, and regions that are changed by ibv_rereg_mr.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs_kit.h"

#define RW        (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define LEN       256u
#define BUF_BYTES 65536u
#define OFFSET    4096u       /* of the region in the buffer, */
#define BYTES     8192u       /* its size, */
#define IOVA      0x12345000u /* and its first address */

static struct kit kit;
static struct kit_end a, b;

static int open_pair(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_pair_open(&kit, &a, &b, NULL);
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
	kit_end_close(&a);
	kit_end_close(&b);
	kit_close(&kit);
	return 0;
}

static void post_write(uint64_t to, uint32_t rkey, unsigned seed)
{
	kit_fill(kit.buf, LEN, seed);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, kit.buf, LEN, kit.mr->lkey, to, rkey), 0);
}

static void reconnect(void)
{
	kit_end_close(&a);
	kit_end_close(&b);
	kit_pair_open(&kit, &a, &b, NULL);
}

static void write_refused(uint64_t to, uint32_t rkey)
{
	post_write(to, rkey, 1);
	kit_expect(a.cq, IBV_WC_REM_ACCESS_ERR, NULL);
	reconnect();
}

/* ---- dma-bufs ---- */

/* The file behind the descriptor contains what a peer's WRITE put into the region, and a READ
 * returns what was stored through the file. */
static void region_of(int fd, uint8_t *at)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(kit.pd, OFFSET, BYTES, IOVA, fd, RW);

	assert_non_null(mr);
	post_write(IOVA + 100, mr->rkey, 2);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(at + OFFSET + 100, LEN, 2));
	kit_fill(at + OFFSET + BYTES - LEN, LEN, 3);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_READ, kit.buf, LEN, kit.mr->lkey,
				  IOVA + BYTES - LEN, mr->rkey),
			 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(kit.buf, LEN, 3));
	write_refused(IOVA + BYTES - LEN + 1, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	write_refused(IOVA, mr->rkey);
	assert_null(ibv_reg_dmabuf_mr(kit.pd, 0, BUF_BYTES + 4096, 0, fd, RW));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dmabuf_mr(kit.pd, 100, 4096, 200, fd,
				      RW)); /* address and iova differ in the page offset */
	assert_int_equal(errno, EINVAL);
}

static int new_memfd(void)
{
	int fd = memfd_create("region", MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BUF_BYTES), 0);
	return fd;
}

static uint8_t *map(int fd)
{
	uint8_t *at = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static void test_dmabuf(void **state)
{
	struct udmabuf_create create = {.size = BUF_BYTES};
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;
	uint8_t *at;

	(void)state;
	if (dev < 0) {
		print_message("/dev/udmabuf: %s: no dma-buf to be had here\n", strerror(errno));
		skip();
	}
	create.memfd = (uint32_t)new_memfd();
	assert_int_equal(fcntl((int)create.memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	assert_true(fd >= 0);
	at = map(fd);
	region_of(fd, at);
	munmap(at, BUF_BYTES);
	close(fd);
	close((int)create.memfd);
	close(dev);
}

/* Any descriptor that can be mapped is accepted, where a card's driver needs a dma-buf. The file
 * may shrink under the region. */
static void test_memfd(void **state)
{
	int fd = new_memfd();
	uint8_t *at = map(fd);
	struct ibv_mr *mr;

	(void)state;
	region_of(fd, at);
	mr = ibv_reg_dmabuf_mr(kit.pd, OFFSET, BYTES, IOVA, fd, RW);
	assert_non_null(mr);
	assert_int_equal(ftruncate(fd, 0), 0);
	post_write(IOVA, mr->rkey, 4);
	kit_expect(a.cq, IBV_WC_REM_OP_ERR, NULL);
	assert_int_equal(kit_state(b.qp), IBV_QPS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	reconnect();
	kit_check_alive(&kit, &a, &b);
	munmap(at, BUF_BYTES);
	close(fd);
	assert_null(ibv_reg_dmabuf_mr(kit.pd, 0, 4096, 0, fd, RW));
	assert_int_equal(errno, EBADF);
}

/* ---- changes ---- */

static uint8_t *mem;
static struct ibv_mr *mr;

static int open_region(void **state)
{
	open_pair(state);
	mem = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = mem == MAP_FAILED ? NULL : ibv_reg_mr(kit.pd, mem, 4096, RW);
	return mr ? 0 : -1;
}

static int close_region(void **state)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem, BUF_BYTES);
	return close_pair(state);
}

/* A new range gives a new key; the old one is invalid. */
static void test_rereg_range(void **state)
{
	const uint32_t old = mr->rkey;

	(void)state;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mem, BUF_BYTES, 0),
			 0);
	assert_int_not_equal(mr->rkey, old);
	post_write((uintptr_t)mem + 60000, mr->rkey, 5);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(mem + 60000, LEN, 5));
	write_refused((uintptr_t)mem, old);
}

static void test_rereg_access(void **state)
{
	(void)state;
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
		0);
	write_refused((uintptr_t)mem, mr->rkey);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RW), 0);
	post_write((uintptr_t)mem, mr->rkey, 6);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
}

/* The QPs are in the old protection domain. */
static void test_rereg_domain(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(kit.ctx);

	(void)state;
	assert_non_null(pd);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	write_refused((uintptr_t)mem, mr->rkey);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, kit.pd, NULL, 0, 0), 0);
	post_write((uintptr_t)mem, mr->rkey, 7);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* A change that is refused leaves the region as it was. */
static void test_rereg_refused(void **state)
{
	(void)state;
	assert_int_not_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 4096, 0), 0);
	assert_int_equal(errno, EFAULT);
	assert_int_not_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					  IBV_ACCESS_REMOTE_WRITE),
			     0);
	assert_int_equal(errno, EINVAL);
	post_write((uintptr_t)mem, mr->rkey, 8);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(mem, LEN, 8));
}

#define PAIR(f)   cmocka_unit_test_setup_teardown(f, open_pair, close_pair)
#define REGION(f) cmocka_unit_test_setup_teardown(f, open_region, close_region)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(test_dmabuf),         PAIR(test_memfd),          REGION(test_rereg_range),
		REGION(test_rereg_access), REGION(test_rereg_domain), REGION(test_rereg_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
