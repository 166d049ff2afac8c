/* SPDX-License-Identifier: MIT */
/*
 * Runs a program without some system calls, so that fallbacks are tested on a host that has them
 *all:
 *
 *	deny open_by_handle_at,name_to_handle_at=EPERM openat2=ENOSYS -- program arguments...
 *
 * Each word is a comma list of calls with the error they shall give (ENOSYS when left out).
 * Built by the tests that use it: cc -o deny deny.c -lseccomp
 */
#define _GNU_SOURCE
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	int code;
} errors[] = {
	{ "ENOSYS", ENOSYS }, { "EPERM", EPERM }, { "EOPNOTSUPP", EOPNOTSUPP }, { "EINVAL", EINVAL }
};

static int error_code(const char *name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(errors[i].name, name) == 0)
			return errors[i].code;
	return -1;
}

/* One word of the command line; it is cut into pieces.  0, or -1 when it makes no sense. */
static int add_rules(scmp_filter_ctx ctx, char *word)
{
	char *equals = strchr(word, '=');
	int code = equals ? error_code(equals + 1) : ENOSYS;
	char *save = NULL;

	if (code < 0)
		return -1;
	if (equals)
		*equals = '\0';
	for (char *p = strtok_r(word, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		int nr = seccomp_syscall_resolve_name(p);

		if (nr == __NR_SCMP_ERROR ||
		    seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)code), nr, 0) < 0)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (ctx == NULL || add_rules(ctx, argv[i]) < 0) {
			fprintf(stderr, "deny: '%s' is no list of system calls\n", argv[i]);
			return 2;
		}
	if (i + 1 >= argc || seccomp_load(ctx) < 0) {
		fprintf(stderr, "usage: deny CALL[,CALL...][=ERROR]... -- PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	seccomp_release(ctx);
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 127;
}
