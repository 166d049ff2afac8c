/* SPDX-License-Identifier: MIT */
/*
 * Lets the user-mode Linux kernel run on processors whose register state is larger than its buffer.
 *
 * User-mode Linux 6.1 keeps the floating point and vector registers of its processes in 2696 bytes:
 * x87, SSE, AVX and AVX-512.  A processor with AMX (Sapphire Rapids and later) has 11008 bytes of
 * state.  Reading a part of it is allowed, but ptrace(PTRACE_SETREGSET) takes the whole or nothing:
 * it answers EFAULT, and the guest's first process dies with "ptrace set fp regs failed, errno =
 * 14".
 *
 * This library is preloaded into the uml kernel (an ordinary dynamic program) and widens what it
 * hands over to the size that the host wants, with zeros: "unused", which is true of AMX unless a
 * process asked for it.  On other processors nothing changes.  uml calls ptrace from one thread
 * only, hence the static buffer.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static unsigned char wide[1 << 16];
static size_t full_size; /* bytes of the host's state; 0 until asked */

/* The state's size: what a read into a buffer that is surely large enough says. */
static size_t ask_full_size(long pid)
{
	struct iovec iov = { wide, sizeof(wide) };

	if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &iov) < 0)
		return 0;
	return iov.iov_len;
}

/* ptrace() as the C library has it: the system call returns what PEEK requests read through a
 * pointer. */
static long plain_ptrace(enum __ptrace_request request, long pid, long addr, void *data)
{
	long word, rc;

	if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
		return syscall(SYS_ptrace, (long)request, pid, addr, data);
	rc = syscall(SYS_ptrace, (long)request, pid, addr, &word);
	if (rc < 0)
		return rc;
	errno = 0;
	return word;
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list ap;
	long pid, addr;
	void *data;
	struct iovec *narrow, iov;

	va_start(ap, request);
	pid = va_arg(ap, int);
	addr = va_arg(ap, long);
	data = va_arg(ap, void *);
	va_end(ap);

	if (request != PTRACE_SETREGSET || addr != NT_X86_XSTATE)
		return plain_ptrace(request, pid, addr, data);
	if (full_size == 0)
		full_size = ask_full_size(pid);
	narrow = data;
	if (full_size <= narrow->iov_len)
		return plain_ptrace(request, pid, addr, data);
	memcpy(wide, narrow->iov_base, narrow->iov_len);
	memset(wide + narrow->iov_len, 0, full_size - narrow->iov_len);
	iov.iov_base = wide;
	iov.iov_len = full_size;
	return syscall(SYS_ptrace, (long)request, pid, addr, &iov);
}
