/* SPDX-License-Identifier: MIT */
/* Small wrappers over system calls: whole reads and writes, descriptors over sockets, numbers from
 * text. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Retry on EINTR and short counts.  Return: bytes (less than @n only at end of file) or -errno. */
ssize_t io_read_full(int fd, void *p, size_t n);
ssize_t io_write_full(int fd, const void *p, size_t n);
ssize_t io_pread_full(int fd, void *p, size_t n, off_t off);
ssize_t io_pwrite_full(int fd, const void *p, size_t n, off_t off);

/**
 * io_read_file() - a small file whole, NUL-terminated
 * @dirfd:	where @path is relative to (AT_FDCWD allowed)
 * @max:	bytes; a larger file is -EFBIG
 * @ret:	owned by the caller on success
 *
 * For trusted paths of the operator only, never for a client's path.
 */
int io_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
		 struct err *err);

/* io_write_file_atomic() - temporary name, fsync, rename, fsync of the folder. */
int io_write_file_atomic(int dirfd, const char *path, const void *p, size_t n, mode_t mode,
			 struct err *err);

/* io_mkdir_p() - every missing folder of a trusted @path with @mode; what exists is left as it is.
 */
int io_mkdir_p(const char *path, mode_t mode, struct err *err);

/* io_open_dir() - a folder of a trusted path, for reading; links in it are the operator's.  fd or
 * -errno. */
int io_open_dir(int dirfd, const char *path);

/* io_count_entries() - entries of a trusted folder but "." and "..", or -errno */
ssize_t io_count_entries(const char *path);

int io_set_nonblock(int fd, bool on);

/* Send/receive one message with at most @n_fds descriptors over a SOCK_SEQPACKET socket.
 * Received descriptors are close-on-exec and owned by the caller; surplus ones are closed.
 * *@n_fds of io_recv_fds(): in, the room in @fds; out, how many came.
 * Return: bytes, 0 at end of file, or -errno (-EMSGSIZE: the message was longer than @n and is
 * lost). */
#define IO_FDS_MAX 4
ssize_t io_send_fds(int sock, const void *p, size_t n, const int *fds, size_t n_fds);
ssize_t io_recv_fds(int sock, void *p, size_t n, int *fds, size_t *n_fds);

/**
 * io_parse_u64() - the one way from text to number
 *
 * Decimal digits only, the whole string, within [@min, @max].  Return: 0, -EINVAL or -ERANGE.
 */
int io_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* io_random() - bytes from getrandom(2); aborts when the kernel has none (start-up of the machine).
 */
void io_random(void *p, size_t n);

#endif
