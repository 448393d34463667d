/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NIXL's backend SPINWIRE: its calls over an agent of lib/kv. The library's symbols are the two by
 * which NIXL finds a plugin.
 *
 *   NIXL                                   lib/kv
 *   create_engine                          spw_kv_open
 *   getConnInfo, loadRemoteConnInfo        spw_kv_info, spw_kv_peer_load
 *   connect, disconnect                    spw_kv_peer_connect, spw_kv_peer_drop
 *   registerMem, getPublicData             spw_kv_mem_reg, spw_kv_mem_blob
 *   loadRemoteMD, loadLocalMD, unloadMD    spw_kv_region_load, spw_kv_region_drop
 *   prepXfer, postXfer, checkXfer,         spw_kv_transfer_make, spw_kv_post, spw_kv_check,
 *     releaseReqH                            spw_kv_release
 *   getNotifs, genNotif                    spw_kv_note_take, spw_kv_notify
 *
 * Versions. NIXL's classes are its interface: what calls this library must have been built from the
 * headers that it was compiled with, and nothing shows a difference at run time, because
 * NIXL_PLUGIN_API_VERSION stayed 1 when virtual functions moved (0.10 to 1.0). The build therefore
 * takes 1.0.0 to 1.4.0 only, whose functions lie in one order (lib/nixl/meson.build). It was
 * compiled with the headers of each, and run with 1.4.0. No symbol of NIXL or of its libraries is
 * used: none of its log macros, and no member that is not inline.
 *
 * Thread: any, in all of NIXL's modes: lib/kv has a lock, and so has agent.c. No exception leaves a
 * call.
 */
#include "backend/backend_engine.h"
#include "backend/backend_plugin.h"

#include <cerrno>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "nixl/agent.h"

static_assert(NIXL_PLUGIN_API_VERSION == 1, "a NIXL whose plugins have another interface");

#define NOTES_MAX 4096u /* of one getNotifs: a sender in a loop does not hold its caller */

/* ---- errors ---- */

/* What the agent drops a peer for is REMOTE_DISCONNECT, and nothing else. */
static nixl_status_t nixl_status(int rc)
{
	switch (-rc) {
	case 0:
		return NIXL_SUCCESS;
	case EAGAIN:
		return NIXL_IN_PROG;
	case ECONNRESET:
	case ECONNREFUSED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EPROTO:
		return NIXL_ERR_REMOTE_DISCONNECT;
	case EBUSY:
		return NIXL_ERR_REPOST_ACTIVE;
	case EINVAL:
		return NIXL_ERR_INVALID_PARAM;
	case ENOENT:
		return NIXL_ERR_NOT_FOUND;
	case EEXIST:
		return NIXL_ERR_NOT_ALLOWED;
	case EOPNOTSUPP:
		return NIXL_ERR_NOT_SUPPORTED;
	default:
		return NIXL_ERR_BACKEND;
	}
}

static nixl_status_t status_logged(int rc, const char *what)
{
	if (rc && rc != -EAGAIN)
		spw_warn("%s: %s", what, spw_err_text());
	return nixl_status(rc);
}

/* Runs a call's body. Out of memory is the only exception that the standard library throws here. */
template <typename Body> static nixl_status_t status_guarded(const char *what, Body body) noexcept
{
	try {
		return body();
	} catch (const std::exception &error) {
		spw_warn("%s: %s", what, error.what());
	}
	return NIXL_ERR_BACKEND;
}

/* ---- what NIXL has of an engine ---- */

struct nixl_region;

/* Of this agent. */
struct nixl_memory : nixlBackendMD {
	struct spw_kv_mem *mem = nullptr;
	nixl_region *own = nullptr; /* the same as a region of the own name; NULL: not loaded */
	uint64_t addr, bytes;

	nixl_memory(uint64_t a, uint64_t b) : nixlBackendMD(true), addr(a), bytes(b) {}
};

/* Of any agent, as the far end of transfers. */
struct nixl_region : nixlBackendMD {
	struct spw_kv_region *region = nullptr;
	nixl_memory *of = nullptr; /* of the own name, while that is registered */
	uint64_t addr;

	explicit nixl_region(uint64_t a) : nixlBackendMD(false), addr(a) {}
};

struct nixl_request : nixlBackendReqH {
	struct spw_kv_transfer *transfer = nullptr;
	bool logged = false; /* how the last post failed */
};

class nixl_engine final : public nixlBackendEngine
{
	struct nixl_agent *agent = nullptr; /* NULL: it could not be opened */
	struct spw_kv *kv = nullptr;        /* its */

      public:
	explicit nixl_engine(const nixlBackendInitParams *init);
	~nixl_engine() override { nixl_agent_close(agent); }

	bool supportsRemote() const override { return true; }
	bool supportsLocal() const override { return true; }
	bool supportsNotif() const override { return true; }
	nixl_mem_list_t getSupportedMems() const override { return {DRAM_SEG, VRAM_SEG}; }

	nixl_status_t getConnInfo(std::string &info) const override;
	nixl_status_t loadRemoteConnInfo(const std::string &peer, const std::string &info) override;
	nixl_status_t connect(const std::string &peer) override;
	nixl_status_t disconnect(const std::string &peer) override;

	nixl_status_t registerMem(const nixlBlobDesc &desc, const nixl_mem_t &type,
				  nixlBackendMD *&out) override;
	nixl_status_t deregisterMem(nixlBackendMD *in) override;
	nixl_status_t getPublicData(const nixlBackendMD *in, std::string &blob) const override;
	nixl_status_t loadRemoteMD(const nixlBlobDesc &desc, const nixl_mem_t &type,
				   const std::string &peer, nixlBackendMD *&out) override;
	nixl_status_t loadLocalMD(nixlBackendMD *in, nixlBackendMD *&out) override;
	nixl_status_t unloadMD(nixlBackendMD *in) override;

	nixl_status_t prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			       const nixl_meta_dlist_t &remote, const std::string &peer,
			       nixlBackendReqH *&handle,
			       const nixl_opt_b_args_t *args) const override;
	nixl_status_t postXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
			       const nixl_meta_dlist_t &remote, const std::string &peer,
			       nixlBackendReqH *&handle,
			       const nixl_opt_b_args_t *args) const override;
	nixl_status_t checkXfer(nixlBackendReqH *handle) const override;
	nixl_status_t releaseReqH(nixlBackendReqH *handle) const override;

	nixl_status_t getNotifs(notif_list_t &list) override;
	nixl_status_t genNotif(const std::string &peer, const std::string &text) const override;
};

/* ---- open and close ---- */

/* Of the parameters that a user may give; all are texts of struct spw_xfer_conf. */
static const struct {
	const char *key;
	const char *spw_xfer_conf::*at;
} engine_keys[] = {{"rails", &spw_xfer_conf::rails},
		   {"hca", &spw_xfer_conf::hca},
		   {"bind", &spw_xfer_conf::bind},
		   {"secret", &spw_xfer_conf::secret},
		   {"gid", &spw_xfer_conf::gid}};

/* Programs pass parameters of other backends, too, so an unknown one is no error. An empty one is
 * the default, as get_backend_options shows it. */
static void engine_take(const std::string &key, const std::string &value,
			struct spw_xfer_conf *xfer)
{
	if (value.empty())
		return;
	for (const auto &known : engine_keys)
		if (key == known.key) {
			xfer->*known.at = value.c_str();
			return;
		}
	spw_warn("parameter %s=%s is not known here: rails, hca, bind, secret and gid are",
		 key.c_str(), value.c_str());
}

nixl_engine::nixl_engine(const nixlBackendInitParams *init) : nixlBackendEngine(init)
{
	struct spw_kv_conf conf = {};

	conf.name = localAgent.data();
	conf.name_bytes = localAgent.size();
	/* Whatever NIXL asks for: its programs without a progress thread rely on a NIC that goes on
	 * by itself between calls which may be 10 ms apart. It sleeps when idle. */
	conf.thread = true;
	for (const auto &[key, value] : *init->customParams)
		engine_take(key, value, &conf.xfer);
	initErr = status_logged(nixl_agent_open(&conf, &agent), "open") != NIXL_SUCCESS;
	kv = agent ? agent->kv : nullptr;
}

/* ---- agents ---- */

nixl_status_t nixl_engine::getConnInfo(std::string &out) const
{
	return status_guarded("connection info", [&] {
		out.assign((const char *)agent->info.byte, sizeof(agent->info.byte));
		return NIXL_SUCCESS;
	});
}

nixl_status_t nixl_engine::loadRemoteConnInfo(const std::string &peer, const std::string &info)
{
	return status_logged(
		spw_kv_peer_load(kv, peer.data(), peer.size(), info.data(), info.size()),
		"load an agent");
}

/* A connection that does not stand yet comes to stand in later calls. */
nixl_status_t nixl_engine::connect(const std::string &peer)
{
	const int rc = spw_kv_peer_connect(kv, peer.data(), peer.size());

	return rc == -EAGAIN ? NIXL_SUCCESS : status_logged(rc, "connect");
}

nixl_status_t nixl_engine::disconnect(const std::string &peer)
{
	const int rc = peer == localAgent ? 0 : spw_kv_peer_drop(kv, peer.data(), peer.size());
	const nixl_status_t status = status_logged(rc, "disconnect");

	nixl_agent_sweep(agent);
	return status;
}

/* ---- memory ---- */

nixl_status_t nixl_engine::registerMem(const nixlBlobDesc &desc, const nixl_mem_t &type,
				       nixlBackendMD *&out)
{
	return status_guarded("register memory", [&] {
		auto memory = std::make_unique<nixl_memory>(desc.addr, desc.len);
		const bool vram = type == VRAM_SEG;
		int rc = vram || type == DRAM_SEG ? 0 : spw_err(EOPNOTSUPP, "of type %d", type);

		rc = rc ? rc : nixl_agent_reg(agent, vram, desc.addr, desc.len, &memory->mem);

		out = rc ? nullptr : memory.release();
		return status_logged(rc, "register memory");
	});
}

nixl_status_t nixl_engine::deregisterMem(nixlBackendMD *in)
{
	return status_guarded("deregister memory", [&] {
		const std::unique_ptr<nixl_memory> memory(static_cast<nixl_memory *>(in));

		if (memory->own) { /* NIXL unloads it later */
			nixl_agent_drop(agent, memory->own->region);
			memory->own->region = nullptr;
			memory->own->of = nullptr;
		}
		return status_logged(nixl_agent_dereg(agent, memory->mem), "deregister memory");
	});
}

nixl_status_t nixl_engine::getPublicData(const nixlBackendMD *in, std::string &out) const
{
	return status_guarded("public data", [&] {
		struct spw_xfer_blob blob;

		spw_kv_mem_blob(static_cast<const nixl_memory *>(in)->mem, &blob);
		out.assign((const char *)blob.byte, sizeof(blob.byte));
		return NIXL_SUCCESS;
	});
}

nixl_status_t nixl_engine::loadRemoteMD(const nixlBlobDesc &desc, const nixl_mem_t &,
					const std::string &peer, nixlBackendMD *&out)
{
	return status_guarded("load memory of an agent", [&] {
		auto region = std::make_unique<nixl_region>(desc.addr);
		const int rc = spw_kv_region_load(kv, peer.data(), peer.size(),
						  desc.metaInfo.data(), desc.metaInfo.size(),
						  desc.len, &region->region);

		out = rc ? nullptr : region.release();
		return status_logged(rc, "load memory of an agent");
	});
}

nixl_status_t nixl_engine::loadLocalMD(nixlBackendMD *in, nixlBackendMD *&out)
{
	return status_guarded("load own memory", [&] {
		auto *memory = static_cast<nixl_memory *>(in);
		auto region = std::make_unique<nixl_region>(memory->addr);
		struct spw_xfer_blob blob;
		int rc;

		spw_kv_mem_blob(memory->mem, &blob);
		rc = memory->own ? spw_err(EEXIST, "it is loaded already")
				 : spw_kv_region_load(kv, localAgent.data(), localAgent.size(),
						      blob.byte, sizeof(blob.byte), memory->bytes,
						      &region->region);
		if (!rc) {
			region->of = memory;
			memory->own = region.get();
		}
		out = rc ? nullptr : region.release();
		return status_logged(rc, "load own memory");
	});
}

nixl_status_t nixl_engine::unloadMD(nixlBackendMD *in)
{
	return status_guarded("unload memory", [&] {
		const std::unique_ptr<nixl_region> region(static_cast<nixl_region *>(in));

		if (region->of)
			region->of->own = nullptr;
		nixl_agent_drop(agent, region->region);
		nixl_agent_sweep(agent);
		return NIXL_SUCCESS;
	});
}

/* ---- transfers ---- */

static int request_fill(struct spw_kv *kv, nixl_xfer_op_t op, const nixl_meta_dlist_t &local,
			const nixl_meta_dlist_t &remote, const std::string &peer,
			nixl_request *request)
{
	std::vector<struct spw_kv_near> near((size_t)local.descCount());
	std::vector<struct spw_kv_far> far((size_t)remote.descCount());
	struct spw_kv_lists lists = {};

	for (size_t i = 0; i < near.size(); i++) {
		const nixlMetaDesc &desc = local[i];
		const auto *memory = static_cast<const nixl_memory *>(desc.metadataP);

		near[i] = {memory->mem, reinterpret_cast<void *>(desc.addr), desc.len};
	}
	for (size_t i = 0; i < far.size(); i++) {
		const nixlMetaDesc &desc = remote[i];
		const auto *region = static_cast<const nixl_region *>(desc.metadataP);

		far[i] = {region->region, desc.addr - region->addr, desc.len};
	}
	lists.near = near.data();
	lists.far = far.data();
	lists.near_cnt = (uint32_t)near.size();
	lists.far_cnt = (uint32_t)far.size();
	lists.write = op == NIXL_WRITE;
	return spw_kv_transfer_make(kv, peer.data(), peer.size(), &lists, &request->transfer);
}

nixl_status_t nixl_engine::prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
				    const nixl_meta_dlist_t &remote, const std::string &peer,
				    nixlBackendReqH *&handle, const nixl_opt_b_args_t *) const
{
	return status_guarded("make a transfer", [&] {
		auto request = std::make_unique<nixl_request>();
		const int rc = request_fill(kv, op, local, remote, peer, request.get());

		handle = rc ? nullptr : request.release();
		return status_logged(rc, "make a transfer");
	});
}

/* The lists are those of prepXfer. */
nixl_status_t nixl_engine::postXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &,
				    const nixl_meta_dlist_t &, const std::string &,
				    nixlBackendReqH *&handle, const nixl_opt_b_args_t *args) const
{
	auto *request = static_cast<nixl_request *>(handle);
	const bool notes = args && args->hasNotif;
	int rc;

	if (!request)
		return status_logged(spw_err(EINVAL, "no transfer was made"), "post a transfer");
	rc = spw_kv_post(request->transfer, notes ? args->notifMsg.data() : nullptr,
			 notes ? args->notifMsg.size() : 0);
	request->logged = false;
	return rc ? status_logged(rc, "post a transfer") : NIXL_IN_PROG;
}

nixl_status_t nixl_engine::checkXfer(nixlBackendReqH *handle) const
{
	auto *request = static_cast<nixl_request *>(handle);
	const int rc = spw_kv_check(request->transfer);

	if (!rc || rc == -EAGAIN || request->logged)
		return nixl_status(rc);
	request->logged = true;
	return status_logged(rc, "a transfer");
}

/* A transfer that is under way frees itself later, and deregisterMem waits for that. */
nixl_status_t nixl_engine::releaseReqH(nixlBackendReqH *handle) const
{
	const std::unique_ptr<nixl_request> request(static_cast<nixl_request *>(handle));

	nixl_agent_release(agent, request->transfer);
	nixl_agent_sweep(agent);
	return NIXL_SUCCESS;
}

/* ---- notifications ---- */

nixl_status_t nixl_engine::getNotifs(notif_list_t &list)
{
	return status_guarded("notifications", [&] {
		struct spw_kv_note *note;
		int rc = 0;

		while (list.size() < NOTES_MAX && !(rc = spw_kv_note_take(kv, &note))) {
			const std::unique_ptr<struct spw_kv_note, void (*)(struct spw_kv_note *)>
				owner(note, spw_kv_note_free);

			list.emplace_back(std::string((const char *)note->name, note->name_bytes),
					  std::string((const char *)note->text, note->bytes));
		}
		return rc == -EAGAIN ? NIXL_SUCCESS : status_logged(rc, "notifications");
	});
}

/* NIXL has no answer for "try again". */
nixl_status_t nixl_engine::genNotif(const std::string &peer, const std::string &text) const
{
	int rc = spw_kv_notify(kv, peer.data(), peer.size(), text.data(), text.size());

	if (rc == -EAGAIN)
		rc = spw_err(ENOBUFS, "agent %s does not take what was sent before", peer.c_str());
	return status_logged(rc, "notify");
}

/* ---- the plugin ---- */

static nixlBackendEngine *plugin_create(const nixlBackendInitParams *init)
{
	try {
		return new nixl_engine(init);
	} catch (const std::exception &error) {
		spw_warn("open: %s", error.what());
	}
	return nullptr;
}

static nixl_b_params_t plugin_options()
{
	nixl_b_params_t options;

	for (const auto &known : engine_keys)
		options[known.key] = "";
	return options;
}

/* The table is fixed, and so is where lines go: NIXL asks once, and never unloads the library. */
nixlBackendPlugin *nixl_plugin_init()
{
	static nixlBackendPlugin plugin = {
		NIXL_PLUGIN_API_VERSION,
		plugin_create,
		[](nixlBackendEngine *engine) { delete engine; },
		[]() { return "SPINWIRE"; },
		[]() { return SPW_VERSION; },
		plugin_options,
		[]() {
			return nixl_mem_list_t{DRAM_SEG, VRAM_SEG};
		},
	};

	nixl_log_start();
	return &plugin;
}

void nixl_plugin_fini() {}
