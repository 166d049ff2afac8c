#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# run-checks.sh BUILD: every unit test and every fuzz target's corpus in BUILD, then the structure checks.
# One line each; what a failing one printed is shown.  The last line says how many passed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

build=${1:?usage: run-checks.sh BUILD}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0

# cmocka and the corpus replay say how many cases they ran; anything else counts as one.
count() {
	local n
	n=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) test\(s\)\.$/\1/p; s/^([0-9]+) inputs? replayed$/\1/p' "$log" | tail -n 1)
	echo "${n:-1}"
}

check() { # NAME COMMAND...
	local name=$1 code n
	shift
	timeout --kill-after=10 600 "$@" >"$log" 2>&1
	code=$?
	if [ "$code" -eq 0 ]; then
		n=$(count)
		passed=$((passed + n))
		printf 'ok      %-24s %s\n' "$name" "$n"
	else
		failed=$((failed + 1))
		printf 'FAILED  %-24s exit %s\n' "$name" "$code"
		cat "$log"
	fi
}

for test in "$build"/tests/test_*; do
	[ -x "$test" ] && check "$(basename "$test")" "$test"
done
for target in "$build"/fuzz/fuzz_*; do
	[ -x "$target" ] && check "$(basename "$target")" "$target" "tests/fuzz/corpus/$(basename "$target" | sed 's/^fuzz_//')"
done
check layers scripts/check-includes.sh
check doors scripts/check-doors.sh

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
