/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Objects in a GPU's own memory, from the region that lib/mem makes to the consumer in another
 * process: the real code of both, over a driver that is a stand-in (fake_driver.h). The owner is a
 * child of this test, which publishes, answers as spinwire's control thread does, and dies.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "mem/spw_mem.h"
#include "owner.h"

#define MEMORY_BYTES (BUFFERS * (uint64_t)STRIDE)

static const struct spw_mem_req request = {
	.kind = SPW_MEM_GPU,
	.bytes = MEMORY_BYTES,
	.numa_node = -1,
	.executor_is_gpu = true,
	.shared = true,
};

static uint8_t *kernel_sees(uint64_t at)
{
	return (uint8_t *)(uintptr_t)(at - FAKE_AT);
}

/* What the child passes to the test. */
struct made {
	struct tensor_place place;
	bool was_zero;
};

/* Publishes one object, whose bytes are a function of their place, then answers until it is
 * killed. */
static void owner_run(int to)
{
	struct owner owner = owner_make("gpu");
	struct made made = {.was_zero = true};
	struct spw_region region;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (spw_region_alloc(&request, &region)) {
		print_message("%s\n", spw_err_text());
		_exit(1);
	}
	for (uint64_t i = 0; i < region.bytes; i++)
		made.was_zero &= kernel_sees(region.dev_va)[i] == 0;
	for (uint64_t i = 0; i < STRIDE; i++)
		kernel_sees(region.dev_va)[i] = (uint8_t)(i * 7 + 1);
	owner_publish(&owner);
	owner.place.memory_fd = region.shared_fd;
	owner.place.memory_bytes = region.bytes;
	made.place = owner.place;
	if (write(to, &made, sizeof(made)) != sizeof(made))
		_exit(1);
	for (;;) {
		spw_region_hand(&region);
		tensor_sleep_ns(1000000);
	}
}

static pid_t owner_start(struct made *made_out)
{
	int pair[2];
	pid_t child;

	assert_int_equal(pipe(pair), 0);
	child = fork();
	if (child == 0)
		owner_run(pair[1]);
	close(pair[1]);
	assert_int_equal(read(pair[0], made_out, sizeof(*made_out)), sizeof(*made_out));
	close(pair[0]);
	return child;
}

static void owner_kill(pid_t child)
{
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void nothing_is_left(void)
{
	assert_int_equal(fake_driver.contexts, 0);
	assert_int_equal(fake_driver.handles, 0);
	assert_int_equal(fake_driver.mappings, 0);
}

static void refuses(const struct tensor_place *place, enum spw_tensor_device device, int32_t gpu,
		    int error, const char *word)
{
	struct spw_tensor_stream *stream;

	assert_int_equal(tensor_attach(place, device, gpu, &stream), -error);
	if (!strstr(spw_err_text(), word))
		fail_msg("'%s' lacks '%s'", spw_err_text(), word);
	nothing_is_left();
}

/* The consumer reads every byte of what the owner's kernel wrote, also after the owner died. */
static void test_reads(void **state SPW_UNUSED)
{
	const struct spw_tensor_export to_cpu = {.versioned = true}, to_cuda = {.cuda = true};
	struct managed {
		void *data;
		int32_t device_type, device_id;
	} * export;
	struct made made;
	const pid_t child = owner_start(&made);
	struct spw_tensor_stream *stream;
	struct spw_tensor tensor;

	assert_true(made.was_zero);
	assert_int_equal(made.place.memory_bytes, FAKE_PAGE_BYTES);
	assert_int_equal(tensor_attach(&made.place, SPW_TENSOR_AUTO, SPW_TENSOR_GPU_AUTO, &stream),
			 0);
	assert_int_equal(spw_tensor_gpu(stream), 0);
	assert_int_equal(spw_tensor_next(stream, 0, &tensor), 0);
	assert_null(tensor.data);
	owner_kill(child);
	for (uint64_t i = 0; i < STRIDE; i++)
		assert_int_equal(kernel_sees(tensor.cuda)[i], (uint8_t)(i * 7 + 1));
	assert_int_equal(spw_tensor_dlpack(stream, &tensor, &to_cpu, (void **)&export), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "export it for CUDA"));
	assert_int_equal(spw_tensor_dlpack(stream, &tensor, &to_cuda, (void **)&export), 0);
	assert_int_equal((uintptr_t) export->data, tensor.cuda);
	assert_int_equal(export->device_type, 2);
	assert_int_equal(export->device_id, 0);
	(*(void (**)(void *))((uint8_t *)export + 56))(export);
	assert_int_equal(spw_tensor_release(stream, &tensor), 0);
	assert_int_equal(spw_tensor_next(stream, 0, &tensor), -EOWNERDEAD);
	spw_tensor_close(stream);
	nothing_is_left();
}

static void test_refuses(void **state SPW_UNUSED)
{
	struct made made;
	const pid_t child = owner_start(&made);
	struct tensor_place place = made.place;

	refuses(&place, SPW_TENSOR_CPU, 0, ENOTSUP, "the CPU cannot read");
	refuses(&place, SPW_TENSOR_CUDA, 1, EINVAL, "GPU 0, not 1");
	fake_driver.other_gpu = 1;
	refuses(&place, SPW_TENSOR_AUTO, 0, ENODEV, "GPU-abababab-...");
	fake_driver.other_gpu = 0;
	place.memory_bytes = 2 * FAKE_PAGE_BYTES; /* forged: more than there is */
	refuses(&place, SPW_TENSOR_AUTO, 0, EPROTO, "cuMemMap");
	place.memory_bytes = FAKE_PAGE_BYTES - 1;
	refuses(&place, SPW_TENSOR_AUTO, 0, EPROTO, "cuMemAddressReserve");
	place.memory_bytes = MEMORY_BYTES - 1;
	refuses(&place, SPW_TENSOR_AUTO, 0, EPROTO, "its buffers need more");
	place = made.place;
	place.memory_fd = 1000; /* closed */
	refuses(&place, SPW_TENSOR_AUTO, 0, ENOENT, "/fd/1000");
	place.memory_fd = place.page_fd; /* a memfd */
	refuses(&place, SPW_TENSOR_AUTO, 0, EPROTO, "hands over no memory");
	place = made.place;
	strcpy(place.kind, "cuda-reg"); /* forged: the socket's place is no memory */
	place.memory_bytes = FAKE_PAGE_BYTES;
	refuses(&place, SPW_TENSOR_AUTO, 0, ENXIO, "/fd/");
	kill(child, SIGSTOP);
	refuses(&made.place, SPW_TENSOR_AUTO, 0, ETIMEDOUT, "is it stopped?");
	owner_kill(child);
}

/* ---- owners that send something else ---- */

struct forged {
	bool with_fd;
	size_t bytes;
	const char *word;
};

static void forged_send(int listener, const struct forged *forged)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	char text[sizeof(struct spw_mem_handed) + 1];
	struct iovec data = {text, forged->bytes};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	memset(text, 0xab, sizeof(text)); /* the UUID of the GPU that there is */
	if (forged->with_fd) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	}
	_exit(sendmsg(accept(listener, NULL, NULL), &message, 0) < 0);
}

/* Returns: the place of a socket that listens. */
static int forged_listen(int listener)
{
	char folder[] = "/tmp/spinwire-test-XXXXXX";
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int place;

	assert_non_null(mkdtemp(folder));
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/memory", folder);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	place = open(at.sun_path, O_PATH);
	unlink(at.sun_path);
	rmdir(folder);
	assert_int_equal(listen(listener, 1), 0);
	return place;
}

static int open_fds(void)
{
	int cnt = 0;

	for (int fd = 0; fd < 256; fd++)
		cnt += fcntl(fd, F_GETFD) >= 0;
	return cnt;
}

/* No descriptor, too little, too much, or a descriptor that is no memory; none stays open here. */
static void test_forged(void **state SPW_UNUSED)
{
	static const struct forged sent[] = {
		{false, sizeof(struct spw_mem_handed), "hands over no memory"},
		{true, sizeof(struct spw_mem_handed) - 1, "hands over no memory"},
		{true, sizeof(struct spw_mem_handed) + 1, "hands over no memory"},
		{true, sizeof(struct spw_mem_handed), "cuMemImport"}};
	struct owner owner = owner_make("gpu");
	const int before = open_fds();

	owner.place.memory_bytes = FAKE_PAGE_BYTES;
	for (size_t i = 0; i < SPW_ARRAY_CNT(sent); i++) {
		int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), status;
		pid_t child;

		owner.place.memory_fd = forged_listen(listener);
		child = fork();
		if (child == 0)
			forged_send(listener, &sent[i]);
		refuses(&owner.place, SPW_TENSOR_AUTO, 0, EPROTO, sent[i].word);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		close(listener);
		close(owner.place.memory_fd);
		assert_int_equal(open_fds(), before);
	}
	owner_end(&owner);
}

/* A process of another user is refused by the kernel, as for a memfd. */
static void test_other_user(void **state SPW_UNUSED)
{
	struct made made;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int status, fd;
	pid_t child, other;

	if (geteuid())
		skip();
	child = owner_start(&made);
	snprintf(at.sun_path, sizeof(at.sun_path), "/proc/%d/fd/%d", made.place.pid,
		 made.place.memory_fd);
	other = fork();
	if (other == 0) {
		fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		_exit(setresuid(65534, 65534, 65534) ||
		      !connect(fd, (struct sockaddr *)&at, sizeof(at)) || errno != EACCES);
	}
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(status, 0);
	owner_kill(child);
}

/* What a machine cannot do is refused before anything is made. */
static void test_no_owner(void **state SPW_UNUSED)
{
	struct spw_mem_req on_cpu = request;
	struct spw_region region;

	on_cpu.executor_is_gpu = false;
	assert_int_equal(spw_region_alloc(&on_cpu, &region), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "the executor runs on the CPU"));
	fake_driver.shareable = 0;
	assert_int_equal(spw_region_alloc(&request, &region), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "POSIX_FILE_DESCRIPTOR_SUPPORTED"));
	fake_driver.shareable = fake_driver.integrated = 1;
	assert_int_equal(spw_region_alloc(&request, &region), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "integrated"));
	fake_driver.integrated = 0;
	fake_driver.no_memory = 1;
	assert_int_equal(spw_region_alloc(&request, &region), -ENOMEM);
	assert_non_null(strstr(spw_err_text(), "fewer or smaller buffers"));
	fake_driver.no_memory = 0;
	assert_int_equal(spw_region_alloc(&request, &region), 0);
	assert_null(region.host_va);
	assert_int_equal(fake_driver.mappings, 1);
	spw_region_free(&region);
	nothing_is_left();
}

int main(int argc SPW_UNUSED, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),    cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_forged),   cmocka_unit_test(test_other_user),
		cmocka_unit_test(test_no_owner),
	};

	setenv("SPW_CUDA_MODULE", argv[1], 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
