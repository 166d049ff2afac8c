/* SPDX-License-Identifier: MIT */
/*
 * Errors with a sentence.  Functions that can fail return 0 or more on success and -E... on
 * failure; those whose failure a person may read take a `struct err *err` as their last parameter.
 * It is owned by the caller, needs no allocation, and may be NULL when nobody will read it.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

struct err {
	int code;       /* negative errno */
	char msg[232];  /* one sentence a user may read; no secrets, no host paths */
	const char *at; /* "file:line" where it was first set; static storage */
};

/**
 * err_set() - fill an error
 * @err:	borrowed, may be NULL
 * @code:	negative errno
 *
 * Any thread.  Return: @code.
 */
#define err_set(err, code, ...) err_set_((err), (code), ERR_AT_, __VA_ARGS__)

/**
 * err_wrap() - put context in front of an error that is already set
 *
 * "workspace 'w'" before "open 'x': No such file" gives "workspace 'w': open 'x': No such file".
 * When nothing was set the text of errno @code stands in.  Any thread.  Return: @code.
 */
#define err_wrap(err, code, ...) err_wrap_((err), (code), ERR_AT_, __VA_ARGS__)

int err_set_(struct err *err, int code, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int err_wrap_(struct err *err, int code, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define ERR_STR2_(x) #x
#define ERR_STR_(x)  ERR_STR2_(x)
#define ERR_AT_      __FILE__ ":" ERR_STR_(__LINE__)

#endif
