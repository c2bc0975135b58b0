#!/bin/sh
# Installs the DynamoDB server that the tests use, pinned by version and checksum, and prints its path.
set -eu

version=1.2.1
package="@dynoxide/linux-x64"
integrity="sha512-sBHqlxJ9ANkLluFkYRfd5r8Y0ApFew4FhOrlhgRAgD4XzEoFOukEo1nuBTQ1+jTtofqwn4NWQ2k0Tn5mNTjgUg=="

cache="${XDG_CACHE_HOME:-$HOME/.cache}/annals/dynoxide-$version"
server="$cache/dynoxide"
if [ -x "$server" ]; then
	echo "$server"
	exit 0
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/install.XXXXXX")
trap 'rm -rf "$work"' EXIT
npm pack --loglevel error --pack-destination "$work" "$package@$version" >/dev/null
archive=$(ls "$work"/*.tgz)
found="sha512-$(openssl dgst -sha512 -binary "$archive" | openssl base64 -A)"
if [ "$found" != "$integrity" ]; then
	echo "$package@$version has the checksum $found, not $integrity" >&2
	exit 1
fi
tar -xzf "$archive" -C "$work"
chmod +x "$work/package/dynoxide"
mv -f "$work/package/dynoxide" "$server" # atomic: another install may be running
echo "$server"
