#!/bin/sh
# Looks for known vulnerabilities in what the code of each module calls, with govulncheck, pinned in tools/go.mod. Its database is
# on the network: where that cannot be reached, this says so and fails nothing.
set -u
# The tool itself, since go tool hides its exit status; with the flags of the linter, which has packages in common.
command=$PWD/bin/govulncheck
CGO_ENABLED=0 "${GO:-go}" build -modfile=tools/go.mod -gcflags=all=-dwarf=false -o "$command" golang.org/x/vuln/cmd/govulncheck || exit 1
for module in . outlet otel internal/figures operate; do
	report=$(cd "$module" && $command ./... 2>&1)
	status=$?
	case $status,$report in
	0,*) echo "$module: no known vulnerabilities" ;;
	3,*) echo "$report" && exit 1 ;; # found
	*"fetching vulnerabilities"*) echo "vulnerabilities NOT checked: the database cannot be reached" && exit 0 ;;
	*) echo "$report" && exit 1 ;;
	esac
done
