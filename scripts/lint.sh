#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What needs no run: formatting, layers, doors, cppcheck, shellcheck.  All steps are done; any failure fails.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

bad=0
step() { # NAME COMMAND...
	local name=$1
	shift
	if "$@"; then
		echo "ok      $name"
	else
		echo "FAILED  $name"
		bad=1
	fi
}

# Only checks that find bugs, not those that have opinions.  Leaks are left to the sanitizers: cppcheck does not
# know the cleanup attribute of base/cleanup.h.
run_cppcheck() {
	local files
	mapfile -t files < <(git ls-files '*.c' | grep -v '^tests/')
	cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
		--suppress=missingInclude --suppress=memleak --suppress=resourceLeak --suppress=preprocessorErrorDirective --suppress=unknownMacro \
		--template='{file}:{line}: {severity}: {message} [{id}]' \
		-I. -D_GNU_SOURCE -D__linux__ -DWORKSPACED_VERSION='"0"' "${files[@]}"
}

run_shellcheck() {
	local files
	mapfile -t files < <(git ls-files '*.sh' .ci/run)
	shellcheck -x -S warning -e SC2154 "${files[@]}" # SC2154 takes variables of a quoted trap for unset ones
}

step "clang-format (scripts/format.sh fix mends it)" scripts/format.sh check
step "include layers" scripts/check-includes.sh
step "one door per danger" scripts/check-doors.sh
step cppcheck run_cppcheck
step shellcheck run_shellcheck
exit "$bad"
