/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The plugin's engines by the calls of their class, where NIXL's agents would hide what they
 * answer: VRAM of each kind, and bytes of other agents that are cut or changed. The CUDA driver is
 * that of fake_driver.c.
 */
#include "nixl_kit.h"

#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/backend_plugin.h"
#include "fake_driver.h"

#define BYTES  ((size_t)1 << 20)
#define OFFSET 512u /* of the registered part of a GPU's memory: allocations are no whole pages */

static const nixlBackendPlugin *plugin;
static struct fake_range *ranges;

class engine
{
	nixl_b_params_t params;

      public:
	std::string name;
	nixlBackendEngine *of;

	explicit engine(const char *n) : name(n)
	{
		nixlBackendInitParams init;

		params = {{"rails", *n == 'a' ? "mlx5_0+mlx5_2" : "mlx5_1+mlx5_3"},
			  {"bind", "127.0.0.1:0"}};
		init.localAgent = name;
		init.type = "SPINWIRE";
		init.customParams = &params;
		of = plugin->create_engine(&init);
		assert_true(of && !of->getInitErr());
		kit_must(of->connect(name), "connect to itself");
	}
	~engine() { plugin->destroy_engine(of); }

	std::string info() const
	{
		std::string bytes;

		kit_must(of->getConnInfo(bytes), "info");
		return bytes;
	}
};

static nixlBlobDesc range_desc(uint64_t at, size_t bytes, const std::string &blob = "")
{
	return nixlBlobDesc((uintptr_t)at, bytes, 0, blob);
}

/* Moves [at, +bytes) of a to b and back, by NIXL's lists. */
static void move(engine &a, engine &b, nixl_xfer_op_t op, const nixlBlobDesc &near,
		 nixlBackendMD *near_md, const nixlBlobDesc &far, nixlBackendMD *far_md)
{
	nixl_meta_dlist_t local(VRAM_SEG), remote(VRAM_SEG);
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	nixlBackendReqH *req = nullptr;
	nixl_status_t status;
	notif_list_t notes;

	local.addDesc(nixlMetaDesc(near.addr, near.len, 0, near_md));
	remote.addDesc(nixlMetaDesc(far.addr, far.len, 0, far_md));
	kit_must(a.of->prepXfer(op, local, remote, b.name, req), "prep");
	status = a.of->postXfer(op, local, remote, b.name, req);
	while (status == NIXL_IN_PROG) {
		assert_true(kit_now_ms() < end);
		kit_must(b.of->getNotifs(notes), "a turn");
		status = a.of->checkXfer(req);
	}
	kit_must(status, "transfer");
	kit_must(a.of->releaseReqH(req), "release");
}

/* Two memories that are VRAM by kind: what b's mapping shows is what a's has. seen_*: the CPU's
 * view of the registered bytes. */
static void expect_moves(uint64_t at_a, uint8_t *seen_a, uint64_t at_b, uint8_t *seen_b,
			 size_t bytes)
{
	engine a("a"), b("b");
	nixlBackendMD *md_a, *md_b, *far;
	const nixlBlobDesc near = range_desc(at_a, bytes);
	std::string blob;

	kit_must(a.of->registerMem(near, VRAM_SEG, md_a), "register");
	kit_must(b.of->registerMem(range_desc(at_b, bytes), VRAM_SEG, md_b), "register");
	kit_must(b.of->getPublicData(md_b, blob), "blob");
	assert_true(blob.size() <= 32);
	kit_must(a.of->loadRemoteConnInfo("b", b.info()), "load");
	kit_must(a.of->loadRemoteMD(range_desc(at_b, bytes, blob), VRAM_SEG, "b", far), "load");
	for (nixl_xfer_op_t op : {NIXL_WRITE, NIXL_READ}) {
		for (size_t i = 0; i < bytes; i++) {
			seen_a[i] = (uint8_t)(i * 7 + (i >> 9) + op);
			seen_b[i] = (uint8_t)(i * 13 + (i >> 7) + op);
		}
		const std::vector<uint8_t> from(op == NIXL_WRITE ? seen_a : seen_b,
						(op == NIXL_WRITE ? seen_a : seen_b) + bytes);

		move(a, b, op, near, md_a, range_desc(at_b, bytes), far);
		assert_memory_equal(op == NIXL_WRITE ? seen_b : seen_a, from.data(), bytes);
	}
	kit_must(a.of->unloadMD(far), "unload");
	kit_must(a.of->deregisterMem(md_a), "deregister");
	kit_must(b.of->deregisterMem(md_b), "deregister");
}

static void vram_in_host_memory(void **)
{
	kit_memory a(BYTES), b(BYTES);

	ranges[0] = {(uint64_t)a.at, BYTES, 1, 0, -1};
	ranges[1] = {(uint64_t)b.at, BYTES, 1, 0, -1};
	expect_moves((uint64_t)a.at, a.at, (uint64_t)b.at, b.at, BYTES);
}

/* Memory that only the NIC reaches, by a dma-buf of whole pages; the region begins within one. */
static void vram_of_a_gpu(void **)
{
	uint8_t *seen[2], *at[2];

	for (int i = 0; i < 2; i++) {
		const int fd = memfd_create("gpu", MFD_CLOEXEC);

		assert_int_equal(ftruncate(fd, BYTES), 0);
		seen[i] =
			(uint8_t *)mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		at[i] = (uint8_t *)mmap(nullptr, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
					0);
		ranges[i] = {(uint64_t)at[i], BYTES, 2, 0, fd};
	}
	expect_moves((uint64_t)at[0] + OFFSET, seen[0] + OFFSET, (uint64_t)at[1] + OFFSET,
		     seen[1] + OFFSET, BYTES - 2 * OFFSET);
	for (int i = 0; i < 2; i++) {
		close(ranges[i].dmabuf);
		munmap(seen[i], BYTES);
		munmap(at[i], BYTES);
	}
}

static void vram_that_is_refused(void **)
{
	kit_memory mem(BYTES);
	nixlBackendMD *md;
	engine a("a");
	const nixlBlobDesc desc = range_desc((uint64_t)mem.at, BYTES);

	ranges[0] = {(uint64_t)mem.at, BYTES, 2, 0, -1}; /* as a GB10's */
	assert_int_equal(a.of->registerMem(desc, VRAM_SEG, md), NIXL_ERR_NOT_SUPPORTED);
	ranges[0] = {(uint64_t)mem.at, BYTES, 1, 1, -1}; /* managed */
	assert_int_equal(a.of->registerMem(desc, VRAM_SEG, md), NIXL_ERR_NOT_SUPPORTED);
	ranges[0] = {}; /* unknown */
	assert_int_equal(a.of->registerMem(desc, VRAM_SEG, md), NIXL_ERR_NOT_SUPPORTED);
	assert_null(md);
	kit_must(a.of->registerMem(desc, DRAM_SEG, md), "register");
	kit_must(a.of->deregisterMem(md), "deregister");
	assert_int_equal(a.of->registerMem(desc, FILE_SEG, md), NIXL_ERR_NOT_SUPPORTED);
}

/* Info is checked when it is loaded; a blob by its length, and the rest by the connection. */
static void bytes_of_other_agents(void **)
{
	engine a("a"), b("b");
	kit_memory mem(BYTES);
	std::string info = b.info(), blob;
	nixlBackendMD *md, *out;

	kit_must(b.of->registerMem(range_desc((uint64_t)mem.at, BYTES), DRAM_SEG, md), "register");
	kit_must(b.of->getPublicData(md, blob), "blob");
	for (size_t at = 0; at < info.size(); at++) {
		std::string bad = info;

		bad[at] = (char)(bad[at] ^ 1);
		assert_true(a.of->loadRemoteConnInfo("b", bad) < 0);
		assert_true(a.of->loadRemoteConnInfo("b", info.substr(0, at)) < 0);
	}
	assert_true(a.of->loadRemoteConnInfo("", info) == NIXL_ERR_INVALID_PARAM);
	kit_must(a.of->loadRemoteConnInfo("b", info), "load");
	kit_must(a.of->loadRemoteConnInfo("b", info), "load it again");
	assert_true(a.of->loadRemoteConnInfo("b", a.info()) == NIXL_ERR_NOT_ALLOWED);
	for (size_t at = 0; at < blob.size(); at++)
		assert_int_equal(a.of->loadRemoteMD(range_desc(0, BYTES, blob.substr(0, at)),
						    DRAM_SEG, "b", out),
				 NIXL_ERR_INVALID_PARAM);
	assert_int_equal(a.of->loadRemoteMD(range_desc(0, BYTES, blob), DRAM_SEG, "c", out),
			 NIXL_ERR_NOT_FOUND);
	assert_int_equal(a.of->genNotif("c", "?"), NIXL_ERR_NOT_FOUND);
	assert_int_equal(a.of->disconnect("c"), NIXL_ERR_NOT_FOUND);
	kit_must(a.of->disconnect("b"), "disconnect");
	assert_int_equal(a.of->genNotif("b", "?"), NIXL_ERR_NOT_FOUND);
	kit_must(b.of->deregisterMem(md), "deregister");
}

/* A range beyond what was registered is refused before anything moves; NIXL's agents never ask. */
static void beyond_the_region(void **)
{
	engine a("a");
	kit_memory mem(BYTES);
	nixlBackendMD *md, *own;
	nixlBackendReqH *req = nullptr;
	nixl_meta_dlist_t local(DRAM_SEG), remote(DRAM_SEG);

	kit_must(a.of->registerMem(range_desc((uint64_t)mem.at, BYTES), DRAM_SEG, md), "register");
	kit_must(a.of->loadLocalMD(md, own), "own");
	local.addDesc(nixlMetaDesc((uintptr_t)mem.at, 2, 0, md));
	remote.addDesc(nixlMetaDesc((uintptr_t)mem.at + BYTES - 1, 2, 0, own));
	assert_true(a.of->prepXfer(NIXL_WRITE, local, remote, "a", req) < 0);
	remote[0].addr = (uintptr_t)mem.at - 1;
	assert_true(a.of->prepXfer(NIXL_WRITE, local, remote, "a", req) < 0);
	assert_null(req);
	kit_must(a.of->deregisterMem(md),
		 "deregister"); /* before its region, as a closing agent does */
	kit_must(a.of->unloadMD(own), "unload");
}

static int open_plugin(void **)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW),
	     *lib = dlopen(getenv("SPW_TEST_PLUGIN"), RTLD_NOW);

	if (!cuda || !lib)
		fail_msg("%s", dlerror());
	ranges = (struct fake_range *)dlsym(cuda, "fake_ranges");
	plugin = ((nixlBackendPlugin * (*)()) dlsym(lib, "nixl_plugin_init"))();
	assert_int_equal(plugin->api_version, NIXL_PLUGIN_API_VERSION);
	assert_string_equal(plugin->get_plugin_name(), "SPINWIRE");
	return 0;
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vram_in_host_memory),  cmocka_unit_test(vram_of_a_gpu),
		cmocka_unit_test(vram_that_is_refused), cmocka_unit_test(bytes_of_other_agents),
		cmocka_unit_test(beyond_the_region),
	};

	return cmocka_run_group_tests(tests, open_plugin, nullptr);
}
