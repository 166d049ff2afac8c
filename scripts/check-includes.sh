#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Calls go down only: which folder may include which (docs/architecture.md).  Also: project headers are
# named from the top of the tree, and a file's stem is unique, since it is the prefix of its functions.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A may=(
	[base]="base"
	[proto]="base proto"
	[workspace]="base proto workspace"
	[broker]="base proto broker"
	[nfsd]="base proto workspace nfsd"
	[http]="base proto workspace nfsd http"
	[fuse-client]="base proto fuse-client"
)
bad=0

complain() {
	echo "$*" >&2
	bad=1
}

for folder in "${!may[@]}"; do
	while IFS=: read -r file line text; do
		header=${text#*\"}
		header=${header%%\"*}
		case $header in
		*/*)
			case " ${may[$folder]} " in
			*" ${header%%/*} "*) ;;
			*) complain "$file:$line: $folder/ must not include $header (allowed: ${may[$folder]})" ;;
			esac
			;;
		*) complain "$file:$line: \"$header\": name project headers from the top of the tree" ;;
		esac
	done < <(git grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' -- "$folder/*.[ch]" || true)
done

stems=$(git ls-files '*.c' | grep -v '^tests/' | sed 's|.*/||' | sort | uniq -d)
for stem in $stems; do
	complain "more than one file is named $stem: $(git ls-files "*/$stem" | tr '\n' ' ')"
done
exit "$bad"
