#!/bin/bash
# Measures workspaced beside Debian's nfs-ganesha and beside the machine's own limits, in one run, and prints
# ratios.  Called by `make bench`; needs root (tmpfs and loop mounts, ganesha).
#
#   bench.sh WORKSPACED
#
# BENCH_FS="tmpfs ext4"   file systems, both in memory: ext4 is a journalled image on a loop device
# BENCH_DEPTHS="1 16 64"  requests in flight on the one connection
# BENCH_REPEATS=3 BENCH_SECONDS=2   of each workload; the peers take turns
# BENCH_WORKLOADS=LIST    those of nfsbench (all by default)
# BENCH_PEER=no           measure ourselves and the limits alone
#
# The results stay in build/bench/: one JSON line for each run, and the tables in report.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
daemon=$(realpath "${1:?usage: bench.sh WORKSPACED}")
out=$top/build/bench
fs_list=${BENCH_FS:-tmpfs ext4}
depths=${BENCH_DEPTHS:-1 16 64}
repeats=${BENCH_REPEATS:-3}
secs=${BENCH_SECONDS:-2}
names=getattr,access,lookup,readlink,read-rand,write-rand,create,mkdir,symlink,rename,read-seq,write-seq
names=$names,readdir,readdirplus,smallfiles,smallfiles-nosync
workloads=${BENCH_WORKLOADS:-$names}

[ "$(id -u)" = 0 ] || { echo "make bench needs root: it mounts file systems in memory and starts nfs-ganesha" >&2; exit 1; }
if [ "${BENCH_PEER:-yes}" != no ] && ! command -v ganesha.nfsd >/dev/null; then
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends nfs-ganesha nfs-ganesha-vfs rpcbind >/dev/null ||
		{ echo "nfs-ganesha cannot be installed: run apt-get update, or set BENCH_PEER=no" >&2; exit 1; }
fi

mkdir -p "$out"
make -s -C "$here" B="$out"
export NFSBENCH=$out/nfsbench
work=$(mktemp -d /dev/shm/workspaced-bench.XXXXXX)
chmod 755 "$work"
pids=() mounts=() ganesha='' gpid=''
cleanup() {
	local p m
	for p in "${pids[@]}"; do kill "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
	[ -z "$ganesha" ] || NFSBENCH_STATE=$work/ganesha "$here/run-peer-ganesha.sh" stop "$ganesha" || true
	for m in "${mounts[@]}"; do umount "$m" || umount -l "$m"; done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

free_port() { python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'; }

# mount_fs NAME - a file system in memory on $work/NAME; prints nothing
mount_fs() {
	local dir=$work/$1
	mkdir "$dir"
	case $1 in
	tmpfs) mount -t tmpfs -o size=3g,mode=755 bench "$dir" ;;
	ext4)
		truncate -s 3G "$work/ext4.img"
		mke2fs -q -t ext4 -m 0 -E lazy_itable_init=0,lazy_journal_init=0 "$work/ext4.img"
		mount -o loop,noatime "$work/ext4.img" "$dir"
		;;
	*) echo "unknown file system $1" >&2; return 1 ;;
	esac
	mounts=("$dir" "${mounts[@]}")
}

# start_ours DIR - the daemon with its data below DIR; sets ours_pid, ours_port, ours_http, ours_id
start_ours() {
	mkdir -p "$1/data"
	WORKSPACE_DATA_DIR=$1/data WORKSPACE_HTTP_PORT=0 WORKSPACE_NFS_PORT=0 "$daemon" 2>"$out/daemon.log" &
	ours_pid=$!
	pids+=("$ours_pid")
	local n=0
	until grep -q 'ready http=' "$out/daemon.log"; do
		n=$((n + 1)); [ $n -lt 200 ] || { cat "$out/daemon.log" >&2; return 1; }
		sleep 0.05
	done
	ours_http=$(sed -n 's/.*ready http=\([^ ]*\) .*/\1/p' "$out/daemon.log")
	ours_port=$(sed -n 's/.*ready http=[^ ]* nfs=127.0.0.1:\([0-9]*\).*/\1/p' "$out/daemon.log")
	ours_id=$(curl -sf -X POST "http://$ours_http/api/v1/workspaces" | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p')
	[ -n "$ours_id" ]
}
stop_ours() { kill "$ours_pid"; wait "$ours_pid" || true; }

rss_kib() { awk '/^VmRSS/ {print $2}' "/proc/$1/status"; }

# on_cpus LIST - the servers' threads, those to come too, run there
on_cpus() {
	local p
	for p in "$ours_pid" ${gpid:+"$gpid"}; do taskset -acp "$1" "$p" >/dev/null; done
}

# idle memory, and what 1000 idle connections add (the connections' own process apart)
measure_memory() {
	local before after
	before=$(rss_kib "$ours_pid")
	python3 - "$ours_port" "$ours_pid" <<'P'
import socket, struct, sys, resource
port, pid = int(sys.argv[1]), sys.argv[2]
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
def rss():
    return int(next(l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")).split()[1])
null = struct.pack(">6I", 1, 0, 2, 100003, 3, 0) + b"\0" * 16
rec = struct.pack(">I", 0x80000000 | len(null)) + null
base = rss()
conns = []
for _ in range(1000):
    s = socket.create_connection(("127.0.0.1", port)); s.sendall(rec); s.recv(64); conns.append(s)
print(f"| resident memory, idle | {base/1024:.1f} MiB |")
print(f"| each of 1000 idle connections | {(rss()-base)/1000:.2f} KiB |")
P
	after=$(rss_kib "$ours_pid")
	echo "| resident memory after they closed | $((after / 1024)) MiB (before: $((before / 1024))) |"
}

# Not a pipeline: what is mounted and started must be known to this shell, which cleans it up.
exec > >(tee "$out/report.txt")

echo "$("$daemon" --version) on $(nproc) CPUs, Linux $(uname -r), $(date -u +%F)"
for fs in $fs_list; do
	mount_fs "$fs"
	dir=$work/$fs
	mkdir "$dir/peer"
	start_ours "$dir"
	specs=()
	if [ "${BENCH_PEER:-yes}" != no ]; then
		gport=$(free_port) mport=$(free_port)
		line=$(NFSBENCH_STATE=$work/ganesha "$here/run-peer-ganesha.sh" start "$dir/peer" "$gport" "$mport")
		ganesha=$gport
		gpid=$(sed -n 's/^pid=\([0-9]*\).*/\1/p' <<<"$line")
		specs+=("ganesha=127.0.0.1:$gport:$mport:$dir/peer:$gpid")
	fi
	specs+=("ours=127.0.0.1:$ours_port:$ours_port:/$ours_id:$ours_pid")
	echo
	echo "## $fs: the machine's limits"
	echo
	"$out/limits" -d "$dir" -s 0.5 -r 3 tcp-pingpong-1-other-cpu tcp-pingpong-32-other-cpu tcp-pingpong-32-batched \
		tcp-stream list-stat-handle-10k create-close-unlink | tee "$out/limits-$fs.jsonl"
	for depth in $depths; do
		wl=$workloads pin=()
		[ "$fs" != ext4 ] || wl=$wl,write-sync
		# With one call in flight the figure is two wake-ups: both sides on processors of their own, for both servers.
	[ "$depth" != 1 ] || pin=(-x "--cpu 0")
	on_cpus "$([ "$depth" = 1 ] && echo 1 || echo 0-1)"
		"$here/compare.sh" -d "$depth" -r "$repeats" -s "$secs" -w "$wl" -W 2 "${pin[@]}" \
			-o "$out/runs-$fs-$depth.jsonl" "${specs[@]}" 2>>"$out/compare.err" | sed "s/^\([0-9]* connection\)/## $fs, \1/"
	done
	if [ "$fs" = tmpfs ]; then
		"$NFSBENCH" --port "$ours_port" --mountport "$ours_port" --export "/$ours_id" --depth 32 --seconds "$secs" \
			--workloads getattr --label ours >"$out/getattr32.jsonl"
		"$out/limits" -d "$dir" -s 1 -r 3 tcp-pingpong-32-other-cpu >"$out/pingpong32.jsonl"
		awk -F'[:,]' '
			function val(k, i) { for (i = 1; i < NF; i++) if ($i == "\"" k "\"") return $(i + 1); return 0 }
			/"limit"/ { limit = val("median") } /"workload"/ { got = val("ops_per_s") }
			END { printf "\ngetattr, 32 in flight: %.0f/s = %.2f of the ping-pong limit %.0f/s\n", got, got / limit, limit }
		' "$out/pingpong32.jsonl" "$out/getattr32.jsonl"
		stop_ours
		start_ours "$dir"
		echo
		echo "| memory | |"
		echo "|---|--:|"
		measure_memory
	fi
	stop_ours
	if [ -n "$ganesha" ]; then
		NFSBENCH_STATE=$work/ganesha "$here/run-peer-ganesha.sh" stop "$ganesha"
		ganesha=
	fi
done

if command -v valgrind >/dev/null; then
	echo
	echo "## user-space instructions of one call, without sockets"
	echo
	"$here/instructions.sh" "$(dirname "$daemon")/tests/bench-calls"
fi
