#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds the libFuzzer targets with clang, ASan and UBSan into build-fuzz/.
#
#   scripts/build-fuzz.sh                  build; then e.g. build-fuzz/fuzz_jsonx tests/fuzz/corpus/jsonx
#   scripts/build-fuzz.sh --smoke SECONDS  build, and run each target for that long
#
# What a smoke run finds new goes to build-fuzz/found/NAME, not into the corpus: only inputs that a person
# looked at are kept there.  A crash leaves its input in build-fuzz/crashes/.
set -eu

cd "$(dirname "$0")/.."
seconds=0
case ${1-} in
'') ;;
--smoke)
	seconds=${2:?usage: build-fuzz.sh [--smoke SECONDS]}
	;;
*)
	echo "usage: build-fuzz.sh [--smoke SECONDS]" >&2
	exit 2
	;;
esac

make -j2 BUILD=build-fuzz CC="${CLANG:-clang}" OPT=-O1 HARDEN=-fPIE WARN=-Wall \
	SANFLAGS='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined' fuzzers

[ "$seconds" -gt 0 ] || exit 0
failed=0
for src in tests/fuzz/fuzz_*.c; do
	target=$(basename "$src" .c)
	name=${target#fuzz_}
	mkdir -p "build-fuzz/found/$name" build-fuzz/crashes
	if "build-fuzz/$target" -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=10 \
		-artifact_prefix="build-fuzz/crashes/$name-" -print_final_stats=1 \
		"build-fuzz/found/$name" "tests/fuzz/corpus/$name" >"build-fuzz/$name.log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$name.log")
		echo "ok    $target: $runs runs"
	else
		echo "FAIL  $target"
		tail -n 40 "build-fuzz/$name.log"
		failed=1
	fi
done
exit "$failed"
