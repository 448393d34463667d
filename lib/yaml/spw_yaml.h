/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * YAML files as a user writes them (spinwire's configuration, descriptions of streams): one
 * document of mappings, lists and values. libyaml's document interface keeps line and column of
 * every node, so each error begins "FILE:LINE:COLUMN: ".
 *
 *   spw_yaml_load ──> root mapping ──> each pair: spw_yaml_key finds the key in its user's table,
 *                                      spw_yaml_set puts the value into a field (lib/opt)
 *
 * Untrusted bytes: text of any content ends in a message. Anchors and aliases work; merge keys,
 * tags and several documents are refused. Depth is limited before a document is built, so a walk
 * along a table of finite depth ends at an alias to its own parent with a wrong type.
 */
#ifndef SPW_YAML_H
#define SPW_YAML_H

#include <yaml.h>

#include "base/spw_types.h"
#include "opt/spw_opt.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_YAML_NAME_BYTES 512u

struct spw_yaml {
	char name[SPW_YAML_NAME_BYTES]; /* stands where FILE would */
	yaml_document_t doc;
};

/* Purpose: builds the document of a text, or of the file at path.
 * Shape:   any bytes, NUL included. what: the kind of file, for errors of the file itself.
 * Owner:   the caller, until spw_yaml_free; there is nothing to free after an error.
 *          Its root is a mapping, or there is none: the text is empty.
 * Errors:  -EINVAL with the place, -EFBIG, -ENOMEM, -errno of the file.
 * Thread:  setup */
int spw_yaml_load(struct spw_yaml *yaml_out, const char *name, const char *text, size_t bytes);
int spw_yaml_load_file(struct spw_yaml *yaml_out, const char *what, const char *path);
void spw_yaml_free(struct spw_yaml *yaml);

/* Purpose: the document's root, a mapping; NULL: the text is empty.
 * Lifetime: until spw_yaml_free.
 * Thread:  setup */
const yaml_node_t *spw_yaml_root(const struct spw_yaml *yaml);

/* Purpose: the pair of a mapping, or the item of a list, at a place of the file's order.
 * Shape:   a node that spw_yaml_expect_mapping or _list took; idx from 0.
 * Returns: false or NULL: there are no more.
 * Lifetime: until spw_yaml_free.
 * Thread:  setup */
bool spw_yaml_pair(const struct spw_yaml *yaml, const yaml_node_t *mapping, size_t idx,
		   const yaml_node_t **key_out, const yaml_node_t **value_out);
const yaml_node_t *spw_yaml_item(const struct spw_yaml *yaml, const yaml_node_t *list, size_t idx);

/* Purpose: the text of a value.
 * Shape:   a node that spw_yaml_expect_value took.
 * Thread:  setup */
const char *spw_yaml_text(const yaml_node_t *node);

/* Purpose: puts "FILE:LINE:COLUMN: " in front of the error rc, the text of which stands already.
 * Returns: rc.
 * Thread:  setup */
int spw_yaml_fail(const struct spw_yaml *yaml, const yaml_node_t *node, int rc);

/* Purpose: every node that is used passes one of these: it is of that kind, without a tag of its
 *          own, and a value has no NUL byte. want: what is wanted, in words.
 * Errors:  -EINVAL with the place.
 * Thread:  setup */
int spw_yaml_expect_mapping(const struct spw_yaml *yaml, const yaml_node_t *node);
int spw_yaml_expect_list(const struct spw_yaml *yaml, const yaml_node_t *node, const char *want);
int spw_yaml_expect_value(const struct spw_yaml *yaml, const yaml_node_t *node, const char *want);

/* Names of keys: name_of(i, arg) for i below cnt; NULL leaves one out. cnt: 64 at most. */
struct spw_yaml_names {
	const char *(*name_of)(uint32_t idx, const void *arg);
	const void *arg;
	uint32_t cnt;
};

/* Purpose: finds the key of a pair among names, each at most once a mapping.
 * Shape:   inside: the mapping's name in messages; *seen: 0 at the mapping's first pair.
 * Errors:  -EINVAL with the place: given twice, or unknown, with the name that was probably meant.
 * Thread:  setup */
int spw_yaml_key(const struct spw_yaml *yaml, const yaml_node_t *node, const char *inside,
		 const struct spw_yaml_names *names, uint64_t *seen, uint32_t *idx_out);

/* Purpose: puts a value into the option's field in base. A quoted text is taken only where text is
 *          wanted: seconds: "10" is more likely a mistake than a number.
 * Shape:   label: the key in messages; node: a value.
 * Errors:  -EINVAL with the place; those of spw_opt_set.
 * Thread:  setup */
int spw_yaml_set(const struct spw_yaml *yaml, const struct spw_opt *opt, const char *label,
		 void *base, const yaml_node_t *node);

#ifdef __cplusplus
}
#endif
#endif
