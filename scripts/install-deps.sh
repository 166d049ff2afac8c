#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs the Debian packages that the build needs, and with --test those that the tests need.  Only what is
# missing; does nothing and needs nobody's rights when all is there.
set -euo pipefail

build=(build-essential pkg-config rpcsvc-proto libtirpc-dev libuv1-dev libjansson-dev libsqlite3-dev
	libcmocka-dev node-llhttp libseccomp-dev libcap-ng-dev libsodium-dev libpcre2-dev libarchive-dev
	libfuse3-dev fuse3 libcurl4-openssl-dev curl jq python3 python3-yaml)
# The guest machine of tests/nfs-guest fetches what it needs by itself.
tests=(clang libclang-rt-14-dev clang-format cppcheck shellcheck python3-pytest python3-venv libnfs-utils sqlite3
	git procps util-linux strace)

wanted=("${build[@]}")
case "${1:-}" in
"") ;;
--test) wanted+=("${tests[@]}") ;;
*)
	echo "usage: $0 [--test]" >&2
	exit 2
	;;
esac

# A package that a distribution has merged into another counts as there when the other provides it.
missing=()
for package in "${wanted[@]}"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

install_words="apt-get install ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
	echo "These packages are missing and only root can install them:" >&2
	echo "    sudo $install_words" >&2
	exit 1
fi

echo "installing: ${missing[*]}" >&2
apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" >&2
}
# The lists of a fresh machine may be absent or old: try what there is, then bring them up to date.
apt --no-install-recommends install "${missing[@]}" && exit 0
apt update
apt --no-install-recommends install "${missing[@]}" || {
	echo "could not install: $install_words" >&2
	exit 1
}
