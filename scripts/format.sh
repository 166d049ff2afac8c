#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# format.sh check | fix: every C file by .clang-format
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t files < <(git ls-files '*.c' '*.h')
case "${1:-check}" in
check) clang-format --dry-run -Werror "${files[@]}" ;;
fix) clang-format -i "${files[@]}" ;;
*)
	echo "usage: $0 [check|fix]" >&2
	exit 2
	;;
esac
