#!/bin/bash
# SPDX-License-Identifier: MIT
#
# instructions.sh CALLS: user-space instructions of one GETATTR, LOOKUP and 4 KiB READ through the dispatcher, counted
# by valgrind's callgrind (package valgrind).  The same number whatever else the machine does.
set -eu
calls=${1:?usage: instructions.sh BUILD/tests/bench-calls}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

count() { # WHAT N
	valgrind --tool=callgrind --callgrind-out-file="$tmp/out" "$calls" "$1" "$2" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; return 1; }
	sed -n 's/^summary: //p; s/^totals: //p' "$tmp/out" | head -n 1
}

echo "| call | instructions |"
echo "|---|--:|"
for what in getattr lookup read4k; do
	few=$(count "$what" 1000)
	many=$(count "$what" 6000)
	echo "| $what | $(((many - few) / 5000)) |"
done
