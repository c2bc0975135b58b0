#!/usr/bin/env bash
# Runs every fuzz function of the repository, or of the directories named, for FUZZTIME (10s), four at a time with one worker each.
# An input that fails is printed, and stays in testdata/fuzz, where every later test run uses it. The fuzzer makes an input that reaches new code
# smaller for up to a minute; with 100 tries for that it runs up to five times as many inputs.
set -euo pipefail
export GO=${GO:-go} FUZZTIME=${FUZZTIME:-10s}

# The flags of compiler and linker take less time, see Makefile.
compile() { # directory; the program gets a name that has no slash
	CGO_ENABLED=0 "$GO" -C "$1" test -vet=off -gcflags=all=-dwarf=false -fuzz=. -c -o "$programs/${1//\//%}.test" .
}

fuzz() { # directory function
	local out try cached
	out=$(mktemp)
	cached=$("$GO" env GOCACHE)/fuzz/$("$GO" -C "$1" list .) # where go test keeps the inputs that it found
	for try in 1 2; do # the fuzzer itself sometimes ends with an error when its time is up, without a failing input
		if (cd "$1" && "$programs/${1//\//%}.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$FUZZTIME" -test.fuzzminimizetime 100x -test.fuzzcachedir "$cached" -test.parallel 1 -test.paniconexit0) >"$out" 2>&1; then
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
		printf '%s %s FAILED with %s:\n' "$1" "$2" "$1/$file"
		cat "$1/$file"
	fi
	return 1
}
export -f fuzz
programs=$(mktemp -d)
export programs
trap 'rm -rf "$programs"' EXIT

functions=$(grep -rEo '^func Fuzz\w*' --include='*_test.go' "${@:-.}" | sed -E 's,/[^/]*:func , ,' | sort)
printf '%s fuzz functions, %s each\n' "$(wc -l <<<"$functions")" "$FUZZTIME"
# One after the other, so that what packages have in common is compiled once.
for dir in $(cut -d ' ' -f 1 <<<"$functions" | uniq); do compile "$dir"; done
xargs -P 4 -L 1 bash -c 'fuzz "$@"' fuzz <<<"$functions"
