/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What documents say of descriptions, from the tables by which they are read. tools/objects_page.c
 * asks for one key after the other and writes spinwire-objects(5), so a key that a reader takes
 * cannot lack its help, and the page cannot name one that no reader takes.
 *
 *   idx  0 ...        root | part | items | segments | how objects are kept    then false
 *                     struct desc_key: name, help    | struct spw_opt: range and default too
 *
 * The last table is lib/opt's, because these keys are plain values with a field each. A new section
 * is a row of desc_section; the order of the rows is that of the page.
 */
#include "obj/desc.h"

/* The tables whose keys have a reader of their own. */
static const struct {
	const char *section;
	const struct desc_key *key;
	uint32_t cnt;
} desc_section[] = {{"the description", desc_root_key, DESC_ROOT_CNT},
		    {"a part of the header", desc_part_key, DESC_PART_CNT},
		    {"items", desc_items_key, DESC_ITEMS_CNT},
		    {"segments", desc_segments_key, DESC_SEGMENTS_CNT}};

/* idx counts over all tables: each one that is passed over takes its keys off, until it is an index
 * into one. */
bool spw_obj_desc_key(uint32_t idx, struct spw_obj_desc_key *key_out)
{
	*key_out = (struct spw_obj_desc_key){.section = "how objects are kept"};
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(desc_section); idx -= desc_section[i++].cnt) {
		if (idx >= desc_section[i].cnt)
			continue;
		key_out->section = desc_section[i].section;
		key_out->name = desc_section[i].key[idx].name;
		key_out->help = desc_section[i].key[idx].help;
		return true;
	}
	if (idx >= DESC_RULE_CNT)
		return false;
	key_out->name = desc_rule_opt[idx].key;
	key_out->help = desc_rule_opt[idx].help;
	key_out->dflt = desc_rule_opt[idx].dflt;
	spw_opt_range(&desc_rule_opt[idx], key_out->range, sizeof(key_out->range));
	return true;
}

const char *spw_obj_desc_format(uint32_t idx)
{
	return idx < format_cnt() ? format_name(idx, NULL) : NULL;
}
