/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Objects as DLPack tensors: both structs that consumers know, a deleter that needs no Python, and
 * the destructor of a PyCapsule that nobody took its tensor out of.
 * Source of layouts and numbers: DLPack 1.0, dlpack.h; names of capsules: its Python specification.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "tensor/tensor.h"

#define DL_CPU   1
#define DL_CUDA  2
#define DL_MAJOR 1u

struct dl_tensor {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t type_code, type_bits;
	uint16_t type_lanes;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};
SPW_ASSERT_SIZE(struct dl_tensor, 48);

struct dl_managed {
	struct dl_tensor tensor;
	void *context;
	void (*deleter)(struct dl_managed *self);
};
SPW_ASSERT_SIZE(struct dl_managed, 64);

struct dl_versioned {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct dl_versioned *self);
	uint64_t flags;
	struct dl_tensor tensor;
};
SPW_ASSERT_SIZE(struct dl_versioned, 80);

/* What an export allocates, once: the tensor that the consumer gets, what it points to, and the way
 * back to the object. The managed struct is at offset 0, so its address is that of the export. */
struct dl_export {
	union {
		struct dl_managed managed;
		struct dl_versioned versioned;
	};
	struct spw_tensor_stream *stream;
	uint32_t buffer;
	int64_t shape[SPW_OBJ_DIM_MAX], strides[SPW_OBJ_DIM_MAX];
};

/* May run in any thread, with or without Python's lock, and after spw_tensor_close: the stream is
 * freed only with the last reference to its last object, which tensor_drop may be returning. */
static void export_free(struct dl_export *export)
{
	tensor_drop(export->stream, export->buffer);
	free(export);
}

static void managed_delete(struct dl_managed *self)
{
	export_free(spw_container_of(self, struct dl_export, managed));
}

static void versioned_delete(struct dl_versioned *self)
{
	export_free(spw_container_of(self, struct dl_export, versioned));
}

/* Shape and strides are copied, since the page is shared memory and a consumer may use them for as
 * long as it owns the tensor. Strides count elements, as in the page. */
static void export_fill(struct dl_export *export, const struct spw_tensor *tensor,
			const struct spw_tensor_export *how)
{
	const struct spw_obj_shape *shape = &spw_tensor_page(export->stream)->shape;
	const struct dl_tensor t = {
		.data = how->cuda ? (void *)(uintptr_t)tensor->cuda : tensor->data,
		.device_type = how->cuda ? DL_CUDA : DL_CPU,
		.device_id = how->cuda ? spw_tensor_gpu(export->stream) : 0,
		.ndim = shape->ndim,
		.type_code = shape->type_code,
		.type_bits = shape->type_bits,
		.type_lanes = 1,
		.shape = export->shape,
		.strides = export->strides,
	};

	for (uint32_t i = 0; i < shape->ndim; i++) {
		export->shape[i] = shape->dim[i];
		export->strides[i] = shape->stride[i];
	}
	if (how->versioned)
		export->versioned = (struct dl_versioned){
			.major = DL_MAJOR, .deleter = versioned_delete, .tensor = t};
	else
		export->managed = (struct dl_managed){.tensor = t, .deleter = managed_delete};
}

/* The CUDA stream is noted before the reference is taken: an object whose last reference is dropped
 * waits only for the streams that were noted by then. */
int spw_tensor_dlpack(struct spw_tensor_stream *stream, const struct spw_tensor *tensor,
		      const struct spw_tensor_export *how, void **managed_out)
{
	struct dl_export *export;
	int rc;

	if (!how->cuda && !stream->memory)
		return spw_err(ENOTSUP, "stream %s lies in a GPU's own memory: export it for CUDA",
			       spw_tensor_page(stream)->name);
	rc = how->cuda ? spw_tensor_record(stream, tensor, how->cuda_stream) : 0;

	if (!rc)
		rc = tensor_keep(stream, tensor);
	if (rc)
		return rc;
	export = calloc(1, sizeof(*export));
	if (!export) {
		tensor_drop(stream, tensor->buffer);
		return spw_err(ENOMEM, "no memory for a tensor");
	}
	export->stream = stream;
	export->buffer = tensor->buffer;
	export_fill(export, tensor, how);
	*managed_out = export;
	return 0;
}

/* ---- Python's capsules ---- */

/* Set once by the Python package, before its first capsule: it passes the interpreter's own
 * functions, so that this library serves every version of Python. */
static int (*capsule_is_valid)(void *capsule, const char *name);
static void *(*capsule_pointer)(void *capsule, const char *name);

const char *spw_tensor_capsule_name(bool versioned)
{
	return versioned ? "dltensor_versioned" : "dltensor";
}

void spw_tensor_capsule_calls(int (*is_valid)(void *capsule, const char *name),
			      void *(*pointer)(void *capsule, const char *name))
{
	capsule_is_valid = is_valid;
	capsule_pointer = pointer;
}

/* A consumer that took the tensor has renamed the capsule to "used_dltensor" and calls the deleter
 * itself: the name alone says who owns the tensor. */
void spw_tensor_capsule_free(void *capsule)
{
	for (int versioned = 0; versioned < 2; versioned++) {
		const char *name = spw_tensor_capsule_name(versioned);

		if (capsule_is_valid(capsule, name)) {
			export_free(capsule_pointer(capsule, name));
			return;
		}
	}
}
