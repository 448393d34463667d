/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Events of DEVX objects, as libmlx5 reads them: what comes, what does not, what is refused, and
 * what is left when something is closed. The argument is the control socket of the device.
 */
#include "devx_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"

#define LEN       200u
#define COOKIE    0x1122334455667788ull
#define EQE_BYTES 64u

enum { COMP = 0, CQ_ERROR = 4, WQ_CATAS = 5, PORT_CHANGE = 9 };
enum { KIND_RQ = 1, KIND_SQ = 2 };

/* Room for more than one event: a read returns one all the same. */
union event {
	struct mlx5dv_devx_async_event_hdr hdr;
	uint8_t byte[4 * (8 + EQE_BYTES)];
};

static struct rig g;
static struct mlx5dv_devx_event_channel *ch;
static const char *control_path;

static void say(const char *format, unsigned number)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char answer[512] = "";
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", control_path);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_true(dprintf(fd, format, number) > 0);
	assert_int_equal(write(fd, "\n", 1), 1);
	assert_true(recv(fd, answer, sizeof(answer) - 1, 0) > 0);
	close(fd);
	assert_int_equal(strncmp(answer, "ok", 2), 0);
}

static void nonblock(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static struct mlx5dv_devx_event_channel *channel_open(struct ibv_context *ctx, bool omit)
{
	struct mlx5dv_devx_event_channel *c = mlx5dv_devx_create_event_channel(
		ctx, omit ? MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA : 0);

	assert_non_null(c);
	assert_true(fcntl(c->fd, F_GETFD) & FD_CLOEXEC);
	return c;
}

static int open_rig(void **state)
{
	(void)state;
	rig_open(&g);
	ch = channel_open(g.r.k.ctx, true);
	return 0;
}

static int close_rig(void **state)
{
	(void)state;
	mlx5dv_devx_destroy_event_channel(ch);
	rig_close(&g);
	return 0;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1 && p.revents & POLLIN;
}

/* Returns: bytes, or -errno. */
static ssize_t get(struct mlx5dv_devx_event_channel *c, union event *e, size_t room)
{
	ssize_t n;

	errno = 0;
	memset(e, 0, sizeof(*e));
	n = mlx5dv_devx_get_event(c, &e->hdr, room);
	return n < 0 ? -errno : n;
}

static int subscribe(struct mlx5dv_devx_event_channel *c, struct mlx5dv_devx_obj *obj,
		     uint16_t type, uint64_t cookie)
{
	return mlx5dv_devx_subscribe_devx_event(c, obj, sizeof(type), &type, cookie);
}

/* ---- completions ---- */

/* As DPDK arms a CQ: the record, then the register of the page. */
static void arm(void)
{
	static uint32_t serial;
	const uint32_t word = (serial++ & 3) << 28 | (g.cq_ci & 0xffffff);
	const spw_be64 bell = spw_cpu_to_be64((uint64_t)word << 32 | g.cq.number);

	spw_dma_store((spw_be32 *)(void *)(g.cq.mem + CQ_RECORDS(RIG_CQ_LOG2) + 4),
		      spw_cpu_to_be32(word));
	spw_mmio_wc_start(); /* record before register; partner: the NIC's read of the register */
	spw_mmio_write64_be((uint8_t *)g.uar->base_addr + 0x20, bell);
	spw_mmio_wc_flush();
}

static void send_one(void)
{
	uint8_t cqe[64];

	raw_frame(&g.r, 0, LEN, 1);
	rig_post_frame(&g, LEN);
	assert_int_equal(rig_next_cqe(&g, cqe), SPW_PRM_CQE_REQ);
}

/* One event an arming, and with cookies alone one for what was not read. */
static void cookies(void **state)
{
	union event e;

	(void)state;
	nonblock(ch->fd);
	assert_int_equal(subscribe(ch, g.cq.obj, COMP, COOKIE), 0);
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	send_one();
	assert_false(readable(ch->fd, KIT_QUIET_MS)); /* it was not armed */
	assert_int_equal(get(ch, &e, sizeof(e)), -EAGAIN);
	for (unsigned i = 0; i < 2; i++) {
		arm();
		send_one();
		assert_true(readable(ch->fd, KIT_WAIT_MS));
	}
	assert_int_equal(get(ch, &e, 7), -EINVAL); /* it stays */
	assert_int_equal(get(ch, &e, sizeof(e)), 8);
	assert_int_equal(e.hdr.cookie, COOKIE);
	assert_int_equal(get(ch, &e, sizeof(e)), -EAGAIN);
	arm();
	send_one();
	assert_true(readable(ch->fd, KIT_WAIT_MS));
	assert_int_equal(get(ch, &e, 8), 8);
}

static void expect_eqe(const union event *e, uint8_t type, uint32_t at, uint32_t number)
{
	const uint8_t *eqe = e->byte + 8;

	assert_int_equal(e->hdr.cookie, COOKIE);
	assert_int_equal(box_get(eqe, 8, 8), type);
	assert_int_equal(box_get(eqe, at * 8, 32) & 0xffffff, number);
}

/* With their data every event is there, in its order. */
static void entries(void **state)
{
	struct mlx5dv_devx_event_channel *c = channel_open(g.r.k.ctx, false);
	union event e;

	(void)state;
	assert_int_equal(subscribe(c, g.cq.obj, COMP, COOKIE), 0);
	assert_int_equal(subscribe(c, g.cq.obj, CQ_ERROR, COOKIE), 0);
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	for (unsigned i = 0; i < 3; i++) {
		arm();
		send_one();
	}
	say("cq-overrun=%u", g.cq.number);
	assert_int_equal(get(c, &e, 8 + EQE_BYTES - 1), -EINVAL);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(get(c, &e, sizeof(e)), 8 + EQE_BYTES);
		expect_eqe(&e, COMP, 0x38, g.cq.number);
	}
	assert_int_equal(get(c, &e, 8 + EQE_BYTES), 8 + EQE_BYTES);
	expect_eqe(&e, CQ_ERROR, 0x20, g.cq.number);
	assert_int_equal(e.byte[8 + 0x2b], 1);
	assert_false(readable(c->fd, 0));
	mlx5dv_devx_destroy_event_channel(c);
}

/* Queues by their kind and number: an SQ and an RQ may have the same. */
static void failed_queues(void **state)
{
	struct mlx5dv_devx_event_channel *c = channel_open(g.r.k.ctx, false);
	union event e;

	(void)state;
	assert_int_equal(subscribe(c, g.sq.obj, WQ_CATAS, COOKIE), 0);
	assert_int_equal(subscribe(c, g.rq.obj, WQ_CATAS, 1), 0);
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	say("qp-error=%u", g.sq.number);
	assert_int_equal(get(c, &e, sizeof(e)), 8 + EQE_BYTES);
	expect_eqe(&e, WQ_CATAS, 0x38, g.sq.number);
	assert_int_equal(e.byte[8 + 0x34], KIND_SQ);
	assert_false(readable(c->fd, KIT_QUIET_MS));
	mlx5dv_devx_destroy_event_channel(c);
}

static void port(void **state)
{
	struct mlx5dv_devx_event_channel *c = channel_open(g.r.k.ctx, false);
	union event e;

	(void)state;
	assert_int_equal(subscribe(c, NULL, PORT_CHANGE, COOKIE), 0);
	say("link-down=3600s", 0);
	say("link-down=0s", 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(get(c, &e, sizeof(e)), 8 + EQE_BYTES);
		assert_int_equal(e.byte[8 + 1], PORT_CHANGE);
		assert_int_equal(e.byte[8 + 3], i ? 4 : 1); /* up, down */
		assert_int_equal(e.byte[8 + 0x28] >> 4, 1);
	}
	mlx5dv_devx_destroy_event_channel(c);
	kit_expect_event(&g.r.k, IBV_EVENT_PORT_ACTIVE);
}

/* An eventfd in place of the channel; the application may close its own descriptor. */
static void redirected(void **state)
{
	const uint16_t type = COMP;
	int fd = eventfd(0, EFD_NONBLOCK), mine = dup(fd), other[2];
	uint64_t cnt = 0;

	(void)state;
	assert_int_equal(pipe(other), 0);
	assert_int_equal(mlx5dv_devx_subscribe_devx_event_fd(ch, other[0], g.cq.obj, COMP), EINVAL);
	close(other[0]);
	close(other[1]);
	assert_int_equal(mlx5dv_devx_subscribe_devx_event_fd(ch, other[0], g.cq.obj, COMP), EBADF);
	assert_int_equal(mlx5dv_devx_subscribe_devx_event_fd(ch, fd, g.cq.obj, type), 0);
	close(fd);
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	for (unsigned i = 0; i < 2; i++) {
		arm();
		send_one();
	}
	for (unsigned i = 0; i < KIT_WAIT_MS && cnt < 2; i++) {
		uint64_t more = 0;

		if (readable(mine, 1) && read(mine, &more, sizeof(more)) == sizeof(more))
			cnt += more;
	}
	assert_int_equal(cnt, 2);
	assert_false(readable(ch->fd, 0));
	close(mine);
}

/* ---- refused ---- */

static void refuse_subscriptions(void **state)
{
	struct ibv_context *other = ibv_open_device(g.r.k.ctx->device);
	struct mlx5dv_devx_event_channel *theirs = channel_open(other, true);
	struct mlx5dv_devx_cmd_comp *cmds = mlx5dv_devx_create_cmd_comp(g.r.k.ctx);
	const int fd = ch->fd;
	uint16_t many[17] = {0};

	(void)state;
	assert_int_equal(subscribe(ch, g.cq.obj, PORT_CHANGE, 0), EINVAL);
	assert_int_equal(subscribe(ch, g.cq.obj, 0x0a, 0), EINVAL); /* the end of a command */
	assert_int_equal(subscribe(ch, NULL, COMP, 0), EINVAL);
	assert_int_equal(mlx5dv_devx_subscribe_devx_event(ch, g.cq.obj, 32, many, 0), 0);
	assert_int_equal(mlx5dv_devx_subscribe_devx_event(ch, g.cq.obj, 34, many, 0), EINVAL);
	assert_int_equal(mlx5dv_devx_subscribe_devx_event(ch, g.cq.obj, 3, many, 0), EINVAL);
	many[1] = PORT_CHANGE;
	assert_int_equal(mlx5dv_devx_subscribe_devx_event(ch, g.cq.obj, 4, many, 0), EINVAL);
	ch->fd = theirs->fd;
	assert_int_equal(mlx5dv_devx_subscribe_devx_event(ch, g.cq.obj, 2, many, 0), EBADF);
	ch->fd = cmds->fd;
	assert_int_equal(mlx5dv_devx_subscribe_devx_event(ch, g.cq.obj, 2, many, 0), EBADF);
	ch->fd = fd;
	assert_int_equal(write(ch->fd, many, 8), -1);
	assert_int_equal(errno, EBADF);
	mlx5dv_devx_destroy_cmd_comp(cmds);
	mlx5dv_devx_destroy_event_channel(theirs);
	assert_int_equal(ibv_close_device(other), 0);
}

/* ---- closing ---- */

/* What was not read survives its object; nothing follows it. */
static void object_goes(void **state)
{
	union event e;

	(void)state;
	assert_int_equal(subscribe(ch, g.sq.obj, WQ_CATAS, COOKIE), 0);
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	say("qp-error=%u", g.sq.number);
	assert_true(readable(ch->fd, KIT_WAIT_MS));
	thing_free(&g.sq);
	assert_int_equal(get(ch, &e, sizeof(e)), 8);
	assert_int_equal(e.hdr.cookie, COOKIE);
	assert_false(readable(ch->fd, 0));
}

/* The number of the closed channel goes to another one, which has no subscription. */
static void channel_goes(void **state)
{
	const int fd = ch->fd;

	(void)state;
	assert_int_equal(subscribe(ch, g.cq.obj, COMP, COOKIE), 0);
	mlx5dv_devx_destroy_event_channel(ch);
	ch = channel_open(g.r.k.ctx, true);
	assert_int_equal(ch->fd, fd);
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	arm();
	send_one();
	assert_false(readable(ch->fd, KIT_QUIET_MS));
}

static pid_t waiter; /* the thread of wait_for_event, just before it waits */

static void *wait_for_event(void *channel)
{
	union event e;

	spw_thr_store_rlx(&waiter, gettid());
	return (void *)(intptr_t)get(channel, &e, sizeof(e));
}

/* Starts it. Returns once it sleeps: in read(), for there is nothing else to wait for. */
static pthread_t waiter_start(struct mlx5dv_devx_event_channel *channel)
{
	const uint64_t until = kit_now_us() + KIT_WAIT_MS * 1000ull;
	char state = '?';
	pthread_t thread;

	spw_thr_store_rlx(&waiter, 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_event, channel), 0);
	while (state != 'S') {
		char path[64];
		FILE *f;

		assert_true(kit_now_us() < until);
		usleep(1000);
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
			 spw_thr_load_rlx(&waiter)); /* of no thread: 0 */
		f = fopen(path, "r");
		if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			state = '?';
		if (f)
			fclose(f);
	}
	return thread;
}

/* A thread waits in read(): it gets EIO when its context is closed, and so does every later read
 * that waits. libmlx5 itself needs the context for its calls. */
static void context_goes(void **state)
{
	struct ibv_context *other = ibv_open_device(g.r.k.ctx->device);
	struct mlx5dv_devx_event_channel *theirs = channel_open(other, true);
	const int fd = theirs->fd;
	pthread_t thread;
	uint64_t cookie;
	void *got;

	(void)state;
	assert_int_equal(subscribe(theirs, NULL, PORT_CHANGE, COOKIE), 0);
	thread = waiter_start(theirs);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(pthread_join(thread, &got), 0);
	assert_int_equal((intptr_t)got, -EIO);
	assert_true(readable(fd, 0));
	assert_int_equal(read(fd, &cookie, sizeof(cookie)), -1);
	assert_int_equal(errno, EIO);
	nonblock(fd);
	assert_int_equal(read(fd, &cookie, sizeof(cookie)), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(close(fd), 0);
}

/* A thread that waits may be cancelled, and the channel closed after it. */
static void thread_goes(void **state)
{
	pthread_t thread;
	void *got;

	(void)state;
	thread = waiter_start(ch);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &got), 0);
	assert_ptr_equal(got, PTHREAD_CANCELED);
}

/* The last of all: the device leaves the bus. */
static void device_goes(void **state)
{
	union event e;

	(void)state;
	assert_int_equal(subscribe(ch, NULL, PORT_CHANGE, COOKIE), 0);
	say("remove", 0);
	assert_int_equal(get(ch, &e, sizeof(e)), -EIO);
	assert_int_equal(subscribe(ch, NULL, PORT_CHANGE, COOKIE), EBADF);
	assert_null(mlx5dv_devx_create_event_channel(g.r.k.ctx, 0));
	assert_int_equal(errno, EIO);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cookies, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(entries, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(failed_queues, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(port, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(redirected, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(refuse_subscriptions, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(object_goes, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(channel_goes, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(context_goes, open_rig, close_rig),
		cmocka_unit_test_setup_teardown(thread_goes, open_rig, close_rig),
		cmocka_unit_test_setup(device_goes, open_rig), /* nothing can be destroyed then */
	};

	if (argc != 2)
		return 1;
	control_path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
