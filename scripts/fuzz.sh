#!/usr/bin/env bash
# Runs every fuzz function of the module, or of the packages named, for FUZZTIME (10s), three at a time with one worker each.
# An input that fails is printed, and stays in testdata/fuzz, where every later test run uses it.
set -euo pipefail
export GO=${GO:-go} FUZZTIME=${FUZZTIME:-10s}

fuzz() { # package function
	local out try
	out=$(mktemp)
	for try in 1 2; do # the fuzzer itself sometimes ends with an error when its time is up, without a failing input
		if "$GO" test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" -parallel 1 "$1" >"$out" 2>&1; then
			printf '%s %s %s\n' "$1" "$2" "$(grep '^fuzz: elapsed' "$out" | tail -1)"
			rm "$out"
			return
		fi
		if grep -q 'Failing input written' "$out" || ! grep -q 'context deadline exceeded' "$out"; then
			break
		fi
	done
	cat "$out"
	local file
	file=$(sed -n 's/^ *Failing input written to //p' "$out")
	rm "$out"
	if [ -n "$file" ]; then
		file=$("$GO" list -f '{{.Dir}}' "$1")/$file
		printf '%s %s FAILED with %s:\n' "$1" "$2" "$file"
		cat "$file"
	fi
	return 1
}
export -f fuzz

# go test -list prints the functions of a package in front of its line.
functions=$("$GO" test -list '^Fuzz' "${@:-./...}" | awk '/^Fuzz/ { names[n++] = $1 } /^ok/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }')
printf '%s fuzz functions, %s each\n' "$(wc -l <<<"$functions")" "$FUZZTIME"
xargs -P 3 -L 1 bash -c 'fuzz "$@"' fuzz <<<"$functions"
