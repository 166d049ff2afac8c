#!/bin/bash
# Starts or stops Debian's nfs-ganesha (packages nfs-ganesha, nfs-ganesha-vfs,
# rpcbind) as a peer to measure against: NFSv3 and MOUNT over TCP on loopback,
# FSAL VFS, fixed ports, defaults otherwise.
#
#   run-peer-ganesha.sh start DIR [NFSPORT [MOUNTPORT]]   prints PID, ports, export
#   run-peer-ganesha.sh stop [NFSPORT]
#
# Debian's build refuses to start for NFSv3 when it cannot register with
# rpcbind.  So that nothing listens on port 111, both run in a mount namespace
# of their own with an empty /run, and rpcbind is given a netconfig that has
# only the local transport: it listens on its UNIX socket there and nowhere
# else.  Needs root.
set -eu

state_of() { echo "${NFSBENCH_STATE:-${TMPDIR:-/tmp}/nfsbench-ganesha}.$1"; }

# In the new mount namespace: $1 = state directory.
inside() {
  local st=$1 rp gp
  mount --make-rprivate /
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/rpcbind /run/ganesha
  chown _rpc /run/rpcbind 2>/dev/null || true
  grep '^local' /etc/netconfig > /run/netconfig
  mount --bind /run/netconfig /etc/netconfig
  rpcbind -f -i & rp=$!
  for _ in $(seq 50); do [ -S /run/rpcbind.sock ] && break; sleep 0.1; done
  umount /etc/netconfig # ganesha itself needs the tcp entries
  ganesha.nfsd -F -f "$st/ganesha.conf" -L "$st/log" -p "$st/ganesha.pid" & gp=$!
  echo "$gp" > "$st/pid"
  wait "$gp" || true
  kill "$rp" 2>/dev/null || true
  rm -f "$st/pid"
}

start() {
  local dir=$1 port=${2:-20490} mport=${3:-20491} st
  dir=$(realpath "$dir")
  st=$(state_of "$port")
  if [ -e "$st/pid" ]; then echo "already running, see $st" >&2; exit 1; fi
  mkdir -p "$st/recovery"
  cat > "$st/ganesha.conf" <<CONF
NFS_CORE_PARAM {
  Protocols = 3;
  NFS_Port = $port;
  MNT_Port = $mport;
  Bind_addr = 127.0.0.1;
  Enable_UDP = false;
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Clustered = false;
  Plugins_Dir = "/usr/lib/x86_64-linux-gnu/ganesha";
  ${NFSBENCH_GANESHA_CORE:-}
}
NFSv4 { Graceless = true; RecoveryRoot = "$st/recovery"; }
EXPORT_DEFAULTS { Access_Type = RW; Squash = No_Root_Squash; SecType = sys; }
EXPORT {
  Export_Id = 1;
  Path = "$dir";
  Pseudo = "/nfsbench";
  Protocols = 3;
  Transports = TCP;
  FSAL { Name = VFS; }
}
${NFSBENCH_GANESHA_EXTRA:-}
LOG { Default_Log_Level = EVENT; }
CONF
  : > "$st/log"
  setsid unshare -m -- bash "$0" inside "$st" > "$st/out" 2>&1 < /dev/null &
  for _ in $(seq 100); do
    if ss -Hltn "sport = :$port" | grep -q . && ss -Hltn "sport = :$mport" | grep -q .; then
      echo "pid=$(cat "$st/pid") port=$port mountport=$mport export=$dir"
      return 0
    fi
    sleep 0.1
  done
  echo "ganesha did not start, see $st/log" >&2
  exit 1
}

stop() {
  local st pid
  st=$(state_of "${1:-20490}")
  pid=$(cat "$st/pid" 2>/dev/null) || { echo "not running" >&2; exit 1; }
  [ "$(cat "/proc/$pid/comm")" = ganesha.nfsd ] || { echo "process $pid is not ganesha" >&2; exit 1; }
  kill "$pid"
  for _ in $(seq 300); do [ -e "$st/pid" ] || return 0; sleep 0.1; done
  kill -9 "$pid"
}

case ${1:-} in
  start) shift; [ $# -ge 1 ] || { sed -n 2,9p "$0"; exit 2; }; start "$@" ;;
  stop) shift; stop "$@" ;;
  inside) inside "$2" ;;
  *) sed -n '2,9p' "$0"; exit 2 ;;
esac
