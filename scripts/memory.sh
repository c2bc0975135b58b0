#!/bin/sh
# Prints the directory for the temporary files of tests, which sync them often: /dev/shm, in memory, where it has 8 GB free and runs
# programs, else the usual one. The programs of the tests take two of them.
set -eu
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ "${free:-0}" -ge 8000000 ] && probe=$(mktemp /dev/shm/annals.XXXXXX 2>/dev/null); then
	trap 'rm -f "$probe"' EXIT
	echo '#!/bin/sh' >"$probe"
	chmod +x "$probe"
	if "$probe" 2>/dev/null; then
		echo /dev/shm
		exit 0
	fi
fi
echo "${TMPDIR:-/tmp}"
