#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The large scales, for hours:  scripts/soak.sh BUILD_DIR [STEP...]   (or: make soak)
#
# Steps go on after a failure.  The table at the end also replaces the one in docs/testing.md, for who ran it to
# commit.  SOAK_FACTOR=N makes the numbers N times smaller, to try the script itself.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

build=${1:?usage: soak.sh BUILD_DIR [STEP...]}
shift
chosen=("$@")
factor=${SOAK_FACTOR:-1}
logs=$build/soak-logs
pytest=(/usr/bin/python3 -m pytest -q -p no:cacheprovider)
bad=0
rows=
export WORKSPACED=$PWD/$build/workspaced
export PATIENCE=30 # every time limit of the guest's checks is this many times longer

per_factor() { echo $(($1 / factor > 1 ? $1 / factor : 1)); }

step() { # NAME WHAT COMMAND...
	local name=$1 what=$2 start=$SECONDS log=$logs/$1.log verdict=ok
	shift 2
	[ ${#chosen[@]} -eq 0 ] || [[ " ${chosen[*]} " == *" $name "* ]] || return 0
	printf '\n=== %s: %s\n' "$name" "$what"
	"$@" 2>&1 | tee "$log"
	if [ "${PIPESTATUS[0]}" -ne 0 ]; then
		verdict=FAILED
		bad=1
	elif ! grep -qE '[0-9]+ passed' "$log"; then
		verdict=skipped # everything in it: a pass has to be said
	fi
	rows+="| $name | $what | $verdict | $((SECONDS - start)) s |"$'\n'
}

guest() { "${pytest[@]}" tests/guest -k "$@"; }

# random operations, each round with other numbers
fsx_rounds() { # ROUNDS OPERATIONS
	local i
	for ((i = 1; i <= $1; i++)); do
		FSX_SEED=$((i * 1000)) FSX_OPS=$2 guest test_fsx || return 1
	done
}

# the suites again and again: what fails once in a while shows here
rounds() { # ROUNDS COMMAND...
	local i n=$1
	shift
	for ((i = 1; i <= n; i++)); do
		"$@" || return 1
	done
}

fuzz_targets() { # SECONDS-EACH
	local target name corpus
	scripts/build-fuzz.sh || return 1
	for target in build-fuzz/fuzz_*; do
		[ -x "$target" ] && [ -f "$target" ] || continue
		name=${target##*/fuzz_}
		corpus=$(mktemp -d) || return 1
		"$target" -max_total_time="$1" -rss_limit_mb=2048 -print_final_stats=1 "$corpus" "tests/fuzz/corpus/$name" ||
			{ echo "find kept beside $corpus"; return 1; }
		rm -rf "$corpus"
	done
	echo "1 passed"
}

write_table() {
	local doc=docs/testing.md new
	new=$(mktemp) || return
	awk -v table="$1" '
		/^<!-- soak results -->$/ { print; printf "%s", table; inside = 1; next }
		/^<!-- end of soak results -->$/ { inside = 0 }
		!inside' "$doc" >"$new" && cat "$new" >"$doc"
	rm -f "$new"
}

mkdir -p "$logs"
step fsx "random operations on one file, $(per_factor 100000) for each of $(per_factor 5) seeds, mapped and not" \
	fsx_rounds "$(per_factor 5)" "$(per_factor 100000)"
step huge-dir "a folder of $(per_factor 1000000) names listed, and deleted while listed" \
	env HUGE_DIR="$(per_factor 1000000)" GUEST_MEM=3072 "${pytest[@]}" tests/guest -k "huge"
step tools "an archive of $(per_factor 50000) files, a git repository of half as many" \
	env TOOLS_SCALE="$(per_factor 50000)" GUEST_MEM=3072 "${pytest[@]}" tests/guest -k "test_tools and not caches"
step kills "each restart check with $(per_factor 100) times kill -9" \
	env RESTARTS="$(per_factor 100)" "${pytest[@]}" tests/guest -k "test_restart"
step churn "two clients and the server in one folder, $(per_factor 30000) names by each" \
	env CHURN="$(per_factor 30000)" "${pytest[@]}" tests/guest -k "two_writers"
step again "all guest tests $(per_factor 20) times" rounds "$(per_factor 20)" guest test_
step integration "all integration tests $(per_factor 20) times" \
	rounds "$(per_factor 20)" "${pytest[@]}" tests/integration
step fuzz "each fuzz target for $(per_factor 1200) s" fuzz_targets "$(per_factor 1200)"

table="Last run: $(date -u +%F), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores, Linux $(uname -r | cut -d- -f1)."
table+=$'\n\n| step | what | result | time |\n| --- | --- | --- | --- |\n'"$rows"
printf '\n%s' "$table"
if [ ${#chosen[@]} -eq 0 ] && [ "$factor" -eq 1 ]; then
	write_table "$table"
fi
exit "$bad"
