#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# From a fresh clone to a server that runs: installs what the build needs, builds, starts workspaced on loopback
# with its data in data/, makes a workspace "demo" and prints the lines to paste.  Ctrl-C stops it.
# Every WORKSPACE_* variable of docs/configuration.md may be set; the ports are those most often wanted:
#     WORKSPACE_HTTP_PORT=8081 WORKSPACE_NFS_PORT=2050 scripts/run.sh
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
make -s -j"$(nproc)"

export WORKSPACE_DATA_DIR="${WORKSPACE_DATA_DIR:-$PWD/data}"

# The key for our own calls, when the daemon is to ask for one.
authorization=()
if [ -n "${WORKSPACE_API_KEY:-}" ]; then
	key=$WORKSPACE_API_KEY
	case $key in @*) key=$(head -n 1 "${key#@}") ;; esac
	key=${key%%,*}
	authorization=(-H "Authorization: Bearer ${key#*:}")
fi

api() { # METHOD PATH [JSON]
	curl -sS --fail-with-body --max-time 30 "${authorization[@]}" -X "$1" "http://$http/api/v1$2" ${3:+--json "$3"}
}

demo_id() {
	local list id
	list=$(api GET /workspaces) || return
	id=$(jq -r '[.workspaces[] | select(.name == "demo") | .id][0] // empty' <<<"$list") || return
	if [ -z "$id" ]; then
		list=$(api POST /workspaces '{"name":"demo"}') || return
		id=$(jq -er .id <<<"$list") || return
	fi
	echo "$id"
}

print_lines() {
	local id=$1 host=${nfs%:*} port=${nfs##*:} key_hint=
	[ ${#authorization[@]} -eq 0 ] || key_hint=' -H "Authorization: Bearer KEY"'
	cat <<-END

		workspaced runs. Its workspace "demo" has the id $id

		Mount it (as root; the package nfs-common brings mount.nfs):
		    mkdir -p /mnt/demo
		    mount -t nfs -o nfsvers=3,tcp,nolock,port=$port,mountport=$port $host:/$id /mnt/demo

		Ask it:
		    curl -s$key_hint http://$http/api/v1/workspaces
		    curl -s$key_hint http://$http/api/v1/workspaces --json '{"name":"another"}'

		Files:    $WORKSPACE_DATA_DIR/workspaces/$id/files
		Docs:     README.md, docs/nfs.md, docs/configuration.md
		Stop:     Ctrl-C

	END
}

# What the daemon says comes through a pipe, so that the line with its ports can be read.
pipe_dir=$(mktemp -d)
trap 'rm -rf "$pipe_dir"' EXIT
mkfifo "$pipe_dir/log"
build/workspaced 2>"$pipe_dir/log" &
daemon=$!
exec 3<"$pipe_dir/log"
# Ctrl-C reaches the daemon by itself; asking it twice does no harm.
trap 'kill -TERM "$daemon" 2>/dev/null || true' INT TERM HUP

# One line of the daemon's log, in $line.  Until it is ready we wait 30 s and no longer.
next_line() {
	if [ -n "$is_ready" ]; then
		IFS= read -r line <&3
	else
		IFS= read -r -t $((deadline > SECONDS ? deadline - SECONDS : 1)) line <&3
	fi
}

free_port() { # FIRST: the first port from there on that nobody listens on
	local port=$1
	while ss -Hltn "sport = :$port" 2>/dev/null | grep -q .; do
		port=$((port + 1))
	done
	echo "$port"
}

is_ready="" is_late="" in_use=""
deadline=$((SECONDS + 30))
while next_line; do
	printf '%s\n' "$line" >&2
	case $line in *" port "*"ddress already in use"*) in_use=1 ;; esac
	if [ -z "$is_ready" ] && [[ $line =~ ready\ http=([^ ]+)\ nfs=([^ ]+) ]]; then
		is_ready=1
		http=${BASH_REMATCH[1]} nfs=${BASH_REMATCH[2]}
		if id=$(demo_id); then
			print_lines "$id"
		else
			echo "run.sh: the workspace 'demo' could not be made; see the lines above" >&2
		fi
	fi
done
if [ -z "$is_ready" ] && [ "$SECONDS" -ge "$deadline" ] && kill -0 "$daemon" 2>/dev/null; then
	is_late=1
	echo "run.sh: workspaced is not ready after 30 s and is stopped" >&2
	kill -TERM "$daemon" 2>/dev/null || true
fi
cat <&3 >&2 || true # a signal ends the loop above; the daemon may have more to say

# A trapped signal also ends `wait`, before the daemon has ended.
code=0
while true; do
	wait "$daemon" && code=0 || code=$?
	kill -0 "$daemon" 2>/dev/null || break
done
[ -z "$is_late" ] || exit 1
if [ -n "$is_ready" ] && [ "$code" -ne 0 ]; then
	echo "run.sh: workspaced has ended with exit status $code; its last lines say why" >&2
elif [ -z "$is_ready" ] && [ "$code" -ne 0 ]; then
	echo "run.sh: workspaced did not start; its last line says why" >&2
	if [ -n "$in_use" ]; then
		cat >&2 <<-END
			These ports are free:
			    WORKSPACE_HTTP_PORT=$(free_port 8081) WORKSPACE_NFS_PORT=$(free_port 2050) scripts/run.sh
		END
	fi
fi
exit "$code"
