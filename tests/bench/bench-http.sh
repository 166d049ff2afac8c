#!/bin/bash
# Measures the HTTP API beside Debian's nginx, both with one worker on loopback, in turns, and prints ratios.
# Called by `make bench`; nginx, wrk and curl are installed when root asks.
#
#   bench-http.sh WORKSPACED
#
# BENCH_REPEATS=3 BENCH_SECONDS=2   of each line; the two take turns, medians are shown
# BENCH_CONNECTIONS=16              of wrk, which has one thread
# BENCH_FILE_MIB=1024               the large file, in memory and read once before
# BENCH_NGINX_CACHE=off             nginx opens the file for each request as ours does and as it is delivered; on: it
#                                   keeps descriptors (open_file_cache), and serves what was there a minute ago
# BENCH_NGINX_LOG=on                nginx logs each request to a file as ours does; off: it does not
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
daemon=$(realpath "${1:?usage: bench-http.sh WORKSPACED}")
out=$top/build/bench
repeats=${BENCH_REPEATS:-3} secs=${BENCH_SECONDS:-2} conns=${BENCH_CONNECTIONS:-16} mib=${BENCH_FILE_MIB:-1024}

missing=()
for tool in nginx:nginx-light wrk:wrk curl:curl; do
	command -v "${tool%:*}" >/dev/null || [ -x "/usr/sbin/${tool%:*}" ] || missing+=("${tool#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
	if [ "$(id -u)" != 0 ] ||
		! DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null; then
		echo "HTTP beside nginx is not measured: ${missing[*]} missing and cannot be installed" >&2
		exit 0
	fi
fi
nginx=$(command -v nginx || echo /usr/sbin/nginx)

mkdir -p "$out"
work=$(mktemp -d /dev/shm/workspaced-bench-http.XXXXXX)
chmod 755 "$work"
pids=()
cleanup() {
	local p
	for p in "${pids[@]}"; do kill "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

wait_until() { # WHAT COMMAND...
	local what=$1 n=0
	shift
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 200 ] || { echo "waited in vain for $what" >&2; return 1; }
		sleep 0.05
	done
}

start_ours() {
	mkdir "$work/data"
	WORKSPACE_DATA_DIR=$work/data WORKSPACE_HTTP_PORT=0 WORKSPACE_NFS_PORT=0 "$daemon" 2>"$work/daemon.log" &
	ours_pid=$!
	pids+=("$ours_pid")
	wait_until "the daemon" grep -q 'ready http=' "$work/daemon.log"
	ours=http://$(sed -n 's/.*ready http=\([^ ]*\) .*/\1/p' "$work/daemon.log")
	id=$(curl -sf -X POST "$ours/api/v1/workspaces" | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p')
	files=$ours/api/v1/workspaces/$id/files
}

# The same bytes for both: what ours answers to /health, and two files.
make_files() {
	mkdir "$work/www"
	curl -sf "$ours/api/v1/health" >"$work/www/health"
	head -c 4096 /dev/urandom >"$work/www/4k"
	head -c "${mib}M" /dev/zero >"$work/www/large"
	curl -sf -o /dev/null -T "$work/www/4k" -H 'Content-Type: application/octet-stream' "$files?path=4k"
	curl -sf -o /dev/null -T "$work/www/large" -H 'Content-Type: application/octet-stream' "$files?path=large"
}

start_nginx() {
	local port log="$work/access.log" cache=
	[ "${BENCH_NGINX_CACHE:-off}" != on ] || cache='open_file_cache max=100;'
	[ "${BENCH_NGINX_LOG:-on}" = on ] || log=off
	port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
	cat >"$work/nginx.conf" <<-C
		daemon off; master_process off; worker_processes 1; pid $work/nginx.pid; error_log $work/error.log;
		events { worker_connections 4096; }
		http {
			sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000000; access_log $log;
			default_type application/octet-stream; $cache
			client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3;
			uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
			server { listen 127.0.0.1:$port; root $work/www; }
		}
	C
	"$nginx" -c "$work/nginx.conf" 2>>"$work/error.log" &
	nginx_pid=$!
	pids+=("$nginx_pid")
	peer=http://127.0.0.1:$port
	wait_until nginx curl -sf "$peer/health"
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
rss_kib() { awk '/^VmRSS/ {print $2}' "/proc/$1/status"; }

# One figure each: requests a second; MiB a second.  Answers other than 200 spoil the run.
requests() {
	local report
	report=$(wrk -t1 -c"$conns" -d"${secs}s" "$1")
	if grep -q 'Non-2xx\|Socket errors' <<<"$report"; then
		echo "errors from $1: $report" >&2
		return 1
	fi
	awk '/^Requests\/sec/ { print int($2) }' <<<"$report"
}
download() { curl -sf -o /dev/null -w '%{speed_download}\n' "$1" | awk '{ print int($1 / 1048576) }'; }

# line NAME FUNCTION OUR_URL NGINX_URL - the two take turns
line() {
	local a b
	: >"$work/a"
	: >"$work/b"
	for _ in $(seq "$repeats"); do
		"$2" "$3" >>"$work/a"
		"$2" "$4" >>"$work/b"
	done
	a=$(median <"$work/a") b=$(median <"$work/b")
	echo "| $1 | $a | $b | $(ratio "$a" "$b") |"
}

# What 1000 idle keep-alive connections add to both, each after one request
idle_memory() {
	python3 - "${ours#http://}" "$ours_pid" "${peer#http://}" "$nginx_pid" <<'P'
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
def rss(pid):
    return int(next(l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")).split()[1])
def each(address, pid, path):
    host, port = address.rsplit(":", 1)
    before, conns = rss(pid), []
    for _ in range(1000):
        s = socket.create_connection((host, int(port)), 10)
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
        conns.append(s)
    return (rss(pid) - before) / 1000
a, b = each(sys.argv[1], sys.argv[2], "/api/v1/health"), each(sys.argv[3], sys.argv[4], "/health")
print(f"| each of 1000 idle connections, KiB | {a:.2f} | {b:.2f} | |")
P
}

# The most that a process had in memory while the large file was downloaded, above what it had before, in KiB
transfer_memory() {
	local before most=0 now client
	before=$(rss_kib "$2")
	curl -sf -o /dev/null --limit-rate 800M "$1" &
	client=$!
	while kill -0 "$client" 2>/dev/null; do
		now=$(rss_kib "$2")
		[ "$now" -le "$most" ] || most=$now
		sleep 0.02
	done
	wait "$client"
	echo $((most > before ? most - before : 0))
}

start_ours
make_files
start_nginx
echo "| HTTP, $conns connections, one worker each | ours | nginx | ratio |"
echo "|---|--:|--:|--:|"
idle_memory
line "small JSON object, requests/s" requests "$ours/api/v1/health" "$peer/health"
line "4 KiB file raw, requests/s" requests "$files?path=4k&raw=1" "$peer/4k"
download "$files?path=large&raw=1" >/dev/null
download "$peer/large" >/dev/null
line "$mib MiB file, one connection, MiB/s" download "$files?path=large&raw=1" "$peer/large"
echo "| more memory during that download, KiB | $(transfer_memory "$files?path=large&raw=1" "$ours_pid") |" \
	"$(transfer_memory "$peer/large" "$nginx_pid") | |"
