#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# One door per danger: each dangerous call is found only in the files that are trusted with it.
# Comments and string constants are taken out first, so that one may write about openat2(2) anywhere.
set -euo pipefail
cd "$(dirname "$0")/.."

# what | regular expression of the call | regular expression of the files that may
# The first door: path.c is for clients' paths; the others there open only what the operator named, or our own /proc.
doors() {
	cat <<'END'
a path becomes a descriptor|\b(open|openat|openat2|creat|fopen|freopen|opendir)[[:space:]]*\(|SYS_openat2|^(workspace/(path|workspace|store[a-z_]*)\.c|base/io\.c|broker/.*|http/api_health\.c)$
a kernel handle becomes a descriptor|\bopen_by_handle_at[[:space:]]*\(|^broker/
processes, mounts and ids|\b(fork|vfork|clone|clone3|unshare|mount|umount|umount2|pivot_root|chroot|setns|set(res|re|e)?[ug]id|setgroups|initgroups|capset)[[:space:]]*\(|\bcapng_[a-z_]+[[:space:]]*\(|^(broker/.*|fuse-client/fuse_umount\.c)$
running programs|\b(exec[lv]p?e?|execveat|fexecve|system|popen|posix_spawnp?|uv_spawn)[[:space:]]*\(|^fuse-client/fuse_umount\.c$
SQLite|\bsqlite3_[a-z_0-9]+|^workspace/store[a-z_]*\.[ch]$
JSON from outside|\bjson_(loads|loadb|loadf|loadfd|load_file|load_callback)\b|^proto/jsonx\.c$
archives|\barchive_(read|write|entry)_[a-z0-9_]+[[:space:]]*\(|^workspace/archive_(pack|unpack)\.c$
libfuse|\bfuse_(session|reply|req|opt|lowlevel|add_direntry)[a-z_]*[[:space:]]*\(|^fuse-client/
the HTTP parser|\bllhttp_[a-z_]+|^http/http_head\.c$
system call filters|\bseccomp_[a-z_]+[[:space:]]*\(|^(broker/.*|workspaced\.c)$
calls without a bound|\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|alloca)[[:space:]]*\(|^$
END
}

# shellcheck disable=SC2016 # the $ are perl's
strip='s{/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"}{ my $m = $&; $m =~ s/[^\n]//g; "\"\"$m" }gse'
bad=0
mapfile -t files < <(git ls-files '*.c' '*.h' | grep -v '^tests/')

stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
for file in "${files[@]}"; do
	perl -0777 -pe "$strip" "$file" | awk -v file="$file" '{ print file ":" NR ":" $0 }'
done >"$stripped"

while IFS= read -r door; do
	what=${door%%|*}
	allowed=${door##*|^}
	calls=${door#*|}
	calls=${calls%"|^$allowed"}
	while IFS= read -r hit; do
		[ -n "$hit" ] || continue
		[[ ${hit%%:*} =~ ^$allowed ]] && continue
		echo "${hit%%:*}:$(cut -d: -f2 <<<"$hit"): $what: allowed files: ${allowed%$}" >&2
		bad=1
	done < <(grep -P ":[0-9]+:.*($calls)" "$stripped" || true)
done < <(doors)
exit "$bad"
