#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs what `make check` built: every unit test, every fuzz target over its corpus, and the structure
# checks.  One line for each; what a failed one printed follows it.  Called with the build folder.
#
# Programs are found by their sources, so that what is left of a deleted test is not run, and a test
# that was not built is a failure.
set -u

build=${1:?usage: run-checks.sh BUILD_DIR}
limit=600 # seconds for one program: a hang must not stop the run, sanitizers are slow
passed=0
failed=0
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# run NAME COMMAND...
run() {
	name=$1
	shift
	if timeout "$limit" "$@" >"$log" 2>&1; then
		passed=$((passed + 1))
		note=
		if grep -q 'SKIPPED' "$log"; then
			note=' (some skipped: run it to see why)'
		fi
		echo "ok    $name$note"
	else
		echo "FAIL  $name (exit $?)"
		failed=$((failed + 1))
		sed 's/^/      /' "$log"
	fi
}

for src in tests/unit/test_*.c; do
	name=$(basename "$src" .c)
	run "$name" "$build/tests/$name"
done
for src in tests/fuzz/fuzz_*.c; do
	name=$(basename "$src" .c)
	run "$name corpus" "$build/fuzz/$name" "tests/fuzz/corpus/${name#fuzz_}"
done
for check in scripts/check-*.sh; do
	if [ -x "$check" ]; then
		run "$(basename "$check" .sh)" "$check"
	fi
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
