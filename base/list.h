/* SPDX-License-Identifier: MIT */
/* Intrusive doubly linked list with a head node; an unlinked node points at itself. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(name)                                                                            \
	{                                                                                          \
		&(name), &(name)                                                                   \
	}
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define list_entry(ptr, type, member)   container_of(ptr, type, member)

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list *head, struct list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

static inline void list_add_head(struct list *head, struct list *n)
{
	list_add_tail(head->next, n);
}

static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#define list_for_each(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)
/* The current entry may be removed while walking. */
#define list_for_each_safe(pos, tmp, head)                                                         \
	for (pos = (head)->next, tmp = pos->next; pos != (head); pos = tmp, tmp = pos->next)

#endif
