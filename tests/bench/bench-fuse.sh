#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The FUSE client beside sshfs and beside a plain pass-through, on loopback, in one run.
#
#   bench-fuse.sh [BUILD_DIR [DIR]]
#
# DIR is where all data goes (default: memory, so that no disk is measured).  sshfs talks to sftp-server over a
# pipe, without ssh's encryption: its best case.  Each number is the best of N_RUNS.  Needs /dev/fuse, fusermount3;
# without sshfs and sftp-server that column is left out.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$(realpath "${1:-build}")
base=$(mktemp -d -p "${2:-/dev/shm}" bench-fuse.XXXXXX)
n_files=${N_FILES:-5000}
n_runs=${N_RUNS:-3}
megabytes=${MEGABYTES:-512}
sftp=/usr/lib/openssh/sftp-server
daemon=
kinds=()

cleanup() {
	local m
	for m in "$base"/mnt-*; do
		fusermount3 -u -z "$m" 2>/dev/null || true
	done
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
	rm -rf "$base"
}
trap cleanup EXIT
chmod 755 "$base"

# ---- the three mounts ----

start_daemon() {
	env WORKSPACE_DATA_DIR="$base/data" WORKSPACE_HTTP_PORT=0 WORKSPACE_NFS_PORT=0 "$build/workspaced" 2>"$base/log" >&2 &
	daemon=$!
	for _ in $(seq 100); do
		grep -q 'ready http=' "$base/log" && break
		kill -0 "$daemon" || { cat "$base/log" >&2; exit 1; }
		sleep 0.1
	done
	http=$(sed -nE 's/.*ready http=[^ ]*:([0-9]+) .*/\1/p' "$base/log")
	nfs=$(sed -nE 's/.*ready .* nfs=[^ ]*:([0-9]+) .*/\1/p' "$base/log")
	id=$(curl -s "http://127.0.0.1:$http/api/v1/workspaces" --json '{}' | jq -r .id)
}

mount_all() {
	mkdir "$base"/{mnt-ours,mnt-sshfs,mnt-passthrough,far,pass}
	start_daemon
	"$build/fuse-client" mount "127.0.0.1:$nfs:/$id" "$base/mnt-ours"
	kinds+=(ours)
	if command -v sshfs >/dev/null && [ -x $sftp ]; then
		printf '#!/bin/sh\nexec %s\n' "$sftp" >"$base/no-ssh"
		chmod 755 "$base/no-ssh"
		sshfs -o "ssh_command=$base/no-ssh" "host:$base/far" "$base/mnt-sshfs"
		kinds+=(sshfs)
	fi
	# shellcheck disable=SC2046 # words of pkg-config
	cc -O2 -o "$base/passthrough" tests/bench/passthrough.c $(pkg-config --cflags --libs fuse3)
	"$base/passthrough" "$base/pass" "$base/mnt-passthrough"
	kinds+=(passthrough)
}

# ---- what is measured ----

make_tree() { # of N_FILES small files, as a tar file; and a repository of twice as many
	python3 - "$base" "$n_files" <<'END'
import os, sys
base, n = sys.argv[1], int(sys.argv[2])
for i in range(n):
    d = f"{base}/src/d{i % 100}"
    os.makedirs(d, exist_ok=True)
    with open(f"{d}/f{i}", "wb") as f:
        f.write(os.urandom(500 + i % 4000))
END
	tar -C "$base" -cf "$base/src.tar" src
}

work_untar() { tar -C "$1" -xf "$base/src.tar"; }
work_find() { find "$1/src" -type f -size +1 >/dev/null; }
work_stat_hot() { for _ in 1 2 3 4 5; do find "$1/src" -type f -size +1 >/dev/null; done; }
work_cold_find() { sleep 1.2; find "$1/src" -type f -size +1 >/dev/null; } # attributes have expired
work_git_init() { (cd "$1/src" && git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm x); }
work_git_status() { (cd "$1/src" && git status --porcelain >/dev/null); }
work_rm() { rm -r "$1/src"; }
work_write() { dd if=/dev/zero of="$1/big" bs=1M count="$megabytes" conv=fsync status=none; }
work_read() { dd if="$1/big" of=/dev/null bs=1M status=none; }
drop_caches() { [ "$(id -u)" -ne 0 ] || echo 1 >/proc/sys/vm/drop_caches; }

seconds() { # COMMAND...: wall time
	local from=$EPOCHREALTIME
	"$@"
	echo "$EPOCHREALTIME $from" | awk '{ printf "%.3f\n", $1 - $2 }'
}

declare -A best
measure() { # NAME KIND
	local t key="$1 $2"
	[ "$1" != read ] || drop_caches
	t=$(seconds "work_${1}" "$base/mnt-$2")
	if [ -z "${best[$key]:-}" ] || awk "BEGIN { exit !($t < ${best[$key]}) }"; then
		best[$key]=$t
	fi
}

mount_all
make_tree
steps=(untar find stat_hot cold_find git_init git_status rm write read)
for _ in $(seq "$n_runs"); do
	for step in "${steps[@]}"; do
		for kind in "${kinds[@]}"; do
			measure "$step" "$kind"
		done
	done
done

printf '%-12s' seconds
printf '%14s' "${kinds[@]}" "sshfs/ours" "ours/pass"
printf '\n'
for step in "${steps[@]}"; do
	printf '%-12s' "$step"
	for kind in "${kinds[@]}"; do
		printf '%14s' "${best[$step $kind]}"
	done
	awk -v o="${best[$step ours]}" -v s="${best[$step sshfs]:-0}" -v p="${best[$step passthrough]}" \
		'BEGIN { printf("%14s%14.2f\n", (s > 0) ? sprintf("%.2f", s / o) : "-", (p > 0) ? o / p : 0) }'
done
printf 'resident: '
for pid in $(pgrep -f "fuse-client mount .*$base/mnt-ours"); do
	awk '/VmRSS|VmHWM/ { printf "%s %d kB  ", $1, $2 }' "/proc/$pid/status"
done
printf '\n%s files, %s MB, best of %s, data in %s\n' "$n_files" "$megabytes" "$n_runs" "$(dirname "$base")"
