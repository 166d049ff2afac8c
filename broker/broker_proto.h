/* SPDX-License-Identifier: MIT */
/*
 * What the main process and the broker say to each other: one request and one reply of fixed size,
 * each one packet of a SOCK_SEQPACKET socket, so that there is nothing to parse.  Descriptors
 * travel beside them.  Both ends are the same program, forked, so the structs need no byte order.
 */
#ifndef BROKER_BROKER_PROTO_H
#define BROKER_BROKER_PROTO_H

#include <stdint.h>

#include "base/err.h"

enum broker_op {
	BROKER_PROBE_HANDLES, /* can kernel handles be opened in the data directory? */
	BROKER_REGISTER,      /* ws_key; bytes = the id as text */
	BROKER_UNREGISTER,    /* ws_key */
	BROKER_OPEN_HANDLE,   /* ws_key, htype; bytes = the handle; gives a descriptor back */
	BROKER_OPEN_FILE,     /* ws_key, flags; takes a descriptor, gives one back */
	BROKER_ADOPT,         /* ws_key, with a path behind it; gives a descriptor back */
	BROKER_N_OPS
};

#define BROKER_BYTES_MAX 128 /* MAX_HANDLE_SZ of the kernel; an id has 36 */

struct broker_request {
	uint32_t op;   /* enum broker_op */
	int32_t htype; /* type of a kernel handle */
	uint64_t ws_key;
	uint32_t flags;   /* open(2) flags: O_RDONLY or O_RDWR */
	uint32_t n_bytes; /* used of @bytes */
	uint8_t bytes[BROKER_BYTES_MAX];
};

#define BROKER_PATH_MAX 4096 /* bytes with NUL */

/* BROKER_ADOPT is the one request that is longer. */
struct broker_adopt {
	struct broker_request head;
	char path[BROKER_PATH_MAX];
};

struct broker_reply {
	int32_t rc; /* 0 or negative errno; with 0 the descriptor, if the operation gives one, is
		       beside */
};

/* Sent once by the broker, unasked, when it has given up what it does not need and is ready. */
struct broker_hello {
	int32_t rc;
	char msg[sizeof(((struct err *)0)->msg)]; /* why not, when rc < 0 */
};

#endif
