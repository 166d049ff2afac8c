/* SPDX-License-Identifier: MIT */
/* System call filters of our own processes (libseccomp). */
#ifndef BROKER_SECCOMP_RULES_H
#define BROKER_SECCOMP_RULES_H

#include "base/err.h"

/* seccomp_rules_main() - filter of the main process, for all its threads; needs no_new_privs.
 * What it does not know answers ENOSYS; execve, ptrace, mount, setns, bpf, keys, modules and the
 * like EPERM. */
int seccomp_rules_main(struct err *err);
/* seccomp_rules_broker() - filter of the broker */
int seccomp_rules_broker(struct err *err);
/* seccomp_rules_helper() - filter of the helper (helper.h), which its workers inherit */
int seccomp_rules_helper(struct err *err);
/* seccomp_rules_worker() - the narrower one that a worker puts on top: no further process, no
 * socket */
int seccomp_rules_worker(struct err *err);

#endif
