#!/bin/sh
# Installs the DynamoDB server that the tests use, pinned by version and checksum, and prints its path.
set -eu
. "$(dirname "$0")/npm.sh"

version=1.2.1
package="@dynoxide/linux-x64"
integrity="sha512-sBHqlxJ9ANkLluFkYRfd5r8Y0ApFew4FhOrlhgRAgD4XzEoFOukEo1nuBTQ1+jTtofqwn4NWQ2k0Tn5mNTjgUg=="

cache="${XDG_CACHE_HOME:-$HOME/.cache}/annals/dynoxide-$version"
server="$cache/dynoxide"
if [ -x "$server" ]; then
	echo "$server"
	exit 0
fi

unpack "$package" "$version" "$integrity"
chmod +x "$work/package/dynoxide"
mv -f "$work/package/dynoxide" "$server" # atomic: another install may be running
echo "$server"
