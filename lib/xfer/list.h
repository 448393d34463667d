/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: lists whose links lie in their entries; a list's head is a link of its own.
 * Thread of all: the owner of the list.
 */
#ifndef SPW_XFER_LIST_H
#define SPW_XFER_LIST_H

#include "base/spw_types.h"

struct xfer_list {
	struct xfer_list *next, *prev;
};

SPW_INLINE void xfer_list_init(struct xfer_list *l)
{
	l->next = l->prev = l;
}
SPW_INLINE void xfer_list_add(struct xfer_list *head, struct xfer_list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}
SPW_INLINE void xfer_list_del(struct xfer_list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	xfer_list_init(l);
}

#endif
