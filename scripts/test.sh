#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What CI runs: installs what tests need, builds, and runs every test, with sanitizers on the parts that matter.
# Steps go on after a failure; the table and the last line at the end say what passed.  Under 25 minutes on two
# cores.  As an ordinary user the tests that need root skip and say so.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

logs=build/test-logs
asan=build-address-undefined
pytest=(/usr/bin/python3 -m pytest -q -p no:cacheprovider --durations=5)
passed=0 failed=0 skipped=0
table=

# The closing line of a runner: "3 passed, 1 failed, 2 skipped in 4.5s", in any order, any of them absent.
closing_number() { # WORD LOG
	grep -E '[0-9]+ (passed|failed|skipped|error)' "$2" | tail -n 1 | grep -oE "[0-9]+ $1" | grep -oE '[0-9]+' || echo 0
}

step() { # NAME COMMAND...
	local name=$1 start=$SECONDS log code p f s verdict=ok
	shift
	log=$logs/${name//[^a-z0-9]/-}.log
	printf '\n=== %s\n' "$name"
	"$@" 2>&1 | tee "$log"
	code=${PIPESTATUS[0]}
	p=$(closing_number passed "$log")
	f=$(($(closing_number failed "$log") + $(closing_number error "$log")))
	s=$(closing_number skipped "$log")
	if [ "$code" -eq 0 ]; then
		[ "$p" -gt 0 ] || p=1 # a build or lint is one check
	else
		verdict=FAILED
		[ "$f" -gt 0 ] || f=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	table+=$(printf '%-8s %-36s %6d passed %4d failed %4d skipped %5d s' \
		"$verdict" "$name" "$p" "$f" "$s" $((SECONDS - start)))$'\n'
	return "$code"
}

finish() {
	printf '\n%s\n%s passed, %s failed, %s skipped\n' "$table" "$passed" "$failed" "$skipped"
	[ "$failed" -eq 0 ]
	exit
}

# What comes from PyPI is wanted by one test, which skips without it.
fetch_python_packages() {
	local venv=build/venv
	[ -e "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv" || return 0
	"$venv/bin/python" -m pip install -q --disable-pip-version-check -r tests/requirements.txt ||
		echo "PyPI cannot be reached: the test that needs schemathesis skips"
}

mkdir -p "$logs"
step "install what is missing" scripts/install-deps.sh --test || finish
step "packages from PyPI" fetch_python_packages
step "build" make -s -j"$(nproc)" || finish
step "make check" make -s -j"$(nproc)" check
step "make check with sanitizers" make -s -j"$(nproc)" SAN=address,undefined check
step "make lint" make -s lint
step "integration tests" "${pytest[@]}" tests/integration
step "integration tests with sanitizers" env WORKSPACED=$asan/workspaced "${pytest[@]}" tests/integration -m "not slow"
step "tests with the kernel's NFS client" "${pytest[@]}" tests/guest
finish
