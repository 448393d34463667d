/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing firmware commands (DEVX): an input is a session of two contexts of one process. The real
 * control path executes it; the NIC behind it does nothing (nic_stub.c).
 *
 *   input: records of  u8 step, u8 object, u16 mailbox bytes, u16 opcode, u16 fields
 * (little-endian) each followed by its fields: u16 bit, u8 width, u8 is_object, u32 value
 *
 * A field goes to its bits of a mailbox of zeros. is_object: the value is an index into the objects
 * made so far, and the field gets its number, so that chains of objects survive mutation.
 */
#include <fcntl.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_call.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx/devx_prm.h"
#include "softhca/kernel/devx_events.h"
#include "softhca/kernel/kernel.h"

#define OBJECTS   32u
#define BOX_BYTES 1024u

enum step {
	CREATE,
	MODIFY,
	QUERY,
	OTHER,
	DESTROY,
	UMEM,
	UNUMEM,
	PAGE,
	EQN,
	SWAP,
	CHANNEL,
	SUBSCRIBE,
	ASYNC,
	RAISE,
	READ,
	CLOSE,
	STEPS
};

struct record {
	uint8_t step, object;
	uint16_t in_bytes, opcode, fields;
};

struct field {
	uint16_t bit;
	uint8_t width, is_object;
	uint32_t value;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct hca_cfg cfg;
static struct hca_dev *devs;
static struct {
	uint64_t handle;
	uint32_t number;
} objects[OBJECTS];
static uint32_t object_cnt;

static void setup(void)
{
	void *at = mmap(FUZZ_ARENA, FUZZ_ARENA_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != FUZZ_ARENA || hca_cfg_parse("as=cx7", &cfg) || hca_devs_open(&cfg, &devs)) {
		fprintf(stderr, "fuzz_devx: cannot set up\n");
		exit(1);
	}
}

/* ---- calls, as rdma-core makes them ---- */

static void remember(uint64_t handle, uint32_t number)
{
	if (object_cnt < OBJECTS) {
		objects[object_cnt].handle = handle;
		objects[object_cnt++].number = number;
	}
}

static void open_context(struct hca_ctx **ctx_out)
{
	const struct mlx5_ib_alloc_ucontext_req_v2 drv = {.total_num_bfregs = 16,
							  .num_low_latency_bfregs = 4,
							  .flags = MLX5_IB_ALLOC_UCTX_DEVX,
							  .max_cqe_version = 1,
							  .lib_caps = MLX5_LIB_CAP_DYN_UAR};
	struct ib_uverbs_attr *a;

	if (hca_ctx_open(devs, ctx_out))
		abort();
	memcpy(IN_AT, &drv, sizeof(drv));
	a = call_start(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, 5);
	/* Up to 8 bytes would lie in the attribute, outside the arena. */
	a[0] = attr(UVERBS_ATTR_CORE_IN, 16, (uintptr_t)OUT_AT);
	a[1] = attr(UVERBS_ATTR_CORE_OUT, 8, (uintptr_t)OUT_AT);
	a[2] = attr(UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_GET_CONTEXT);
	a[3] = attr(UVERBS_ATTR_UHW_IN, sizeof(drv), (uintptr_t)IN_AT);
	a[4] = attr(UVERBS_ATTR_UHW_OUT, 72, (uintptr_t)OUT_AT + 64);
	if (uv_ioctl(*ctx_out, CALL_AT))
		abort();
}

/* DEVX_OBJ_*: a handle, and the mailboxes. Ids of the four methods are alike. */
static void run_object(struct hca_ctx *ctx, uint16_t method, uint64_t handle, uint16_t in_bytes)
{
	struct ib_uverbs_attr *a = call_start(MLX5_IB_OBJECT_DEVX_OBJ, method, 3);

	a[0] = attr(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, 0, handle);
	a[1] = attr(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, in_bytes, (uintptr_t)IN_AT);
	a[2] = attr(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, 4112, (uintptr_t)OUT_AT);
	if (in_bytes <= 8)
		memcpy(&a[1].data, IN_AT, 8);
	if (uv_ioctl(ctx, CALL_AT) == 0 && method == MLX5_IB_METHOD_DEVX_OBJ_CREATE)
		remember(a[0].data, (uint32_t)devx_get(OUT_AT, DEVX_OUT_NUMBER));
}

/* The first two fields are address and length, in the arena and about it. */
static void run_umem(struct hca_ctx *ctx, const struct field *f, uint32_t cnt)
{
	struct ib_uverbs_attr *a =
		call_start(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, 5);

	a[0] = attr(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, 0, 0);
	a[1] = attr(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, 8,
		    (uintptr_t)FUZZ_ARENA + (cnt > 0 ? f[0].value : 0));
	a[2] = attr(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, 8, cnt > 1 ? f[1].value : 65536);
	a[3] = attr(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, 4, cnt > 2 ? f[2].value : 1);
	a[4] = attr(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, 4, (uintptr_t)OUT_AT);
	if (uv_ioctl(ctx, CALL_AT) == 0) {
		uint32_t id;

		memcpy(&id, OUT_AT, sizeof(id));
		remember(a[0].data, id);
	}
}

static void run_page(struct hca_ctx *ctx, uint32_t kind)
{
	struct ib_uverbs_attr *a = call_start(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, 5);

	a[0] = attr(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0, 0);
	a[1] = attr(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, 8, kind & 1);
	a[2] = attr(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, 8, (uintptr_t)OUT_AT);
	a[3] = attr(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4, (uintptr_t)OUT_AT + 8);
	a[4] = attr(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 4, (uintptr_t)OUT_AT + 16);
	if (uv_ioctl(ctx, CALL_AT) == 0) {
		uint32_t id;

		memcpy(&id, OUT_AT + 16, sizeof(id));
		remember(a[0].data, id);
	}
}

static void run_handle(struct hca_ctx *ctx, uint16_t object, uint64_t handle)
{
	/* Both destroy methods have the same number, and so have their handles. */
	struct ib_uverbs_attr *a = call_start(object, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, 1);

	a[0] = attr(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, 0, handle);
	uv_ioctl(ctx, CALL_AT);
}

static void run_device(struct hca_ctx *ctx, uint16_t method, uint64_t in, uint16_t in_bytes)
{
	struct ib_uverbs_attr *a = call_start(MLX5_IB_OBJECT_DEVX, method, 2);

	a[0] = attr(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, in_bytes, in);
	a[1] = attr(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, method == MLX5_IB_METHOD_DEVX_OTHER ? 4112 : 4,
		    (uintptr_t)OUT_AT);
	uv_ioctl(ctx, CALL_AT);
}

/* ---- events: a channel is remembered by its descriptor ---- */

static void run_channel(struct hca_ctx *ctx, uint32_t flags, bool cmds)
{
	struct ib_uverbs_attr *a = call_start(
		cmds ? MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD : MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
		MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC, cmds ? 1 : 2);

	a[0] = attr(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, 0, 0);
	a[1] = attr(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, 4, flags);
	if (uv_ioctl(ctx, CALL_AT))
		return;
	fcntl((int)a[0].data, F_SETFL, O_RDWR | O_NONBLOCK);
	remember(a[0].data, (uint32_t)a[0].data);
}

/* The mailbox is the list of types. The first field: its value is the channel's index, and two bits
 * of its width say whether an object and an eventfd are named. */
static void run_subscribe(struct hca_ctx *ctx, uint64_t handle, const struct field *f, uint32_t cnt,
			  uint16_t bytes)
{
	const bool with_object = cnt > 0 && f[0].width & 1, to_eventfd = cnt > 1 && f[0].width & 2;
	struct ib_uverbs_attr *a = call_start(
		MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, with_object ? 4 : 3);

	a[0] = attr(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, 0,
		    objects[cnt > 0 ? f[0].value % OBJECTS : 0].handle);
	a[1] = attr(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, bytes, (uintptr_t)IN_AT);
	a[2] = to_eventfd ? attr(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, 4, f[1].value)
			  : attr(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, 8, handle);
	a[3] = attr(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, 0, handle);
	uv_ioctl(ctx, CALL_AT);
}

/* width of the first field: how long the answer may be. */
static void run_async(struct hca_ctx *ctx, uint64_t handle, const struct field *f, uint32_t cnt,
		      uint16_t in_bytes)
{
	struct ib_uverbs_attr *a =
		call_start(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY, 5);

	a[0] = attr(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, 0, handle);
	a[1] = attr(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, in_bytes, (uintptr_t)IN_AT);
	a[2] = attr(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD, 0,
		    objects[cnt > 0 ? f[cnt - 1].value % OBJECTS : 0].handle);
	a[3] = attr(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID, 8, handle);
	a[4] = attr(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, 8, cnt > 0 ? f[cnt - 1].bit : 272);
	if (in_bytes <= 8)
		memcpy(&a[1].data, IN_AT, 8);
	uv_ioctl(ctx, CALL_AT);
}

/* What the NIC raises of such an object. */
static void run_raise(struct hca_ctx *ctx, uint64_t handle, uint16_t which)
{
	struct hca_obj *o = hca_tbl_get(&ctx->objs, (uint32_t)handle);

	hca_lock(ctx->dev);
	if (!o)
		hca_event_port(ctx->dev, which & 1 ? HCA_EVENT_PORT_ACTIVE : HCA_EVENT_PORT_ERR);
	else if (o->type == HCA_CQ && which & 1)
		hca_event_comp((struct hca_cq *)o);
	else if (o->type == HCA_CQ)
		hca_event_cq((struct hca_cq *)o, HCA_EVENT_CQ_ERR);
	else if (o->type == HCA_WQ)
		hca_event_wq((struct hca_wq *)o, HCA_EVENT_WQ_FATAL);
	else if (o->type == HCA_QP)
		hca_event_qp((struct hca_qp *)o, HCA_EVENT_QP_FATAL);
	hca_unlock(ctx->dev);
}

static void run_read(uint64_t fd, uint16_t bytes)
{
	struct devx_file *f = devx_file_get(devs, (int)fd);

	if (f) {
		devx_file_read(f, OUT_AT, bytes);
		devx_file_put(f);
	}
}

static void run_close(uint64_t fd)
{
	if (devx_file_closed(devs, (int)fd))
		close((int)fd);
}

/* ---- records ---- */

static void fill_box(const struct record *r, const struct field *f, uint32_t cnt)
{
	memset(IN_AT, 0, BOX_BYTES);
	for (uint32_t i = 0; i < cnt; i++) {
		const uint32_t width = f[i].width % 65, bit = f[i].bit % (BOX_BYTES * 8 - 64);

		devx_put(IN_AT, bit << 8 | width,
			 f[i].is_object & 1 ? objects[f[i].value % OBJECTS].number : f[i].value);
	}
	devx_put(IN_AT, DEVX_IN_OPCODE, r->opcode);
}

static void run_events(struct hca_ctx *ctx, const struct record *r, const struct field *f,
		       uint32_t cnt)
{
	const uint64_t handle = objects[r->object % OBJECTS].handle;
	const uint16_t bytes = (uint16_t)SPW_MIN((uint32_t)r->in_bytes, BOX_BYTES);

	switch ((enum step)(r->step % STEPS)) {
	case CHANNEL:
		run_channel(ctx, r->opcode, r->object & 1);
		break;
	case SUBSCRIBE:
		run_subscribe(ctx, handle, f, cnt, bytes);
		break;
	case ASYNC:
		run_async(ctx, handle, f, cnt, bytes);
		break;
	case RAISE:
		run_raise(ctx, handle, r->opcode);
		break;
	case READ:
		run_read(handle, bytes);
		break;
	case CLOSE:
		run_close(handle);
		break;
	default:
		break;
	}
}

static void run_record(struct hca_ctx **ctx, const struct record *r, const struct field *f,
		       uint32_t cnt)
{
	const uint64_t handle = objects[r->object % OBJECTS].handle;
	const uint16_t in_bytes = (uint16_t)SPW_MIN((uint32_t)r->in_bytes, BOX_BYTES);

	fill_box(r, f, cnt);
	switch ((enum step)(r->step % STEPS)) {
	case CREATE:
		run_object(ctx[0], MLX5_IB_METHOD_DEVX_OBJ_CREATE, 0, in_bytes);
		break;
	case MODIFY:
		run_object(ctx[0], MLX5_IB_METHOD_DEVX_OBJ_MODIFY, handle, in_bytes);
		break;
	case QUERY:
		run_object(ctx[0], MLX5_IB_METHOD_DEVX_OBJ_QUERY, handle, in_bytes);
		break;
	case OTHER:
		run_device(ctx[0], MLX5_IB_METHOD_DEVX_OTHER, (uintptr_t)IN_AT, in_bytes);
		break;
	case DESTROY:
		run_handle(ctx[0], MLX5_IB_OBJECT_DEVX_OBJ, handle);
		break;
	case UMEM:
		run_umem(ctx[0], f, cnt);
		break;
	case UNUMEM:
		run_handle(ctx[0], MLX5_IB_OBJECT_DEVX_UMEM, handle);
		break;
	case PAGE:
		run_page(ctx[0], r->opcode);
		break;
	case EQN:
		run_device(ctx[0], MLX5_IB_METHOD_DEVX_QUERY_EQN, r->opcode, 4);
		break;
	case SWAP: {
		struct hca_ctx *first = ctx[0];

		ctx[0] = ctx[1];
		ctx[1] = first;
		break;
	}
	default:
		run_events(ctx[0], r, f, cnt);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hca_ctx *ctx[2];
	struct field f[64];
	struct record r;
	int fd;

	if (!devs)
		setup();
	memset(FUZZ_ARENA, 0, 65536);
	memset(objects, 0, sizeof(objects));
	object_cnt = 0;
	fd = dup(0);
	open_context(&ctx[0]);
	open_context(&ctx[1]);
	while (size >= sizeof(r)) {
		size_t cnt;

		memcpy(&r, data, sizeof(r));
		data += sizeof(r);
		size -= sizeof(r);
		cnt = SPW_MIN((size_t)r.fields % SPW_ARRAY_CNT(f), size / sizeof(f[0]));
		memcpy(f, data, cnt * sizeof(f[0]));
		data += cnt * sizeof(f[0]);
		size -= cnt * sizeof(f[0]);
		run_record(ctx, &r, f, (uint32_t)cnt);
	}
	hca_ctx_close(ctx[0]);
	hca_ctx_close(ctx[1]);
	devx_files_free(devs);
	for (int i = fd; i < fd + 192; i++) /* what the contexts opened */
		close(i);
	return 0;
}
