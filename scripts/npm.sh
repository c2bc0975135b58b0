# For scripts that source it: unpacks a package of npm, after comparing its checksum, in a new directory below $cache. The files are in $work/package,
# which is removed when the script ends.
unpack() { # package version integrity
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/install.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	npm pack --loglevel error --pack-destination "$work" "$1@$2" >/dev/null
	archive=$(ls "$work"/*.tgz)
	found="sha512-$(openssl dgst -sha512 -binary "$archive" | openssl base64 -A)"
	if [ "$found" != "$3" ]; then
		echo "$1@$2 has the checksum $found, not $3" >&2
		exit 1
	fi
	tar -xzf "$archive" -C "$work"
}
