/* SPDX-License-Identifier: MIT */
/*
 * One table describes every option: its names, its word for --help, and how its value is stored.
 * The same rows serve `--name=value`, `--name value` and mount(8)'s `-o name=value`, so the two
 * ways to mount cannot grow apart.
 */
#include "fuse-client/fuse_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"

#define NFS_PORT 2049

enum kind { OPT_FLAG, OPT_TEXT, OPT_UINT, OPT_PORT, OPT_SECONDS, OPT_ID, OPT_MODE, OPT_SIZE };

struct row {
	const char *name; /* with '-'; in -o lists '_' is taken too */
	char letter;      /* 0: none */
	enum kind kind;
	size_t at;  /* offset in struct fuse_options */
	size_t has; /* offset of a bool that says that it was given; 0: none */
	uint64_t min, max;
	const char *arg, *help;
};

#define AT(field) offsetof(struct fuse_options, field)

/* clang-format off */
static const struct row rows[] = {
	{ "foreground", 'f', OPT_FLAG, AT(foreground), 0, 0, 0, NULL, "stay in the foreground; ends with Ctrl-C" },
	{ "trace", 'd', OPT_FLAG, AT(trace), 0, 0, 0, NULL, "one line per call on stderr; implies -f" },
	{ "api", 0, OPT_TEXT, AT(api), 0, 0, 0, "URL", "control API where --workspace is looked up" },
	{ "workspace", 0, OPT_TEXT, AT(workspace), 0, 0, 0, "NAME", "name or id of the workspace; takes the place of the target" },
	{ "api-key-file", 0, OPT_TEXT, AT(api_key_file), 0, 0, 0, "FILE", "holds the API key; or WORKSPACE_API_KEY" },
	{ "mount-port", 0, OPT_PORT, AT(mount_port), 0, 1, 65535, "PORT", "of the MOUNT service, when it is not the NFS port" },
	{ "connections", 0, OPT_UINT, AT(n_conns), 0, 1, 16, "N", "TCP connections (2)" },
	{ "read-only", 'r', OPT_FLAG, AT(read_only), 0, 0, 0, NULL, "refuse every change; -o ro" },
	{ "allow-other", 0, OPT_FLAG, AT(allow_other), 0, 0, 0, NULL, "let other users in (see user_allow_other in fuse.conf)" },
	{ "uid", 0, OPT_ID, AT(uid), AT(has_uid), 0, UINT32_MAX - 1, "UID", "owner to show (the mounting user)" },
	{ "gid", 0, OPT_ID, AT(gid), AT(has_gid), 0, UINT32_MAX - 1, "GID", "group to show (the mounting user's)" },
	{ "no-map", 0, OPT_FLAG, AT(no_map), 0, 0, 0, NULL, "show owners as the server has them" },
	{ "umask", 0, OPT_MODE, AT(umask), 0, 0, 0777, "OCTAL", "mode bits that are not shown" },
	{ "attr-timeout", 0, OPT_SECONDS, AT(attr_timeout), 0, 0, 0, "S", "how long attributes are believed (1)" },
	{ "entry-timeout", 0, OPT_SECONDS, AT(entry_timeout), 0, 0, 0, "S", "how long names are believed (1)" },
	{ "negative-timeout", 0, OPT_SECONDS, AT(negative_timeout), 0, 0, 0, "S", "how long a missing name is believed (1)" },
	{ "cache-size", 0, OPT_SIZE, AT(cache_size), 0, 1u << 20, 1ull << 40, "SIZE", "written data held until committed (64M)" },
	{ "soft", 0, OPT_FLAG, AT(soft), 0, 0, 0, NULL, "fail calls instead of waiting for the server for ever" },
	{ "timeout", 0, OPT_UINT, AT(timeout_s), 0, 1, 86400, "S", "how long --soft waits (30)" },
	{ "mount-timeout", 0, OPT_UINT, AT(mount_timeout_s), 0, 1, 86400, "S", "how long the mount itself may take (15)" },
};
/* clang-format on */

/* Words of mount(8) and fstab that are not for us. */
static const char *const foreign[] = { "rw",     "defaults", "dev",   "nodev",   "suid",  "nosuid",
				       "exec",   "noexec",   "atime", "noatime", "auto",  "noauto",
				       "nofail", "_netdev",  "users", "user",    "nouser" };

void fuse_options_init(struct fuse_options *o)
{
	*o = (struct fuse_options){
		.n_conns = 2,
		.timeout_s = 30,
		.mount_timeout_s = 15,
		.attr_timeout = 1.0,
		.entry_timeout = 1.0,
		.negative_timeout = 1.0,
		.cache_size = 64ull << 20,
	};
}

void fuse_options_print_help(FILE *f)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];
		char left[48];

		(void)snprintf(left, sizeof(left), "%s%c%s --%s%s%s", r->letter ? "-" : " ",
			       r->letter ? r->letter : ' ', r->letter ? "," : " ", r->name,
			       r->arg ? " " : "", r->arg ? r->arg : "");
		(void)fprintf(f, "  %-28s %s\n", left, r->help);
	}
}

/* ---- values ------------------------------------------------------------- */

static int parse_seconds(const char *text, double *ret)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end != '\0' || !(v >= 0 && v <= 86400))
		return -EINVAL;
	*ret = v;
	return 0;
}

static int parse_mode(const char *text, uint64_t max, mode_t *ret)
{
	char *end;
	unsigned long v = strtoul(text, &end, 8);

	if (text[0] < '0' || text[0] > '7' || *end != '\0' || v > max)
		return -EINVAL;
	*ret = (mode_t)v;
	return 0;
}

/* A number with K, M or G behind it. */
static int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	static const char units[] = "KMG";
	char digits[24];
	size_t n = strlen(text);
	const char *unit = n > 0 ? strchr(units, text[n - 1]) : NULL;
	unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
	uint64_t v;

	if (n == 0 || n >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, n + 1);
	if (unit != NULL)
		digits[n - 1] = '\0';
	if (io_parse_u64(digits, 0, max >> shift, &v) < 0 || v << shift < min)
		return -EINVAL;
	*ret = v << shift;
	return 0;
}

static int store_number(const struct row *r, const char *text, void *to)
{
	uint64_t v;

	if (io_parse_u64(text, r->min, r->max, &v) < 0)
		return -EINVAL;
	switch (r->kind) {
	case OPT_PORT:
		*(uint16_t *)to = (uint16_t)v;
		return 0;
	case OPT_ID:
		*(uint32_t *)to = (uint32_t)v;
		return 0;
	default:
		break;
	}
	if (r->at == AT(n_conns))
		*(unsigned *)to = (unsigned)v;
	else
		*(uint64_t *)to = v;
	return 0;
}

static int store(const struct row *r, const char *text, struct fuse_options *o, struct err *err)
{
	void *to = (char *)o + r->at;
	int rc = 0;

	switch (r->kind) {
	case OPT_FLAG:
		*(bool *)to = true;
		break;
	case OPT_TEXT:
		*(const char **)to = text;
		break;
	case OPT_SECONDS:
		rc = parse_seconds(text, to);
		break;
	case OPT_MODE:
		rc = parse_mode(text, r->max, to);
		break;
	case OPT_SIZE:
		rc = parse_size(text, r->min, r->max, to);
		break;
	default:
		rc = store_number(r, text, to);
		break;
	}
	if (rc < 0)
		return err_set(err, rc, "option '%s': '%s' is not a value it can have", r->name,
			       text);
	if (r->has != 0)
		*(bool *)((char *)o + r->has) = true;
	return 0;
}

/* ---- targets ------------------------------------------------------------ */

static int take_host(const char *p, size_t n, struct fuse_target *t, struct err *err)
{
	if (n >= 2 && p[0] == '[' && p[n - 1] == ']') {
		p++;
		n -= 2;
	}
	if (n == 0 || n >= sizeof(t->host) || memchr(p, '/', n) != NULL)
		return err_set(err, -EINVAL, "the target has no host name that could be one");
	memcpy(t->host, p, n);
	t->host[n] = '\0';
	return 0;
}

/* "HOST" or "HOST:PORT" of @n bytes; a ':' inside brackets is the address's own. */
static int take_host_port(const char *p, size_t n, struct fuse_target *t, struct err *err)
{
	const char *colon = memrchr(p, ':', n);
	const char *bracket = memrchr(p, ']', n);
	char digits[8];
	uint64_t port = NFS_PORT;

	if (colon != NULL && (bracket == NULL || colon > bracket)) {
		size_t len = n - (size_t)(colon + 1 - p);

		if (len == 0 || len >= sizeof(digits))
			return err_set(err, -EINVAL, "the target's port is not a number");
		memcpy(digits, colon + 1, len);
		digits[len] = '\0';
		if (io_parse_u64(digits, 1, 65535, &port) < 0)
			return err_set(err, -EINVAL, "the target's port is not a number");
		n = (size_t)(colon - p);
	}
	t->port = (uint16_t)port;
	return take_host(p, n, t, err);
}

static int take_path(const char *p, struct fuse_target *t, struct err *err)
{
	size_t n = strlen(p);

	while (n > 1 && p[n - 1] == '/')
		n--;
	if (n >= sizeof(t->path))
		return err_set(err, -EINVAL, "the target's path is too long");
	memcpy(t->path, p, n);
	t->path[n] = '\0';
	return 0;
}

int fuse_options_parse_target(const char *text, struct fuse_target *ret, struct err *err)
{
	static const char scheme[] = "nfs://";
	struct fuse_target t = { 0 };
	const char *path, *end;
	int rc;

	if (strncmp(text, scheme, strlen(scheme)) == 0) {
		text += strlen(scheme);
		end = path = strchr(text, '/');
	} else {
		end = strstr(text, ":/");
		path = end != NULL ? end + 1 : NULL;
	}
	if (path == NULL || path[1] == '/') /* "http://..." is no path of a host named http */
		return err_set(err, -EINVAL,
			       "'%s' is neither HOST[:PORT]:/PATH nor nfs://HOST:PORT/PATH", text);
	rc = take_host_port(text, (size_t)(end - text), &t, err);
	if (rc == 0)
		rc = take_path(path, &t, err);
	if (rc == 0)
		*ret = t;
	return rc;
}

/* ---- command lines ------------------------------------------------------ */

/* '-' and '_' are one to us: mount(8)'s users write allow_other. */
static bool name_is(const char *given, size_t n, const char *name)
{
	if (strlen(name) != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (given[i] != name[i] && !(given[i] == '_' && name[i] == '-'))
			return false;
	}
	return true;
}

static const struct row *row_named(const char *given, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (name_is(given, n, rows[i].name))
			return &rows[i];
	}
	return NULL;
}

static const struct row *row_lettered(const char *given)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].letter != 0 && given[0] == rows[i].letter && given[1] == '\0')
			return &rows[i];
	}
	return NULL;
}

static int take_list(char *list, struct fuse_options *o, struct err *err);

static int take_positional(const char *word, struct fuse_options *o, unsigned *n, struct err *err)
{
	/* With --workspace there is no target: the one word is the directory. */
	if (*n == 0 && o->workspace == NULL) {
		(*n)++;
		o->has_target = true;
		return fuse_options_parse_target(word, &o->target, err);
	}
	if (o->dir != NULL)
		return err_set(err, -EINVAL, "'%s' is one word too many", word);
	(*n)++;
	o->dir = word;
	return 0;
}

/* One word that begins with '-', and its value: how many words were taken, or -EINVAL. */
static int take_option(char **argv, struct fuse_options *o, struct err *err)
{
	const char *word = argv[0];
	const char *eq = strchr(word, '=');
	const struct row *r = NULL;
	int rc;

	if (strcmp(word, "-o") == 0) {
		if (argv[1] == NULL)
			return err_set(err, -EINVAL, "-o wants a list behind it");
		rc = take_list(argv[1], o, err);
		return rc < 0 ? rc : 2;
	}
	if (word[1] == '-')
		r = row_named(word + 2, eq != NULL ? (size_t)(eq - word - 2) : strlen(word + 2));
	else
		r = row_lettered(word + 1);
	if (r == NULL)
		return err_set(err, -EINVAL, "there is no option '%s'; see --help", word);
	if (r->kind == OPT_FLAG)
		return eq != NULL ? err_set(err, -EINVAL, "'--%s' takes no value", r->name)
				  : store(r, NULL, o, err) + 1;
	if (eq == NULL && argv[1] == NULL)
		return err_set(err, -EINVAL, "'--%s' wants a value", r->name);
	rc = store(r, eq != NULL ? eq + 1 : argv[1], o, err);
	return rc < 0 ? rc : eq != NULL ? 1 : 2;
}

static int check(const struct fuse_options *o, struct err *err)
{
	if (o->dir == NULL)
		return err_set(err, -EINVAL, "a target and a directory are wanted; see --help");
	if ((o->workspace != NULL) != (o->api != NULL))
		return err_set(err, -EINVAL, "--api and --workspace go together");
	if (o->workspace == NULL && !o->has_target)
		return err_set(err, -EINVAL, "a target is wanted; see --help");
	return 0;
}

int fuse_options_parse(int argc, char **argv, struct fuse_options *o, struct err *err)
{
	const char *words[3];
	unsigned n_words = 0, n = 0;
	bool only_words = false;

	/* Options first, since --workspace decides what the words mean. */
	for (int i = 0; i < argc;) {
		int rc = 1;

		if (!only_words && strcmp(argv[i], "--") == 0) {
			only_words = true;
		} else if (only_words || argv[i][0] != '-') {
			if (n_words == ARRAY_LEN(words))
				return err_set(err, -EINVAL, "'%s' is one word too many", argv[i]);
			words[n_words++] = argv[i];
		} else {
			rc = take_option(argv + i, o, err);
		}
		if (rc < 0)
			return rc;
		i += rc;
	}
	for (unsigned i = 0; i < n_words; i++) {
		int rc = take_positional(words[i], o, &n, err);

		if (rc < 0)
			return rc;
	}
	o->foreground = o->foreground || o->trace;
	return check(o, err);
}

static bool is_foreign(const char *word)
{
	if (strncmp(word, "x-", 2) == 0 || strncmp(word, "comment=", 8) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
		if (strcmp(word, foreign[i]) == 0)
			return true;
	}
	return false;
}

static int take_list(char *list, struct fuse_options *o, struct err *err)
{
	char *rest = list;
	const char *word;

	while ((word = strsep(&rest, ",")) != NULL) {
		const char *eq = strchr(word, '=');
		size_t n = eq != NULL ? (size_t)(eq - word) : strlen(word);
		const struct row *r = row_named(word, n);
		int rc;

		if (strcmp(word, "ro") == 0) {
			o->read_only = true;
			continue;
		}
		if (n == 0 || is_foreign(word))
			continue;
		if (r == NULL || (r->kind == OPT_FLAG) != (eq == NULL))
			return err_set(err, -EINVAL, "there is no mount option '%s'", word);
		rc = store(r, eq != NULL ? eq + 1 : NULL, o, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int fuse_options_parse_helper(int argc, char **argv, struct fuse_options *o, struct err *err)
{
	const char *words[2];
	unsigned n_words = 0, n = 0;

	for (int i = 0; i < argc; i++) {
		bool has_value = argv[i][0] == '-' && argv[i][1] != '\0' &&
				 strchr("otN", argv[i][1]) != NULL && argv[i][2] == '\0';
		int rc;

		if (argv[i][0] != '-') {
			if (n_words == ARRAY_LEN(words))
				return err_set(err, -EINVAL, "'%s' is one word too many", argv[i]);
			words[n_words++] = argv[i];
			continue;
		}
		/* -s, -f, -n and -v have no meaning for us, and neither have -t and -N. */
		if (!has_value)
			continue;
		if (++i == argc)
			return err_set(err, -EINVAL, "'%s' wants a value", argv[i - 1]);
		rc = argv[i - 1][1] == 'o' ? take_list(argv[i], o, err) : 0;
		if (rc < 0)
			return rc;
	}
	/* mount(8) always has a first field; with workspace= it says nothing. */
	for (unsigned i = o->workspace != NULL ? 1 : 0; i < n_words; i++) {
		int rc = take_positional(words[i], o, &n, err);

		if (rc < 0)
			return rc;
	}
	return check(o, err);
}
