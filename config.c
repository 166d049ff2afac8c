/* SPDX-License-Identifier: MIT */
/*
 * The table of settings and what is made from it.  A setting that a later part of workspaced gives
 * its use is a row already: clients' scripts set these names, and a typo in one is worth finding
 * today.  Such a row says so in its help.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "config_check.h"

#define CONFIG_PREFIX   "WORKSPACE_"
#define CONFIG_FILE_MAX (256u << 10) /* bytes: some hundred settings with long values */
#define KEY_FILE_MAX    (64u << 10)  /* bytes of the file behind WORKSPACE_API_KEY=@FILE */

enum config_type { T_TEXT, T_BOOL, T_NUMBER, T_WORD, T_ADDRESS, T_SIZE, T_SECRET };

struct config_row {
	const char *group; /* heading; NULL: as the row before */
	const char *name;  /* without the prefix */
	enum config_type type;
	const char *def; /* NULL: unset */
	const char *help;
	const char *later;      /* the part that will use it and is not there yet; NULL: in use */
	uint64_t min, max;      /* T_NUMBER */
	const char *words;      /* T_WORD: allowed ones, separated by '|' */
	config_check_fn *check; /* beyond the type */
	int alias_of;           /* CFG_* + 1; 0: none */
};

#define SECONDS_MAX (365u * 24 * 3600)

/* clang-format off */
static const struct config_row rows[CFG_N] = {
	[CFG_DATA_DIR] = { "General", "DATA_DIR", T_TEXT, "./data",
		"Directory that holds the database, the keys and the files of every workspace. Made when missing." },
	[CFG_WORKSPACE_DIR] = { NULL, "WORKSPACE_DIR", T_TEXT, NULL,
		"Another name of WORKSPACE_DATA_DIR.", .alias_of = CFG_DATA_DIR + 1 },
	[CFG_DATABASE_URL] = { NULL, "DATABASE_URL", T_TEXT, NULL,
		"sqlite:PATH or sqlite://PATH (relative to the data directory), sqlite:///PATH (absolute). Unset: workspace.db in the data directory.",
		.check = config_check_database_url },
	[CFG_SERVICE_USER] = { NULL, "SERVICE_USER", T_TEXT, NULL,
		"User the daemon runs as when it is started as root: a name, UID or UID:GID; never root. Unset: the user workspaced if there is one, else 64055:64055." },
	[CFG_OWNER] = { NULL, "OWNER", T_TEXT, "1000:1000",
		"UID:GID that new workspaces show as the owner of everything in them.", .check = config_check_owner },
	[CFG_LOCAL_UIDS] = { NULL, "LOCAL_UIDS", T_TEXT, NULL,
		"Local users let in over loopback besides root and the daemon's own user: a comma list of numbers, or * for all.",
		.check = config_check_local_uids },
	[CFG_ALLOW_UNAUTHENTICATED] = { NULL, "ALLOW_UNAUTHENTICATED", T_BOOL, "0",
		"Lets the servers listen on addresses that others reach although nothing tells who is calling. Only for networks you trust wholly." },
	[CFG_LOG] = { NULL, "LOG", T_TEXT, "info",
		"Comma list of a level (error, warn, info, debug), topics whose debug lines are wanted (main, store, ws, nfs, rpc, http, broker) and json.",
		.check = config_check_log },

	[CFG_HTTP_HOST] = { "HTTP", "HTTP_HOST", T_ADDRESS, "127.0.0.1",
		"Address the HTTP API listens on. One that is not loopback needs WORKSPACE_API_KEY or WORKSPACE_ALLOW_UNAUTHENTICATED=1." },
	[CFG_HTTP_PORT] = { NULL, "HTTP_PORT", T_NUMBER, "8080",
		"TCP port of the HTTP API; 0 takes any free one and the ready line tells which.", .max = 65535 },
	[CFG_HTTP_SOCKET] = { NULL, "HTTP_SOCKET", T_TEXT, NULL,
		"Path of a Unix socket for the HTTP API as well; callers are known by their uid. Its directory must let the service user write." },
	[CFG_HTTP_RATE] = { NULL, "HTTP_RATE", T_NUMBER, "100000",
		"Requests a second that one client (an address, or a uid on the Unix socket) may make before it is told to wait; 0 means any.", .max = 1000000 },
	[CFG_HTTP_CONCURRENCY] = { NULL, "HTTP_CONCURRENCY", T_NUMBER, "1024",
		"Requests of one client that may be at work at one time; 0 means any.", .max = 1000000 },
	[CFG_API_KEY] = { NULL, "API_KEY", T_SECRET, NULL,
		"Keys that callers send as 'Authorization: Bearer KEY': a comma list of keys or name:key, or @FILE to read the list from a file.",
		.check = config_check_api_key },
	[CFG_ALLOWED_ORIGINS] = { NULL, "ALLOWED_ORIGINS", T_TEXT, NULL,
		"Web origins whose pages may call the API: a comma list such as https://console.example.org.",
		.check = config_check_origins },

	[CFG_ARCHIVE_MAX_BYTES] = { "Archives, trash, adoption", "ARCHIVE_MAX_BYTES", T_SIZE, "64G",
		"Bytes that one archive may unpack to." },
	[CFG_ARCHIVE_MAX_ENTRIES] = { NULL, "ARCHIVE_MAX_ENTRIES", T_NUMBER, "1000000",
		"Entries that one archive to be unpacked may have.", .min = 1, .max = 1000000000 },
	[CFG_ARCHIVE_MAX_RATIO] = { NULL, "ARCHIVE_MAX_RATIO", T_NUMBER, "200",
		"How many times its own size an archive may unpack to, once that is over 256 MiB; 0 means no limit.", .max = 1000000 },
	[CFG_ARCHIVE_MAX_JOBS] = { NULL, "ARCHIVE_MAX_JOBS", T_NUMBER, "4",
		"Archives packed or unpacked at one time; further requests are answered 429.", .min = 1, .max = 64 },
	[CFG_TRASH_TTL] = { NULL, "TRASH_TTL", T_NUMBER, "3600",
		"Seconds that a deleted workspace stays in the trash; 0 removes its files at once.", .max = SECONDS_MAX },
	[CFG_ADOPT_ROOTS] = { NULL, "ADOPT_ROOTS", T_TEXT, NULL,
		"Directories below which existing ones may be adopted as workspaces: a comma list of absolute paths, 16 at most. What is adopted must belong to the service user.",
		.check = config_check_dirs },

	[CFG_NFS_MODE] = { "NFS", "NFS_MODE", T_WORD, "embedded",
		"How workspaces are exported; the NFS server inside the daemon is the only way.", .words = "embedded" },
	[CFG_NFS_BIND] = { NULL, "NFS_BIND", T_ADDRESS, "127.0.0.1",
		"Address the NFS server listens on. One that is not loopback needs WORKSPACE_NFS_EXPORTS or WORKSPACE_ALLOW_UNAUTHENTICATED=1." },
	[CFG_NFS_PORT] = { NULL, "NFS_PORT", T_NUMBER, "2049",
		"TCP port of NFS and MOUNT; 0 takes any free one and the ready line tells which.", .max = 65535 },
	[CFG_NFS_HOST] = { NULL, "NFS_HOST", T_TEXT, NULL,
		"Host name or address put into the nfs_url of a workspace. Unset: the address the NFS server listens on, or 127.0.0.1 when that is 0.0.0.0 or ::." },
	[CFG_NFS_THREADS] = { NULL, "NFS_THREADS", T_NUMBER, "0",
		"NFS loops; 0 makes one for each core.", .max = 256 },
	[CFG_NFS_EXPORTS] = { NULL, "NFS_EXPORTS", T_TEXT, NULL,
		"Who may mount workspaces that have no rules of their own: networks separated by spaces, each with (ro) or (rw) if wanted, and the words mode=squash, mode=match, ro. Unset: loopback only.",
		.check = config_check_exports },
	[CFG_NFS_METADATA_SYNC] = { NULL, "NFS_METADATA_SYNC", T_BOOL, "0",
		"Makes creates, removes and renames wait until the directory is on disk, so that they survive a power failure and not only a crash of the daemon. Slow." },

	[CFG_MIN_SANDBOX_TIER] = { "Sandboxes", "MIN_SANDBOX_TIER", T_WORD, "user",
		"Weakest isolation to start with.", "sandboxes", .words = "directory|user|namespace" },
	[CFG_MAX_SANDBOXES] = { NULL, "MAX_SANDBOXES", T_NUMBER, "100",
		"Sandboxes at one time.", "sandboxes", .max = 100000 },
	[CFG_TEMPLATES] = { NULL, "TEMPLATES", T_TEXT, NULL,
		"Templates that may be used.", "sandboxes" },
	[CFG_SANDBOX_NETWORK] = { NULL, "SANDBOX_NETWORK", T_BOOL, "0",
		"Whether a sandbox has a network when its creator does not say.", "sandboxes" },
	[CFG_ALLOW_NETWORK] = { NULL, "ALLOW_NETWORK", T_BOOL, "1",
		"Whether a sandbox may have a network at all.", "sandboxes" },
	[CFG_SANDBOX_MEMORY] = { NULL, "SANDBOX_MEMORY", T_SIZE, NULL,
		"Memory of a sandbox.", "sandboxes" },
	[CFG_SANDBOX_CPU] = { NULL, "SANDBOX_CPU", T_TEXT, NULL,
		"Cores of a sandbox, such as 0.5.", "sandboxes", .check = config_check_decimal },
	[CFG_SANDBOX_PIDS] = { NULL, "SANDBOX_PIDS", T_NUMBER, "1024",
		"Processes and threads of a sandbox.", "sandboxes", .min = 1, .max = 4194304 },
	[CFG_ON_RESTART] = { NULL, "ON_RESTART", T_WORD, "keep",
		"What becomes of running sandboxes when the daemon ends.", "sandboxes", .words = "keep|stop" },
	[CFG_AGENT_TIMEOUT] = { NULL, "AGENT_TIMEOUT", T_NUMBER, "30",
		"Seconds to wait for a sandbox to start.", "sandboxes", .min = 1, .max = 3600 },
	[CFG_AGENT_SERVER_ADDR] = { NULL, "AGENT_SERVER_ADDR", T_TEXT, NULL,
		"Address where agents of other runtimes report.", "sandboxes" },
	[CFG_MAX_IDLE_TIME] = { NULL, "MAX_IDLE_TIME", T_NUMBER, "3600",
		"Seconds without use after which a sandbox is stopped; 0 means never.", "sandboxes", .max = SECONDS_MAX },
	[CFG_PTY_REQUIRE_KEY] = { NULL, "PTY_REQUIRE_KEY", T_BOOL, "0",
		"Whether a terminal's WebSocket needs an API key besides its id.", "sandboxes" },
	[CFG_WORKSPACE_HOST_DIR] = { NULL, "WORKSPACE_HOST_DIR", T_TEXT, NULL,
		"The data directory as a container runtime sees it.", "sandboxes" },
	[CFG_BASE_IMAGE] = { NULL, "BASE_IMAGE", T_TEXT, NULL,
		"Image of the default template.", "sandboxes" },
	[CFG_DOCKER_HOST] = { NULL, "DOCKER_HOST", T_TEXT, NULL,
		"Address of a Docker Engine.", "sandboxes" },
	[CFG_DOCKER_SOCKET] = { NULL, "DOCKER_SOCKET", T_TEXT, NULL,
		"Socket of a Docker Engine.", "sandboxes" },
	[CFG_DOCKER_NETWORK] = { NULL, "DOCKER_NETWORK", T_TEXT, NULL,
		"Docker network of sandboxes.", "sandboxes" },
	[CFG_SANDBOX_EXTRA_HOSTS] = { NULL, "SANDBOX_EXTRA_HOSTS", T_TEXT, NULL,
		"Host names added inside sandboxes.", "sandboxes" },

	[CFG_MCP_MODE] = { "MCP and gRPC", "MCP_MODE", T_WORD, "http",
		"How the MCP server is reached.", "MCP", .words = "disabled|http|stdio" },
	[CFG_MCP_PATH] = { NULL, "MCP_PATH", T_TEXT, "/mcp",
		"Path of the MCP server below the HTTP API.", "MCP", .check = config_check_url_path },
	[CFG_MCP_PROFILE] = { NULL, "MCP_PROFILE", T_WORD, "developer",
		"Which tools are offered.", "MCP", .words = "executor|developer|full" },
	[CFG_GRPC_HOST] = { NULL, "GRPC_HOST", T_ADDRESS, "0.0.0.0",
		"Address for gRPC; nothing listens there.", "gRPC" },
	[CFG_GRPC_PORT] = { NULL, "GRPC_PORT", T_NUMBER, "9090",
		"Port for gRPC; nothing listens there.", "gRPC", .max = 65535 },
};
/* clang-format on */

enum config_source { FROM_DEFAULT, FROM_FILE, FROM_ENV };

struct config_value {
	char *text; /* owned; NULL: the default */
	enum config_source source;
	const char *name; /* the row's own or its alias's, as it was given; static storage */
};

struct config {
	struct config_value v[CFG_N];
};

static int check_number(const struct config_row *r, const char *value, struct err *err)
{
	uint64_t n;

	if (io_parse_u64(value, r->min, r->max, &n) < 0)
		return err_set(err, -EINVAL, "must be a number from %llu to %llu",
			       (unsigned long long)r->min, (unsigned long long)r->max);
	return 0;
}

static int check_value(const struct config_row *r, const char *value, struct err *err)
{
	static config_check_fn *const by_type[] = {
		[T_BOOL] = config_check_bool,
		[T_ADDRESS] = config_check_address,
		[T_SIZE] = config_check_size,
		[T_SECRET] = NULL, /* the last type: the row's own check is all there is */
	};
	int rc = 0;

	if (r->type == T_NUMBER)
		rc = check_number(r, value, err);
	else if (r->type == T_WORD && !config_is_one_of(r->words, value))
		rc = err_set(err, -EINVAL, "must be one of: %s", r->words);
	else if (by_type[r->type] != NULL)
		rc = by_type[r->type](value, err);
	if (rc == 0 && r->check != NULL)
		rc = r->check(value, err);
	return rc;
}

/* ---- reading ------------------------------------------------------------ */

int config_new(struct config **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret == NULL ? -ENOMEM : 0;
}

static void forget(struct config_value *v)
{
	if (v->text != NULL)
		explicit_bzero(v->text, strlen(v->text));
	free(v->text);
	*v = (struct config_value){ 0 };
}

void config_free(struct config *c)
{
	if (c == NULL)
		return;
	for (int i = 0; i < CFG_N; i++)
		forget(&c->v[i]);
	free(c);
}

/* @name may be the head of a longer string. */
static int find_row(const char *name, size_t len)
{
	const size_t prefix = strlen(CONFIG_PREFIX);

	if (len < prefix || strncmp(name, CONFIG_PREFIX, prefix) != 0)
		return -ENOENT;
	for (int i = 0; i < CFG_N; i++) {
		if (strlen(rows[i].name) == len - prefix &&
		    strncmp(rows[i].name, name + prefix, len - prefix) == 0)
			return i;
	}
	return -ENOENT;
}

/* A later source replaces an earlier one; the same source may say one thing once. */
static int set_value(struct config *c, int row, const char *value, enum config_source source,
		     struct err *err)
{
	struct config_value *v = &c->v[rows[row].alias_of > 0 ? rows[row].alias_of - 1 : row];
	int rc = check_value(&rows[row], value, err);

	if (rc < 0)
		return err_wrap(err, rc, CONFIG_PREFIX "%s", rows[row].name);
	if (v->source == source && v->name == rows[row].name)
		return err_set(err, -EINVAL, CONFIG_PREFIX "%s is given twice", v->name);
	if (v->source == source && strcmp(v->text, value) != 0)
		return err_set(err, -EINVAL,
			       CONFIG_PREFIX "%s and " CONFIG_PREFIX "%s say different things",
			       v->name, rows[row].name);
	forget(v);
	v->text = strdup(value);
	if (v->text == NULL)
		return err_set(err, -ENOMEM, "settings: out of memory");
	v->source = source;
	v->name = rows[row].name;
	return 0;
}

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t");
	n = strlen(s);
	while (n > 0 && strchr(" \t\r", s[n - 1]) != NULL)
		s[--n] = '\0';
	return s;
}

static char *unquote(char *s)
{
	size_t n = strlen(s);

	if (n < 2 || (s[0] != '"' && s[0] != '\'') || s[n - 1] != s[0])
		return s;
	s[n - 1] = '\0';
	return s + 1;
}

/* @name: what stands before the '=' */
static int refuse_name(const char *name, struct err *err)
{
	const char *nearest = config_nearest(name);

	if (strncmp(name, "export ", 7) == 0)
		return err_set(err, -EINVAL,
			       "leave out 'export': lines are NAME=value, not a shell's");
	if (nearest == NULL)
		return err_set(err, -EINVAL, "'%.60s' is no setting (workspaced --help lists them)",
			       name);
	return err_set(err, -EINVAL, "'%.60s' is no setting; the nearest one is %s", name, nearest);
}

/* @line is changed.  What is behind the '=' is never repeated: it may be a secret. */
static int load_line(struct config *c, char *line, struct err *err)
{
	char *name = trim(line), *value;
	int row;

	if (*name == '\0' || *name == '#')
		return 0;
	value = strchr(name, '=');
	if (value == NULL)
		return err_set(err, -EINVAL, "expected NAME=value");
	*value++ = '\0';
	name = trim(name);
	row = find_row(name, strlen(name));
	if (row < 0)
		return refuse_name(name, err);
	value = unquote(trim(value));
	return *value == '\0' ? 0 : set_value(c, row, value, FROM_FILE, err);
}

int config_load_file(struct config *c, const char *path, struct err *err)
{
	auto_free char *text = NULL;
	size_t len;
	unsigned n_line = 0;
	int rc = io_read_file(AT_FDCWD, path, CONFIG_FILE_MAX, &text, &len, NULL);

	if (rc < 0) /* the whole path: who started us gave it */
		return err_set(err, rc, "settings file %.160s: %s", path, strerror(-rc));
	if (strlen(text) != len)
		rc = err_set(err, -EINVAL, "settings file %s: has a NUL byte in it", path);
	for (char *rest = text, *line; rc == 0 && (line = strsep(&rest, "\n")) != NULL;) {
		n_line++;
		rc = load_line(c, line, err);
		if (rc < 0)
			rc = err_wrap(err, rc, "settings file %s, line %u", path, n_line);
	}
	explicit_bzero(text, len);
	return rc;
}

int config_load_env(struct config *c, char *const *env, struct err *err)
{
	for (; *env != NULL; env++) {
		const char *eq = strchr(*env, '=');
		int row = eq == NULL ? -ENOENT : find_row(*env, (size_t)(eq - *env));
		int rc = row < 0 || eq[1] == '\0' ? 0 : set_value(c, row, eq + 1, FROM_ENV, err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- unknown names ------------------------------------------------------ */

#define NAME_MAX_COMPARED 64 /* longer ones are cut: no setting is that long */

/* Levenshtein distance with one row of memory. */
static unsigned letters_to_change(const char *a, const char *b)
{
	unsigned cost[NAME_MAX_COMPARED + 1];
	size_t n = strnlen(b, NAME_MAX_COMPARED);

	for (size_t j = 0; j <= n; j++)
		cost[j] = (unsigned)j;
	for (size_t i = 0; i < NAME_MAX_COMPARED && a[i] != '\0'; i++) {
		unsigned diagonal = cost[0];

		cost[0] = (unsigned)i + 1;
		for (size_t j = 1; j <= n; j++) {
			unsigned change = diagonal + (a[i] != b[j - 1]);

			diagonal = cost[j];
			cost[j] = MIN(change, MIN(cost[j], cost[j - 1]) + 1);
		}
	}
	return cost[n];
}

/* is_near() - a slip of the fingers, or a name that was not written to its end (or beyond it) */
static bool is_near(const char *name, const char *known, unsigned to_change)
{
	size_t n = strlen(name);

	return (to_change <= 3 && 2 * to_change < n) ||
	       (n >= 4 && strncmp(name, known, MIN(n, strlen(known))) == 0);
}

const char *config_nearest(const char *name)
{
	static char full[sizeof(CONFIG_PREFIX) + NAME_MAX_COMPARED];
	unsigned best = UINT32_MAX;
	const size_t prefix = strlen(CONFIG_PREFIX);
	const char *found = NULL;

	if (strncmp(name, CONFIG_PREFIX, prefix) == 0)
		name += prefix;
	for (int i = 0; i < CFG_N; i++) {
		unsigned d = letters_to_change(name, rows[i].name);

		if (d < best && is_near(name, rows[i].name, d)) {
			best = d;
			found = rows[i].name;
		}
	}
	if (found == NULL)
		return NULL;
	(void)snprintf(full, sizeof(full), CONFIG_PREFIX "%s", found);
	return full;
}

void config_warn_unknown(char *const *env)
{
	for (; *env != NULL; env++) {
		size_t len = strcspn(*env, "=");
		char name[NAME_MAX_COMPARED + 1], safe[4 * NAME_MAX_COMPARED + 1];
		const char *nearest;

		if (strncmp(*env, CONFIG_PREFIX, strlen(CONFIG_PREFIX)) != 0 ||
		    find_row(*env, len) >= 0)
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)MIN(len, sizeof(name) - 1), *env);
		nearest = config_nearest(name);
		log_warn(LOG_MAIN, "environment variable is no setting name=%s%s%s",
			 log_escape(safe, sizeof(safe), name, strlen(name)),
			 nearest != NULL ? " nearest=" : "", nearest != NULL ? nearest : "");
	}
}

/* ---- values ------------------------------------------------------------- */

const char *config_text(const struct config *c, enum config_id id)
{
	return c->v[id].text != NULL ? c->v[id].text : rows[id].def;
}

uint64_t config_uint(const struct config *c, enum config_id id)
{
	uint64_t n = 0;

	(void)io_parse_u64(config_text(c, id), 0, UINT64_MAX, &n); /* checked when it was set */
	return n;
}

uint64_t config_size(const struct config *c, enum config_id id)
{
	static const char units[] = "KMGT";
	const char *text = config_text(c, id), *unit = strpbrk(text, units);
	char digits[24];
	uint64_t n = 0;

	/* checked when it was set */
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)strcspn(text, units), text);
	(void)io_parse_u64(digits, 1, UINT64_MAX >> 40, &n);
	return unit == NULL ? n : n << (10 * (strchr(units, *unit) - units + 1));
}

bool config_bool(const struct config *c, enum config_id id)
{
	bool b = false;

	(void)config_parse_bool(config_text(c, id), &b); /* checked when it was set */
	return b;
}

void config_owner(const struct config *c, uid_t *ret_uid, gid_t *ret_gid)
{
	*ret_uid = *ret_gid = 0;
	/* checked when it was set */
	(void)config_parse_owner(config_text(c, CFG_OWNER), ret_uid, ret_gid);
}

void config_local_uids(const struct config *c, struct peer_uids *ret)
{
	*ret = (struct peer_uids){
		.everyone = config_bool(c, CFG_ALLOW_UNAUTHENTICATED),
		.n = 2,
		.uid = { 0, geteuid() },
	};
	/* checked when it was set */
	if (config_text(c, CFG_LOCAL_UIDS) != NULL)
		(void)config_parse_uids(config_text(c, CFG_LOCAL_UIDS), ret);
}

void config_exports(const struct config *c, struct export_rules *ret)
{
	const char *text = config_text(c, CFG_NFS_EXPORTS);

	*ret = (struct export_rules){ 0 };
	if (text == NULL && config_bool(c, CFG_ALLOW_UNAUTHENTICATED))
		text = "*";
	if (text != NULL)
		(void)export_rules_parse(text, ret, NULL); /* checked when it was set */
}

/* A key file may have one key a line; the list is made with commas. */
static void lines_to_list(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
		text[--n] = '\0';
	for (char *p = text; (p = strchr(p, '\n')) != NULL;)
		*p = ',';
}

static int read_key_file(const char *path, struct config_list *ret, struct err *err)
{
	auto_free char *text = NULL;
	size_t len;
	int rc = io_read_file(AT_FDCWD, path, KEY_FILE_MAX, &text, &len, NULL);

	if (rc < 0)
		return err_set(err, rc, CONFIG_PREFIX "API_KEY: file %.150s: %s", path,
			       strerror(-rc));
	lines_to_list(text);
	rc = config_check_key_list(text, err);
	if (rc == 0)
		rc = config_list_split(text, ret);
	if (rc < 0)
		rc = err_wrap(err, rc, "file of " CONFIG_PREFIX "API_KEY");
	explicit_bzero(text, len);
	return rc;
}

int config_api_keys(const struct config *c, struct config_list *ret, struct err *err)
{
	const char *value = config_text(c, CFG_API_KEY);

	*ret = (struct config_list){ 0 };
	if (value == NULL)
		return 0;
	if (value[0] == '@')
		return read_key_file(value + 1, ret, err);
	if (config_list_split(value, ret) < 0)
		return err_set(err, -ENOMEM, "settings: out of memory");
	return 0;
}

bool config_is_loopback(const struct config *c, enum config_id id)
{
	struct in6_addr addr;

	return config_parse_address(config_text(c, id), &addr) == 0 && peer_is_loopback(&addr);
}

int config_check(const struct config *c, struct err *err)
{
	/* clang-format off */
	static const struct { enum config_id bind, guard; } open_to_others[] = {
		{ CFG_HTTP_HOST, CFG_API_KEY },
		{ CFG_NFS_BIND, CFG_NFS_EXPORTS },
	};
	/* clang-format on */

	if (config_bool(c, CFG_ALLOW_UNAUTHENTICATED))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(open_to_others); i++) {
		enum config_id bind = open_to_others[i].bind, guard = open_to_others[i].guard;

		if (!config_is_loopback(c, bind) && config_text(c, guard) == NULL)
			return err_set(err, -EINVAL,
				       CONFIG_PREFIX
				       "%s is not a loopback address: set " CONFIG_PREFIX
				       "%s, or " CONFIG_PREFIX "ALLOW_UNAUTHENTICATED=1 if "
				       "everyone who reaches it may use it",
				       rows[bind].name, rows[guard].name);
	}
	return 0;
}

/* ---- printing ----------------------------------------------------------- */

static const char *type_text(const struct config_row *r, char *dst, size_t dst_len)
{
	static const char *const names[] = {
		[T_TEXT] = "text",
		[T_SECRET] = "secret",
		[T_BOOL] = "0 or 1",
		[T_NUMBER] = "number",
		[T_WORD] = "word",
		[T_ADDRESS] = "address",
		[T_SIZE] = "size (K, M, G, T)",
	};

	if (r->type == T_NUMBER)
		(void)snprintf(dst, dst_len, "%llu to %llu", (unsigned long long)r->min,
			       (unsigned long long)r->max);
	else if (r->type == T_WORD)
		(void)snprintf(dst, dst_len, "%s", r->words);
	else
		(void)snprintf(dst, dst_len, "%s", names[r->type]);
	return dst;
}

/* "(Accepted; ...)" behind the help of a row whose part is not there yet. */
static const char *help_text(const struct config_row *r, char *dst, size_t dst_len)
{
	if (r->later == NULL)
		(void)snprintf(dst, dst_len, "%s", r->help);
	else
		(void)snprintf(dst, dst_len,
			       "%s (Accepted; used by %s, which this version does not have.)",
			       r->help, r->later);
	return dst;
}

#define HELP_TEXT_MAX 512 /* bytes; the longest help is half of it */
#define HELP_WIDTH    92  /* columns behind the indentation */

static void print_wrapped(FILE *out, const char *text)
{
	while (*text != '\0') {
		size_t n = strlen(text);

		if (n > HELP_WIDTH) {
			n = HELP_WIDTH;
			while (n > 0 && text[n] != ' ')
				n--;
		}
		(void)fprintf(out, "        %.*s\n", (int)n, text);
		text += n;
		text += strspn(text, " ");
	}
}

void config_print_help(FILE *out)
{
	char type[64], help[HELP_TEXT_MAX];

	for (int i = 0; i < CFG_N; i++) {
		const struct config_row *r = &rows[i];

		if (r->group != NULL)
			(void)fprintf(out, "\n%s:\n", r->group);
		(void)fprintf(out, "    " CONFIG_PREFIX "%s=%s%s%s\n", r->name,
			      type_text(r, type, sizeof(type)), r->def == NULL ? "" : "; default ",
			      r->def == NULL ? "" : r->def);
		print_wrapped(out, help_text(r, help, sizeof(help)));
	}
}

/* In a Markdown table a '|' would end the cell. */
static void print_cell(FILE *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '|')
			(void)fputc('\\', out);
		(void)fputc(*text, out);
	}
}

void config_print_docs(FILE *out)
{
	char type[64], help[HELP_TEXT_MAX];

	for (int i = 0; i < CFG_N; i++) {
		const struct config_row *r = &rows[i];

		if (r->group != NULL)
			(void)fprintf(out,
				      "%s### %s\n\n"
				      "| Variable | Value | Default | Meaning |\n"
				      "| --- | --- | --- | --- |\n",
				      i == 0 ? "" : "\n", r->group);
		(void)fprintf(out, "| `" CONFIG_PREFIX "%s` | ", r->name);
		print_cell(out, type_text(r, type, sizeof(type)));
		if (r->def == NULL)
			(void)fputs(" | unset | ", out);
		else
			(void)fprintf(out, " | `%s` | ", r->def);
		print_cell(out, help_text(r, help, sizeof(help)));
		(void)fprintf(out, " |\n");
	}
}

/* In quotes where the reader of files would take something off. */
static void print_value(FILE *out, const char *value)
{
	size_t n = strlen(value);
	bool is_plain = n > 0 && strchr(" \t\r\"'", value[0]) == NULL &&
			strchr(" \t\r\"'", value[n - 1]) == NULL;

	(void)fprintf(out, is_plain ? "%s\n" : "\"%s\"\n", value);
}

void config_print_values(FILE *out, const struct config *c)
{
	static const char *const sources[] = {
		[FROM_DEFAULT] = "default", [FROM_FILE] = "file", [FROM_ENV] = "environment"
	};

	for (int i = 0; i < CFG_N; i++) {
		const char *value = config_text(c, i);
		const char *source = sources[c->v[i].source];

		if (rows[i].alias_of > 0)
			continue;
		if (value == NULL) {
			(void)fprintf(out, "# unset: " CONFIG_PREFIX "%s\n", rows[i].name);
		} else if (rows[i].type == T_SECRET || strchr(value, '\n') != NULL) {
			(void)fprintf(out, "# %s, not shown: " CONFIG_PREFIX "%s\n", source,
				      rows[i].name);
		} else {
			(void)fprintf(out, "# %s:\n" CONFIG_PREFIX "%s=", source, rows[i].name);
			print_value(out, value);
		}
	}
}

/* ---- what is worth a line at the start ---------------------------------- */

static void note_unused(const struct config *c)
{
	for (int i = 0; i < CFG_N; i++)
		if (rows[i].later != NULL && c->v[i].text != NULL)
			log_info(LOG_MAIN,
				 "setting has no effect: it is for %s, which this version does not "
				 "have name=" CONFIG_PREFIX "%s",
				 rows[i].later, rows[i].name);
}

static bool is_wildcard(const struct config *c, enum config_id id)
{
	return strcmp(config_text(c, id), "0.0.0.0") == 0 || strcmp(config_text(c, id), "::") == 0;
}

void config_log_notes(const struct config *c)
{
	static const enum config_id addresses[] = { CFG_HTTP_HOST, CFG_NFS_BIND };

	note_unused(c);
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++)
		if (config_bool(c, CFG_ALLOW_UNAUTHENTICATED) &&
		    !config_is_loopback(c, addresses[i]))
			log_warn(LOG_MAIN,
				 "everyone who reaches this address may use it "
				 "(" CONFIG_PREFIX "ALLOW_UNAUTHENTICATED=1) " CONFIG_PREFIX
				 "%s=%s",
				 rows[addresses[i]].name, config_text(c, addresses[i]));
	if (is_wildcard(c, CFG_NFS_BIND) && config_text(c, CFG_NFS_HOST) == NULL)
		log_info(LOG_MAIN, "nfs_url tells 127.0.0.1: set " CONFIG_PREFIX
				   "NFS_HOST to the name or address by which others reach it");
}
